/* Hash functions, and the hash map that compiler passes use: from pointers to pointers or numbers, or a set of pointers. A map
 * that cannot grow keeps its entries and drops the new one; its arena records the failure. Thread: a map belongs to one thread at
 * a time. */
#ifndef BL_BASE_MAP_H
#define BL_BASE_MAP_H

#include "engine/base/arena.h"

#include <stdint.h>

/* 64-bit mixing (the finaliser of MurmurHash3, Austin Appleby, public domain). */
static inline uint64_t bl_hash_mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

static inline uint64_t bl_hash_add(uint64_t seed, uint64_t value)
{
    return bl_hash_mix(seed * 0x9e3779b97f4a7c15ULL + value);
}

uint64_t bl_hash_bytes(const void *data, size_t len, uint64_t seed);

/* Keys are pointers other than NULL. The table lives in an arena, which frees it. */
typedef struct bl_ptrmap {
    bl_arena *arena;
    struct bl_ptrmap_entry *entries;
    size_t count, cap;
} bl_ptrmap;

void bl_ptrmap_init(bl_ptrmap *map, bl_arena *arena);
void bl_ptrmap_put(bl_ptrmap *map, const void *key, const void *value); /* replaces; the map does not write to |value| */
void *bl_ptrmap_get(const bl_ptrmap *map, const void *key);             /* NULL if absent */
bool bl_ptrmap_has(const bl_ptrmap *map, const void *key);
void bl_ptrmap_clear(bl_ptrmap *map);

/* A map to numbers; 0 if absent. */
_Static_assert(sizeof(void *) >= sizeof(uint64_t), "a value of a map holds a number");
static inline void bl_ptrmap_put_number(bl_ptrmap *map, const void *key, uint64_t number)
{
    bl_ptrmap_put(map, key, (void *)(uintptr_t)number);
}

static inline uint64_t bl_ptrmap_number(const bl_ptrmap *map, const void *key)
{
    return (uint64_t)(uintptr_t)bl_ptrmap_get(map, key);
}

/* A set: bl_ptrmap_has tells its members. */
static inline void bl_ptrmap_add(bl_ptrmap *set, const void *key)
{
    bl_ptrmap_put_number(set, key, 1);
}

#endif
