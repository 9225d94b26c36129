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

/* Open addressing; the table is at most half full. */
enum { FIRST_PTRMAP_CAP = 32 };

struct bl_ptrmap_entry {
    const void *key; /* NULL: free */
    void *value;
};

void bl_ptrmap_init(bl_ptrmap *map, bl_arena *arena)
{
    *map = (bl_ptrmap){.arena = arena};
}

/* The entry of |key|, or the free entry where |key| belongs. The search ends because the table always has a free entry. */
static struct bl_ptrmap_entry *map_find(const bl_ptrmap *map, const void *key)
{
    size_t mask = map->cap - 1;
    size_t at = (size_t)bl_hash_mix((uint64_t)(uintptr_t)key) & mask;

    while (map->entries[at].key != NULL && map->entries[at].key != key)
        at = (at + 1) & mask;
    return &map->entries[at];
}

static bool map_grow(bl_ptrmap *map)
{
    bl_ptrmap grown = {.arena = map->arena, .cap = map->cap == 0 ? FIRST_PTRMAP_CAP : map->cap * 2, .count = map->count};

    grown.entries = bl_arena_array(map->arena, grown.cap, sizeof *grown.entries);
    if (grown.entries == NULL)
        return false;
    for (size_t i = 0; i < map->cap; i++) {
        if (map->entries[i].key != NULL)
            *map_find(&grown, map->entries[i].key) = map->entries[i];
    }
    *map = grown;
    return true;
}

void bl_ptrmap_put(bl_ptrmap *map, const void *key, const void *value)
{
    struct bl_ptrmap_entry *at;

    BL_ASSERT(key != NULL);
    if (map->count >= map->cap / 2 && !bl_ptrmap_has(map, key) && !map_grow(map))
        return; /* the arena keeps the error */
    at = map_find(map, key);
    map->count += at->key == NULL;
    *at = (struct bl_ptrmap_entry){key, (void *)(uintptr_t)value};
}

void *bl_ptrmap_get(const bl_ptrmap *map, const void *key)
{
    return map->count > 0 && key != NULL ? map_find(map, key)->value : NULL;
}

bool bl_ptrmap_has(const bl_ptrmap *map, const void *key)
{
    return map->count > 0 && key != NULL && map_find(map, key)->key != NULL;
}

void bl_ptrmap_clear(bl_ptrmap *map)
{
    if (map->count > 0)
        memset(map->entries, 0, map->cap * sizeof *map->entries);
    map->count = 0;
}
