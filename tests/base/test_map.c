/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "engine/base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 5000 };

static int things[N];

static void pointers_are_found(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    bl_ptrmap map;

    (void)state;
    bl_ptrmap_init(&map, arena);
    assert_null(bl_ptrmap_get(&map, &things[0]));
    assert_false(bl_ptrmap_has(&map, NULL));
    for (int i = 0; i < N; i += 2)
        bl_ptrmap_put(&map, &things[i], &things[N - 1 - i]);
    bl_ptrmap_put(&map, &things[0], NULL);
    assert_int_equal(map.count, N / 2);
    for (int i = 0; i < N; i++) {
        assert_int_equal(bl_ptrmap_has(&map, &things[i]), i % 2 == 0);
        assert_ptr_equal(bl_ptrmap_get(&map, &things[i]), i % 2 == 0 && i > 0 ? &things[N - 1 - i] : NULL);
    }
    bl_ptrmap_clear(&map);
    assert_false(bl_ptrmap_has(&map, &things[2]));
    bl_ptrmap_put(&map, &things[1], &things[2]);
    assert_ptr_equal(bl_ptrmap_get(&map, &things[1]), &things[2]);
    bl_arena_destroy(arena);
}

static void pointer_map_without_memory_stays_whole(void **state)
{
    bl_arena *arena = bl_arena_create(2000);
    bl_ptrmap map;
    int held = 0;

    (void)state;
    bl_ptrmap_init(&map, arena);
    for (int i = 0; i < 100; i++)
        bl_ptrmap_put(&map, &things[i], &things[i]);
    assert_int_equal(bl_arena_status(arena, NULL), BL_ELIMIT);
    for (int i = 0; i < 100; i++)
        held += bl_ptrmap_get(&map, &things[i]) == &things[i];
    assert_int_equal(held, map.count);
    assert_true(held > 0);
    bl_ptrmap_put(&map, &things[0], &things[1]); /* replacing needs no memory */
    assert_ptr_equal(bl_ptrmap_get(&map, &things[0]), &things[1]);
    bl_arena_destroy(arena);
}

static const char *name_of(int i)
{
    static char name[32];

    snprintf(name, sizeof name, "tensor-%d", i);
    return name;
}

/* The pairs are those of |expected| in that order. */
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
    if (n > 1) { /* back to the start, and jumps */
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
    for (int i = 0; i < N; i++) { /* leave every third */
        if (i % 3 == 0)
            expected[n++] = i;
        else
            assert_ptr_equal(bl_namemap_remove(map, name_of(i)), &things[i]);
    }
    check_order(map, expected, n);
    assert_null(bl_namemap_remove(map, name_of(1)));
    assert_null(bl_namemap_get(map, name_of(1)));
    assert_int_equal(bl_namemap_put(map, name_of(1), &things[1], NULL), BL_OK); /* comes back last */
    expected[n++] = 1;
    assert_int_equal(bl_namemap_put(map, name_of(3), &things[3], NULL), BL_OK); /* replaced in its place */
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
        if (k == 1000) { /* the pair before the one just seen goes too */
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

static void hashes_differ(void **state)
{
    unsigned char bytes[32] = {0};
    uint64_t seen[33];

    (void)state;
    for (size_t len = 0; len <= 32; len++) { /* zeros of different lengths are different keys */
        seen[len] = bl_hash_bytes(bytes, len, 1);
        for (size_t i = 0; i < len; i++)
            assert_true(seen[i] != seen[len]);
    }
    assert_true(bl_hash_bytes(bytes, 5, 2) != seen[5]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_are_found),     cmocka_unit_test(pointer_map_without_memory_stays_whole),
        cmocka_unit_test(names_keep_their_order), cmocka_unit_test(removing_while_walking),
        cmocka_unit_test(churn_does_not_grow),    cmocka_unit_test(names_without_memory),
        cmocka_unit_test(hashes_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
