/* SPDX-License-Identifier: MIT */
#include "server/models/model_infer.h"

#include "engine/base/clock.h"
#include "engine/base/size.h"
#include "proto/encode.h"
#include "server/access/access.h"
#include "server/http/handlers.h"
#include "server/http/offload.h"
#include "server/models/answers.h"
#include "server/models/sequences.h"
#include "server/models/text_input.h"
#include "server/programs/variants.h"

#include <stdio.h>
#include <string.h>

/* ---- conversion of inputs */

static bl_status fails_shape(const bl_infer *in, const bl_model_tensor *tensor, const bl_tensor_value *value)
{
    bl_text want = {0}, got = {0};
    bl_status st = BL_OK;
    bl_shape_print(&want, bl_model_tensor_rank(tensor), tensor->dim);
    bl_shape_print(&got, value->ndim, value->dim);
    st = bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" of model \"%s\" has the shape %s; the model takes %s", tensor->name,
                 in->version->name, bl_text_get(&got), bl_text_get(&want));
    bl_text_fini(&want);
    bl_text_fini(&got);
    return st;
}

static bl_status fails_size(const bl_infer *in, const bl_model_tensor *tensor, int var, int64_t size)
{
    bool batch = var == in->version->batcher.var && in->version->batcher.max_rows > 0;
    bl_wire_var range = in->version->instances[0].slot.graph->vars[var];
    bl_text sizes = {0};
    bl_status st = BL_OK;
    if (batch && in->version->batcher.max_rows < range.hi)
        range.hi = in->version->batcher.max_rows;
    bl_wire_var_print(&sizes, &range);
    st = bl_fail(&in->rq->err, BL_EINVAL,
                 "input \"%s\": %s is %lld; model \"%s\" takes %s; \"%s\" in its config.json sets the sizes", tensor->name,
                 range.name, (long long)size, in->version->name, bl_text_get(&sizes), batch ? "max_batch_size" : "dims");
    bl_text_fini(&sizes);
    return st;
}

bl_status bl_infer_bind_var(const bl_infer *in, const bl_model_tensor *tensor, int var, int64_t size)
{
    const bl_wire_var *range = &in->version->instances[0].slot.graph->vars[var];
    bool batch = var == in->version->batcher.var && in->version->batcher.max_rows > 0;
    if (!bl_wire_var_has(range, size) || (batch && size > in->version->batcher.max_rows))
        return fails_size(in, tensor, var, size);
    if (in->item.vars[var] >= 0 && in->item.vars[var] != size)
        return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\": %s is %lld here and %lld in another input", tensor->name,
                       range->name, (long long)size, (long long)in->item.vars[var]);
    in->item.vars[var] = size;
    return BL_OK;
}

/* Copy strings into rows of bytes, padded with zeros. */
static bl_status model_infer_take_texts(const bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input,
                                        bl_tensor_value *value)
{
    size_t width = (size_t)tensor->dim[tensor->ndim - 1], bytes = 0;
    char *data = NULL;
    value->dtype = BL_U8;
    value->ndim = tensor->ndim;
    value->dim[tensor->ndim - 1] = (int64_t)width;
    BL_TRY(bl_tensor_measure(tensor->name, BL_U8, value->ndim, value->dim, &in->rq->server->limits, &value->count, &bytes,
                             &in->rq->err));
    data = bl_request_alloc(in->rq, bytes, "texts");
    if (data == NULL)
        return in->rq->err.status;
    for (size_t i = 0; i < input->value.count; i++) {
        const bl_span *item = &input->items[i];
        if (item->len > width)
            return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\": element %zu has %zu bytes; the model takes %zu", tensor->name,
                           i, item->len, width);
        memcpy(data + i * width, item->data, item->len);
        memset(data + i * width + item->len, 0, width - item->len);
    }
    value->kind = BL_VALUE_BYTES;
    value->span = (bl_span){data, bytes};
    value->bytes = bytes;
    return BL_OK;
}

static bl_status model_infer_bind_input(bl_infer *in, const bl_infer_input *input, int at)
{
    const bl_model_tensor *tensor = &in->version->inputs[at];
    bl_tensor_value *value = &in->item.values[at];
    bool text = tensor->datatype == BL_INFER_BYTES && tensor->coding == BL_MODEL_PLAIN;
    int ndim = bl_model_tensor_rank(tensor);
    if (value->label != NULL)
        return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" is given twice", tensor->name);
    if (tensor->coding == BL_MODEL_PICTURE)
        return bl_infer_take_picture(in, tensor, input, value);
    if (input->datatype != tensor->datatype)
        return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" of model \"%s\" has the datatype %s, not %s", tensor->name,
                       in->version->name, bl_infer_datatype(tensor->datatype), bl_infer_datatype(input->datatype));
    *value = input->value;
    if (text && value->ndim == ndim + 1 && value->dim[ndim] == 1)
        value->ndim--; /* [n, 1]: Triton has one string for each row of a batch */
    if (value->ndim != ndim)
        return fails_shape(in, tensor, &input->value);
    for (int d = 0; d < ndim; d++) {
        if (tensor->var[d] >= 0)
            BL_TRY(bl_infer_bind_var(in, tensor, tensor->var[d], value->dim[d]));
        else if (tensor->dim[d] != value->dim[d])
            return fails_shape(in, tensor, &input->value);
    }
    if (tensor->coding == BL_MODEL_STRINGS)
        return bl_infer_take_strings(in, tensor, input, value);
    return text ? model_infer_take_texts(in, tensor, input, value) : BL_OK;
}

/* Find the input of that name.  |guess|: most clients send the inputs in the order of the model. */
static int model_infer_find_input(const bl_model_version *version, const char *name, int guess)
{
    if (guess < version->batcher.ninputs && strcmp(version->inputs[guess].name, name) == 0)
        return guess;
    for (int i = 0; i < version->batcher.ninputs; i++)
        if (strcmp(version->inputs[i].name, name) == 0)
            return i;
    return -1;
}

/* The body is one tensor.  Its shape follows from its size if at most one dimension varies. */
static bl_status take_raw(bl_infer *in)
{
    const bl_model_version *version = in->version;
    const bl_model_tensor *tensor = &version->shown[0];
    bl_infer_input *input = bl_arena_alloc(in->rq->arena, sizeof *input);
    size_t known = 1;
    int varies = -1;
    if (input == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    if (version->nshown != 1)
        return bl_fail(&in->rq->err, BL_EINVAL, "a body without a JSON header needs a model of one input; \"%s\" has %d",
                       version->name, version->nshown);
    *input = (bl_infer_input){.name = tensor->name, .datatype = tensor->datatype};
    input->value =
        (bl_tensor_value){.kind = BL_VALUE_BYTES, .label = tensor->name, .dtype = tensor->dtype, .span = in->wire.tail};
    input->value.ndim = bl_model_tensor_rank(tensor);
    for (int d = 0; d < input->value.ndim; d++) {
        bool batch = d == 0 && version->batcher.max_rows > 0;
        input->value.dim[d] = batch ? 1 : tensor->dim[d];
        if (input->value.dim[d] < 0 && varies >= 0)
            return bl_fail(&in->rq->err, BL_EINVAL,
                           "input \"%s\" has several dimensions that vary; a body without a JSON header cannot give their sizes",
                           tensor->name);
        if (input->value.dim[d] < 0)
            varies = d;
        else if (!bl_size_mul(known, (size_t)input->value.dim[d], &known))
            known = SIZE_MAX;
    }
    if (tensor->datatype == BL_INFER_BYTES) {
        bl_span *item = bl_arena_alloc(in->rq->arena, sizeof *item);
        if (item == NULL)
            return bl_arena_status(in->rq->arena, &in->rq->err);
        *item = in->wire.tail;
        input->items = item;
        if (varies >= 0)
            input->value.dim[varies] = 1;
        input->value.count = 1;
        if (known != 1)
            return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" takes %zu texts; a body without a JSON header has one",
                           tensor->name, known);
    } else {
        size_t each = 0, elements = 0;
        bool fits = bl_size_mul(known, bl_dtype_bytes(tensor->dtype), &each);
        elements = fits && each > 0 ? in->wire.tail.len / each : 0;
        if (varies >= 0)
            input->value.dim[varies] = (int64_t)elements;
        BL_TRY(bl_tensor_measure(tensor->name, tensor->dtype, input->value.ndim, input->value.dim, &in->rq->server->limits,
                                 &input->value.count, &input->value.bytes, &in->rq->err));
        if (input->value.bytes != in->wire.tail.len)
            return bl_fail(&in->rq->err, BL_EINVAL, "the body has %zu bytes, which no shape of input \"%s\" takes",
                           in->wire.tail.len, tensor->name);
    }
    in->wire.inputs = input;
    in->wire.ninputs = 1;
    return BL_OK;
}

static bl_status bind_inputs(bl_infer *in)
{
    const bl_model_version *version = in->version;
    in->item.values = bl_arena_array(in->rq->arena, (size_t)version->batcher.ninputs + 1, sizeof *in->item.values);
    in->item.vars = bl_arena_array(in->rq->arena, (size_t)version->batcher.nvars + 1, sizeof *in->item.vars);
    if (in->item.values == NULL || in->item.vars == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    for (int i = 0; i < version->batcher.nvars; i++)
        in->item.vars[i] = -1;
    for (int i = 0; i < in->wire.ninputs; i++) {
        int at = model_infer_find_input(version, in->wire.inputs[i].name, i);
        if (at < 0)
            return bl_fail(&in->rq->err, BL_EINVAL, "model \"%s\" has no input \"%.140s\"", version->name,
                           in->wire.inputs[i].name);
        BL_TRY(model_infer_bind_input(in, &in->wire.inputs[i], at));
    }
    for (int i = 0; i < version->batcher.ninputs; i++)
        if (in->item.values[i].label == NULL)
            return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" of model \"%s\" is missing", version->inputs[i].name,
                           version->name);
    for (int i = 0; i < version->batcher.nvars; i++)
        if (in->item.vars[i] < 0)
            /* no input has the dimension, so it gets its lower bound */
            in->item.vars[i] = version->instances[0].slot.graph->vars[i].lo;
    in->item.rows = version->batcher.var >= 0 ? in->item.vars[version->batcher.var] : 0;
    return BL_OK;
}

static bl_status choose_outputs(bl_infer *in)
{
    const bl_model_version *version = in->version;
    int n = in->wire.all ? version->noutputs : in->wire.noutputs;
    bool *taken = bl_arena_array(in->rq->arena, (size_t)version->noutputs + 1, sizeof *taken);
    if (n > version->noutputs)
        return bl_fail(&in->rq->err, BL_EINVAL, "%d outputs are asked for; model \"%s\" has %d", n, version->name,
                       version->noutputs);
    in->asked = bl_arena_array(in->rq->arena, (size_t)n + 1, sizeof *in->asked);
    in->wants = bl_arena_array(in->rq->arena, (size_t)n + 1, sizeof *in->wants);
    if (taken == NULL || in->asked == NULL || in->wants == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    for (int i = 0; i < n; i++) {
        int at = in->wire.all ? i : 0;
        in->wants[i] = in->wire.all ? (bl_infer_output){version->outputs[i].name, in->wire.binary, 0} : in->wire.outputs[i];
        while (at < version->noutputs && strcmp(version->outputs[at].name, in->wants[i].name) != 0)
            at++;
        if (at == version->noutputs)
            return bl_fail(&in->rq->err, BL_EINVAL, "model \"%s\" has no output \"%.140s\"", version->name, in->wants[i].name);
        if (taken[at])
            return bl_fail(&in->rq->err, BL_EINVAL, "output \"%s\" is asked for twice", in->wants[i].name);
        taken[at] = true;
        in->asked[i] = at;
    }
    in->nasked = n;
    return BL_OK;
}

/* ---- the answer */

static bl_status split_texts(const bl_infer *in, const char *data, bl_infer_result *out)
{
    size_t width = (size_t)out->dim[out->ndim - 1];
    bl_span *items = NULL;
    out->count = width > 0 ? out->count / width : 0;
    out->ndim--;
    if (out->ndim == 0 || (out->ndim == 1 && in->version->batcher.max_rows > 0))
        out->dim[out->ndim++] = 1; /* one string for each row of a batch is [n, 1] */
    items = bl_arena_array(in->rq->arena, out->count + 1, sizeof *items);
    if (items == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    for (size_t i = 0; i < out->count; i++)
        items[i] = (bl_span){data + i * width, strnlen(data + i * width, width)};
    out->items = items;
    return BL_OK;
}

static bl_status model_infer_fill_result(const bl_infer *in, int i, bl_infer_result *out)
{
    int at = in->asked[i];
    const bl_model_tensor *tensor = &in->version->outputs[at];
    const bl_part *part = &in->item.got[at];
    *out = (bl_infer_result){.name = tensor->name,
                             .datatype = tensor->datatype,
                             .ndim = part->ndim,
                             .count = part->count,
                             .data = part->data,
                             .binary = in->wants[i].binary,
                             .nonfinite = in->wire.nonfinite};
    memcpy(out->dim, part->dim, sizeof out->dim);
    if (in->wants[i].classes > 0)
        return bl_infer_classify(in, tensor, part, in->wants[i].classes, out);
    if (tensor->coding == BL_MODEL_STRINGS)
        return bl_infer_give_strings(in, out);
    return tensor->datatype == BL_INFER_BYTES ? split_texts(in, part->data, out) : BL_OK;
}

static bl_status check_lists(const bl_infer *in, const bl_infer_result *results)
{
    size_t listed = 0;
    for (int i = 0; i < in->nasked; i++)
        listed += results[i].binary ? 0 : results[i].count;
    if (listed <= in->rq->server->settings.max_list)
        return BL_OK;
    return bl_fail(&in->rq->err, BL_ELIMIT,
                   "the answer has %zu elements; a JSON answer has at most %llu (--max-list): ask for binary_data", listed,
                   (unsigned long long)in->rq->server->settings.max_list);
}

static void put_envelope(const bl_infer *in, const bl_infer_result *results, bl_text *out)
{
    bl_text_puts(out, "{\"model_name\":");
    bl_encode_string(out, in->version->name);
    bl_text_printf(out, ",\"model_version\":\"%llu\"", (unsigned long long)in->version->number);
    if (in->wire.id != NULL) {
        bl_text_puts(out, ",\"id\":");
        bl_encode_string(out, in->wire.id);
    }
    bl_text_puts(out, ",\"outputs\":[");
    for (int i = 0; i < in->nasked; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_infer_put_result(out, &results[i]);
    }
    bl_text_puts(out, "]}");
}

/* Send the binary tensors behind the JSON document without a copy. */
static bl_status model_infer_add_pieces(const bl_infer *in, const bl_infer_result *results)
{
    bl_request *rq = in->rq;
    rq->reply.pieces = bl_arena_array(rq->arena, (size_t)in->nasked + 1, sizeof *rq->reply.pieces);
    if (rq->reply.pieces == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (int i = 0; i < in->nasked; i++) {
        const bl_infer_result *result = &results[i];
        size_t bytes = result->binary ? bl_infer_result_bytes(result) : 0;
        bl_text joined = {0};
        char *data = NULL;
        if (bytes == 0)
            continue;
        if (result->datatype != BL_INFER_BYTES) {
            rq->reply.pieces[rq->reply.npieces++] = (bl_piece){result->data, bytes};
            continue;
        }
        data = bl_request_alloc(rq, bytes, "texts");
        if (data == NULL)
            return rq->err.status;
        bl_infer_join(&joined, result);
        if (!joined.failed)
            memcpy(data, joined.data, bytes);
        bl_text_fini(&joined);
        if (joined.failed)
            return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for texts");
        rq->reply.pieces[rq->reply.npieces++] = (bl_piece){data, bytes};
    }
    return BL_OK;
}

/* The JSON document of the protocol, and the binary tensors behind it. */
static bl_status write_answer(bl_infer *in, const bl_infer_result *results)
{
    bl_request *rq = in->rq;
    bool binary = false;
    for (int i = 0; i < in->nasked; i++)
        binary |= results[i].binary;
    put_envelope(in, results, &rq->reply.out);
    if (binary) {
        rq->reply.envelope = rq->reply.out.len;
        BL_TRY(model_infer_add_pieces(in, results));
    }
    bl_request_reply(rq, 200, binary ? "application/octet-stream" : "application/json");
    return BL_OK;
}

static bl_status model_infer_reply(bl_infer *in)
{
    bl_request *rq = in->rq;
    bl_infer_result *results = bl_arena_array(rq->arena, (size_t)in->nasked + 1, sizeof *results);
    if (results == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (int i = 0; i < in->nasked; i++)
        BL_TRY(model_infer_fill_result(in, i, &results[i]));
    BL_TRY(check_lists(in, results));
    return in->write(in, results);
}

static void count_reply(bl_infer *in, int64_t end_ns)
{
    bl_model_statistics *s = &in->version->statistics;
    if (in->state == BL_INFER_ANSWERED)
        bl_statistics_add(s, BL_STAT_SUCCESS, end_ns - in->rq->start_ns);
    bl_statistics_add(s, BL_STAT_QUEUE, in->item.queue_ns);
    if (in->source == BL_INFER_CACHED) /* nothing was computed */
        return;
    bl_statistics_add(s, BL_STAT_INPUT, in->item.input_ns);
    bl_statistics_add(s, BL_STAT_INFER, in->item.compute_ns);
    bl_statistics_add(s, BL_STAT_OUTPUT, in->output_ns);
    if (in->source == BL_INFER_ALONE)
        bl_statistics_run(s, in->item.rows > 0 ? in->item.rows : 1, in->item.input_ns, in->item.compute_ns, in->output_ns);
}

/* Begin the next run of a request with several runs; release what the previous run had. */
static bl_status model_infer_go_on(bl_infer *in)
{
    bl_batch_leave(in->item.batch);
    in->item.batch = NULL;
    if (in->instance != NULL)
        atomic_fetch_sub(&in->instance->slot.busy, 1);
    in->instance = NULL;
    in->variant = NULL;
    in->item.source = NULL;
    in->state = BL_INFER_OPEN;
    in->source = BL_INFER_SHARED;
    in->item.queue_ns = in->item.compute_ns = 0;
    in->item.begin_ns = bl_clock_ns();
    return bl_infer_go_filled(in);
}

bl_status bl_infer_reply(bl_request *rq)
{
    bl_infer *in = rq->data;
    int64_t start = bl_clock_ns(), end = 0;
    BL_TRY(model_infer_reply(in));
    end = bl_clock_ns();
    if (in->state != BL_INFER_MORE)
        in->state = BL_INFER_ANSWERED;
    if (in->version->answers != NULL && in->source != BL_INFER_CACHED)
        bl_answers_keep(in->version->answers, in);
    in->output_ns = end - start;
    count_reply(in, end);
    return in->state == BL_INFER_MORE ? model_infer_go_on(in) : BL_OK;
}

void bl_infer_weigh(bl_infer *in)
{
    for (int i = 0; i < in->nasked; i++)
        in->rq->reply.listed += in->wants[i].binary ? 0 : in->item.got[in->asked[i]].count;
}

static bl_status reply_alone(bl_request *rq)
{
    const bl_exec *x = rq->data;
    bl_infer *in = x->extra;
    rq->data = in;
    in->item.queue_ns = rq->trace.time_ns[BL_TIME_QUEUE];
    in->item.compute_ns = rq->trace.time_ns[BL_TIME_COMPUTE];
    bl_exec_take(x, 0, 0, 0, in->item.got);
    if (in->variant == NULL) /* the run of another variant can take another time */
        bl_instance_learn(in->version, in->instance, in->item.rows > 0 ? in->item.rows : 1, x->plan,
                          in->item.compute_ns + rq->trace.time_ns[BL_TIME_COPY]);
    bl_infer_weigh(in);
    in->source = BL_INFER_ALONE;
    rq->then = bl_infer_reply;
    return BL_OK;
}

/* ---- dispatch */

static bl_status check_lost(bl_request *rq, const bl_model_instance *instance)
{
    const bl_program *program = instance->slot.program;
    if (!bl_batch_slot_is_lost(&instance->slot))
        return BL_OK;
    return bl_fail(&rq->err, BL_EBUSY,
                   "model \"%s\" was lost when the device %s failed; the server loads a model of --models again, and an uploaded "
                   "model must be sent again",
                   program->name, program->worker->dev->info.id);
}

bl_status bl_infer_prepare(bl_request *rq, const bl_model_version *version, bl_model_instance *instance, int64_t *vars,
                           bl_exec **out)
{
    const bl_batch_slot *slot = &instance->slot;
    bl_plan *plan = NULL;
    BL_TRY(check_lost(rq, instance));
    plan = bl_exact_get(version, instance, vars);
    return bl_batch_exec(rq, slot->program, slot->entry, slot->graph, plan != NULL ? plan : bl_plan_current(slot->plan), vars,
                         out);
}

static bl_status prepare_variant(bl_infer *in, bl_exec **out)
{
    bl_program *program = in->variant->program;
    BL_TRY(check_lost(in->rq, in->instance));
    return bl_batch_exec(in->rq, program, &program->entries[0], &program->doc.entries[0].graph,
                         bl_plan_current(program->entries[0].plan), in->item.vars, out);
}

static bl_status run_alone(bl_infer *in);

/* The device was lost before the run: try another instance.  Each attempt has one usable instance less. */
static bool goes_elsewhere(bl_infer *in)
{
    bl_request *rq = in->rq;
    if (rq->err.status == BL_OK || atomic_load(&rq->cancel) || in->variant != NULL ||
        !bl_batch_slot_is_lost(&in->instance->slot) || bl_batcher_is_lost(&in->version->batcher))
        return false;
    rq->err = (bl_err){0};
    atomic_fetch_sub(&in->instance->slot.busy, 1);
    in->instance = bl_instance_choose(in->version);
    return run_alone(in) == BL_OK;
}

/* Returns the claimed slot before the answer is written, so that waiting items can use it. */
static bl_step work_alone(bl_request *rq)
{
    bl_exec *x = rq->data;
    bl_infer *in = x->extra;
    bl_step step = bl_exec_run(rq);
    if (step == BL_STEP_DONE && in->claimed) {
        in->claimed = false;
        bl_batch_unclaim(in->item.batcher, &in->instance->slot);
    }
    return step == BL_STEP_DONE && goes_elsewhere(in) ? BL_STEP_MOVED : step;
}

static bl_status run_alone(bl_infer *in)
{
    bl_request *rq = in->rq;
    bl_exec *x = NULL;
    bl_tensor_value *values = in->variant != NULL ? bl_variant_inputs(rq, in->variant, in->item.values) : in->item.values;
    if (values == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    atomic_fetch_add(&in->instance->slot.busy, 1);
    if (in->variant != NULL)
        BL_TRY(prepare_variant(in, &x));
    else
        BL_TRY(bl_infer_prepare(rq, in->version, in->instance, in->item.vars, &x));
    x->extra = in;
    BL_TRY(bl_exec_load(x, x->graph->ninputs, values, false));
    BL_TRY(bl_access_check_time(rq));
    in->item.input_ns = bl_clock_ns() - in->item.begin_ns;
    rq->then = reply_alone;
    bl_exec_choose_mode(rq, x->plan, BL_WORK_INLINE);
    return bl_request_submit(rq, x->worker->queue, work_alone, NULL);
}

/* Run alone; if the device was lost just now, run on another instance. */
static bl_status run_somewhere(bl_infer *in)
{
    if (run_alone(in) == BL_OK) /* the queue owns the request */
        return BL_OK;
    if (in->claimed) {
        in->claimed = false;
        bl_batch_unclaim(in->item.batcher, &in->instance->slot);
    }
    return goes_elsewhere(in) ? BL_OK : in->rq->err.status;
}

/* Queue the run after earlier requests of its sequence. */
static bl_status run_in_sequence(bl_infer *in)
{
    bl_request *rq = in->rq;
    bl_exec *x = NULL;
    BL_TRY(bl_sequence_get(in, &in->of));
    in->instance = bl_sequence_instance(in->of);
    atomic_fetch_add(&in->instance->slot.busy, 1);
    BL_TRY(bl_infer_prepare(rq, in->version, in->instance, in->item.vars, &x));
    x->extra = in;
    BL_TRY(bl_exec_load(x, in->version->batcher.ninputs, in->item.values, false));
    BL_TRY(bl_access_check_time(rq));
    in->item.input_ns = bl_clock_ns() - in->item.begin_ns;
    rq->then = reply_alone;
    return bl_request_submit(rq, x->worker->queue, bl_sequence_work, bl_sequence_serial(in->of));
}

static bl_status model_infer_run_variant(bl_request *rq, void *arg, const bl_variant *variant, bool made)
{
    bl_infer *in = arg;
    (void)rq;
    (void)made;
    in->variant = variant;
    return run_somewhere(in);
}

/* Answer from the response cache, if it has these inputs. */
static bl_status model_infer_answer_again(bl_infer *in, bool *found)
{
    int64_t start = bl_clock_ns();
    BL_TRY(bl_batch_read_sources(&in->item));
    *found = bl_answers_find(in->version->answers, in);
    bl_statistics_add(&in->version->statistics, *found ? BL_STAT_HIT : BL_STAT_MISS, bl_clock_ns() - start);
    if (!*found)
        return BL_OK;
    in->source = BL_INFER_CACHED;
    in->item.input_ns = bl_clock_ns() - in->item.begin_ns;
    in->rq->data = in;
    bl_infer_weigh(in);
    in->rq->then = bl_infer_reply;
    return BL_OK;
}

static bool model_infer_claim(bl_infer *in)
{
    bl_batch_slot *slot = NULL;
    bool claimed = bl_batch_claim(in->item.batcher, in->item.rows, &slot);
    in->instance = (bl_model_instance *)slot;
    return claimed;
}

/* Run alone if a slot is free or requests are not batched; otherwise join the batcher. */
static bl_status go(bl_infer *in)
{
    bool found = false;
    if (in->version->sequential)
        return run_in_sequence(in);
    if (in->version->instances[0].pages != NULL)
        return bl_fail(
            &in->rq->err, BL_EINVAL,
            "model \"%s\" keeps keys and values in pages of the server and only writes texts: use generate or generate_stream",
            in->version->name);
    if (in->wire.sequenced)
        return bl_fail(&in->rq->err, BL_EINVAL, "model \"%s\" has no state, so it takes no sequence_id", in->version->name);
    if (in->version->answers != NULL)
        BL_TRY(model_infer_answer_again(in, &found));
    if (found)
        return BL_OK;
    if (in->version->batcher.max_rows == 0) {
        in->instance = bl_instance_choose(in->version);
        if (in->instance->slot.program->variants == NULL)
            return run_somewhere(in);
        return bl_variant_get(in->rq, &(bl_variant_call){.program = in->instance->slot.program,
                                                         .values = in->item.values,
                                                         .sizes = in->item.vars,
                                                         .priority = (int)in->item.priority,
                                                         .ready = model_infer_run_variant,
                                                         .arg = in});
    }
    in->claimed = model_infer_claim(in);
    return in->claimed ? run_somewhere(in) : bl_batch_join(&in->item, bl_infer_reply);
}

void bl_infer_end(void *arg)
{
    bl_infer *in = arg;
    if (in->instance != NULL)
        atomic_fetch_sub(&in->instance->slot.busy, 1);
    if (in->claimed) /* the run never began */
        bl_batch_unclaim(in->item.batcher, &in->instance->slot);
    bl_batch_leave(in->item.batch);
    if (in->state != BL_INFER_ANSWERED)
        bl_statistics_add(&in->version->statistics, BL_STAT_FAIL, bl_clock_ns() - in->rq->start_ns);
}

bl_status bl_infer_choose_turn(bl_infer *in)
{
    const bl_model_config *config = &in->version->config;
    int64_t timeout_us = config->batching.timeout_us, asked = (int64_t)in->wire.timeout_us;
    if (asked > 0 && config->batching.may_override && (timeout_us == 0 || asked < timeout_us))
        timeout_us = asked;
    if (timeout_us > 0)
        in->rq->item.deadline_ns = in->rq->start_ns + timeout_us * 1000;
    if (config->batching.priority_levels > 0 && in->wire.priority > (uint64_t)config->batching.priority_levels)
        return bl_fail(&in->rq->err, BL_EINVAL, "priority: model \"%s\" has the levels 1 to %lld", in->version->name,
                       (long long)config->batching.priority_levels);
    if (config->batching.priority_levels > 0)
        in->item.priority = in->wire.priority > 0 ? (int64_t)in->wire.priority : config->batching.default_priority;
    in->rq->item.priority = (int)in->item.priority;
    in->rq->item.rank = BL_RANK_INFER;
    return bl_access_check_time(in->rq);
}

enum { WORDS_BYTES = 8 * 1024 }; /* a tokenizer splits so many bytes of text in about 3 ms */

/* Does the request decode a picture, or tokenize a long text?  Such requests are read on an offload thread. */
static bool model_infer_takes_long(const bl_request *rq, const bl_model_version *version)
{
    bool words = version->words != NULL || version->text != NULL;
    for (int i = 0; i < version->batcher.ninputs; i++)
        if (version->inputs[i].coding == BL_MODEL_PICTURE)
            return true;
    return words && rq->body.len > WORDS_BYTES;
}

bl_status bl_infer_create(bl_request *rq, bl_infer_write write, bl_infer **out)
{
    bl_infer *in = bl_arena_alloc(rq->arena, sizeof *in);
    *out = in;
    if (in == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    in->rq = in->item.rq = rq;
    in->write = write;
    in->item.begin_ns = bl_clock_ns();
    BL_TRY(bl_model_get(rq, &in->version));
    if (!bl_request_is_apart(rq) && model_infer_takes_long(rq, in->version)) {
        *out = NULL;
        return bl_offload_handler(rq);
    }
    in->item.batcher = &in->version->batcher;
    BL_TRY(bl_request_defer(rq, bl_infer_end, in));
    in->item.got = bl_arena_array(rq->arena, (size_t)in->version->noutputs + 1, sizeof *in->item.got);
    return in->item.got != NULL ? BL_OK : bl_arena_status(rq->arena, &rq->err);
}

bl_status bl_infer_go(bl_infer *in)
{
    if (in->version->words != NULL)
        BL_TRY(bl_text_input_take(in));
    return bl_infer_go_filled(in);
}

bl_status bl_infer_go_filled(bl_infer *in)
{
    BL_TRY(bind_inputs(in));
    BL_TRY(choose_outputs(in));
    BL_TRY(bl_infer_choose_turn(in));
    return go(in);
}

bl_status bl_handle_model_infer(bl_request *rq)
{
    const char *header = rq->head.infer_header;
    bl_infer *in = NULL;
    BL_TRY(bl_infer_create(rq, write_answer, &in));
    if (in == NULL)
        return BL_OK;
    if (rq->head.infer_headers > 1)
        return bl_fail(&rq->err, BL_EINVAL, "Inference-Header-the header Content-Length is given twice");
    if (rq->head.media == BL_MEDIA_PICTURE && header == NULL)
        header = "0";
    BL_TRY(bl_infer_decode(rq->arena, bl_request_body(rq), header, (int)rq->server->settings.max_depth, &rq->server->limits,
                           &in->wire, &rq->err));
    if (in->wire.raw)
        BL_TRY(take_raw(in));
    BL_TRY(bl_infer_choose_answer(in));
    return bl_infer_go(in);
}
