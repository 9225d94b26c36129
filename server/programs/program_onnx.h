/* A program from an ONNX model in a request. */
#ifndef BL_SERVER_PROGRAMS_PROGRAM_ONNX_H
#define BL_SERVER_PROGRAMS_PROGRAM_ONNX_H

#include "proto/onnx/onnx.h"
#include "server/run/exec.h"

/* Decode the request's body to program->doc; its query ("device", "dims") gives the options.  The memory of the state's values
 * lives as long as the request.  Thread: HTTP. */
BL_NODISCARD bl_status bl_program_import(bl_request *rq, bl_program *program);
/* Decode |file| to program->doc, with program->variants if values of inputs decide shapes.  *out: the inputs and outputs of the
 * model. */
BL_NODISCARD bl_status bl_program_import_file(bl_request *rq, bl_program *program, bl_span file, const bl_onnx_options *options,
                                              bl_onnx_model *out);

#endif
