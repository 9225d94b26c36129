/* SPDX-License-Identifier: MIT */
/* What texts remember, from run to run.  As long as the same texts run together, the outputs of one run are the inputs of the
 * next as they are.  Where one comes or goes, the rows of those that stay are copied, which costs about what a run does that
 * writes them all anew. */
#include "server/models/generation.h"

#include "engine/base/fault.h"

#include <stdlib.h>

bl_status bl_text_memory_create(bl_pool *pool, const bl_text_model *text, int64_t rows, bl_text_memory **out, bl_err *err)
{
    bl_text_memory *m = bl_calloc(1, sizeof *m + (size_t)text->npasts * sizeof m->buffers[0]);
    *out = m;
    if (m == NULL)
        return bl_fail(err, BL_ENOMEM, "what a text remembers");
    atomic_init(&m->refs, 1);
    m->pool = pool;
    m->rows = rows;
    m->count = text->npasts;
    return BL_OK;
}

void bl_text_memory_release(bl_text_memory *m)
{
    if (m == NULL || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    for (int i = 0; i < m->count; i++)
        bl_pool_release(m->pool, m->buffers[i]);
    free(m);
}

void bl_text_memory_move(bl_generation *g, bl_text_memory *memory, int64_t at)
{
    bl_text_memory *old = g->memory;
    atomic_fetch_add(&memory->refs, 1);
    g->memory = memory;
    g->row = at;
    bl_text_memory_release(old);
}

/* Are these all that the first one's memory has? */
static bool is_whole(const bl_generation *first, int64_t rows)
{
    if (first->memory == NULL || first->memory->rows != rows)
        return false;
    for (const bl_generation *g = first->beside; g != NULL; g = g->beside)
        if (g->memory != first->memory)
            return false;
    return true;
}

/* Zeros where it remembers nothing yet. */
static bl_status copy_row(const bl_generation *g, int i, bl_text_memory *to, bl_err *err)
{
    size_t bytes = g->text->pasts[i].bytes, at = (size_t)g->at * bytes;
    if (g->memory == NULL)
        return bl_buffer_clear(to->buffers[i], at, bytes, err);
    return bl_buffer_copy(to->buffers[i], at, g->memory->buffers[i], (size_t)g->row * bytes, bytes, err);
}

static bl_status copy_rows(const bl_generation *first, bl_text_memory *to, bl_err *err)
{
    for (int i = 0; i < to->count; i++) {
        BL_TRY(bl_pool_alloc(to->pool, (size_t)to->rows * first->text->pasts[i].bytes, &to->buffers[i], err));
        for (const bl_generation *g = first; g != NULL; g = g->beside)
            BL_TRY(copy_row(g, i, to, err));
    }
    return BL_OK;
}

bl_status bl_text_memory_gather(bl_generation *first, int64_t rows, bl_text_memory **out, bl_err *err)
{
    bool whole = is_whole(first, rows);
    bl_status st = BL_OK;
    int64_t at = 0;
    for (bl_generation *g = first; g != NULL; g = g->beside)
        g->at = whole ? g->row : at++;
    if (whole) {
        atomic_fetch_add(&first->memory->refs, 1);
        *out = first->memory;
        return BL_OK;
    }
    BL_TRY(bl_text_memory_create(first->worker->pool, first->text, rows, out, err));
    st = copy_rows(first, *out, err);
    if (st == BL_OK)
        return BL_OK;
    bl_text_memory_release(*out);
    *out = NULL;
    return st;
}

bl_status bl_text_memory_part(bl_generation *g, bl_err *err)
{
    bl_text_memory *own = NULL;
    if (g->memory == NULL || g->memory->rows == 1)
        return BL_OK;
    g->beside = NULL;
    BL_TRY(bl_text_memory_gather(g, 1, &own, err));
    bl_text_memory_move(g, own, 0);
    bl_text_memory_release(own);
    return BL_OK;
}
