/* What operators of ai.onnx.ml share. */
#ifndef BL_ONNX_ML_H
#define BL_ONNX_ML_H

#include "proto/onnx/import.h"

/* ---- attributes of any length (ops_ml.c) */

/* The attribute, or NULL where it is left out or of another kind, which is a failure. */
const Onnx__AttributeProto *bl_ml_ints(bl_onnx_call *c, const char *name);
const Onnx__AttributeProto *bl_ml_strings(bl_onnx_call *c, const char *name);
/* Floats, or the tensor "NAME_as_tensor" or NAME: how many, 0 where they are left out, -1 after a failure. */
int64_t bl_ml_numbers(bl_onnx_call *c, const char *name, const double **out);

/* ---- constants (ops_ml.c) */

/* A state of the program, whose bytes the caller writes to |to|; NULL after a failure. */
bl_onnx_value *bl_ml_store(bl_onnx_call *c, const char *name, bl_dtype dtype, int ndim, const int64_t *dim, char **to);
/* The same with these elements, in |dtype|. */
bl_onnx_value *bl_ml_store_numbers(bl_onnx_call *c, const char *name, bl_dtype dtype, int ndim, const int64_t *dim,
                                   const double *number);
bl_onnx_value *bl_ml_store_ints(bl_onnx_call *c, const char *name, int64_t count, const int32_t *whole);

/* ---- inputs and scores (ops_ml.c) */

/* Input 0 as [rows, features]: float64 where it is that, else float32. */
bl_onnx_value *bl_ml_rows(bl_onnx_call *c);
/* What |transform|, one of the standard's post_transform, makes of the scores [rows, n].  As in onnxruntime a single column is
 * left as it is, but by PROBIT. */
bl_onnx_value *bl_ml_transform(bl_onnx_call *c, bl_onnx_value *scores, const char *transform);
/* Column |at| of [rows, n]: [rows, 1]. */
bl_onnx_value *bl_ml_column(bl_onnx_call *c, bl_onnx_value *x, int64_t at);
/* 1 - |score| and |score|, or -|score| and |score| where |opposite|, as float32 [rows, 2]; LOGISTIC and PROBIT transform. */
bl_onnx_value *bl_ml_two_columns(bl_onnx_call *c, bl_onnx_value *score, bool opposite, const char *transform);

/* Labels of classes. */
typedef struct bl_ml_labels {
    int64_t count; /* 0: the numbers of the classes */
    const Onnx__AttributeProto *ints, *strings;
} bl_ml_labels;

/* The attributes "classlabels_strings", and "classlabels_ints" or "classlabels_int64s". */
bl_ml_labels bl_ml_read_labels(bl_onnx_call *c);
/* int64 [n]: the numbers of these texts. */
bl_onnx_value *bl_ml_texts(bl_onnx_call *c, const Onnx__AttributeProto *strings);
/* The labels of classes |at|, of any shape. */
bl_onnx_value *bl_ml_label(bl_onnx_call *c, const bl_ml_labels *labels, bl_onnx_value *at);

#endif
