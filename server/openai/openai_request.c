/* SPDX-License-Identifier: MIT */
#include "server/openai/openai.h"

#include "server/http/offload.h"
#include "server/models/models.h"
#include "server/models/text_input.h"
#include "server/store/registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- the choice of the model */

/* Is |name| a word of |list|?  The word "*" matches any name. */
static bool is_alias(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, " ,");
        if ((n == len && memcmp(at, name, n) == 0) || (n == 1 && *at == '*'))
            return true;
        at += n + strspn(at + n, " ,");
    }
    return false;
}

/* Under the lock: the model with the alias |name|; NULL: there is none.  Without a name: the only model that generates text,
 * or, with |vectors|, the only one that tokenizes its inputs. */
static const bl_model *find_alias(bl_request *rq, const char *name, bool vectors)
{
    bl_models *models = rq->server->models;
    const bl_model *found = NULL;
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);) {
        bool text = it.version != NULL && it.version->text != NULL, words = it.version != NULL && it.version->words != NULL;
        if (!(name != NULL ? text || words
              : vectors    ? words
                           : text) ||
            it.model == found || !bl_model_is_seen(models, rq->owner, it.model))
            continue;
        if (name != NULL && is_alias(it.version->config.openai.aliases, name))
            return it.model;
        if (name == NULL && found != NULL)
            return NULL;
        found = name == NULL ? it.model : found;
    }
    return found;
}

bl_status bl_openai_choose_model(bl_request *rq, const char *name, bool vectors)
{
    bl_models *models = rq->server->models;
    const bl_model *model = NULL;
    uint32_t other = 0;
    bool known = false, loading = false;
    rq->head.param[0] = name;
    if (name != NULL && bl_registry_shared(rq->server->registry, rq->owner, "model", name, &other) != NULL)
        return BL_OK;
    pthread_mutex_lock(&models->lock);
    known = name != NULL && (bl_models_find(models, rq->owner, name) != NULL || bl_models_find(models, 0, name) != NULL);
    model = known ? NULL : find_alias(rq, name, vectors);
    if (model != NULL)
        rq->head.param[0] = bl_arena_strdup(rq->arena, model->name);
    loading = models->to_start > 0;
    pthread_mutex_unlock(&models->lock);
    if (rq->head.param[0] == NULL && loading)
        return bl_fail(&rq->err, BL_EBUSY, "the models are being loaded; send the request again");
    if (rq->head.param[0] == NULL)
        return bl_fail(&rq->err, BL_EINVAL, "the member \"model\" is missing; GET /v1/models lists the models");
    return bl_arena_status(rq->arena, &rq->err);
}

static void end_document(void *arg)
{
    bl_json_fini(arg);
}

/* A template may take 10^6 steps, and DRY visits each token of the vocabulary.  Such requests are read on an offload thread,
 * so that they do not block other connections. */
static bool openai_request_takes_long(const bl_json *root)
{
    bl_json at;
    return bl_json_find(root, "messages", &at) || bl_json_find(root, "dry_multiplier", &at) ||
           bl_json_find(root, "dry_sequence_breakers", &at);
}

bl_status bl_openai_open_any(bl_request *rq, bl_infer_write write, bool vectors, bl_openai_call *call)
{
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc *doc = bl_arena_alloc(rq->arena, sizeof *doc);
    const char *name = NULL;
    bl_json at;
    bl_status st = BL_OK;
    *call = (bl_openai_call){.rq = rq};
    if (doc == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    st = bl_json_parse(doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    BL_TRY(bl_request_defer(rq, end_document, doc));
    BL_TRY(st);
    call->root = bl_json_root(doc);
    BL_TRY(bl_json_expect(&call->root, BL_JSON_OBJECT, &rq->err));
    if (bl_json_find(&call->root, "model", &at) && at.kind != BL_JSON_NULL)
        BL_TRY(bl_json_string(&at, &name, &rq->err));
    BL_TRY(bl_openai_choose_model(rq, name != NULL && *name != '\0' ? name : NULL, vectors));
    if (!bl_request_is_apart(rq) && openai_request_takes_long(&call->root))
        return bl_offload_handler(rq);
    return bl_infer_create(rq, write, &call->in);
}

static bl_status write_nothing(bl_infer *in, const bl_infer_result *results)
{
    (void)in;
    (void)results;
    return BL_OK;
}

bl_status bl_openai_open_tokens(bl_request *rq, bl_openai_call *call)
{
    BL_TRY(bl_openai_open_any(rq, write_nothing, false, call));
    if (call->in == NULL || bl_model_tokenizer(call->in->version) != NULL)
        return BL_OK;
    return bl_fail(&rq->err, BL_EINVAL, "model \"%s\" has no tokenizer", call->in->version->name);
}

bl_status bl_openai_open(bl_request *rq, bl_openai_call *call)
{
    BL_TRY(bl_openai_open_any(rq, write_nothing, false, call));
    if (call->in == NULL || call->in->version->text != NULL)
        return BL_OK;
    if (call->in->version->words != NULL)
        return bl_fail(&rq->err, BL_EINVAL, "model \"%s\" writes no texts: it makes vectors of them, by POST /v1/embeddings",
                       call->in->version->name);
    return bl_fail(&rq->err, BL_EINVAL, "model \"%s\" writes no texts: it has no tokenizer, or is not a language model",
                   call->in->version->name);
}

/* ---- options */

/* Apply the default members of the model's configuration, which the request may override. */
static bl_status read_defaults(bl_openai_call *call, bl_text_reading *r)
{
    const char *text = call->in->version->config.openai.defaults;
    bl_json_doc doc = {0};
    bl_status st = BL_OK;
    if (text == NULL)
        return BL_OK;
    st = bl_json_parse(&doc, call->rq->arena, (bl_span){text, strlen(text)}, &(bl_json_limits){0}, r->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_text_options_read(r, &root);
    }
    bl_json_fini(&doc);
    return st;
}

const char *bl_openai_make_id(bl_arena *arena, const char *prefix)
{
    unsigned char random[12] = {0};
    char text[2 * sizeof random + 1] = "";
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return NULL;
    bl_trace_hex(random, sizeof random, text);
    return bl_arena_printf(arena, "%s%s", prefix, text);
}

bl_status bl_openai_make(bl_openai_call *call, const bl_text_form *form, const char *id)
{
    bl_text_reading r = {.api = BL_TEXT_API_V1, .text = call->in->version->text, .err = &call->rq->err};
    bl_completion *c = NULL;
    BL_TRY(bl_completion_create(call->in, form, &c));
    call->c = c;
    r.arena = c->arena;
    r.out = &c->options;
    bl_text_options_init(&c->options, r.api);
    if (r.text->about.samples)
        c->options.sampling = r.text->about.sampling;
    BL_TRY(read_defaults(call, &r));
    BL_TRY(bl_text_options_read(&r, &call->root));
    BL_TRY(bl_text_options_finish(&r));
    c->streams = c->options.stream;
    c->id = bl_openai_make_id(c->arena, id);
    return c->id != NULL ? BL_OK : bl_fail(&call->rq->err, BL_ENOMEM, "random numbers");
}

/* ---- prompts */

bl_status bl_openai_add(bl_openai_call *call, const bl_tokens *prompt)
{
    bl_completion *c = call->c;
    bl_request *rq = call->rq;
    int64_t context = c->text->context;
    if ((int64_t)prompt->count >= context) {
        rq->reply.problem_type = "exceed_context_size_error";
        rq->reply.problem_members =
            bl_arena_printf(rq->arena, ",\"n_prompt_tokens\":%zu,\"n_ctx\":%lld", prompt->count, (long long)context);
        return bl_fail(&rq->err, BL_EINVAL,
                       "the request exceeds the available context size: the prompt has %zu tokens, but model \"%s\" has room for "
                       "%lld, of which at least one is written",
                       prompt->count, c->version->name, (long long)context);
    }
    if (prompt->count == 0)
        return bl_fail(&rq->err, BL_EINVAL, "prompt: has no tokens, but model \"%s\" adds none at the start", c->version->name);
    for (int i = 0; i < c->options.n; i++)
        BL_TRY(bl_completion_add(c, prompt, i));
    return BL_OK;
}

static bl_status openai_request_add_token(const bl_openai_call *call, const bl_json *at, bl_tokens *out)
{
    bl_err *err = &call->rq->err;
    int64_t size = (int64_t)bl_tokenizer_size(bl_model_tokenizer(call->in->version)), id = 0;
    BL_TRY(bl_json_int(at, INT32_MIN, INT32_MAX, &id, err));
    if (id < 0 || id >= size)
        return bl_json_fail(at, err, BL_EINVAL, "%lld is not a token; tokens are from 0 to %lld", (long long)id,
                            (long long)size - 1);
    if (out->count == out->cap) {
        size_t cap = out->cap > 0 ? 2 * out->cap : 64;
        int32_t *grown = realloc(out->id, cap * sizeof *grown);
        if (grown == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for a prompt");
        out->id = grown;
        out->cap = cap;
    }
    out->id[out->count++] = (int32_t)id;
    return BL_OK;
}

/* llama.cpp has prompts of the form {"prompt_string": ...} with media; the string is read, and media are an error. */
static bl_status find_text(const bl_openai_call *call, const bl_json *at, bl_json *out)
{
    bl_err *err = &call->rq->err;
    bl_json media;
    if (at->kind != BL_JSON_OBJECT) {
        *out = *at;
        return BL_OK;
    }
    if (bl_json_find(at, "multimodal_data", &media))
        return bl_json_fail(&media, err, BL_EINVAL, "the model takes only texts");
    return bl_json_need(at, "prompt_string", out, err);
}

bl_status bl_openai_read_tokens(const bl_openai_call *call, const bl_json *at, bool special, bl_tokens *out)
{
    const bl_tokenizer *tokenizer = bl_model_tokenizer(call->in->version);
    bl_err *err = &call->rq->err;
    bl_json_iter it = bl_json_each(at);
    const char *text = NULL;
    bl_json one;
    if (at->kind == BL_JSON_NUMBER)
        return openai_request_add_token(call, at, out);
    if (at->kind == BL_JSON_ARRAY) {
        while (bl_json_next(&it, &one)) {
            BL_TRY(bl_openai_read_tokens(call, &one, special && it.index <= 1, out));
        }
        return BL_OK;
    }
    BL_TRY(find_text(call, at, &one));
    BL_TRY(bl_json_string(&one, &text, err));
    return bl_tokenizer_encode_as(tokenizer, (bl_span){text, strlen(text)},
                                  (bl_encode_options){.add_special = special, .parse_special = true}, SIZE_MAX, out, err);
}

bool bl_openai_is_one_prompt(const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    if (at->kind != BL_JSON_ARRAY)
        return true;
    while (bl_json_next(&it, &one))
        if (one.kind == BL_JSON_NUMBER)
            return true;
    return false;
}

static bl_status add_prompt(bl_openai_call *call, const bl_json *at)
{
    bl_tokens tokens = {0};
    bl_status st = bl_openai_read_tokens(call, at, true, &tokens);
    if (st == BL_OK)
        st = bl_openai_add(call, &tokens);
    free(tokens.id);
    return st;
}

bl_status bl_openai_add_prompts(bl_openai_call *call, bool *several)
{
    bl_json at, one;
    bl_json_iter it;
    BL_TRY(bl_json_need(&call->root, "prompt", &at, &call->rq->err));
    *several = !bl_openai_is_one_prompt(&at);
    if (!*several)
        return add_prompt(call, &at);
    it = bl_json_each(&at);
    while (bl_json_next(&it, &one))
        BL_TRY(add_prompt(call, &one));
    return call->c->ntexts > 0 ? BL_OK : bl_json_fail(&at, &call->rq->err, BL_EINVAL, "the list of prompts is empty");
}
