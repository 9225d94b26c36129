/* SPDX-License-Identifier: MIT */
#include "engine/base/map.h"

#include <setjmp.h>
#include <stdarg.h>

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
    bl_ptrmap_put(&map, &things[0], &things[1]); /* a replacement allocates no memory */
    assert_ptr_equal(bl_ptrmap_get(&map, &things[0]), &things[1]);
    bl_arena_destroy(arena);
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
        cmocka_unit_test(pointers_are_found),
        cmocka_unit_test(pointer_map_without_memory_stays_whole),
        cmocka_unit_test(hashes_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
