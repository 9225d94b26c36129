/* SPDX-License-Identifier: MIT */
#include "tests/plan/graphs.h"

#include "engine/device/device.h"
#include "proto/decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void test_graph_open(const char *text, test_graph *out)
{
    bl_json_limits json_limits = {0};
    bl_front_options front = {.program = true};
    bl_json_doc doc = {0};
    bl_program_doc program = {0};
    bl_err err = {0};
    bl_arena *arena = bl_arena_create(0);
    bl_decode_env env = {.arena = arena,
                         .limits = {.max_nodes = 10000, .max_inputs = 1000, .max_dims = 12, .max_tensor_bytes = 1ULL << 40}};
    char *json = bl_arena_strdup(arena, text);
    bl_status st = BL_OK;

    for (char *at = json; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    *out = (test_graph){.arena = arena};
    st = bl_json_parse(&doc, arena, (bl_span){json, strlen(json)}, &json_limits, &err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, &program, &err);
    }
    if (st == BL_OK)
        st = bl_front_build(&program.entries[0].graph, &front, &out->graph, &err);
    bl_json_fini(&doc);
    if (st != BL_OK)
        fail_msg("%s: %s\n%s", bl_status_name(st), err.text, json);
    const bl_graph *g = out->graph;
    int all = g->noutputs + g->nstates + g->nhidden;
    out->roots = bl_arena_array(arena, (size_t)all, sizeof *out->roots);
    for (int i = 0; i < all; i++) {
        const bl_node *root = i < g->noutputs ? g->outputs[i] : g->updates[i - g->noutputs];
        if (root != NULL)
            out->roots[out->nroots++] = root;
    }
}

void test_graph_close(test_graph *g)
{
    bl_graph_destroy(g->graph);
    bl_arena_destroy(g->arena);
}

static bl_schedule *make_schedule(const test_graph *g, const bl_sched_options *options)
{
    bl_schedule *schedule = NULL;
    bl_err err = {0};
    if (bl_schedule_make(g->graph->ir, g->nroots, g->roots, options, &schedule, &err) != BL_OK)
        fail_msg("no schedule: %s", err.text);
    return schedule;
}

bl_schedule *test_graph_schedule(const test_graph *g, uint32_t units)
{
    bl_sched_options options = {
        .units = units, .max_params = BL_MAX_BINDINGS - 4, .stage_bytes = 2048}; /* the interpreter's limits */
    return make_schedule(g, &options);
}

bl_schedule *test_graph_schedule_groups(const test_graph *g, uint32_t units)
{
    bl_sched_options options = {
        .units = units, .max_params = BL_MAX_BINDINGS - 4, .stage_bytes = INT64_MAX, .group_columns = 256};
    return make_schedule(g, &options);
}
