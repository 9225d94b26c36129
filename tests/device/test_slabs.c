/* SPDX-License-Identifier: MIT */
/* Blocks of slabs: they do not overlap, freed memory is used again, and slabs without blocks are returned. */
#include "opencl/cl_slabs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCKS = 60, ROUNDS = 4000, PAGE = 4096 };

typedef struct block {
    unsigned char *memory;
    size_t bytes;
    unsigned char mark; /* the value of the first and last byte of each page */
} block;

static void write_marks(const block *b)
{
    for (size_t i = 0; i < b->bytes; i += PAGE)
        b->memory[i] = b->mark;
    b->memory[b->bytes - 1] = b->mark;
}

static bool has_marks(const block *b)
{
    for (size_t i = 0; i < b->bytes; i += PAGE) {
        if (b->memory[i] != b->mark)
            return false;
    }
    return b->memory[b->bytes - 1] == b->mark;
}

static void test_blocks(void **state)
{
    static block blocks[BLOCKS];
    bl_cl_slabs slabs;
    unsigned seed = 5;

    (void)state;
    bl_cl_slabs_init(&slabs);
    for (unsigned round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525 + 1013904223;
        block *b = &blocks[(seed >> 8) % BLOCKS];
        if (b->memory != NULL) {
            assert_true(has_marks(b));
            bl_cl_slabs_free(&slabs, b->memory, b->bytes);
            b->memory = NULL;
            continue;
        }
        b->bytes = BL_CL_LEAST_BLOCK + (seed >> 6) % (BL_CL_HUGE_PAGE - BL_CL_LEAST_BLOCK + 1);
        b->mark = (unsigned char)round;
        b->memory = bl_cl_slabs_alloc(&slabs, b->bytes);
        assert_non_null(b->memory);
        assert_int_equal(0, (uintptr_t)b->memory % PAGE);
        write_marks(b);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].memory == NULL)
            continue;
        assert_true(has_marks(&blocks[i]));
        bl_cl_slabs_free(&slabs, blocks[i].memory, blocks[i].bytes);
    }
    assert_null(slabs.first);
    bl_cl_slabs_fini(&slabs);
}

/* A hole is filled before a slab is added; a slab holds whole blocks only. */
static void test_first_fit(void **state)
{
    enum { EACH = BL_CL_SLAB / (BL_CL_HUGE_PAGE / 2), HALF = BL_CL_HUGE_PAGE / 2 };
    bl_cl_slabs slabs;
    char *at[EACH + 1];

    (void)state;
    bl_cl_slabs_init(&slabs);
    for (int i = 0; i <= EACH; i++) {
        at[i] = bl_cl_slabs_alloc(&slabs, HALF);
        assert_non_null(at[i]);
    }
    for (int i = 1; i < EACH; i++)
        assert_ptr_equal(at[0] + i * HALF, at[i]);                    /* the first slab is full ... */
    assert_false(at[EACH] >= at[0] && at[EACH] < at[0] + BL_CL_SLAB); /* ... and a second one has the last block */
    bl_cl_slabs_free(&slabs, at[EACH], HALF);
    bl_cl_slabs_free(&slabs, at[3], HALF);
    bl_cl_slabs_free(&slabs, at[4], HALF);
    at[3] = bl_cl_slabs_alloc(&slabs, BL_CL_HUGE_PAGE);
    assert_ptr_equal(at[0] + 3 * HALF, at[3]);
    bl_cl_slabs_free(&slabs, at[3], BL_CL_HUGE_PAGE);
    for (int i = 0; i < EACH; i++) {
        if (i != 3 && i != 4)
            bl_cl_slabs_free(&slabs, at[i], HALF);
    }
    assert_null(slabs.first);
    bl_cl_slabs_fini(&slabs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks), cmocka_unit_test(test_first_fit)};
    return cmocka_run_group_tests_name("device/slabs", tests, NULL, NULL);
}
