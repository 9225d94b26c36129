/* SPDX-License-Identifier: MIT */
/* Loops that the text asks a GPU's driver not to unroll: those that the driver could unroll at a loss. */
#include "engine/render/render.h"
#include "tests/lower/read_linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* y[i] = x[i] + ... for i below |turns|; each iteration computes |values| values of |lanes| lanes. */
static bool is_rolled(const bl_device_info *info, int turns, int values, int lanes)
{
    bl_arena *arena = bl_arena_create(0);
    bl_linear *linear = NULL;
    bl_text list = {0}, source = {0};
    bl_err err = {0};
    int n = 5;
    bool rolled, extension;

    bl_text_printf(&list,
                   "linear long buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n0 buffer float32 arg=0\n"
                   "1 buffer float32 arg=1\n2 const int32 %d\n3 loop int32 %%2\n4 load float32x%d %%0 %%3\n",
                   turns, lanes);
    for (; n < 5 + values; n++)
        bl_text_printf(&list, "%d add float32x%d %%%d %%4\n", n, lanes, n - 1);
    bl_text_printf(&list, "%d store float32x%d %%1 %%3 %%%d\n%d end\n", n, lanes, n - 1, n + 1);
    if (read_linear(arena, list.data, list.len, &linear, &err) != BL_OK || bl_render(linear, info, &source, &err) != BL_OK)
        fail_msg("%s\n%s", err.text, list.data);
    rolled = strstr(source.data, "[[dont_unroll]] for (") != NULL;
    extension = strstr(source.data, "GL_EXT_control_flow_attributes") != NULL;
    if (rolled != extension)
        fail_msg("the attribute %d, its extension %d", rolled, extension);
    bl_text_fini(&list);
    bl_text_fini(&source);
    bl_arena_destroy(arena);
    return rolled;
}

static void long_loops_are_left(void **state)
{
    static const bl_device_info gpu = {.id = "gpu", .type = BL_DEVICE_GPU, .dialect = BL_DIALECT_GLSL, .subgroup = 32},
                                cpu = {.id = "cpu",
                                       .type = BL_DEVICE_CPU,
                                       .serial_groups = true,
                                       .dialect = BL_DIALECT_GLSL,
                                       .subgroup = 8},
                                opencl = {.id = "gpu", .type = BL_DEVICE_GPU, .dialect = BL_DIALECT_OPENCL, .subgroup = 32};
    const struct {
        const char *name;
        const bl_device_info *info;
        int turns, values, lanes;
        bool rolled;
    } rows[] = {
        {"a sum of a few", &gpu, 16, 4, 1, false},
        {"125 minima", &gpu, 125, 4, 1, true},
        {"a few turns of much", &gpu, 4, 200, 1, true},
        {"vectors count their lanes", &gpu, 16, 10, 4, true},
        {"scalars", &gpu, 16, 10, 1, false},
        {"one turn", &gpu, 1, 700, 1, false},
        {"more than a driver writes out", &gpu, 4096, 4, 1, false},
        {"a CPU", &cpu, 125, 4, 1, false},
        {"OpenCL", &opencl, 125, 4, 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (is_rolled(rows[i].info, rows[i].turns, rows[i].values, rows[i].lanes) != rows[i].rolled)
            fail_msg("%s: %s", rows[i].name, rows[i].rolled ? "not marked" : "marked");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_loops_are_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
