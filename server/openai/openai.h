/* SPDX-License-Identifier: MIT */
/* Addresses of OpenAI's API (/v1) and of llama.cpp's server, on the machinery of hosted text models.  A handler reads the
 * request's document, makes a completion (server/models/completion.h) of it, and chooses how the texts are told. */
#ifndef BL_SERVER_OPENAI_H
#define BL_SERVER_OPENAI_H

#include "server/models/generation.h"

/* A request on its way in: its document, and the model that it names. */
typedef struct bl_openai_call {
    bl_request *rq;
    bl_json root; /* of the document, which ends with the request */
    bl_infer *in; /* NULL: the handler is called again on an offload thread */
    bl_completion *c;
} bl_openai_call;

/* ---- openai_request.c */
/* Read the document and find its model: a text model, of which call->in->version->text is then known. */
BL_NODISCARD bl_status bl_openai_open(bl_request *rq, bl_openai_call *call);
/* The same for any model with a tokenizer. */
BL_NODISCARD bl_status bl_openai_open_tokens(bl_request *rq, bl_openai_call *call);
/* The same for any model, without a text of it: only |root| and |in| are filled.  |vectors|: a request that names no model is for
 * one that makes vectors of texts. */
BL_NODISCARD bl_status bl_openai_open_any(bl_request *rq, bl_infer_write write, bool vectors, bl_openai_call *call);
/* The completion and its options, which are told as |form| says; |id|: what its identifier begins with. */
BL_NODISCARD bl_status bl_openai_make(bl_openai_call *call, const bl_text_form *form, const char *id);
/* n texts for a prompt of these tokens.  The error has both numbers where they do not fit. */
BL_NODISCARD bl_status bl_openai_add(bl_openai_call *call, const bl_tokens *prompt);
/* The prompts of the member "prompt": texts, tokens, or lists of them.  *several: it is a list of prompts. */
BL_NODISCARD bl_status bl_openai_add_prompts(bl_openai_call *call, bool *several);
/* A list is one prompt where it has numbers, and many where it has texts or lists. */
bool bl_openai_is_one_prompt(const bl_json *at);
/* The tokens of a text, or of a list of tokens and texts, to |out|. */
BL_NODISCARD bl_status bl_openai_read_tokens(const bl_openai_call *call, const bl_json *at, bool special, bl_tokens *out);
/* The name of the model that a request without one, or with a name that is an alias, means: rq->head.param[0]. */
BL_NODISCARD bl_status bl_openai_choose_model(bl_request *rq, const char *name, bool vectors);
/* Begins with |prefix|, and is not to be guessed. */
const char *bl_openai_make_id(bl_arena *arena, const char *prefix);

/* ---- chat.c */
/* The member "messages" as one text, by the model's template. */
BL_NODISCARD bl_status bl_openai_render(const bl_openai_call *call, bl_text *out);

/* ---- openai_reply.c */
extern const bl_text_form bl_openai_chat_form, bl_openai_text_form, bl_llama_form;
void bl_openai_put_usage(const bl_completion *c, bl_text *out);
void bl_openai_put_model(const bl_completion *c, bl_text *out);

/* ---- details.c: what llama.cpp tells besides */
void bl_llama_put_settings(const bl_text_model *text, const bl_text_options *options, bl_text *out);
void bl_llama_put_timings(const bl_completion *c, const bl_generation *g, bl_text *out);
/* A text that is over, as an object; with response_fields only those. */
void bl_llama_put_text(const bl_generation *g, bl_text *out);
/* A float by its shortest digits; one that JSON cannot write as the nearest that it can. */
void bl_openai_put_float(bl_text *out, float value);
/* What is known of tokens |from| to |to| of the answer, as a list of objects. */
void bl_openai_put_chances(const bl_generation *g, size_t from, size_t to, bl_text *out);
/* How many of the tokens are told with the text that was told by now. */
size_t bl_openai_count_told(const bl_generation *g);
/* The text of a token within the answer, cut where it is not UTF-8. */
bl_span bl_openai_token_text(const bl_generation *g, const bl_text_token *token);

#endif
