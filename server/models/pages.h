/* SPDX-License-Identifier: MIT */
/* Keys and values in pages (PagedAttention: Kwon et al., 2023).  The program of a text model has them as state that all of its
 * texts share, and updates it in place: a page has those of BL_PAGE_TOKENS tokens that stand one behind the other in a text, and
 * a table says which pages a text has.  The form of such a program, by the names of its tensors:
 *
 *     inputs   tokens    int32 [rows, n]      the next n tokens of each text
 *              position  int32 [rows]         how many tokens of the text come before them
 *              slots     int32 [rows, n]      where the keys and values of each token are stored: page * 32 + place in the page.
 * A number behind the last page: they are not stored table     int32 [rows, pages]  the text's pages, in order; what stands
 * behind the last is the number of some page updates  every updated state has the pages of the pool as its first axis, the same
 * number of them, and places in a page on any other axis, such as [P, groups, size, 32] for keys (lanes along tokens) and [P,
 * groups, 32, size] for values outputs  logits    floats [rows, vocabulary] of the last token of each text, or [rows, n,
 * vocabulary]
 *
 * rows, n and pages are named dimensions from 1 on: pages up to the context / 32, and P is at least that.  The update of a state
 * is index_put(state, new, slots), on a view of the state whose first axis counts page * 32 + place (permute, then reshape, and
 * back), so that the engine stores only those places.  Attention reads the updated state by take(state, table).  A page may hold
 * what another text left behind, NaN too: scores of places p > position + i are replaced (where) before the softmax, and values
 * of places p >= position + n are replaced by zero (where) before they are multiplied by weights. */
#ifndef BL_SERVER_MODELS_PAGES_H
#define BL_SERVER_MODELS_PAGES_H

enum { BL_PAGE_TOKENS = 32 };

#endif
