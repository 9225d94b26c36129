/* A program as a document again, as PUT of a program takes it: for what is stored and compiled anew later.  Thread: any. */
#ifndef BL_PROTO_ENCODE_PROGRAM_H
#define BL_PROTO_ENCODE_PROGRAM_H

#include "proto/decode.h"

/* Nodes stand in their order, sources first, so that what is decoded from it has the same structure (bl_wire_make_key) and draws
 * the same random numbers.  Of state only dtypes and shapes are written, of options the device, which is |device|, and the
 * precision.  Fails only by bl_text_status. */
void bl_encode_program(bl_text *out, const bl_program_doc *program, const char *device);

/* "name":{"dtype":"float32","shape":[2,"n"]}; |vars| are the named dimensions, NULL where there are none. */
void bl_encode_type(bl_text *out, const bl_wire_tensor *tensor, const bl_wire_var *vars);

#endif
