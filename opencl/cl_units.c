/* SPDX-License-Identifier: MIT */
/* Finds the matrix units and the integer dot product of a device.  First the processor (cpuid, and the permission of the system
 * to use tiles) or the driver (the compute capability) says whether the device has a unit. Then a probe kernel with the unit's
 * instruction is compiled and must compute the right sums: a compiler may not support the instruction, and some machines report a
 * unit but do not let a process use it. */
#include "opencl/opencl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__) && defined(__GLIBC__)
#define BL_CL_X86 1
#include <sys/platform/x86.h>
#include <sys/syscall.h>
#else
#define BL_CL_X86 0
#endif

enum {
    COMPUTE_CAPABILITY_MAJOR_NV = 0x4000, /* cl_ext.h: cl_nv_device_attribute_query */
    COMPUTE_CAPABILITY_MINOR_NV = 0x4001,
    CAPABILITY_OF_DP4A = 61, /* PTX ISA: dp4a requires sm_61 */
    CAPABILITY_OF_MMA = 8,   /* PTX ISA: mma.sync m16n8k16 of .f16 and .bf16, and m16n8k32 of .s8, require sm_80 */
    WARP = 32,
    /* a tdpbf16ps is 8,192 multiply-adds in 16 cycles; two vfmadd a cycle are 512 multiply-adds in 16 cycles (Intel's
     * optimization manual).  The rate of mma.sync depends on the model, from 2 to 16, and drivers do not report it */
    RATE_OF_TILES = 16,
    /* a vdpbf16ps computes two multiply-adds per lane, and is issued as often as a vfmadd, which computes one */
    RATE_OF_DOT = 2,
    SUMS = 32 /* number of sums that a probe writes */
};

/* A probe multiplies ones with a unit and writes SUMS sums. */
typedef struct probe {
    bl_matrix_unit unit;
    float sum;
    const char *text;
} probe;

#define HEAD(n) "__kernel __attribute__((reqd_work_group_size(" #n ", 1, 1)))\nvoid probe(__global float *restrict sums) {\n"

/* The probe loads operands from local memory with ldmatrix, as kernels do (render/unit_opencl.c). */
static const char mma_text[] =
    HEAD(32) "  int i = (int)get_local_id(0); __local ushort m[256] __attribute__((aligned(16)));\n"
             "  float c = 0, d = 0, e = 0, f = 0; uint4 a; uint2 b;\n"
             "  for (int k = 0; k < 8; k++) m[8 * i + k] = 0x3c00;\n"
             "  barrier(CLK_LOCAL_MEM_FENCE);\n"
             "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\" : \"=r\"(a.x), \"=r\"(a.y), "
             "\"=r\"(a.z), \"=r\"(a.w)\n    : \"r\"((uint)(size_t)(m + (i & 15) * 16 + (i >> 4) * 8)) : \"memory\");\n"
             "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\" : \"=r\"(b.x), \"=r\"(b.y)\n"
             "    : \"r\"((uint)(size_t)(m + (i & 15) * 8)) : \"memory\");\n"
             "  asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
             "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\"\n"
             "    : \"+f\"(c), \"+f\"(d), \"+f\"(e), \"+f\"(f) : \"r\"(a.x), \"r\"(a.y), \"r\"(a.z), \"r\"(a.w), \"r\"(b.x), "
             "\"r\"(b.y));\n"
             "  sums[i] = c == d && d == e && e == f ? c : 0; }\n";

static const char tile_text[] =
    HEAD(1) "  ushort x[512]; float c[256]; uchar s[64];\n"
            "  for (int i = 0; i < 512; i++) x[i] = 0x3f80;\n  for (int i = 0; i < 64; i++) s[i] = 0;\n"
            "  s[0] = 1; for (int i = 0; i < 8; i++) { s[16 + 2 * i] = 64; s[48 + i] = 16; }\n"
            "  __asm__ volatile(\"ldtilecfg %0\\n tilezero %%tmm0\\n tileloadd (%1,%3,1), %%tmm1\\n tileloadd (%1,%3,1), "
            "%%tmm2\\n \"\n"
            "    \"tdpbf16ps %%tmm2, %%tmm1, %%tmm0\\n tilestored %%tmm0, (%2,%3,1)\\n tilerelease\"\n"
            "    :: \"m\"(s), \"r\"(x), \"r\"(c), \"r\"(64ul) : \"memory\");\n"
            "  for (int i = 0; i < 32; i++) sums[i] = c[8 * i]; }\n";

static const char dot_text[] = HEAD(1) "  float16 c = (float16)(0.0f); uint16 x = (uint16)(0x3f803f80u);\n"
                                       "  __asm__(\"vdpbf16ps %1, %1, %0\" : \"+v\"(c) : \"v\"(x));\n"
                                       "  vstore16(c, 0, sums); vstore16(c, 1, sums); }\n";

/* 4 * 200 * -2 + 100: the bytes 200 show that x is unsigned, the bytes -2 that y is signed. */
static const char vnni_text[] = "__attribute__((noinline, target(\"avx512vnni,avx512vl\")))\n"
                                "void sum_bytes(__global float *sums, int repeated) {\n"
                                "  int16 c = __builtin_ia32_vpdpbusd512((int16)(100), (int16)(0xc8c8c8c8), (int16)(repeated));\n"
                                "  vstore16(convert_float16(c), 0, sums); vstore16(convert_float16(c), 1, sums); }\n" HEAD(
                                    1) "  sum_bytes(sums, 0xfefefefe); }\n";

/* Every second lane is loaded, as by prelude_masked in render/opencl_begin.c. */
static const char masked_text[] =
    HEAD(1) "\n#if defined(__clang__) && defined(__AVX512DQ__) && defined(__AVX512VL__)\n"
            "  int16 open = (int16)((int)get_global_id(0)) < (int16)(1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0);\n"
            "  vstore16((float16)(4.0f), 0, sums);\n"
            "  float16 v = __builtin_ia32_loadups512_mask((const float16 *)(size_t)sums, (float16)(0.0f), "
            "__builtin_ia32_cvtd2mask512(open));\n"
            "  v = select((float16)(3.0f), v, open) - convert_float16(open);\n"
            "  v = v == (float16)(5.0f, 3.0f, 5.0f, 3.0f, 5.0f, 3.0f, 5.0f, 3.0f, 5.0f, 3.0f, 5.0f, 3.0f, 5.0f, 3.0f, 5.0f, "
            "3.0f) ? (float16)(1.0f) : (float16)(0.0f);\n"
            "  vstore16(v, 0, sums); vstore16(v, 1, sums);\n"
            "#else\n  vstore16((float16)(0.0f), 0, sums);\n#endif\n }\n";

static const char dp4a_text[] = HEAD(32) "  int c = 100; uint x = 0xc8c8c8c8u; int y = 0xfefefefe;\n"
                                         "  asm(\"dp4a.u32.s32 %0, %1, %2, %0;\" : \"+r\"(c) : \"r\"(x), \"r\"(y));\n"
                                         "  sums[get_local_id(0)] = c; }\n";

static bool run_probe(bl_device *dev, const probe *p)
{
    bl_kernel_source source = {
        .entry = "probe", .text = p->text, .len = strlen(p->text), .nbuffers = 1, .writes = 1, .local = {p->unit.scope, 1, 1}};
    const uint32_t groups[1][3] = {{1, 1, 1}};
    float sums[SUMS] = {0};
    bl_kernel *kernel = NULL;
    bl_recording *recording = NULL;
    bl_buffer *buffer = NULL;
    bl_launch launch = {0};
    bl_submission submission = {.slots = &buffer, .groups = groups};
    bool works = false;

    if (bl_kernel_create(dev, &source, &kernel, NULL) != BL_OK || bl_buffer_alloc(dev, sizeof sums, &buffer, NULL) != BL_OK)
        goto out;
    launch.kernel = kernel;
    if (bl_recording_create(dev, 1, &launch, 1, 0, &recording, NULL) != BL_OK ||
        bl_recording_submit(recording, &submission, NULL) != BL_OK || bl_device_wait(dev, NULL) != BL_OK ||
        bl_buffer_read(buffer, 0, sums, sizeof sums, NULL) != BL_OK)
        goto out;
    works = true;
    for (int i = 0; i < SUMS; i++)
        works = works && sums[i] == p->sum;
out:
    bl_recording_destroy(recording);
    bl_kernel_destroy(kernel);
    bl_buffer_release(buffer);
    return works;
}

/* ---- units that the processor reports */

enum { HAS_DOT = 1, HAS_TILES = 2, HAS_BYTE_TILES = 4, HAS_VNNI = 8, HAS_MASKS = 16 };

#if BL_CL_X86
enum {
    REQUEST_PERMISSION = 0x1023, /* ARCH_REQ_XCOMP_PERM of arch_prctl: Linux, Documentation/arch/x86/xstate.rst */
    TILE_DATA = 18               /* the state component of the tiles */
};

/* Uses the list of the C library, which combines the features of the processor with the state that the system saves
 * (xgetbv). */
static unsigned processor(void)
{
    unsigned has = CPU_FEATURE_ACTIVE(AVX512_BF16) ? HAS_DOT : 0;
    has |= CPU_FEATURE_ACTIVE(AVX512_VNNI) ? HAS_VNNI : 0; /* such processors also have AVX512VL, for 4 and 8 lanes */
    /* the compiler's list for AVX512VL: its bit is 31, and the header of glibc 2.36 shifts a signed 1 by it */
    has |= CPU_FEATURE_ACTIVE(AVX512DQ) && __builtin_cpu_supports("avx512vl") ? HAS_MASKS : 0;
    if (CPU_FEATURE_ACTIVE(AMX_TILE)) {
        has |= CPU_FEATURE_ACTIVE(AMX_BF16) ? HAS_TILES : 0;
        has |= CPU_FEATURE_ACTIVE(AMX_INT8) ? HAS_BYTE_TILES : 0;
    }
    return has;
}

/* A process must request permission to use tiles; threads inherit the permission. */
static bool may_use_tiles(void)
{
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#else
static unsigned processor(void)
{
    return 0;
}

static bool may_use_tiles(void)
{
    return false;
}
#endif

void bl_cl_ask_for_tiles(void)
{
    if ((processor() & (HAS_TILES | HAS_BYTE_TILES)) != 0)
        (void)may_use_tiles(); /* the result is unused here: bl_cl_find_units asks again */
}

/* ---- the list */

static void add_unit(bl_device_info *info, bl_matrix_unit unit)
{
    if (info->nmatrix < BL_MAX_MATRIX_UNITS)
        info->matrix[info->nmatrix++] = unit;
}

static void find_tiles(bl_cl_device *dev, unsigned has)
{
    static const probe tiles = {{BL_UNIT_AMX, BL_UNIT_BF16, 16, 16, 32, 1, 2, RATE_OF_TILES}, 32, tile_text};
    bl_device_info *info = &dev->base.info;

    if ((has & HAS_TILES) == 0 || !may_use_tiles() || !run_probe(&dev->base, &tiles))
        return;
    add_unit(info, tiles.unit);
    info->fragments = 8; /* the registers tmm0 to tmm7 */
    if ((has & HAS_BYTE_TILES) != 0) {
        add_unit(info, (bl_matrix_unit){BL_UNIT_AMX, BL_UNIT_I8, 16, 16, 64, 1, 4, 2 * RATE_OF_TILES});
        add_unit(info, (bl_matrix_unit){BL_UNIT_AMX, BL_UNIT_U8, 16, 16, 64, 1, 4, 2 * RATE_OF_TILES});
    }
}

static void find_dot(bl_cl_device *dev, unsigned has)
{
    static const probe dot = {{BL_UNIT_DOT, BL_UNIT_BF16, 1, 16, 2, 1, 2, RATE_OF_DOT}, 2, dot_text};

    if ((has & HAS_DOT) != 0 && run_probe(&dev->base, &dot))
        add_unit(&dev->base.info, dot.unit);
}

static uint32_t capability_of(bl_cl_device *dev, cl_device_info which)
{
    cl_uint capability = 0;
    return dev->cl.GetDeviceInfo(dev->id, which, sizeof capability, &capability, NULL) == CL_SUCCESS ? capability : 0;
}

static bl_dot4 find_dot4(bl_cl_device *dev, unsigned has)
{
    static const probe vnni = {{.scope = 1}, -1500, vnni_text}, dp4a = {{.scope = WARP}, -1500, dp4a_text};
    uint32_t capability = 10 * capability_of(dev, COMPUTE_CAPABILITY_MAJOR_NV) + capability_of(dev, COMPUTE_CAPABILITY_MINOR_NV);

    if ((has & HAS_VNNI) != 0 && run_probe(&dev->base, &vnni))
        return BL_DOT4_VNNI;
    return capability >= CAPABILITY_OF_DP4A && run_probe(&dev->base, &dp4a) ? BL_DOT4_DP4A : BL_DOT4_NONE;
}

static void find_mma(bl_cl_device *dev)
{
    static const probe mma = {{BL_UNIT_MMA, BL_UNIT_F16, 16, 8, 16, WARP, 1, 0}, 16, mma_text};

    if (dev->base.info.subgroup != WARP || capability_of(dev, COMPUTE_CAPABILITY_MAJOR_NV) < CAPABILITY_OF_MMA ||
        !run_probe(&dev->base, &mma))
        return;
    add_unit(&dev->base.info, mma.unit);
    add_unit(&dev->base.info, (bl_matrix_unit){BL_UNIT_MMA, BL_UNIT_BF16, 16, 8, 16, WARP, 1, 0});
    add_unit(&dev->base.info, (bl_matrix_unit){BL_UNIT_MMA, BL_UNIT_I8, 16, 8, 32, WARP, 1, 0});
}

void bl_cl_find_units(bl_cl_device *dev)
{
    static const probe masked = {{.scope = 1}, 1, masked_text};
    unsigned has = dev->base.info.type == BL_DEVICE_CPU ? processor() : 0;

    dev->base.info.dot4 = find_dot4(dev, has);
    dev->base.info.masks = (has & HAS_MASKS) != 0 && run_probe(&dev->base, &masked);
    if (dev->base.info.masks && (dev->base.info.features & BL_FEATURE_EXACT) != 0)
        dev->base.info.features |= BL_FEATURE_EXACT_EXP; /* prelude_exp in render/opencl_begin.c */
    if (dev->base.info.type == BL_DEVICE_GPU)
        find_mma(dev);
    find_tiles(dev, has);
    find_dot(dev, has);
}
