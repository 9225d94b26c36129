/* ONNX models: a file's bytes become a program, as a JSON document would.
 *
 * The graph is the program's one entry, "main", and its inputs and outputs are the entry's; the initialisers that it uses are the
 * program's state.  Their values lie where the file has them (raw_data and external data are not copied), so |file| and the model
 * must live until they were loaded.  Wire names are ONNX's own; where these do not match the API's pattern, what is not
 * allowed became _, and a number tells equal ones apart.
 *
 * An input that ImageDecoder takes is an encoded picture in the model, and its pixels in the program: uint8 [INPUT.height,
 * INPUT.width, 3], red, green and blue, as proto/picture.h has them.
 *
 * A tensor of strings is one of int64 in the program: the numbers of its texts in the model's table, and from its end on those of
 * texts that the model does not know.  A map, or a sequence of maps, is a tensor of a row for each map and a column for each key.
 *
 * A dimension without a size becomes a named one: dim_param's text, or "INPUT.AXIS" where that has no letter ("?").  In a model
 * with operators of ai.onnx.ml the first dimensions without a name are one, "rows".  A range that
 * the options do not give follows from what the dimension is (dims.c), and where the model cannot be expressed over that range,
 * the import finds one over which it can (search.c).  Arithmetic on shapes is done here, with these names in it.  What cannot be
 * expressed is BL_EGRAPH naming the node and its operator, bytes that are no model are BL_EINVAL, what is too large is BL_ELIMIT.
 * Thread: any, one arena each.
 *
 * Where the elements of an input decide a shape, one import serves one value of the input: the import without the value fails and
 * says which inputs are wanted, and an import with the value makes a program in which the input is a constant.  bl_onnx_outline
 * gives what all these programs have in common; bl_onnx_thin gives the bytes that their imports need. */
#ifndef BL_ONNX_ONNX_H
#define BL_ONNX_ONNX_H

#include "engine/base/mapped.h"
#include "proto/decode.h"
#include "proto/texts.h"

/* The largest size of a dimension whose range the options do not give. */
enum {
    BL_ONNX_LARGEST_BATCH = 64,
    BL_ONNX_LARGEST_TABLE = 1024, /* of the rows of a model with operators of ai.onnx.ml */
    BL_ONNX_LARGEST_SEQUENCE = 512,
    BL_ONNX_LARGEST_SIDE = 1280,     /* of a picture that is a tensor */
    BL_ONNX_LARGEST_FRAMES = 4096,   /* of a signal with several channels: 40 s in steps of 10 ms */
    BL_ONNX_LARGEST_SIGNAL = 480000, /* of a signal: 30 s at 16 kHz */
    BL_ONNX_LARGEST_PICTURE = 8192   /* of an encoded picture: rows, and pixels of a row */
};

/* What is said of a named dimension: its range, or that it is another one. */
typedef struct bl_onnx_range {
    bl_wire_var var;
    const char *same; /* the name of that; NULL: it is its own */
} bl_onnx_range;

enum {
    BL_ONNX_SMALL = 1024,           /* elements of an input whose value may be given, at most; a weight has more */
    BL_ONNX_THIN_BYTES = 512 * 1024 /* of a tensor that no import looks into: over BL_ONNX_MAX_KNOWN elements of any dtype */
};

typedef struct bl_onnx_options {
    bl_wire_limits limits;
    const char *folder; /* where external data lies, never outside it; NULL: there may be none */
    bl_mapped *files;   /* of external data: the import adds them; they must outlive its result.  NULL without |folder| */
    int nranges;        /* of named dimensions; a name that the model does not have is BL_EINVAL */
    const bl_onnx_range *ranges;
    int64_t batch; /* the largest size of the dimension that the first input begins with, unless |ranges| has it; 0: not said */
    /* Of each input of the model: its value, BL_VALUE_BYTES, which makes it a constant; or NULL.  NULL: no value is given. */
    const bl_tensor_value *const *given;
    size_t max_bytes;   /* host memory of the import, its result and mapped files not counted; 0: 1 GiB */
    double max_seconds; /* 0: no limit */
} bl_onnx_options;

/* What a tensor of the program is in the model. */
typedef enum bl_onnx_coding {
    BL_ONNX_PLAIN,
    BL_ONNX_PICTURE, /* an encoded picture, of which the program takes the pixels */
    BL_ONNX_STRINGS  /* strings, of which the program takes or gives the numbers */
} bl_onnx_coding;

/* An input or output in the model. */
typedef struct bl_onnx_port {
    const char *name;
    bl_onnx_coding coding;
    int nkeys; /* of maps, which are rows of the tensor: their keys as text, one for each column; else 0 */
    const char **keys;
} bl_onnx_port;

typedef struct bl_onnx_model {
    bl_program_doc program;         /* options are left at "not given" */
    bl_onnx_port *inputs, *outputs; /* of "main", in its order */
    bl_texts texts;                 /* all strings that the model knows, by their numbers */
    int *number;                    /* of the inputs: which of the model's it is */
    int ninputs;                    /* of the model, the given ones among them; initialisers are none */
    bool *wanted;               /* after a failure, of the model's inputs: their values are missing.  NULL: no value would help */
    int *weight;                /* of the program's states, where values are given: its number among the outline's, or -1 */
    bl_wire_type *output_types; /* of an outline, as declared: BL_DTYPE_COUNT, ndim -1 and size -1 where the model does not */
    int nranges; /* of all named dimensions, as they were chosen: with these options the import comes to the same at once */
    bl_onnx_range *ranges;
    int attempts; /* imports that it took */
} bl_onnx_model;

/* |out| lives in |arena|, and values that are external data are views into options->files. */
BL_NODISCARD bl_status bl_onnx_import(bl_span file, const bl_onnx_options *options, bl_arena *arena, bl_onnx_model *out,
                                      bl_err *err);
/* The same without nodes and values.  The states are the model's weights: all of its tensors that have more than BL_ONNX_SMALL
 * elements, in bodies and functions too.  Operators that are missing are told. */
BL_NODISCARD bl_status bl_onnx_outline(bl_span file, const bl_onnx_options *options, bl_arena *arena, bl_onnx_model *out,
                                       bl_err *err);
/* *out is the file without the bytes of tensors that have more than BL_ONNX_THIN_BYTES: an import with values needs no others. */
BL_NODISCARD bl_status bl_onnx_thin(bl_span file, bl_arena *arena, bl_span *out, bl_err *err);

#endif
