/* SPDX-License-Identifier: MIT */
/* Encodes one word with the model of the file. */
#include "proto/tokenizer_parts.h"

#include "engine/base/map.h"
#include "proto/utf8.h"

#include <string.h>

/* A part of a word: a token, a character without a token, or an entry that was joined to another. */
typedef struct bl_token_symbol {
    int32_t id;     /* or -1 */
    int prev, next; /* -1: none */
    const char *text;
    int len; /* bytes; 0: joined to another symbol */
} symbol;

/* Two symbols that can be joined. */
typedef struct bl_token_candidate {
    int32_t rank, joined;
    int at;
} candidate;

/* The best segmentation up to a position of a word. */
typedef struct bl_token_path {
    double score;
    int32_t id;       /* of its last token */
    int32_t from, to; /* start of that token, -1: not reachable yet; end of the next token on the best path */
} path;

const bl_token_pair *bl_tokenizer_pair(const bl_tokenizer *tokenizer, int32_t left, int32_t right)
{
    size_t mask = tokenizer->pair_slots - 1;
    size_t at = bl_hash_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & mask;
    for (; tokenizer->pairs[at].left >= 0; at = (at + 1) & mask)
        if (tokenizer->pairs[at].left == left && tokenizer->pairs[at].right == right)
            return &tokenizer->pairs[at];
    return NULL;
}

static size_t next_length(bl_span text, size_t at)
{
    return bl_utf8_length(text.data + at, text.len - at);
}

static bool has_byte_tokens(const bl_tokenizer *t, bl_span text)
{
    bool all = t->byte_fallback;
    for (size_t i = 0; all && i < text.len; i++)
        all = t->byte[(unsigned char)text.data[i]] >= 0;
    return all;
}

/* ---- BPE: merging the symbols of a word in the order of the merges' ranks */

static bool tokenizer_words_is_before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* The token that two symbols join to, and its rank. */
static bool find_joined(const bl_tokenizer *t, const symbol *left, const symbol *right, candidate *out)
{
    if (t->model == BL_TOKENS_SPM) {
        bl_span both = {left->text, (size_t)left->len + (size_t)right->len}; /* the symbols are adjacent in memory */
        int32_t id = both.len <= t->longest ? bl_tokenizer_find(t, both) : -1;
        *out = (candidate){id >= 0 ? t->ranks[id] : 0, id, 0};
        return id >= 0;
    }
    const bl_token_pair *pair = bl_tokenizer_pair(t, left->id, right->id);
    if (pair != NULL)
        *out = (candidate){pair->rank, pair->joined, 0};
    return pair != NULL;
}

static bl_status push_candidate(bl_token_encoder *e, int left, int right)
{
    candidate found;
    size_t i = e->heaped;
    if (left < 0 || right < 0 || !find_joined(e->tokenizer, &e->symbols[left], &e->symbols[right], &found))
        return BL_OK;
    found.at = left;
    BL_TRY(bl_token_grow(e, &e->heap, e->heaped + 1, &e->heap_cap, sizeof *e->heap));
    e->heap[e->heaped++] = found;
    for (; i > 0 && tokenizer_words_is_before(&e->heap[i], &e->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        candidate swap = e->heap[i];
        e->heap[i] = e->heap[(i - 1) / 2];
        e->heap[(i - 1) / 2] = swap;
    }
    return BL_OK;
}

static candidate pop_candidate(bl_token_encoder *e)
{
    candidate top = e->heap[0], last = e->heap[--e->heaped];
    size_t i = 0, child = 1;
    for (; child < e->heaped; child = 2 * i + 1) {
        if (child + 1 < e->heaped && tokenizer_words_is_before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!tokenizer_words_is_before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

/* A candidate in the heap is stale if its symbols have been joined with others since. */
static bool still_holds(const bl_token_encoder *e, const candidate *c)
{
    const bl_tokenizer *t = e->tokenizer;
    const symbol *left = &e->symbols[c->at], *right = left->next >= 0 ? &e->symbols[left->next] : NULL;
    candidate now;
    if (left->len == 0 || right == NULL)
        return false;
    if (t->model == BL_TOKENS_SPM) /* both texts start at |left|, so equal lengths mean equal texts */
        return (size_t)left->len + (size_t)right->len == t->tokens[c->joined].text.len;
    return find_joined(t, left, right, &now) && now.joined == c->joined && now.rank == c->rank;
}

static bl_status tokenizer_words_join(bl_token_encoder *e)
{
    e->heaped = 0;
    for (size_t i = 0; i + 1 < e->nsymbols; i++)
        BL_TRY(push_candidate(e, (int)i, (int)i + 1));
    while (e->heaped > 0) {
        candidate c = pop_candidate(e);
        symbol *left = &e->symbols[c.at], *right = NULL;
        BL_TRY(bl_token_look_at_clock(e));
        if (!still_holds(e, &c))
            continue;
        right = &e->symbols[left->next];
        left->id = c.joined;
        left->len += right->len;
        right->len = 0;
        left->next = right->next;
        if (left->next >= 0)
            e->symbols[left->next].prev = c.at;
        BL_TRY(push_candidate(e, left->prev, c.at));
        BL_TRY(push_candidate(e, c.at, left->next));
    }
    return BL_OK;
}

static bl_status add_symbol(bl_token_encoder *e, int32_t id, bl_span text)
{
    BL_TRY(bl_token_grow(e, &e->symbols, e->nsymbols + 1, &e->symbols_cap, sizeof *e->symbols));
    if (e->nsymbols > 0)
        e->symbols[e->nsymbols - 1].next = (int)e->nsymbols;
    e->symbols[e->nsymbols] = (symbol){id, (int)e->nsymbols - 1, -1, text.data, (int)text.len};
    e->nsymbols++;
    return BL_OK;
}

/* Adds a character without a token. */
static bl_status add_unknown(bl_token_encoder *e, bl_span character, bool *unknown)
{
    const bl_tokenizer *t = e->tokenizer;
    bool bytes = has_byte_tokens(t, character), again = *unknown;
    *unknown = !bytes;
    for (size_t i = 0; bytes && i < character.len; i++)
        BL_TRY(add_symbol(e, t->byte[(unsigned char)character.data[i]], (bl_span){character.data + i, 1}));
    return bytes || t->unknown < 0 || (again && t->fuse_unknown) ? BL_OK : add_symbol(e, t->unknown, character);
}

static bl_status encode_bpe(bl_token_encoder *e, bl_span word)
{
    int32_t whole = e->tokenizer->whole_words ? bl_token_find_in_model(e->tokenizer, word) : -1;
    bool unknown = false;
    if (whole >= 0)
        return bl_token_put(e, whole);
    e->nsymbols = 0;
    for (size_t at = 0, n = 0; at < word.len; at += n) {
        bl_span character = {word.data + at, n = next_length(word, at)};
        int32_t id = bl_token_find_in_model(e->tokenizer, character);
        if (id < 0) {
            BL_TRY(add_unknown(e, character, &unknown));
            continue;
        }
        unknown = false;
        BL_TRY(add_symbol(e, id, character));
    }
    BL_TRY(tokenizer_words_join(e));
    for (int i = e->nsymbols > 0 ? 0 : -1; i >= 0; i = e->symbols[i].next)
        BL_TRY(bl_token_put(e, e->symbols[i].id));
    return BL_OK;
}

/* ---- SPM: merging adjacent symbols whose joined text is a token, the best score first */

/* Emits a character without a token; adjacent unknown characters become one unknown token. */
static bl_status put_character(bl_token_encoder *e, const symbol *s, bool *unknown)
{
    const bl_tokenizer *t = e->tokenizer;
    bool bytes = has_byte_tokens(t, (bl_span){s->text, (size_t)s->len}), again = *unknown;
    *unknown = !bytes;
    for (int i = 0; bytes && i < s->len; i++)
        BL_TRY(bl_token_put(e, t->byte[(unsigned char)s->text[i]]));
    return bytes || again || t->unknown < 0 ? BL_OK : bl_token_put(e, t->unknown);
}

static bl_status encode_spm(bl_token_encoder *e, bl_span word)
{
    bool unknown = false;
    e->nsymbols = 0;
    for (size_t at = 0, n = 0; at < word.len; at += n) {
        bl_span character = {word.data + at, n = next_length(word, at)};
        BL_TRY(add_symbol(e, bl_tokenizer_find(e->tokenizer, character), character));
    }
    BL_TRY(tokenizer_words_join(e));
    for (int i = e->nsymbols > 0 ? 0 : -1; i >= 0; i = e->symbols[i].next) {
        const symbol *s = &e->symbols[i];
        unknown = unknown && s->id < 0;
        BL_TRY(s->id >= 0 ? bl_token_put(e, s->id) : put_character(e, s, &unknown));
    }
    return BL_OK;
}

/* ---- Unigram: the segmentation of a word with the largest sum of scores (Viterbi) */

static const bl_token_edge *find_edge(const bl_tokenizer *t, uint32_t node, char byte)
{
    uint64_t key = (uint64_t)node << 8 | (unsigned char)byte;
    size_t mask = t->edge_slots - 1, at = bl_hash_mix(key) & mask;
    for (; t->edges[at].key != UINT64_MAX; at = (at + 1) & mask)
        if (t->edges[at].key == key)
            return &t->edges[at];
    return NULL;
}

static bool offer(path *to, size_t from, int32_t id, double score)
{
    if (to->from >= 0 && !(score > to->score))
        return false;
    *to = (path){score, id, (int32_t)from, -1};
    return true;
}

/* Extends the paths by all tokens that begin at |at|, and by the unknown token if none is exactly the character there. */
static bl_status walk_from(bl_token_encoder *e, bl_span word, size_t at, size_t n)
{
    const bl_tokenizer *t = e->tokenizer;
    const bl_token_edge *edge = NULL;
    double score = e->path[at].score;
    uint32_t node = 0;
    bool whole = false;
    for (size_t end = at; end < word.len && (edge = find_edge(t, node, word.data[end])) != NULL; end++) {
        node = edge->node;
        if (edge->id < 0)
            continue;
        (void)offer(&e->path[end + 1], at, edge->id, score + t->scores[edge->id]);
        whole = whole || end + 1 == at + n;
        BL_TRY(bl_token_look_at_clock(e));
    }
    if (!whole && offer(&e->path[at + n], at, t->unknown, score + t->unknown_score) && t->unknown < 0)
        return bl_fail(e->err, BL_EINVAL, "U+%04X is not a token, and the tokenizer has no unknown token",
                       (unsigned)bl_token_point(word.data + at, n));
    return BL_OK;
}

/* Emits a piece of the best path; adjacent unknown pieces become one token. */
static bl_status tokenizer_words_put_piece(bl_token_encoder *e, bl_span piece, int32_t id)
{
    const bl_tokenizer *t = e->tokenizer;
    if (id == t->unknown)
        id = bl_token_find_in_model(t, piece);
    if (id >= 0)
        return bl_token_put(e, id);
    if (!has_byte_tokens(t, piece))
        return bl_token_put(e, t->unknown);
    for (size_t i = 0; i < piece.len; i++)
        BL_TRY(bl_token_put(e, t->byte[(unsigned char)piece.data[i]]));
    return BL_OK;
}

static bl_status encode_unigram(bl_token_encoder *e, bl_span word)
{
    int32_t unknown = e->tokenizer->unknown;
    BL_TRY(bl_token_fits(e, word.len));
    BL_TRY(bl_token_grow(e, &e->path, word.len + 1, &e->path_cap, sizeof *e->path));
    for (size_t i = 0; i <= word.len; i++)
        e->path[i] = (path){.from = -1};
    for (size_t at = 0, n = 0; at < word.len; at += n)
        BL_TRY(walk_from(e, word, at, n = next_length(word, at)));
    for (int32_t end = (int32_t)word.len; end > 0; end = e->path[end].from)
        e->path[e->path[end].from].to = end;
    for (size_t at = 0, end = 0; at < word.len; at = end) {
        int32_t id = 0;
        end = (size_t)e->path[at].to;
        id = e->path[end].id;
        while (id == unknown && end < word.len && e->path[e->path[end].to].id == unknown)
            end = (size_t)e->path[end].to;
        BL_TRY(tokenizer_words_put_piece(e, (bl_span){word.data + at, end - at}, id));
    }
    return BL_OK;
}

/* ---- WordPiece: the longest token first, from the left */

/* Finds the longest token that is a prefix of the piece's text followed by |text|; |*len| is the part in |text|, 0 if none. */
static bl_status find_longest(bl_token_encoder *e, bl_span text, size_t *len, int32_t *id)
{
    const bl_tokenizer *t = e->tokenizer;
    size_t mark = e->piece.len, room = t->longest > mark ? t->longest - mark : 0, n = 0;
    for (*len = 0; *len < text.len && *len + (n = next_length(text, *len)) <= room;)
        *len += n;
    bl_text_append(&e->piece, text.data, *len);
    BL_TRY(bl_text_status(&e->piece, e->err));
    while (*len > 0) {
        BL_TRY(bl_token_look_at_clock(e));
        *id = bl_token_find_in_model(t, (bl_span){bl_text_get(&e->piece), mark + *len});
        if (*id >= 0)
            return BL_OK;
        do
            (*len)--;
        while (*len > 0 && ((unsigned char)text.data[*len] & 0xc0) == 0x80);
    }
    return BL_OK;
}

/* A word with an unknown part becomes the unknown token as a whole. */
static bl_status encode_wordpiece(bl_token_encoder *e, bl_span word)
{
    const bl_tokenizer *t = e->tokenizer;
    size_t characters = 0, n = 0;
    e->nsymbols = 0;
    for (size_t at = 0; at < word.len; at += next_length(word, at))
        characters++;
    for (size_t at = 0; at < word.len && characters <= t->most_characters; at += n) {
        int32_t id = -1;
        bl_span front = at > 0 ? t->continues : t->begins, rest = {word.data + at, word.len - at};
        bool other = at > 0 && t->begins.len > 0 && bl_token_begins(rest, t->begins); /* |rest| looks like a new word */
        bl_text_clear(&e->piece);
        bl_text_append(&e->piece, front.data, front.len);
        n = 0;
        if (!other)
            BL_TRY(find_longest(e, rest, &n, &id));
        if (n == 0)
            break;
        BL_TRY(add_symbol(e, id, (bl_span){word.data + at, n}));
    }
    if (n == 0)
        return bl_token_put(e, t->unknown);
    for (size_t i = 0; i < e->nsymbols; i++)
        BL_TRY(bl_token_put(e, e->symbols[i].id));
    return BL_OK;
}

bl_status bl_token_encode_word(bl_token_encoder *e, bl_span word)
{
    switch (e->tokenizer->model) {
    case BL_TOKENS_BPE:
        return encode_bpe(e, word);
    case BL_TOKENS_SPM:
        return encode_spm(e, word);
    case BL_TOKENS_UNIGRAM:
        return encode_unigram(e, word);
    case BL_TOKENS_WORDPIECE:
        return encode_wordpiece(e, word);
    }
    return BL_OK;
}
