/* SPDX-License-Identifier: MIT */
#include "engine/render/anchor.h"

#include <stdlib.h>

typedef struct reference {
    uint32_t inst, buffer, base, scope; /* |scope|: number of the innermost LOOP around the access, or ninst */
    int64_t number;
} reference;

static bool is_plain_access(const bl_linear *linear, const bl_inst *inst)
{
    uint32_t operands = inst->op == BL_OP_LOAD ? 2 : inst->op == BL_OP_STORE ? 3 : 0;
    return operands > 0 && inst->nargs == operands && linear->inst[inst->args[1]].lanes == 1;
}

static reference make_reference(const bl_linear *linear, uint32_t inst, uint32_t scope)
{
    const uint32_t *args = linear->inst[inst].args;
    reference to = {.inst = inst, .buffer = args[0], .scope = scope};

    to.number = bl_linear_split(linear, args[1], &to.base);
    if (to.number < 0) { /* a pointer to a base with a negative constant might lie behind the end of the buffer */
        to.base = args[1];
        to.number = 0;
    }
    return to;
}

static int anchor_compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_place(const void *a, const void *b)
{
    const reference *x = a, *y = b;
    int order = anchor_compare(x->buffer, y->buffer);

    order = order != 0 ? order : anchor_compare(x->base, y->base);
    order = order != 0 ? order : anchor_compare(x->scope, y->scope);
    return order != 0 ? order : anchor_compare((uint64_t)x->number, (uint64_t)y->number);
}

static bool anchor_share(const reference *x, const reference *y)
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
            all[n++] = make_reference(linear, i, around[depth]);
    }
    qsort(all, n, sizeof *all, by_place);
    for (size_t i = 0, first = 0; i < n; i++) {
        first = anchor_share(&all[first], &all[i]) ? first : i;
        anchor[all[i].inst] = all[first].number;
    }
    return anchor;
}
