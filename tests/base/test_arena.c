/* SPDX-License-Identifier: MIT */
#include "engine/base/arena.h"
#include "engine/base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void memory_is_aligned_zeroed_and_apart(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    unsigned char *at[200];

    (void)state;
    for (int round = 0; round < 3; round++) { /* a reset arena gives the same memory again, zeroed again */
        for (size_t i = 0; i < 200; i++) {
            at[i] = bl_arena_alloc(arena, i * 37);
            assert_non_null(at[i]);
            assert_int_equal((uintptr_t)at[i] % 16, 0);
            for (size_t b = 0; b < i * 37; b++)
                assert_int_equal(at[i][b], 0);
            memset(at[i], (int)i + 1, i * 37);
        }
        for (size_t i = 0; i < 200; i++) {
            for (size_t b = 0; b < i * 37; b++)
                assert_int_equal(at[i][b], (unsigned char)(i + 1));
        }
        assert_in_range(bl_arena_used(arena), 199 * 100 * 37, 199 * 100 * 37 + 200 * 16);
        bl_arena_reset(arena);
        assert_int_equal(bl_arena_used(arena), 0);
    }
    bl_arena_destroy(arena);
    bl_arena_destroy(NULL);
}

static void limit_is_exact_and_sticky(void **state)
{
    bl_arena *arena = bl_arena_create(64);
    bl_err err = {0};

    (void)state;
    assert_non_null(bl_arena_alloc(arena, 64));
    assert_int_equal(bl_arena_status(arena, &err), BL_OK);
    assert_null(bl_arena_alloc(arena, 1));
    assert_null(bl_arena_alloc(arena, 0));
    assert_int_equal(bl_arena_status(arena, &err), BL_ELIMIT);
    assert_string_equal(err.text, "the working memory exceeds its limit of 64 bytes");
    bl_arena_reset(arena);
    assert_non_null(bl_arena_alloc(arena, 1));
    assert_int_equal(bl_arena_status(arena, NULL), BL_OK);
    bl_arena_destroy(arena);
}

static void absurd_sizes_are_limits(void **state)
{
    static const struct {
        size_t count, size;
    } rows[] = {{SIZE_MAX, 2}, {SIZE_MAX / 16 + 1, 16}, {1, SIZE_MAX}, {SIZE_MAX - 15, 1}, {1, SIZE_MAX - 40}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_arena *arena = bl_arena_create(1 << 20);

        assert_null(bl_arena_array(arena, rows[i].count, rows[i].size));
        assert_int_equal(bl_arena_status(arena, NULL), BL_ELIMIT);
        bl_arena_destroy(arena);
    }
}

static void out_of_memory_is_sticky(void **state)
{
    bl_arena *arena = bl_arena_create(0);

    (void)state;
    bl_fault_arm(BL_FAULT_ALLOC, 1);
    assert_null(bl_arena_alloc(arena, 1));
    assert_null(bl_arena_alloc(arena, 1));
    assert_int_equal(bl_arena_status(arena, NULL), BL_ENOMEM);
    bl_arena_destroy(arena);
    bl_fault_arm(BL_FAULT_ALLOC, 1);
    assert_null(bl_arena_create(0));
}

static void text_is_copied(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    char *text = bl_arena_printf(arena, "%s-%d", "node", 42);

    (void)state;
    assert_string_equal(text, "node-42");
    assert_string_equal(bl_arena_strdup(arena, text), "node-42");
    assert_string_equal(bl_arena_strndup(arena, text, 4), "node");
    assert_string_equal(bl_arena_strndup(arena, "", 0), "");
    bl_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_zeroed_and_apart),
        cmocka_unit_test(limit_is_exact_and_sticky),
        cmocka_unit_test(absurd_sizes_are_limits),
        cmocka_unit_test(out_of_memory_is_sticky),
        cmocka_unit_test(text_is_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
