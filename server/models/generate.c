/* SPDX-License-Identifier: MIT */
/* The generate extension: the members of the request's document are the inputs of a model, and the members of the answer are
 * its outputs.  "text_input" and "text_output" also name the only string input and the only string output.  A model that is
 * not a text model answers once, so its stream has one event.  completion.c generates the texts of text models. */
#include "server/models/model_infer.h"

#include "engine/base/clock.h"
#include "proto/encode.h"
#include "server/http/handlers.h"
#include "server/models/generation.h"

#include <stdlib.h>
#include <string.h>

static bool is_text(const bl_model_tensor *tensor)
{
    return tensor->datatype == BL_INFER_BYTES;
}

/* The name of the tensor in a document. */
static const char *member_of(const bl_model_tensor *tensors, int count, int at, const char *alias)
{
    int texts = 0;
    for (int i = 0; i < count; i++) {
        texts += is_text(&tensors[i]);
        if (strcmp(tensors[i].name, alias) == 0)
            return tensors[at].name;
    }
    return texts == 1 && is_text(&tensors[at]) ? alias : tensors[at].name;
}

/* The shape of a nested list is its own; the shape of a single value is all ones.  The value belongs to one row of a batch. */
static bl_status generate_choose_shape(const bl_infer *in, const bl_model_tensor *tensor, const bl_json *at,
                                       bl_tensor_value *value)
{
    int ndim = bl_model_tensor_rank(tensor), depth = at->list != NULL ? at->list->depth : 0;
    if (depth > BL_LIST_DIMS || (depth > 0 && at->list->ragged != NULL))
        return bl_json_fail(at, &in->rq->err, BL_EINVAL, "the nested arrays differ in length");
    value->ndim = depth == 0 || depth > ndim ? ndim : depth;
    for (int d = 0; d < value->ndim; d++)
        value->dim[d] = depth == 0 ? 1 : at->list->dim[d];
    if (depth > 0 && depth == ndim - 1 && in->version->batcher.max_rows > 0) { /* the list has no batch dimension */
        memmove(value->dim + 1, value->dim, (size_t)depth * sizeof value->dim[0]);
        value->dim[0] = 1;
        value->ndim = ndim;
    }
    return BL_OK;
}

static bl_status generate_take_text(bl_infer *in, const bl_json *at, bl_infer_input *input)
{
    bl_span *item = bl_arena_alloc(in->rq->arena, sizeof *item);
    const char *text = NULL;
    BL_TRY(bl_json_string(at, &text, &in->rq->err));
    if (item == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    *item = (bl_span){text, at->text.len};
    input->items = item;
    input->value.count = 1;
    return BL_OK;
}

static bl_status take_numbers(bl_infer *in, const bl_json *at, bl_infer_input *input)
{
    bl_tensor_value *value = &input->value;
    if (at->kind == BL_JSON_NUMBER || (at->kind == BL_JSON_BOOL && at->item == NULL))
        value->list = (bl_list){.text = at->text, .count = 1, .holds = BL_LIST_NUMBERS};
    else if (at->kind == BL_JSON_BOOL)
        value->list = (bl_list){.text = at->boolean ? BL_S("true") : BL_S("false"), .count = 1, .holds = BL_LIST_BOOLS};
    else if (at->kind == BL_JSON_ARRAY && at->list != NULL)
        value->list = *at->list;
    else
        return bl_json_fail(at, &in->rq->err, BL_EINVAL, "expected a number or an array of numbers");
    value->kind = BL_VALUE_LIST;
    BL_TRY(bl_tensor_measure(value->label, value->dtype, value->ndim, value->dim, &in->rq->server->limits, &value->count,
                             &value->bytes, &in->rq->err));
    return value->count == value->list.count ? BL_OK
                                             : bl_json_fail(at, &in->rq->err, BL_EINVAL, "%llu elements; the model takes %zu",
                                                            (unsigned long long)value->list.count, value->count);
}

static bool is_scalar(const bl_json *at)
{
    return at->kind == BL_JSON_STRING || at->kind == BL_JSON_NUMBER || at->kind == BL_JSON_BOOL;
}

static bl_status take_member(bl_infer *in, int i, const bl_json *at)
{
    const bl_model_tensor *tensor = &in->version->shown[i];
    bl_infer_input *input = &in->wire.inputs[in->wire.ninputs++];
    *input = (bl_infer_input){.name = tensor->name, .datatype = tensor->datatype};
    input->value.label = tensor->name;
    input->value.dtype = tensor->dtype;
    BL_TRY(generate_choose_shape(in, tensor, at, &input->value));
    return is_text(tensor) ? generate_take_text(in, at, input) : take_numbers(in, at, input);
}

/* Read the members of the document.  Each member is an input or a parameter.  At the top, "id" and "parameters" are members
 * too, and only known parameters are allowed; any other name there is an error. */
static bl_status take_members(bl_infer *in, const bl_json *object, bool top)
{
    const bl_model_version *version = in->version;
    bl_json_iter it = bl_json_each(object);
    bl_json one;
    BL_TRY(bl_json_expect(object, BL_JSON_OBJECT, &in->rq->err));
    while (bl_json_next(&it, &one)) {
        int i = 0;
        if (top && strcmp(one.key, "id") == 0) {
            BL_TRY(bl_json_string(&one, &in->wire.id, &in->rq->err));
            continue;
        }
        if (top && strcmp(one.key, "parameters") == 0) {
            BL_TRY(take_members(in, &one, false));
            continue;
        }
        while (i < version->nshown && strcmp(member_of(version->shown, version->nshown, i, "text_input"), one.key) != 0)
            i++;
        if (i == version->nshown && (bl_infer_is_parameter(one.key) || (!top && is_scalar(&one)))) {
            BL_TRY(bl_infer_decode_parameter(in->rq->arena, &one, &in->wire, &in->rq->err));
            continue;
        }
        if (i == version->nshown)
            return bl_json_fail(object, &in->rq->err, BL_EINVAL, "model \"%s\" has no input \"%.100s\"", version->name, one.key);
        if (in->wire.ninputs == version->nshown)
            return bl_json_fail(object, &in->rq->err, BL_EINVAL, "an input is given twice");
        BL_TRY(take_member(in, i, &one));
    }
    return BL_OK;
}

static bl_status generate_decode(bl_infer *in)
{
    bl_request *rq = in->rq;
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc doc = {0};
    bl_status st = BL_OK;
    in->wire.all = true;
    in->wire.inputs = bl_arena_array(rq->arena, (size_t)in->version->batcher.ninputs + 1, sizeof *in->wire.inputs);
    if (in->wire.inputs == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = take_members(in, &root, true);
    }
    bl_json_fini(&doc);
    return st;
}

/* ---- the answer */

static void generate_put_value(const bl_infer_result *result, bl_text *out)
{
    if (result->datatype == BL_INFER_BYTES && result->count == 1) {
        bl_encode_span(out, result->items[0]);
        return;
    }
    if (result->datatype != BL_INFER_BYTES) {
        size_t start = out->len;
        bl_tensor_print(out, (bl_dtype)result->datatype, result->data, result->count);
        if (result->count == 1 && !out->failed) { /* a single value has no brackets */
            out->len--;
            memmove(out->data + start, out->data + start + 1, out->len - start - 1);
            out->len--;
        }
        return;
    }
    bl_text_putc(out, '[');
    for (size_t i = 0; i < result->count; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_span(out, result->items[i]);
    }
    bl_text_putc(out, ']');
}

static void generate_put_document(const bl_infer *in, const bl_infer_result *results)
{
    const bl_model_version *version = in->version;
    bl_text *out = &in->rq->reply.out;
    bl_text_putc(out, '{');
    if (in->wire.id != NULL) {
        bl_encode_key(out, "id");
        bl_encode_string(out, in->wire.id);
    }
    bl_encode_key(out, "model_name");
    bl_encode_string(out, version->name);
    bl_text_printf(out, ",\"model_version\":\"%llu\"", (unsigned long long)version->number);
    for (int i = 0; i < in->nasked; i++) {
        bl_encode_key(out, member_of(version->outputs, version->noutputs, in->asked[i], "text_output"));
        generate_put_value(&results[i], out);
    }
    bl_text_putc(out, '}');
}

static bl_status write_document(bl_infer *in, const bl_infer_result *results)
{
    generate_put_document(in, results);
    bl_request_reply_json(in->rq, 200);
    return BL_OK;
}

static bl_status write_event(bl_infer *in, const bl_infer_result *results)
{
    bl_text_puts(&in->rq->reply.out, "data: ");
    generate_put_document(in, results);
    bl_text_puts(&in->rq->reply.out, "\n\n");
    bl_request_reply(in->rq, 200, "text/event-stream; charset=utf-8");
    return BL_OK;
}

/* ---- text models: the answer, with the members of Triton's back end for vLLM */

static void put_text_head(const bl_completion *c, bl_text *out)
{
    bl_text_putc(out, '{');
    if (c->id != NULL) {
        bl_encode_key(out, "id");
        bl_encode_string(out, c->id);
    }
    bl_encode_key(out, "model_name");
    bl_encode_string(out, c->version->name);
    bl_text_printf(out, ",\"model_version\":\"%llu\"", (unsigned long long)c->version->number);
}

static void generate_put_text(const bl_generation *g, bl_span text, bl_text *out)
{
    put_text_head(g->completion, out);
    bl_encode_key(out, "text_output");
    bl_encode_span(out, text);
    if (g->answer.finish != NULL)
        bl_text_printf(out, ",\"finish_reason\":\"%s\",\"num_input_tokens\":%zu,\"num_output_tokens\":%zu", g->answer.finish,
                       g->prompt, g->tokens.count - g->prompt);
    bl_text_putc(out, '}');
}

static void generate_put_text_document(bl_completion *c, bl_text *out)
{
    const bl_generation *g = c->texts[0];
    generate_put_text(g, (bl_span){bl_text_get(&g->answer.written), g->answer.written.len}, out);
}

static void generate_put_text_event(bl_generation *g, bl_span text, bl_text *out)
{
    bl_text_puts(out, "data: ");
    generate_put_text(g, text, out);
    bl_text_puts(out, "\n\n");
}

/* Report an error within a stream in Triton's form. */
static void put_text_failure(const bl_err *err, bl_text *out)
{
    bl_text_puts(out, "data: {\"error\":");
    bl_encode_string(out, err->text);
    bl_text_puts(out, "}\n\n");
}

static const bl_text_form text_form = {
    .document = generate_put_text_document, .event = generate_put_text_event, .fail = put_text_failure};

static bl_status check_options(const bl_text_reading *r, bool stream)
{
    if (r->out->stream != stream)
        return bl_fail(r->err, BL_EINVAL,
                       "stream: /generate answers with one document and /generate_stream with events; choose the address");
    return r->prompt != NULL ? BL_OK : bl_fail(r->err, BL_EINVAL, "the member \"text_input\" is missing");
}

static bl_status read_text_options(bl_infer *in, bl_completion *c, bool stream, bl_text_reading *r)
{
    bl_request *rq = in->rq;
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc doc = {0};
    bl_status st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    *r = (bl_text_reading){
        .arena = c->arena, .text = c->text, .api = BL_TEXT_API_V2, .out = &c->options, .wire = &in->wire, .err = &rq->err};
    bl_text_options_init(&c->options, r->api);
    c->options.stream = stream;
    c->options.echo = !stream;
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_text_options_read(r, &root);
    }
    if (st == BL_OK)
        st = check_options(r, stream);
    if (st == BL_OK) {
        r->prompt = bl_arena_strdup(c->arena, r->prompt); /* a copy: the document is freed before the prompt is used */
        c->id = in->wire.id != NULL ? bl_arena_strdup(c->arena, in->wire.id) : NULL;
    }
    bl_json_fini(&doc);
    return st == BL_OK ? bl_text_options_finish(r) : st;
}

/* If the answer is not streamed, it begins with the prompt as it was received. */
static bl_status generate_add_text(bl_completion *c, const char *prompt, bl_tokens *tokens)
{
    bl_err *err = &c->rq->err, problem = {0};
    bl_span text = {prompt, strlen(prompt)};
    bool echo = c->options.echo;
    if (bl_tokenizer_encode(c->text->tokenizer, text, (size_t)c->text->context - 1, tokens, &problem) != BL_OK)
        return bl_fail(err, problem.status, "text_input: %s; model \"%s\" has room for %lld, of which at least one is written",
                       problem.text, c->version->name, (long long)c->text->context);
    if (tokens->count == 0)
        return bl_fail(err, BL_EINVAL,
                       "text_input: model \"%s\" adds no token at the start, so the text must have at least one token",
                       c->version->name);
    c->options.echo = false; /* detokenizing the prompt may not give the same text */
    BL_TRY(bl_completion_add(c, tokens, 0));
    if (echo)
        bl_text_append(&c->texts[0]->answer.written, text.data, text.len);
    return bl_text_status(&c->texts[0]->answer.written, err);
}

static bl_status generate_text(bl_infer *in, bool stream)
{
    bl_completion *c = NULL;
    bl_text_reading r;
    bl_tokens tokens = {0};
    bl_status st = BL_OK;
    BL_TRY(bl_completion_create(in, &text_form, &c));
    BL_TRY(read_text_options(in, c, stream, &r));
    st = generate_add_text(c, r.prompt, &tokens);
    free(tokens.id);
    BL_TRY(st);
    c->streams = stream;
    return bl_completion_begin(c);
}

static bl_status generate(bl_request *rq, bl_infer_write write)
{
    bl_infer *in = NULL;
    BL_TRY(bl_infer_create(rq, write, &in));
    if (in == NULL)
        return BL_OK;
    if (in->version->text != NULL)
        return generate_text(in, write == write_event);
    BL_TRY(generate_decode(in));
    return bl_infer_go(in);
}

bl_status bl_handle_model_generate(bl_request *rq)
{
    return generate(rq, write_document);
}

bl_status bl_handle_model_generate_stream(bl_request *rq)
{
    return generate(rq, write_event);
}
