/* A dialect: how a target language writes the expressions of a kernel. The walker (render.c) writes the statements. */
#ifndef BL_RENDER_DIALECT_H
#define BL_RENDER_DIALECT_H

#include "engine/render/cold.h"
#include "engine/render/render.h"

struct unit_inst;

/* The text of an operand, its dtype and its lanes. */
typedef struct operand {
    const char *text;
    bl_dtype dtype;
    int lanes;
} operand;

/* The elements of an access: |lanes| elements from |index| on. |aligned|: the index is a multiple of the lanes. |whole|: the
 * addresses are multiples of the vector size too, and the dialect should say so. |streams|: a store should bypass the
 * caches. |bits|: copy the bits without conversion. |quads|: local memory of render_has_quads. |narrow|: local memory in
 * which float16 and bfloat16 take 16 bits. */
typedef struct place {
    const char *buffer, *index;
    bl_dtype dtype;
    int lanes;
    bool aligned, whole, streams, local, narrow, bits, quads;
} place;

/* All functions return expressions as texts in |arena|, the arena of the walk. */
typedef struct dialect {
    /* by op, for int32 and for int64: the text of an op that must wrap on overflow where overflow is undefined in the
     * language; or NULL */
    const char *const *wraps[2];
    /* by op: replaces the text of alu.def for scalars and vectors; NULL (the entry or the table): keep the text of
     * alu.def */
    const char *const *alu;
    /* The type of a value, for instance "float16". */
    const char *(*type)(bl_arena *arena, bl_dtype dtype, int lanes);
    const char *(*literal)(bl_arena *arena, bl_dtype dtype, bl_scalar value);
    /* Broadcast the scalar |x| to |lanes| lanes. */
    const char *(*repeat)(bl_arena *arena, operand x, int lanes);
    /* Lane |lane| of |x|. */
    const char *(*lane)(bl_arena *arena, operand x, int lane);
    /* The first (|which| 0) or the second (1) half of the lanes of |x|, which has at least four. */
    const char *(*half)(bl_arena *arena, operand x, int which);
    /* |count| lanes of |x|, starting at |first|, |step| apart. Not for bools. NULL: lane by lane. */
    const char *(*pick)(bl_arena *arena, operand x, int first, int step, int count);
    /* A vector of |lanes| lanes made of |n| parts, most of them scalars. */
    const char *(*stack)(bl_arena *arena, bl_dtype dtype, int lanes, int n, const operand *parts);
    const char *(*cast)(bl_arena *arena, bl_dtype to, operand x);
    const char *(*bitcast)(bl_arena *arena, bl_dtype to, operand x);
    /* Round or wrap |x| after an ALU op on a dtype that is computed in a wider type. */
    const char *(*fit)(bl_arena *arena, bl_dtype dtype, int lanes, const char *x);
    const char *(*compare)(bl_arena *arena, bl_op op, operand x, operand y); /* |x| and |y| have the same number of lanes */
    const char *(*where)(bl_arena *arena, operand condition, operand yes, operand no);
    const char *(*load)(bl_arena *arena, place from);
    const char *(*store)(bl_arena *arena, place to, const char *value); /* the result is a statement without its semicolon */
    /* Load or store a contiguous vector under a mask. An element is read or written only if its lane of |open| is true; the
     * lanes of elements that are not read are 0. The function pointer or its result is NULL if the dialect has no function for
     * the dtype. */
    const char *(*load_masked)(bl_arena *arena, place from, const char *open);
    const char *(*store_masked)(bl_arena *arena, place to, const char *value, const char *open);
    /* Access |to.lanes| elements, |stride| apart, by a function call (cold.h). The function pointer or its result is NULL if
     * the dialect has no such call for the dtype. */
    const char *(*gather)(bl_arena *arena, place from, int64_t stride);
    const char *(*scatter)(bl_arena *arena, place to, int64_t stride, const char *value);
    /* Declare local memory, at |offset| bytes of the function's local memory (-1: as a separate variable). NULL: local
     * memory is declared before the function. */
    const char *(*local_buffer)(bl_arena *arena, const char *name, const bl_inst *buffer, int64_t offset);
    const char *false_text; /* a false bool that can be compared with vectors too */
    /* and, or and xor of bools are bool_and() and so on, because the language has no such operators on vectors */
    bool bool_functions;
    bool narrow_index;  /* buffers are indexed by 32 bits only */
    bool pointers;      /* (b + i)[j] may be written for b[i + j] */
    bool moves_bits;    /* load and store support |bits| */
    const char *rolled; /* written before a loop that the driver must not unroll; NULL: the language has no such hint */
    const char *group_id[3], *local_id[3], *barrier;
    /* coordinates of the group in a function (bl_render_source); NULL: the language has kernels only */
    const char *group_parameter[3];
    const char *scalar;                                              /* printf format of scalar parameter number %u */
    const char *(*unit)(bl_arena *arena, const struct unit_inst *u); /* the result is a whole statement: see unit.h */
    /* Write all text up to the first statement. |function|: write a function rather than a kernel. |cold|: see cold.h, or
     * NULL. */
    bl_status (*begin)(const bl_linear *linear, const bl_device_info *info, bool function, const cold_kind *cold, bl_text *out,
                       bl_err *err);
} dialect;

/* Is local buffer |number| an array of whole groups of four floats, and is some group loaded as a whole? GLSL then declares
 * the buffer as vec4 or u16vec4. */
bool render_has_quads(const bl_linear *linear, uint32_t number);

/* Is instruction |number| a loop that a GPU's driver must not unroll? */
bool render_is_rolled(const bl_linear *linear, const bl_device_info *info, uint32_t number);

extern const dialect dialect_opencl, dialect_glsl;

/* Without memory a text is empty; the arena records the failure. */
static inline const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}
#define SAY(...) or_empty(bl_arena_printf(__VA_ARGS__))

/* The texts of |n| operands, separated by commas. */
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
