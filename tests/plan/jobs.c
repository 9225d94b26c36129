/* SPDX-License-Identifier: MIT */
#include "tests/plan/jobs.h"

#include "proto/decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

const char job_counter[] = "{'inputs': {'x': {'dtype': 'float32', 'shape': [3]}}, 'state': {'w': {'dtype': 'float32', "
                           "'shape': [3]}, 'm': {'dtype': 'float32', "
                           "'shape': []}, 'n': {'dtype': 'float32', 'shape': []}}, 'nodes': [{'id': 'w1', 'op': 'add', 'in': "
                           "['w', 'x']}, {'id': 'y', 'op': 'mul', "
                           "'in': ['w', 1]}, {'id': 'm1', 'op': 'add', 'in': ['n', 0.5]}, {'id': 'n1', 'op': 'mul', 'in': "
                           "['m', 1]}], 'updates': {'w': 'w1', 'm': "
                           "'m1', 'n': 'n1'}, 'outputs': ['y']}";
const char job_checked[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [3]}}, 'state': {'w': {'dtype': 'float32', 'shape': [3]}, 'm': {'dtype': "
    "'float32', 'shape': []}, 'n': {'dtype': 'float32', 'shape': []}}, 'nodes': [{'id': 'w1', 'op': 'add', 'in': ['w', 'x']}, "
    "{'id': 'z', 'op': 'mul', 'in': ['w', 0]}, {'id': 'k', 'op': 'cast', 'in': ['z'], 'attrs': {'dtype': 'int32'}}, {'id': 'y', "
    "'op': 'take', 'in': ['w', 'k']}, {'id': 'm1', 'op': 'add', 'in': ['n', 0.5]}, {'id': 'n1', 'op': 'mul', 'in': ['m', 1]}], "
    "'updates': {'w': 'w1', 'm': 'm1', 'n': 'n1'}, 'outputs': ['y'], 'check_indices': true}";
const char job_products[] = "{'inputs': {'x': {'dtype': 'float32', 'shape': [4, 4]}}, 'nodes': [{'id': 'a', 'op': 'matmul', "
                            "'in': ['x', 'x']}, {'id': 'b', 'op': "
                            "'matmul', 'in': ['a', 'x']}, {'id': 'c', 'op': 'matmul', 'in': ['b', 'a']}, {'id': 's', 'op': "
                            "'softmax', 'in': ['c']}], 'outputs': ['c', "
                            "'s']}";

document open_document(const char *text)
{
    document d = {.arena = bl_arena_create(0)};
    bl_json_limits json_limits = {0};
    bl_decode_env env = {.arena = d.arena,
                         .limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 12, .max_tensor_bytes = 1 << 30}};
    bl_program_doc *program = bl_arena_alloc(d.arena, sizeof *program);
    bl_json_doc doc = {0};
    bl_err err = {0};
    char *json = bl_arena_strdup(d.arena, text);
    bl_status st = BL_OK;

    for (char *at = json; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    st = bl_json_parse(&doc, d.arena, (bl_span){json, strlen(json)}, &json_limits, &err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, program, &err);
    }
    bl_json_fini(&doc);
    if (st == BL_OK)
        st = bl_wire_make_key(d.arena, &program->entries[0].graph, "test", &d.key, &err);
    if (st != BL_OK)
        fail_msg("%s\n%s", err.text, json);
    d.graph = &program->entries[0].graph;
    return d;
}

bench open_bench(size_t max_plans)
{
    bench b = {0};
    uint32_t count = 0;
    bl_text why = {0};
    if (bl_backend_interp.open(1, &b.dev, &count, &why, NULL) != BL_OK || count != 1)
        fail_msg("no interpreter");
    bl_text_fini(&why);
    b.pool = bl_pool_create(b.dev, 1 << 20);
    b.plans = bl_plans_create(max_plans, SIZE_MAX);
    return b;
}

void close_bench(bench *b)
{
    bl_plans_destroy(b->plans);
    bl_pool_destroy(b->pool);
    if (atomic_load(&b->dev->bytes_used) != 0)
        fail_msg("%zu bytes of the device are still used", (size_t)atomic_load(&b->dev->bytes_used));
    bl_device_destroy(b->dev);
}

bl_status get_plan(bench *b, const document *d, bl_plan **plan, bool *hit, bl_err *err)
{
    static const bl_plan_options options = {.spec = 1, .program = true, .max_compile_bytes = 1 << 26};
    return bl_plans_get(b->plans, &d->key, d->graph, b->dev, &options, plan, hit, err);
}

size_t bytes_of(const bl_plan_tensor *tensor, const int64_t *vars)
{
    int64_t dim[BL_MAX_DIMS];
    size_t bytes = bl_dtype_bytes(tensor->dtype);
    bl_plan_sizes(tensor, vars, dim);
    for (int i = 0; i < tensor->ndim; i++)
        bytes *= (size_t)dim[i];
    return bytes;
}

bl_buffer *filled(bench *b, size_t bytes, float value)
{
    float data[4096];
    bl_buffer *buffer = NULL;
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++)
        data[i] = value;
    if (bytes > sizeof data || bl_pool_alloc(b->pool, bytes, &buffer, NULL) != BL_OK ||
        bl_buffer_write(buffer, 0, data, bytes, NULL) != BL_OK)
        fail_msg("no buffer of %zu bytes", bytes);
    return buffer;
}

float value_of(bl_buffer *buffer)
{
    float value = -1;
    if (bl_buffer_read(buffer, 0, &value, sizeof value, NULL) != BL_OK)
        fail_msg("cannot read");
    return value;
}

void open_job(bench *b, bl_plan *plan, int64_t var, job *j)
{
    *j = (job){.b = b, .plan = plan, .info = bl_plan_get_info(plan), .vars = {var}};
    for (int i = 0; i < j->info->ninputs; i++)
        j->inputs[i] = filled(b, bytes_of(&j->info->inputs[i], j->vars), 1);
    for (int i = 0; i < j->info->nstates; i++)
        j->states[i] = filled(b, bytes_of(&j->info->states[i], j->vars), 0);
    j->run = (bl_run){.plan = plan,
                      .pool = b->pool,
                      .vars = j->vars,
                      .inputs = j->inputs,
                      .states = j->states,
                      .outputs = j->outputs,
                      .steps = 1};
}

void drop_outputs(job *j)
{
    for (int i = 0; i < j->info->noutputs; i++) {
        bl_pool_release(j->b->pool, j->outputs[i]);
        j->outputs[i] = NULL;
    }
}

void close_job(job *j)
{
    drop_outputs(j);
    for (int i = 0; i < j->info->ninputs; i++)
        bl_pool_release(j->b->pool, j->inputs[i]);
    for (int i = 0; i < j->info->nstates; i++)
        bl_pool_release(j->b->pool, j->states[i]);
    bl_plan_release(j->plan);
}

void open_counter(bench *b, document *d, job *j)
{
    bl_plan *plan = NULL;
    bool hit = false;
    bl_err err = {0};
    *d = open_document(job_counter);
    if (get_plan(b, d, &plan, &hit, &err) != BL_OK)
        fail_msg("%s", err.text);
    open_job(b, plan, 0, j);
}

/* Checks that all states are those after |steps| steps: w counts, m and n alternate. */
void check_counter(const job *j, uint64_t steps)
{
    float w = value_of(j->states[0]), m = value_of(j->states[1]), n = value_of(j->states[2]);
    float turns = (float)(steps / 2) * 0.5F;
    float want_m = steps % 2 == 0 ? turns : turns + 0.5F, want_n = turns;
    if (w != (float)steps || m != want_m || n != want_n)
        fail_msg("after %llu steps: w %g, m %g, n %g, not %llu, %g, %g", (unsigned long long)steps, w, m, n,
                 (unsigned long long)steps, want_m, want_n);
}

void check_part(bl_buffer *w, uint64_t steps)
{
    float got[8] = {0};
    if (bl_buffer_read(w, 0, got, sizeof got, NULL) != BL_OK)
        fail_msg("cannot read");
    for (int i = 0; i < 8; i++) {
        float want = i == 3 || i == 4 ? (float)steps : 0;
        if (got[i] != want)
            fail_msg("after %llu steps element %d is %g, not %g", (unsigned long long)steps, i, got[i], want);
    }
}
