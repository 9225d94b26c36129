/* SPDX-License-Identifier: MIT */
/* Transposition in registers. Lanes that are strided in memory, but contiguous across the copies of a tile, form a transposed
 * matrix: each lane's elements across the copies are one vector in memory. The pass loads or stores these vectors and
 * transposes them in registers, in log2(columns) steps (Eklundh, "A fast computer method for matrix transposing", IEEE
 * Transactions on Computers, 1972). Needs: no TILE or VECTOR; no LOAD of a buffer that another STORE of the kernel writes,
 * since the order of stores changes. Keeps: values. */
#include "engine/base/map.h"
#include "engine/ir/affine.h"
#include "engine/lower/lower.h"

#include <stdlib.h>

/* A STACK of loads, or a STORE; the members of a family access the same elements up to a constant |offset| that is the same for
 * all lanes. */
typedef struct member {
    const bl_node *node;
    int64_t offset;
    uint32_t at; /* index in the stores of the SINK */
} member;

typedef struct family {
    member *member;
    int count, cap;
    struct family *next;
} family;

typedef struct families {
    bl_ptrmap of; /* a node that is common to all members of a family -> the family */
    family *first, **last;
} families;

typedef struct turn {
    bl_ir *ir;
    bl_ptrmap to;
    bool found;
} turn;

static bool is_power_of_two(int64_t n)
{
    return n > 1 && (n & (n - 1)) == 0;
}

static bool constant_of(const bl_node *index, int64_t *constant)
{
    bl_affine sum;
    bool affine = bl_affine_of(&sum, index);
    *constant = sum.constant;
    return affine;
}

static const bl_node *ahead(bl_ir *ir, const bl_node *index, int64_t places)
{
    return bl_add(ir, index, bl_index(ir, places));
}

/* A copy of |access|, a LOAD or a STORE, at |index| with |lanes| lanes; a STORE stores |value|. */
static const bl_node *access_at(bl_ir *ir, const bl_node *access, const bl_node *index, int lanes, const bl_node *value)
{
    bl_node made = *access;
    bool store = access->op == BL_OP_STORE;
    const bl_node *src[4] = {access->src[0], index, store ? value : NULL, NULL};
    uint32_t gate = store ? 3 : 2;

    if (access->nsrc > gate)
        src[gate] = access->src[gate];
    made.src = src;
    made.lanes = (uint8_t)lanes;
    return bl_node_make(ir, &made);
}

/* ---- families */

static void turn_add(bl_ir *ir, families *all, const bl_node *key, member m)
{
    family *f = bl_ptrmap_get(&all->of, key);
    if (f == NULL) {
        f = bl_arena_alloc(bl_ir_arena(ir), sizeof *f);
        if (f == NULL)
            return;
        *f = (family){0};
        *all->last = f;
        all->last = &f->next;
        bl_ptrmap_put(&all->of, key, f);
    }
    if (bl_arena_reserve(bl_ir_arena(ir), (void **)&f->member, f->count, &f->cap, sizeof *f->member))
        f->member[f->count++] = m;
}

static int by_offset(const void *a, const void *b)
{
    const member *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* How many members from |i| on are transposed together: a power of two with consecutive offsets; 1 if the next one is not
 * consecutive. */
static int turn_side_by_side(const family *f, int i, int lanes)
{
    int n = 1, count = 1;
    while (i + n < f->count && f->member[i + n].offset == f->member[i].offset + n)
        n++;
    while (2 * count <= n && 2 * count <= lanes)
        count *= 2;
    return count;
}

/* The key of a family of loads: the stack with the offset of its first load subtracted. */
static const bl_node *loads_key(bl_ir *ir, const bl_node *stack, int64_t *offset)
{
    const bl_node *each[BL_MAX_LANES];
    const bl_node *first = stack->op == BL_OP_STACK ? stack->src[0] : NULL;

    if (first == NULL || !is_power_of_two(stack->lanes) || first->op != BL_OP_LOAD || first->src[0]->op != BL_OP_BUFFER ||
        !constant_of(first->src[1], offset))
        return NULL;
    for (uint32_t i = 0; i < stack->nsrc; i++) {
        const bl_node *load = stack->src[i];
        if (load->op != BL_OP_LOAD || load->src[0] != first->src[0])
            return NULL;
        each[i] = access_at(ir, load, ahead(ir, load->src[1], -*offset), 1, NULL);
    }
    return bl_stack(ir, stack->lanes, each);
}

static const bl_node *store_key(bl_ir *ir, const bl_node *store, int64_t *offset)
{
    const bl_node *gate = store->nsrc > 3 ? store->src[3] : NULL;

    if (store->op != BL_OP_STORE || store->arg != 0 || store->src[1]->lanes < 2 || !is_power_of_two(store->src[1]->lanes) ||
        store->src[2]->lanes != store->src[1]->lanes || (gate != NULL && gate->lanes > 1) || !constant_of(store->src[1], offset))
        return NULL;
    return bl_load(ir, store->src[0], ahead(ir, store->src[1], -*offset), gate);
}

/* ---- in registers */

/* Every second lane of a, then of b, starting with lane |first|. */
static const bl_node *every_second(bl_ir *ir, const bl_node *a, const bl_node *b, int first)
{
    const bl_node *each[BL_MAX_LANES];
    int half = a->lanes / 2;

    for (int i = 0; i < half; i++) {
        each[i] = bl_extract(ir, a, 2 * i + first);
        each[half + i] = bl_extract(ir, b, 2 * i + first);
    }
    return bl_stack(ir, a->lanes, each);
}

/* Transpose |n| rows. The number of an element is the bits of its row followed by the bits of its lane. Each step rotates that
 * number by one bit; after log2(elements) steps the two parts have swapped. */
static void turn_rows(bl_ir *ir, const bl_node **row, int n, int elements)
{
    const bl_node *made[BL_MAX_LANES];

    for (int bit = 1; bit < elements; bit *= 2) {
        for (int i = 0; i < n; i++)
            made[i] = every_second(ir, row[2 * i % n], row[2 * i % n + 1], 2 * i / n);
        for (int i = 0; i < n; i++)
            row[i] = made[i];
    }
}

/* Concatenate |n| vectors pairwise, a form that compilers recognise as a concatenation. */
static const bl_node *put_together(bl_ir *ir, int n, const bl_node *const *part)
{
    const bl_node *each[BL_MAX_LANES];
    const bl_node *a = part[0], *b = NULL;

    if (n == 1)
        return a;
    a = put_together(ir, n / 2, part);
    b = put_together(ir, n / 2, part + n / 2);
    for (int i = 0; i < a->lanes; i++) {
        each[i] = bl_extract(ir, a, i);
        each[a->lanes + i] = bl_extract(ir, b, i);
    }
    return bl_stack(ir, 2 * a->lanes, each);
}

static void turn_loads(turn *t, const member *m, int n)
{
    const bl_node *row[BL_MAX_LANES], *part[BL_MAX_LANES];
    int lanes = m->node->lanes, blocks = lanes / n;

    for (int j = 0; j < n; j++) {
        for (int b = 0; b < blocks; b++) {
            const bl_node *load = m->node->src[j * blocks + b];
            part[b] = access_at(t->ir, load, load->src[1], n, NULL);
        }
        row[j] = put_together(t->ir, blocks, part);
    }
    turn_rows(t->ir, row, n, n);
    for (int j = 0; j < n; j++)
        bl_ptrmap_put(&t->to, m[j].node, row[j]);
    t->found = true;
}

/* Replace the stores of |m| by stores of transposed values. Returns their number, or 0 if that is not possible. */
static int turn_stores(turn *t, const member *m, int n, const bl_node **stores)
{
    const bl_node *row[BL_MAX_LANES], *each[BL_MAX_LANES];
    const bl_node *lane = bl_find_op(t->ir, m->node->src[1], BL_OP_LANE);
    int lanes = m->node->src[1]->lanes;

    if (lane == NULL || lane->lanes != lanes)
        return 0;
    for (int j = 0; j < n; j++)
        row[j] = m[j].node->src[2];
    turn_rows(t->ir, row, n, lanes);
    for (int i = 0; i < lanes; i++) {
        const bl_node *index = bl_replace(t->ir, m->node->src[1], lane, bl_index(t->ir, i)), *value = row[i * n / lanes];
        for (int k = 0; k < n && n < lanes; k++)
            each[k] = bl_extract(t->ir, value, i * n % lanes + k);
        stores[i] = access_at(t->ir, m->node, index, n, n < lanes ? bl_stack(t->ir, n, each) : value);
    }
    return lanes;
}

/* ---- both */

static void turn_init(families *all, bl_ir *ir)
{
    bl_ptrmap_init(&all->of, bl_ir_arena(ir));
    all->first = NULL;
    all->last = &all->first;
}

static const bl_node *with_loads_turned(bl_ir *ir, const bl_node *sink)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    turn t = {.ir = ir};
    families all;

    turn_init(&all, ir);
    bl_ptrmap_init(&t.to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        int64_t offset = 0;
        const bl_node *key = loads_key(ir, below.at[i], &offset);
        if (key != NULL)
            turn_add(ir, &all, key, (member){below.at[i], offset, 0});
    }
    for (family *f = all.first; f != NULL; f = f->next) {
        if (f->count > 1)
            qsort(f->member, (size_t)f->count, sizeof *f->member, by_offset);
        for (int i = 0; i < f->count;) {
            int n = turn_side_by_side(f, i, f->member->node->lanes);
            if (n > 1)
                turn_loads(&t, &f->member[i], n);
            i += n;
        }
    }
    return t.found ? bl_substitute(ir, sink, &t.to) : sink;
}

static const bl_node *with_stores_turned(bl_ir *ir, const bl_node *sink)
{
    const bl_node **stores = bl_arena_array(bl_ir_arena(ir), (size_t)sink->nsrc * BL_MAX_LANES, sizeof *stores);
    bool *gone = bl_arena_array(bl_ir_arena(ir), sink->nsrc, sizeof *gone);
    turn t = {.ir = ir};
    families all;
    int count = 0;

    turn_init(&all, ir);
    for (uint32_t i = 0; i < sink->nsrc; i++) {
        int64_t offset = 0;
        const bl_node *key = store_key(ir, sink->src[i], &offset);
        if (key != NULL)
            turn_add(ir, &all, key, (member){sink->src[i], offset, i});
    }
    if (stores == NULL || gone == NULL)
        return sink;
    for (family *f = all.first; f != NULL; f = f->next) {
        if (f->count > 1)
            qsort(f->member, (size_t)f->count, sizeof *f->member, by_offset);
        for (int i = 0; i < f->count;) {
            int n = turn_side_by_side(f, i, f->member->node->src[1]->lanes);
            int made = n > 1 ? turn_stores(&t, &f->member[i], n, stores + count) : 0;
            for (int k = 0; made > 0 && k < n; k++)
                gone[f->member[i + k].at] = true;
            count += made;
            i += n;
        }
    }
    if (count == 0)
        return sink;
    for (uint32_t i = 0; i < sink->nsrc; i++) {
        if (!gone[i])
            stores[count++] = sink->src[i];
    }
    return bl_sink(ir, count, stores);
}

const bl_node *bl_lower_turn(bl_ir *ir, const bl_node *sink)
{
    return with_stores_turned(ir, with_loads_turned(ir, sink));
}
