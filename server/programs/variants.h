/* SPDX-License-Identifier: MIT */
/* A program that is compiled for the values of some inputs: an ONNX model in which elements of these inputs decide shapes.
 *
 * The program holds the weights and has no entry of its own.  A run brings the values, and each set of values has a variant: a
 * program of one entry, "main", in which these inputs are constants.  A variant has the program's weights by reference.  A
 * cache keeps the variants that were used last.  A variant keeps the named dimensions, unless the values fit one size of them
 * alone ([8, 96] fits batch = 8).  An import that fails because a value is missing says which inputs it needs, and the next
 * import of the same run has their values.  Thread: any. */
#ifndef BL_SERVER_PROGRAMS_VARIANTS_H
#define BL_SERVER_PROGRAMS_VARIANTS_H

#include "proto/onnx/onnx.h"
#include "server/run/exec.h"

/* In the cache of one program.  A variant costs a plan and its small constants; a miss costs a compilation. */
enum { BL_MOST_VARIANTS = 16 };

typedef struct bl_variants bl_variants;

/* Lives as long as its program. */
typedef struct bl_variant {
    struct bl_variant *next;
    bl_program *program;
    int *input; /* for each input of the variant: its index among the model's inputs */
    /* for each of the model's inputs: the value, or NULL if it is an input of the variant */
    const bl_tensor_value *const *given;
    const int64_t *sizes; /* the sizes of the named dimensions, if the values fit only these sizes; NULL: any sizes */
} bl_variant;

/* Set program->variants and program->doc for |file|, whose import with |options| failed because the values of |wanted|
 * inputs are missing.  *outline: the inputs and outputs of the model.  The memory of the state's values lives as long as
 * the request. */
BL_NODISCARD bl_status bl_variants_create(bl_request *rq, bl_program *program, bl_span file, const bl_onnx_options *options,
                                          const bool *wanted, bl_onnx_model *outline);
void bl_variants_destroy(bl_variants *variants);       /* accepts NULL */
size_t bl_variants_bytes(const bl_variants *variants); /* bytes of host memory; 0 for NULL */
/* The entry by which runs are decoded: inputs and outputs of all variants, without nodes. */
const bl_program_entry *bl_variants_entry(const bl_variants *variants);
const bl_wire_type *bl_variants_output(const bl_variants *variants, int i); /* as the model declares it */
bool bl_variants_wants(bl_variants *variants, int input);                   /* variants depend on the value of this input */
int bl_variants_count(bl_variants *variants);                               /* the number of variants in the cache */
/* The plan of the most recently used variant, retained; NULL if there is none. */
bl_plan *bl_variants_plan(bl_variants *variants);
/* BL_OK for a program without variants.  Otherwise a failure with |what| ("no job can run it"), the inputs, and what to do. */
BL_NODISCARD bl_status bl_variants_refuse(const bl_program *program, const char *what, bl_err *err);

/* Called when the variant exists; |made|: it was made for this call.  It lives as long as the request.  The caller may set
 * rq->data. */
typedef bl_status (*bl_variant_ready)(bl_request *rq, void *arg, const bl_variant *variant, bool made);
typedef struct bl_variant_call {
    bl_program *program;           /* the program that has the variants; the caller keeps it as long as the request */
    const bl_exec *x;              /* owner of the held tensors among the values; NULL: there are none */
    const bl_tensor_value *values; /* the values of all inputs of the entry */
    const int64_t *sizes;          /* the sizes of its named dimensions */
    int priority;                  /* the priority of the compilation */
    bl_variant_ready ready;        /* called at once, or after |rq| has moved through other queues */
    void *arg;
} bl_variant_call;
/* Get the variant for these values; make it if it is missing.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_variant_get(bl_request *rq, const bl_variant_call *call);
/* The values of the variant's own inputs, from |values|; NULL if out of memory. */
bl_tensor_value *bl_variant_inputs(bl_request *rq, const bl_variant *variant, const bl_tensor_value *values);

#endif
