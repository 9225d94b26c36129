/* SPDX-License-Identifier: MIT */
/* The answer of one text: the tokens that a client sees, and their characters.  A character of several tokens and the
 * possible beginning of a stop string are pending until the next tokens decide.
 *
 * Thread: the thread that has the text; |written| under the completion's lock. */
#ifndef BL_SERVER_MODELS_TEXT_ANSWER_H
#define BL_SERVER_MODELS_TEXT_ANSWER_H

#include "server/models/text_model.h"

/* A token of the answer. */
typedef struct bl_text_token {
    int32_t id;
    bool first;       /* only special tokens came before it */
    bool known;       /* |chance| is valid; false for the first token of a prompt */
    float chance;     /* log probability of the token; its probability with the option post_sampling */
    size_t at;        /* offset of its bytes in the text */
    size_t top, ntop; /* range of the likeliest alternatives in answer->top */
} bl_text_token;

typedef struct bl_text_answer {
    const bl_text_model *text; /* both of the completion */
    const bl_text_options *options;
    bl_budget *budget;
    size_t charged; /* bytes of |budget| for |tokens| and |top| */
    bl_text_token *tokens;
    size_t ntokens, cap, ntold; /* |ntold|: tokens that events have reported */
    bl_token_chance *top;
    size_t ntop;
    bl_text pending;        /* decoded bytes that are not reported yet */
    size_t taken;           /* number of bytes reported before |pending| */
    size_t echoed;          /* bytes of the echoed prompt; stop strings are not searched there */
    bool silent;            /* no text has been decoded yet */
    bool new_line;          /* the reported text has a line break */
    const char *finish;     /* why the text is over; NULL: it is not over */
    const char *stopped_by; /* the stop string that ended the text; NULL: none */
    bl_text written;        /* the reported characters, if the answer is not streamed */
} bl_text_answer;

/* Begin the answer to |prompt|, with the prompt if the request asks for an echo.  Call bl_text_answer_fini on failure too. */
BL_NODISCARD bl_status bl_text_answer_init(bl_text_answer *answer, const bl_text_model *text, const bl_text_options *options,
                                           bl_budget *budget, const bl_tokens *prompt, bl_err *err);
void bl_text_answer_fini(bl_text_answer *answer);
/* Reserve room for |count| more tokens, with their likeliest alternatives.  |tokens| and |top| may move. */
BL_NODISCARD bl_status bl_text_answer_reserve(bl_text_answer *answer, size_t count, bl_err *err);
/* Fill |token| with the probability of |id| by |count| logits, and with the likeliest alternatives. */
void bl_text_answer_put_chances(bl_text_answer *answer, const float *logits, size_t count, int32_t id, double log_sum,
                                bl_text_token *token);
/* Append the generated token |id|, which may end the answer.  If probabilities are reported, the caller has filled those of
 * answer->tokens[answer->ntokens].  *certain is the number of pending bytes that can be reported. */
BL_NODISCARD bl_status bl_text_answer_add(bl_text_answer *answer, int32_t id, size_t *certain, bl_err *err);
/* Move the first |len| pending bytes to |out| as characters; an invalid byte becomes U+FFFD. */
void bl_text_answer_take(bl_text_answer *answer, size_t len, bl_text *out);

#endif
