/* SPDX-License-Identifier: MIT */
#include "tests/front/bench.h"

#include "engine/base/fault.h"
#include "engine/front/front.h"
#include "engine/ir/shape.h"
#include "engine/ir/verify.h"
#include "proto/decode.h"
#include "tests/interp/graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The data of one run. */
typedef struct run {
    bl_arena *arena;
    bl_json_doc doc;
    bl_run_request request;
    bl_graph *graph;
    void **inputs; /* one per input slot */
    void **values; /* one per root */
    const bl_node **roots;
    int nslots, nroots;
} run;

static size_t hidden_bytes(const bl_hidden_state *h)
{
    size_t bytes = bl_dtype_bytes(h->dtype);
    for (int i = 0; i < h->ndim; i++)
        bytes *= (size_t)h->dim[i];
    return bytes;
}

static void *recall(const bench *b, const bl_hidden_state *h)
{
    size_t bytes = hidden_bytes(h);
    uint32_t *data = calloc(1, bytes + sizeof *data);

    for (int k = 0; k < b->nkept; k++) {
        if (strcmp(b->kept[k].name, h->name) == 0) {
            memcpy(data, b->kept[k].data, bytes);
            return data;
        }
    }
    if (strcmp(h->name, "rng") == 0)
        data[0] = b->seed;
    return data;
}

static void keep(bench *b, const char *name, void *data)
{
    int k = 0;

    while (k < b->nkept && strcmp(b->kept[k].name, name) != 0)
        k++;
    if (k == BENCH_KEPT)
        abort(); /* the test exceeds the limits of the bench */
    if (k == b->nkept) {
        snprintf(b->kept[k].name, sizeof b->kept[k].name, "%s", name);
        b->nkept++;
    } else {
        free(b->kept[k].data);
    }
    b->kept[k].data = data;
}

static bl_status decode(bench *b, run *r, const char *document)
{
    bl_decode_env env = {.limits = {1000, 1000, BL_MAX_DIMS, 1u << 26}};
    bl_json_limits limits = {0};

    r->arena = env.arena = bl_arena_create(0);
    char *text = bl_arena_strdup(r->arena, document);
    for (char *p = text; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    BL_TRY(bl_json_parse(&r->doc, r->arena, (bl_span){text, strlen(text)}, &limits, &b->err));
    bl_json root = bl_json_root(&r->doc);
    return bl_decode_run(&env, &root, &r->request, &b->err);
}

static bl_status fill(bench *b, run *r)
{
    const bl_graph *g = r->graph;

    r->nslots = g->ninputs + g->nstates + g->nhidden;
    r->inputs = calloc((size_t)r->nslots + 1, sizeof *r->inputs);
    r->values = calloc((size_t)(g->noutputs + g->nhidden) + 1, sizeof *r->values);
    r->roots = calloc((size_t)(g->noutputs + g->nhidden) + 1, sizeof *r->roots);
    for (int i = 0; i < g->ninputs; i++) {
        r->inputs[i] = calloc(1, r->request.values[i].bytes + 1);
        BL_TRY(bl_tensor_scan(&r->request.values[i], r->inputs[i], &b->err));
    }
    for (int i = 0; i < g->nhidden; i++)
        r->inputs[g->ninputs + g->nstates + i] = recall(b, &g->hidden[i]);
    for (int i = 0; i < g->noutputs; i++)
        r->roots[r->nroots++] = g->outputs[i];
    for (int i = 0; i < g->nhidden; i++) {
        const bl_node *update = g->updates[g->nstates + i];
        r->roots[r->nroots++] = update != NULL ? update : g->inputs[g->ninputs + g->nstates + i];
    }
    return BL_OK;
}

static void put_value(bl_text *out, const bl_node *node, const void *data, const int64_t *vars)
{
    bl_text numbers = {0};
    size_t count = 1;

    bl_text_printf(out, "%s%s[", out->len == 0 ? "" : "; ", bl_dtype_name((bl_dtype)node->dtype));
    for (int i = 0; i < node->ndim; i++) {
        int64_t size = bl_extent_eval(node->dim[i], vars);
        bl_text_printf(out, "%s%lld", i == 0 ? "" : ", ", (long long)size);
        count *= (size_t)size;
    }
    bl_text_puts(out, "]");
    bl_tensor_print(&numbers, (bl_dtype)node->dtype, data, count);
    for (const char *p = numbers.data; p != NULL && *p != '\0'; p++) { /* converts "[1,true]" to " 1 1" */
        if (*p == '[' || *p == ',')
            bl_text_puts(out, p[1] == ']' ? "" : " ");
        else if (strncmp(p, "true", 4) == 0 || strncmp(p, "false", 5) == 0)
            bl_text_puts(out, *p == 't' ? "1" : "0"), p += *p == 't' ? 3 : 4;
        else if (*p != ']' && *p != '"')
            bl_text_putc(out, *p);
    }
    bl_text_fini(&numbers);
}

static bl_status evaluate(bench *b, run *r)
{
    bl_front_options options = {.program = b->program, .max_bytes = 1u << 28};

    BL_TRY(bl_front_build(&r->request.graph, &options, &r->graph, &b->err));
    const bl_graph *g = r->graph;
    BL_TRY(fill(b, r));
    BL_TRY(bl_ir_verify(g->ir, r->nroots, r->roots, BL_STAGE_TENSOR, "front", 2, &b->err));
    BL_TRY(bl_interp_graph(g->ir, r->nroots, r->roots, (const void *const *)r->inputs, r->request.vars, r->values, &b->err));
    b->nodes = bl_reach(g->ir, r->nroots, r->roots, true).count;
    for (int i = 0; i < g->noutputs; i++)
        put_value(&b->text, g->outputs[i], r->values[i], r->request.vars);
    for (int i = 0; i < g->nhidden; i++) {
        keep(b, g->hidden[i].name, r->values[g->noutputs + i]);
        r->values[g->noutputs + i] = NULL;
    }
    return BL_OK;
}

static void free_run(run *r)
{
    for (int i = 0; i < r->nslots && r->inputs != NULL; i++)
        free(r->inputs[i]);
    for (int i = 0; i < r->nroots; i++)
        free(r->values[i]);
    free(r->inputs);
    free(r->values);
    free(r->roots);
    bl_graph_destroy(r->graph);
    bl_json_fini(&r->doc);
    bl_arena_destroy(r->arena);
}

bl_status bench_run(bench *b, const char *document)
{
    run r = {0};

    bl_text_clear(&b->text);
    b->err = (bl_err){0};
    bl_status st = decode(b, &r, document);
    if (st == BL_OK)
        st = evaluate(b, &r);
    free_run(&r);
    return st;
}

bl_status bench_build(const char *document, size_t max_bytes, long nth)
{
    bench b = {0};
    run r = {0};
    bl_front_options options = {.program = true, .max_bytes = max_bytes};

    if (decode(&b, &r, document) != BL_OK)
        fail_msg("%s: %s", document, b.err.text);
    bl_fault_arm(BL_FAULT_ALLOC, nth);
    bl_status st = bl_front_build(&r.request.graph, &options, &r.graph, &b.err);
    bl_fault_arm(BL_FAULT_ALLOC, 0);
    if (st != BL_OK && st != BL_ELIMIT && st != BL_ENOMEM)
        fail_msg("%s in %zu bytes, allocation %ld: %s \"%s\"", document, max_bytes, nth, bl_status_name(st), b.err.text);
    assert_true((st == BL_OK) == (r.graph != NULL));
    free_run(&r);
    return st;
}

void bench_fini(bench *b)
{
    for (int k = 0; k < b->nkept; k++)
        free(b->kept[k].data);
    bl_text_fini(&b->text);
}

/* The end of the word that starts at |p|. */
static const char *word_end(const char *p)
{
    while (*p != '\0' && *p != ' ' && *p != ';')
        p++;
    return p;
}

static bool same_word(const char *a, size_t na, const char *b, size_t nb, double tolerance)
{
    char *end;

    if (na == nb && memcmp(a, b, na) == 0)
        return true;
    double x = strtod(a, &end);
    if (end != a + na || na == 0)
        return false;
    double y = strtod(b, &end);
    if (x == 0 && y == 0 && signbit(x) != signbit(y))
        return false;
    return end == b + nb && fabs(x - y) <= tolerance * (1 + fabs(y));
}

bool bench_same(const char *got, const char *want, double tolerance)
{
    while (*got != '\0' && *want != '\0') {
        const char *got_end = word_end(got);
        const char *want_end = word_end(want);
        if (!same_word(got, (size_t)(got_end - got), want, (size_t)(want_end - want), tolerance) || *got_end != *want_end)
            return false;
        got = got_end + (*got_end != '\0');
        want = want_end + (*want_end != '\0');
    }
    return *got == *want;
}

double bench_number(const char *text, int i)
{
    const char *p = strchr(text, ']');

    for (p = p == NULL ? NULL : strchr(p, ' '); p != NULL && i > 0; i--)
        p = strchr(p + 1, ' ');
    return p == NULL ? NAN : strtod(p, NULL);
}
