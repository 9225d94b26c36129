/* SPDX-License-Identifier: MIT */
/* A paged KV cache (PagedAttention: Kwon et al., 2023).  The program of a text model has keys and values as state that all its
 * texts share, and updates the state in place.  A page has the keys and values of BL_PAGE_TOKENS consecutive tokens of a text.
 * A table lists the pages of each text.  Such a program has the following form, by the names of its tensors:
 *
 * - input tokens, int32 [rows, n]: the next n tokens of each text.  A text may have several rows, with consecutive pieces of
 * its tokens.
 *
 * - input position, int32 [rows]: the number of tokens that come before them in the text.
 *
 * - input slots, int32 [rows, n]: the slot of the keys and values of each token, page * BL_PAGE_TOKENS + offset in the page.  A
 * slot behind the last page means that they are not stored.
 *
 * - input table, int32 [rows, pages]: the pages of each text, in order.  Elements behind the last page of a text are the
 * number of any page.
 *
 * - updates: the first axis of every updated state is the pages of the pool, P of them in all states.  Another axis is the
 * offset in a page, such as [P, groups, size, 32] for keys (lanes along tokens) and [P, groups, 32, size] for values.
 *
 * - output logits: floats [rows, vocabulary] of the last token of each text, or [rows, n, vocabulary].
 *
 * rows, n and pages are named dimensions with the lower bound 1.  The upper bound of pages is the context / 32, and P is at
 * least this bound.  The update of a state is index_put(state, new, slots), on a view of the state whose first axis counts
 * slots (permute, then reshape, and back), so that the engine stores only these slots.  Attention reads the updated state by
 * take(state, table).  A page may have values of another text, NaN included.  So scores of token positions p > position + i
 * are replaced (where) before the softmax, and values of token positions p >= position + n are replaced by zero (where) before
 * they are multiplied by weights. */
#ifndef BL_SERVER_MODELS_PAGES_H
#define BL_SERVER_MODELS_PAGES_H

#include "server/models/models_internal.h"

enum {
    BL_PAGE_TOKENS = 32,
    BL_FIRST_PAGES = 8 /* initial number of pages of a state that begins as zeros */
};

/* The page pool of an instance, with its prefix cache.  The prefix cache is a tree of full pages by their tokens, and of the
 * last pages of texts that ended.  A text that begins with the same tokens shares the full pages, and copies the page in which
 * its own tokens begin.
 *
 * A page that no text uses stays in the tree.  When a text needs a page and none is free, the pool first grows. Then the least
 * recently used page of the tree moves to host memory, which keeps at most as many pages as the pool may have and drops its
 * oldest page beyond that. Then the pages of the youngest texts move, and those texts wait.
 *
 * Thread: any, except functions marked "Worker's thread"; only that thread touches the state of the program. */
typedef struct bl_pages bl_pages;
typedef struct bl_page bl_page;

typedef enum bl_text_pages_state {
    BL_PAGES_WAIT, /* for the next run of the text; an older text may evict the pages */
    BL_PAGES_BUSY, /* a run uses the pages */
    BL_PAGES_REST  /* no run of the text will come soon; every text may evict the pages */
} bl_text_pages_state;

/* The page table of one text.  A zeroed table is empty. */
typedef struct bl_text_pages bl_text_pages;
struct bl_text_pages {
    bl_pages *pool; /* NULL: the text has not begun */
    uint32_t owner;
    uint64_t number; /* increases from text to text */
    bl_page **page;
    size_t count, cap;
    size_t full;     /* the first |full| pages are in the tree */
    bl_page *source; /* a page to copy into the page behind the full pages; or NULL */
    bl_text_pages_state state;
    bl_text_pages *before, *next; /* list of the texts of the pool */
};

/* ---- pages_form.c */
/* Check that the version has the form above.  *count: the number of pages of its states. */
BL_NODISCARD bl_status bl_pages_describe(const bl_model_version *version, int64_t *count, bl_err *err);
/* Allocate few pages at first for the states that begin as zeros; the pool grows them on demand.  Only for a document that an
 * importer made, whose entries read only the pages of their table. */
void bl_pages_shrink(const bl_model_version *version, bl_program_doc *doc);

/* ---- pages.c */
/* |instance|: of a version that has the form above.  |shared|: all keys share one prefix cache. */
BL_NODISCARD bl_status bl_pages_create(bl_model_instance *instance, int64_t count, bool shared, bl_pages **out, bl_err *err);
void bl_pages_destroy(bl_pages *pages); /* accepts NULL */
/* Call before a run of |plan|.  A plan that updates a whole state, and not in place, needs the full number of pages.  Worker's
 * thread. */
BL_NODISCARD bl_status bl_pages_admit(bl_pages *pages, const bl_plan *plan, bl_err *err);

/* Begin a text with |tokens|.  The text takes the longest chain of cached pages; *fed is the number of tokens that these pages
 * cover, fewer than |count|.  |found| false: the prefix cache is not used. */
BL_NODISCARD bl_status bl_text_pages_begin(bl_text_pages *text, bl_pages *pages, uint32_t owner, const int32_t *tokens,
                                           size_t count, bool found, size_t *fed, bl_err *err);
/* Make pages for |count| tokens resident on the device until bl_text_pages_rest.  *ready false: older texts use all pages, so
 * the text must wait until the gate of its pool changes.  Worker's thread. */
BL_NODISCARD bl_status bl_text_pages_reserve(bl_text_pages *text, size_t count, bool *ready, bl_err *err);
/* Changes when a text that was refused pages should try again. */
bl_gate *bl_text_pages_gate(const bl_text_pages *text);
/* A run is over, and the keys and values of the first |count| of |tokens| are in the pages.  Full pages enter the prefix cache
 * now, the last page when the text ends. */
void bl_text_pages_rest(bl_text_pages *text, const int32_t *tokens, size_t count);
/* The text waits for its client before its next run.  Its pages may be evicted, whatever its age. */
void bl_text_pages_wait(bl_text_pages *text);
/* slot of a token in a state: page * BL_PAGE_TOKENS + offset in the page */
int64_t bl_text_pages_place(const bl_text_pages *text, size_t token);
int64_t bl_text_pages_page(const bl_text_pages *text, size_t i); /* 0: the text has no such page */
void bl_text_pages_end(bl_text_pages *text);

#endif
