/* SPDX-License-Identifier: MIT */
#include "proto/texts.h"

#include "engine/base/map.h"

#include <string.h>

/* The slot of |text|, or the free slot to put it. */
static int32_t *find_text_slot(const bl_texts *texts, int32_t *slot, size_t nslots, bl_span text)
{
    size_t at = (size_t)bl_hash_bytes(text.data, text.len, 0) & (nslots - 1);

    while (slot[at] != 0) {
        const bl_span *has = &texts->text[slot[at] - 1];
        if (has->len == text.len && (text.len == 0 || memcmp(has->data, text.data, text.len) == 0))
            break;
        at = (at + 1) & (nslots - 1);
    }
    return &slot[at];
}

int bl_texts_find(const bl_texts *texts, bl_span text)
{
    return texts->nslots > 0 ? *find_text_slot(texts, texts->slot, texts->nslots, text) - 1 : -1;
}

static bool grow_texts(bl_texts *texts, bl_arena *arena)
{
    size_t nslots = texts->nslots == 0 ? 16 : 2 * texts->nslots;
    void *text = texts->text;
    int32_t *slot;

    if (texts->count == BL_TEXTS_MOST || !bl_arena_reserve(arena, &text, texts->count, &texts->cap, sizeof *texts->text))
        return false;
    texts->text = text;
    if (2 * ((size_t)texts->count + 1) <= texts->nslots)
        return true;
    slot = bl_arena_array(arena, nslots, sizeof *slot);
    if (slot == NULL)
        return false;
    for (int i = 0; i < texts->count; i++)
        *find_text_slot(texts, slot, nslots, texts->text[i]) = i + 1;
    texts->slot = slot;
    texts->nslots = nslots;
    return true;
}

int bl_texts_add(bl_texts *texts, bl_arena *arena, bl_span text)
{
    int number = bl_texts_find(texts, text);

    if (number >= 0)
        return number;
    if (!grow_texts(texts, arena))
        return -1;
    texts->text[texts->count] = text;
    *find_text_slot(texts, texts->slot, texts->nslots, text) = texts->count + 1;
    return texts->count++;
}
