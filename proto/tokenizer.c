/* SPDX-License-Identifier: MIT */
#include "proto/tokenizer.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "proto/tokenizer_parts.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>

/* A regular expression of a file may be one that tries everything: a text may take this long in all. */
enum { MOST_ENCODE_MS = 2000, LOOKS = 256 };

void bl_tokenizer_destroy(bl_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    for (int i = 0; i < tokenizer->nsteps; i++)
        pcre2_code_free(tokenizer->steps[i].code);
    pcre2_match_context_free(tokenizer->limits);
    pcre2_compile_context_free(tokenizer->rules);
    pcre2_general_context_free(tokenizer->memory);
    bl_arena_destroy(tokenizer->arena);
    free(tokenizer);
}

size_t bl_tokenizer_size(const bl_tokenizer *tokenizer)
{
    return tokenizer->size;
}

int32_t bl_tokenizer_find(const bl_tokenizer *tokenizer, bl_span text)
{
    size_t mask = tokenizer->slots - 1;
    for (size_t at = bl_hash_bytes(text.data, text.len, 1) & mask; tokenizer->by_text[at] >= 0; at = (at + 1) & mask)
        if (bl_span_eq(tokenizer->tokens[tokenizer->by_text[at]].text, text))
            return tokenizer->by_text[at];
    return -1;
}

const bl_token_pair *bl_tokenizer_pair(const bl_tokenizer *tokenizer, int32_t left, int32_t right)
{
    size_t mask = tokenizer->pair_slots - 1;
    size_t at = bl_hash_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & mask;
    for (; tokenizer->pairs[at].left >= 0; at = (at + 1) & mask)
        if (tokenizer->pairs[at].left == left && tokenizer->pairs[at].right == right)
            return &tokenizer->pairs[at];
    return NULL;
}

static bool is_there(const bl_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (size_t)id < tokenizer->size && tokenizer->tokens[id].text.data != NULL;
}

bool bl_tokenizer_is_special(const bl_tokenizer *tokenizer, int32_t id)
{
    return is_there(tokenizer, id) && tokenizer->tokens[id].special;
}

bl_span bl_tokenizer_bytes(const bl_tokenizer *tokenizer, int32_t id, bool first)
{
    bl_span bytes = {"", 0};
    if (!is_there(tokenizer, id) || tokenizer->tokens[id].special)
        return bytes;
    bytes = tokenizer->tokens[id].bytes;
    if (first && tokenizer->strip_blank && bytes.len > 0 && bytes.data[0] == ' ')
        bytes = (bl_span){bytes.data + 1, bytes.len - 1};
    return bytes;
}

/* ---- bytes as code points: those that print stand for themselves, the others for what follows U+0100 */

static bool prints(unsigned value)
{
    return (value >= 0x21 && value <= 0x7e) || (value >= 0xa1 && value != 0xad && value <= 0xff);
}

size_t bl_token_byte_put(unsigned char value, char *to)
{
    unsigned point = value;
    if (!prints(value)) {
        point = 256;
        for (unsigned i = 0; i < value; i++)
            point += !prints(i);
    }
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    to[0] = (char)(0xc0 | point >> 6);
    to[1] = (char)(0x80 | (point & 0x3f));
    return 2;
}

int bl_token_byte_get(uint32_t point)
{
    unsigned rank = point - 256;
    if (point < 256)
        return prints(point) ? (int)point : -1;
    for (unsigned value = 0; value < 256; value++)
        if (!prints(value) && rank-- == 0)
            return (int)value;
    return -1;
}

uint32_t bl_token_point(const char *text, size_t len)
{
    static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t point = (unsigned char)text[0] & lead[len];
    for (size_t i = 1; i < len; i++)
        point = point << 6 | ((unsigned char)text[i] & 0x3f);
    return point;
}

/* ---- one call */

/* A part of a word: a token, or the rest of one that was joined (id -1). */
typedef struct symbol {
    int32_t id;
    int prev, next; /* -1: none */
} symbol;

/* Two symbols that could be joined. */
typedef struct candidate {
    int32_t rank, joined;
    int at;
} candidate;

typedef struct encoder {
    const bl_tokenizer *tokenizer;
    bl_tokens *out;
    size_t most;
    bool started; /* something of the text was there */
    int64_t begin_ns;
    unsigned looks;
    symbol *symbols; /* of one word; kept for the next */
    candidate *heap;
    size_t nsymbols, symbols_cap, heaped, heap_cap;
    bl_err *err;
} encoder;

static bl_status grow(encoder *e, void *array, size_t need, size_t *cap, size_t size)
{
    void **at = array, *grown = NULL;
    size_t wanted = *cap * 2 > need ? *cap * 2 : need + 64;
    if (need <= *cap)
        return BL_OK;
    grown = wanted < SIZE_MAX / size ? bl_realloc(*at, wanted * size) : NULL;
    if (grown == NULL)
        return bl_fail(e->err, BL_ENOMEM, "the tokens of a text");
    *at = grown;
    *cap = wanted;
    return BL_OK;
}

static bl_status put(encoder *e, int32_t id)
{
    void *at = e->out->id;
    if (e->out->count >= e->most)
        return bl_fail(e->err, BL_EINVAL, "the text has over %zu tokens", e->most);
    BL_TRY(grow(e, &at, e->out->count + 1, &e->out->cap, sizeof *e->out->id));
    e->out->id = at;
    e->out->id[e->out->count++] = id;
    return BL_OK;
}

static bl_status look_at_clock(encoder *e)
{
    if (++e->looks % LOOKS != 0 || bl_clock_ms(e->begin_ns, bl_clock_ns()) < MOST_ENCODE_MS)
        return BL_OK;
    return bl_fail(e->err, BL_ELIMIT, "splitting the text into words takes too long");
}

/* ---- joining the parts of a word */

static bool is_before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static bl_status push_candidate(encoder *e, int left, int right)
{
    const bl_token_pair *pair = NULL;
    void *at = e->heap;
    size_t i = e->heaped;
    if (left < 0 || right < 0)
        return BL_OK;
    pair = bl_tokenizer_pair(e->tokenizer, e->symbols[left].id, e->symbols[right].id);
    if (pair == NULL)
        return BL_OK;
    BL_TRY(grow(e, &at, e->heaped + 1, &e->heap_cap, sizeof *e->heap));
    e->heap = at;
    e->heap[e->heaped++] = (candidate){pair->rank, pair->joined, left};
    for (; i > 0 && is_before(&e->heap[i], &e->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        candidate swap = e->heap[i];
        e->heap[i] = e->heap[(i - 1) / 2];
        e->heap[(i - 1) / 2] = swap;
    }
    return BL_OK;
}

static candidate pop_candidate(encoder *e)
{
    candidate top = e->heap[0], last = e->heap[--e->heaped];
    size_t i = 0, child = 1;
    for (; child < e->heaped; child = 2 * i + 1) {
        if (child + 1 < e->heaped && is_before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!is_before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

/* One of the heap may be out of date: its symbols were joined with others meanwhile. */
static bool still_holds(const encoder *e, const candidate *c)
{
    const symbol *left = &e->symbols[c->at];
    const bl_token_pair *pair = NULL;
    if (left->id < 0 || left->next < 0)
        return false;
    pair = bl_tokenizer_pair(e->tokenizer, left->id, e->symbols[left->next].id);
    return pair != NULL && pair->joined == c->joined && pair->rank == c->rank;
}

static bl_status join(encoder *e)
{
    e->heaped = 0;
    for (size_t i = 0; i + 1 < e->nsymbols; i++)
        BL_TRY(push_candidate(e, (int)i, (int)i + 1));
    while (e->heaped > 0) {
        candidate c = pop_candidate(e);
        symbol *left = &e->symbols[c.at], *right = NULL;
        if (!still_holds(e, &c))
            continue;
        right = &e->symbols[left->next];
        left->id = c.joined;
        right->id = -1;
        left->next = right->next;
        if (left->next >= 0)
            e->symbols[left->next].prev = c.at;
        BL_TRY(push_candidate(e, left->prev, c.at));
        BL_TRY(push_candidate(e, c.at, left->next));
    }
    return BL_OK;
}

static bl_status add_symbol(encoder *e, int32_t id)
{
    void *at = e->symbols;
    BL_TRY(grow(e, &at, e->nsymbols + 1, &e->symbols_cap, sizeof *e->symbols));
    e->symbols = at;
    if (e->nsymbols > 0)
        e->symbols[e->nsymbols - 1].next = (int)e->nsymbols;
    e->symbols[e->nsymbols] = (symbol){id, (int)e->nsymbols - 1, -1};
    e->nsymbols++;
    return BL_OK;
}

/* A character that has no token. */
static bl_status add_unknown(encoder *e, bl_span character, bool *unknown)
{
    const bl_tokenizer *t = e->tokenizer;
    bool bytes = t->byte_fallback, again = *unknown;
    for (size_t i = 0; i < character.len; i++)
        bytes = bytes && t->byte[(unsigned char)character.data[i]] >= 0;
    *unknown = !bytes;
    for (size_t i = 0; bytes && i < character.len; i++)
        BL_TRY(add_symbol(e, t->byte[(unsigned char)character.data[i]]));
    return bytes || t->unknown < 0 || (again && t->fuse_unknown) ? BL_OK : add_symbol(e, t->unknown);
}

static bl_status encode_word(encoder *e, bl_span word)
{
    int32_t whole = e->tokenizer->whole_words ? bl_tokenizer_find(e->tokenizer, word) : -1;
    bool unknown = false;
    if (whole >= 0)
        return put(e, whole);
    e->nsymbols = 0;
    for (size_t at = 0, n = 0; at < word.len; at += n) {
        bl_span character = {word.data + at, 0};
        int32_t id = -1;
        n = bl_utf8_length(word.data + at, word.len - at);
        if (n == 0)
            return bl_fail(e->err, BL_EINVAL, "the text is not UTF-8");
        character.len = n;
        id = bl_tokenizer_find(e->tokenizer, character);
        if (id < 0) {
            BL_TRY(add_unknown(e, character, &unknown));
            continue;
        }
        unknown = false;
        BL_TRY(add_symbol(e, id));
    }
    BL_TRY(join(e));
    for (int i = e->nsymbols > 0 ? 0 : -1; i >= 0; i = e->symbols[i].next)
        BL_TRY(put(e, e->symbols[i].id));
    return BL_OK;
}

/* ---- the steps in front of that */

static bl_status take_steps(encoder *e, int from, bl_span text, bool first);

static bl_status take_new(encoder *e, int from, bl_text *text, bool first)
{
    bl_status st = bl_text_status(text, e->err);
    if (st == BL_OK)
        st = take_steps(e, from, (bl_span){bl_text_get(text), text->len}, first);
    bl_text_fini(text);
    return st;
}

static bool begins_with(bl_span text, bl_span with)
{
    return text.len >= with.len && memcmp(text.data, with.data, with.len) == 0;
}

static bl_status take_prefix(encoder *e, int at, bl_span text, bool first)
{
    const bl_token_step *step = &e->tokenizer->steps[at];
    bl_text changed = {0};
    if ((step->at_start && !first) || (step->unless_there && begins_with(text, step->to)))
        return take_steps(e, at + 1, text, first);
    bl_text_append(&changed, step->to.data, step->to.len);
    bl_text_append(&changed, text.data, text.len);
    return take_new(e, at + 1, &changed, first);
}

static bl_status take_replace(encoder *e, int at, bl_span text, bool first)
{
    const bl_token_step *step = &e->tokenizer->steps[at];
    bl_text changed = {0};
    size_t i = 0;
    while (i < text.len) {
        bl_span rest = {text.data + i, text.len - i};
        if (begins_with(rest, step->from)) {
            bl_text_append(&changed, step->to.data, step->to.len);
            i += step->from.len;
        } else {
            bl_text_putc(&changed, text.data[i++]);
        }
    }
    return take_new(e, at + 1, &changed, first);
}

static bl_status take_bytes(encoder *e, int at, bl_span text, bool first)
{
    bl_text changed = {0};
    for (size_t i = 0; i < text.len; i++) {
        char put_as[2];
        bl_text_append(&changed, put_as, bl_token_byte_put((unsigned char)text.data[i], put_as));
    }
    return take_new(e, at + 1, &changed, first);
}

/* What a split gives, part by part: one is kept until it is known whether the next belongs to it. */
typedef struct splitter {
    encoder *e;
    int step;
    bl_span text;
    size_t from, to; /* of the part that is kept */
    bool matched, first;
} splitter;

static bl_status flush_part(splitter *s)
{
    const bl_token_step *step = &s->e->tokenizer->steps[s->step];
    bl_span part = {s->text.data + s->from, s->to - s->from};
    if (part.len == 0 || (step->behavior == BL_SPLIT_REMOVED && s->matched))
        return BL_OK;
    return take_steps(s->e, s->step + 1, part, s->first && s->from == 0);
}

static bl_status add_part(splitter *s, size_t to, bool matched)
{
    const bl_token_step *step = &s->e->tokenizer->steps[s->step];
    bool joins = false;
    if (to == s->to)
        return BL_OK;
    matched ^= step->invert;
    joins = (step->behavior == BL_SPLIT_CONTIGUOUS && s->matched == matched) ||
            (step->behavior == BL_SPLIT_WITH_PREVIOUS && !s->matched && matched) ||
            (step->behavior == BL_SPLIT_WITH_NEXT && s->matched && !matched);
    if (!joins) {
        BL_TRY(flush_part(s));
        s->from = s->to;
    }
    s->to = to;
    s->matched = matched;
    return BL_OK;
}

static bl_status split(splitter *s, pcre2_match_data *found)
{
    const bl_tokenizer *t = s->e->tokenizer;
    size_t at = 0;
    while (at < s->text.len) {
        const PCRE2_SIZE *range = NULL;
        int got =
            pcre2_match(t->steps[s->step].code, (PCRE2_SPTR)s->text.data, s->text.len, at, PCRE2_NO_UTF_CHECK, found, t->limits);
        BL_TRY(look_at_clock(s->e));
        if (got == PCRE2_ERROR_NOMATCH)
            break;
        if (got < 0)
            return bl_fail(s->e->err, BL_ELIMIT, "splitting the text into words: the tokenizer's expression takes too much");
        range = pcre2_get_ovector_pointer(found);
        if (range[1] <= range[0] || range[0] < s->to) { /* an empty match, or one that \K made */
            at += bl_utf8_length(s->text.data + at, s->text.len - at);
            continue;
        }
        BL_TRY(add_part(s, range[0], false));
        BL_TRY(add_part(s, range[1], true));
        at = range[1];
    }
    BL_TRY(add_part(s, s->text.len, false));
    return flush_part(s);
}

static bl_status take_split(encoder *e, int at, bl_span text, bool first)
{
    splitter s = {.e = e, .step = at, .text = text, .first = first};
    pcre2_match_data *found = pcre2_match_data_create(1, e->tokenizer->memory);
    bl_status st = found != NULL ? split(&s, found) : bl_fail(e->err, BL_ENOMEM, "splitting a text");
    pcre2_match_data_free(found);
    return st;
}

/* |first|: nothing of the text is in front of it.  The depth is that of the steps, BL_TOKEN_STEPS at the most. */
static bl_status take_steps(encoder *e, int from, bl_span text, bool first)
{
    if (text.len == 0)
        return BL_OK;
    if (from == e->tokenizer->nsteps)
        return encode_word(e, text);
    switch (e->tokenizer->steps[from].kind) {
    case BL_STEP_PREFIX:
        return take_prefix(e, from, text, first);
    case BL_STEP_REPLACE:
        return take_replace(e, from, text, first);
    case BL_STEP_SPLIT:
        return take_split(e, from, text, first);
    case BL_STEP_BYTES:
        return take_bytes(e, from, text, first);
    }
    return BL_OK;
}

/* ---- the whole text */

static const bl_added_token *find_added(const bl_tokenizer *t, bl_span rest)
{
    unsigned char first = (unsigned char)rest.data[0];
    for (uint32_t i = t->added_from[first]; i < t->added_from[first + 1]; i++)
        if (begins_with(rest, t->added[i].text))
            return &t->added[i];
    return NULL;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bl_status encode_between(encoder *e, bl_span text)
{
    bool first = !e->started;
    e->started = e->started || text.len > 0;
    return take_steps(e, 0, text, first);
}

static bl_status encode_text(encoder *e, bl_span text)
{
    size_t from = 0, at = 0;
    while (at < text.len) {
        const bl_added_token *added = find_added(e->tokenizer, (bl_span){text.data + at, text.len - at});
        size_t to = at;
        if (added == NULL) {
            at++;
            continue;
        }
        while (added->eats_left && to > from && is_blank(text.data[to - 1]))
            to--;
        BL_TRY(encode_between(e, (bl_span){text.data + from, to - from}));
        BL_TRY(put(e, added->id));
        e->started = true;
        at += added->text.len;
        while (added->eats_right && at < text.len && is_blank(text.data[at]))
            at++;
        from = at;
    }
    return encode_between(e, (bl_span){text.data + from, text.len - from});
}

static bl_status encode_all(encoder *e, bl_span text)
{
    const bl_tokenizer *t = e->tokenizer;
    for (size_t at = 0, n = 0; at < text.len; at += n)
        if ((n = bl_utf8_length(text.data + at, text.len - at)) == 0)
            return bl_fail(e->err, BL_EINVAL, "the text is not UTF-8");
    for (int i = 0; i < t->nbefore; i++)
        BL_TRY(put(e, t->before[i]));
    BL_TRY(encode_text(e, text));
    for (int i = 0; i < t->nafter; i++)
        BL_TRY(put(e, t->after[i]));
    return BL_OK;
}

bl_status bl_tokenizer_encode(const bl_tokenizer *tokenizer, bl_span text, size_t most, bl_tokens *out, bl_err *err)
{
    encoder e = {.tokenizer = tokenizer, .out = out, .most = most, .begin_ns = bl_clock_ns(), .err = err};
    bl_status st = BL_OK;
    /* no token stands for more bytes than it has, so that a text which cannot fit is not even looked at */
    if (most < SIZE_MAX / (tokenizer->longest + 1) / 2 && text.len > (most + 1) * (tokenizer->longest + 1) &&
        tokenizer->unknown < 0)
        return bl_fail(err, BL_EINVAL, "the text has %zu bytes, which are over %zu tokens", text.len, most);
    st = encode_all(&e, text);
    free(e.symbols);
    free(e.heap);
    return st;
}
