/* SPDX-License-Identifier: MIT */
#include "engine/ir/node.h"

#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "engine/ir/private.h"
#include "engine/ir/shape.h"

#include "engine/base/clock.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 1024 };

static bool node_grow(void *array, size_t cap, size_t size)
{
    void *old, *grown;

    memcpy(&old, array, sizeof old); /* |array| points to a pointer of any type */
    grown = bl_realloc(old, cap * size);
    if (grown != NULL)
        memcpy(array, &grown, sizeof grown);
    return grown != NULL;
}

static bool grow_ids(bl_ir *ir)
{
    size_t cap = ir->cap == 0 ? FIRST_CAP : ir->cap * 2;

    if (!node_grow(&ir->by_id, cap, sizeof *ir->by_id) || !node_grow(&ir->value, cap, sizeof *ir->value) ||
        !node_grow(&ir->queue, cap, sizeof *ir->queue) || !node_grow(&ir->mark, cap, sizeof *ir->mark))
        return false;
    memset(ir->mark + ir->cap, 0, (cap - ir->cap) * sizeof *ir->mark);
    ir->cap = cap;
    return true;
}

/* The table has twice as many slots as there are ids, which keeps probes short. */
static bool grow_table(bl_ir *ir)
{
    size_t cap = ir->cap * 2;
    const bl_node **table = bl_calloc(cap, sizeof *table);

    if (table == NULL)
        return false;
    for (size_t i = 1; i < ir->count; i++) {
        size_t at = (size_t)ir->by_id[i]->hash & (cap - 1);
        while (table[at] != NULL)
            at = (at + 1) & (cap - 1);
        table[at] = ir->by_id[i];
    }
    free(ir->table);
    ir->table = table;
    ir->table_cap = cap;
    return true;
}

bl_ir *bl_ir_create(size_t max_bytes)
{
    bl_ir *ir = bl_calloc(1, sizeof *ir);

    if (ir == NULL)
        return NULL;
    ir->arena = bl_arena_create(max_bytes);
    if (ir->arena == NULL || !grow_ids(ir) || !grow_table(ir)) {
        bl_ir_destroy(ir);
        return NULL;
    }
    for (int i = 0; i < BL_MAX_DIMS + 2; i++)
        ir->poison_dim[i] = &ir->poison;
    ir->poison = (bl_node){
        .op = BL_OP_POISON, .dtype = BL_F32, .lanes = 1, .ndim = 1, .lo = INT64_MIN, .hi = INT64_MAX, .dim = ir->poison_dim + 1};
    ir->by_id[0] = &ir->poison;
    ir->count = 1;
    bl_rule_table_init(&ir->algebra, &bl_rules_algebra);
    bl_rule_table_init(&ir->index, &bl_rules_index);
    return ir;
}

void bl_ir_destroy(bl_ir *ir)
{
    if (ir == NULL)
        return;
    bl_arena_destroy(ir->arena);
    free(ir->table);
    free(ir->by_id);
    free(ir->mark);
    free(ir->value);
    free(ir->queue);
    free(ir);
}

bl_arena *bl_ir_arena(bl_ir *ir)
{
    return ir->arena;
}

bl_status bl_ir_status(const bl_ir *ir, bl_err *err)
{
    if (ir->err.status == BL_OK)
        return bl_arena_status(ir->arena, err);
    if (err != NULL && err->status == BL_OK)
        *err = ir->err;
    return ir->err.status;
}

void bl_ir_blame(bl_ir *ir, const char *wire_id)
{
    ir->blame = wire_id;
}

const bl_node *bl_ir_fail(bl_ir *ir, bl_status status, const char *fmt, ...)
{
    char text[sizeof ir->err.text];
    va_list args;

    if (ir->err.status != BL_OK)
        return &ir->poison;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bl_fail(&ir->err, status, "%s", text);
    if (ir->blame != NULL)
        bl_err_blame(&ir->err, ir->blame);
    return &ir->poison;
}

size_t bl_ir_count(const bl_ir *ir)
{
    return ir->count - 1; /* POISON is not counted */
}

/* The hash depends on the structure of a node only, not on addresses or ids, so it is the same in every process. */
static uint64_t node_hash_node(const bl_node *proto)
{
    uint64_t head = (uint64_t)proto->op | (uint64_t)proto->dtype << 8 | (uint64_t)proto->lanes << 16 |
                    (uint64_t)proto->sub << 24 | (uint64_t)proto->ndim << 32 | (uint64_t)proto->nsrc << 40;
    uint64_t hash = bl_hash_add(head, (uint64_t)proto->arg);

    if (proto->op == BL_OP_VAR)
        hash = bl_hash_add(bl_hash_add(hash, (uint64_t)proto->lo), (uint64_t)proto->hi);
    for (uint32_t i = 0; i < proto->nsrc; i++)
        hash = bl_hash_add(hash, proto->src[i]->hash);
    for (int i = 0; i < proto->ndim; i++)
        hash = bl_hash_add(hash, proto->dim[i]->hash);
    return hash;
}

static bool same_node(const bl_node *a, const bl_node *b)
{
    if (a->op != b->op || a->dtype != b->dtype || a->lanes != b->lanes || a->sub != b->sub || a->nsrc != b->nsrc ||
        a->arg != b->arg)
        return false;
    if (a->op == BL_OP_VAR && (a->lo != b->lo || a->hi != b->hi))
        return false;
    for (uint32_t i = 0; i < a->nsrc; i++) {
        if (a->src[i] != b->src[i])
            return false;
    }
    return bl_shape_equal(a, b);
}

static bool any_poison(const bl_node *proto)
{
    for (uint32_t i = 0; i < proto->nsrc; i++) {
        if (bl_is_poison(proto->src[i]))
            return true;
    }
    for (int i = 0; i < proto->ndim; i++) {
        if (bl_is_poison(proto->dim[i]))
            return true;
    }
    return proto->op == BL_OP_POISON;
}

static bl_node *copy_node(bl_ir *ir, const bl_node *proto, uint64_t hash)
{
    size_t npointers = (size_t)proto->nsrc + proto->ndim;
    bl_node *node = bl_arena_alloc(ir->arena, sizeof *node + npointers * sizeof(const bl_node *));
    const bl_node **pointers = NULL;

    if (node == NULL)
        return NULL;
    *node = *proto;
    node->hash = hash;
    node->id = (uint32_t)ir->count;
    pointers = (const bl_node **)(node + 1);
    for (uint32_t i = 0; i < proto->nsrc; i++)
        pointers[i] = proto->src[i];
    node->src = pointers;
    pointers += proto->nsrc;
    for (int i = 0; i < proto->ndim; i++)
        pointers[i] = proto->dim[i];
    node->dim = pointers;
    bl_node_set_bounds(node);
    return node;
}

static const bl_node *node_out_of_memory(bl_ir *ir)
{
    bl_err err = {0};
    bl_status st = bl_arena_status(ir->arena, &err);

    if (st == BL_OK)
        return bl_ir_fail(ir, BL_ENOMEM, "out of host memory while compiling");
    return bl_ir_fail(ir, st, "%s", err.text);
}

void bl_ir_limit_time(bl_ir *ir, double seconds)
{
    ir->limit_ns = seconds > 0 ? (int64_t)(seconds * 1e9) : 0;
    ir->spent_ns = 0;
    ir->thread = pthread_self();
    ir->read_ns = bl_clock_thread_ns();
}

void bl_ir_add_time(bl_ir *ir, double seconds)
{
    if (ir->limit_ns != 0)
        ir->limit_ns += (int64_t)(seconds * 1e9);
}

void bl_ir_tell(bl_ir *ir, const char *doing)
{
    ir->doing = doing;
}

/* Another thread may continue the compilation. Its time counts from its first call. */
static bool spent_all(bl_ir *ir)
{
    int64_t now = bl_clock_thread_ns();

    ir->spent_ns += pthread_equal(ir->thread, pthread_self()) != 0 ? now - ir->read_ns : 0;
    ir->thread = pthread_self();
    ir->read_ns = now;
    return ir->spent_ns >= ir->limit_ns;
}

void bl_ir_obey(bl_ir *ir, const bl_halt *halt)
{
    ir->halt = *halt;
}

/* Has the compilation exceeded its time, or was it cancelled? Every stage makes nodes, so this check also ends an endless
 * stage. */
static bool node_is_late(bl_ir *ir)
{
    if (ir->late || (++ir->asked & 1023) != 0)
        return ir->late;
    if (ir->limit_ns != 0 && spent_all(ir))
        bl_ir_fail(ir, BL_ELIMIT,
                   "compiling took %.3g s of processor time, the limit (--max-compile-seconds), and had reached %s: split the "
                   "graph into smaller ones, or put steps that repeat into a \"scan\"",
                   (double)ir->limit_ns / 1e9, ir->doing != NULL ? ir->doing : "its nodes");
    ir->late = ir->err.status != BL_OK || bl_halt_check(&ir->halt, &ir->err) != BL_OK;
    return ir->late;
}

const bl_node *bl_node_make(bl_ir *ir, const bl_node *proto)
{
    uint64_t hash = 0;
    size_t at = 0;
    bl_node *node = NULL;

    if (any_poison(proto) || node_is_late(ir))
        return &ir->poison;
    hash = node_hash_node(proto);
    at = (size_t)hash & (ir->table_cap - 1);
    for (; ir->table[at] != NULL; at = (at + 1) & (ir->table_cap - 1)) {
        if (ir->table[at]->hash == hash && same_node(ir->table[at], proto))
            return ir->table[at];
    }
    if (ir->count >= UINT32_MAX)
        return bl_ir_fail(ir, BL_ELIMIT, "the graph has too many nodes");
    if (ir->count == ir->cap && !grow_ids(ir))
        return node_out_of_memory(ir);
    if (ir->count >= ir->table_cap / 2) {
        if (!grow_table(ir))
            return node_out_of_memory(ir);
        at = (size_t)hash & (ir->table_cap - 1);
        while (ir->table[at] != NULL)
            at = (at + 1) & (ir->table_cap - 1);
    }
    node = copy_node(ir, proto, hash);
    if (node == NULL)
        return node_out_of_memory(ir);
    ir->table[at] = node;
    ir->by_id[ir->count++] = node;
    return node;
}

static uint8_t widest(uint32_t nsrc, const bl_node *const *src)
{
    uint8_t lanes = 1;

    for (uint32_t i = 0; i < nsrc; i++)
        lanes = src[i]->lanes > lanes ? src[i]->lanes : lanes;
    return lanes;
}

uint8_t bl_node_lanes(const bl_node *node, const bl_node *const *src)
{
    switch (bl_op_get_class((bl_op)node->op)) {
    case BL_CLASS_ALU:
    case BL_CLASS_REDUCE:
        return widest(node->nsrc, src);
    case BL_CLASS_LOOP:
        break;
    case BL_CLASS_LEAF:
    case BL_CLASS_MOVE:
    case BL_CLASS_TENSOR:
    case BL_CLASS_INST:
        return node->lanes;
    }
    /* A LOAD or STORE with a scalar index and several lanes accesses consecutive elements, and keeps its lanes. */
    if ((node->op == BL_OP_LOAD || node->op == BL_OP_STORE) && src[1]->lanes == 1 && node->src[1]->lanes == 1 && node->lanes > 1)
        return node->lanes;
    if (node->op == BL_OP_LOAD)
        return src[1]->lanes;
    if (node->op == BL_OP_STORE)
        return src[1]->lanes > src[2]->lanes ? src[1]->lanes : src[2]->lanes;
    if (node->op == BL_OP_RUNNING || node->op == BL_OP_RESCALED)
        return widest(node->nsrc, src);
    return node->lanes;
}

const bl_node *bl_node_with(bl_ir *ir, const bl_node *node, const bl_node *const *src)
{
    bl_node proto = *node;
    bool same = true;

    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (bl_is_poison(src[i]))
            return src[i];
        same = same && src[i] == node->src[i];
    }
    if (same)
        return node;
    proto.src = src;
    proto.lanes = bl_node_lanes(node, src);
    return bl_node_make(ir, &proto);
}

const bl_node *bl_const(bl_ir *ir, bl_dtype dtype, bl_scalar value)
{
    bl_node proto = {.op = BL_OP_CONST, .dtype = (uint8_t)dtype, .lanes = 1};

    value = bl_scalar_fit(dtype, value);
    if (bl_dtype_is_float(dtype) && isnan(value.f))
        value.f = NAN; /* one bit pattern for NaN, so that equal constants are one node */
    proto.arg = value.i;
    return bl_node_make(ir, &proto);
}

const bl_node *bl_const_int(bl_ir *ir, bl_dtype dtype, int64_t value)
{
    return bl_const(ir, dtype, bl_scalar_cast(dtype, BL_I64, (bl_scalar){.i = value}));
}

const bl_node *bl_const_float(bl_ir *ir, bl_dtype dtype, double value)
{
    return bl_const(ir, dtype, bl_scalar_cast(dtype, BL_F64, (bl_scalar){.f = value}));
}

const bl_node *bl_index(bl_ir *ir, int64_t value)
{
    return bl_node_make(ir, &(bl_node){.op = BL_OP_CONST, .dtype = BL_INDEX, .lanes = 1, .arg = value});
}

bool bl_is_const(const bl_node *node)
{
    return node->op == BL_OP_CONST;
}

bool bl_is_int(const bl_node *node, int64_t value)
{
    return node->op == BL_OP_CONST && !bl_dtype_is_float((bl_dtype)node->dtype) && node->arg == value;
}

bl_scalar bl_const_value(const bl_node *node)
{
    return (bl_scalar){.i = node->arg};
}
