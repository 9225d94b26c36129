/* SPDX-License-Identifier: MIT */
#include "proto/tokenizer.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "proto/tokenizer_parts.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_ENCODE_MS = 2000, /* a file's regular expression may backtrack without bound */
    LOOKS = 256,
    MOST_TEXT = 8 * 1024 * 1024 /* bytes, about two million tokens; encoding needs up to a hundred times this memory */
};

void bl_tokenizer_destroy(bl_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    for (int i = 0; i < tokenizer->nsteps; i++)
        pcre2_code_free(tokenizer->steps[i].code);
    pcre2_match_context_free(tokenizer->limits);
    pcre2_compile_context_free(tokenizer->rules);
    pcre2_general_context_free(tokenizer->memory);
    free(tokenizer->edges);
    bl_arena_destroy(tokenizer->arena);
    free(tokenizer);
}

size_t bl_tokenizer_size(const bl_tokenizer *tokenizer)
{
    return tokenizer->size;
}

static int32_t find_hashed(const bl_tokenizer *t, bl_span text, uint64_t hash)
{
    size_t mask = t->slots - 1;
    for (size_t at = hash & mask; t->by_text[at].id >= 0; at = (at + 1) & mask)
        if (t->by_text[at].hash == (uint32_t)(hash >> 32) && bl_span_eq(t->tokens[t->by_text[at].id].text, text))
            return t->by_text[at].id;
    return -1;
}

int32_t bl_tokenizer_find(const bl_tokenizer *tokenizer, bl_span text)
{
    return find_hashed(tokenizer, text, bl_hash_bytes(text.data, text.len, 1));
}

void bl_token_find_all(const bl_tokenizer *t, const bl_span *texts, int32_t *ids, int count)
{
    uint64_t hash[BL_TOKEN_BATCH];
    size_t mask = t->slots - 1;
    for (int i = 0; i < count; i++) {
        hash[i] = bl_hash_bytes(texts[i].data, texts[i].len, 1);
        __builtin_prefetch(&t->by_text[hash[i] & mask]);
    }
    for (int i = 0; i < count; i++) {
        const bl_token_slot *slot = &t->by_text[hash[i] & mask];
        if (slot->id >= 0)
            __builtin_prefetch(&t->tokens[slot->id].text);
    }
    for (int i = 0; i < count; i++) {
        const bl_token_slot *slot = &t->by_text[hash[i] & mask];
        if (slot->id >= 0)
            __builtin_prefetch(t->tokens[slot->id].text.data);
    }
    for (int i = 0; i < count; i++)
        ids[i] = find_hashed(t, texts[i], hash[i]);
}

int32_t bl_token_find_in_model(const bl_tokenizer *tokenizer, bl_span text)
{
    int32_t id = bl_tokenizer_find(tokenizer, text);
    return id >= 0 && tokenizer->tokens[id].added ? -1 : id;
}

static bool is_there(const bl_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (size_t)id < tokenizer->size && tokenizer->tokens[id].text.data != NULL;
}

bl_span bl_tokenizer_text(const bl_tokenizer *tokenizer, int32_t id)
{
    return is_there(tokenizer, id) ? tokenizer->tokens[id].text : (bl_span){0};
}

bool bl_tokenizer_is_end(const bl_tokenizer *tokenizer, int32_t id)
{
    return is_there(tokenizer, id) && tokenizer->tokens[id].end;
}

const bl_token_marks *bl_tokenizer_marks(const bl_tokenizer *tokenizer)
{
    return &tokenizer->marks;
}

bool bl_tokenizer_is_special(const bl_tokenizer *tokenizer, int32_t id)
{
    return is_there(tokenizer, id) && tokenizer->tokens[id].special;
}

bl_span bl_tokenizer_bytes(const bl_tokenizer *tokenizer, int32_t id, bool first)
{
    if (!is_there(tokenizer, id) || tokenizer->tokens[id].special)
        return BL_S("");
    return first ? tokenizer->tokens[id].first : tokenizer->tokens[id].bytes;
}

bl_span bl_tokenizer_piece(const bl_tokenizer *tokenizer, int32_t id)
{
    return bl_tokenizer_is_special(tokenizer, id) ? tokenizer->tokens[id].text : bl_tokenizer_bytes(tokenizer, id, false);
}

void bl_tokenizer_decode(const bl_tokenizer *tokenizer, const int32_t *ids, size_t count, bool special, bl_text *out)
{
    bool first = true;
    for (size_t i = 0; i < count; i++) {
        bool mark = bl_tokenizer_is_special(tokenizer, ids[i]);
        bl_span bytes = mark && special ? bl_tokenizer_text(tokenizer, ids[i]) : bl_tokenizer_bytes(tokenizer, ids[i], first);
        bl_text_append(out, bytes.data, bytes.len);
        first = first && mark;
    }
}

/* ---- byte-level code points: a printable byte is its own code point, another byte has a code point from U+0100 on */

static bool prints(unsigned value)
{
    return (value >= 0x21 && value <= 0x7e) || (value >= 0xa1 && value != 0xad && value <= 0xff);
}

/* GPT-2 assigns code points from U+0100 on to the bytes that do not print, in ascending order. */
enum { SPACES = 0x21, DELETE = 0x7f, DELETES = 0xa1 - 0x7f, HYPHEN = 0xad, OTHERS = 256 };

size_t bl_token_byte_put(unsigned char value, char *to)
{
    unsigned point = prints(value)     ? value
                     : value < SPACES  ? OTHERS + value
                     : value == HYPHEN ? OTHERS + SPACES + DELETES
                                       : OTHERS + SPACES + value - DELETE;
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
    unsigned rank = point - OTHERS;
    if (point < OTHERS)
        return prints(point) ? (int)point : -1;
    return rank < SPACES              ? (int)rank
           : rank < SPACES + DELETES  ? (int)(rank - SPACES + DELETE)
           : rank == SPACES + DELETES ? HYPHEN
                                      : -1;
}

/* ---- the state of one encoding */

void bl_token_encoder_init(bl_token_encoder *e, const bl_tokenizer *tokenizer, bl_err *err)
{
    *e = (bl_token_encoder){.tokenizer = tokenizer, .begin_ns = bl_clock_ns(), .parse_special = true, .err = err};
}

void bl_token_encoder_fini(bl_token_encoder *e)
{
    pcre2_match_data_free(e->found);
    pcre2_match_context_free(e->limits);
    free(e->symbols);
    free(e->heap);
    free(e->path);
    free(e->points);
    bl_text_fini(&e->piece);
}

bl_status bl_token_grow(bl_token_encoder *e, void *array, size_t need, size_t *cap, size_t size)
{
    void *old = NULL, *grown = NULL;
    size_t wanted = *cap * 2 > need ? *cap * 2 : need + 64;
    if (need <= *cap)
        return BL_OK;
    memcpy(&old, array, sizeof old);
    grown = wanted < SIZE_MAX / size ? bl_realloc(old, wanted * size) : NULL;
    if (grown == NULL)
        return bl_fail(e->err, BL_ENOMEM, "out of host memory for the tokens of a text");
    memcpy(array, &grown, sizeof grown);
    *cap = wanted;
    return BL_OK;
}

bl_status bl_token_put(bl_token_encoder *e, int32_t id)
{
    e->full = e->out->count >= e->most;
    if (e->full)
        return bl_fail(e->err, BL_EINVAL, "the text has over %zu tokens", e->most);
    BL_TRY(bl_token_grow(e, &e->out->id, e->out->count + 1, &e->out->cap, sizeof *e->out->id));
    e->out->id[e->out->count++] = id;
    return BL_OK;
}

bl_status bl_token_look_at_clock(bl_token_encoder *e)
{
    if (++e->looks % LOOKS != 0 || bl_clock_ms(e->begin_ns, bl_clock_ns()) < MOST_ENCODE_MS)
        return BL_OK;
    return bl_fail(e->err, BL_ELIMIT, "splitting the text into words exceeds the limit of steps");
}

bl_status bl_token_fits(bl_token_encoder *e, size_t len)
{
    return len <= MOST_TEXT ? BL_OK : bl_fail(e->err, BL_ELIMIT, "the text has more than %d MiB", MOST_TEXT / 1024 / 1024);
}

/* ---- added tokens and the parts between them */

/* The index after the last token that sorts before |rest| or is a prefix of |rest|. */
static uint32_t after_least(const bl_added_tokens *among, bl_span rest)
{
    uint32_t low = among->from[(unsigned char)rest.data[0]], high = among->from[(unsigned char)rest.data[0] + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bl_span text = among->token[middle].text;
        int differs = memcmp(text.data, rest.data, text.len < rest.len ? text.len : rest.len);
        if (differs < 0 || (differs == 0 && text.len <= rest.len))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest added token that is a prefix of |rest|. */
static const bl_added_token *find_added(const bl_token_encoder *e, const bl_added_tokens *among, bl_span rest)
{
    unsigned char first = (unsigned char)rest.data[0];
    if (among->from[first] == among->from[first + 1])
        return NULL;
    for (int32_t at = (int32_t)after_least(among, rest) - 1; at >= 0; at = among->token[at].shorter) {
        const bl_added_token *added = &among->token[at];
        if (bl_token_begins(rest, added->text) && (e->parse_special || !e->tokenizer->tokens[added->id].special))
            return added;
    }
    return NULL;
}

/* The start of the run of blanks that ends at |at|. */
static size_t before_blanks(bl_span text, size_t from, size_t at)
{
    while (at > from) {
        size_t one = at - 1;
        while (one > from && ((unsigned char)text.data[one] & 0xc0) == 0x80)
            one--;
        if (!bl_token_is_blank(bl_token_point(text.data + one, at - one)))
            break;
        at = one;
    }
    return at;
}

static size_t after_blanks(bl_span text, size_t at)
{
    size_t n = 0;
    while (at < text.len && (n = bl_utf8_length(text.data + at, text.len - at)) > 0 &&
           bl_token_is_blank(bl_token_point(text.data + at, n)))
        at += n;
    return at;
}

typedef bl_status (*take_part)(bl_token_encoder *e, bl_span text, bool first);

static bl_status take_between(bl_token_encoder *e, bl_span text, take_part take)
{
    bool first = !e->started;
    return text.len > 0 ? take(e, text, first) : BL_OK;
}

static bl_status tokenizer_take_apart(bl_token_encoder *e, const bl_added_tokens *among, bl_span text, take_part take)
{
    size_t from = 0, at = 0;
    while (at < text.len) {
        const bl_added_token *added = find_added(e, among, (bl_span){text.data + at, text.len - at});
        size_t to = at;
        if (added == NULL) {
            at++;
            continue;
        }
        if (added->eats_left)
            to = before_blanks(text, from, to);
        BL_TRY(take_between(e, (bl_span){text.data + from, to - from}, take));
        BL_TRY(bl_token_put(e, added->id));
        e->started = true;
        at += added->text.len;
        if (added->eats_right)
            at = after_blanks(text, at);
        from = at;
    }
    return take_between(e, (bl_span){text.data + from, text.len - from}, take);
}

static bl_status tokenizer_take_words(bl_token_encoder *e, bl_span text, bool first)
{
    e->started = true;
    return bl_token_encode_part(e, text, first);
}

static bl_status tokenizer_take_text(bl_token_encoder *e, bl_span text, bool first)
{
    bl_text room[2] = {{0}};
    bl_status st = bl_token_normalise(e, room, &text);
    (void)first;
    if (st == BL_OK)
        st = tokenizer_take_apart(e, &e->tokenizer->normalised, text, tokenizer_take_words);
    e->started = true;
    bl_text_fini(&room[0]);
    bl_text_fini(&room[1]);
    return st;
}

static bl_status check_text(bl_token_encoder *e, bl_span text)
{
    BL_TRY(bl_token_fits(e, text.len));
    for (size_t at = 0, n = 0; at < text.len; at += n)
        if ((n = bl_utf8_length(text.data + at, text.len - at)) == 0)
            return bl_fail(e->err, BL_EINVAL, "the text is not UTF-8");
    return BL_OK;
}

static bl_status tokenizer_put_around(bl_token_encoder *e, const int32_t *ids, int count)
{
    for (int i = 0; i < count; i++)
        BL_TRY(bl_token_put(e, ids[i]));
    return BL_OK;
}

static bl_status encode_all(bl_token_encoder *e, bl_span text, bool around)
{
    const bl_tokenizer *t = e->tokenizer;
    BL_TRY(check_text(e, text));
    BL_TRY(tokenizer_put_around(e, t->before, around ? t->nbefore : 0));
    BL_TRY(tokenizer_take_apart(e, &t->as_written, text, tokenizer_take_text));
    return tokenizer_put_around(e, t->after, around ? t->nafter : 0);
}

bl_status bl_tokenizer_encode(const bl_tokenizer *tokenizer, bl_span text, size_t most, bl_tokens *out, bl_err *err)
{
    const bl_encode_options both = {.add_special = true, .parse_special = true};
    return bl_tokenizer_encode_as(tokenizer, text, both, most, out, err);
}

bl_status bl_tokenizer_encode_as(const bl_tokenizer *tokenizer, bl_span text, bl_encode_options options, size_t most,
                                 bl_tokens *out, bl_err *err)
{
    bl_token_encoder e;
    bl_status st = BL_OK;
    bl_token_encoder_init(&e, tokenizer, err);
    e.out = out;
    e.most = most;
    e.parse_special = options.parse_special;
    st = encode_all(&e, text, options.add_special);
    bl_token_encoder_fini(&e);
    return st;
}

/* ---- rows */

const bl_token_layout *bl_tokenizer_layout(const bl_tokenizer *tokenizer)
{
    return &tokenizer->layout;
}

/* Truncation removes tokens of the text, not the added ones around it. */
static bl_status encode_cut(bl_token_encoder *e, bl_span text, size_t most)
{
    const bl_tokenizer *t = e->tokenizer;
    size_t before = (size_t)t->nbefore, after = (size_t)t->nafter, over = 0;
    bl_err problem = {0}, *err = e->err;
    bl_status st = BL_OK;
    e->most = SIZE_MAX;
    if (most < before + after)
        return bl_fail(err, BL_EINVAL, "the tokenizer puts %zu tokens around a text, but the text is cut to %zu tokens",
                       before + after, most);
    BL_TRY(check_text(e, text));
    BL_TRY(tokenizer_put_around(e, t->before, t->nbefore));
    e->most = t->layout.cuts_left ? SIZE_MAX : most - after;
    e->err = &problem;
    st = tokenizer_take_apart(e, &t->as_written, text, tokenizer_take_text);
    e->err = err;
    if (st != BL_OK && !e->full)
        return bl_fail(err, st, "%s", problem.text);
    e->most = SIZE_MAX;
    over = e->out->count + after > most ? e->out->count + after - most : 0;
    if (over > 0) {
        int32_t *at = e->out->id + before;
        memmove(at, at + over, (e->out->count - before - over) * sizeof *at);
        e->out->count -= over;
    }
    return tokenizer_put_around(e, t->after, t->nafter);
}

bl_status bl_tokenizer_encode_row(const bl_tokenizer *tokenizer, bl_span text, size_t most, bl_tokens *out, bl_err *err)
{
    const bl_token_layout *layout = &tokenizer->layout;
    bl_token_encoder e;
    bl_status st = BL_OK;
    bl_token_encoder_init(&e, tokenizer, err);
    e.out = out;
    e.most = most;
    out->count = 0;
    if (layout->cuts)
        st = encode_cut(&e, text, layout->longest > 0 && (size_t)layout->longest < most ? (size_t)layout->longest : most);
    else
        st = encode_all(&e, text, true);
    bl_token_encoder_fini(&e);
    return st;
}
