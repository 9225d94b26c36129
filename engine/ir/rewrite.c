/* SPDX-License-Identifier: MIT */
#include "engine/ir/rewrite.h"

#include "engine/ir/private.h"

#include <math.h>
#include <string.h>

const bl_node *bl_uniform_const(const bl_node *node)
{
    while (node->op == BL_OP_EXPAND || node->op == BL_OP_RESHAPE)
        node = node->src[0];
    return node->op == BL_OP_CONST ? node : NULL;
}

static bool has_value(const bl_node *node, double value)
{
    const bl_node *constant = bl_uniform_const(node);
    double f = 0;

    if (constant == NULL)
        return false;
    if (!bl_dtype_is_float((bl_dtype)constant->dtype))
        return constant->arg == (int64_t)value;
    f = bl_const_value(constant).f;
    return f == value && !signbit(f) == !signbit(value);
}

static bool rewrite_match(const bl_pat *pat, const bl_node *node, bl_match *m);

static bool match_sources(const bl_pat *pat, const bl_node *node, bl_match *m, bool swapped)
{
    for (int i = 0; i < pat->nsrc; i++) {
        if (!rewrite_match(pat->src[i], node->src[swapped ? 1 - i : i], m))
            return false;
    }
    return true;
}

/* Recursive; the depth is that of the pattern, which is static. */
static bool rewrite_match(const bl_pat *pat, const bl_node *node, bl_match *m)
{
    bl_match before;

    switch (pat->kind) {
    case BL_PAT_VALUE:
        return has_value(node, pat->value);
    case BL_PAT_CONST:
        if (bl_uniform_const(node) == NULL)
            return false;
        break;
    case BL_PAT_ANY:
        break;
    case BL_PAT_OP:
        if (node->op != pat->op || node->nsrc != (uint32_t)pat->nsrc)
            return false;
        if ((bl_op_flags(pat->op) & BL_OPF_COMMUTES) == 0)
            return match_sources(pat, node, m, false);
        before = *m;
        if (match_sources(pat, node, m, false))
            return true;
        *m = before;
        return match_sources(pat, node, m, true);
    }
    if (m->at[pat->slot] != NULL)
        return m->at[pat->slot] == node;
    m->at[pat->slot] = node;
    return true;
}

/* Build |pat|. A constant takes the dtype of the captured operand next to it; a constant that is the whole pattern takes the
 * dtype of |like|. */
static const bl_node *rewrite_build(bl_ir *ir, const bl_pat *pat, const bl_match *m, const bl_node *like)
{
    const bl_node *src[3] = {NULL, NULL, NULL};
    const bl_node *beside = like;
    int first = pat->op == BL_OP_WHERE ? 1 : 0;

    if (pat->kind == BL_PAT_VALUE) {
        bl_dtype dtype = (bl_dtype)like->dtype;
        return bl_const_like(ir, like, bl_scalar_cast(dtype, BL_F64, (bl_scalar){.f = pat->value}));
    }
    if (pat->kind != BL_PAT_OP)
        return m->at[pat->slot];
    for (int i = pat->nsrc - 1; i >= 0; i--) {
        if (pat->src[i]->kind == BL_PAT_VALUE)
            continue;
        src[i] = rewrite_build(ir, pat->src[i], m, like);
        beside = i >= first ? src[i] : beside;
    }
    for (int i = 0; i < pat->nsrc; i++) {
        if (src[i] == NULL)
            src[i] = rewrite_build(ir, pat->src[i], m, beside);
    }
    return bl_alu(ir, pat->op, src);
}

static const bl_node *apply_row(bl_ir *ir, const bl_rule *rule, const bl_node *node)
{
    bl_match m = {.root = node};
    const bl_node *made = NULL;

    if (!rewrite_match(rule->find, node, &m) || (rule->guard != NULL && !rule->guard(&m)))
        return NULL;
    made = rule->fn != NULL ? rule->fn(ir, &m) : rewrite_build(ir, rule->put, &m, node);
    return made == node ? NULL : made;
}

/* The bit of an op in a mask. Ops from 63 on have no bit: no rule requires them. */
static uint64_t bit_of(unsigned op)
{
    return op < 63 ? UINT64_C(1) << op : 0; /* bit 63 is BL_NEEDS_EQUAL */
}

static uint64_t needs_of(const bl_pat *pat)
{
    uint64_t needs = 0;

    for (int i = 0; i < pat->nsrc; i++) {
        const bl_pat *operand = pat->src[i];
        if (operand->kind == BL_PAT_OP)
            needs |= bit_of((unsigned)operand->op);
        else if (operand->kind != BL_PAT_ANY)
            needs |= UINT64_C(1) << BL_OP_CONST;
    }
    if (pat->nsrc == 2 && pat->src[0]->kind == BL_PAT_ANY && pat->src[1]->kind == BL_PAT_ANY &&
        pat->src[0]->slot == pat->src[1]->slot)
        needs |= BL_NEEDS_EQUAL;
    return needs;
}

static uint64_t offers_of(const bl_node *node)
{
    uint64_t offers = 0;

    for (uint32_t i = 0; i < node->nsrc; i++) {
        offers |= bit_of(node->src[i]->op);
        if (node->src[i]->op == BL_OP_EXPAND || node->src[i]->op == BL_OP_RESHAPE)
            offers |= UINT64_C(1) << BL_OP_CONST; /* may hide a constant: see bl_uniform_const */
    }
    return node->nsrc == 2 && node->src[0] == node->src[1] ? offers | BL_NEEDS_EQUAL : offers;
}

void bl_rule_table_init(bl_rule_table *table, const bl_ruleset *set)
{
    uint16_t n = 0;

    BL_ASSERT(set->count <= BL_MAX_RULES);
    for (int op = 0; op < BL_OP_COUNT; op++) {
        table->begin[op] = n;
        for (size_t i = 0; i < set->count; i++) {
            if (set->rows[i].find->op == (bl_op)op)
                table->entry[n++] = (bl_rule_entry){&set->rows[i], needs_of(set->rows[i].find)};
        }
    }
    table->begin[BL_OP_COUNT] = n;
}

const bl_node *bl_rules_apply(bl_ir *ir, const bl_rule_table *table, const bl_node *node)
{
    uint64_t lacks = ~offers_of(node);

    for (int i = table->begin[node->op]; i < table->begin[node->op + 1]; i++) {
        const bl_node *made = NULL;
        if ((table->entry[i].needs & lacks) != 0)
            continue;
        made = apply_row(ir, table->entry[i].rule, node);
        if (made != NULL)
            return made;
    }
    return NULL;
}

const bl_node *bl_scalar_simplify(bl_ir *ir, const bl_node *node)
{
    const bl_node *made = NULL;
    bl_dtype dtype = (bl_dtype)node->dtype;

    if (node->lo == node->hi && !bl_dtype_is_float(dtype))
        return bl_const(ir, dtype, (bl_scalar){.i = node->lo});
    if (dtype == BL_INDEX || dtype == BL_BOOL)
        made = bl_rules_apply(ir, &ir->index, node);
    return made != NULL ? made : bl_rules_apply(ir, &ir->algebra, node);
}
