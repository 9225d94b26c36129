/* SPDX-License-Identifier: MIT */
/* Speculative decoding (Leviathan et al., 2023).  A draft proposes the next tokens of a text, and one run of the model computes
 * the logits behind each of them.  The sampler then chooses token by token, as without a draft, until it chooses another token
 * than the proposed one.  So a draft changes the number of runs, and not the text.
 *
 * Each proposed token is one more row of the run, with the pages of its text.  A program stores the keys and values of all rows
 * before a row reads the pages (pages.h), so a row sees the tokens of the rows before it.  Rows of texts and rows of proposals
 * are alike: they share the plans of a run and the measured times of its sizes (server/batch/sizes.h).  From these times and
 * from the proposals that texts accepted, a run chooses how many proposed tokens it has.
 *
 * Proposals are the tokens behind the last n-gram of the text where the text had this n-gram before (prompt lookup decoding), or
 * the likeliest tokens by a draft model: a smaller model with the same vocabulary. The version of the model owns that of the
 * draft model.
 *
 * Worker's thread, except for bl_draft_init, bl_draft_prepare and bl_draft_fini. */
#ifndef BL_SERVER_MODELS_DRAFT_H
#define BL_SERVER_MODELS_DRAFT_H

#include "server/models/text_model.h"

enum { BL_DRAFT_ROWS = 512 /* a run with more rows has no proposed tokens */ };

typedef struct bl_generation bl_generation;

/* The proposal of a text.  Zeroed: the text has no draft. */
typedef struct bl_draft {
    int64_t least, most;        /* proposed tokens of a run; most 0: none */
    float p_min;                /* of a draft model: the least probability of a proposed token */
    bl_generation *text;        /* the text in the draft model, which shares the tokens; NULL: proposals come from n-grams */
    size_t count;               /* proposed tokens for the next run, behind the tokens of the text */
    double rate;                /* moving average: how many of the proposed tokens were right */
    double chance;              /* while rows are dealt: of the next proposed token without a row, that it is right */
    int64_t proposed, accepted; /* tokens of proposals in runs so far */
} bl_draft;

/* Set the limits of |g| from its request and its model. */
void bl_draft_init(bl_generation *g);
/* With a draft model: reserve the memory of its runs, while the request |in| arrives. */
BL_NODISCARD bl_status bl_draft_prepare(bl_generation *g, bl_infer *in);
void bl_draft_fini(bl_generation *g);
/* The largest number of tokens up to |most| that repeat an earlier part of |tokens|, behind the longest n-gram that the end of
 * |tokens| shares with it.  They are stored behind |tokens|.  0: no n-gram occurs twice. */
size_t bl_draft_repeat(int32_t *tokens, size_t count, size_t most);
/* The texts of a run are |first| and those beside it, |texts| in number.  worth[r] becomes the expected number of tokens of a run
 * of r rows, and the time of the proposals, from |texts| to the result, which is at most |most|. */
int64_t bl_drafts_weigh(bl_generation *first, int64_t texts, int64_t most, bl_rows_worth *worth);
/* Deal |rows| rows among the texts, first the rows with the best expectation, and propose tokens for them.  A text has at most
 * as many rows as tokens: a draft model may propose fewer. If a draft model fails, its texts go on without proposals. */
void bl_drafts_propose(bl_generation *first, int64_t texts, int64_t rows);
/* Like bl_text_pages_wait, for the text in the draft model. */
void bl_draft_wait(bl_generation *g);
/* The sampler chose |id|, which is not in the text yet: was it the proposed token |i|? */
bool bl_draft_accepts(bl_generation *g, size_t i, int32_t id);

#endif
