/* SPDX-License-Identifier: MIT */
/* Handlers of OpenAI's API (/v1) and of llama.cpp's server, for hosted text models.  A handler reads the request's document,
 * makes a completion (server/models/completion.h), and chooses the form of the answer. */
#ifndef BL_SERVER_OPENAI_H
#define BL_SERVER_OPENAI_H

#include "server/models/generation.h"

/* A request that is being read: its document, and the model that it names. */
typedef struct bl_openai_call {
    bl_request *rq;
    bl_json root; /* the root of the document, which is freed with the request */
    bl_infer *in; /* NULL: the handler is called again on an offload thread */
    bl_completion *c;
} bl_openai_call;

/* ---- openai_request.c */
/* Read the document and find its model.  The model is a text model, so call->in->version->text is set. */
BL_NODISCARD bl_status bl_openai_open(bl_request *rq, bl_openai_call *call);
/* Like bl_openai_open, for any model with a tokenizer. */
BL_NODISCARD bl_status bl_openai_open_tokens(bl_request *rq, bl_openai_call *call);
/* Like bl_openai_open, for any model; only |root| and |in| are filled.  |vectors|: a request that names no model means the
 * embedding model. */
BL_NODISCARD bl_status bl_openai_open_any(bl_request *rq, bl_infer_write write, bool vectors, bl_openai_call *call);
/* Create the completion with the options of the request.  |form|: the form of the answer.  |id|: the prefix of its id. */
BL_NODISCARD bl_status bl_openai_make(bl_openai_call *call, const bl_text_form *form, const char *id);
/* Add the prompt |n| times, for the |n| texts of the request.  Fails if the prompt exceeds the context; the error has both
 * numbers. */
BL_NODISCARD bl_status bl_openai_add(bl_openai_call *call, const bl_tokens *prompt);
/* Add the prompts of the member "prompt": strings, tokens, or lists of these.  *several: the member is a list of prompts. */
BL_NODISCARD bl_status bl_openai_add_prompts(bl_openai_call *call, bool *several);
/* A list that has numbers is one prompt; a list of strings or lists is several prompts. */
bool bl_openai_is_one_prompt(const bl_json *at);
/* Append the tokens of a string, or of a list of tokens and strings, to |out|. */
BL_NODISCARD bl_status bl_openai_read_tokens(const bl_openai_call *call, const bl_json *at, bool special, bl_tokens *out);
/* Set rq->head.param[0] to the model: |name|, the model with this alias, or the only suitable model if |name| is NULL. */
BL_NODISCARD bl_status bl_openai_choose_model(bl_request *rq, const char *name, bool vectors);
/* Make a random identifier that begins with |prefix|. */
const char *bl_openai_make_id(bl_arena *arena, const char *prefix);

/* ---- chat.c */
/* Render the member "messages" as one text, by the model's chat template. */
BL_NODISCARD bl_status bl_openai_render(const bl_openai_call *call, bl_text *out);

/* ---- openai_reply.c */
extern const bl_text_form bl_openai_chat_form, bl_openai_text_form, bl_llama_form;
void bl_openai_put_usage(const bl_completion *c, bl_text *out);
void bl_openai_put_model(const bl_completion *c, bl_text *out);

/* ---- details.c: members of llama.cpp's answers */
void bl_llama_put_settings(const bl_text_model *text, const bl_text_options *options, bl_text *out);
void bl_llama_put_timings(const bl_completion *c, const bl_generation *g, bl_text *out);
/* Print a finished text as an object; with response_fields, only these fields. */
void bl_llama_put_text(const bl_generation *g, bl_text *out);
/* Print a float with its shortest digits; infinity becomes the nearest finite number, NaN becomes 0. */
void bl_openai_put_float(bl_text *out, float value);
/* Print the probabilities of tokens |from| to |to| of the answer as a list of objects. */
void bl_openai_put_chances(const bl_generation *g, size_t from, size_t to, bl_text *out);
/* How many tokens belong to the part of the text that has been reported so far. */
size_t bl_openai_count_told(const bl_generation *g);
/* The text of a token in the answer, cut before an incomplete character. */
bl_span bl_openai_token_text(const bl_generation *g, const bl_text_token *token);

#endif
