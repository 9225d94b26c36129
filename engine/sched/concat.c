/* SPDX-License-Identifier: MIT */
/* Concatenation without copies: if each part has a buffer that only the concatenation reads, the parts are stored directly at
 * their positions in the concatenated value. A concatenation is a chain of WHEREs whose last sources are PADs
 * (front/movement.c). This form only tells which values may be its parts; building the expression at the position of a part
 * tells whether the concatenation has the part's element there. */
#include "engine/ir/shape.h"
#include "engine/sched/sched_internal.h"

enum {
    MOST_PARTS = 64,
    SMALL_WHOLE = 16384 /* elements for which COSTLY_TWICE ops each take less than a launch */
};

typedef struct join {
    int n, axis;
    const bl_node *pad[MOST_PARTS];
} join;

static bool concat_add_part(join *j, const bl_node *pad)
{
    if (j->n == MOST_PARTS || pad->op != BL_OP_PAD)
        return false;
    j->pad[j->n++] = pad;
    return true;
}

/* The axis along which |node| is longer than its parts, or -1. */
static int joined_axis(const bl_node *node, const bl_node *part)
{
    int axis = -1;
    for (int i = 0; i < node->ndim; i++) {
        if (node->dim[i] != part->dim[i] && axis >= 0)
            return -1;
        axis = node->dim[i] != part->dim[i] ? i : axis;
    }
    return axis;
}

/* Is |node| made of parts that follow each other along one axis and fill the axis? */
static bool find_parts(bl_ir *ir, const bl_node *node, join *j)
{
    const bl_node *at = node, *end = bl_index(ir, 0);

    *j = (join){0};
    for (; at->op == BL_OP_WHERE; at = at->src[1]) {
        if (!concat_add_part(j, at->src[2]))
            return false;
    }
    if (j->n == 0 || !concat_add_part(j, at))
        return false;
    j->axis = joined_axis(node, at->src[0]);
    for (int i = j->n; i-- > 0;) { /* the last part is outermost */
        const bl_node *part = j->pad[i]->src[0];
        if (j->axis < 0 || joined_axis(node, part) != j->axis || j->pad[i]->src[1 + j->axis] != end)
            return false;
        end = bl_add(ir, end, part->dim[j->axis]);
    }
    return end == node->dim[j->axis];
}

/* ---- which values get a buffer, so that they can be joined so */

/* Does only the concatenation read |part|, and is |part| no root? */
static bool is_exclusive(const sched *s, const bl_node *pad)
{
    int part = sched_position(s, pad->src[0]), own = sched_position(s, pad);
    return s->nusers[own] == 1 && s->nusers[part] == 1 && !s->is_root[part] && s->realised[own] == INLINE;
}

/* Is |node| read at more positions than it has elements, as the windows of a pooling are, perhaps with padding around it? */
static bool is_moved_over(const sched *s, const bl_node *node)
{
    const bl_node *user = s->user[sched_position(s, node)];
    while (user != NULL && (user->op == BL_OP_PAD || user->op == BL_OP_WHERE))
        user = s->user[sched_position(s, user)];
    return user != NULL && user->op == BL_OP_WINDOW;
}

/* Is the part a slice of an input, at the same position? Then the node is an in-place update of a part of the input
 * (region.c). */
static bool is_as_it_was(const bl_node *pad)
{
    const bl_node *part = pad->src[0];
    bool same = part->op == BL_OP_SHRINK && part->src[0]->op == BL_OP_INPUT;
    for (int i = 0; same && i < part->ndim; i++)
        same = part->src[1 + i] == pad->src[1 + i];
    return same;
}

static bool mark_join(sched *s, int position, const join *j)
{
    int there = 0, open = 0, marked = 0;

    for (int i = 0; i < j->n; i++) {
        int part = sched_position(s, j->pad[i]->src[0]);
        if (!is_exclusive(s, j->pad[i]) || j->pad[i]->src[0]->op == BL_OP_INPUT || sched_is_loop(j->pad[i]->src[0]) ||
            is_as_it_was(j->pad[i]))
            return false;
        there += s->realised[part] == BUFFERED;
        open += s->realised[part] == INLINE;
    }
    if (there == 0 || there + open < j->n || s->realised[position] == STAGED || s->realised[position] == COPIED)
        return false;
    if (open > 0 && s->realised[position] != BUFFERED && !is_moved_over(s, s->order.at[position]))
        return false;
    for (int i = 0; i <= j->n; i++) {
        int at = i < j->n ? sched_position(s, j->pad[i]->src[0]) : position;
        marked += s->realised[at] != BUFFERED;
        s->realised[at] = BUFFERED;
    }
    return marked > 0;
}

/* The nest of a concatenation computes all parts for each element, and selects one of them. Give costly parts buffers, unless the
 * concatenation is an in-place update, which computes a part at its own elements only. */
static int mark_costly_parts(sched *s, int position, const join *j)
{
    bool large = (s->realised[position] == BUFFERED || s->realised[position] == INLINE) &&
                 sched_elements(s->order.at[position]) > SMALL_WHOLE;
    int marked = 0;

    for (int i = 0; i < j->n && large; i++)
        large = !is_as_it_was(j->pad[i]);
    for (int i = 0; i < j->n && large; i++) {
        int part = sched_position(s, j->pad[i]->src[0]);
        if (s->realised[part] != INLINE || s->weight[part] < COSTLY_TWICE)
            continue;
        s->realised[part] = BUFFERED;
        marked++;
    }
    return marked;
}

bool sched_is_join(const sched *s, const bl_node *node)
{
    join j;
    return node->op == BL_OP_WHERE && find_parts(s->ir, node, &j);
}

int sched_mark_joins(sched *s)
{
    int marked = 0;
    for (int at = (int)s->order.count; at-- > 0;) {
        join j;
        if (s->order.at[at]->op != BL_OP_WHERE || !find_parts(s->ir, s->order.at[at], &j))
            continue;
        marked += mark_join(s, at, &j);
        marked += mark_costly_parts(s, at, &j);
    }
    return marked;
}

/* ---- where they are stored */

/* Is |st| a plain store that only |whole| reads? */
static bool is_read_by(const sched *s, const stored *st, const stored *whole)
{
    if (st == NULL || st->value == NULL || st->offset != NULL || st->is_root || st->within != NULL || st->joined)
        return false;
    for (int i = 0; i < s->nstored; i++) {
        for (size_t k = 0; &s->stored[i] != whole && k < s->stored[i].below.count; k++) {
            if (s->stored[i].below.at[k] == st->buffer)
                return false;
        }
    }
    return true;
}

/* The index in |whole| of the part under |pad| at the canonical loops; NULL if |whole| has another value there. */
static const bl_node *place_part(sched *s, const stored *whole, const stored *part, const bl_node *pad)
{
    const bl_node *index[BL_MAX_DIMS], *value = NULL;
    int next = 0;

    for (int i = 0; i < part->node->ndim; i++) {
        index[i] = bl_is_int(part->node->dim[i], 1) ? bl_index(s->ir, 0) : part->range[next++];
        index[i] = bl_add(s->ir, index[i], pad->src[1 + i]);
    }
    bl_ptrmap_clear(&s->memo);
    value = sched_fresh(s, whole->node, index, NULL);
    if (value != bl_load(s->ir, part->buffer, part->index, NULL))
        return NULL;
    return sched_flat_index(s->ir, whole->node->ndim, whole->node->dim, index);
}

static void place_parts(sched *s, stored *whole, const join *j)
{
    const bl_node *at[MOST_PARTS];

    for (int i = 0; i < j->n; i++) {
        const stored *part = s->store_at[sched_position(s, j->pad[i]->src[0])];
        if (!is_read_by(s, part, whole) || (at[i] = place_part(s, whole, part, j->pad[i])) == NULL)
            return;
        for (int k = 0; k < i; k++) {
            if (j->pad[k]->src[0] == part->node)
                return;
        }
    }
    for (int i = 0; i < j->n; i++) {
        stored *part = s->store_at[sched_position(s, j->pad[i]->src[0])];
        part->within = whole;
        part->buffer = whole->buffer;
        part->index = at[i];
    }
    whole->joined = true;
}

void sched_place_joins(sched *s)
{
    for (int i = 0; i < s->nstored; i++) {
        stored *whole = &s->stored[i];
        join j;
        if (whole->value != NULL && whole->offset == NULL && whole->node->op == BL_OP_WHERE && find_parts(s->ir, whole->node, &j))
            place_parts(s, whole, &j);
    }
}
