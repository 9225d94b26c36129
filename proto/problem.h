/* Writes RFC 9457 problem documents from a bl_err.  Thread: any. */
#ifndef BL_PROTO_PROBLEM_H
#define BL_PROTO_PROBLEM_H

#include "engine/base/text.h"

/* Appends {"type","title","status","detail"} and, if known, "node"; with |step|, also the number of applied steps. NULL: no
 * step. */
void bl_problem_write(bl_text *out, const bl_err *err, const uint64_t *step);
/* Appends OpenAI's error object, {"error":{"message","type","param","code"}}.  |type| NULL: the default of the status; |members|:
 * more members of the inner object, each after a comma, or NULL. */
void bl_problem_write_openai(bl_text *out, const bl_err *err, const char *type, const char *members);
/* The HTTP status that OpenAI clients expect for |status|. */
int bl_problem_status_openai(bl_status status);

#endif
