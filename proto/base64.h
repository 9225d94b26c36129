/* RFC 4648 base64, strictly: the standard alphabet, padding required, no line breaks, no stray bits.  Thread: any. */
#ifndef BL_PROTO_BASE64_H
#define BL_PROTO_BASE64_H

#include "engine/base/text.h"

/* Bytes that |text| holds by its length and padding; false where its length is no multiple of four. */
bool bl_base64_size(bl_span text, size_t *bytes);
/* |out| has room for bl_base64_size bytes.  False at the first byte that does not belong. */
bool bl_base64_decode(bl_span text, void *out);
/* Append the text of |bytes| bytes. */
void bl_base64_encode(bl_text *out, const void *data, size_t bytes);

#endif
