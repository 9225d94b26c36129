/* Imports ONNX models: a model file becomes a program, like a JSON document.
 *
 * The graph becomes the program's single entry, "main", with the graph's inputs and outputs; the initialisers that it uses become
 * the program's state.  Their values stay in the file (raw_data and external data are not copied), so |file| and the model must
 * live until the values are loaded.  Wire names are ONNX's names; characters that the API does not allow become _, and a number
 * makes equal names distinct.
 *
 * An input of ImageDecoder is an encoded picture in the model and its pixels in the program: uint8 [INPUT.height, INPUT.width,
 * 3], red, green and blue, as in proto/picture.h.
 *
 * A tensor of strings becomes int64: the numbers of the texts in the model's table; texts unknown to the model have numbers from
 * its end on.  A map, or a sequence of maps, becomes a tensor with a row for each map and a column for each key.
 *
 * A dimension without a size becomes a named one: dim_param's text, or "INPUT.AXIS" if that has no letter ("?").  In a model with
 * operators of ai.onnx.ml, all unnamed first dimensions are one dimension, "rows".  If the options give no range, the range
 * follows from the dimension's role (dims.c); if the model cannot be expressed over that range, the import searches one that
 * works (search.c).  The import evaluates arithmetic on shapes, with these names in it.  BL_EGRAPH: the model cannot be
 * expressed; the message names the node and its operator.  BL_EINVAL: the bytes are no model.  BL_ELIMIT: something is too large.
 * Thread: any, one arena each.
 *
 * If the elements of an input determine a shape, one import serves one value of the input: an import without the value fails and
 * reports the wanted inputs, and an import with the value makes a program in which the input is a constant.  bl_onnx_outline
 * gives the common parts of all these programs; bl_onnx_thin gives the bytes that their imports need. */
#ifndef BL_ONNX_H
#define BL_ONNX_H

#include "engine/base/mapped.h"
#include "proto/decode.h"
#include "proto/texts.h"

/* The largest size of a dimension without a range in the options. */
enum {
    BL_ONNX_LARGEST_BATCH = 64,
    BL_ONNX_LARGEST_TABLE = 1024, /* rows, in a model with operators of ai.onnx.ml */
    BL_ONNX_LARGEST_SEQUENCE = 512,
    BL_ONNX_LARGEST_SIDE = 1280,     /* a side of a picture tensor */
    BL_ONNX_LARGEST_FRAMES = 4096,   /* of a multichannel signal: 40 s in steps of 10 ms */
    BL_ONNX_LARGEST_SIGNAL = 480000, /* of a signal: 30 s at 16 kHz */
    BL_ONNX_LARGEST_PICTURE = 8192   /* of an encoded picture: rows, and pixels of a row */
};

/* A setting of a named dimension: its range, or that it equals another one. */
typedef struct bl_onnx_range {
    bl_wire_var var;
    const char *same; /* name of the dimension that this dimension equals; NULL: independent */
} bl_onnx_range;

enum {
    BL_ONNX_SMALL = 1024,           /* most elements of an input whose value may be given; a weight has more */
    BL_ONNX_THIN_BYTES = 512 * 1024 /* largest tensor that bl_onnx_thin keeps; a larger tensor has over BL_ONNX_MAX_KNOWN
                                     * elements of any dtype, so no import reads its elements */
};

typedef struct bl_onnx_options {
    bl_wire_limits limits;
    const char *folder; /* folder of external data; files outside it are refused.  NULL: no external data */
    bl_mapped *files;   /* files of external data, which the import adds; they must outlive its result.  NULL without |folder| */
    int nranges;        /* number of ranges of named dimensions; a name without a dimension in the model is BL_EINVAL */
    const bl_onnx_range *ranges;
    int64_t batch; /* largest size of the first input's first dimension, unless |ranges| has it; 0: not given */
    /* The value of each model input, of kind BL_VALUE_BYTES, which makes the input a constant; or NULL for an input.  NULL: no
     * values. */
    const bl_tensor_value *const *given;
    size_t max_bytes;   /* host memory of the import without its result and mapped files; 0: 1 GiB */
    double max_seconds; /* time limit in seconds; 0: none */
} bl_onnx_options;

/* How the model represents a tensor of the program. */
typedef enum bl_onnx_coding {
    BL_ONNX_PLAIN,
    BL_ONNX_PICTURE, /* an encoded picture; the program takes its pixels */
    BL_ONNX_STRINGS  /* strings; the program takes or gives their numbers */
} bl_onnx_coding;

/* An input or output of the model. */
typedef struct bl_onnx_port {
    const char *name;
    bl_onnx_coding coding;
    int nkeys; /* maps, as rows of the tensor: number and texts of the keys, one key for each column; else 0 */
    const char **keys;
} bl_onnx_port;

typedef struct bl_onnx_model {
    bl_program_doc program;         /* its options are "not given" */
    bl_onnx_port *inputs, *outputs; /* of "main", in its order */
    bl_texts texts;                 /* all strings of the model, by their numbers */
    int *number;                    /* for each program input: its number among the model's inputs */
    int ninputs;                    /* of the model, including those with given values, without initialisers */
    bool *wanted;                   /* after a failure: model inputs whose values are missing.  NULL: no value would help */
    int *weight;                    /* with given values, for each state of the program: its number among the outline's states, or
                                     * -1 */
    bl_wire_type *output_types;     /* of an outline, as declared: BL_DTYPE_COUNT, ndim -1 or size -1 for an undeclared part */
    int nranges; /* all named dimensions with their chosen ranges; an import with these ranges as options gives the same result
                  * in one attempt */
    bl_onnx_range *ranges;
    int attempts; /* number of imports that were tried */
} bl_onnx_model;

/* |out| lives in |arena|; values in external data refer to options->files. */
BL_NODISCARD bl_status bl_onnx_import(bl_span file, const bl_onnx_options *options, bl_arena *arena, bl_onnx_model *out,
                                      bl_err *err);
/* Like bl_onnx_import, without nodes and values.  The states are the model's weights: all tensors with more than BL_ONNX_SMALL
 * elements, including those of bodies and functions.  Reports unknown operators. */
BL_NODISCARD bl_status bl_onnx_outline(bl_span file, const bl_onnx_options *options, bl_arena *arena, bl_onnx_model *out,
                                       bl_err *err);
/* |*out| is the file without the bytes of tensors larger than BL_ONNX_THIN_BYTES; imports with given values do not need them. */
BL_NODISCARD bl_status bl_onnx_thin(bl_span file, bl_arena *arena, bl_span *out, bl_err *err);

#endif
