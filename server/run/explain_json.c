/* SPDX-License-Identifier: MIT */
/* Explanation of a plan as JSON: the nodes of the graph, the kernels that compute them, and the times of the kernels.  The
 * answer of GET /api/v1/programs/NAME/plan, and the member plan_detail of a run with "explain": true. */
#include "server/run/explain_json.h"

#include "proto/encode.h"
#include "server/access/access.h"
#include "server/http/handlers.h"
#include "server/programs/variants.h"
#include "server/store/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 1000, SOURCE_LEVEL = 4, NEST_LEVEL = 5 /* the levels of "debug" that show the same texts */ };

/* ---- nodes */

static void explain_json_put_ref(bl_text *out, const bl_wire_graph *wire, const bl_wire_ref *ref)
{
    switch (ref->kind) {
    case BL_REF_INPUT:
        bl_encode_string(out, wire->inputs[ref->index].name);
        return;
    case BL_REF_STATE:
        bl_encode_string(out, wire->states[ref->index].name);
        return;
    case BL_REF_NODE:
        bl_encode_string(out, wire->nodes[ref->index].ids[ref->result]);
        return;
    case BL_REF_LITERAL:
        bl_encode_number(out, ref->literal.value);
        return;
    }
}

/* Write the id of the node as a string, or a list of ids if the node has several results. */
static void explain_json_put_ids(bl_text *out, const bl_wire_node *node)
{
    bl_encode_key(out, "id");
    if (node->nids == 1) {
        bl_encode_string(out, node->ids[0]);
        return;
    }
    bl_text_puts(out, "[");
    for (int i = 0; i < node->nids; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_string(out, node->ids[i]);
    }
    bl_text_puts(out, "]");
}

static void explain_json_put_shape(bl_text *out, const bl_plan_detail_value *value)
{
    bl_encode_key(out, "shape");
    bl_text_puts(out, "[");
    for (int d = 0; d < value->ndim; d++) {
        bl_text_puts(out, d > 0 ? "," : "");
        if (strspn(value->dim[d], "0123456789") == strlen(value->dim[d]))
            bl_text_puts(out, value->dim[d]);
        else
            bl_encode_string(out, value->dim[d]);
    }
    bl_text_puts(out, "]");
}

static bool has_node(const bl_plan_detail_kernel *kernel, int node)
{
    int low = 0, high = kernel->nnodes;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (kernel->nodes[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low < kernel->nnodes && kernel->nodes[low] == node;
}

static void explain_json_put_node(bl_text *out, const bl_explained *x, int at)
{
    const bl_wire_node *node = &x->wire->nodes[at];
    bl_text_puts(out, at > 0 ? ",{" : "{");
    explain_json_put_ids(out, node);
    bl_encode_key(out, "op");
    bl_encode_string(out, node->op);
    bl_encode_key(out, "dtype");
    bl_encode_string(out, bl_dtype_name(x->detail.values[at].dtype));
    explain_json_put_shape(out, &x->detail.values[at]);
    bl_encode_key(out, "in");
    bl_text_puts(out, "[");
    for (int i = 0; i < node->nrefs; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        explain_json_put_ref(out, x->wire, &node->refs[i]);
    }
    bl_text_puts(out, "]");
    bl_encode_key(out, "kernels");
    bl_text_puts(out, "[");
    for (int k = 0; k < x->detail.nkernels && k < MOST_KERNELS; k++)
        if (has_node(&x->detail.kernels[k], at))
            bl_text_printf(out, "%s%d", bl_text_last(out) == '[' ? "" : ",", k);
    bl_text_puts(out, "]}");
}

/* ---- kernels */

static void put_measured(bl_text *out, const char *name, bool known, double value)
{
    if (known) {
        bl_encode_measured(out, name, value);
        return;
    }
    bl_encode_key(out, name);
    bl_text_puts(out, "null");
}

/* Write the work of a launch.  The time is included if steps of the plan were timed. */
static void explain_json_put_use(bl_text *out, const bl_kernel_use *use, const bl_peaks *peaks)
{
    bool timed = use->launches > 0 && use->seconds > 0;
    double each = timed ? use->seconds / use->launches : 0;
    bl_standing standing = bl_peaks_judge(peaks, each, (int64_t)use->timed_ops, (int64_t)use->timed_bytes);
    bool judged = timed && standing.ceiling != BL_CEILING_UNKNOWN;
    put_measured(out, "us", timed, each * 1e6);
    bl_encode_key(out, "launches");
    bl_encode_u64(out, (uint64_t)use->launches);
    bl_encode_key(out, "flops");
    bl_encode_u64(out, (uint64_t)use->ops);
    bl_encode_key(out, "bytes");
    bl_encode_u64(out, (uint64_t)use->bytes);
    put_measured(out, "share_of_peak", judged, standing.share);
    bl_encode_key(out, "bound");
    if (judged)
        bl_encode_string(out, bl_ceiling_name(standing.ceiling));
    else
        bl_text_puts(out, "null");
}

/* Write "split(0, unroll, 8), split(1, vector, 4)" as a list. */
static void put_moves(bl_text *out, const char *moves)
{
    bl_encode_key(out, "moves");
    bl_text_puts(out, "[");
    for (const char *at = moves + strspn(moves, ", "); *at != '\0'; at += strspn(at, ", ")) {
        size_t len = strcspn(at, ")");
        len += at[len] == ')';
        bl_text_puts(out, bl_text_last(out) == '[' ? "" : ",");
        bl_encode_span(out, (bl_span){at, len});
        at += len;
    }
    bl_text_puts(out, "]");
}

static void explain_json_put_text(bl_text *out, const char *name, const char *text, bool allowed)
{
    bl_encode_key(out, name);
    if (allowed)
        bl_encode_string(out, text);
    else
        bl_text_puts(out, "null");
}

static void put_kernel(bl_text *out, const bl_explained *x, int at, const bl_kernel_use *use)
{
    const bl_plan_detail_kernel *kernel = &x->detail.kernels[at];
    bl_text_puts(out, at > 0 ? ",{" : "{");
    bl_encode_key(out, "index");
    bl_text_printf(out, "%d", at);
    bl_encode_key(out, "name");
    bl_encode_string(out, kernel->name);
    bl_encode_key(out, "key");
    if (kernel->key != 0)
        bl_text_printf(out, "\"%016llx\"", (unsigned long long)kernel->key);
    else
        bl_text_puts(out, "null");
    bl_encode_key(out, "helper");
    bl_text_puts(out, kernel->helper ? "true" : "false");
    explain_json_put_use(out, use, bl_worker_peaks(x->worker));
    put_moves(out, kernel->moves);
    explain_json_put_text(out, "nest", kernel->nest, x->level >= NEST_LEVEL);
    explain_json_put_text(out, "source", kernel->source, x->level >= SOURCE_LEVEL);
    bl_encode_key(out, "nodes");
    bl_text_puts(out, "[");
    for (int i = 0; i < kernel->nnodes; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_string(out, x->wire->nodes[kernel->nodes[i]].ids[0]);
    }
    bl_text_puts(out, "]}");
}

static void explain_json_put_kernels(bl_text *out, const bl_explained *x)
{
    static const bl_kernel_use none;
    bl_kernel_use *use = calloc(MOST_KERNELS, sizeof *use);
    int n = use != NULL ? bl_plan_list_kernels(x->plan, MOST_KERNELS, use) : 0, at = 0;
    bl_encode_key(out, "kernels");
    bl_text_puts(out, "[");
    for (int k = 0; k < x->detail.nkernels && k < MOST_KERNELS; k++) {
        while (at < n && use[at].number < k)
            at++;
        put_kernel(out, x, k, at < n && use[at].number == k ? &use[at] : &none);
    }
    bl_text_puts(out, "]");
    free(use);
}

/* ---- the whole document */

void bl_explain_put(bl_text *out, const bl_explained *x)
{
    const bl_plan_detail *detail = &x->detail;
    bl_plan_service service = bl_plan_get_service(x->plan);
    bl_text_puts(out, "{");
    bl_encode_key(out, "entry");
    bl_encode_string(out, x->entry);
    bl_encode_key(out, "device");
    bl_encode_string(out, bl_plan_get_info(x->plan)->device);
    put_measured(out, "step_us", service.samples > 0, service.step_seconds * 1e6);
    bl_encode_key(out, "steps_timed");
    bl_encode_u64(out, service.samples);
    bl_encode_key(out, "nodes");
    bl_text_puts(out, "[");
    for (int i = 0; i < x->wire->nnodes; i++)
        explain_json_put_node(out, x, i);
    bl_text_puts(out, "]");
    explain_json_put_kernels(out, x);
    bl_encode_key(out, "buffers");
    bl_text_puts(out, "[");
    for (int i = 0; i < detail->nbuffers; i++)
        bl_text_printf(out, "%s{\"bytes\":%zu,\"first\":%d,\"last\":%d}", i > 0 ? "," : "", detail->buffers[i].bytes,
                       detail->buffers[i].first, detail->buffers[i].last);
    bl_text_puts(out, "]");
    bl_encode_key(out, "truncated");
    bl_text_puts(out, detail->truncated || detail->nkernels > MOST_KERNELS ? "true" : "false");
    bl_text_puts(out, "}");
}

bl_status bl_explain_make(bl_request *rq, bl_explained *x, bl_err *err)
{
    bl_halt halt = bl_request_halt(rq);
    x->level = bl_access_debug_level(rq);
    return bl_plan_explain(x->plan, x->wire, &halt, rq->arena, &x->detail, err);
}

/* ---- plan of a program's entry */

static bl_step explain_entry(bl_request *rq)
{
    rq->err.status = bl_explain_make(rq, rq->data, &rq->err);
    return BL_STEP_DONE;
}

static bl_status reply_entry(bl_request *rq)
{
    bl_explain_put(&rq->reply.out, rq->data);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

static void release_plan(void *plan)
{
    bl_plan_release(plan);
}

/* Find the entry |name|.  Without a name: the only entry, or "main". */
static bl_status explain_json_find_entry(bl_request *rq, const bl_program *program, int *out)
{
    const char *name = bl_request_query(rq, "entry");
    const bl_program_doc *doc = &program->doc;
    *out = 0;
    if (name == NULL && doc->nentries == 1)
        return BL_OK;
    for (int i = 0; i < doc->nentries; i++)
        if (strcmp(doc->entries[i].name, name != NULL ? name : "main") == 0) {
            *out = i;
            return BL_OK;
        }
    return name != NULL
               ? bl_fail(&rq->err, BL_ENOTFOUND, "program \"%s\" has no entry \"%.64s\"", rq->head.param[0], name)
               : bl_fail(&rq->err, BL_EINVAL, "program \"%s\" has several entries; name one with ?entry=", rq->head.param[0]);
}

bl_status bl_handle_program_plan(bl_request *rq)
{
    bl_program *program = NULL;
    bl_explained *x = bl_arena_alloc(rq->arena, sizeof *x);
    int at = 0;
    if (x == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_program_find(rq, true, &program));
    BL_TRY(bl_program_check(program, &rq->err));
    BL_TRY(explain_json_find_entry(rq, program, &at));
    if (program->entries[at].plan == NULL)
        return bl_fail(&rq->err, BL_ECONFLICT,
                       "entry \"%s\" is compiled in its runs, for the values of some inputs, so it has no single plan",
                       program->doc.entries[at].name);
    *x = (bl_explained){.wire = &program->doc.entries[at].graph,
                        .entry = program->doc.entries[at].name,
                        .worker = program->worker,
                        .plan = bl_plan_current(program->entries[at].plan)};
    BL_TRY(bl_request_defer(rq, release_plan, x->plan));
    rq->data = x;
    rq->then = reply_entry;
    return bl_request_submit(rq, rq->server->compiler, explain_entry, NULL);
}
