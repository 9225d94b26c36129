/* SPDX-License-Identifier: MIT */
/* Handlers of llama.cpp's server other than its completion: tokens, health, properties. */
#include "server/openai/openai.h"

#include "proto/chat/template.h"
#include "proto/encode.h"
#include "proto/utf8.h"
#include "server/http/handlers.h"
#include "server/models/models.h"
#include "server/models/text_input.h"
#include "server/ops/drain.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokens */

static bl_status find_switch(const bl_openai_call *call, const char *name, bool usual, bool *out)
{
    bl_json at;
    *out = usual;
    return bl_json_find(&call->root, name, &at) && at.kind != BL_JSON_NULL ? bl_json_bool(&at, out, &call->rq->err) : BL_OK;
}

/* Print a piece as a string, or as its bytes if it has incomplete characters. */
static void llama_put_piece(bl_span piece, bl_text *out)
{
    size_t at = 0, n = 0;
    while (at < piece.len && (n = bl_utf8_length(piece.data + at, piece.len - at)) > 0)
        at += n;
    if (at == piece.len) {
        bl_encode_span(out, piece);
        return;
    }
    bl_text_putc(out, '[');
    for (size_t i = 0; i < piece.len; i++)
        bl_text_printf(out, "%s%d", i > 0 ? "," : "", (unsigned char)piece.data[i]);
    bl_text_putc(out, ']');
}

static void put_tokens(const bl_tokenizer *tokenizer, const bl_tokens *tokens, bool pieces, bl_text *out)
{
    bl_text_puts(out, "{\"tokens\":[");
    for (size_t i = 0; i < tokens->count; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        if (!pieces) {
            bl_text_printf(out, "%d", (int)tokens->id[i]);
            continue;
        }
        bl_text_printf(out, "{\"id\":%d,\"piece\":", (int)tokens->id[i]);
        llama_put_piece(bl_tokenizer_piece(tokenizer, tokens->id[i]), out);
        bl_text_putc(out, '}');
    }
    bl_text_puts(out, "]}");
}

bl_status bl_handle_llama_tokenize(bl_request *rq)
{
    bl_openai_call call;
    bl_json at;
    const char *text = NULL;
    bl_tokens tokens = {0};
    bl_encode_options options;
    bool pieces = false;
    bl_status st = BL_OK;
    BL_TRY(bl_openai_open_tokens(rq, &call));
    if (call.in == NULL)
        return BL_OK;
    BL_TRY(bl_json_need(&call.root, "content", &at, &rq->err));
    BL_TRY(find_switch(&call, "add_special", false, &options.add_special));
    BL_TRY(find_switch(&call, "parse_special", true, &options.parse_special));
    BL_TRY(find_switch(&call, "with_pieces", false, &pieces));
    BL_TRY(bl_json_string(&at, &text, &rq->err));
    st = bl_tokenizer_encode_as(bl_model_tokenizer(call.in->version), (bl_span){text, strlen(text)}, options, SIZE_MAX, &tokens,
                                &rq->err);
    if (st == BL_OK) {
        put_tokens(bl_model_tokenizer(call.in->version), &tokens, pieces, &rq->reply.out);
        bl_request_reply_json(rq, 200);
        call.in->state = BL_INFER_ANSWERED;
    }
    free(tokens.id);
    return st;
}

bl_status bl_handle_llama_detokenize(bl_request *rq)
{
    bl_openai_call call;
    bl_json at;
    bl_tokens tokens = {0};
    bl_text text = {.budget = &rq->server->memory};
    bl_status st = BL_OK;
    BL_TRY(bl_openai_open_tokens(rq, &call));
    if (call.in == NULL)
        return BL_OK;
    BL_TRY(bl_json_need(&call.root, "tokens", &at, &rq->err));
    BL_TRY(bl_json_expect(&at, BL_JSON_ARRAY, &rq->err));
    st = bl_openai_read_tokens(&call, &at, false, &tokens);
    if (st == BL_OK)
        bl_tokenizer_decode(bl_model_tokenizer(call.in->version), tokens.id, tokens.count, true, &text);
    if (st == BL_OK && (st = bl_text_status(&text, &rq->err)) == BL_OK) {
        bl_text_puts(&rq->reply.out, "{\"content\":");
        bl_encode_span(&rq->reply.out, (bl_span){bl_text_get(&text), text.len});
        bl_text_putc(&rq->reply.out, '}');
        bl_request_reply_json(rq, 200);
        call.in->state = BL_INFER_ANSWERED;
    }
    free(tokens.id);
    bl_text_fini(&text);
    return st;
}

/* ---- health and properties */

bl_status bl_handle_llama_health(bl_request *rq)
{
    if (!bl_server_is_ready(rq->server))
        return bl_fail(&rq->err, BL_EBUSY, "the models are being loaded, or the server is shutting down");
    bl_text_puts(&rq->reply.out, "{\"status\":\"ok\"}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* The language model that the query names, or the only one. */
static bl_status find_version(bl_request *rq, bl_model_version **out)
{
    BL_TRY(bl_openai_choose_model(rq, bl_request_query(rq, "model"), false));
    BL_TRY(bl_model_get(rq, out));
    return (*out)->text != NULL ? BL_OK : bl_fail(&rq->err, BL_EINVAL, "model \"%s\" is not a language model", (*out)->name);
}

/* The number of texts that one run can have. */
static int64_t count_slots(const bl_model_version *version)
{
    int64_t rows = version->text->rows >= 0 ? version->batcher.max_rows : 1;
    return rows > 0 ? rows : 1;
}

static bl_status put_defaults(bl_request *rq, const bl_model_version *version)
{
    bl_text_options options;
    bl_text_reading r = {.arena = rq->arena, .text = version->text, .api = BL_TEXT_API_V1, .out = &options, .err = &rq->err};
    bl_json_doc doc = {0};
    bl_status st = BL_OK;
    const char *said = version->config.openai.defaults != NULL ? version->config.openai.defaults : "{}";
    bl_text_options_init(&options, r.api);
    if (version->text->about.samples)
        options.sampling = version->text->about.sampling;
    st = bl_json_parse(&doc, rq->arena, (bl_span){said, strlen(said)}, &(bl_json_limits){0}, &rq->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_text_options_read(&r, &root);
    }
    if (st == BL_OK)
        bl_llama_put_settings(version->text, &options, &rq->reply.out);
    bl_json_fini(&doc);
    return st;
}

bl_status bl_handle_llama_props(bl_request *rq)
{
    bl_model_version *version = NULL;
    const bl_text_about *about = NULL;
    const char *chat = NULL;
    BL_TRY(find_version(rq, &version));
    about = &version->text->about;
    chat = version->config.openai.chat_template != NULL ? version->config.openai.chat_template : about->chat_template;
    bl_text_printf(&rq->reply.out,
                   "{\"default_generation_settings\":{\"id\":0,\"n_ctx\":%lld,\"params\":", (long long)version->text->context);
    BL_TRY(put_defaults(rq, version));
    bl_text_printf(&rq->reply.out, "},\"total_slots\":%lld,\"model_alias\":", (long long)count_slots(version));
    bl_encode_string(&rq->reply.out, version->name);
    bl_encode_key(&rq->reply.out, "model_path");
    bl_encode_string(&rq->reply.out, about->file != NULL ? about->file : version->name);
    bl_encode_key(&rq->reply.out, "chat_template");
    bl_encode_string(&rq->reply.out, chat != NULL ? chat : bl_chat_template_chatml);
    bl_encode_key(&rq->reply.out, "bos_token");
    bl_encode_string(&rq->reply.out, about->bos_token != NULL ? about->bos_token : "");
    bl_encode_key(&rq->reply.out, "eos_token");
    bl_encode_string(&rq->reply.out, about->eos_token != NULL ? about->eos_token : "");
    bl_text_puts(&rq->reply.out,
                 ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":\"beamline-" BL_VERSION "\"}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_llama_slots(bl_request *rq)
{
    bl_model_version *version = NULL;
    int64_t slots = 0;
    int busy = 0;
    BL_TRY(find_version(rq, &version));
    slots = count_slots(version);
    for (int i = 0; i < version->ninstances; i++)
        busy += atomic_load(&version->instances[i].slot.busy);
    bl_text_putc(&rq->reply.out, '[');
    for (int64_t i = 0; i < slots; i++)
        bl_text_printf(&rq->reply.out, "%s{\"id\":%lld,\"n_ctx\":%lld,\"speculative\":%s,\"is_processing\":%s}", i > 0 ? "," : "",
                       (long long)i, (long long)version->text->context, version->config.draft.name != NULL ? "true" : "false",
                       i < busy ? "true" : "false");
    bl_text_putc(&rq->reply.out, ']');
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
