/* SPDX-License-Identifier: MIT */
#include "engine/render/anchor.h"

#include <stdlib.h>

typedef struct reference {
    uint32_t inst, buffer, base, scope; /* |scope|: the LOOP around, or ninst */
    int64_t number;
} reference;

static bool is_plain_access(const bl_linear *linear, const bl_inst *inst)
{
    uint32_t operands = inst->op == BL_OP_LOAD ? 2 : inst->op == BL_OP_STORE ? 3 : 0;
    return operands > 0 && inst->nargs == operands && linear->inst[inst->args[1]].lanes == 1;
}

/* The index as a sum; itself and 0 where it is none. */
static void split(const bl_linear *linear, const bl_inst *access, reference *out)
{
    const bl_inst *index = &linear->inst[access->args[1]];
    const bl_inst *last = index->nargs == 2 ? &linear->inst[index->args[1]] : NULL;

    out->buffer = access->args[0];
    out->base = access->args[1];
    if (index->op == BL_OP_ADD && index->sub == 1 && last->op == BL_OP_CONST && last->arg >= 0) {
        out->base = index->args[0];
        out->number = last->arg;
    }
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_place(const void *a, const void *b)
{
    const reference *x = a, *y = b;
    int order = compare(x->buffer, y->buffer);

    order = order != 0 ? order : compare(x->base, y->base);
    order = order != 0 ? order : compare(x->scope, y->scope);
    return order != 0 ? order : compare((uint64_t)x->number, (uint64_t)y->number);
}

static bool share(const reference *x, const reference *y)
{
    return x->buffer == y->buffer && x->base == y->base && x->scope == y->scope;
}

int64_t *anchor_find(bl_arena *arena, const bl_linear *linear)
{
    int64_t *anchor = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *anchor);
    reference *all = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *all);
    uint32_t around[BL_LINEAR_MAX_DEPTH + 1] = {linear->ninst};
    size_t n = 0;
    int depth = 0;

    if (anchor == NULL || all == NULL)
        return NULL;
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];

        anchor[i] = ANCHOR_NONE;
        if (inst->op == BL_OP_LOOP && depth < BL_LINEAR_MAX_DEPTH)
            around[++depth] = i;
        else if (inst->op == BL_OP_END)
            depth--;
        else if (is_plain_access(linear, inst))
            all[n++] = (reference){.inst = i, .scope = around[depth]};
        if (n > 0 && all[n - 1].inst == i)
            split(linear, inst, &all[n - 1]);
    }
    qsort(all, n, sizeof *all, by_place);
    for (size_t i = 0, first = 0; i < n; i++) {
        first = share(&all[first], &all[i]) ? first : i;
        anchor[all[i].inst] = all[first].number;
    }
    return anchor;
}
