/* Strict base64 of RFC 4648: the standard alphabet, required padding, no line breaks, no nonzero unused bits.  Thread: any. */
#ifndef BL_PROTO_BASE64_H
#define BL_PROTO_BASE64_H

#include "engine/base/text.h"

/* Computes the decoded size of |text| from its length and padding; false if the length is no multiple of four. */
bool bl_base64_size(bl_span text, size_t *bytes);
/* |out| has room for bl_base64_size bytes.  Returns false at the first invalid byte. */
bool bl_base64_decode(bl_span text, void *out);
/* Appends the base64 text of |bytes| bytes. */
void bl_base64_encode(bl_text *out, const void *data, size_t bytes);

#endif
