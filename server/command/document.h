/* SPDX-License-Identifier: MIT */
/* A JSON document of the user, kept as text. A change of one member leaves the other members as they were written, so 64-bit
 * numbers keep all digits. */
#ifndef BL_SERVER_COMMAND_DOCUMENT_H
#define BL_SERVER_COMMAND_DOCUMENT_H

#include "engine/base/text.h"

/* Read a whole file, inflated if it is compressed by gzip; "-" is standard input. */
BL_NODISCARD bl_status bl_document_read_file(const char *path, bl_text *out, bl_err *err);
/* Read a file that must contain one JSON object, inflated like bl_document_read_file; a syntax error is reported with line
 * and column. */
BL_NODISCARD bl_status bl_document_read(const char *path, bl_text *out, bl_err *err);
bool bl_document_is_json(const char *text); /* Is the text exactly one JSON value? */

/* Set member |name| of the object |in|; |in| is a member of the document, or NULL for the document itself.  A missing object
 * is created; a NULL value removes the member. */
void bl_document_set(bl_text *document, const char *in, const char *name, const char *value);
void bl_document_set_string(bl_text *document, const char *name, const char *value);

#endif
