/* SPDX-License-Identifier: MIT */
#include "server/store/names.h"

#include "engine/base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 5000 };

static int things[N];

static const char *name_of(int i)
{
    static char name[32];

    snprintf(name, sizeof name, "tensor-%d", i);
    return name;
}

/* Checks that the pairs are those of |expected|, in this order. */
static void check_order(bl_namemap *map, const int *expected, size_t n)
{
    const char *name;
    void *value;

    assert_int_equal(bl_namemap_count(map), n);
    for (size_t i = 0; i < n; i++) {
        assert_true(bl_namemap_at(map, i, &name, &value));
        assert_string_equal(name, name_of(expected[i]));
        assert_ptr_equal(value, &things[expected[i]]);
    }
    assert_false(bl_namemap_at(map, n, &name, &value));
    if (n > 1) { /* iterates back to the start, and by index */
        assert_true(bl_namemap_at(map, n / 2, &name, &value));
        assert_string_equal(name, name_of(expected[n / 2]));
        assert_true(bl_namemap_at(map, 0, &name, &value));
        assert_string_equal(name, name_of(expected[0]));
    }
}

static void names_keep_their_order(void **state)
{
    bl_namemap *map = bl_namemap_create();
    static int expected[N];
    size_t n = 0;

    (void)state;
    check_order(map, expected, 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(bl_namemap_put(map, name_of(i), &things[i], NULL), BL_OK);
    for (int i = 0; i < N; i++) { /* keep every third name */
        if (i % 3 == 0)
            expected[n++] = i;
        else
            assert_ptr_equal(bl_namemap_remove(map, name_of(i)), &things[i]);
    }
    check_order(map, expected, n);
    assert_null(bl_namemap_remove(map, name_of(1)));
    assert_null(bl_namemap_get(map, name_of(1)));
    assert_int_equal(bl_namemap_put(map, name_of(1), &things[1], NULL), BL_OK); /* a new pair goes to the end */
    expected[n++] = 1;
    assert_int_equal(bl_namemap_put(map, name_of(3), &things[3], NULL), BL_OK); /* a replaced pair keeps its position */
    check_order(map, expected, n);
    bl_namemap_destroy(map);
    bl_namemap_destroy(NULL);
}

static void removing_while_walking(void **state)
{
    bl_namemap *map = bl_namemap_create();
    static int expected[N];
    const char *name;
    void *value;
    size_t n = 0, i = 0;

    (void)state;
    for (int k = 0; k < N; k++)
        assert_int_equal(bl_namemap_put(map, name_of(k), &things[k], NULL), BL_OK);
    while (bl_namemap_at(map, i, &name, &value)) {
        int k = (int)((int *)value - things);

        if (k % 2 == 0) {
            expected[n++] = k;
            i++;
        } else {
            assert_ptr_equal(bl_namemap_remove(map, name), value);
        }
        if (k == 1000) { /* also removes the pair before the current one */
            assert_non_null(bl_namemap_remove(map, name_of(998)));
            expected[--n - 1] = k;
            i--;
        }
    }
    check_order(map, expected, n);
    bl_namemap_destroy(map);
}

static void churn_does_not_grow(void **state)
{
    bl_namemap *map = bl_namemap_create();

    (void)state;
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(bl_namemap_put(map, name_of(i), &things[0], NULL), BL_OK);
        if (i >= 10)
            assert_non_null(bl_namemap_remove(map, name_of(i - 10)));
        assert_ptr_equal(bl_namemap_get(map, name_of(i)), &things[0]);
    }
    assert_int_equal(bl_namemap_count(map), 10);
    bl_namemap_destroy(map);
}

static void names_without_memory(void **state)
{
    bl_err err = {0};

    (void)state;
    bl_fault_arm(BL_FAULT_ALLOC, 1);
    assert_null(bl_namemap_create());
    for (long nth = 1; nth <= 3; nth++) {
        bl_namemap *map = bl_namemap_create();

        bl_fault_arm(BL_FAULT_ALLOC, nth);
        assert_int_equal(bl_namemap_put(map, "w", &things[0], &err), BL_ENOMEM);
        assert_int_equal(bl_namemap_count(map), 0);
        assert_int_equal(bl_namemap_put(map, "w", &things[0], NULL), BL_OK);
        assert_ptr_equal(bl_namemap_get(map, "w"), &things[0]);
        bl_namemap_destroy(map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_keep_their_order),
        cmocka_unit_test(removing_while_walking),
        cmocka_unit_test(churn_does_not_grow),
        cmocka_unit_test(names_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
