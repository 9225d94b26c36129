/* SPDX-License-Identifier: MIT */
/* libFuzzer: a request of /v1 or of llama.cpp's server.  The first line is the address, the rest is the document.  The handlers
 * of server/openai run up to the generation of texts or embeddings; stubs below replace the rest of the server.  Reads each
 * prompt and each row of tokens. */
#include "engine/base/clock.h"
#include "server/http/handlers.h"
#include "server/http/offload.h"
#include "server/models/text_input.h"
#include "server/openai/openai.h"
#include "server/store/registry.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEFERRED = 64, CONTEXT = 512, MOST_BYTES = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tokenizer[] =
    "{\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true},{\"id\":7,\"content\":\"<|im_end|>\",\"special\":true}],"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\\n\":2,\"ab\":3,\" \":4,\":\":5},"
    "\"merges\":[[\"a\",\"b\"]]}}";
static const char chat_template[] =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif "
    "%}"
    "{% endfor %}{{ tools | tojson }}{{ functions }}{{ date_string }}{{ datetime }}{{ a }}{% if enable_thinking %}t{% endif %}"
    "{% if add_generation_prompt %}<think>{% endif %}";

static const struct address {
    const char *name;
    bl_status (*handle)(bl_request *rq);
    bool vectors;
} addresses[] = {
    {"/v1/chat/completions", bl_handle_openai_chat, false},  {"/v1/chat/completions/input_tokens", bl_handle_openai_count, false},
    {"/v1/completions", bl_handle_openai_completion, false}, {"/v1/embeddings", bl_handle_openai_embeddings, true},
    {"/completion", bl_handle_llama_completion, false},      {"/tokenize", bl_handle_llama_tokenize, false},
    {"/detokenize", bl_handle_llama_detokenize, false},      {"/apply-template", bl_handle_llama_template, false}};

/* The server of the request. */
static bl_server server;
static bl_models models;
static bl_model model = {.name = "m"};
static bl_model_version version = {.name = "m"};
static bl_text_model text;
static bl_text_input words;
static bl_model_tensor tensor = {
    .name = "tokens", .dtype = BL_I32, .datatype = BL_I32, .ndim = 2, .var = {-1, -1}, .dim = {8, CONTEXT}};
static bl_model_tensor vectors = {
    .name = "vectors", .dtype = BL_F32, .datatype = BL_F32, .ndim = 2, .var = {-1, -1}, .dim = {8, 4}};

static bl_span body;
static struct {
    void (*fn)(void *arg);
    void *arg;
} deferred[MOST_DEFERRED];
static int ndeferred;

/* ---- stubs of the server's functions */

bl_status bl_request_defer(bl_request *rq, void (*fn)(void *arg), void *arg)
{
    (void)rq;
    if (ndeferred == MOST_DEFERRED)
        abort();
    deferred[ndeferred].fn = fn;
    deferred[ndeferred++].arg = arg;
    return BL_OK;
}

void *bl_request_alloc(bl_request *rq, size_t bytes, const char *what)
{
    void *at = bl_arena_alloc(rq->arena, bytes);
    if (at == NULL)
        (void)bl_fail(&rq->err, BL_ENOMEM, "%s", what);
    return at;
}

bl_span bl_request_body(const bl_request *rq)
{
    (void)rq;
    return body;
}

void bl_request_reply_json(bl_request *rq, int status)
{
    rq->reply.status = status;
}

bl_status bl_offload_handler(bl_request *rq)
{
    (void)rq;
    abort(); /* the request already runs on a worker thread */
}

const char *bl_registry_shared(bl_registry *shelf, uint32_t owner, const char *kind, const char *name, uint32_t *other)
{
    (void)shelf, (void)owner, (void)kind, (void)name, (void)other;
    return NULL;
}

bl_model *bl_models_find(bl_models *all, uint32_t owner, const char *name)
{
    (void)all, (void)owner;
    return strcmp(name, model.name) == 0 ? &model : NULL;
}

bool bl_model_rows_next(bl_models *all, bl_model_rows *it)
{
    (void)all;
    it->model = &model;
    it->version = &version;
    return it->next_model++ == 0;
}

bool bl_model_is_seen(bl_models *all, uint32_t owner, const bl_model *one)
{
    (void)all, (void)owner, (void)one;
    return true;
}

bl_status bl_infer_create(bl_request *rq, bl_infer_write write, bl_infer **out)
{
    bl_infer *in = bl_arena_alloc(rq->arena, sizeof *in);
    *out = in;
    if (in == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    in->rq = rq;
    in->write = write;
    in->version = &version;
    in->item.begin_ns = bl_clock_ns();
    return BL_OK;
}

static void touch(const void *data, size_t bytes)
{
    static volatile unsigned char sum;
    for (size_t i = 0; i < bytes; i++)
        sum = (unsigned char)(sum ^ ((const unsigned char *)data)[i]);
}

bl_status bl_infer_go_filled(bl_infer *in)
{
    for (int i = 0; i < in->wire.ninputs; i++)
        touch(in->wire.inputs[i].value.span.data, in->wire.inputs[i].value.span.len);
    return BL_OK;
}

bl_status bl_completion_create(bl_infer *in, const bl_text_form *form, bl_completion **out)
{
    bl_completion *c = bl_arena_alloc(in->rq->arena, sizeof *c);
    *out = c;
    if (c == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    c->arena = in->rq->arena;
    c->version = &version;
    c->text = &text;
    c->form = form;
    c->rq = in->rq;
    c->in = in;
    return BL_OK;
}

bl_status bl_completion_add(bl_completion *c, const bl_tokens *prompt, int shift)
{
    if (shift < 0 || shift >= c->options.n || prompt->count == 0 || (int64_t)prompt->count >= text.context)
        abort();
    touch(prompt->id, prompt->count * sizeof *prompt->id);
    return c->ntexts++ < BL_MOST_TEXTS ? BL_OK : bl_fail(&c->rq->err, BL_EINVAL, "too many texts");
}

bl_status bl_completion_begin(bl_completion *c)
{
    const bl_text_options *o = &c->options;
    if (c->ntexts < 1 || o->n < 1 || o->nstops < 0 || o->nstops > BL_TEXT_STOPS)
        abort();
    for (int i = 0; i < o->nstops; i++)
        touch(o->stops[i].data, o->stops[i].len);
    for (int i = 0; i < o->nfields; i++)
        touch(o->fields[i], strlen(o->fields[i]));
    for (size_t i = 0; i < o->sampling.nbreakers; i++)
        touch(o->sampling.breakers[i].tail, (size_t)o->sampling.breakers[i].ntail * sizeof(int32_t));
    return BL_OK;
}

void bl_trace_hex(const unsigned char *bytes, size_t count, char *out)
{
    touch(bytes, count);
    memset(out, '0', 2 * count);
    out[2 * count] = '\0';
}

/* ---- stubs that these handlers never call */

const bl_text_form bl_openai_chat_form, bl_openai_text_form, bl_llama_form;

void bl_llama_put_settings(const bl_text_model *of, const bl_text_options *options, bl_text *out)
{
    (void)of, (void)options, (void)out;
    abort();
}

bl_status bl_model_get(bl_request *rq, bl_model_version **out)
{
    (void)rq, (void)out;
    abort();
}

const char *bl_request_query(const bl_request *rq, const char *name)
{
    (void)rq, (void)name;
    abort();
}

bool bl_server_is_ready(bl_server *of)
{
    (void)of;
    abort();
}

/* ---- a request */

static void fill_server(bool takes)
{
    static bl_tokenizer *made;
    bl_err err = {0};
    if (made == NULL && bl_tokenizer_read(BL_S(tokenizer), &made, &err) != BL_OK)
        abort();
    text = (bl_text_model){.tokenizer = made, .context = CONTEXT, .nends = 1, .ends = {7}};
    text.about.chat_template = chat_template;
    text.about.bos_token = "<s>";
    words = (bl_text_input){
        .tokenizer = made, .whole = true, .tokens = 0, .mask = -1, .types = -1, .least = 1, .most = CONTEXT, .step = 1};
    version.text = takes ? NULL : &text;
    version.words = takes ? &words : NULL;
    version.inputs = &tensor;
    version.outputs = &vectors;
    version.batcher.ninputs = version.noutputs = 1;
    server.models = &models;
    server.settings.max_depth = 64;
    server.memory.limit = MOST_BYTES;
    server.limits = (bl_wire_limits){.max_nodes = 1000, .max_inputs = 100, .max_dims = 16, .max_tensor_bytes = MOST_BYTES};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t len = line != NULL ? (size_t)(line - data) : 0;
    bl_request *rq = calloc(1, sizeof *rq);
    for (size_t i = 0; rq != NULL && i < sizeof addresses / sizeof addresses[0]; i++) {
        if (line == NULL || len != strlen(addresses[i].name) || memcmp(addresses[i].name, data, len) != 0)
            continue;
        fill_server(addresses[i].vectors);
        body = (bl_span){(const char *)line + 1, size - len - 1};
        rq->arena = bl_arena_create(MOST_BYTES);
        rq->server = &server;
        atomic_store(&rq->place, BL_REQUEST_PLACE_WORK); /* as on an offload thread */
        if (rq->arena != NULL && addresses[i].handle(rq) != BL_OK && (rq->err.status == BL_OK || rq->err.status == BL_EBUG))
            abort();
        while (ndeferred > 0) {
            ndeferred--;
            deferred[ndeferred].fn(deferred[ndeferred].arg);
        }
        bl_text_fini(&rq->reply.out);
        bl_arena_destroy(rq->arena);
        break;
    }
    free(rq);
    return 0;
}
