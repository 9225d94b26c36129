/* Helpers of the operators of ai.onnx.ml: attributes of any length, constants, scores and class labels.  Each function returns
 * NULL after a failure (proto/onnx/import.h).  Thread: the import's thread. */
#ifndef BL_ONNX_ML_H
#define BL_ONNX_ML_H

#include "proto/onnx/import.h"

/* ---- attributes of any length (ops_ml.c) */

/* The attribute; NULL if it is omitted, or of another kind, which is a failure. */
const Onnx__AttributeProto *bl_ml_ints(bl_onnx_call *c, const char *name);
const Onnx__AttributeProto *bl_ml_strings(bl_onnx_call *c, const char *name);
/* Floats, or the tensor "NAME_as_tensor" or NAME.  Returns their number, 0 if omitted, -1 after a failure. */
int64_t bl_ml_numbers(bl_onnx_call *c, const char *name, const double **out);

/* ---- constants (ops_ml.c) */

/* A state of the program; the caller writes its bytes to |to|.  NULL after a failure. */
bl_onnx_value *bl_ml_store(bl_onnx_call *c, const char *name, bl_dtype dtype, int ndim, const int64_t *dim, char **to);
/* Like bl_ml_store, filled with these elements, in |dtype|. */
bl_onnx_value *bl_ml_store_numbers(bl_onnx_call *c, const char *name, bl_dtype dtype, int ndim, const int64_t *dim,
                                   const double *number);
bl_onnx_value *bl_ml_store_ints(bl_onnx_call *c, const char *name, int64_t count, const int32_t *whole);

/* ---- inputs and scores (ops_ml.c) */

/* Input 0 as [rows, features], in float64 if it has that dtype, else float32. */
bl_onnx_value *bl_ml_rows(bl_onnx_call *c);
/* Applies |transform|, a post_transform of the standard, to the scores [rows, n].  As in onnxruntime, a single column changes
 * only with PROBIT. */
bl_onnx_value *bl_ml_transform(bl_onnx_call *c, bl_onnx_value *scores, const char *transform);
/* Column |at| of [rows, n]: [rows, 1]. */
bl_onnx_value *bl_ml_column(bl_onnx_call *c, bl_onnx_value *x, int64_t at);
/* [1 - score, score], or [-score, score] with |opposite|, as float32 [rows, 2]; applies LOGISTIC and PROBIT. */
bl_onnx_value *bl_ml_two_columns(bl_onnx_call *c, bl_onnx_value *score, bool opposite, const char *transform);

/* Class labels. */
typedef struct bl_ml_labels {
    int64_t count; /* 0: the class numbers are the labels */
    const Onnx__AttributeProto *ints, *strings;
} bl_ml_labels;

/* Reads "classlabels_strings", and "classlabels_ints" or "classlabels_int64s". */
bl_ml_labels bl_ml_read_labels(bl_onnx_call *c);
/* int64 [n]: the numbers of these texts. */
bl_onnx_value *bl_ml_texts(bl_onnx_call *c, const Onnx__AttributeProto *strings);
/* The labels of the classes |at|, of any shape. */
bl_onnx_value *bl_ml_label(bl_onnx_call *c, const bl_ml_labels *labels, bl_onnx_value *at);

#endif
