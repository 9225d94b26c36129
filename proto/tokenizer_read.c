/* SPDX-License-Identifier: MIT */
/* tokenizer.json.  Members that say nothing about ids and bytes (truncation, padding, offsets) are passed over; a member that
 * does, with a value that is not known here, fails: other tokens than its author's would be worse than none. */
#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "proto/json.h"
#include "proto/tokenizer_parts.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    TOKENIZER_BYTES = 512 * 1024 * 1024, /* a vocabulary of 256,000 and its 600,000 merges take about a tenth */
    MOST_VALUES = 4 * 1024 * 1024,
    MOST_IDS = 1024 * 1024,
    MOST_ADDED = 65536,
    MOST_REPLACES = 8,
    MOST_PATTERN = 4096,
    MATCH_LIMIT = 200000, /* of PCRE2, in one place of a text; the patterns that are in use need some hundreds */
    HEAP_KIB = 4096
};

static const char blank_mark[] = "\xe2\x96\x81"; /* U+2581, as SentencePiece writes a blank */

/* As GPT-2 splits, and every tokenizer of bytes that says nothing else. */
static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* What a decoder does to a token's text, in this order. */
typedef struct decoder {
    int nreplaces;
    bl_span from[MOST_REPLACES], to[MOST_REPLACES];
    bool from_bytes; /* its code points are bytes */
    bool byte_tokens;
} decoder;

typedef struct reader {
    bl_tokenizer *t;
    decoder decoder;
    bl_err *err;
} reader;

/* ---- small things */

static bl_status without_memory(reader *r)
{
    return bl_arena_status(r->t->arena, r->err);
}

static bl_status read_text(reader *r, const bl_json *at, bl_span *out)
{
    const char *text = NULL;
    BL_TRY(bl_json_string(at, &text, r->err));
    *out = (bl_span){text, strlen(text)};
    out->data = bl_arena_strndup(r->t->arena, text, out->len);
    return out->data != NULL ? BL_OK : without_memory(r);
}

/* A member that may be missing, or null. */
static bool find(const bl_json *object, const char *name, bl_json *out)
{
    return bl_json_find(object, name, out) && out->kind != BL_JSON_NULL;
}

static bl_status find_flag(reader *r, const bl_json *object, const char *name, bool *out)
{
    bl_json at;
    return find(object, name, &at) ? bl_json_bool(&at, out, r->err) : BL_OK;
}

static bl_status find_text(reader *r, const bl_json *object, const char *name, bl_span *out)
{
    bl_json at;
    return find(object, name, &at) ? read_text(r, &at, out) : BL_OK;
}

static bl_status need_text(reader *r, const bl_json *object, const char *name, bl_span *out)
{
    bl_json at;
    BL_TRY(bl_json_need(object, name, &at, r->err));
    return read_text(r, &at, out);
}

static bl_status not_known(reader *r, const bl_json *at, const char *what, bl_span type)
{
    return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "the %s \"%.60s\" is not supported", what, type.data);
}

/* A member of which nothing but null, false and "" is known here. */
static bl_status must_be_off(reader *r, const bl_json *object, const char *name)
{
    bl_json at;
    if (!find(object, name, &at) || (at.kind == BL_JSON_BOOL && !at.boolean) || (at.kind == BL_JSON_STRING && at.text.len == 0))
        return BL_OK;
    if (at.kind == BL_JSON_NUMBER && (bl_span_is(at.text, "0") || bl_span_is(at.text, "0.0")))
        return BL_OK;
    return bl_json_fail(&at, r->err, BL_EUNSUPPORTED, "only null is supported");
}

/* ---- the vocabulary */

static void add_slot(bl_tokenizer *t, int32_t id)
{
    bl_span text = t->tokens[id].text;
    size_t mask = t->slots - 1, at = bl_hash_bytes(text.data, text.len, 1) & mask;
    while (t->by_text[at] >= 0)
        at = (at + 1) & mask;
    t->by_text[at] = id;
}

static bl_status add_token(reader *r, const bl_json *at, int64_t id, bl_span text)
{
    bl_token *token = &r->t->tokens[id];
    if (token->text.data != NULL)
        return bl_json_fail(at, r->err, BL_EINVAL, "the id %lld is that of \"%.60s\" already", (long long)id, token->text.data);
    token->text = text;
    if (text.len > r->t->longest)
        r->t->longest = text.len;
    add_slot(r->t, (int32_t)id);
    return BL_OK;
}

static size_t slots_for(size_t count)
{
    size_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    return slots;
}

static bl_status read_id(reader *r, const bl_json *at, int64_t *out)
{
    return bl_json_int(at, 0, MOST_IDS - 1, out, r->err);
}

/* Where the ids end, and room for them. */
static bl_status make_room(reader *r, const bl_json *vocab, const bl_json *added)
{
    bl_tokenizer *t = r->t;
    bl_json one, id;
    bl_json_iter it = bl_json_each(vocab);
    int64_t value = 0;
    size_t count = added != NULL ? bl_json_count(added) : 0;
    while (bl_json_next(&it, &one)) {
        BL_TRY(read_id(r, &one, &value));
        t->size = (size_t)value >= t->size ? (size_t)value + 1 : t->size;
        count++;
    }
    if (added != NULL) {
        it = bl_json_each(added);
        while (bl_json_next(&it, &one)) {
            BL_TRY(bl_json_need(&one, "id", &id, r->err));
            BL_TRY(read_id(r, &id, &value));
            t->size = (size_t)value >= t->size ? (size_t)value + 1 : t->size;
        }
    }
    t->slots = slots_for(count);
    t->tokens = bl_arena_array(t->arena, t->size + 1, sizeof *t->tokens);
    t->by_text = bl_arena_array(t->arena, t->slots, sizeof *t->by_text);
    if (t->tokens == NULL || t->by_text == NULL)
        return without_memory(r);
    memset(t->by_text, 0xff, t->slots * sizeof *t->by_text);
    return BL_OK;
}

static bl_status read_vocab(reader *r, const bl_json *vocab)
{
    bl_json_iter it = bl_json_each(vocab);
    bl_json one;
    while (bl_json_next(&it, &one)) {
        int64_t id = 0;
        bl_span text = {bl_arena_strdup(r->t->arena, one.key), strlen(one.key)};
        if (text.data == NULL)
            return without_memory(r);
        BL_TRY(read_id(r, &one, &id));
        BL_TRY(add_token(r, &one, id, text));
    }
    return BL_OK;
}

/* "A B", or ["A", "B"]. */
static bl_status read_merge(reader *r, const bl_json *at, bl_span *left, bl_span *right)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one, two, more;
    const char *blank = NULL;
    if (at->kind == BL_JSON_ARRAY) {
        if (!bl_json_next(&it, &one) || !bl_json_next(&it, &two) || bl_json_next(&it, &more))
            return bl_json_fail(at, r->err, BL_EINVAL, "a merge is of two tokens");
        BL_TRY(read_text(r, &one, left));
        return read_text(r, &two, right);
    }
    BL_TRY(read_text(r, at, left));
    blank = memchr(left->data, ' ', left->len);
    if (blank == NULL || strchr(blank + 1, ' ') != NULL)
        return bl_json_fail(at, r->err, BL_EINVAL, "a merge is of two tokens with a blank between them");
    *right = (bl_span){blank + 1, left->len - (size_t)(blank + 1 - left->data)};
    left->len = (size_t)(blank - left->data);
    return BL_OK;
}

static bl_status find_part(reader *r, const bl_json *at, bl_span text, int32_t *out)
{
    *out = bl_tokenizer_find(r->t, text);
    return *out >= 0 ? BL_OK
                     : bl_json_fail(at, r->err, BL_EINVAL, "\"%.*s\" is not in the vocabulary",
                                    (int)(text.len < 60 ? text.len : 60), text.data);
}

static bl_status add_merge(reader *r, const bl_json *at, int32_t rank)
{
    bl_tokenizer *t = r->t;
    bl_span left = {0}, right = {0}, whole = {0};
    bl_token_pair pair = {.rank = rank};
    size_t slot = 0, mask = t->pair_slots - 1;
    char *text = NULL;
    BL_TRY(read_merge(r, at, &left, &right));
    whole.len = left.len + right.len;
    text = bl_arena_alloc(t->arena, whole.len + 1);
    if (text == NULL)
        return without_memory(r);
    memcpy(text, left.data, left.len);
    memcpy(text + left.len, right.data, right.len);
    whole.data = text;
    BL_TRY(find_part(r, at, left, &pair.left));
    BL_TRY(find_part(r, at, right, &pair.right));
    BL_TRY(find_part(r, at, whole, &pair.joined));
    slot = bl_hash_mix((uint64_t)(uint32_t)pair.left << 32 | (uint32_t)pair.right) & mask;
    while (t->pairs[slot].left >= 0 && (t->pairs[slot].left != pair.left || t->pairs[slot].right != pair.right))
        slot = (slot + 1) & mask;
    t->pairs[slot] = pair; /* one that stands twice has the rank of the last, as others read it */
    return BL_OK;
}

static bl_status read_merges(reader *r, const bl_json *merges)
{
    bl_tokenizer *t = r->t;
    bl_json_iter it = bl_json_each(merges);
    bl_json one;
    int32_t rank = 0;
    t->pair_slots = slots_for(bl_json_count(merges));
    t->pairs = bl_arena_array(t->arena, t->pair_slots, sizeof *t->pairs);
    if (t->pairs == NULL)
        return without_memory(r);
    memset(t->pairs, 0xff, t->pair_slots * sizeof *t->pairs);
    while (bl_json_next(&it, &one))
        BL_TRY(add_merge(r, &one, rank++));
    return BL_OK;
}

static void find_byte_tokens(bl_tokenizer *t)
{
    static const char digits[] = "0123456789ABCDEF";
    for (unsigned i = 0; i < 256; i++) {
        char text[] = "<0x00>";
        text[3] = digits[i >> 4];
        text[4] = digits[i & 15];
        t->byte[i] = bl_tokenizer_find(t, (bl_span){text, 6});
    }
}

static bl_status read_model(reader *r, const bl_json *root, const bl_json *added)
{
    bl_tokenizer *t = r->t;
    bl_json model, vocab, merges;
    bl_span type = {"BPE", 3}, unknown = {0};
    BL_TRY(bl_json_need(root, "model", &model, r->err));
    BL_TRY(bl_json_expect(&model, BL_JSON_OBJECT, r->err));
    BL_TRY(find_text(r, &model, "type", &type));
    if (!bl_span_is(type, "BPE"))
        return not_known(r, &model, "type", type);
    BL_TRY(must_be_off(r, &model, "dropout"));
    BL_TRY(must_be_off(r, &model, "continuing_subword_prefix"));
    BL_TRY(must_be_off(r, &model, "end_of_word_suffix"));
    BL_TRY(find_flag(r, &model, "byte_fallback", &t->byte_fallback));
    BL_TRY(find_flag(r, &model, "fuse_unk", &t->fuse_unknown));
    BL_TRY(find_flag(r, &model, "ignore_merges", &t->whole_words));
    BL_TRY(bl_json_need(&model, "vocab", &vocab, r->err));
    BL_TRY(bl_json_expect(&vocab, BL_JSON_OBJECT, r->err));
    BL_TRY(make_room(r, &vocab, added));
    BL_TRY(read_vocab(r, &vocab));
    BL_TRY(bl_json_need(&model, "merges", &merges, r->err));
    BL_TRY(bl_json_expect(&merges, BL_JSON_ARRAY, r->err));
    BL_TRY(read_merges(r, &merges));
    find_byte_tokens(t);
    t->unknown = -1;
    BL_TRY(find_text(r, &model, "unk_token", &unknown));
    return unknown.data != NULL ? find_part(r, &model, unknown, &t->unknown) : BL_OK;
}

/* ---- added tokens */

static int compare_added(const void *a, const void *b)
{
    const bl_added_token *x = a, *y = b;
    if (x->text.data[0] != y->text.data[0])
        return (unsigned char)x->text.data[0] < (unsigned char)y->text.data[0] ? -1 : 1;
    return x->text.len != y->text.len ? (x->text.len > y->text.len ? -1 : 1) : x->id - y->id;
}

static bl_status read_added_token(reader *r, const bl_json *at, bl_added_token *out)
{
    bl_tokenizer *t = r->t;
    bl_json member;
    bl_token *token = NULL;
    int64_t id = 0;
    BL_TRY(bl_json_need(at, "id", &member, r->err));
    BL_TRY(read_id(r, &member, &id));
    BL_TRY(need_text(r, at, "content", &out->text));
    if (out->text.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "an added token has no content");
    BL_TRY(must_be_off(r, at, "single_word"));
    BL_TRY(find_flag(r, at, "lstrip", &out->eats_left));
    BL_TRY(find_flag(r, at, "rstrip", &out->eats_right));
    out->id = (int32_t)id;
    token = &t->tokens[id];
    if (token->text.data == NULL)
        BL_TRY(add_token(r, at, id, out->text));
    else if (!bl_span_eq(token->text, out->text))
        return bl_json_fail(at, r->err, BL_EINVAL, "the id %lld is that of \"%.60s\" already", (long long)id, token->text.data);
    BL_TRY(find_flag(r, at, "special", &token->special));
    token->bytes = out->text; /* as it is, whatever the decoder does to others */
    return BL_OK;
}

static bl_status read_added(reader *r, const bl_json *added)
{
    bl_tokenizer *t = r->t;
    bl_json_iter it = bl_json_each(added);
    bl_json one;
    size_t count = bl_json_count(added);
    if (count > MOST_ADDED)
        return bl_json_fail(added, r->err, BL_ELIMIT, "over %d added tokens", MOST_ADDED);
    t->added = bl_arena_array(t->arena, count + 1, sizeof *t->added);
    if (t->added == NULL)
        return without_memory(r);
    while (bl_json_next(&it, &one))
        BL_TRY(read_added_token(r, &one, &t->added[t->nadded++]));
    if (t->nadded > 1)
        qsort(t->added, t->nadded, sizeof *t->added, compare_added);
    for (size_t i = 0; i < t->nadded; i++)
        t->added_from[(unsigned char)t->added[i].text.data[0] + 1]++;
    for (size_t i = 0; i < 256; i++)
        t->added_from[i + 1] += t->added_from[i];
    return BL_OK;
}

/* ---- steps */

static bl_status new_step(reader *r, const bl_json *at, bl_token_step **out)
{
    if (r->t->nsteps == BL_TOKEN_STEPS)
        return bl_json_fail(at, r->err, BL_ELIMIT, "over %d steps", BL_TOKEN_STEPS);
    *out = &r->t->steps[r->t->nsteps++];
    return BL_OK;
}

static bl_status add_replace(reader *r, const bl_json *at, bl_span from, bl_span to)
{
    bl_token_step *step = NULL;
    if (from.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "an empty pattern");
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_REPLACE, .from = from, .to = to};
    return BL_OK;
}

static bl_status add_prefix(reader *r, const bl_json *at, bl_span text, bool unless_there, bool at_start)
{
    bl_token_step *step = NULL;
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_PREFIX, .to = text, .unless_there = unless_there, .at_start = at_start};
    return BL_OK;
}

static bl_status add_split(reader *r, const bl_json *at, bl_span pattern, bool literal, bl_split_behavior behavior, bool invert)
{
    bl_token_step *step = NULL;
    int code = 0;
    PCRE2_SIZE where = 0;
    uint32_t options = literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_SPLIT, .behavior = behavior, .invert = invert};
    step->code = pcre2_compile((PCRE2_SPTR)pattern.data, pattern.len, options | PCRE2_UTF, &code, &where, r->t->rules);
    if (step->code != NULL)
        return BL_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return bl_fail(r->err, BL_ENOMEM, "a regular expression");
    char why[120] = "";
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return bl_json_fail(at, r->err, BL_EINVAL, "the pattern is no regular expression: %s, at its byte %zu", why, (size_t)where);
}

static bl_status add_bytes(reader *r, const bl_json *at)
{
    bl_token_step *step = NULL;
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_BYTES};
    return BL_OK;
}

/* {"String": "..."} or {"Regex": "..."} */
static bl_status read_pattern(reader *r, const bl_json *at, bl_span *out, bool *literal)
{
    bl_json pattern;
    BL_TRY(bl_json_need(at, "pattern", &pattern, r->err));
    BL_TRY(find_text(r, &pattern, "String", out));
    *literal = out->data != NULL;
    return *literal ? BL_OK : need_text(r, &pattern, "Regex", out);
}

static bl_status read_replace(reader *r, const bl_json *at, bl_span *from, bl_span *to)
{
    bool literal = false;
    BL_TRY(read_pattern(r, at, from, &literal));
    if (!literal)
        return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "Replace is supported with a String, and not with a Regex");
    return need_text(r, at, "content", to);
}

static bl_status step_prepend(reader *r, const bl_json *at)
{
    bl_span text = {0};
    BL_TRY(need_text(r, at, "prepend", &text));
    return add_prefix(r, at, text, false, false);
}

static bl_status step_replace(reader *r, const bl_json *at)
{
    bl_span from = {0}, to = {0};
    BL_TRY(read_replace(r, at, &from, &to));
    return add_replace(r, at, from, to);
}

static bl_status step_byte_level(reader *r, const bl_json *at)
{
    bool prefix = true, regex = true;
    BL_TRY(find_flag(r, at, "add_prefix_space", &prefix));
    BL_TRY(find_flag(r, at, "use_regex", &regex));
    if (prefix)
        BL_TRY(add_prefix(r, at, BL_S(" "), true, false));
    if (regex)
        BL_TRY(add_split(r, at, BL_S(gpt2_pattern), false, BL_SPLIT_ISOLATED, false));
    return add_bytes(r, at);
}

static bl_status step_metaspace(reader *r, const bl_json *at)
{
    bl_span mark = BL_S(blank_mark), scheme = {"always", 6};
    bool prefix = true, cuts = true;
    BL_TRY(find_text(r, at, "replacement", &mark));
    BL_TRY(find_flag(r, at, "add_prefix_space", &prefix)); /* as older files say it */
    if (!prefix)
        scheme = BL_S("never");
    BL_TRY(find_text(r, at, "prepend_scheme", &scheme));
    BL_TRY(find_flag(r, at, "split", &cuts));
    BL_TRY(add_replace(r, at, BL_S(" "), mark));
    if (!bl_span_is(scheme, "never"))
        BL_TRY(add_prefix(r, at, mark, true, bl_span_is(scheme, "first")));
    return cuts ? add_split(r, at, mark, true, BL_SPLIT_WITH_NEXT, false) : BL_OK;
}

static bl_status step_split(reader *r, const bl_json *at)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    bl_span pattern = {0}, behavior = {0};
    bool literal = false, invert = false;
    int i = 0;
    BL_TRY(read_pattern(r, at, &pattern, &literal));
    BL_TRY(need_text(r, at, "behavior", &behavior));
    BL_TRY(find_flag(r, at, "invert", &invert));
    while (i < 5 && !bl_span_is(behavior, names[i]))
        i++;
    if (i == 5)
        return not_known(r, at, "behavior", behavior);
    return add_split(r, at, pattern, literal, (bl_split_behavior)i, invert);
}

static bl_status step_digits(reader *r, const bl_json *at)
{
    bool each = false;
    BL_TRY(find_flag(r, at, "individual_digits", &each));
    return add_split(r, at, each ? BL_S("\\p{N}") : BL_S("\\p{N}+"), false, BL_SPLIT_ISOLATED, false);
}

static bl_status step_words(reader *r, const bl_json *at)
{
    return add_split(r, at, BL_S("\\w+|[^\\w\\s]+"), false, BL_SPLIT_REMOVED, true);
}

static bl_status step_blanks(reader *r, const bl_json *at)
{
    return add_split(r, at, BL_S("\\s+"), false, BL_SPLIT_REMOVED, false);
}

typedef bl_status (*read_step)(reader *r, const bl_json *at);
typedef struct step_row {
    const char *type;
    read_step read;
} step_row;

static const step_row normalizers[] = {{"Prepend", step_prepend}, {"Replace", step_replace}, {NULL, NULL}};
static const step_row pre_tokenizers[] = {
    {"ByteLevel", step_byte_level}, {"Metaspace", step_metaspace},    {"Split", step_split}, {"Digits", step_digits},
    {"Whitespace", step_words},     {"WhitespaceSplit", step_blanks}, {NULL, NULL}};

/* One of the rows, or a Sequence of them in |list|. */
static bl_status read_steps(reader *r, const bl_json *at, const step_row *rows, const char *list, bool inside)
{
    bl_span type = {0};
    bl_json all, one;
    BL_TRY(bl_json_expect(at, BL_JSON_OBJECT, r->err));
    BL_TRY(need_text(r, at, "type", &type));
    for (const step_row *row = rows; row->type != NULL; row++)
        if (bl_span_is(type, row->type))
            return row->read(r, at);
    if (!bl_span_is(type, "Sequence") || inside)
        return not_known(r, at, "type", type);
    BL_TRY(bl_json_need(at, list, &all, r->err));
    BL_TRY(bl_json_expect(&all, BL_JSON_ARRAY, r->err));
    bl_json_iter it = bl_json_each(&all);
    while (bl_json_next(&it, &one))
        BL_TRY(read_steps(r, &one, rows, list, true));
    return BL_OK;
}

/* ---- what stands around a text */

static bl_status add_around(reader *r, const bl_json *at, const bl_json *ids, bool after)
{
    bl_json_iter it = bl_json_each(ids);
    bl_json one;
    BL_TRY(bl_json_expect(ids, BL_JSON_ARRAY, r->err));
    while (bl_json_next(&it, &one)) {
        int *count = after ? &r->t->nafter : &r->t->nbefore;
        int64_t id = 0;
        BL_TRY(read_id(r, &one, &id));
        if ((size_t)id >= r->t->size || r->t->tokens[id].text.data == NULL)
            return bl_json_fail(at, r->err, BL_EINVAL, "there is no token %lld", (long long)id);
        if (*count == BL_TOKEN_AROUND)
            return bl_json_fail(at, r->err, BL_ELIMIT, "over %d tokens around a text", BL_TOKEN_AROUND);
        (after ? r->t->after : r->t->before)[(*count)++] = (int32_t)id;
    }
    return BL_OK;
}

static bl_status post_template(reader *r, const bl_json *at)
{
    bl_json single, one, token, tokens, row, ids;
    bool after = false;
    BL_TRY(bl_json_need(at, "single", &single, r->err));
    BL_TRY(bl_json_expect(&single, BL_JSON_ARRAY, r->err));
    bl_json_iter it = bl_json_each(&single);
    while (bl_json_next(&it, &one)) {
        bl_span name = {0};
        if (find(&one, "Sequence", &token)) {
            after = true;
            continue;
        }
        BL_TRY(bl_json_need(&one, "SpecialToken", &token, r->err));
        BL_TRY(need_text(r, &token, "id", &name));
        BL_TRY(bl_json_need(at, "special_tokens", &tokens, r->err));
        BL_TRY(bl_json_need(&tokens, name.data, &row, r->err));
        BL_TRY(bl_json_need(&row, "ids", &ids, r->err));
        BL_TRY(add_around(r, &one, &ids, after));
    }
    return BL_OK;
}

/* It is about offsets, which nobody asks for here. */
static bl_status nothing(reader *r, const bl_json *at)
{
    (void)r;
    (void)at;
    return BL_OK;
}

static const step_row post_processors[] = {{"TemplateProcessing", post_template}, {"ByteLevel", nothing}, {NULL, NULL}};

/* ---- back to text */

static bl_status decode_bytes(reader *r, const bl_json *at)
{
    (void)at;
    r->decoder.from_bytes = true;
    return BL_OK;
}

static bl_status decode_byte_tokens(reader *r, const bl_json *at)
{
    (void)at;
    r->decoder.byte_tokens = true;
    return BL_OK;
}

static bl_status add_decode_replace(reader *r, const bl_json *at, bl_span from, bl_span to)
{
    decoder *d = &r->decoder;
    if (d->nreplaces == MOST_REPLACES || from.len == 0)
        return bl_json_fail(at, r->err, BL_ELIMIT, "an empty pattern, or over %d replacements", MOST_REPLACES);
    d->from[d->nreplaces] = from;
    d->to[d->nreplaces++] = to;
    return BL_OK;
}

static bl_status decode_replace(reader *r, const bl_json *at)
{
    bl_span from = {0}, to = {0};
    BL_TRY(read_replace(r, at, &from, &to));
    return add_decode_replace(r, at, from, to);
}

static bl_status decode_metaspace(reader *r, const bl_json *at)
{
    bl_span mark = BL_S(blank_mark), scheme = {"always", 6};
    bool prefix = true;
    BL_TRY(find_text(r, at, "replacement", &mark));
    BL_TRY(find_flag(r, at, "add_prefix_space", &prefix));
    BL_TRY(find_text(r, at, "prepend_scheme", &scheme));
    r->t->strip_blank = prefix && !bl_span_is(scheme, "never");
    return add_decode_replace(r, at, mark, BL_S(" "));
}

/* Of the blanks that a tokenizer puts in front of a text: one, at the start. */
static bl_status decode_strip(reader *r, const bl_json *at)
{
    bl_json member;
    bl_span content = {0};
    int64_t start = 0, stop = 0;
    BL_TRY(need_text(r, at, "content", &content));
    if (bl_json_find(at, "start", &member))
        BL_TRY(bl_json_int(&member, 0, INT32_MAX, &start, r->err));
    if (bl_json_find(at, "stop", &member))
        BL_TRY(bl_json_int(&member, 0, INT32_MAX, &stop, r->err));
    if (!bl_span_is(content, " ") || start > 1 || stop > 0)
        return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "only one blank at the start can be stripped");
    r->t->strip_blank = start == 1;
    return BL_OK;
}

static const step_row decoders[] = {{"ByteLevel", decode_bytes},
                                    {"ByteFallback", decode_byte_tokens},
                                    {"Replace", decode_replace},
                                    {"Metaspace", decode_metaspace},
                                    {"Strip", decode_strip},
                                    {"Fuse", nothing},
                                    {NULL, NULL}};

static void put_replaced(bl_text *out, bl_span text, bl_span from, bl_span to)
{
    for (size_t i = 0; i < text.len;) {
        if (text.len - i >= from.len && memcmp(text.data + i, from.data, from.len) == 0) {
            bl_text_append(out, to.data, to.len);
            i += from.len;
        } else {
            bl_text_putc(out, text.data[i++]);
        }
    }
}

static void put_from_bytes(bl_text *out, bl_span text)
{
    for (size_t i = 0, n = 0; i < text.len; i += n) {
        n = bl_utf8_length(text.data + i, text.len - i);
        int value = bl_token_byte_get(bl_token_point(text.data + i, n));
        if (value >= 0)
            bl_text_putc(out, (char)value);
        else
            bl_text_append(out, text.data + i, n); /* of an added token, which is text as it is */
    }
}

static bl_status fill_bytes(reader *r, int32_t id, bl_text *one, bl_text *two)
{
    bl_token *token = &r->t->tokens[id];
    const decoder *d = &r->decoder;
    char byte = 0;
    bl_text_clear(one);
    bl_text_append(one, token->text.data, token->text.len);
    for (int i = 0; i < d->nreplaces; i++) {
        bl_text swap = *one;
        bl_text_clear(two);
        put_replaced(two, (bl_span){bl_text_get(one), one->len}, d->from[i], d->to[i]);
        *one = *two;
        *two = swap;
    }
    if (d->from_bytes) {
        bl_text swap = *one;
        bl_text_clear(two);
        put_from_bytes(two, (bl_span){bl_text_get(one), one->len});
        *one = *two;
        *two = swap;
    }
    if (d->byte_tokens && token->text.len == 6 && token->text.data[0] == '<')
        for (int value = 0; value < 256; value++)
            if (r->t->byte[value] == id) {
                bl_text_clear(one);
                byte = (char)value;
                bl_text_append(one, &byte, 1);
            }
    BL_TRY(bl_text_status(one, r->err));
    BL_TRY(bl_text_status(two, r->err));
    token->bytes = (bl_span){bl_arena_strndup(r->t->arena, bl_text_get(one), one->len), one->len};
    return token->bytes.data != NULL ? BL_OK : without_memory(r);
}

static bl_status fill_all_bytes(reader *r)
{
    bl_text one = {0}, two = {0};
    bl_status st = BL_OK;
    for (size_t i = 0; i < r->t->size && st == BL_OK; i++)
        if (r->t->tokens[i].text.data != NULL && r->t->tokens[i].bytes.data == NULL)
            st = fill_bytes(r, (int32_t)i, &one, &two);
    bl_text_fini(&one);
    bl_text_fini(&two);
    return st;
}

/* ---- all of it */

static bl_status read_root(reader *r, const bl_json *root)
{
    bl_json added, at;
    bool more = find(root, "added_tokens", &added);
    BL_TRY(bl_json_expect(root, BL_JSON_OBJECT, r->err));
    if (more)
        BL_TRY(bl_json_expect(&added, BL_JSON_ARRAY, r->err));
    BL_TRY(read_model(r, root, more ? &added : NULL));
    if (more)
        BL_TRY(read_added(r, &added));
    if (find(root, "normalizer", &at))
        BL_TRY(read_steps(r, &at, normalizers, "normalizers", false));
    if (find(root, "pre_tokenizer", &at))
        BL_TRY(read_steps(r, &at, pre_tokenizers, "pretokenizers", false));
    if (find(root, "post_processor", &at))
        BL_TRY(read_steps(r, &at, post_processors, "processors", false));
    if (find(root, "decoder", &at))
        BL_TRY(read_steps(r, &at, decoders, "decoders", false));
    return fill_all_bytes(r);
}

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

static bl_tokenizer *create(void)
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
    pcre2_set_match_limit(t->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(t->limits, HEAP_KIB);
    return t;
}

bl_status bl_tokenizer_read(bl_span file, bl_tokenizer **out, bl_err *err)
{
    const bl_json_limits limits = {.values = MOST_VALUES};
    reader r = {.t = create(), .err = err};
    bl_arena *scratch = bl_arena_create(TOKENIZER_BYTES);
    bl_json_doc doc = {0};
    bl_status st = BL_OK;
    *out = NULL;
    if (r.t == NULL || scratch == NULL) {
        st = bl_fail(err, BL_ENOMEM, "a tokenizer");
        goto out;
    }
    st = bl_json_parse(&doc, scratch, file, &limits, err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = read_root(&r, &root);
    }
    bl_json_fini(&doc);
out:
    bl_arena_destroy(scratch);
    if (st == BL_OK)
        *out = r.t;
    else
        bl_tokenizer_destroy(r.t);
    return st;
}
