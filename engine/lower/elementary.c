/* SPDX-License-Identifier: MIT */
/* exp, log and sin of float32 as arithmetic that every device with BL_FEATURE_EXACT rounds alike. The functions of drivers are
 * faster in long kernels, but their last bits differ from the interpreter's. exp and log follow Cephes (Moshier, Methods and
 * Programs for Mathematical Functions, 1989; expf.c, logf.c); their error is at most 1 unit in the last place. sin is that of
 * the GLSL dialect (engine/render/glsl.c). All steps that may round are FMA, MUL, ADD and CAST. */
#include "engine/lower/lower.h"

#include <math.h>

typedef struct writer {
    bl_arena *arena;
    bl_linear *out;
    int capacity;
    uint8_t lanes; /* lanes of the values being written */
} writer;

static uint32_t elementary_put_inst(writer *w, bl_inst inst, const uint32_t *args)
{
    uint32_t *copy = bl_arena_array(w->arena, inst.nargs + 1, sizeof *copy);

    if (copy == NULL || !bl_arena_reserve(w->arena, (void **)&w->out->inst, (int)w->out->ninst, &w->capacity, sizeof inst))
        return 0; /* the arena is sticky */
    for (uint32_t i = 0; i < inst.nargs; i++)
        copy[i] = args[i];
    inst.args = copy;
    w->out->inst[w->out->ninst] = inst;
    return w->out->ninst++;
}

#define ARGS(...) ((const uint32_t[]){__VA_ARGS__})

/* Append an ALU instruction; |sub| as in bl_inst. */
static uint32_t put_known(writer *w, bl_op op, bl_dtype dtype, uint8_t sub, uint32_t nargs, const uint32_t *args)
{
    bl_inst inst = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .lanes = w->lanes, .sub = sub, .nargs = nargs};
    return elementary_put_inst(w, inst, args);
}

static uint32_t elementary_put(writer *w, bl_op op, bl_dtype dtype, uint32_t nargs, const uint32_t *args)
{
    return put_known(w, op, dtype, 0, nargs, args);
}

static uint32_t put_cast(writer *w, bl_op op, bl_dtype dtype, uint32_t x)
{
    return elementary_put(w, op, dtype, 1, &x);
}

static uint32_t put_const(writer *w, bl_dtype dtype, bl_scalar value)
{
    return elementary_put_inst(w, (bl_inst){.op = BL_OP_CONST, .dtype = (uint8_t)dtype, .lanes = 1, .arg = value.i}, NULL);
}

static uint32_t real(writer *w, float value)
{
    return put_const(w, BL_F32, (bl_scalar){.f = (double)value});
}

static uint32_t elementary_whole(writer *w, bl_dtype dtype, uint64_t value)
{
    return put_const(w, dtype, (bl_scalar){.u = value});
}

static uint32_t mul(writer *w, uint32_t x, uint32_t y)
{
    return elementary_put(w, BL_OP_MUL, BL_F32, 2, ARGS(x, y));
}

static uint32_t elementary_add(writer *w, uint32_t x, uint32_t y)
{
    return elementary_put(w, BL_OP_ADD, BL_F32, 2, ARGS(x, y));
}

static uint32_t fma_of(writer *w, uint32_t x, uint32_t y, uint32_t z)
{
    return elementary_put(w, BL_OP_FMA, BL_F32, 3, ARGS(x, y, z));
}

static uint32_t is_less(writer *w, uint32_t x, uint32_t y)
{
    return elementary_put(w, BL_OP_CMPLT, BL_BOOL, 2, ARGS(x, y));
}

static uint32_t elementary_choose(writer *w, bl_dtype dtype, uint32_t condition, uint32_t yes, uint32_t no)
{
    return elementary_put(w, BL_OP_WHERE, dtype, 3, ARGS(condition, yes, no));
}

/* Integer |op| with a constant as second operand. Shift amounts are below the width. */
static uint32_t with(writer *w, bl_op op, bl_dtype dtype, uint32_t x, uint64_t value)
{
    return put_known(w, op, dtype, op == BL_OP_SHL || op == BL_OP_SHR, 2, ARGS(x, elementary_whole(w, dtype, value)));
}

/* The polynomial of x with |n| coefficients, highest degree first. */
static uint32_t horner(writer *w, uint32_t x, int n, const float *coefficients)
{
    uint32_t sum = real(w, coefficients[0]);

    for (int i = 1; i < n; i++)
        sum = fma_of(w, sum, x, real(w, coefficients[i]));
    return sum;
}

/* exp(x) = 2^n exp(r), |r| <= ln(2) / 2. Adding 1.5 * 2^23 rounds to n, which then is in the lower bits of the sum. 2^n is
 * applied as two factors, 2^h and 2^(n - h) with h = floor(n / 2), so that a denormal result is rounded once. */
static uint32_t write_exp(writer *w, uint32_t x)
{
    static const float p[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 0.5f};
    const uint64_t one = 0x3f800000, exponent = 0xff800000; /* bits of 1; the exponent and the sign */
    /* beyond these bounds exp is 0 or infinite */
    uint32_t c = elementary_put(w, BL_OP_MIN, BL_F32, 2,
                                ARGS(elementary_put(w, BL_OP_MAX, BL_F32, 2, ARGS(x, real(w, -104))), real(w, 89)));
    uint32_t sum = fma_of(w, c, real(w, 1.44269504089f), real(w, 0x1.8p23f));
    uint32_t n = elementary_add(w, sum, real(w, -0x1.8p23f));
    uint32_t r = fma_of(w, n, real(w, 2.12194440e-4f), fma_of(w, n, real(w, -0.693359375f), c));
    uint32_t y = elementary_add(w, fma_of(w, horner(w, r, 6, p), mul(w, r, r), r), real(w, 1));
    uint32_t bits = put_cast(w, BL_OP_BITCAST, BL_U32, sum);
    uint32_t h = with(w, BL_OP_AND, BL_U32, with(w, BL_OP_SHL, BL_U32, bits, 22), exponent);
    uint32_t rest = put_known(w, BL_OP_SUB, BL_U32, 0, 2, ARGS(with(w, BL_OP_SHL, BL_U32, bits, 23), h));

    y = mul(w, y, put_cast(w, BL_OP_BITCAST, BL_F32, with(w, BL_OP_ADD, BL_U32, h, one)));
    return mul(w, y, put_cast(w, BL_OP_BITCAST, BL_F32, with(w, BL_OP_ADD, BL_U32, rest, one)));
}

/* log(x) = log(m) + e ln(2), sqrt(1/2) <= m < sqrt(2). */
static uint32_t write_log(writer *w, uint32_t x)
{
    static const float p[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,  -1.2420140846e-1f, 1.4249322787e-1f,
                              -1.6668057665e-1f, 2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
    const int64_t root_bits = 0x3f3504f3; /* bits of sqrt(1/2) */
    uint32_t zero = real(w, 0), small = is_less(w, x, real(w, 0x1p-126f));
    uint32_t normal = elementary_choose(w, BL_F32, small, mul(w, x, real(w, 0x1p25f)), x);
    uint32_t bits = put_cast(w, BL_OP_BITCAST, BL_I32, normal);
    uint32_t k = with(w, BL_OP_SHR, BL_I32, with(w, BL_OP_ADD, BL_I32, bits, (uint64_t)-root_bits), 23);
    uint32_t f = elementary_put(w, BL_OP_SUB, BL_I32, 2, ARGS(bits, with(w, BL_OP_SHL, BL_I32, k, 23)));
    uint32_t shift =
        elementary_choose(w, BL_I32, small, elementary_whole(w, BL_I32, (uint64_t)-25), elementary_whole(w, BL_I32, 0));
    uint32_t e = put_cast(w, BL_OP_CAST, BL_F32, elementary_put(w, BL_OP_ADD, BL_I32, 2, ARGS(k, shift))), z = 0, y = 0, is = 0;

    f = elementary_add(w, put_cast(w, BL_OP_BITCAST, BL_F32, f), real(w, -1));
    z = mul(w, f, f);
    y = mul(w, mul(w, horner(w, f, 9, p), f), z);
    y = fma_of(w, e, real(w, -2.12194440e-4f), y);
    y = elementary_add(w, f, fma_of(w, z, real(w, -0.5f), y));
    y = fma_of(w, e, real(w, 0.693359375f), y);
    is = is_less(w, x, real(w, INFINITY));
    y = elementary_choose(w, BL_F32, is, y, x); /* infinity and NaN give themselves */
    y = elementary_choose(w, BL_F32, is_less(w, x, zero), real(w, NAN), y);
    return elementary_choose(w, BL_F32, elementary_put(w, BL_OP_CMPEQ, BL_BOOL, 2, ARGS(x, zero)), real(w, -INFINITY), y);
}

/* x / pi modulo 2, for x = |x| >= 2^14 given by its bits, as a fixed-point number whose highest bit is worth 1: the mantissa
 * times the 96 bits of 1/pi that the exponent selects (Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM
 * 1983). */
static uint32_t far_turns(writer *w, uint32_t bits)
{
    static const uint32_t inverse[] = {0x00145f30, 0x6dc9c882, 0xa53f84ea, 0xfa3ea69b, 0xb81b6c52, 0xb3278872, 0x083fca2c};
    uint32_t m = with(w, BL_OP_OR, BL_U32, with(w, BL_OP_AND, BL_U32, bits, 0x7fffff), 0x800000), piece[4], product[3];
    uint32_t s = with(w, BL_OP_ADD, BL_U32, with(w, BL_OP_SHR, BL_U32, bits, 23), (uint32_t)-141);
    uint32_t left = with(w, BL_OP_AND, BL_U32, s, 31);
    uint32_t right = elementary_put(w, BL_OP_SUB, BL_U32, 2, ARGS(elementary_whole(w, BL_U32, 31), left));

    m = put_cast(w, BL_OP_CAST, BL_U64, m);
    for (int i = 0; i < 4; i++) {
        piece[i] = elementary_whole(w, BL_U32, inverse[i + 3]);
        for (int k = 3; k-- > 0;)
            piece[i] = elementary_choose(w, BL_U32, is_less(w, s, elementary_whole(w, BL_U32, 32 * (uint64_t)k + 32)),
                                         elementary_whole(w, BL_U32, inverse[i + k]), piece[i]);
    }
    for (int i = 0; i < 3; i++) {
        uint32_t low = with(w, BL_OP_SHR, BL_U32, piece[i + 1], 1);
        low = put_known(w, BL_OP_SHR, BL_U32, 1, 2, ARGS(low, right));
        low = elementary_put(w, BL_OP_OR, BL_U32, 2, ARGS(put_known(w, BL_OP_SHL, BL_U32, 1, 2, ARGS(piece[i], left)), low));
        product[i] = elementary_put(w, BL_OP_MUL, BL_U64, 2, ARGS(m, put_cast(w, BL_OP_CAST, BL_U64, low)));
    }
    product[0] = with(w, BL_OP_SHL, BL_U64, product[0], 32);
    product[2] = with(w, BL_OP_SHR, BL_U64, product[2], 32);
    return elementary_put(w, BL_OP_ADD, BL_U64, 2,
                          ARGS(elementary_put(w, BL_OP_ADD, BL_U64, 2, ARGS(product[0], product[1])), product[2]));
}

/* |x| = k pi + r, |r| <= pi / 2, so sin(x) = +-sin(r). */
static uint32_t write_sin(writer *w, uint32_t x)
{
    static const float p[] = {2.6083159809786593541503e-6f, -1.981069071916863322258e-4f, 8.33307858556509017944336e-3f,
                              -0.166666597127914428710938f};
    static const float pi_parts[] = {-3.140625f, -9.675025939941406e-4f, -1.5099067240953445e-7f, -5.126688136514179e-12f};
    uint32_t bits = put_cast(w, BL_OP_BITCAST, BL_U32, x), positive = with(w, BL_OP_AND, BL_U32, bits, 0x7fffffff);
    uint32_t a = put_cast(w, BL_OP_BITCAST, BL_F32, positive), near = is_less(w, a, real(w, 0x1p14f));
    uint32_t n = put_cast(w, BL_OP_TRUNC, BL_F32, fma_of(w, a, real(w, 0.31830988618f), real(w, 0.5f)));
    uint32_t turns = far_turns(w, positive), fraction = with(w, BL_OP_SHL, BL_U64, turns, 1), r = a, s = 0, y = 0, odd = 0;

    for (int i = 0; i < 4; i++)
        r = fma_of(w, n, real(w, pi_parts[i]), r);
    odd = with(w, BL_OP_SHR, BL_U64, elementary_put(w, BL_OP_XOR, BL_U64, 2, ARGS(turns, fraction)), 63);
    odd = elementary_choose(w, BL_U32, near, put_cast(w, BL_OP_CAST, BL_U32, n), put_cast(w, BL_OP_CAST, BL_U32, odd));
    fraction = put_cast(w, BL_OP_CAST, BL_F32, put_cast(w, BL_OP_BITCAST, BL_I64, fraction));
    r = elementary_choose(w, BL_F32, near, r, mul(w, fraction, real(w, 0x1.921fb6p-63f))); /* pi 2^-64 */
    s = mul(w, r, r);
    y = fma_of(w, horner(w, s, 4, p), mul(w, s, r), r);
    odd = elementary_put(w, BL_OP_XOR, BL_U32, 2,
                         ARGS(with(w, BL_OP_SHL, BL_U32, odd, 31), with(w, BL_OP_AND, BL_U32, bits, 0x80000000)));
    y = elementary_put(w, BL_OP_XOR, BL_U32, 2, ARGS(put_cast(w, BL_OP_BITCAST, BL_U32, y), odd));
    return elementary_choose(w, BL_F32, is_less(w, a, real(w, INFINITY)), put_cast(w, BL_OP_BITCAST, BL_F32, y), real(w, NAN));
}

static bool elementary_is_function(bl_op op)
{
    return op == BL_OP_EXP || op == BL_OP_LOG || op == BL_OP_SIN;
}

/* Can a device compute the function with the bits of its expansion (BL_FEATURE_EXACT_EXP)? */
static bool is_vector_exp(const bl_inst *inst)
{
    return inst->op == BL_OP_EXP && inst->dtype == BL_F32 && inst->lanes >= 4;
}

/* Expand a function. Narrower dtypes are computed in float32. */
static uint32_t elementary_write_function(writer *w, const bl_inst *inst, uint32_t x)
{
    bool narrow = inst->dtype != BL_F32;
    uint32_t y = 0;

    w->lanes = inst->lanes;
    x = narrow ? put_cast(w, BL_OP_CAST, BL_F32, x) : x;
    y = inst->op == BL_OP_EXP ? write_exp(w, x) : inst->op == BL_OP_LOG ? write_log(w, x) : write_sin(w, x);
    return narrow ? put_cast(w, BL_OP_CAST, (bl_dtype)inst->dtype, y) : y;
}

bl_status bl_lower_exact(bl_ir *ir, const bl_lowered *lowered, bool exp, bl_lowered **out, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(ir);
    const bl_linear *from = lowered->linear;
    bl_lowered *made = bl_arena_alloc(arena, sizeof *made);
    bl_linear *linear = bl_arena_alloc(arena, sizeof *linear);
    uint32_t *to = bl_arena_array(arena, (size_t)from->ninst + 1, sizeof *to), args[BL_MAX_LANES];
    writer w = {.arena = arena, .out = linear};

    *out = NULL;
    BL_TRY(bl_arena_status(arena, err));
    *linear = *from;
    linear->ninst = 0;
    linear->inst = NULL;
    for (uint32_t i = 0; i < from->ninst; i++) {
        const bl_inst *inst = &from->inst[i];
        for (uint32_t k = 0; k < inst->nargs; k++)
            args[k] = to[inst->args[k]];
        if (elementary_is_function((bl_op)inst->op) && inst->dtype != BL_F64 && !(exp && is_vector_exp(inst)))
            to[i] = elementary_write_function(&w, inst, args[0]);
        else
            to[i] = elementary_put_inst(&w, *inst, args);
    }
    *made = *lowered;
    made->linear = linear;
    *out = made;
    BL_TRY(bl_arena_status(arena, err));
    return bl_linear_check(arena, linear, err);
}

bool bl_lower_is_exact(const bl_linear *linear, bool rounds, bool exp)
{
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        bool computes = bl_op_get_class((bl_op)inst->op) == BL_CLASS_ALU || inst->op == BL_OP_FOLD;
        if (inst->op == BL_OP_MATRIX_ADD || (elementary_is_function((bl_op)inst->op) && !(exp && is_vector_exp(inst))) ||
            (computes && !rounds && bl_dtype_is_float((bl_dtype)inst->dtype)))
            return false;
    }
    return true;
}
