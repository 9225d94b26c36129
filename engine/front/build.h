/* SPDX-License-Identifier: MIT */
/* The state of one bl_front_build, and the table of wire ops. */
#ifndef BL_FRONT_BUILD_H
#define BL_FRONT_BUILD_H

#include "engine/front/call.h"

typedef const bl_node *(*bl_expand_fn)(bl_call *c);

/* A row of wire_ops.def: written in C, as a formula over other ops, or one scalar op of its inputs in their common shape. */
typedef struct bl_wire_op {
    const char *name;
    const char *signature;
    const char *doc;
    bl_expand_fn expand;
    const char *formula;
    bl_op alu;
} bl_wire_op;

extern const bl_wire_op bl_wire_ops[];
extern const size_t bl_wire_ops_count;
/* NULL if there is none. */
const bl_wire_op *bl_wire_op_find(const char *name);

#define BL_WIRE(id, name, signature, doc) const bl_node *expand_##id(bl_call *c);
#define BL_FORMULA(name, signature, formula, doc)
#define BL_ALU(name, op, signature, doc)
#define BL_KIND(title)
#include "engine/front/wire_ops.def"
#undef BL_KIND
#undef BL_WIRE
#undef BL_FORMULA
#undef BL_ALU

struct bl_build {
    bl_ir *ir;
    bl_build *outer; /* where this is a body: closed, so that nothing in it is remembered or drawn */
    const bl_wire_graph *wire;
    const bl_front_options *options;
    bl_graph *graph;
    const bl_node ***value; /* of each result of each wire node built so far */
    bool **wrt;             /* for each result: a gradient is taken with respect to it */
    int max_hidden;
    int nrandom; /* random nodes so far, of bodies too; of the outermost build */
    const bl_node *rng, **rng_update;
    int64_t naliases;                     /* so far, of bodies too; of the outermost build */
    bl_index_check *checks, **last_check; /* of this graph or body; |last_check|: the link for the next check */
    const bl_node *unread;                /* the target of updates after a failure; never read */
};

static inline bl_build *bl_build_outermost(bl_build *build)
{
    while (build->outer != NULL)
        build = build->outer;
    return build;
}
/* Use an op on |operand| (NULL where node->refs has a literal): node->nids results.  False after a failure. */
bool bl_build_call(bl_build *build, const bl_call *caller, const bl_wire_node *node, const bl_node *const *operand,
                   const bl_node **result);
/* formula.c: the results of a formula, also in c->result; NULL or POISON after a failure. */
const bl_node *bl_formula_eval(bl_call *c, const char *formula);
/* What a reference that is no literal stands for. */
const bl_node *bl_build_get(const bl_build *build, const bl_wire_ref *ref);
const char *bl_build_ref_name(const bl_build *build, const bl_wire_ref *ref);
/* The results of a body, body->noutputs, with |input| for its inputs, as many as it has, and the checks of its indices, which the
 * caller takes over.  False after a failure. */
bool bl_build_body(bl_call *c, const bl_wire_graph *body, const bl_node *const *input, const bl_node **output,
                   const bl_index_check **checks);
/* A hidden state of the shape of |like| (a scalar where that is NULL), starting at zero; its update is set by the caller through
 * *update, which after a failure (POISON) is a place that nobody reads. */
const bl_node *bl_build_hide(bl_call *c, const char *name, bl_dtype dtype, const bl_node *like, const bl_node ***update);
/* The hidden state uint32[2] {seed, step}; where somebody wants the |step|, it advances by one a step. */
const bl_node *bl_build_rng(bl_call *c, bool step);

#endif
