/* SPDX-License-Identifier: MIT */
/* The models of /v1: models that generate text, and embedding models. */
#include "server/openai/openai.h"

#include "proto/encode.h"
#include "server/http/handlers.h"
#include "server/models/models.h"
#include "server/models/text_input.h"

#include <string.h>

/* Print words that commas or blanks separate as a list. */
static void models_list_put_words(bl_text *out, const char *name, const char *first, const char *list)
{
    bl_encode_key(out, name);
    bl_text_putc(out, '[');
    if (first != NULL)
        bl_encode_string(out, first);
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, " ,");
        if (n > 0 && !(n == 1 && *at == '*')) {
            bl_text_puts(out, bl_text_last(out) == '[' ? "" : ",");
            bl_encode_span(out, (bl_span){at, n});
        }
        at += n + strspn(at + n, " ,");
    }
    bl_text_putc(out, ']');
}

static void put_text_of(bl_text *out, const char *name, const char *value)
{
    if (value == NULL)
        return;
    bl_encode_key(out, name);
    bl_encode_string(out, value);
}

static void models_list_put_count(bl_text *out, const char *name, int64_t value)
{
    if (value <= 0)
        return;
    bl_encode_key(out, name);
    bl_text_printf(out, "%lld", (long long)value);
}

/* Print the members by llama.cpp's names. */
static void put_meta(const bl_model_version *version, bl_text *out)
{
    const bl_text_about *about = version->text != NULL ? &version->text->about : &version->words->about;
    int64_t context = version->text != NULL ? version->text->context : version->words->most;
    bl_encode_key(out, "meta");
    bl_text_printf(out, "{\"n_vocab\":%zu,\"n_ctx\":%lld", bl_tokenizer_size(bl_model_tokenizer(version)), (long long)context);
    models_list_put_count(out, "n_ctx_train", about->trained_context);
    models_list_put_count(out, "n_embd", about->width);
    models_list_put_count(out, "n_params", about->parameters);
    models_list_put_count(out, "size", about->bytes);
    put_text_of(out, "architecture", about->architecture);
    put_text_of(out, "quantisation", about->quantisation);
    bl_text_putc(out, '}');
}

static void put_model(const bl_model_version *version, bl_text *out)
{
    const bl_model_config *config = &version->config;
    bl_text_puts(out, "{\"id\":");
    bl_encode_string(out, version->name);
    bl_text_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"beamline\"", (long long)version->created);
    models_list_put_words(out, "aliases", version->name, config->openai.aliases);
    models_list_put_words(out, "tags", NULL, config->openai.tags);
    bl_encode_key(out, "capabilities");
    bl_text_puts(out, version->text != NULL ? "[\"completion\"]" : "[\"embedding\"]");
    put_meta(version, out);
    bl_text_putc(out, '}');
}

static bool is_for_texts(const bl_model_version *version)
{
    return version != NULL && bl_model_tokenizer(version) != NULL;
}

/* List the newest version of each model. */
bl_status bl_handle_openai_models(bl_request *rq)
{
    bl_models *models = rq->server->models;
    const bl_model *model = NULL;
    const bl_model_version *newest = NULL;
    bl_text_puts(&rq->reply.out, "{\"object\":\"list\",\"data\":[");
    pthread_mutex_lock(&models->lock);
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);) {
        if (it.model != model && newest != NULL) {
            bl_text_puts(&rq->reply.out, bl_text_last(&rq->reply.out) == '[' ? "" : ",");
            put_model(newest, &rq->reply.out);
        }
        newest = it.model != model ? NULL : newest;
        model = it.model;
        if (is_for_texts(it.version) && bl_model_is_seen(models, rq->owner, it.model))
            newest = it.version;
    }
    if (newest != NULL) {
        bl_text_puts(&rq->reply.out, bl_text_last(&rq->reply.out) == '[' ? "" : ",");
        put_model(newest, &rq->reply.out);
    }
    pthread_mutex_unlock(&models->lock);
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_openai_model(bl_request *rq)
{
    bl_model_version *version = NULL;
    BL_TRY(bl_openai_choose_model(rq, rq->head.param[0], false));
    BL_TRY(bl_model_get(rq, &version));
    if (!is_for_texts(version))
        return bl_fail(&rq->err, BL_ENOTFOUND, "model \"%s\" neither writes texts nor makes vectors of texts", version->name);
    put_model(version, &rq->reply.out);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
