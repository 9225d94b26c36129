/* SPDX-License-Identifier: MIT */
/* Conversations: the model's chat template renders the messages as one text. */
#include "server/openai/openai.h"

#include "proto/chat/template.h"
#include "proto/encode.h"
#include "server/http/handlers.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_VARIABLES = 32, MADE = 4 };

/* The marks of a reasoning section, by which reasoning is switched off if the template has no variable for this. */
static const struct thinking {
    const char *begin, *end;
    bool always; /* the template never begins the section itself */
} thinkings[] = {{"<think>", "</think>", false}, {"<|START_THINKING|>", "<|END_THINKING|>", true}};

typedef struct conversation {
    const bl_openai_call *call;
    const bl_text_model *text;
    cJSON *messages; /* the messages for the template; each content is a string */
    char *prefill;   /* the beginning of the answer, or NULL */
    bool generates;  /* end the text with the generation prompt, where the answer begins */
    bool thinks;
    bl_chat_variable variables[MOST_VARIABLES];
    size_t nvariables;
    bl_json_doc made[MADE]; /* values of variables that the server adds */
    int nmade;
} conversation;

/* ---- messages */

/* Join the strings of a content's parts, separated by |between|.  Heap. */
static bl_status chat_join_parts(const bl_openai_call *call, const bl_json *content, const char *between, char **out)
{
    bl_err *err = &call->rq->err;
    bl_json_iter it = bl_json_each(content);
    bl_json part, type, at;
    bl_text text = {.budget = &call->rq->server->memory};
    bl_status st = BL_OK;
    while (st == BL_OK && bl_json_next(&it, &part)) {
        const char *one = NULL;
        st = bl_json_expect(&part, BL_JSON_OBJECT, err);
        if (st == BL_OK)
            st = bl_json_need(&part, "type", &type, err);
        if (st == BL_OK && !bl_span_is(type.text, "text"))
            st = bl_json_fail(&type, err, BL_EINVAL, "the model takes only texts; parts of this type are not supported");
        if (st == BL_OK)
            st = bl_json_need(&part, "text", &at, err);
        if (st == BL_OK)
            st = bl_json_string(&at, &one, err);
        if (st != BL_OK)
            break;
        bl_text_puts(&text, text.len > 0 ? between : "");
        bl_text_puts(&text, one);
    }
    if (st == BL_OK)
        st = bl_text_status(&text, err);
    *out = st == BL_OK ? strdup(bl_text_get(&text)) : NULL;
    bl_text_fini(&text);
    return st != BL_OK || *out != NULL ? st : bl_fail(err, BL_ENOMEM, "out of host memory for a conversation");
}

/* Copy a value of the document to a cJSON tree.  NULL: out of memory. */
static cJSON *copy_value(const bl_json *at, bl_err *err)
{
    bl_json_iter it = bl_json_each(at);
    bl_wire_number number;
    const char *text = NULL;
    bl_json one;
    cJSON *out = NULL;
    switch (at->kind) {
    case BL_JSON_NULL:
        return cJSON_CreateNull();
    case BL_JSON_BOOL:
        return cJSON_CreateBool(at->boolean);
    case BL_JSON_NUMBER:
        return bl_json_number(at, &number, err) == BL_OK ? cJSON_CreateNumber(number.value) : NULL;
    case BL_JSON_STRING:
        return bl_json_string(at, &text, err) == BL_OK ? cJSON_CreateString(text) : NULL;
    case BL_JSON_ARRAY:
    case BL_JSON_OBJECT:
        break;
    }
    out = at->kind == BL_JSON_ARRAY ? cJSON_CreateArray() : cJSON_CreateObject();
    while (out != NULL && bl_json_next(&it, &one)) {
        cJSON *item = copy_value(&one, err);
        bool added = item != NULL &&
                     (at->kind == BL_JSON_ARRAY ? cJSON_AddItemToArray(out, item) : cJSON_AddItemToObject(out, one.key, item));
        if (!added) {
            cJSON_Delete(item);
            cJSON_Delete(out);
            return NULL;
        }
    }
    return out;
}

static bl_status read_content(const bl_openai_call *call, const bl_json *message, bool prefill, char **out)
{
    bl_err *err = &call->rq->err;
    const char *text = NULL;
    bl_json at;
    *out = NULL;
    if (!bl_json_find(message, "content", &at) || at.kind == BL_JSON_NULL)
        return bl_json_find(message, "tool_calls", &at)
                   ? BL_OK
                   : bl_json_fail(message, err, BL_EINVAL, "\"content\" is missing; it must be a text or a list of parts");
    if (at.kind == BL_JSON_ARRAY)
        return chat_join_parts(call, &at, prefill ? "\n\n" : "\n", out);
    BL_TRY(bl_json_string(&at, &text, err));
    *out = strdup(text);
    return *out != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a conversation");
}

static bl_status chat_add_message(conversation *v, const bl_json *message, char *content)
{
    bl_err *err = &v->call->rq->err;
    cJSON *copy = copy_value(message, err);
    if (copy != NULL && content != NULL)
        cJSON_DeleteItemFromObjectCaseSensitive(copy, "content");
    if (copy == NULL || (content != NULL && cJSON_AddStringToObject(copy, "content", content) == NULL) ||
        !cJSON_AddItemToArray(v->messages, copy)) {
        cJSON_Delete(copy);
        return bl_fail(err, BL_ENOMEM, "out of host memory for a conversation");
    }
    return BL_OK;
}

/* Does the conversation end with the beginning of the answer (prefill)? */
static bl_status find_prefill(conversation *v, const bl_json *messages, bool *prefills)
{
    bl_err *err = &v->call->rq->err;
    const bl_json *root = &v->call->root;
    bl_json_iter it = bl_json_each(messages);
    bl_json one, role, at;
    bool asked = false, last = false, before = false;
    while (bl_json_next(&it, &one)) {
        before = last;
        last = bl_json_find(&one, "role", &role) && role.kind == BL_JSON_STRING && bl_span_is(role.text, "assistant");
    }
    v->generates = true;
    if (bl_json_find(root, "add_generation_prompt", &at) && at.kind != BL_JSON_NULL)
        BL_TRY(bl_json_bool(&at, &v->generates, err));
    if (bl_json_find(root, "continue_final_message", &at) && at.kind != BL_JSON_NULL)
        BL_TRY(bl_json_bool(&at, &asked, err));
    if (asked && v->generates && bl_json_find(root, "add_generation_prompt", &at))
        return bl_fail(err, BL_EINVAL, "\"add_generation_prompt\" and \"continue_final_message\" exclude each other");
    if (last && before)
        return bl_fail(err, BL_EINVAL, "messages: the last two messages are the assistant's; only one can be continued");
    if (asked && !last)
        return bl_fail(err, BL_EINVAL, "continue_final_message: the last message is not the assistant's");
    *prefills = last;
    return BL_OK;
}

static bl_status read_messages(conversation *v)
{
    bl_err *err = &v->call->rq->err;
    bl_json messages, one, role;
    bl_json_iter it;
    size_t count = 0;
    bool prefills = false;
    BL_TRY(bl_json_need(&v->call->root, "messages", &messages, err));
    BL_TRY(bl_json_expect(&messages, BL_JSON_ARRAY, err));
    count = bl_json_count(&messages);
    if (count == 0)
        return bl_json_fail(&messages, err, BL_EINVAL, "the conversation must have at least one message");
    BL_TRY(find_prefill(v, &messages, &prefills));
    it = bl_json_each(&messages);
    while (bl_json_next(&it, &one)) {
        char *content = NULL;
        bl_status st = BL_OK;
        BL_TRY(bl_json_expect(&one, BL_JSON_OBJECT, err));
        BL_TRY(bl_json_need(&one, "role", &role, err));
        BL_TRY(bl_json_expect(&role, BL_JSON_STRING, err));
        count--;
        BL_TRY(read_content(v->call, &one, prefills && count == 0, &content));
        if (prefills && count == 0) {
            v->prefill = content;
            v->generates = true;
            continue;
        }
        st = chat_add_message(v, &one, content);
        free(content);
        BL_TRY(st);
    }
    return BL_OK;
}

/* ---- the template */

/* Add a variable if the template reads it and the request does not set it.  |value| moves in. */
static bl_status add_variable(conversation *v, const bl_chat_template *chat, const char *name, cJSON *value)
{
    bool said = !bl_chat_template_reads(chat, name);
    for (size_t i = 0; i < v->nvariables; i++)
        said = said || strcmp(v->variables[i].name, name) == 0;
    if (said) {
        cJSON_Delete(value);
        return BL_OK;
    }
    if (value == NULL || v->nmade == MADE)
        return bl_fail(&v->call->rq->err, BL_ENOMEM, "out of host memory for a conversation");
    v->made[v->nmade] = (bl_json_doc){.root = value};
    v->variables[v->nvariables++] = (bl_chat_variable){name, bl_json_root(&v->made[v->nmade++])};
    return BL_OK;
}

/* Add the variables that llama.cpp also provides: the date, and the tools as text. */
static bl_status add_usual_variables(conversation *v, const bl_chat_template *chat)
{
    bl_err *err = &v->call->rq->err;
    time_t now = time(NULL);
    struct tm day = {0};
    char date[32] = "", moment[48] = "";
    cJSON *tools = NULL;
    char *text = NULL;
    bl_json at;
    bl_status st = BL_OK;
    (void)localtime_r(&now, &day);
    (void)strftime(date, sizeof date, "%d %b %Y", &day);
    (void)strftime(moment, sizeof moment, "%b %d %Y %H:%M:%S", &day);
    BL_TRY(add_variable(v, chat, "enable_thinking", cJSON_CreateBool(v->thinks)));
    BL_TRY(add_variable(v, chat, "date_string", cJSON_CreateString(date)));
    BL_TRY(add_variable(v, chat, "datetime", cJSON_CreateString(moment)));
    if (!bl_chat_template_reads(chat, "functions"))
        return BL_OK;
    if (bl_json_find(&v->call->root, "tools", &at) && at.kind == BL_JSON_ARRAY && bl_json_count(&at) > 0) {
        tools = copy_value(&at, err);
        text = tools != NULL ? cJSON_Print(tools) : NULL;
        if (text == NULL)
            st = bl_fail(err, BL_ENOMEM, "out of host memory for a conversation");
    }
    if (st == BL_OK)
        st = add_variable(v, chat, "functions", cJSON_CreateString(text != NULL ? text : ""));
    cJSON_free(text);
    cJSON_Delete(tools);
    return st;
}

/* Read the members of chat_template_kwargs, and whether the model may reason before its answer. */
static bl_status read_variables(conversation *v)
{
    bl_err *err = &v->call->rq->err;
    const char *reasoning = v->call->in->version->config.openai.reasoning;
    bl_json object, one;
    bl_json_iter it;
    v->thinks = reasoning == NULL || strcmp(reasoning, "off") != 0;
    if (bl_json_find(&v->call->root, "chat_template_kwargs", &object) && object.kind != BL_JSON_NULL) {
        BL_TRY(bl_json_expect(&object, BL_JSON_OBJECT, err));
        it = bl_json_each(&object);
        while (bl_json_next(&it, &one)) {
            if (v->nvariables == MOST_VARIABLES - MADE)
                return bl_json_fail(&object, err, BL_EINVAL, "more than %d variables", MOST_VARIABLES - MADE);
            if (strcmp(one.key, "enable_thinking") == 0) {
                BL_TRY(bl_json_bool(&one, &v->thinks, err));
                continue;
            }
            v->variables[v->nvariables++] = (bl_chat_variable){one.key, one};
        }
    }
    return BL_OK;
}

/* Does the text end with |end|, or with |end| and a line feed? */
static bool chat_ends_with(const bl_text *text, const char *end)
{
    size_t len = strlen(end), have = text->len;
    have -= have > 0 && text->data[have - 1] == '\n';
    return have >= len && memcmp(text->data + have - len, end, len) == 0;
}

/* Without reasoning, end the text with a closed, empty reasoning section. */
static void close_thinking(const conversation *v, const char *source, bl_text *out)
{
    for (size_t i = 0; i < sizeof thinkings / sizeof thinkings[0] && !v->thinks && v->generates; i++) {
        const struct thinking *t = &thinkings[i];
        bool begun = chat_ends_with(out, t->begin);
        if (!begun && (!t->always || strstr(source, t->begin) == NULL || chat_ends_with(out, t->end)))
            continue;
        bl_text_puts(out, begun ? "" : t->begin);
        bl_text_puts(out, t->end);
    }
}

static bl_status chat_render(conversation *v, const char *source, bl_text *out)
{
    bl_err *err = &v->call->rq->err;
    bl_json_doc messages = {.root = v->messages};
    bl_chat_input input = {
        .add_generation_prompt = v->generates, .bos_token = v->text->about.bos_token, .eos_token = v->text->about.eos_token};
    bl_chat_template *chat = NULL;
    bl_json tools;
    bl_status st = bl_chat_template_parse((bl_span){source, strlen(source)}, &chat, err);
    input.messages = bl_json_root(&messages);
    if (bl_json_find(&v->call->root, "tools", &tools) && tools.kind == BL_JSON_ARRAY && bl_json_count(&tools) > 0)
        input.tools = tools;
    if (st == BL_OK)
        st = read_variables(v);
    if (st == BL_OK)
        st = add_usual_variables(v, chat);
    input.variables = v->variables;
    input.nvariables = v->nvariables;
    if (st == BL_OK)
        st = bl_chat_template_render(chat, &input, NULL, out, err);
    if (st == BL_OK) {
        close_thinking(v, source, out);
        bl_text_puts(out, v->prefill != NULL ? v->prefill : "");
        st = bl_text_status(out, err);
    }
    for (int i = 0; i < v->nmade; i++)
        cJSON_Delete(v->made[i].root);
    bl_chat_template_destroy(chat);
    return st;
}

bl_status bl_openai_render(const bl_openai_call *call, bl_text *out)
{
    const bl_model_version *version = call->in->version;
    const char *source = version->config.openai.chat_template;
    conversation v = {.call = call, .text = version->text, .messages = cJSON_CreateArray()};
    bl_status st = BL_OK;
    if (source == NULL)
        source = version->text->about.chat_template;
    if (v.messages == NULL)
        return bl_fail(&call->rq->err, BL_ENOMEM, "out of host memory for a conversation");
    st = read_messages(&v);
    if (st == BL_OK)
        st = chat_render(&v, source != NULL ? source : bl_chat_template_chatml, out);
    cJSON_Delete(v.messages);
    free(v.prefill);
    return st;
}

/* ---- handlers */

/* Tools are rendered by /apply-template only, since the server does not parse calls of tools. */
static bl_status check_tools(const bl_openai_call *call)
{
    bl_json tools, choice;
    if (!bl_json_find(&call->root, "tools", &tools) || tools.kind == BL_JSON_NULL || bl_json_count(&tools) == 0)
        return BL_OK;
    if (bl_json_find(&call->root, "tool_choice", &choice) && choice.kind == BL_JSON_STRING && bl_span_is(choice.text, "none"))
        return BL_OK;
    return bl_json_fail(&tools, &call->rq->err, BL_EINVAL, "calls of tools are not supported by this server; leave them out");
}

/* Tokenize the rendered text.  If the template has written the BOS token that the tokenizer adds too, remove one of the two. */
static bl_status tokenize_chat(const bl_openai_call *call, const bl_text *text, bl_tokens *out)
{
    const bl_text_model *model = call->in->version->text;
    const char *bos = model->about.bos_token;
    bl_span rest = {bl_text_get(text), text->len};
    bl_tokens probe = {0};
    bl_err *err = &call->rq->err;
    bl_status st = bl_tokenizer_encode(model->tokenizer, BL_S(""), SIZE_MAX, &probe, err);
    bool adds =
        st == BL_OK && probe.count > 0 && bos != NULL && bl_span_is(bl_tokenizer_piece(model->tokenizer, probe.id[0]), bos);
    free(probe.id);
    BL_TRY(st);
    if (adds && rest.len >= strlen(bos) && memcmp(rest.data, bos, strlen(bos)) == 0)
        rest = (bl_span){rest.data + strlen(bos), rest.len - strlen(bos)};
    return bl_tokenizer_encode(model->tokenizer, rest, SIZE_MAX, out, err);
}

/* The tokens of the conversation.  The caller frees them. */
static bl_status read_conversation(const bl_openai_call *call, bl_tokens *tokens)
{
    bl_text text = {.budget = &call->rq->server->memory};
    bl_status st = check_tools(call);
    if (st == BL_OK)
        st = bl_openai_render(call, &text);
    if (st == BL_OK)
        st = tokenize_chat(call, &text, tokens);
    bl_text_fini(&text);
    return st;
}

bl_status bl_handle_openai_chat(bl_request *rq)
{
    bl_openai_call call;
    bl_tokens tokens = {0};
    bl_status st = BL_OK;
    BL_TRY(bl_openai_open(rq, &call));
    if (call.in == NULL)
        return BL_OK;
    BL_TRY(bl_openai_make(&call, &bl_openai_chat_form, "chatcmpl-"));
    st = read_conversation(&call, &tokens);
    if (st == BL_OK)
        st = bl_openai_add(&call, &tokens);
    free(tokens.id);
    BL_TRY(st);
    return bl_completion_begin(call.c);
}

bl_status bl_handle_openai_count(bl_request *rq)
{
    bl_openai_call call;
    bl_tokens tokens = {0};
    bl_status st = BL_OK;
    BL_TRY(bl_openai_open(rq, &call));
    if (call.in == NULL)
        return BL_OK;
    st = read_conversation(&call, &tokens);
    free(tokens.id);
    BL_TRY(st);
    bl_text_printf(&rq->reply.out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", tokens.count);
    bl_request_reply_json(rq, 200);
    call.in->state = BL_INFER_ANSWERED;
    return BL_OK;
}

bl_status bl_handle_llama_template(bl_request *rq)
{
    bl_openai_call call;
    bl_text text = {.budget = &rq->server->memory};
    bl_status st = BL_OK;
    BL_TRY(bl_openai_open(rq, &call));
    if (call.in == NULL)
        return BL_OK;
    st = bl_openai_render(&call, &text);
    if (st == BL_OK) {
        bl_text_puts(&rq->reply.out, "{\"prompt\":");
        bl_encode_span(&rq->reply.out, (bl_span){bl_text_get(&text), text.len});
        bl_text_putc(&rq->reply.out, '}');
        bl_request_reply_json(rq, 200);
        call.in->state = BL_INFER_ANSWERED;
    }
    bl_text_fini(&text);
    return st;
}
