/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "engine/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void text_grows(void **state)
{
    bl_text text = {0};
    char *taken;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        bl_text_printf(&text, "%d,", i);
        bl_text_putc(&text, 'x');
        assert_int_equal(strlen(text.data), text.len);
    }
    bl_text_puts(&text, "end");
    assert_int_equal(text.len, 10 * 3 + 90 * 4 + 900 * 5 + 3);
    assert_string_equal(text.data + text.len - 8, "999,xend");
    assert_int_equal(bl_text_status(&text, NULL), BL_OK);
    taken = bl_text_take(&text);
    assert_int_equal(strlen(taken), 10 * 3 + 90 * 4 + 900 * 5 + 3);
    assert_null(text.data);
    free(taken);
    taken = bl_text_take(&text);
    assert_string_equal(taken, "");
    free(taken);
}

static void reserved_room_is_the_callers(void **state)
{
    bl_text text = {0};
    char *at;

    (void)state;
    bl_text_puts(&text, "ab");
    at = bl_text_reserve(&text, 100);
    memset(at, 'c', 100);
    text.len += 100;
    assert_int_equal(strlen(text.data), 102);
    bl_text_clear(&text);
    assert_string_equal(text.data, "");
    bl_text_fini(&text);
    bl_text_fini(&text);
}

/* A text returns its bytes to the budget; a text over the limit is incomplete. */
static void a_budget_bounds_texts(void **state)
{
    bl_budget budget = {.limit = 1000};
    bl_text text = {.budget = &budget}, other = {.budget = &budget};
    bl_err err = {0};

    (void)state;
    assert_non_null(bl_text_reserve(&text, 600));
    assert_int_equal(atomic_load(&budget.used), text.cap);
    assert_null(bl_text_reserve(&other, 600));
    assert_true(other.failed);
    assert_int_equal(bl_text_status(&other, &err), BL_ENOMEM);
    bl_text_fini(&text);
    assert_int_equal(atomic_load(&budget.used), 0);
    bl_text_clear(&other);
    assert_non_null(bl_text_reserve(&other, 600));
    free(bl_text_take(&other)); /* memory that the caller takes leaves the budget */
    assert_int_equal(atomic_load(&budget.used), 0);
    assert_int_equal(bl_budget_take(&budget, 1001, BL_ENODEVMEM, "a buffer", &err), BL_ENOMEM); /* |err| keeps the first
                                                                                                 * failure */
    assert_int_equal(bl_budget_take(NULL, SIZE_MAX, BL_ENOMEM, "anything", &err), BL_OK);
}

static void out_of_memory_keeps_what_there_is(void **state)
{
    bl_text text = {0};
    bl_err err = {0};
    char wide[200];

    (void)state;
    memset(wide, 'w', sizeof wide);
    wide[199] = '\0';
    bl_text_puts(&text, "kept");
    for (int how = 0; how < 3; how++) {
        bl_fault_arm(BL_FAULT_ALLOC, 1);
        if (how == 0)
            bl_text_puts(&text, wide);
        else if (how == 1)
            bl_text_printf(&text, "%s", wide);
        else
            assert_null(bl_text_reserve(&text, 1000));
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        bl_text_puts(&text, "!");
        assert_string_equal(text.data, "kept");
        assert_int_equal(bl_text_status(&text, &err), BL_ENOMEM);
        bl_text_clear(&text);
        assert_int_equal(bl_text_status(&text, NULL), BL_OK);
        bl_text_puts(&text, "kept");
    }
    assert_null(bl_text_reserve(&text, SIZE_MAX));
    assert_null(bl_text_take(&text));
}

static void spans_compare(void **state)
{
    (void)state;
    assert_true(bl_span_eq(BL_S("abc"), BL_S("abc")));
    assert_false(bl_span_eq(BL_S("abc"), BL_S("abd")));
    assert_false(bl_span_eq(BL_S("abc"), BL_S("ab")));
    assert_true(bl_span_eq((bl_span){NULL, 0}, BL_S("")));
    assert_true(bl_span_is(BL_S("add"), "add"));
    assert_false(bl_span_is(BL_S("a\0d"), "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows),
        cmocka_unit_test(reserved_room_is_the_callers),
        cmocka_unit_test(a_budget_bounds_texts),
        cmocka_unit_test(out_of_memory_keeps_what_there_is),
        cmocka_unit_test(spans_compare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
