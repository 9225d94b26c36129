/* SPDX-License-Identifier: MIT */
/* A joined kernel has the same effect as its kernels in order. */
#include "engine/interp/interp_kernel.h"
#include "engine/lower/lower.h"
#include "tests/lower/read_linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 4, ELEMENTS = 6, MOST_PARTS = 3 };

/* b0[i] = 2 * b1[i] */
static const char twice[] = "linear twice buffers=float32,float32 writes=1 scalars=0 local=1,1,1 localbytes=0\n"
                            "0 group_id int32 arg=0\n"
                            "1 buffer float32 arg=1\n"
                            "2 load float32 %1 %0\n"
                            "3 const float32 2\n"
                            "4 mul float32 %2 %3\n"
                            "5 buffer float32 arg=0\n"
                            "6 store %5 %0 %4\n";
/* b0[3 * y + x] = b1[2 * x + y] + b1[0]: every result needs two earlier results */
static const char turned[] = "linear turned buffers=float32,float32 writes=1 scalars=0 local=1,1,1 localbytes=0\n"
                             "0 group_id int64 arg=0\n"
                             "1 group_id int64 arg=1\n"
                             "2 const int64 3\n"
                             "3 mul int64 %1 %2\n"
                             "4 add int64 %3 %0\n"
                             "5 const int64 2\n"
                             "6 mul int64 %0 %5\n"
                             "7 add int64 %6 %1\n"
                             "8 buffer float32 arg=1\n"
                             "9 load float32 %8 %7\n"
                             "10 const int64 0\n"
                             "11 load float32 %8 %10\n"
                             "12 add float32 %9 %11\n"
                             "13 buffer float32 arg=0\n"
                             "14 store %13 %4 %12\n";
/* b0[5] = the sum of b1, in a separate loop */
static const char total[] = "linear total buffers=float32,float32 writes=1 scalars=0 local=1,1,1 localbytes=0\n"
                            "0 const int32 6\n"
                            "1 const float32 0\n"
                            "2 acc float32 %1\n"
                            "3 buffer float32 arg=1\n"
                            "4 loop int32 %0\n"
                            "5 load float32 %3 %4\n"
                            "6 add float32 %2 %5\n"
                            "7 set %2 %6\n"
                            "8 end\n"
                            "9 buffer float32 arg=0\n"
                            "10 const int32 5\n"
                            "11 store %9 %10 %2\n";
static const char grouped[] = "linear grouped buffers=float32 writes=1 scalars=0 local=4,1,1 localbytes=0\n"
                              "0 local_id int32 arg=0\n"
                              "1 const float32 1\n"
                              "2 buffer float32 arg=0\n"
                              "3 store %2 %0 %1\n";
static const char scalar[] = "linear scalar buffers=float32 writes=1 scalars=1 local=1,1,1 localbytes=0\n"
                             "0 var int32 arg=0\n"
                             "1 const float32 1\n"
                             "2 buffer float32 arg=0\n"
                             "3 store %2 %0 %1\n";

typedef struct bench {
    bl_ir *ir;
    float data[SLOTS][ELEMENTS];
} bench;

static const bl_linear *read(bench *b, const char *text)
{
    bl_linear *linear = NULL;
    bl_err err = {0};
    if (read_linear(bl_ir_arena(b->ir), text, strlen(text), &linear, &err) != BL_OK)
        fail_msg("%s", err.text);
    return linear;
}

static bench open_bench(void)
{
    bench b = {.ir = bl_ir_create(0)};
    for (int s = 0; s < SLOTS; s++) {
        for (int i = 0; i < ELEMENTS; i++)
            b.data[s][i] = (float)(s == 0 ? i * i + 1 : -1);
    }
    return b;
}

static void run(bench *b, const bl_linear *linear, const int64_t *groups, const int *slot)
{
    bl_interp_code *code = NULL;
    bl_interp_memory memory[SLOTS];
    bl_err err = {0};
    bl_interp_launch launch = {.buffers = memory, .groups = {(uint32_t)groups[0], (uint32_t)groups[1], (uint32_t)groups[2]}};

    for (uint32_t i = 0; i < linear->nbuffers; i++)
        memory[i] = (bl_interp_memory){(unsigned char *)b->data[slot[i]], sizeof b->data[0]};
    assert_int_equal(bl_interp_compile(bl_ir_arena(b->ir), linear, &code, &err), BL_OK);
    launch.scratch = aligned_alloc(16, (bl_interp_scratch(code) + 15) / 16 * 16);
    if (bl_interp_run(code, &launch, &err) != BL_OK)
        fail_msg("%s", err.text);
    free(launch.scratch);
}

static void test_joined(void **state)
{
    static const int slots[MOST_PARTS][2] = {{1, 0}, {2, 1}, {2, 1}};
    static const int64_t groups[MOST_PARTS][3] = {{6, 1, 1}, {3, 2, 1}, {1, 1, 1}};
    static const char *const texts[MOST_PARTS] = {twice, turned, total};
    static const bl_dtype dtypes[SLOTS] = {BL_F32, BL_F32, BL_F32, BL_F32};
    static const int same[SLOTS] = {0, 1, 2, 3};
    static const int64_t one[3] = {1, 1, 1};
    bench apart = open_bench(), joined = open_bench();
    bl_join_part parts[MOST_PARTS];
    bl_lowered *lowered = NULL;
    bl_err err = {0};

    (void)state;
    for (int i = 0; i < MOST_PARTS; i++) {
        run(&apart, read(&apart, texts[i]), groups[i], slots[i]);
        parts[i] = (bl_join_part){.linear = read(&joined, texts[i]), .param = slots[i]};
        memcpy(parts[i].groups, groups[i], sizeof groups[i]);
    }
    if (bl_lower_join(joined.ir, "all", 3, dtypes, MOST_PARTS, parts, &lowered, &err) != BL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(lowered->linear->writes, 6);
    run(&joined, lowered->linear, one, same);
    for (int s = 0; s < SLOTS; s++) {
        for (int i = 0; i < ELEMENTS; i++) {
            if (apart.data[s][i] != joined.data[s][i])
                fail_msg("slot %d, element %d: %g, not %g", s, i, (double)joined.data[s][i], (double)apart.data[s][i]);
        }
    }
    assert_true(apart.data[2][5] == 122 && apart.data[2][0] == 4); /* twice 1 + 2 + 5 + ..., and the results of |turned| */
    bl_ir_destroy(apart.ir);
    bl_ir_destroy(joined.ir);
}

/* Kernels with several work-items per group, or with launch-time sizes, are not joined. */
static void test_what_cannot_be(void **state)
{
    bench b = open_bench();
    const bl_node *one = bl_index(b.ir, 1), *named = bl_var(b.ir, 0, 1, 9);
    bl_lowered fine = {.linear = (bl_linear *)(uintptr_t)read(&b, twice), .grid = {bl_index(b.ir, 6), one, one}}, bad = fine;

    (void)state;
    assert_true(bl_lower_can_join(&fine));
    bad.grid[1] = named;
    assert_false(bl_lower_can_join(&bad));
    bad = fine;
    bad.linear = (bl_linear *)(uintptr_t)read(&b, grouped);
    assert_false(bl_lower_can_join(&bad));
    bad.linear = (bl_linear *)(uintptr_t)read(&b, scalar);
    assert_false(bl_lower_can_join(&bad));
    bl_ir_destroy(b.ir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_joined), cmocka_unit_test(test_what_cannot_be)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
