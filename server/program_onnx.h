/* A program from an ONNX model that a request brought. */
#ifndef BL_SERVER_PROGRAM_ONNX_H
#define BL_SERVER_PROGRAM_ONNX_H

#include "proto/onnx/onnx.h"
#include "server/exec.h"

/* The request's body as program->doc, its query ("device", "dims") as the options.  What the values of its state need lives as
 * long as the request.  HTTP thread. */
BL_NODISCARD bl_status bl_program_import(bl_request *rq, bl_program *program);
/* |file| as program->doc, with program->variants where values of inputs decide shapes.  *out: what it takes and gives. */
BL_NODISCARD bl_status bl_program_import_file(bl_request *rq, bl_program *program, bl_span file, const bl_onnx_options *options,
                                              bl_onnx_model *out);

#endif
