/* SPDX-License-Identifier: MIT */
/* Lane-wise accesses as function calls: many accesses after a long loop; accesses inside the loop are never calls. */
#include "engine/render/render.h"
#include "tests/lower/read_linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { STORES = 6 };

/* y[5 i + l] += x[i] for 16 lanes l, in |turns| iterations; STORES columns of z get the sum, in each iteration if |within|,
 * else at the end. */
static void print_kernel(int turns, bool within, bl_text *text)
{
    int n = 12;

    bl_text_puts(text, "linear sums buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n"
                       "0 buffer float32 arg=0\n1 buffer float32 arg=1\n2 const int32 0\n");
    bl_text_printf(text, "3 const int32 %d\n4 const float32 0\n5 lane int32x16\n6 const int32 5\n7 mul int32x16 %%5 %%6\n",
                   turns);
    bl_text_puts(text, "8 acc float32x16 %4\n9 loop int32 %3\n10 load float32x16 %0 %9\n11 set %8 %10\n");
    if (!within)
        bl_text_printf(text, "%d end\n", n++);
    for (int i = 0; i < STORES; i++, n += 3)
        bl_text_printf(text, "%d const int32 %d\n%d add int32x16 %%7 %%%d\n%d store float32x16 %%1 %%%d %%8\n", n, i, n + 1, n,
                       n + 2, n + 1);
    if (within)
        bl_text_printf(text, "%d end\n", n);
}

/* y has STACKS vectors of four elements of x with a stride of 7, after a loop of |turns|; the last vector shares an element
 * with another user. */
static void print_stacks(int turns, bl_text *text)
{
    enum { STACKS = 6, LANES = 4 };
    int n = 8;

    bl_text_printf(text,
                   "linear stacks buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n0 buffer float32 arg=0\n"
                   "1 buffer float32 arg=1\n2 const int32 0\n3 const int32 %d\n4 group_id int32 arg=0\n5 loop int32 %%3\n"
                   "6 load float32 %%0 %%5\n7 end\n",
                   turns);
    for (int i = 0; i < STACKS; i++) {
        int loads[LANES] = {0};
        for (int k = 0; k < LANES; k++, n += 3) {
            bl_text_printf(text, "%d const int32 %d\n%d add int32 %%4 %%%d\n%d load float32 %%0 %%%d\n", n, i + 7 * k, n + 1, n,
                           n + 2, n + 1);
            loads[k] = n + 2;
        }
        bl_text_printf(text, "%d stack float32x4 %%%d %%%d %%%d %%%d\n%d store float32x4 %%1 %%2 %%%d\n", n, loads[0], loads[1],
                       loads[2], loads[3], n + 1, n);
        n += 2;
        if (i == STACKS - 1)
            bl_text_printf(text, "%d store %%1 %%2 %%%d\n", n, loads[0]);
    }
}

/* Sets the flag of arithmetic without overflow, which the text form lacks, and removes empty operand lists, which lowering does
 * not make. */
static bool mark(bl_linear *linear)
{
    for (uint32_t i = 0; i < linear->ninst; i++) {
        linear->inst[i].sub |= linear->inst[i].op == BL_OP_MUL || linear->inst[i].op == BL_OP_ADD;
        if (linear->inst[i].nargs == 0)
            linear->inst[i].args = NULL;
    }
    return false;
}

static int count(uint32_t subgroup, const bl_text *text, const char *call)
{
    static const bl_device_info cpu = {.id = "cpu", .dialect = BL_DIALECT_OPENCL, .subgroup = 1, .calls_kernels = true};
    bl_device_info info = cpu;
    bl_arena *arena = bl_arena_create(0);
    bl_linear *linear = NULL;
    bl_text source = {0};
    bl_err err = {0};
    int calls = 0;

    info.subgroup = subgroup;
    info.calls_kernels = subgroup == 1;
    if (read_linear(arena, text->data, text->len, &linear, &err) != BL_OK || mark(linear) ||
        bl_render(linear, &info, &source, &err) != BL_OK)
        fail_msg("%s", err.text);
    for (const char *at = source.data; (at = strstr(at, call)) != NULL; at++)
        calls++;
    bl_text_fini(&source);
    bl_arena_destroy(arena);
    return calls;
}

static int count_calls(uint32_t subgroup, int turns, bool within)
{
    bl_text text = {0};
    int calls;

    print_kernel(turns, within, &text);
    calls = count(subgroup, &text, "scatter_float16(v");
    bl_text_fini(&text);
    return calls;
}

static void loads_side_by_side_are_a_call(void **state)
{
    bl_text text = {0};

    (void)state;
    print_stacks(1000, &text);
    assert_int_equal(count(1, &text, "gather_float4(b"), 5); /* one element of the sixth vector has another user */
    bl_text_fini(&text);
    print_stacks(8, &text);
    assert_int_equal(count(1, &text, "gather_float4(b"), 0);
    bl_text_fini(&text);
}

/* A constant has no operands to inspect. */
static void constants_are_no_loads(void **state)
{
    bl_text text = {0};

    (void)state;
    bl_text_puts(&text,
                 "linear stacks buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n0 buffer float32 arg=0\n"
                 "1 buffer float32 arg=1\n2 const int32 0\n3 const int32 1000\n4 const float32 1\n5 loop int32 %3\n"
                 "6 load float32 %0 %5\n7 end\n8 load float32 %0 %2\n9 const float32 2\n"
                 "10 stack float32x4 %4 %9 %4 %9\n11 store float32x4 %1 %2 %10\n"
                 "12 stack float32x4 %8 %4 %9 %4\n13 store float32x4 %1 %2 %12\n");
    assert_int_equal(count(1, &text, "gather_float4(b"), 0);
    bl_text_fini(&text);
}

static void columns_after_a_long_loop_are_calls(void **state)
{
    (void)state;
    assert_int_equal(count_calls(1, 1000, false), STORES);
}

static void what_runs_as_often_as_all_else_is_said_lane_by_lane(void **state)
{
    (void)state;
    assert_int_equal(count_calls(1, 1000, true), 0);
    assert_int_equal(count_calls(1, 8, false), 0);
}

static void kernels_have_no_calls(void **state)
{
    (void)state;
    assert_int_equal(count_calls(32, 1000, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_after_a_long_loop_are_calls),
        cmocka_unit_test(what_runs_as_often_as_all_else_is_said_lane_by_lane),
        cmocka_unit_test(loads_side_by_side_are_a_call),
        cmocka_unit_test(constants_are_no_loads),
        cmocka_unit_test(kernels_have_no_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
