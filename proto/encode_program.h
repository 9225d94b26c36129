/* Writes a program as a document that PUT of a program accepts; the server stores it and compiles it again later.  Thread:
 * any. */
#ifndef BL_PROTO_ENCODE_PROGRAM_H
#define BL_PROTO_ENCODE_PROGRAM_H

#include "proto/decode.h"

/* Writes the nodes in their order, sources first, so that the decoded document has the same structure (bl_wire_make_key) and
 * draws the same random numbers.  Of the state it writes dtypes and shapes only; of the options, |device| and the precision.
 * Check bl_text_status for failures. */
void bl_encode_program(bl_text *out, const bl_program_doc *program, const char *device);

/* "name":{"dtype":"float32","shape":[2,"n"]}; |vars| are the named dimensions, or NULL. */
void bl_encode_type(bl_text *out, const bl_wire_tensor *tensor, const bl_wire_var *vars);

#endif
