/* SPDX-License-Identifier: MIT */
/* Matrix units that this machine need not have: an OpenCL device reports the unit, and its instructions are emulated, by the
 * manuals' tables of fragment layouts.  So the kernel's layouts, loads, registers and epilogue run, all but the instruction
 * itself, and are compared with the interpreter.  On a processor with the unit, plan/conform runs the instruction. */
#include "tests/plan/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    MOST_DEVICES = 16,
    MOST_ENTRIES = 64,
    ONE_TILE = 16000 /* bytes of local memory: the sums of four warps with a tile each, and the operands of two iterations,
                      * twice */
};

/* PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type" and "... mma.m16n8k32": element ai of a lane's
 * registers for a is row lane / 4 (+ 8 where i / w is odd), column lane % 4 * w + i % w (+ 4 w where i >= 2 w); bi is row lane
 * % 4 * w + i % w (+ 4 w where i >= w), column lane / 4; ci is row lane / 4 (+ 8 where i >= 2), column lane % 4 * 2 + i % 2.
 * The text below is the inverse: the lane and register of an element. */
static const char mma[] =
    "#define UNIT_EMULATED\n"
    "#define mma_add(c, a, b) mma_emulated(c, a, b, \\\n"
    "  unit_memory + 192 * (int)(get_local_id(1) + get_local_size(1) * get_local_id(2)), (int)get_local_id(0))\n"
    "inline EMU_C mma_value(uint r, int i) { EMU_VALUE }\n"
    "inline EMU_C4 mma_emulated(EMU_C4 c, uint4 a, uint2 b, __local uint *m, int lane) {\n"
    "  __local uint *own = m + lane * 6; EMU_C d[4] = {c.x, c.y, c.z, c.w};\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  own[0] = a.x; own[1] = a.y; own[2] = a.z; own[3] = a.w; own[4] = b.x; own[5] = b.y; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  for (int i = 0; i < 4; i++) { int row = lane / 4 + (i >= 2 ? 8 : 0), column = lane % 4 * 2 + i % 2;\n"
    "    for (int k = 0; k < 8 * EMU_W; k++) {\n"
    "      int ai = (k >= 4 * EMU_W ? 2 * EMU_W : 0) + (row >= 8 ? EMU_W : 0) + k % EMU_W, t = k % (4 * EMU_W) / EMU_W;\n"
    "      int bi = (k >= 4 * EMU_W ? EMU_W : 0) + k % EMU_W;\n"
    "      d[i] += mma_value(m[(row % 8 * 4 + t) * 6 + ai / EMU_W], ai % EMU_W) *\n"
    "              mma_value(m[(column * 4 + t) * 6 + 4 + bi / EMU_W], bi % EMU_W); } }\n"
    "  return (EMU_C4)(d[0], d[1], d[2], d[3]); }\n"
    "#if EMU_W == 2\n" /* each lane reads the rows at the addresses of the other lanes */
    "#define mma_load(HOW, AT, p, stride, item) EMU_##HOW(AT, p, stride, item)\n"
    "#define EMU_DOWN(AT, p, s, i, j) (*(const __local uint *)(AT(p, s, 8 * (j) + (i) / 4) + (i) % 4 * 2))\n"
    "#define EMU_ACROSS(AT, p, s, i, j) (AT(p, s, 8 * (j) + (i) % 4 * 2)[(i) / 4] | \\\n"
    "  (uint)AT(p, s, 8 * (j) + (i) % 4 * 2 + 1)[(i) / 4] << 16)\n"
    "#define EMU_mma_four(AT, p, s, i) (uint4)(EMU_DOWN(AT, p, s, i, 0), EMU_DOWN(AT, p, s, i, 1), EMU_DOWN(AT, p, s, i, 2), \\\n"
    "  EMU_DOWN(AT, p, s, i, 3))\n"
    "#define EMU_mma_four_across(AT, p, s, i) (uint4)(EMU_ACROSS(AT, p, s, i, 0), EMU_ACROSS(AT, p, s, i, 1), \\\n"
    "  EMU_ACROSS(AT, p, s, i, 2), EMU_ACROSS(AT, p, s, i, 3))\n"
    "#define EMU_mma_two(AT, p, s, i) (uint2)(EMU_DOWN(AT, p, s, i, 0), EMU_DOWN(AT, p, s, i, 1))\n"
    "#define EMU_mma_two_across(AT, p, s, i) (uint2)(EMU_ACROSS(AT, p, s, i, 0), EMU_ACROSS(AT, p, s, i, 1))\n"
    "#endif\n";

/* Software Developer's Manual, volume 2, TDPBF16PS and TDPBSSD: c[m][n] += sum of a[m][g k + i] * b[k][g n + i]. */
static const char amx[] =
    "#define UNIT_EMULATED\n"
    "#define amx_configure() for (int u = 0; u < 8192; u++) unit_tiles[u] = 0xff\n"
    "#define AMX_ZERO(t) for (int u = 0; u < 1024; u++) unit_tiles[(t) * 1024 + u] = 0\n"
    "#define AMX_LOAD(t, p, bytes) for (int u = 0; u < 1024; u++) \\\n"
    "  unit_tiles[(t) * 1024 + u] = ((const __global uchar *)(p))[u / 64 * (bytes) + u % 64]\n"
    "#define AMX_STORE(t, p) for (int u = 0; u < 256; u++) (p)[u] = ((EMU_C *)(unit_tiles + (t) * 1024))[u]\n"
    "#define AMX_ADD(name, c, a, b) amx_emulated(unit_tiles + (c) * 1024, unit_tiles + (a) * 1024, unit_tiles + (b) * 1024)\n"
    "#define AMX_RELEASE() for (int u = 0; u < 8192; u++) unit_tiles[u] = 0xff\n"
    "inline EMU_C mma_value(uint r, int i) { EMU_VALUE }\n"
    "inline void amx_emulated(uchar *c, uchar *a, uchar *b) { EMU_C *d = (EMU_C *)c; uint *x = (uint *)a, *y = (uint *)b;\n"
    "  for (int m = 0; m < 16; m++) for (int n = 0; n < 16; n++) for (int k = 0; k < 16; k++) for (int i = 0; i < EMU_W; i++)\n"
    "    d[m * 16 + n] += mma_value(x[m * 16 + k], i) * mma_value(y[k * 16 + n], i); }\n";

/* ... VDPBF16PS. */
static const char dot[] =
    "#define UNIT_EMULATED\n"
    "inline float16 dot_add(float16 c, uint a, uint16 b) { float x = as_float(a << 16), y = as_float(a & 0xffff0000u);\n"
    "  return c + (float16)(y) * as_float16(b & 0xffff0000u) + (float16)(x) * as_float16(b << 16); }\n";

#define WARPS "__local uint unit_memory[6 * 32 * 4];\n" /* registers that other lanes read */

static const struct {
    const char *name, *emulation, *memory; /* |memory|: declarations that the emulation needs in the kernel */
    bl_matrix_unit unit;
    bool gpu; /* the device reports a GPU: several subgroups of a work-group share copies of operands */
} units[] = {
    {"mma float16", mma, WARPS, {BL_UNIT_MMA, BL_UNIT_F16, 16, 8, 16, 32, 1, 0}, false},
    {"mma bfloat16", mma, WARPS, {BL_UNIT_MMA, BL_UNIT_BF16, 16, 8, 16, 32, 1, 0}, false},
    {"mma int8", mma, WARPS, {BL_UNIT_MMA, BL_UNIT_I8, 16, 8, 32, 32, 1, 0}, false},
    {"mma float16 of four warps", mma, WARPS, {BL_UNIT_MMA, BL_UNIT_F16, 16, 8, 16, 32, 1, 0}, true},
    {"mma bfloat16 of four warps", mma, WARPS, {BL_UNIT_MMA, BL_UNIT_BF16, 16, 8, 16, 32, 1, 0}, true},
    {"amx bfloat16",
     amx,
     "uchar unit_tiles[8192] __attribute__((aligned(64)));\n",
     {BL_UNIT_AMX, BL_UNIT_BF16, 16, 16, 32, 1, 2, 0},
     false},
    {"amx int8",
     amx,
     "uchar unit_tiles[8192] __attribute__((aligned(64)));\n",
     {BL_UNIT_AMX, BL_UNIT_I8, 16, 16, 64, 1, 4, 0},
     false},
    {"amx uint8",
     amx,
     "uchar unit_tiles[8192] __attribute__((aligned(64)));\n",
     {BL_UNIT_AMX, BL_UNIT_U8, 16, 16, 64, 1, 4, 0},
     false},
    {"dot bfloat16", dot, "", {BL_UNIT_DOT, BL_UNIT_BF16, 1, 16, 2, 1, 2, 0}, false},
};
enum { NUNITS = sizeof units / sizeof units[0] };

/* Few and small, since a real driver compiles every kernel: rows and columns with a remainder, an operand of each layout, an
 * epilogue.  @ is the dtype, # is the dtype of the sum. */
static const char small[] =
    "{'entries': {'plain': {'inputs': {'x': {'dtype': '@', 'shape': [40, 64]}, 'y': {'dtype': '@', 'shape': [64, 40]}, 'b': "
    "{'dtype': "
    "'#', 'shape': [40]}}, 'nodes': [{'id': 'xc', 'op': 'cast', 'in': ['x'], 'attrs': {'dtype': '#'}}, {'id': 'yc', 'op': "
    "'cast', "
    "'in': ['y'], 'attrs': {'dtype': '#'}}, {'id': 'm', 'op': 'matmul', 'in': ['xc', 'yc']}, {'id': 'z', 'op': 'add', 'in': "
    "['m', "
    "'b']}], 'outputs': ['z']}, 'transposed': {'inputs': {'x': {'dtype': '@', 'shape': [128, 32]}, 'y': {'dtype': '@', 'shape': "
    "[48, "
    "128]}}, 'nodes': [{'id': 'xt', 'op': 'transpose', 'in': ['x']}, {'id': 'yt', 'op': 'transpose', 'in': ['y']}, {'id': 'xc', "
    "'op': 'cast', 'in': ['xt'], 'attrs': {'dtype': '#'}}, {'id': 'yc', 'op': 'cast', 'in': ['yt'], 'attrs': {'dtype': '#'}}, "
    "{'id': "
    "'m', 'op': 'matmul', 'in': ['xc', 'yc']}], 'outputs': ['m']}}}";

static bl_device *devices[MOST_DEVICES], *opencl;
static const bl_device_ops *own;
static bl_device_info own_info;
static int emulating, emulated, shared; /* index of the unit; number of kernels with the unit, and of those with shared-memory
                                         * copies */
static harness_result results[MOST_ENTRIES];

/* Tiles for four warps: one operand in its layout, the other transposed. */
static const char of_warps[] =
    "{'entries': {'large': {'inputs': {'x': {'dtype': '@', 'shape': [32, 64]}, 'y': {'dtype': '@', 'shape': [64, 24]}, 'b': "
    "{'dtype': '#', 'shape': [24]}}, 'nodes': [{'id': 'xc', 'op': 'cast', 'in': ['x'], 'attrs': {'dtype': '#'}}, {'id': 'yc', "
    "'op': 'cast', 'in': ['y'], 'attrs': {'dtype': '#'}}, {'id': 'm', 'op': 'matmul', 'in': ['xc', 'yc']}, {'id': 'z', 'op': "
    "'add', 'in': ['m', 'b']}], 'outputs': ['z']}, 'transposed': {'inputs': {'x': {'dtype': '@', 'shape': [64, 32]}, 'y': "
    "{'dtype': '@', 'shape': [16, 64]}}, 'nodes': [{'id': 'xt', 'op': 'transpose', 'in': ['x']}, {'id': 'yt', 'op': "
    "'transpose', 'in': ['y']}, {'id': 'xc', 'op': 'cast', 'in': ['xt'], 'attrs': {'dtype': '#'}}, {'id': 'yc', 'op': 'cast', "
    "'in': ['yt'], 'attrs': {'dtype': '#'}}, {'id': 'm', 'op': 'matmul', 'in': ['xc', 'yc']}], 'outputs': ['m']}}}";

/* Makes a document for a dtype, which the caller frees. */
static char *make_document(const char *document, bl_unit_dtype dtype)
{
    static const char *const from[] = {
        [BL_UNIT_F16] = "float16", [BL_UNIT_BF16] = "bfloat16", [BL_UNIT_I8] = "int8", [BL_UNIT_U8] = "uint8"};
    bl_text text = {0};
    for (const char *c = document; *c != '\0'; c++) {
        if (*c == '@')
            bl_text_puts(&text, from[dtype]);
        else if (*c == '#')
            bl_text_puts(&text, dtype == BL_UNIT_I8 || dtype == BL_UNIT_U8 ? "int32" : "float32");
        else
            bl_text_putc(&text, *c == '\'' ? '"' : *c);
    }
    return bl_text_take(&text);
}

/* Writes the emulation's names and conversions of the unit's elements. */
static void define(bl_unit_dtype dtype, bl_text *out)
{
    static const char *const value[] = {[BL_UNIT_F16] = "ushort h = (ushort)(r >> (16 * i)); return vload_half(0, (half *)&h);",
                                        [BL_UNIT_BF16] = "return as_float(r >> (16 * i) << 16);",
                                        [BL_UNIT_I8] = "return (int)(char)(r >> (8 * i));",
                                        [BL_UNIT_U8] = "return (int)(uchar)(r >> (8 * i));"};
    bool whole = dtype == BL_UNIT_I8 || dtype == BL_UNIT_U8;
    bl_text_printf(out, "#define EMU_C %s\n#define EMU_C4 %s4\n#define EMU_W %d\n#define EMU_VALUE %s\n", whole ? "int" : "float",
                   whole ? "int" : "float", whole ? 4 : 2, value[dtype]);
}

/* Calls the driver's own function, with the instruction replaced by the emulation. */
static bl_status make_kernel(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    static const char *const marks[] = {"mma_add(", "AMX_ADD(", "dot_add("};
    const char *body = strstr(source->text, "__attribute__((noinline))\nvoid"), *open;
    bl_kernel_source patched = *source;
    bl_text text = {0};
    bl_status st = BL_OK;
    bool uses = false;

    if (body == NULL)
        body = strstr(source->text, "__kernel");
    open = body == NULL ? NULL : strstr(body, ") {\n");
    for (int i = 0; open != NULL && i < 3; i++)
        uses = uses || strstr(open, marks[i]) != NULL;
    if (!uses)
        return own->kernel(dev, source, out, err);
    emulated++;
    shared += strstr(open, "_local((const __local MMA_E *)") != NULL;
    define(units[emulating].unit.dtype, &text);
    bl_text_puts(&text, units[emulating].emulation);
    bl_text_append(&text, source->text, (size_t)(open + 4 - source->text));
    bl_text_puts(&text, units[emulating].memory);
    bl_text_puts(&text, open + 4);
    patched.text = bl_text_get(&text);
    patched.len = text.len;
    st = own->kernel(dev, &patched, out, err);
    bl_text_fini(&text);
    return st;
}

static void test_unit(void **state)
{
    static bl_device_ops ops;
    harness_options options = {.matrix = BL_MATRIX_ALWAYS, .spec = 2, .seed = 7};
    char *text = NULL;
    int failed = 0, n = 0;

    emulating = (int)(intptr_t)*state;
    emulated = 0;
    shared = 0;
    if (opencl == NULL) {
        print_message("no OpenCL device to emulate %s on\n", units[emulating].name);
        skip();
    }
    ops = *own;
    ops.kernel = make_kernel;
    ops.compile = NULL; /* the compiler child processes would compile the instruction itself, which the processor may lack */
    ops.is_compiled = NULL;
    opencl->ops = &ops;
    opencl->info = own_info;
    opencl->info.nmatrix = 1;
    opencl->info.matrix[0] = units[emulating].unit;
    opencl->info.subgroup = units[emulating].unit.scope; /* more than 1: a work-group has this many work-items, which share
                                                          * fragments */
    opencl->info.calls_kernels = opencl->info.subgroup == 1;
    opencl->info.fragments = units[emulating].unit.kind == BL_UNIT_AMX ? 8 : 0;
    if (units[emulating].gpu) {
        opencl->info.serial_groups = false;
        opencl->info.type = BL_DEVICE_GPU;
        opencl->info.local_bytes = ONE_TILE; /* PoCL takes minutes for the barriers of larger sizes */
    }
    text = make_document(units[emulating].gpu ? of_warps : small, units[emulating].unit.dtype);
    n = text == NULL ? 0 : harness_run(opencl, text, &options, MOST_ENTRIES, results);
    for (int i = 0; i < n; i++) {
        const harness_result *r = &results[i];
        if (r->err.status != BL_OK || r->worst > 1) {
            print_error("%s, %s: %s %s %s\n", units[emulating].name, r->name, bl_status_name(r->err.status), r->err.text,
                        r->where);
            failed++;
        }
    }
    free(text);
    opencl->ops = own;
    opencl->info = own_info;
    if (n != 2 || failed != 0 || emulated != 2 || shared != (units[emulating].gpu ? 2 : 0))
        fail_msg("%s: %d of %d entries failed, %d kernels used it, %d from copies", units[emulating].name, failed, n, emulated,
                 shared);
}

int main(void)
{
    static struct CMUnitTest tests[NUNITS];
    uint32_t n = harness_open(MOST_DEVICES, devices);
    int failed = 0;

    for (uint32_t i = 0; i < n && opencl == NULL; i++)
        opencl = devices[i]->info.dialect == BL_DIALECT_OPENCL ? devices[i] : NULL;
    if (opencl != NULL) {
        own = opencl->ops;
        own_info = opencl->info;
    }
    for (int i = 0; i < NUNITS; i++)
        tests[i] = (struct CMUnitTest){.name = units[i].name, .test_func = test_unit, .initial_state = (void *)(intptr_t)i};
    failed = cmocka_run_group_tests_name("matrix units", tests, NULL, NULL);
    for (uint32_t i = 0; i < n; i++)
        bl_device_destroy(devices[i]);
    return failed;
}
