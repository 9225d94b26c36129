/* SPDX-License-Identifier: MIT */
#include "proto/tokenizer_build.h"

#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    TOKENIZER_BYTES = 512 * 1024 * 1024, /* a vocabulary of 256,000 and 600,000 merges need about a tenth */
    MOST_PATTERN = 4096,
    HEAP_KIB = 4096,
    FIRST_EDGES = 1024
};

/* ---- the object */

static void *take_memory(size_t bytes, void *arg)
{
    (void)arg;
    return bl_calloc(1, bytes);
}

static void give_memory(void *data, void *arg)
{
    (void)arg;
    free(data);
}

bl_tokenizer *bl_token_create(void)
{
    bl_tokenizer *t = bl_calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->arena = bl_arena_create(TOKENIZER_BYTES);
    t->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    t->rules = pcre2_compile_context_create(t->memory);
    t->limits = pcre2_match_context_create(t->memory);
    if (t->arena == NULL || t->memory == NULL || t->rules == NULL || t->limits == NULL) {
        bl_tokenizer_destroy(t);
        return NULL;
    }
    pcre2_set_max_pattern_length(t->rules, MOST_PATTERN);
    pcre2_set_match_limit(t->limits, BL_TOKEN_MATCHES);
    pcre2_set_heap_limit(t->limits, HEAP_KIB);
    return t;
}

/* ---- the vocabulary */

static size_t slots_for(size_t count)
{
    size_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    return slots;
}

bl_status bl_token_make_room(bl_tokenizer *t, size_t size, size_t texts, bl_err *err)
{
    t->size = size;
    t->slots = slots_for(texts);
    t->tokens = bl_arena_array(t->arena, t->size + 1, sizeof *t->tokens);
    t->by_text = bl_arena_array(t->arena, t->slots, sizeof *t->by_text);
    if (t->tokens == NULL || t->by_text == NULL)
        return bl_arena_status(t->arena, err);
    memset(t->by_text, 0xff, t->slots * sizeof *t->by_text);
    t->unknown = -1;
    bl_token_clear_marks(t);
    return BL_OK;
}

int32_t bl_token_add(bl_tokenizer *t, int32_t id, bl_span text)
{
    uint64_t hash = bl_hash_bytes(text.data, text.len, 1);
    uint32_t tag = (uint32_t)(hash >> 32);
    size_t mask = t->slots - 1, at = hash & mask;
    t->tokens[id].text = text;
    if (text.len > t->longest)
        t->longest = text.len;
    for (; t->by_text[at].id >= 0; at = (at + 1) & mask)
        if (t->by_text[at].hash == tag && bl_span_eq(t->tokens[t->by_text[at].id].text, text))
            return t->by_text[at].id;
    t->by_text[at] = (bl_token_slot){tag, id};
    return id;
}

void bl_token_find_byte_tokens(bl_tokenizer *t)
{
    static const char digits[] = "0123456789ABCDEF";
    for (unsigned i = 0; i < 256; i++) {
        char text[] = "<0x00>";
        text[3] = digits[i >> 4];
        text[4] = digits[i & 15];
        t->byte[i] = bl_tokenizer_find(t, (bl_span){text, 6});
    }
}

/* ---- BPE */

bl_status bl_token_make_pairs(bl_tokenizer *t, size_t count, bl_err *err)
{
    t->pair_slots = slots_for(count);
    t->pairs = bl_arena_array(t->arena, t->pair_slots, sizeof *t->pairs);
    if (t->pairs == NULL)
        return bl_arena_status(t->arena, err);
    memset(t->pairs, 0xff, t->pair_slots * sizeof *t->pairs);
    return BL_OK;
}

static size_t pair_slot(const bl_tokenizer *t, const bl_token_pair *pair)
{
    return bl_hash_mix((uint64_t)(uint32_t)pair->left << 32 | (uint32_t)pair->right) & (t->pair_slots - 1);
}

static void add_pairs(bl_tokenizer *t, const bl_token_pair *pairs, int count, bool again)
{
    for (int i = 0; i < count; i++)
        __builtin_prefetch(&t->pairs[pair_slot(t, &pairs[i])], 1);
    for (int i = 0; i < count; i++) {
        size_t at = pair_slot(t, &pairs[i]);
        while (t->pairs[at].left >= 0 && (t->pairs[at].left != pairs[i].left || t->pairs[at].right != pairs[i].right))
            at = (at + 1) & (t->pair_slots - 1);
        if (t->pairs[at].left < 0 || again)
            t->pairs[at] = pairs[i];
    }
}

enum { LEFT, RIGHT, JOINED, PARTS };

bl_status bl_token_put_merge(bl_token_merges *merges, bl_span left, bl_span right, bl_err *err)
{
    bl_text *room = &merges->room[merges->count];
    bl_span *part = merges->part[merges->count];
    bl_text_clear(room);
    bl_text_append(room, left.data, left.len);
    bl_text_append(room, right.data, right.len);
    BL_TRY(bl_text_status(room, err));
    part[LEFT] = left;
    part[RIGHT] = right;
    part[JOINED] = (bl_span){bl_text_get(room), room->len};
    merges->count++;
    return BL_OK;
}

int bl_token_add_merges(bl_tokenizer *t, bl_token_merges *merges, int32_t rank, bool again, bl_span *missing)
{
    int32_t ids[BL_TOKEN_MERGES][PARTS];
    bl_token_pair pairs[BL_TOKEN_MERGES];
    int count = merges->count;
    bl_token_find_all(t, merges->part[0], ids[0], count * PARTS);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < PARTS; k++)
            if (ids[i][k] < 0) {
                *missing = merges->part[i][k];
                return i;
            }
        pairs[i] = (bl_token_pair){ids[i][LEFT], ids[i][RIGHT], rank + i, ids[i][JOINED]};
    }
    add_pairs(t, pairs, count, again);
    merges->count = 0;
    return -1;
}

void bl_token_fini_merges(bl_token_merges *merges)
{
    for (int i = 0; i < BL_TOKEN_MERGES; i++)
        bl_text_fini(&merges->room[i]);
}

/* ---- Unigram */

static bl_token_edge *find_edge_slot(bl_token_edge *edges, size_t slots, uint64_t key)
{
    size_t at = bl_hash_mix(key) & (slots - 1);
    while (edges[at].key != key && edges[at].key != UINT64_MAX)
        at = (at + 1) & (slots - 1);
    return &edges[at];
}

static bl_status grow_edges(bl_tokenizer *t, bl_err *err)
{
    size_t slots = t->edges != NULL ? t->edge_slots * 2 : FIRST_EDGES;
    bl_token_edge *edges = slots < SIZE_MAX / sizeof *edges ? bl_calloc(slots, sizeof *edges) : NULL;
    if (edges == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the pieces of a tokenizer");
    memset(edges, 0xff, slots * sizeof *edges);
    for (size_t i = 0; t->edges != NULL && i < t->edge_slots; i++)
        if (t->edges[i].key != UINT64_MAX)
            *find_edge_slot(edges, slots, t->edges[i].key) = t->edges[i];
    free(t->edges);
    t->edges = edges;
    t->edge_slots = slots;
    return BL_OK;
}

static bl_status tokenizer_build_add_edges(bl_tokenizer *t, int32_t id, uint32_t *nodes, bl_err *err)
{
    bl_span text = t->tokens[id].text;
    bl_token_edge *edge = NULL;
    uint32_t node = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint64_t key = (uint64_t)node << 8 | (unsigned char)text.data[i];
        if (t->edges == NULL || *nodes >= t->edge_slots / 2)
            BL_TRY(grow_edges(t, err));
        edge = find_edge_slot(t->edges, t->edge_slots, key);
        if (edge->key == UINT64_MAX)
            *edge = (bl_token_edge){key, ++*nodes, -1};
        node = edge->node;
    }
    if (edge != NULL)
        edge->id = id;
    return BL_OK;
}

bl_status bl_token_make_trie(bl_tokenizer *t, const bool *in, bl_err *err)
{
    uint32_t nodes = 0;
    BL_TRY(grow_edges(t, err));
    for (size_t i = 0; i < t->size; i++)
        if (t->tokens[i].text.data != NULL && (in == NULL || in[i]))
            BL_TRY(tokenizer_build_add_edges(t, (int32_t)i, &nodes, err));
    return BL_OK;
}

/* ---- added tokens */

static int compare_added(const void *a, const void *b)
{
    const bl_added_token *x = a, *y = b;
    int differs = memcmp(x->text.data, y->text.data, x->text.len < y->text.len ? x->text.len : y->text.len);
    if (differs != 0)
        return differs;
    /* Equal texts sort by falling id, since find_added takes the last of two equal texts. */
    return x->text.len != y->text.len ? (x->text.len < y->text.len ? -1 : 1) : y->id - x->id;
}

bl_status bl_token_make_added(bl_tokenizer *t, bl_added_tokens *among, size_t count, bl_err *err)
{
    if (count > BL_TOKEN_ADDED)
        return bl_fail(err, BL_ELIMIT, "over %d added tokens", BL_TOKEN_ADDED);
    among->token = bl_arena_array(t->arena, count + 1, sizeof *among->token);
    return among->token != NULL ? BL_OK : bl_arena_status(t->arena, err);
}

void bl_token_sort_added(bl_added_tokens *among)
{
    if (among->count > 1)
        qsort(among->token, among->count, sizeof *among->token, compare_added);
    for (size_t i = 0; i < among->count; i++) {
        bl_added_token *token = &among->token[i];
        /* An added token that is a prefix of this text equals the previous token or is a prefix of the previous token. */
        token->shorter = (int32_t)i - 1;
        while (token->shorter >= 0 && !bl_token_begins(token->text, among->token[token->shorter].text))
            token->shorter = among->token[token->shorter].shorter;
        among->from[(unsigned char)token->text.data[0] + 1]++;
    }
    for (size_t i = 0; i < 256; i++)
        among->from[i + 1] += among->from[i];
}

/* ---- patterns */

/* Unicode's words include marks, which PCRE2's \w does not; PCRE2's \s has one character too many. */
#define WORD  "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define BLANK "\\p{White_Space}"
#define HEX   "0-9A-Fa-f"

/* Escapes that differ between Oniguruma and PCRE2: the replacement in a class, and outside; NULL: not expressible. */
static const struct {
    char escape;
    const char *inside, *outside;
} escapes[] = {{'s', BLANK, BLANK},
               {'S', "\\P{White_Space}", "\\P{White_Space}"},
               {'w', WORD, "[" WORD "]"},
               {'W', NULL, "[^" WORD "]"},
               {'b', "\\b", "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"},
               {'B', NULL, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))"},
               {'h', HEX, "[" HEX "]"},
               {'H', NULL, "[^" HEX "]"}};

static bl_status put_escape(char c, bool inside, bl_text *out, bl_err *err)
{
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        const char *put = inside ? escapes[i].inside : escapes[i].outside;
        if (escapes[i].escape != c)
            continue;
        if (put == NULL)
            return bl_fail(err, BL_EUNSUPPORTED, "the pattern has \\%c within a class, which is not supported", c);
        bl_text_puts(out, put);
        return BL_OK;
    }
    bl_text_putc(out, '\\');
    bl_text_putc(out, c);
    return BL_OK;
}

static bl_status tokenizer_build_translate(bl_span pattern, bl_text *out, bl_err *err)
{
    bool inside = false;
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.data[i];
        size_t from = i;
        if (c == '\\' && i + 1 < pattern.len) {
            BL_TRY(put_escape(pattern.data[++i], inside, out, err));
            continue;
        }
        if (inside && c == '[') /* [:alpha:]; PCRE2 has no nested classes */
            for (i++; i < pattern.len && pattern.data[i] != ']';)
                i++;
        else if (inside)
            inside = c != ']';
        else if (c == '[') {
            inside = true;
            i += i + 1 < pattern.len && pattern.data[i + 1] == '^';
            i += i + 1 < pattern.len && pattern.data[i + 1] == ']';
        }
        bl_text_append(out, pattern.data + from, (i < pattern.len ? i + 1 : i) - from);
    }
    return bl_text_status(out, err);
}

/* Compiles with Oniguruma's defaults: Unicode classes, and ^ and $ at every line. */
static bl_status compile_ours(bl_tokenizer *t, bl_span pattern, bool literal, pcre2_code **out, bl_err *err)
{
    char why[120] = "";
    int code = 0;
    PCRE2_SIZE where = 0;
    uint32_t options = literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE;
    *out = pcre2_compile((PCRE2_SPTR)pattern.data, pattern.len, options | PCRE2_UTF, &code, &where, t->rules);
    if (*out != NULL)
        return BL_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a regular expression");
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return bl_fail(err, BL_EINVAL, "the pattern is not a valid regular expression: %s, at byte %zu of the pattern", why,
                   (size_t)where);
}

bl_status bl_token_compile(bl_tokenizer *t, bl_span pattern, bl_token_pattern kind, pcre2_code **out, bl_err *err)
{
    bl_text text = {0};
    bl_status st = BL_OK;
    if (kind != BL_PATTERN_ONIGURUMA)
        return compile_ours(t, pattern, kind == BL_PATTERN_TEXT, out, err);
    st = tokenizer_build_translate(pattern, &text, err);
    if (st == BL_OK)
        st = compile_ours(t, (bl_span){bl_text_get(&text), text.len}, false, out, err);
    bl_text_fini(&text);
    return st;
}

/* ---- steps */

bl_status bl_token_add_step(bl_tokenizer *t, bl_token_step step, bl_token_step **out, bl_err *err)
{
    if (t->nsteps == BL_TOKEN_STEPS)
        return bl_fail(err, BL_ELIMIT, "over %d steps", BL_TOKEN_STEPS);
    t->steps[t->nsteps] = step;
    if (out != NULL)
        *out = &t->steps[t->nsteps];
    t->nsteps++;
    return BL_OK;
}

bl_status bl_token_add_map(bl_tokenizer *t, bl_token_map map, bl_err *err)
{
    return bl_token_add_step(t, (bl_token_step){.kind = BL_STEP_MAP, .map = map}, NULL, err);
}

bl_status bl_token_add_replace(bl_tokenizer *t, bl_span from, bl_span to, bl_err *err)
{
    return bl_token_add_step(t, (bl_token_step){.kind = BL_STEP_MAP, .map = bl_token_map_replace, .from = from, .to = to}, NULL,
                             err);
}

bl_status bl_token_add_split(bl_tokenizer *t, bl_span pattern, bl_token_pattern kind, bl_split_behavior behavior, bool invert,
                             bl_err *err)
{
    bl_token_step *step = NULL;
    BL_TRY(bl_token_add_step(t, (bl_token_step){.kind = BL_STEP_SPLIT, .behavior = behavior, .invert = invert}, &step, err));
    return bl_token_compile(t, pattern, kind, &step->code, err);
}

bl_status bl_token_add_form(bl_tokenizer *t, bool compat, bool joins, bl_err *err)
{
    bl_token_step step = {.kind = BL_STEP_MAP, .map = bl_token_map_form, .compat = compat, .joins = joins};
    return bl_token_add_step(t, step, NULL, err);
}

bl_status bl_token_add_bert(bl_tokenizer *t, bl_bert_options options, bl_err *err)
{
    if (options.cleans)
        BL_TRY(bl_token_add_map(t, bl_token_map_clean, err));
    if (options.chinese)
        BL_TRY(bl_token_add_map(t, bl_token_map_chinese, err));
    if (options.strips)
        BL_TRY(bl_token_add_form(t, false, false, err));
    if (options.strips)
        BL_TRY(bl_token_add_map(t, bl_token_map_without_accents, err));
    return options.lowers ? bl_token_add_map(t, bl_token_map_lower, err) : BL_OK;
}

bl_status bl_token_add_blanks(bl_tokenizer *t, bl_err *err)
{
    return bl_token_add_split(t, BL_S(BLANK "+"), BL_PATTERN_PCRE, BL_SPLIT_REMOVED, false, err);
}

bl_status bl_token_add_punctuation(bl_tokenizer *t, bl_split_behavior behavior, bl_err *err)
{
    return bl_token_add_split(t, BL_S("[!-/:-@\\[-`{-~\\p{P}]"), BL_PATTERN_PCRE, behavior, false, err);
}

/* The format: the size of the trie in bytes (four bytes, little-endian), the trie, and NUL-terminated texts. */
bl_status bl_token_add_chars(bl_tokenizer *t, bl_span text, bl_err *err)
{
    const unsigned char *map = (const unsigned char *)text.data;
    bl_token_step step = {.kind = BL_STEP_MAP, .map = bl_token_map_chars};
    size_t units = text.len >= 4 ? (size_t)map[0] | (size_t)map[1] << 8 | (size_t)map[2] << 16 | (size_t)map[3] << 24 : 0;
    if (text.len < 4 || units > text.len - 4 || units % 4 != 0)
        return bl_fail(err, BL_EINVAL, "precompiled_charsmap has %zu bytes, and its trie %zu", text.len, units);
    step.units = map + 4;
    step.nunits = units / 4;
    step.from = (bl_span){text.data + 4 + units, text.len - 4 - units};
    for (size_t i = 0, n = 0; i < step.from.len; i += n)
        if ((n = bl_utf8_length(step.from.data + i, step.from.len - i)) == 0)
            return bl_fail(err, BL_EINVAL, "precompiled_charsmap: its texts are not UTF-8");
    return bl_token_add_step(t, step, NULL, err);
}
