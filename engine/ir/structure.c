/* SPDX-License-Identifier: MIT */
#include "engine/ir/structure.h"

/* Hash |node|. *sum is what it contributes to the hash of a sum of indices of which it is a term or a part. */
static uint64_t structure_hash_node(const bl_structure *s, const bl_node *node, bool named, uint64_t *sum)
{
    bool is_sum = node->op == BL_OP_ADD && node->dtype == BL_INDEX,
         commutes = (bl_op_flags((bl_op)node->op) & BL_OPF_COMMUTES) != 0;
    uint64_t head = (uint64_t)node->op | (uint64_t)node->dtype << 8 | (uint64_t)node->lanes << 16 | (uint64_t)node->sub << 24;
    uint64_t hash = bl_hash_add(head, node->op == BL_OP_BUFFER && !named ? 0 : (uint64_t)node->arg);

    *sum = 0;
    if (node->op == BL_OP_VAR)
        hash = bl_hash_add(bl_hash_add(hash, (uint64_t)node->lo), (uint64_t)node->hi);
    for (uint32_t i = 0; i < node->nsrc; i++) {
        uint64_t below = bl_ptrmap_number(is_sum ? &s->terms : &s->own, node->src[i]);
        *sum += below;
        if (!commutes)
            hash = bl_hash_add(hash, below);
    }
    if (commutes)
        hash = bl_hash_add(hash, *sum);
    if (!is_sum)
        *sum = hash;
    return hash;
}

bool bl_structure_init(bl_structure *s, bl_ir *ir, const bl_node *root, bool named)
{
    bl_nodes nodes = bl_reach(ir, 1, &root, false);

    bl_ptrmap_init(&s->own, bl_ir_arena(ir));
    bl_ptrmap_init(&s->terms, bl_ir_arena(ir));
    if (nodes.count == 0)
        return false;
    for (size_t i = 0; i < nodes.count; i++) {
        uint64_t term = 0, own = structure_hash_node(s, nodes.at[i], named, &term);
        bl_ptrmap_put_number(&s->own, nodes.at[i], own);
        bl_ptrmap_put_number(&s->terms, nodes.at[i], term);
        if (!bl_ptrmap_has(&s->own, nodes.at[i]) || !bl_ptrmap_has(&s->terms, nodes.at[i]))
            return false;
    }
    return true;
}

uint64_t bl_structure_get(const bl_structure *s, const bl_node *node)
{
    return bl_ptrmap_number(&s->own, node);
}
