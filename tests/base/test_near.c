/* SPDX-License-Identifier: MIT */
#include "engine/base/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const known[] = {"softmax", "log_softmax", "sum", "max", "float32", "float16", "axis", "keepdim", "x", ""};

static void the_nearest_is_suggested(void **state)
{
    static const struct {
        const char *wanted, *best; /* NULL: no name is close */
    } rows[] = {{"sofmax", "softmax"},
                {"softmaxx", "softmax"},
                {"SoftMax", "softmax"},
                {"log_sofmtax", "log_softmax"},
                {"flaot32", "float32"},
                {"float61", "float16"},
                {"axi", "axis"},
                {"axes", "axis"},
                {"keep_dim", "keepdim"},
                {"sun", "sum"},
                {"mxa", "max"},
                {"y", NULL},
                {"", NULL},
                {"median", NULL},
                {"convolution", NULL},
                {"\xff\xfe\xfd", NULL},
                {"sum sum", NULL},
                {"softmax_backward", NULL}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[100] = "";
        bl_near near;

        bl_near_init(&near, (bl_span){rows[i].wanted, strlen(rows[i].wanted)});
        for (size_t j = 0; j < sizeof known / sizeof known[0]; j++)
            bl_near_offer(&near, (bl_span){known[j], strlen(known[j])});
        if (rows[i].best != NULL)
            snprintf(expected, sizeof expected, "; did you mean \"%s\"?", rows[i].best);
        assert_string_equal(bl_near_hint(&near), expected);
    }
}

static void long_names_are_near_to_none(void **state)
{
    char name[2 * BL_NEAR_LONGEST];

    (void)state;
    memset(name, 'a', sizeof name);
    for (size_t len = BL_NEAR_LONGEST - 1; len <= sizeof name; len++) {
        bl_near near;

        bl_near_init(&near, (bl_span){name, len});
        for (size_t other = BL_NEAR_LONGEST - 2; other <= sizeof name; other++)
            bl_near_offer(&near, (bl_span){name, other});
        assert_int_equal(bl_near_hint(&near)[0] != '\0', len <= BL_NEAR_LONGEST);
        assert_true(near.best.len <= BL_NEAR_LONGEST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_is_suggested),
        cmocka_unit_test(long_names_are_near_to_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
