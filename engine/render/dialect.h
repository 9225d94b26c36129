/* What a target's text needs beyond the walker: each row gives expressions, the walker gives statements. */
#ifndef BL_RENDER_DIALECT_H
#define BL_RENDER_DIALECT_H

#include "engine/render/cold.h"
#include "engine/render/render.h"

struct unit_inst;

/* Text of an operand, as many lanes as it has. */
typedef struct operand {
    const char *text;
    bl_dtype dtype;
    int lanes;
} operand;

/* Where an access goes: |lanes| elements from |index| on; |aligned|: the index is a multiple of the lanes;
 * |whole|: so are addresses, and it is worth saying; |streams|: a store is to go past the caches, if it can; |quads|: local
 * memory of render_has_quads; |narrow|: local memory where float16 and bfloat16 take 16 bits. */
typedef struct place {
    const char *buffer, *index;
    bl_dtype dtype;
    int lanes;
    bool aligned, whole, streams, local, narrow, bits, quads;
} place;

/* Expressions are texts in the arena of the walk. */
typedef struct dialect {
    const char *const *
        wraps[2]; /* by op, for int32 and for int64: the text where overflow must wrap and the language leaves it open; or NULL */
    const char *const
        *alu; /* by op: overrides the text of alu.def for scalars and vectors alike; NULL, the table too: no override */
    /* The type of a value, "float16". */
    const char *(*type)(bl_arena *arena, bl_dtype dtype, int lanes);
    const char *(*literal)(bl_arena *arena, bl_dtype dtype, bl_scalar value);
    /* |x| with |lanes| lanes, all the same. */
    const char *(*repeat)(bl_arena *arena, operand x, int lanes);
    /* Lane |lane| of |x|. */
    const char *(*lane)(bl_arena *arena, operand x, int lane);
    /* The first (0) or the last (1) half of the lanes of |x|, which has four or more. */
    const char *(*half)(bl_arena *arena, operand x, int which);
    /* Lanes of |x|, which are no bools: |count| of them, each |step| behind the one before.  NULL: one by one. */
    const char *(*pick)(bl_arena *arena, operand x, int first, int step, int count);
    /* A vector of |lanes| lanes: |n| parts, most of them scalars. */
    const char *(*stack)(bl_arena *arena, bl_dtype dtype, int lanes, int n, const operand *parts);
    const char *(*cast)(bl_arena *arena, bl_dtype to, operand x);
    const char *(*bitcast)(bl_arena *arena, bl_dtype to, operand x);
    /* After an ALU op on a dtype that is computed in a wider type: round or wrap |x|. */
    const char *(*fit)(bl_arena *arena, bl_dtype dtype, int lanes, const char *x);
    const char *(*compare)(bl_arena *arena, bl_op op, operand x, operand y); /* both of the same lanes */
    const char *(*where)(bl_arena *arena, operand condition, operand yes, operand no);
    const char *(*load)(bl_arena *arena, place from);
    const char *(*store)(bl_arena *arena, place to, const char *value); /* a statement without its semicolon */
    /* |to.lanes| elements, |stride| apart, by a call (cold.h); NULL, the text or the function: there is none for the dtype. */
    const char *(*gather)(bl_arena *arena, place from, int64_t stride);
    const char *(*scatter)(bl_arena *arena, place to, int64_t stride, const char *value);
    /* A declaration of local memory, |offset| bytes into the function's (-1: of its own); NULL: they stand before the function.
     */
    const char *(*local_buffer)(bl_arena *arena, const char *name, const bl_inst *buffer, int64_t offset);
    const char *false_text; /* a false bool that compares with vectors too */
    bool bool_functions;    /* and, or, xor of bools are bool_and() ...: the language has no such operators on vectors */
    bool narrow_index;      /* buffers are indexed by 32 bits only */
    bool pointers;          /* (b + i)[j] is b[i + j] */
    bool moves_bits;        /* load and store know |bits| */
    const char *rolled;     /* stands before a loop that the driver shall leave as it is; NULL: it is not asked to */
    const char *group_id[3], *local_id[3], *barrier;
    const char *group_parameter[3]; /* in a function (bl_render_source); NULL: the language has kernels only */
    const char *scalar;             /* printf form of scalar parameter %u */
    const char *(*unit)(bl_arena *arena, const struct unit_inst *u); /* a whole statement: see unit.h */
    /* All up to the first statement; |function|: not of a kernel; |cold|: cold.h, or NULL. */
    bl_status (*begin)(const bl_linear *linear, const bl_device_info *info, bool function, const cold_kind *cold, bl_text *out,
                       bl_err *err);
} dialect;

/* Is local buffer |number| one of whole fours of floats, some of which are loaded as such?  GLSL says vec4 then, or u16vec4. */
bool render_has_quads(const bl_linear *linear, uint32_t number);

/* Is instruction |number| a loop that a GPU's driver shall not unroll? */
bool render_is_rolled(const bl_linear *linear, const bl_device_info *info, uint32_t number);

extern const dialect dialect_opencl, dialect_glsl;

/* Where memory ran out a text is empty; the arena says so in the end. */
static inline const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}
#define SAY(...) or_empty(bl_arena_printf(__VA_ARGS__))

/* The texts of |n| operands, with commas between. */
static inline const char *list_of(bl_arena *arena, int n, const operand *x)
{
    const char *list = x[0].text;

    for (int i = 1; i < n; i++)
        list = SAY(arena, "%s, %s", list, x[i].text);
    return list;
}

/* Is the dtype computed as float and stored in 16 bits? */
static inline bool is_half(bl_dtype dtype)
{
    return dtype == BL_F16 || dtype == BL_BF16;
}

#endif
