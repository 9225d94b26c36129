/* SPDX-License-Identifier: MIT */
#include "server/store/names.h"

#include "engine/base/fault.h"
#include "engine/base/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A hash map: the pairs in order of insertion, and an open-addressing table of their indexes.  A removed pair leaves a hole,
 * which the next rebuild closes; until then the index of the hole stays in the table as a tombstone. */

enum { FIRST_PAIRS = 16 };

typedef struct pair {
    char *name; /* owned; NULL: removed */
    void *value;
    uint64_t hash;
} pair;

struct bl_namemap {
    pair *pairs;
    size_t used, cap; /* |used| includes the holes */
    size_t count;
    size_t *table;                   /* index of a pair + 1, or 0; 2 * cap entries */
    uint64_t seed;                   /* random seed: clients choose names and must not be able to make names collide */
    size_t cursor_at, cursor_before; /* a position in |pairs| and the number of live pairs before it, for bl_namemap_at */
};

bl_namemap *bl_namemap_create(void)
{
    bl_namemap *map = bl_calloc(1, sizeof *map);

    if (map == NULL)
        return NULL;
    if (getrandom(&map->seed, sizeof map->seed, GRND_NONBLOCK) != (ssize_t)sizeof map->seed)
        map->seed = (uint64_t)(uintptr_t)map; /* early at boot the kernel has no random numbers, so use the heap address */
    return map;
}

void bl_namemap_destroy(bl_namemap *map)
{
    if (map == NULL)
        return;
    for (size_t i = 0; i < map->used; i++)
        free(map->pairs[i].name);
    free(map->pairs);
    free(map->table);
    free(map);
}

static pair *names_find_name(const bl_namemap *map, const char *name, uint64_t hash)
{
    size_t mask = map->cap * 2 - 1;

    if (map->cap == 0)
        return NULL;
    for (size_t at = (size_t)hash & mask; map->table[at] != 0; at = (at + 1) & mask) {
        pair *p = &map->pairs[map->table[at] - 1];

        if (p->name != NULL && p->hash == hash && strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

static void enter(const bl_namemap *map, size_t number)
{
    size_t mask = map->cap * 2 - 1;
    size_t at = (size_t)map->pairs[number].hash & mask;

    while (map->table[at] != 0)
        at = (at + 1) & mask;
    map->table[at] = number + 1;
}

/* Close the holes; double the capacity unless a quarter of it was holes. */
static bool rebuild(bl_namemap *map)
{
    size_t cap = map->cap == 0 ? FIRST_PAIRS : map->count > map->cap - map->cap / 4 ? map->cap * 2 : map->cap;
    pair *pairs = bl_calloc(cap, sizeof *pairs);
    size_t *table = bl_calloc(cap * 2, sizeof *table);
    size_t live = 0;

    if (pairs == NULL || table == NULL) {
        free(pairs);
        free(table);
        return false;
    }
    for (size_t i = 0; i < map->used; i++) {
        if (map->pairs[i].name != NULL)
            pairs[live++] = map->pairs[i];
    }
    free(map->pairs);
    free(map->table);
    map->pairs = pairs;
    map->table = table;
    map->cap = cap;
    map->used = live;
    map->cursor_at = map->cursor_before = 0;
    for (size_t i = 0; i < live; i++)
        enter(map, i);
    return true;
}

bl_status bl_namemap_put(bl_namemap *map, const char *name, void *value, bl_err *err)
{
    size_t len = strlen(name);
    uint64_t hash = bl_hash_bytes(name, len, map->seed);
    pair *there = names_find_name(map, name, hash);
    char *copy;

    if (there != NULL) {
        there->value = value;
        return BL_OK;
    }
    copy = bl_calloc(len + 1, 1);
    if (copy == NULL || (map->used == map->cap && !rebuild(map))) {
        free(copy);
        return bl_fail(err, BL_ENOMEM, "out of host memory for a table of %zu names", map->count);
    }
    memcpy(copy, name, len);
    map->pairs[map->used] = (pair){.name = copy, .value = value, .hash = hash};
    enter(map, map->used++);
    map->count++;
    return BL_OK;
}

void *bl_namemap_get(const bl_namemap *map, const char *name)
{
    const pair *p = names_find_name(map, name, bl_hash_bytes(name, strlen(name), map->seed));

    return p != NULL ? p->value : NULL;
}

void *bl_namemap_remove(bl_namemap *map, const char *name)
{
    pair *p = names_find_name(map, name, bl_hash_bytes(name, strlen(name), map->seed));
    void *value;

    if (p == NULL)
        return NULL;
    if ((size_t)(p - map->pairs) < map->cursor_at)
        map->cursor_before--;
    value = p->value;
    free(p->name);
    *p = (pair){0};
    map->count--;
    return value;
}

size_t bl_namemap_count(const bl_namemap *map)
{
    return map->count;
}

bool bl_namemap_at(bl_namemap *map, size_t i, const char **name, void **value)
{
    if (map == NULL || i >= map->count)
        return false;
    if (i < map->cursor_before)
        map->cursor_at = map->cursor_before = 0;
    while (map->cursor_before < i || map->pairs[map->cursor_at].name == NULL) {
        if (map->pairs[map->cursor_at].name != NULL)
            map->cursor_before++;
        map->cursor_at++;
    }
    *name = map->pairs[map->cursor_at].name;
    *value = map->pairs[map->cursor_at].value;
    return true;
}
