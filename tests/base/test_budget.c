/* SPDX-License-Identifier: MIT */
#include "engine/base/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void all_of_it_comes_back(void **state)
{
    bl_budget budget = {.limit = 1600};
    bl_err err = {0};

    (void)state;
    assert_int_equal(bl_budget_spare(&budget), 100);
    assert_int_equal(bl_budget_take(&budget, 1500, BL_ENOMEM, "a tensor", &err), BL_OK);
    assert_int_equal(atomic_load(&budget.used), 1500);
    bl_budget_give(&budget, 1500);
    assert_int_equal(atomic_load(&budget.used), 0);
    assert_int_equal(bl_budget_take(&budget, 1500, BL_ENOMEM, "a tensor", &err), BL_OK);
}

/* Long-lived allocations fail before the spare bytes; small requests may borrow the spare bytes, and the error says so. */
static void spare_bytes_are_lent(void **state)
{
    bl_budget budget = {.limit = 1600};
    bl_err err = {0}, later = {0}, large = {0};

    (void)state;
    assert_int_equal(bl_budget_take(&budget, 1501, BL_ENODEVMEM, "a tensor", &err), BL_ENODEVMEM);
    assert_non_null(strstr(err.text, "a tensor of 1501 bytes: 0 of 1600 bytes"));
    assert_non_null(strstr(err.text, "100 bytes are reserved for small requests"));
    assert_int_equal(atomic_load(&budget.used), 0);
    assert_int_equal(bl_budget_take(&budget, 1500, BL_ENOMEM, "a tensor", &err), BL_OK);
    assert_false(bl_budget_is_short(&budget));
    assert_int_equal(bl_budget_take(&budget, 1, BL_ENOMEM, "a tensor", &later), BL_ENOMEM);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bl_budget_borrow(&budget, 25, BL_ENOMEM, "a body", &later), BL_OK);
    assert_int_equal(atomic_load(&budget.used), 1600);
    assert_true(bl_budget_is_short(&budget));
    later = (bl_err){0};
    assert_int_equal(bl_budget_borrow(&budget, 1, BL_ENOMEM, "a body", &later), BL_ENOMEM);
    assert_non_null(strstr(later.text, "a body of 1 bytes: 1600 of 1600 bytes"));
    assert_null(strstr(later.text, "small requests"));
    bl_budget_give(&budget, 100);
    assert_false(bl_budget_is_short(&budget));
    assert_int_equal(bl_budget_borrow(&budget, 26, BL_ENOMEM, "a body", &large), BL_ENOMEM);
    assert_non_null(strstr(large.text, "100 bytes are reserved for small requests"));
}

/* A request may borrow any amount of free memory. */
static void the_rest_is_lent_too(void **state)
{
    bl_budget budget = {.limit = 1600};
    bl_err err = {0};

    (void)state;
    assert_int_equal(bl_budget_borrow(&budget, 1500, BL_ENOMEM, "a body", &err), BL_OK);
    assert_int_equal(bl_budget_borrow(&budget, 20, BL_ENOMEM, "a body", &err), BL_OK);
    assert_int_equal(bl_budget_take(&budget, 1, BL_ENOMEM, "a tensor", &err), BL_ENOMEM);
}

static void few_and_many_bytes(void **state)
{
    bl_budget none = {0}, most = {.limit = SIZE_MAX};
    bl_err err = {0};

    (void)state;
    assert_int_equal(bl_budget_spare(&none), 0);
    assert_int_equal(bl_budget_borrow(&none, 1, BL_ENOMEM, "a body", &err), BL_ENOMEM);
    assert_int_equal(bl_budget_spare(&most), 64 * 1024 * 1024);
    assert_int_equal(bl_budget_take(&most, SIZE_MAX, BL_ENOMEM, "a tensor", &err), BL_ENOMEM);
    assert_int_equal(bl_budget_take(NULL, SIZE_MAX, BL_ENOMEM, "a tensor", NULL), BL_OK);
    assert_int_equal(bl_budget_borrow(NULL, SIZE_MAX, BL_ENOMEM, "a body", NULL), BL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_comes_back),
        cmocka_unit_test(spare_bytes_are_lent),
        cmocka_unit_test(the_rest_is_lent_too),
        cmocka_unit_test(few_and_many_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
