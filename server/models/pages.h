/* SPDX-License-Identifier: MIT */
/* Keys and values in pages (PagedAttention: Kwon et al., 2023).  The program of a text model has keys and values as state that
 * all its texts share, and updates the state in place.  A page has the keys and values of BL_PAGE_TOKENS consecutive tokens of a
 * text, and a table says which pages a text has.  The form of such a program, by the names of its tensors:
 *
 * - input tokens, int32 [rows, n]: the next n tokens of each text.
 *
 * - input position, int32 [rows]: the number of tokens that come before them in the text.
 *
 * - input slots, int32 [rows, n]: where the keys and values of each token are stored, page * 32 + place in the page.  A number
 * behind the last page: they are not stored.
 *
 * - input table, int32 [rows, pages]: the pages of each text, in order.  Behind its last page the table has the number of any
 * page.
 *
 * - updates: every updated state has the pages of the pool as its first axis, P of them for all states, and the places of a page
 * on any other axis, such as [P, groups, size, 32] for keys (lanes along tokens) and [P, groups, 32, size] for values.
 *
 * - output logits: floats [rows, vocabulary] of the last token of each text, or [rows, n, vocabulary].
 *
 * rows, n and pages are named dimensions from 1 on: pages up to the context / 32, and P is at least that.  The update of a state
 * is index_put(state, new, slots), on a view of the state whose first axis counts page * 32 + place (permute, then reshape, and
 * back), so that the engine stores only those places.  Attention reads the updated state by take(state, table).  A page may have
 * values of another text, NaN included: scores of places p > position + i are replaced (where) before the softmax, and values of
 * places p >= position + n are replaced by zero (where) before they are multiplied by weights. */
#ifndef BL_SERVER_MODELS_PAGES_H
#define BL_SERVER_MODELS_PAGES_H

#include "server/models/models_internal.h"

enum {
    BL_PAGE_TOKENS = 32,
    BL_FIRST_PAGES = 8 /* of a state that begins as zeros */
};

/* The pages of an instance, and a tree of the full ones by their tokens, and of the last ones of texts that ended: a text that
 * begins with the same tokens shares full pages, and copies the page in which its own tokens begin.
 * Pages that no text has stay in the tree.  Where all places are taken, the page that was used longest ago leaves for the host,
 * then those of the youngest texts, which wait.
 * Any thread, but for what says worker's thread: the program's state is touched there alone. */
typedef struct bl_pages bl_pages;
typedef struct bl_page bl_page;

/* What a text has of them.  Zeroed is nothing. */
typedef struct bl_text_pages bl_text_pages;
struct bl_text_pages {
    bl_pages *pool; /* NULL: it has not begun */
    uint32_t owner;
    uint64_t number; /* of later texts it is greater */
    bl_page **page;
    size_t count, cap;
    size_t full;                  /* so many of them are in the tree */
    bl_page *source;              /* the page behind those begins as this one, and is to be copied; or NULL */
    bool busy;                    /* a run has them */
    bool rests;                   /* no run will soon */
    bl_text_pages *before, *next; /* of the pool */
};

/* ---- pages_form.c */
/* Is this the form above?  Then |*count| is how many pages the state has. */
BL_NODISCARD bl_status bl_pages_describe(const bl_model_version *version, int64_t *count, bl_err *err);
/* A document that was made for |version| by an importer, which knows that no entry reads a page but those of its table: states of
 * pages that begin as zeros have few of them at first, and more when texts need them. */
void bl_pages_shrink(const bl_model_version *version, bl_program_doc *doc);

/* ---- pages.c */
/* Of an instance of a version that has the form.  |shared|: all keys share what they wrote. */
BL_NODISCARD bl_status bl_pages_create(bl_model_instance *instance, int64_t count, bool shared, bl_pages **out, bl_err *err);
void bl_pages_destroy(bl_pages *pages); /* accepts NULL */
/* Before a run of |plan|: one that goes over whole states needs as many pages as their types say.  Worker's thread. */
BL_NODISCARD bl_status bl_pages_admit(bl_pages *pages, const bl_plan *plan, bl_err *err);

/* A text begins with |tokens|: it has the longest chain of pages that are known of them; *fed is how many tokens these have,
 * fewer than |count|.  |found| false: none is looked for. */
BL_NODISCARD bl_status bl_text_pages_begin(bl_text_pages *text, bl_pages *pages, uint32_t owner, const int32_t *tokens,
                                           size_t count, bool found, size_t *fed, bl_err *err);
/* Pages for |count| tokens, on the device until bl_text_pages_rest; |*ready| false: older texts have the places, and this one has
 * to wait until the gate of its pool changes.  Worker's thread. */
BL_NODISCARD bl_status bl_text_pages_reserve(bl_text_pages *text, size_t count, bool *ready, bl_err *err);
/* It changes when a text that was not given a place may be given one. */
bl_gate *bl_text_pages_gate(const bl_text_pages *text);
/* A run is over, and the first |count| of |tokens| are in pages: full pages can be found from now on, the last one when the text
 * ends. */
void bl_text_pages_rest(bl_text_pages *text, const int32_t *tokens, size_t count);
/* It waits for its client until its next run: older or not, its pages may leave. */
void bl_text_pages_wait(bl_text_pages *text);
int64_t bl_text_pages_place(const bl_text_pages *text, size_t token); /* in a state: page * BL_PAGE_TOKENS + place */
int64_t bl_text_pages_page(const bl_text_pages *text, size_t i);      /* 0: it has no such page */
void bl_text_pages_end(bl_text_pages *text);

#endif
