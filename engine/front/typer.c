/* SPDX-License-Identifier: MIT */
#include "engine/front/typer.h"

#include "engine/front/build.h"

struct bl_typer {
    bl_front_options options;
    int nvars;
    bl_wire_var *vars;
    bl_ir *ir;
};

struct bl_typer_graph {
    bl_typer *typer;
    bl_build build;
    bl_wire_graph wire; /* the named dimensions, and the counts; its nodes are not used */
    bl_graph graph;
    int input_cap, node_cap;
};

bl_status bl_typer_create(int nvars, const bl_wire_var *vars, size_t max_bytes, double max_seconds, bl_typer **out, bl_err *err)
{
    bl_ir *ir = bl_ir_create(max_bytes);
    bl_arena *arena = ir != NULL ? bl_ir_arena(ir) : NULL;
    bl_typer *typer = ir != NULL ? bl_arena_alloc(arena, sizeof *typer) : NULL;

    *out = NULL;
    if (typer == NULL) {
        bl_ir_destroy(ir);
        return bl_fail(err, BL_ENOMEM, "out of host memory for types of a graph");
    }
    *typer = (bl_typer){.options = {.program = true, .max_bytes = max_bytes, .max_seconds = max_seconds}, .ir = ir};
    bl_ir_limit_time(ir, max_seconds);
    typer->vars = bl_arena_array(arena, (size_t)nvars, sizeof *typer->vars);
    const char **names = bl_arena_array(arena, (size_t)nvars, sizeof *names);
    int64_t *steps = bl_arena_array(arena, (size_t)nvars, sizeof *steps);
    for (int i = 0; i < nvars && typer->vars != NULL && names != NULL && steps != NULL; i++) {
        typer->vars[i] = vars[i];
        typer->vars[i].name = names[i] = bl_arena_strdup(arena, vars[i].name);
        steps[i] = bl_wire_var_step(&vars[i]);
    }
    typer->nvars = nvars;
    bl_ir_name_vars(ir, nvars, names, steps);
    bl_status st = bl_arena_status(arena, err);
    if (st != BL_OK) {
        bl_ir_destroy(ir);
        return st;
    }
    *out = typer;
    return BL_OK;
}

void bl_typer_destroy(bl_typer *typer)
{
    if (typer != NULL)
        bl_ir_destroy(typer->ir);
}

bl_ir *bl_typer_ir(bl_typer *typer)
{
    return typer->ir;
}

bl_typer_graph *bl_typer_open(bl_typer *typer, bl_typer_graph *outer)
{
    bl_typer_graph *g = bl_arena_alloc(bl_ir_arena(typer->ir), sizeof *g);
    const bl_node *two = bl_index(typer->ir, 2);

    if (g == NULL)
        return NULL;
    g->typer = typer;
    g->wire = (bl_wire_graph){.nvars = typer->nvars, .vars = typer->vars};
    g->graph = (bl_graph){.ir = typer->ir};
    g->build = (bl_build){.ir = typer->ir,
                          .outer = outer != NULL ? &outer->build : NULL,
                          .wire = &g->wire,
                          .options = &typer->options,
                          .graph = &g->graph};
    g->build.rng = bl_input(typer->ir, BL_TYPER_RNG, BL_U32, 1, &two);
    g->build.rng_update = &g->build.unread;
    return g;
}

const bl_node *bl_typer_input(bl_typer_graph *g, bl_dtype dtype, int ndim, const bl_node *const *dim)
{
    bl_ir *ir = g->typer->ir;
    void *at = (void *)g->graph.inputs;

    if (ndim > BL_MAX_DIMS)
        return bl_ir_fail(ir, BL_ELIMIT, "a tensor has at most %d dimensions", BL_MAX_DIMS);
    if (!bl_arena_reserve(bl_ir_arena(ir), &at, g->graph.ninputs, &g->input_cap, sizeof *g->graph.inputs))
        return bl_ir_fail(ir, BL_ENOMEM, "out of host memory for an input of a graph");
    g->graph.inputs = at;
    int slot = g->graph.ninputs++;
    g->wire.ninputs = g->graph.ninputs;
    g->graph.inputs[slot] = bl_input(ir, slot, dtype, ndim, dim);
    return g->graph.inputs[slot];
}

const bl_node *const *bl_typer_node(bl_typer_graph *g, const bl_wire_node *node)
{
    bl_ir *ir = g->typer->ir;
    bl_arena *arena = bl_ir_arena(ir);
    const bl_node **operand = bl_arena_array(arena, (size_t)node->nrefs, sizeof *operand);
    const bl_node **result = bl_arena_array(arena, (size_t)node->nids, sizeof *result);
    void *at = g->build.value;

    if (operand == NULL || result == NULL || !bl_arena_reserve(arena, &at, g->wire.nnodes, &g->node_cap, sizeof *g->build.value))
        return NULL;
    g->build.value = at;
    for (int i = 0; i < node->nrefs; i++)
        operand[i] = node->refs[i].kind == BL_REF_LITERAL ? NULL : bl_build_get(&g->build, &node->refs[i]);
    bool ok = bl_build_call(&g->build, NULL, node, operand, result);
    if (!ok)
        return NULL;
    g->build.value[g->wire.nnodes++] = result;
    return result;
}
