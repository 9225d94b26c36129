/* SPDX-License-Identifier: MIT */
#include "server/models/draft.h"

#include "server/models/generation.h"

enum {
    LEAST_MATCH = 2, /* tokens of an n-gram */
    MOST_MATCH = 16
};
static const double FIRST_RATE = 0.5; /* of a text without measurements */
static const double NEW_TOKEN = 0.1;  /* the weight of a proposed token in the moving average */

void bl_draft_init(bl_generation *g)
{
    const bl_config_draft *config = &g->version->config.draft;
    const bl_text_options *o = g->options;
    if (config->name == NULL)
        return;
    g->draft.most = o->draft_max >= 0 && o->draft_max < config->most ? o->draft_max : config->most;
    g->draft.least = o->draft_min >= 0 ? o->draft_min : config->least;
    g->draft.rate = FIRST_RATE;
}

size_t bl_draft_repeat(int32_t *tokens, size_t count, size_t most)
{
    size_t longest = LEAST_MATCH - 1, from = 0;
    for (size_t end = count - 1; end >= LEAST_MATCH && longest < MOST_MATCH; end--) {
        size_t n = 0;
        while (n < MOST_MATCH && n < end && tokens[end - 1 - n] == tokens[count - 1 - n])
            n++;
        from = n > longest ? end : from;
        longest = n > longest ? n : longest;
    }
    for (size_t i = 0; i < most && from > 0; i++)
        tokens[count + i] = tokens[from + i]; /* a repetition may go on in its own proposal */
    return from > 0 ? most : 0;
}

/* Only a text whose next run chooses a token has a proposal, of at most as many tokens as it may still have. */
static void draft_propose(bl_generation *g, int64_t rows)
{
    bl_draft *draft = &g->draft;
    size_t most = (size_t)(draft->most < rows ? draft->most : rows), left = g->tokens.cap - g->tokens.count;
    draft->count = 0;
    most = most < left ? most : left - (left > 0);
    if (most == 0 || g->fed + 1 != g->tokens.count)
        return;
    draft->count = bl_draft_repeat(g->tokens.id, g->tokens.count, most);
    if ((int64_t)draft->count < draft->least)
        draft->count = 0;
}

/* The text whose next proposed token has the best chance; NULL: no text has one.  A proposed token counts if all before it are
 * right. */
static bl_generation *draft_best(bl_generation *first)
{
    bl_generation *best = NULL;
    for (bl_generation *g = first; g != NULL; g = g->batch.next)
        if (g->batch.rows <= (int64_t)g->draft.count && (best == NULL || g->draft.chance > best->draft.chance))
            best = g;
    return best;
}

static int64_t draft_deal_rows(bl_generation *first, int64_t texts, int64_t most, double *gain)
{
    int64_t rows = texts;
    for (bl_generation *g = first; g != NULL; g = g->batch.next) {
        g->batch.rows = 1;
        g->draft.chance = g->draft.rate;
    }
    for (bl_generation *best = NULL; rows < most && (best = draft_best(first)) != NULL; rows++) {
        if (gain != NULL)
            gain[rows + 1] = gain[rows] + best->draft.chance;
        best->draft.chance *= best->draft.rate;
        best->batch.rows++;
    }
    return rows;
}

int64_t bl_drafts_propose(bl_generation *first, int64_t texts, int64_t most, double *gain)
{
    for (bl_generation *g = first; g != NULL; g = g->batch.next)
        draft_propose(g, most - texts);
    gain[texts] = (double)texts;
    return draft_deal_rows(first, texts, most, gain);
}

void bl_drafts_deal(bl_generation *first, int64_t texts, int64_t rows)
{
    (void)draft_deal_rows(first, texts, rows, NULL);
}

bool bl_draft_accepts(bl_generation *g, size_t i, int32_t id)
{
    bl_draft *draft = &g->draft;
    bool right = false;
    if (i >= draft->count)
        return false;
    right = g->tokens.id[g->tokens.count] == id;
    draft->rate += NEW_TOKEN * ((right ? 1 : 0) - draft->rate); /* also of a proposal that did not run */
    if (i + 1 >= (size_t)g->batch.rows)
        return false;
    draft->accepted += right;
    return right;
}
