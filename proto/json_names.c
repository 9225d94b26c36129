/* SPDX-License-Identifier: MIT */
#include "proto/json_names.h"

#include "engine/base/fault.h"
#include "engine/base/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The slot of |name|, or the free slot to put it.  At most half of the slots are used. */
static bl_json_name *json_names_find_name(bl_json_name *slots, size_t cap, uint64_t seed, const bl_json_name *name)
{
    size_t at = (size_t)bl_hash_add(bl_hash_bytes(name->text, name->len, seed), name->object) & (cap - 1);

    for (;; at = (at + 1) & (cap - 1)) {
        bl_json_name *slot = &slots[at];
        if (slot->text == NULL ||
            (slot->object == name->object && slot->len == name->len && memcmp(slot->text, name->text, name->len) == 0))
            return slot;
    }
}

/* The first, small table needs no seed: it has too few names for many collisions. */
static bl_status json_names_grow_names(bl_json_names *names, bl_err *err)
{
    const bl_json_name *old = names->more != NULL ? names->more : names->first;
    size_t cap = names->cap * 4;
    bl_json_name *slots = bl_calloc(cap, sizeof *slots);

    if (slots == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the names of a JSON document");
    if (names->seed == 0 && getrandom(&names->seed, sizeof names->seed, GRND_NONBLOCK) < 0)
        names->seed = (uint64_t)(uintptr_t)slots;
    for (size_t i = 0; i < names->cap; i++) {
        if (old[i].text != NULL)
            *json_names_find_name(slots, cap, names->seed, &old[i]) = old[i];
    }
    free(names->more);
    names->more = slots;
    names->cap = cap;
    return BL_OK;
}

bl_status bl_json_names_add(bl_json_names *names, uint32_t object, bl_span name, bool *twice, bl_err *err)
{
    bl_json_name one = {name.data, (uint32_t)name.len, object}, *slot = NULL;

    if (names->cap == 0)
        names->cap = BL_JSON_NAMES_FIRST;
    if (names->count >= names->cap / 2)
        BL_TRY(json_names_grow_names(names, err));
    slot = json_names_find_name(names->more != NULL ? names->more : names->first, names->cap, names->seed, &one);
    *twice = slot->text != NULL;
    names->count += !*twice;
    *slot = one;
    return BL_OK;
}

void bl_json_names_fini(bl_json_names *names)
{
    free(names->more);
    names->more = NULL;
}
