/* SPDX-License-Identifier: MIT */
/* A JSON document of the user, as text: members are set and dropped without touching the others, so that every number stays as it
 * was written, 64 bits included. */
#ifndef BL_SERVER_COMMAND_DOCUMENT_H
#define BL_SERVER_COMMAND_DOCUMENT_H

#include "engine/base/text.h"

/* All of a file, inflated where gzip packed it; "-" is standard input. */
BL_NODISCARD bl_status bl_document_read_file(const char *path, bl_text *out, bl_err *err);
/* The same of a file that must hold one JSON object; a syntax error is told with its line and column. */
BL_NODISCARD bl_status bl_document_read(const char *path, bl_text *out, bl_err *err);
bool bl_document_is_json(const char *text); /* one JSON value, and nothing else */

/* Member |name| of the object |in|, itself a member of the document, or with |in| NULL of the document.  What is not there is
 * made; a value of NULL drops the member. */
void bl_document_set(bl_text *document, const char *in, const char *name, const char *value);
void bl_document_set_string(bl_text *document, const char *name, const char *value);

#endif
