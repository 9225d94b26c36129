/* SPDX-License-Identifier: MIT */
/* The state of one bl_front_build, and the table of wire ops. */
#ifndef BL_FRONT_BUILD_H
#define BL_FRONT_BUILD_H

#include "engine/front/call.h"

typedef const bl_node *(*bl_expand_fn)(bl_call *c);

/* A row of wire_ops.def. The op is a C function (expand), a formula over other ops, or one scalar op on inputs that are
 * broadcast to a common shape. */
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
/* Find an op by its wire name; NULL if there is none. */
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
    bl_build *outer; /* of a body: the build of the graph around it. A body has no hidden states and draws no random numbers */
    const bl_wire_graph *wire;
    const bl_front_options *options;
    bl_graph *graph;
    const bl_node ***value; /* the results of each wire node built so far */
    bool **wrt;             /* for each result: is a gradient taken with respect to it? */
    int max_hidden;
    int nrandom; /* number of random nodes so far, those of bodies included; counted in the outermost build */
    const bl_node *rng, **rng_update;
    int64_t naliases;                     /* number of ALIAS nodes so far, likewise */
    bl_index_check *checks, **last_check; /* index checks of this graph or body; |last_check| is where the next check is linked */
    const bl_node *unread;                /* the target of updates after a failure; never read */
};

static inline bl_build *bl_build_outermost(bl_build *build)
{
    while (build->outer != NULL)
        build = build->outer;
    return build;
}
/* Call an op on |operand| (NULL where node->refs has a literal); |result| gets node->nids results. False after a failure. */
bool bl_build_call(bl_build *build, const bl_call *caller, const bl_wire_node *node, const bl_node *const *operand,
                   const bl_node **result);
/* formula.c: evaluate a formula. Returns its first result; all results are in c->result. NULL or POISON after a failure. */
const bl_node *bl_formula_eval(bl_call *c, const char *formula);
/* The value of a reference that is no literal. */
const bl_node *bl_build_get(const bl_build *build, const bl_wire_ref *ref);
const char *bl_build_ref_name(const bl_build *build, const bl_wire_ref *ref);
/* Build a body: |output| gets its body->noutputs results for the inputs |input|. The caller takes over the index checks of the
 * body. False after a failure. */
bool bl_build_body(bl_call *c, const bl_wire_graph *body, const bl_node *const *input, const bl_node **output,
                   const bl_index_check **checks);
/* Make a hidden state of the shape of |like| (NULL: a scalar) that starts at zero. The caller stores the state's update in
 * **update; after a failure (POISON) that is a dummy. */
const bl_node *bl_build_hide(bl_call *c, const char *name, bl_dtype dtype, const bl_node *like, const bl_node ***update);
/* The hidden state uint32[2] {seed, step} of the random generator. With |step| set, its step number advances by one per
 * step. */
const bl_node *bl_build_rng(bl_call *c, bool step);

#endif
