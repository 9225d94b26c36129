/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "engine/base/size.h"
#include "engine/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void first_failure_wins(void **state)
{
    bl_err err = {0};

    (void)state;
    assert_int_equal(bl_fail(&err, BL_ELIMIT, "limit %d", 7), BL_ELIMIT);
    assert_int_equal(bl_fail(&err, BL_EBUG, "later"), BL_ELIMIT);
    assert_string_equal(err.text, "limit 7");
    bl_err_blame(&err, "y");
    bl_err_blame(&err, "z");
    assert_string_equal(err.node, "y");
    assert_int_equal(bl_fail(NULL, BL_ENOMEM, "nobody asks"), BL_ENOMEM);
}

static void long_text_is_cut_between_characters(void **state)
{
    char text[1024];
    static const char *const characters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};

    (void)state;
    for (size_t c = 0; c < 4; c++) {
        size_t len = strlen(characters[c]);

        for (size_t shift = 0; shift < 4; shift++) {
            bl_err err = {0};
            size_t n = 0;

            for (; n < shift; n++)
                text[n] = '.';
            for (; n + len < sizeof text; n += len)
                memcpy(text + n, characters[c], len);
            text[n] = '\0';
            assert_int_equal(bl_fail(&err, BL_EGRAPH, "%s", text), BL_EGRAPH);
            assert_int_equal((strlen(err.text) - shift) % len, 0);
            assert_in_range(strlen(err.text), sizeof err.text - 4, sizeof err.text - 1);
            assert_memory_equal(err.text, text, strlen(err.text));
        }
    }
}

static void every_status_has_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < BL_STATUS_COUNT; i++) {
        assert_non_null(bl_status_name((bl_status)i));
        assert_non_null(bl_status_title((bl_status)i));
        assert_in_range(bl_status_http((bl_status)i), 200, 599);
    }
    assert_string_equal(bl_status_name(BL_EGRAPH), "EGRAPH");
    assert_int_equal(bl_status_http(BL_EGRAPH), 422);
    assert_string_equal(bl_status_name(BL_STATUS_COUNT), "?");
    assert_int_equal(bl_status_http(BL_STATUS_COUNT), 500);
}

static void fault_strikes_once_at_the_nth_call(void **state)
{
    (void)state;
    for (long nth = 1; nth <= 3; nth++) {
        bl_fault_arm(BL_FAULT_ALLOC, nth);
        for (long call = 1; call <= 5; call++) {
            void *memory = bl_calloc(1, 8);

            assert_int_equal(memory == NULL, call == nth);
            free(memory);
        }
    }
    bl_fault_arm(BL_FAULT_DEVICE, 1);
    assert_false(bl_fault_hit(BL_FAULT_ALLOC));
    bl_fault_arm(BL_FAULT_DEVICE, 0);
    assert_false(bl_fault_hit(BL_FAULT_DEVICE));
}

static void sizes_do_not_overflow(void **state)
{
    size_t out = 0;

    (void)state;
    assert_false(bl_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(bl_size_add(SIZE_MAX, 1, &out));
    assert_false(bl_size_align(SIZE_MAX - 3, 16, &out));
    assert_true(bl_size_align(17, 16, &out));
    assert_int_equal(out, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_failure_wins),     cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(every_status_has_a_row), cmocka_unit_test(fault_strikes_once_at_the_nth_call),
        cmocka_unit_test(sizes_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
