/* SPDX-License-Identifier: MIT */
/* The pasts of texts between runs.
 *
 * If all pasts have places, they are updated in place: a run appends to them.  A new text gets a free row, and the last row
 * moves into the row of a text that ended.
 *
 * Otherwise the outputs of one run are the inputs of the next run, as long as the same texts run together.  If a text joins or
 * leaves, the rows of the remaining texts are copied.  The copy costs about as much as a run that writes all rows. */
#include "server/models/generation.h"

#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SPARE = 4 /* a memory with this many times the rows in use is replaced by a smaller one */ };

bl_status bl_text_memory_create(bl_worker *worker, const bl_text_model *text, int64_t rows, bl_text_memory **out, bl_err *err)
{
    bl_text_memory *m = bl_calloc(1, sizeof *m + (size_t)text->npasts * sizeof m->parts[0]);
    *out = m;
    if (m == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the state of a text");
    atomic_init(&m->refs, 1);
    m->worker = worker;
    m->rows = rows;
    m->count = text->npasts;
    for (int i = 0; i < m->count; i++)
        m->parts[i].bytes = text->pasts[i].bytes;
    m->taken = bl_calloc((size_t)rows, sizeof *m->taken);
    if (m->taken != NULL)
        return BL_OK;
    bl_text_memory_release(m);
    *out = NULL;
    return bl_fail(err, BL_ENOMEM, "out of host memory for the state of a text");
}

static size_t text_memory_part_bytes(const bl_text_memory *m, int i)
{
    return (size_t)m->rows * m->parts[i].bytes;
}

static void text_memory_drop_copies(bl_text_memory *m)
{
    for (int i = 0; i < m->count; i++) {
        bl_evictable_free_copy(m->worker, m->parts[i].away, text_memory_part_bytes(m, i));
        m->parts[i].away = NULL;
    }
}

static void drop_buffers(bl_text_memory *m)
{
    for (int i = 0; i < m->count; i++) {
        bl_pool_release(m->worker->pool, m->parts[i].buffer);
        m->parts[i].buffer = NULL;
    }
}

void bl_text_memory_release(bl_text_memory *m)
{
    if (m == NULL || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    bl_evictable_remove(&m->evictable);
    text_memory_drop_copies(m);
    drop_buffers(m);
    free(m->taken);
    free(m);
}

void bl_text_memory_move(bl_text_state *state, bl_text_memory *memory, int64_t at)
{
    bl_text_memory *old = state->memory;
    atomic_fetch_add(&memory->refs, 1);
    state->memory = memory;
    state->row = at;
    bl_text_memory_release(old);
}

/* Copy a row of all pasts.  |from| NULL: clear the row.  |from| may be in host memory. */
static bl_status text_memory_copy_row(bl_text_memory *to, int64_t at, const bl_text_memory *from, int64_t row, bl_err *err)
{
    for (int i = 0; i < to->count; i++) {
        bl_buffer *buffer = to->parts[i].buffer;
        size_t bytes = to->parts[i].bytes, there = (size_t)at * bytes, here = (size_t)row * bytes;
        if (from == NULL)
            BL_TRY(bl_buffer_clear(buffer, there, bytes, err));
        else if (from->parts[i].away != NULL)
            BL_TRY(bl_buffer_write(buffer, there, from->parts[i].away + here, bytes, err));
        else
            BL_TRY(bl_buffer_copy(buffer, there, from->parts[i].buffer, here, bytes, err));
    }
    return BL_OK;
}

/* ---- eviction to host memory */

static bl_text_memory *memory_of(bl_evictable *evictable)
{
    return (bl_text_memory *)evictable;
}

static bool text_memory_retain_living(bl_evictable *evictable)
{
    return bl_evictable_retain_living(&memory_of(evictable)->refs);
}

static void text_memory_release(bl_evictable *evictable)
{
    bl_text_memory_release(memory_of(evictable));
}

/* A past with places can belong to two memories while a run makes the later one. */
static bool text_memory_may_leave(bl_evictable *evictable)
{
    const bl_text_memory *m = memory_of(evictable);
    bool may = !m->busy;
    for (int i = 0; i < m->count; i++)
        may = may && atomic_load(&m->parts[i].buffer->refs) == 1;
    return may;
}

static bl_status text_memory_leave(bl_evictable *evictable, size_t *bytes, bl_err *err)
{
    bl_text_memory *m = memory_of(evictable);
    bl_status st = BL_OK;
    *bytes = 0;
    for (int i = 0; st == BL_OK && i < m->count; i++) {
        st = bl_evictable_copy(m->worker, m->parts[i].buffer, text_memory_part_bytes(m, i), &m->parts[i].away, err);
        *bytes += text_memory_part_bytes(m, i);
    }
    if (st != BL_OK) {
        *bytes = 0;
        text_memory_drop_copies(m);
        return st;
    }
    for (int i = 0; i < m->count; i++) {
        bl_buffer_release(m->parts[i].buffer);
        m->parts[i].buffer = NULL;
    }
    return BL_OK;
}

/* Bring the memory back to the device.  It stays there while it is |busy|. */
static bl_status text_memory_wake(bl_text_memory *m, bl_err *err)
{
    bl_status st = BL_OK;
    m->busy = true;
    if (m->evictable.kind == NULL)
        return BL_OK;
    if (m->parts[0].away == NULL) {
        bl_evictable_use(&m->evictable);
        return BL_OK;
    }
    for (int i = 0; st == BL_OK && i < m->count; i++)
        st = bl_evictable_bring(m->worker, m->parts[i].away, text_memory_part_bytes(m, i), &m->parts[i].buffer, err);
    if (st != BL_OK) {
        drop_buffers(m); /* the copies in host memory are still valid */
        return st;
    }
    text_memory_drop_copies(m);
    bl_evictable_back(&m->evictable);
    return BL_OK;
}

void bl_text_memory_let_go(bl_text_memory *m)
{
    static const bl_evictable_kind kind = {.name = "what texts remember",
                                           .left = BL_COUNT_TEXTS_OUT,
                                           .back = BL_COUNT_TEXTS_IN,
                                           .retain = text_memory_retain_living,
                                           .release = text_memory_release,
                                           .may_leave = text_memory_may_leave,
                                           .leave = text_memory_leave};
    bool whole = m != NULL, hidden = false;
    for (int i = 0; whole && i < m->count; i++) {
        const bl_buffer *buffer = m->parts[i].buffer;
        whole = buffer != NULL; /* NULL: the run that should fill the buffer failed, or the memory is on the host */
        hidden = hidden || (whole && buffer->host == NULL);
    }
    if (m != NULL)
        m->busy = false;
    if (whole && hidden && m->evictable.kind == NULL)
        bl_evictable_add(&m->evictable, &kind, m->worker);
}

/* ---- a new memory */

/* The capacity for |rows|, with free rows for texts that begin soon. */
static int64_t spacious(const bl_generation *first, int64_t rows)
{
    int64_t most = first->text->rows >= 0 ? first->version->batcher.max_rows : 1, n = 1;
    while (n < rows)
        n *= 2;
    return n < most ? n : rows > most ? rows : most;
}

static bl_status text_memory_copy_out(bl_generation *first, int64_t rows, bl_text_memory **out, bl_err *err)
{
    bl_text_memory *m = NULL;
    bl_status st = BL_OK;
    BL_TRY(bl_text_memory_create(first->state.worker, first->text, rows, &m, err));
    for (int i = 0; i < m->count && st == BL_OK; i++)
        st = bl_pool_alloc(m->worker->pool, text_memory_part_bytes(m, i), &m->parts[i].buffer, err);
    rows = 0;
    for (bl_generation *g = first; g != NULL && st == BL_OK; g = g->batch.next) {
        g->batch.row = rows++;
        st = text_memory_copy_row(m, g->batch.row, g->state.memory, g->state.row, err);
    }
    if (st != BL_OK)
        bl_text_memory_release(m);
    *out = st == BL_OK ? m : NULL;
    return st;
}

/* ---- the memory that exists */

/* The memory with the most rows among those of the texts. */
static bl_text_memory *find_memory(const bl_generation *first)
{
    bl_text_memory *found = NULL;
    for (const bl_generation *g = first; g != NULL; g = g->batch.next)
        if (g->state.memory != NULL && (found == NULL || g->state.memory->rows > found->rows))
            found = g->state.memory;
    return found;
}

static int64_t count_in(const bl_generation *first, const bl_text_memory *m)
{
    int64_t n = 0;
    for (const bl_generation *g = first; g != NULL; g = g->batch.next)
        n += g->state.memory == m;
    return n;
}

/* Can the run use |m|?  No other text may have a row of |m|, so that all other rows are free. */
static bool may_stay(const bl_generation *first, int64_t rows, const bl_text_memory *m)
{
    int64_t in = m != NULL ? count_in(first, m) : 0;
    if (m == NULL || rows > m->rows || in != atomic_load(&m->refs))
        return false;
    return first->text->grows ? rows * MOST_SPARE > m->rows : rows == m->rows && in == rows;
}

/* Move the texts into the first |rows| rows of |m|: a text outside of them takes a free row. */
static bl_status deal_rows(bl_generation *first, int64_t rows, bl_text_memory *m, bl_err *err)
{
    int64_t next = 0;
    memset(m->taken, 0, (size_t)rows * sizeof *m->taken);
    for (const bl_generation *g = first; g != NULL; g = g->batch.next)
        if (g->state.memory == m && g->state.row < rows)
            m->taken[g->state.row] = true;
    for (bl_generation *g = first; g != NULL; g = g->batch.next) {
        if (g->state.memory != m || g->state.row >= rows) {
            while (m->taken[next])
                next++;
            BL_TRY(text_memory_copy_row(m, next, g->state.memory, g->state.row, err));
            m->taken[next] = true;
            bl_text_memory_move(&g->state, m, next);
        }
        g->batch.row = g->state.row;
    }
    return BL_OK;
}

bl_status bl_text_memory_gather(bl_generation *first, int64_t rows, bl_text_memory **out, bl_err *err)
{
    bl_text_memory *m = find_memory(first);
    *out = NULL;
    if (!may_stay(first, rows, m))
        return text_memory_copy_out(first, first->text->grows ? spacious(first, rows) : rows, out, err);
    atomic_fetch_add(&m->refs, 1);
    *out = m;
    BL_TRY(text_memory_wake(m, err));
    return deal_rows(first, rows, m, err);
}

bl_status bl_text_memory_part(bl_generation *g, bl_err *err)
{
    bl_text_memory *own = NULL;
    if (g->state.memory == NULL || g->state.memory->rows == 1)
        return BL_OK;
    g->batch.next = NULL;
    BL_TRY(text_memory_copy_out(g, 1, &own, err));
    bl_text_memory_move(&g->state, own, 0);
    bl_text_memory_let_go(own);
    bl_text_memory_release(own);
    return BL_OK;
}

/* ---- appending */

/* Copy |bytes| of the output of a run, at |offset|.  Either buffer may be invisible to the host. */
static bl_status copy_places(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err)
{
    if (to->host == NULL || from->host == NULL)
        return bl_buffer_copy(to, at, from, offset, bytes, err);
    memcpy((char *)to->host + at, (const char *)from->host + offset, bytes); /* the run has completed */
    return BL_OK;
}

static bl_status append_row(const bl_generation *g, const bl_text_past *past, bl_buffer *to, bl_buffer *from, size_t count,
                            bl_err *err)
{
    size_t bytes = count * past->inner, all = (size_t)past->places * past->inner;
    for (size_t k = 0; k < past->times; k++) {
        size_t at = (size_t)g->batch.row * past->bytes + k * all + g->fed * past->inner;
        BL_TRY(copy_places(to, at, from, ((size_t)g->batch.row * past->times + k) * bytes, bytes, err));
    }
    return BL_OK;
}

bl_status bl_text_memory_append(bl_text_memory *memory, const bl_generation *first, size_t count, bl_buffer *const *outputs,
                                bl_err *err)
{
    for (int i = 0; i < memory->count; i++) {
        const bl_text_past *past = &first->text->pasts[i];
        if (past->places == 0)
            continue;
        for (const bl_generation *g = first; g != NULL; g = g->batch.next)
            BL_TRY(append_row(g, past, memory->parts[i].buffer, outputs[past->output], count, err));
        bl_buffer_change(memory->parts[i].buffer);
    }
    return BL_OK;
}
