/* SPDX-License-Identifier: MIT */
/* Data of the decoder tests: documents of docs/api.md, and callbacks of a server with one retained tensor and one creation
 * op. */
#ifndef BL_TESTS_PROTO_DOCUMENTS_H
#define BL_TESTS_PROTO_DOCUMENTS_H

#include "proto/decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline bl_status resolve(void *ctx, const char *lease, const char *name, bl_wire_type *type, bl_err *err)
{
    (void)ctx;
    if (strcmp(name, "held") == 0 || (lease != NULL && strcmp(name, "leased") == 0)) {
        *type = (bl_wire_type){.dtype = BL_F16, .ndim = 2, .dim = {{2, -1}, {3, -1}}};
        return BL_OK;
    }
    return bl_fail(err, BL_ENOTFOUND, "no tensor is named \"%s\"", name);
}

static inline bl_status infer(void *ctx, const bl_wire_graph *graph, bl_wire_type *type, bl_err *err)
{
    const bl_wire_node *node = &graph->nodes[0];

    (void)ctx;
    if (strcmp(node->op, "zeros") != 0)
        return bl_fail(err, BL_EGRAPH, "%s: no such op", node->op);
    *type = (bl_wire_type){.dtype = BL_F32, .ndim = node->attrs[0].nitems};
    for (int i = 0; i < node->attrs[0].nitems; i++)
        type->dim[i] = (bl_wire_dim){(int64_t)node->attrs[0].item[i].number.magnitude, -1};
    return BL_OK;
}

static inline bl_decode_env make_env(bl_arena *arena)
{
    return (bl_decode_env){.arena = arena,
                           .limits = {.max_nodes = 2000, .max_inputs = 500, .max_dims = 16, .max_tensor_bytes = 1 << 20},
                           .resolve = resolve,
                           .infer = infer};
}

typedef enum document { RUN, PROGRAM } document;

typedef struct fixture {
    bl_arena *arena;
    bl_run_request run;
    bl_program_doc program;
    bl_err err;
} fixture;

/* Decodes a copy of |text| and frees the JSON tree before the return, as callers may. */
static inline bl_status decode(fixture *f, document kind, const char *text, size_t len)
{
    bl_json_doc doc;
    bl_status st;

    *f = (fixture){.arena = bl_arena_create(64 << 20)};
    bl_decode_env env = make_env(f->arena);
    st = bl_json_parse(&doc, f->arena, (bl_span){text, len}, NULL, &f->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        if (kind == RUN)
            st = bl_decode_run(&env, &root, &f->run, &f->err);
        else
            st = bl_decode_program(&env, &root, &f->program, &f->err);
    }
    bl_json_fini(&doc);
    return st;
}

static inline void decode_good(fixture *f, document kind, const char *text)
{
    if (decode(f, kind, text, strlen(text)) != BL_OK)
        fail_msg("%s\n%s", text, f->err.text);
}

static const char example_run[] = "{\n"
                                  "  \"inputs\":  {\"x\": [[1, 2, 3], [4, 5, 6]]},\n"
                                  "  \"nodes\":   [{\"id\": \"y\", \"op\": \"mul\", \"in\": [\"x\", 2]},\n"
                                  "              {\"id\": \"s\", \"op\": \"sum\", \"in\": [\"y\"], \"attrs\": {\"axis\": 1}}],\n"
                                  "  \"outputs\": [\"s\"]}";

static const char example_grad[] = "{\n"
                                   "  \"inputs\":  {\"a\": [1, 2, 3], \"b\": [4, 5, 6]},\n"
                                   "  \"nodes\":   [{\"id\": \"ab\", \"op\": \"mul\", \"in\": [\"a\", \"b\"]},\n"
                                   "              {\"id\": \"c\",  \"op\": \"add\", \"in\": [\"ab\", \"a\"]},\n"
                                   "              {\"id\": \"d\",  \"op\": \"sum\", \"in\": [\"c\"]},\n"
                                   "              {\"id\": [\"da\", \"db\"], \"op\": \"grad\", \"in\": [\"d\", \"a\", \"b\"]}],\n"
                                   "  \"outputs\": [\"c\", \"da\", \"db\"]}";

static const char example_program[] =
    "{\n"
    "  \"inputs\":  {\"x\": {\"dtype\": \"float32\", \"shape\": [4]}, \"t\": {\"dtype\": \"float32\", \"shape\": [4]}},\n"
    "  \"state\":   {\"w\": [0], \"b\": [0]},\n"
    "  \"nodes\":   [{\"id\": \"wx\", \"op\": \"mul\", \"in\": [\"x\", \"w\"]},\n"
    "              {\"id\": \"p\",  \"op\": \"add\", \"in\": [\"wx\", \"b\"]},\n"
    "              {\"id\": \"e\",  \"op\": \"sub\", \"in\": [\"p\", \"t\"]},\n"
    "              {\"id\": \"e2\", \"op\": \"mul\", \"in\": [\"e\", \"e\"]},\n"
    "              {\"id\": \"loss\", \"op\": \"mean\", \"in\": [\"e2\"]},\n"
    "              {\"id\": [\"w1\", \"b1\"], \"op\": \"sgd\", \"in\": [\"loss\", \"w\", \"b\"], \"attrs\": {\"lr\": 0.1}}],\n"
    "  \"updates\": {\"w\": \"w1\", \"b\": \"b1\"},\n"
    "  \"outputs\": [\"loss\"]}";

#endif
