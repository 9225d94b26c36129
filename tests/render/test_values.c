/* SPDX-License-Identifier: MIT */
/* The results of a device for every scalar op, dtype and number of lanes on special values, compared with bl_eval.  One kernel
 * has all ops of a dtype; each op has its own output buffer. */
#include "engine/ir/eval.h"
#include "engine/lower/linear.h"
#include "tests/device/run_kernel.h"
#include "tests/lower/read_linear.h"
#include "tests/plan/on_devices.h"
#include "vulkan/vk_internal.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_EDGES = 40, MOST_OUTPUTS = 28, FIRST_OUTPUT = 4 };

typedef struct output {
    bl_op op;
    bl_dtype dtype;
} output;

typedef struct bench {
    bl_device *dev;
    bl_pool *pool;
    bl_arena *arena;
    bl_dtype dtype;
    int lanes;
    bool tame;    /* integer operands are not negative, and the second is positive and below the width, so that bl_inst.sub may
                   * say so */
    size_t count; /* number of values in each buffer, a multiple of the lanes */
    bl_scalar *in[FIRST_OUTPUT]; /* x, y, z, and a bool */
    int noutputs;
    output outputs[MOST_OUTPUTS];
    void *got[MOST_OUTPUTS];
    int wrong;
} bench;

/* ---- special values */

static int float_edges(bl_dtype dtype, bl_scalar *out)
{
    static const double all[] = {0.0,
                                 -0.0,
                                 1.0,
                                 -1.0,
                                 0.5,
                                 -1.5,
                                 2.5,
                                 3.0,
                                 -7.0,
                                 100.0,
                                 255.5,
                                 -128.5,
                                 65504.0,
                                 65520.0,
                                 -3e9,
                                 5e9,
                                 1.00048828125,
                                 1.0009765625,
                                 1.0029296875,
                                 0.1,
                                 6.1e-5,
                                 5.96e-8,
                                 2.98e-8,
                                 1e-40,
                                 1e30,
                                 -1e38,
                                 2e19,
                                 1.0 + 0x1p-24 + 0x1p-40,
                                 1.0 + 0x1p-11 + 0x1p-40,
                                 9.3e18,
                                 88.6, /* exp in float32: close to the largest number, over it, subnormal, and 0 */
                                 88.8,
                                 -87.5,
                                 -95.25,
                                 -103.5};
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        out[n++] = bl_scalar_fit(dtype, (bl_scalar){.f = all[i]});
    out[n++].f = NAN;
    out[n++].f = INFINITY;
    out[n++].f = -INFINITY;
    return n;
}

static int whole_edges(bl_dtype dtype, bool tame, bl_scalar *out)
{
    static const int64_t all[] = {0,   1,     -1,     2,     -2,        3,         -3,        5,         7,         -7,  8,
                                  15,  16,    31,     32,    33,        63,        64,        100,       -100,      127, -128,
                                  255, 32767, -32768, 65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 4294967295};
    static const int64_t few[] = {1, 2, 3, 5, 6, 7};
    int n = 0;
    if (dtype == BL_BOOL)
        tame = true;
    for (size_t i = 0; i < (tame ? sizeof few / sizeof few[0] : sizeof all / sizeof all[0]); i++)
        out[n++] = bl_scalar_fit(dtype, (bl_scalar){.i = tame ? few[i] - (dtype == BL_BOOL) : all[i]});
    return n;
}

static void fill_inputs(bench *b)
{
    bl_scalar edge[MOST_EDGES];
    int n = bl_dtype_is_float(b->dtype) ? float_edges(b->dtype, edge) : whole_edges(b->dtype, b->tame, edge);

    b->count = ((size_t)n * (size_t)n + 15) / 16 * 16;
    for (int i = 0; i < FIRST_OUTPUT; i++)
        b->in[i] = bl_arena_array(b->arena, b->count, sizeof(bl_scalar));
    for (size_t i = 0; i < b->count; i++) {
        b->in[0][i] = edge[i % (size_t)n];
        b->in[1][i] = edge[i / (size_t)n % (size_t)n];
        b->in[2][i] = edge[(i * 7 + i / 11) % (size_t)n];
        b->in[3][i].u = (i * 5 + i / 3) & 1;
    }
}

/* ---- the kernel */

static void add_output(bench *b, bl_op op, bl_dtype dtype)
{
    assert_true(b->noutputs < MOST_OUTPUTS);
    b->outputs[b->noutputs++] = (output){op, dtype};
}

/* Whether the op accepts operands of this dtype. */
static bool takes(bl_op op, bl_dtype dtype)
{
    unsigned flags = bl_op_flags(op);
    bool is_float = bl_dtype_is_float(dtype), is_bool = dtype == BL_BOOL;

    if ((flags & BL_OPF_FLOAT) != 0)
        return is_float;
    if ((flags & BL_OPF_WORDS) != 0)
        return dtype == BL_I32;
    if ((flags & BL_OPF_INT) != 0)
        return !is_float && (!is_bool || (flags & BL_OPF_BOOL) != 0);
    if (op == BL_OP_FMA)
        return dtype == BL_F32 || dtype == BL_F64; /* the only dtypes that linearize makes */
    if (op == BL_OP_NOT)
        return !is_float;
    return !is_bool || (op != BL_OP_NEG && op != BL_OP_SUB);
}

static void list_alu(bench *b)
{
    for (int op = 0; op < BL_OP_COUNT; op++) {
        bool guards = op == BL_OP_IDIV || op == BL_OP_MOD || op == BL_OP_SHL || op == BL_OP_SHR;
        if (bl_op_get_class((bl_op)op) != BL_CLASS_ALU || op == BL_OP_CAST || op == BL_OP_BITCAST || (b->tame && !guards))
            continue;
        if (!takes((bl_op)op, b->dtype))
            continue;
        add_output(b, (bl_op)op, (bl_op_flags((bl_op)op) & BL_OPF_COMPARE) != 0 ? BL_BOOL : b->dtype);
    }
}

static void list_casts(bench *b)
{
    for (int to = 0; to < BL_DTYPE_WIRE; to++) {
        if (to == (int)b->dtype || bl_dtype_is_float8((bl_dtype)to) ||
            (to == BL_F64 && (b->dev->info.features & BL_FEATURE_F64) == 0))
            continue;
        add_output(b, BL_OP_CAST, (bl_dtype)to);
        if (bl_dtype_bytes((bl_dtype)to) == bl_dtype_bytes(b->dtype) && to != BL_BOOL && b->dtype != BL_BOOL)
            add_output(b, BL_OP_BITCAST, (bl_dtype)to);
    }
}

static int count_sources(bl_op op)
{
    static const int counts[BL_OP_COUNT] = {
#define BL_OP(ID, id, nsrc, cls, flags, grad, doc) [BL_OP_##ID] = nsrc,
#include "engine/ir/ops.def"
#undef BL_OP
    };
    return counts[op];
}

static void add_typed(bl_text *text, const bench *b, bl_dtype dtype)
{
    bl_text_puts(text, bl_dtype_name(dtype));
    if (b->lanes > 1)
        bl_text_printf(text, "x%d", b->lanes);
}

/* Instructions 3 to 10: the inputs and their loads. */
static void print_kernel(const bench *b, bl_text *text)
{
    uint32_t writes = 0;
    int n = 3;

    bl_text_puts(text, "linear values buffers=");
    for (int i = 0; i < FIRST_OUTPUT; i++)
        bl_text_printf(text, i == 0 ? "%s" : ",%s", bl_dtype_name(i == 3 ? BL_BOOL : b->dtype));
    for (int i = 0; i < b->noutputs; i++) {
        bl_text_printf(text, ",%s", bl_dtype_name(b->outputs[i].dtype));
        writes |= UINT32_C(1) << (FIRST_OUTPUT + i);
    }
    bl_text_printf(text, " writes=%u scalars=0 local=1,1,1 localbytes=0\n", writes);
    bl_text_printf(text, "0 group_id int32 arg=0\n1 const int32 %d\n2 mul int32 %%0 %%1\n", b->lanes);
    for (int i = 0; i < FIRST_OUTPUT; i++, n += 2) {
        bl_text_printf(text, "%d buffer %s arg=%d\n%d load ", n, bl_dtype_name(i == 3 ? BL_BOOL : b->dtype), i, n + 1);
        add_typed(text, b, i == 3 ? BL_BOOL : b->dtype);
        bl_text_printf(text, " %%%d %%2\n", n);
    }
    for (int i = 0; i < b->noutputs; i++, n += 3) {
        const output *o = &b->outputs[i];
        bl_text_printf(text, "%d %s ", n, bl_op_name(o->op));
        add_typed(text, b, o->dtype);
        if (o->op == BL_OP_WHERE)
            bl_text_puts(text, " %10 %4 %6");
        for (int k = 0; o->op != BL_OP_WHERE && k < count_sources(o->op); k++)
            bl_text_printf(text, " %%%d", 4 + 2 * k);
        bl_text_printf(text, "\n%d buffer %s arg=%d\n%d store ", n + 1, bl_dtype_name(o->dtype), FIRST_OUTPUT + i, n + 2);
        add_typed(text, b, o->dtype);
        bl_text_printf(text, " %%%d %%2 %%%d\n", n + 1, n);
    }
}

/* ---- execution */

static bl_status run_bench(bench *b, bl_err *err)
{
    bl_buffer *buffers[FIRST_OUTPUT + MOST_OUTPUTS] = {0};
    bl_linear *linear = NULL;
    bl_text text = {0};
    bl_status st = BL_OK;

    print_kernel(b, &text);
    st = read_linear(b->arena, text.data, text.len, &linear, err);
    for (uint32_t i = 0; st == BL_OK && i < linear->ninst; i++) { /* every index is a multiple of the lanes */
        bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_LOAD || inst->op == BL_OP_STORE)
            inst->sub = b->lanes > 1;
        if (inst->op == BL_OP_STORE && b->tame) /* both forms store the same values */
            inst->arg = BL_STORE_STREAMS;
        if (b->tame && i > 2 && bl_op_get_class((bl_op)inst->op) == BL_CLASS_ALU)
            inst->sub = 1;
    }
    for (int i = 0; st == BL_OK && i < FIRST_OUTPUT + b->noutputs; i++) {
        bl_dtype dtype = i == 3 ? BL_BOOL : i < FIRST_OUTPUT ? b->dtype : b->outputs[i - FIRST_OUTPUT].dtype;
        size_t bytes = bl_dtype_bytes(dtype);
        char *data = bl_arena_array(b->arena, b->count, bytes);
        st = bl_buffer_alloc(b->dev, b->count * bytes, &buffers[i], err);
        for (size_t k = 0; i < FIRST_OUTPUT && k < b->count; k++)
            bl_scalar_write(dtype, b->in[i][k], data + k * bytes);
        if (st == BL_OK)
            st = bl_buffer_write(buffers[i], 0, data, b->count * bytes, err);
    }
    if (st == BL_OK)
        st = test_run_kernel(b->dev, linear, (uint32_t[3]){(uint32_t)(b->count / (size_t)b->lanes), 1, 1}, buffers, NULL, err);
    for (int i = 0; st == BL_OK && i < b->noutputs; i++) {
        size_t bytes = b->count * bl_dtype_bytes(b->outputs[i].dtype);
        b->got[i] = bl_arena_alloc(b->arena, bytes);
        st = bl_buffer_read(buffers[FIRST_OUTPUT + i], 0, b->got[i], bytes, err);
    }
    for (int i = 0; i < FIRST_OUTPUT + b->noutputs; i++)
        bl_buffer_release(buffers[i]);
    bl_text_fini(&text);
    return st;
}

/* ---- comparison */

/* The allowed error in units in the last place; for GLSL the bounds of the standard (Vulkan, "Precision and Operation"). */
static double allowed_ulps(const bench *b, bl_op op, const bl_scalar *x, bl_dtype dtype)
{
    bool glsl = b->dev->info.dialect == BL_DIALECT_GLSL;

    if (!bl_dtype_is_float(dtype) || b->dev->info.dialect == BL_DIALECT_LINEAR)
        return 0;
    switch ((int)op) {
    case BL_OP_EXP:
        return glsl ? 3 + 2 * fabs(x[0].f) : 4;
    case BL_OP_LOG:
    case BL_OP_SIN:
        return 4;
    case BL_OP_DIV:
        return glsl ? 2.5 : 0;
    case BL_OP_SQRT:
        return glsl ? 3 : 0;
    default:
        return 0;
    }
}

/* The distance of adjacent numbers at |value|. */
static double ulp(bl_dtype dtype, double value)
{
    static const struct {
        bl_dtype dtype;
        int digits, least;
    } kinds[] = {{BL_F16, 11, -14}, {BL_BF16, 8, -126}, {BL_F32, 24, -126}, {BL_F64, 53, -1022}};
    int e = value == 0 ? -2000 : ilogb(value);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].dtype == dtype)
            return ldexp(1, (e < kinds[i].least ? kinds[i].least : e) - kinds[i].digits + 1);
    }
    return 0;
}

static bool is_subnormal(bl_dtype dtype, bl_scalar x)
{
    return bl_dtype_is_float(dtype) && x.f != 0 && fabs(x.f) < (dtype == BL_F64 ? DBL_MIN : FLT_MIN);
}

/* Whether GLSL leaves the result to the driver: for subnormal floats, and for sin, whose error bound is absolute. */
static bool is_free(const bench *b, const output *o, const bl_scalar *x, bl_scalar want, bl_scalar got)
{
    bool computes = o->op != BL_OP_BITCAST && o->op != BL_OP_WHERE;

    if (b->dev->info.dialect != BL_DIALECT_GLSL)
        return false;
    for (int i = 0; computes && i < count_sources(o->op); i++) {
        if (is_subnormal(b->dtype, x[i]))
            return true;
    }
    if (computes && is_subnormal(o->dtype, want))
        return true;
    if (o->op == BL_OP_FMA) { /* may round twice */
        double two = b->dtype == BL_F32 ? (double)((float)(x[0].f * x[1].f) + (float)x[2].f) : x[0].f * x[1].f + x[2].f;
        return got.f == two || (isnan(two) && isnan(got.f)) || isinf(want.f) || isinf(two) || isnan(two);
    }
    if (o->op == BL_OP_LOG && fabs(want.f - got.f) <= 0x1p-21)
        return true;
    return o->op == BL_OP_SIN && (fabs(x[0].f) > 3.2 || fabs(want.f - got.f) <= 0x1p-11);
}

static bl_scalar expected(const bench *b, const output *o, const bl_scalar *x)
{
    if (o->op == BL_OP_CAST)
        return bl_scalar_cast(o->dtype, b->dtype, x[0]);
    if (o->op == BL_OP_BITCAST)
        return bl_eval_bitcast(o->dtype, b->dtype, x[0]);
    return bl_eval(o->op, b->dtype, x);
}

static bool agrees(const bench *b, const output *o, const bl_scalar *x, bl_scalar want, bl_scalar got)
{
    if (o->op == BL_OP_BITCAST && bl_dtype_is_float(b->dtype) && isnan(x[0].f))
        return true; /* the bits of a NaN are unspecified */
    if (!bl_dtype_is_float(o->dtype))
        return want.u == got.u;
    if (isnan(want.f) && isnan(got.f))
        return true;
    if (want.f == got.f && signbit(want.f) == signbit(got.f))
        return true;
    if (isfinite(want.f) && isfinite(got.f)) {
        double most = allowed_ulps(b, o->op, x, o->dtype);
        if (most > 0 && (o->dtype == BL_F16 || o->dtype == BL_BF16))
            most = 1;
        if (fabs(want.f - got.f) <= most * ulp(o->dtype, want.f) && (want.f != 0 || most > 0))
            return true;
    }
    return is_free(b, o, x, want, got);
}

static void show(bl_dtype dtype, bl_scalar x, char *out, size_t size)
{
    if (bl_dtype_is_float(dtype))
        snprintf(out, size, "%.17g", x.f);
    else if (bl_dtype_get_kind(dtype) == BL_KIND_INT)
        snprintf(out, size, "%lld", (long long)x.i);
    else
        snprintf(out, size, "%llu", (unsigned long long)x.u);
}

static void compare_output(bench *b, int which)
{
    const output *o = &b->outputs[which];
    int n = count_sources(o->op), wrong = 0;

    for (size_t i = 0; i < b->count; i++) {
        bl_scalar x[3] = {b->in[0][i], b->in[1][i], b->in[2][i]}, want, got;
        if (o->op == BL_OP_WHERE) {
            x[0] = b->in[3][i];
            x[1] = b->in[0][i];
            x[2] = b->in[1][i];
        }
        want = expected(b, o, x);
        got = bl_scalar_read(o->dtype, (char *)b->got[which] + i * bl_dtype_bytes(o->dtype));
        if (agrees(b, o, x, want, got))
            continue;
        if (wrong++ < 3) {
            char text[5][40] = {{0}};
            for (int k = 0; k < n; k++)
                show(o->op == BL_OP_WHERE && k == 0 ? BL_BOOL : b->dtype, x[k], text[k], sizeof text[k]);
            show(o->dtype, got, text[3], sizeof text[3]);
            show(o->dtype, want, text[4], sizeof text[4]);
            print_error("%s %s %s -> %s, %d lanes: (%s %s %s) gives %s, not %s\n", b->dev->info.id, bl_op_name(o->op),
                        bl_dtype_name(b->dtype), bl_dtype_name(o->dtype), b->lanes, text[0], text[1], text[2], text[3], text[4]);
        }
    }
    b->wrong += wrong;
}

static int check(bl_device *dev, bl_dtype dtype, int lanes, bool casts, bool tame)
{
    bench b = {.dev = dev, .dtype = dtype, .lanes = lanes, .tame = tame, .arena = bl_arena_create(0)};
    bl_err err = {0};
    bl_status st = BL_OK;

    fill_inputs(&b);
    if (casts)
        list_casts(&b);
    else
        list_alu(&b);
    if (b.noutputs > 0)
        st = run_bench(&b, &err);
    if (st == BL_EUNSUPPORTED && dtype == BL_F64 && (dev->info.features & BL_FEATURE_F64) == 0) {
        st = BL_OK;
    } else if (st != BL_OK) {
        print_error("%s %s of %s, %d lanes: %s\n", dev->info.id, casts ? "casts" : "ops", bl_dtype_name(dtype), lanes, err.text);
        b.wrong++;
    } else {
        for (int i = 0; i < b.noutputs; i++)
            compare_output(&b, i);
    }
    bl_arena_destroy(b.arena);
    return b.wrong;
}

static int check_all(bl_device *dev)
{
    static const int widths[] = {1, 2, 4, 8, 16};
    int wrong = 0;

    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        if (dev->info.dialect == BL_DIALECT_GLSL && widths[w] > 4)
            continue;
        for (int dtype = 0; dtype < BL_DTYPE_WIRE; dtype++) {
            if (bl_dtype_is_float8((bl_dtype)dtype))
                continue; /* kernels do not use them: ir/float8.c */
            wrong += check(dev, (bl_dtype)dtype, widths[w], false, false);
            wrong += check(dev, (bl_dtype)dtype, widths[w], true, false);
            if (bl_dtype_is_int((bl_dtype)dtype) && widths[w] < 16)
                wrong += check(dev, (bl_dtype)dtype, widths[w], false, true);
        }
    }
    return wrong;
}

static void test_device(void **state)
{
    bl_device *dev = *state;
    int wrong = check_all(dev);

    if (dev->info.dialect == BL_DIALECT_GLSL && ((bl_vk_device *)dev)->facts.dot4) { /* also where it is not fast */
        bl_dot4 own = dev->info.dot4;
        dev->info.dot4 = own == BL_DOT4_NONE ? BL_DOT4_SPIRV : BL_DOT4_NONE;
        wrong += check(dev, BL_I32, 1, false, false) + check(dev, BL_I32, 2, false, false) + check(dev, BL_I32, 4, false, false);
        dev->info.dot4 = own;
    }
    if (dev->info.dialect == BL_DIALECT_GLSL && dev->info.serial_groups) { /* the text for a GPU differs in some parts */
        dev->info.serial_groups = false;
        wrong += check_all(dev);
        dev->info.serial_groups = true;
    }
    if (wrong != 0)
        fail_msg("%s: %d wrong values", dev->info.id, wrong);
}

int main(void)
{
    return on_devices("values", test_device, 0, NULL);
}
