/* What a target's text needs beyond the walker: each row gives expressions, the walker gives statements. */
#ifndef BL_RENDER_DIALECT_H
#define BL_RENDER_DIALECT_H

#include "engine/render/render.h"

/* Text of an operand, as many lanes as it has. */
typedef struct operand {
    const char *text;
    bl_dtype dtype;
    int lanes;
} operand;

typedef struct dialect {
    const char *const *
        wraps[2]; /* by op, for int32 and for int64: the text where overflow must wrap and the language leaves it open; or NULL */
    const char *const
        *alu; /* by op: overrides the text of alu.def for scalars and vectors alike; NULL, the table too: no override */
    /* The type of a value, "float16". */
    void (*type)(bl_text *out, bl_dtype dtype, int lanes);
    void (*literal)(bl_text *out, bl_dtype dtype, bl_scalar value);
    /* |x| with |lanes| lanes, all the same. */
    void (*repeat)(bl_text *out, operand x, int lanes);
    /* Lane |lane| of |x|. */
    void (*lane)(bl_text *out, operand x, int lane);
    /* The first (0) or the last (1) half of the lanes of |x|, which has four or more. */
    void (*half)(bl_text *out, operand x, int which);
    void (*stack)(bl_text *out, bl_dtype dtype, int lanes, const operand *scalars);
    void (*cast)(bl_text *out, bl_dtype to, operand x);
    void (*bitcast)(bl_text *out, bl_dtype to, operand x);
    /* After an ALU op on a dtype that is computed in a wider type: round or wrap |x|. */
    void (*fit)(bl_text *out, bl_dtype dtype, int lanes, const char *x);
    void (*compare)(bl_text *out, bl_op op, operand x, operand y); /* both of the same lanes */
    void (*where)(bl_text *out, operand condition, operand yes, operand no);
    /* |lanes| elements of buffer |buffer| from index |index| on. */
    void (*load)(bl_text *out, const char *buffer, bl_dtype dtype, int lanes, const char *index, bool aligned, bool local);
    void (*store)(bl_text *out, const char *buffer, bl_dtype dtype, int lanes, const char *index, const char *value, bool aligned,
                  bool local);
    void (*local_buffer)(bl_text *out, const char *name, bl_dtype dtype, int64_t elements); /* a declaration */
    const char *false_text; /* a false bool that compares with vectors too */
    bool bool_functions;    /* and, or, xor of bools are bool_and() ...: the language has no such operators on vectors */
    bool narrow_index;      /* buffers are indexed by 32 bits only */
    bool local_outside;     /* such declarations stand before the function */
    const char *group_id[3], *local_id[3], *barrier;
    const char *scalar; /* printf form of scalar parameter %u */
    bl_status (*begin)(const bl_linear *linear, const bl_device_info *info, bl_text *out, bl_err *err);
} dialect;

extern const dialect dialect_opencl, dialect_glsl;

/* Is the dtype computed as float and stored in 16 bits? */
static inline bool is_half(bl_dtype dtype)
{
    return dtype == BL_F16 || dtype == BL_BF16;
}

#endif
