/* SPDX-License-Identifier: MIT */
#include "engine/base/map.h"

#include <string.h>

uint64_t bl_hash_bytes(const void *data, size_t len, uint64_t seed)
{
    const unsigned char *at = data;
    uint64_t hash = bl_hash_add(seed, len);
    uint64_t word = 0;

    for (; len >= sizeof word; at += sizeof word, len -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = bl_hash_add(hash, word);
    }
    if (len > 0) {
        word = 0;
        memcpy(&word, at, len);
        hash = bl_hash_add(hash, word);
    }
    return hash;
}

/* Open addressing, at most half full. */
enum { FIRST_PTRMAP_CAP = 32 };

void bl_ptrmap_init(bl_ptrmap *map, bl_arena *arena)
{
    *map = (bl_ptrmap){.arena = arena};
}

/* Where |key| is, or where it would go.  There is always a free place, so this ends. */
static size_t find_pointer(const bl_ptrmap *map, const void *key)
{
    size_t mask = map->cap - 1;
    size_t at = (size_t)bl_hash_mix((uint64_t)(uintptr_t)key) & mask;

    while (map->keys[at] != NULL && map->keys[at] != key)
        at = (at + 1) & mask;
    return at;
}

static bool grow_ptrmap(bl_ptrmap *map)
{
    bl_ptrmap grown = {.arena = map->arena, .cap = map->cap == 0 ? FIRST_PTRMAP_CAP : map->cap * 2, .count = map->count};

    grown.keys = bl_arena_array(map->arena, grown.cap, sizeof *grown.keys);
    grown.values = bl_arena_array(map->arena, grown.cap, sizeof *grown.values);
    if (grown.keys == NULL || grown.values == NULL)
        return false;
    for (size_t i = 0; i < map->cap; i++) {
        if (map->keys[i] != NULL) {
            size_t at = find_pointer(&grown, map->keys[i]);

            grown.keys[at] = map->keys[i];
            grown.values[at] = map->values[i];
        }
    }
    *map = grown;
    return true;
}

void bl_ptrmap_put(bl_ptrmap *map, const void *key, void *value)
{
    size_t at;

    BL_ASSERT(key != NULL);
    if (map->count >= map->cap / 2 && !bl_ptrmap_has(map, key) && !grow_ptrmap(map))
        return; /* the arena keeps the reason */
    at = find_pointer(map, key);
    if (map->keys[at] == NULL) {
        map->keys[at] = key;
        map->count++;
    }
    map->values[at] = value;
}

void *bl_ptrmap_get(const bl_ptrmap *map, const void *key)
{
    return map->count > 0 && key != NULL ? map->values[find_pointer(map, key)] : NULL;
}

bool bl_ptrmap_has(const bl_ptrmap *map, const void *key)
{
    return map->count > 0 && key != NULL && map->keys[find_pointer(map, key)] != NULL;
}

void bl_ptrmap_clear(bl_ptrmap *map)
{
    if (map->count > 0) {
        memset(map->keys, 0, map->cap * sizeof *map->keys);
        memset(map->values, 0, map->cap * sizeof *map->values);
    }
    map->count = 0;
}
