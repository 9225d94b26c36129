/* SPDX-License-Identifier: MIT */
/* tokenizer.json.  Members that say nothing about ids and bytes, such as offsets, are passed over; a member that does, with a
 * value that is not known here, fails: other tokens than its author's would be worse than none. */
#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "proto/tokenizer_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENIZER_BYTES = 512 * 1024 * 1024, /* a vocabulary of 256,000 and its 600,000 merges take about a tenth */
    MOST_VALUES = 4 * 1024 * 1024,
    MOST_IDS = 1024 * 1024,
    MOST_ADDED = 65536,
    MOST_PATTERN = 4096,
    MATCH_LIMIT = 200000, /* of PCRE2, in one place of a text; the patterns that are in use need some hundreds */
    HEAP_KIB = 4096
};

typedef bl_token_reader reader;

/* ---- small things */

bl_status bl_token_read_without_memory(reader *r)
{
    return bl_arena_status(r->t->arena, r->err);
}

bl_status bl_token_read_text(reader *r, const bl_json *at, bl_span *out)
{
    const char *text = NULL;
    BL_TRY(bl_json_string(at, &text, r->err));
    *out = (bl_span){text, strlen(text)};
    out->data = bl_arena_strndup(r->t->arena, text, out->len);
    return out->data != NULL ? BL_OK : bl_token_read_without_memory(r);
}

/* A member that may be missing, or null. */
bool bl_token_find(const bl_json *object, const char *name, bl_json *out)
{
    return bl_json_find(object, name, out) && out->kind != BL_JSON_NULL;
}

bl_status bl_token_find_flag(reader *r, const bl_json *object, const char *name, bool *out)
{
    bl_json at;
    return bl_token_find(object, name, &at) ? bl_json_bool(&at, out, r->err) : BL_OK;
}

bl_status bl_token_find_text(reader *r, const bl_json *object, const char *name, bl_span *out)
{
    bl_json at;
    return bl_token_find(object, name, &at) ? bl_token_read_text(r, &at, out) : BL_OK;
}

bl_status bl_token_need_text(reader *r, const bl_json *object, const char *name, bl_span *out)
{
    bl_json at;
    BL_TRY(bl_json_need(object, name, &at, r->err));
    return bl_token_read_text(r, &at, out);
}

bl_status bl_token_not_known(reader *r, const bl_json *at, const char *what, bl_span type)
{
    return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "the %s \"%.60s\" is not supported", what, type.data);
}

/* A member of which nothing but null, false and "" is known here. */
static bl_status must_be_off(reader *r, const bl_json *object, const char *name)
{
    bl_json at;
    if (!bl_token_find(object, name, &at) || (at.kind == BL_JSON_BOOL && !at.boolean) ||
        (at.kind == BL_JSON_STRING && at.text.len == 0))
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

bl_status bl_token_read_id(reader *r, const bl_json *at, int64_t *out)
{
    return bl_json_int(at, 0, MOST_IDS - 1, out, r->err);
}

/* Where the ids end. */
static bl_status measure(reader *r, const bl_json *vocab, const bl_json *added)
{
    bl_tokenizer *t = r->t;
    bl_json one, id;
    bl_json_iter it = bl_json_each(vocab);
    int64_t value = 0;
    t->size = vocab->kind == BL_JSON_ARRAY ? bl_json_count(vocab) : 0;
    if (t->size > MOST_IDS)
        return bl_json_fail(vocab, r->err, BL_ELIMIT, "over %d tokens", MOST_IDS);
    while (vocab->kind == BL_JSON_OBJECT && bl_json_next(&it, &one)) {
        BL_TRY(bl_token_read_id(r, &one, &value));
        t->size = (size_t)value >= t->size ? (size_t)value + 1 : t->size;
    }
    if (added == NULL)
        return BL_OK;
    it = bl_json_each(added);
    while (bl_json_next(&it, &one)) {
        BL_TRY(bl_json_need(&one, "id", &id, r->err));
        BL_TRY(bl_token_read_id(r, &id, &value));
        t->size = (size_t)value >= t->size ? (size_t)value + 1 : t->size;
    }
    return BL_OK;
}

static bl_status make_room(reader *r, const bl_json *vocab, const bl_json *added)
{
    bl_tokenizer *t = r->t;
    BL_TRY(measure(r, vocab, added));
    t->slots = slots_for(bl_json_count(vocab) + (added != NULL ? bl_json_count(added) : 0));
    t->tokens = bl_arena_array(t->arena, t->size + 1, sizeof *t->tokens);
    t->by_text = bl_arena_array(t->arena, t->slots, sizeof *t->by_text);
    if (t->tokens == NULL || t->by_text == NULL)
        return bl_token_read_without_memory(r);
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
            return bl_token_read_without_memory(r);
        BL_TRY(bl_token_read_id(r, &one, &id));
        BL_TRY(add_token(r, &one, id, text));
    }
    return BL_OK;
}

static bl_status find_part(reader *r, const bl_json *at, bl_span text, int32_t *out)
{
    *out = bl_tokenizer_find(r->t, text);
    return *out >= 0 ? BL_OK
                     : bl_json_fail(at, r->err, BL_EINVAL, "\"%.*s\" is not in the vocabulary",
                                    (int)(text.len < 60 ? text.len : 60), text.data);
}

/* ---- BPE */

/* "A B", or ["A", "B"]. */
static bl_status read_merge(reader *r, const bl_json *at, bl_span *left, bl_span *right)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one, two, more;
    const char *blank = NULL;
    if (at->kind == BL_JSON_ARRAY) {
        if (!bl_json_next(&it, &one) || !bl_json_next(&it, &two) || bl_json_next(&it, &more))
            return bl_json_fail(at, r->err, BL_EINVAL, "a merge is of two tokens");
        BL_TRY(bl_token_read_text(r, &one, left));
        return bl_token_read_text(r, &two, right);
    }
    BL_TRY(bl_token_read_text(r, at, left));
    blank = memchr(left->data, ' ', left->len);
    if (blank == NULL || strchr(blank + 1, ' ') != NULL)
        return bl_json_fail(at, r->err, BL_EINVAL, "a merge is of two tokens with a blank between them");
    *right = (bl_span){blank + 1, left->len - (size_t)(blank + 1 - left->data)};
    left->len = (size_t)(blank - left->data);
    return BL_OK;
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
        return bl_token_read_without_memory(r);
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
        return bl_token_read_without_memory(r);
    memset(t->pairs, 0xff, t->pair_slots * sizeof *t->pairs);
    while (bl_json_next(&it, &one))
        BL_TRY(add_merge(r, &one, rank++));
    return BL_OK;
}

static bl_status read_bpe(reader *r, const bl_json *model)
{
    bl_tokenizer *t = r->t;
    bl_json merges;
    bl_span unknown = {0};
    BL_TRY(must_be_off(r, model, "dropout"));
    BL_TRY(must_be_off(r, model, "continuing_subword_prefix"));
    BL_TRY(must_be_off(r, model, "end_of_word_suffix"));
    BL_TRY(bl_token_find_flag(r, model, "fuse_unk", &t->fuse_unknown));
    BL_TRY(bl_token_find_flag(r, model, "ignore_merges", &t->whole_words));
    BL_TRY(bl_json_need(model, "merges", &merges, r->err));
    BL_TRY(bl_json_expect(&merges, BL_JSON_ARRAY, r->err));
    BL_TRY(read_merges(r, &merges));
    BL_TRY(bl_token_find_text(r, model, "unk_token", &unknown));
    return unknown.data != NULL ? find_part(r, model, unknown, &t->unknown) : BL_OK;
}

/* ---- Unigram */

static int compare_texts(const void *a, const void *b)
{
    bl_span x = (*(const bl_token *const *)a)->text, y = (*(const bl_token *const *)b)->text;
    int differs = memcmp(x.data, y.data, x.len < y.len ? x.len : y.len);
    return differs != 0 ? differs : x.len < y.len ? -1 : x.len > y.len;
}

static bl_token_edge *need_edge(bl_tokenizer *t, uint32_t node, char byte, uint32_t *nodes)
{
    uint64_t key = (uint64_t)node << 8 | (unsigned char)byte;
    size_t mask = t->edge_slots - 1, at = bl_hash_mix(key) & mask;
    while (t->edges[at].key != key && t->edges[at].key != UINT64_MAX)
        at = (at + 1) & mask;
    if (t->edges[at].key != key)
        t->edges[at] = (bl_token_edge){key, ++*nodes, -1};
    return &t->edges[at];
}

/* |sorted|: the tokens, so that what two have in common shows side by side. */
static bl_status make_edges(reader *r, const bl_token **sorted, size_t count)
{
    bl_tokenizer *t = r->t;
    size_t edges = 0;
    uint32_t nodes = 0;
    for (size_t i = 0; i < count; i++) {
        bl_span text = sorted[i]->text, before = i > 0 ? sorted[i - 1]->text : BL_S("");
        size_t same = 0;
        while (same < text.len && same < before.len && text.data[same] == before.data[same])
            same++;
        edges += text.len - same;
    }
    t->edge_slots = slots_for(edges);
    t->edges = bl_arena_array(t->arena, t->edge_slots, sizeof *t->edges);
    if (t->edges == NULL)
        return bl_token_read_without_memory(r);
    memset(t->edges, 0xff, t->edge_slots * sizeof *t->edges);
    for (size_t i = 0; i < count; i++) {
        uint32_t node = 0;
        bl_token_edge *edge = NULL;
        for (size_t k = 0; k < sorted[i]->text.len; k++) {
            edge = need_edge(t, node, sorted[i]->text.data[k], &nodes);
            node = edge->node;
        }
        if (edge != NULL)
            edge->id = (int32_t)(sorted[i] - t->tokens);
    }
    return BL_OK;
}

static bl_status make_trie(reader *r, size_t count)
{
    const bl_token **sorted = bl_calloc(count + 1, sizeof *sorted);
    bl_status st = BL_OK;
    if (sorted == NULL)
        return bl_fail(r->err, BL_ENOMEM, "a vocabulary");
    for (size_t i = 0; i < count; i++)
        sorted[i] = &r->t->tokens[i];
    qsort(sorted, count, sizeof *sorted, compare_texts);
    st = make_edges(r, sorted, count);
    free(sorted);
    return st;
}

/* ["text", score] */
static bl_status read_piece(reader *r, const bl_json *at, int32_t id)
{
    bl_tokenizer *t = r->t;
    bl_json_iter it = bl_json_each(at);
    bl_json one, two, more;
    bl_span text = {0};
    bl_wire_number score;
    if (at->kind != BL_JSON_ARRAY || !bl_json_next(&it, &one) || !bl_json_next(&it, &two) || bl_json_next(&it, &more))
        return bl_json_fail(at, r->err, BL_EINVAL, "a piece is a text and its score");
    BL_TRY(bl_token_read_text(r, &one, &text));
    BL_TRY(bl_json_number(&two, &score, r->err));
    if (!isfinite(score.value))
        return bl_json_fail(&two, r->err, BL_EINVAL, "a score is a finite number");
    if (bl_tokenizer_find(t, text) >= 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "\"%.60s\" stands there twice", text.data);
    t->scores[id] = score.value;
    return add_token(r, at, id, text);
}

static bl_status read_unigram(reader *r, const bl_json *model)
{
    const double penalty = 10; /* of what is unknown, as SentencePiece has it: below the least score */
    bl_tokenizer *t = r->t;
    bl_json vocab, one, unknown;
    int64_t id = -1;
    int32_t count = 0;
    double least = INFINITY;
    BL_TRY(bl_json_need(model, "vocab", &vocab, r->err));
    t->scores = bl_arena_array(t->arena, bl_json_count(&vocab) + 1, sizeof *t->scores);
    if (t->scores == NULL)
        return bl_token_read_without_memory(r);
    bl_json_iter it = bl_json_each(&vocab);
    while (bl_json_next(&it, &one)) {
        BL_TRY(read_piece(r, &one, count));
        least = t->scores[count] < least ? t->scores[count] : least;
        count++;
    }
    t->unknown_score = least - penalty;
    BL_TRY(make_trie(r, (size_t)count));
    if (bl_token_find(model, "unk_id", &unknown))
        BL_TRY(bl_json_int(&unknown, 0, (int64_t)count - 1, &id, r->err));
    t->unknown = (int32_t)id;
    return BL_OK;
}

/* ---- WordPiece */

static bl_status read_wordpiece(reader *r, const bl_json *model)
{
    bl_tokenizer *t = r->t;
    bl_span unknown = BL_S("[UNK]");
    int64_t most = 100;
    bl_json at;
    t->continues = BL_S("##");
    BL_TRY(bl_token_find_text(r, model, "continuing_subword_prefix", &t->continues));
    if (bl_token_find(model, "max_input_chars_per_word", &at))
        BL_TRY(bl_json_int(&at, 0, INT64_MAX, &most, r->err));
    t->most_characters = (size_t)most;
    BL_TRY(bl_token_find_text(r, model, "unk_token", &unknown));
    return find_part(r, model, unknown, &t->unknown);
}

/* ---- the model */

static const struct {
    const char *type;
    bl_json_kind vocab;
    bl_status (*read)(reader *r, const bl_json *model);
} models[] = {[BL_TOKENS_BPE] = {"BPE", BL_JSON_OBJECT, read_bpe},
              [BL_TOKENS_UNIGRAM] = {"Unigram", BL_JSON_ARRAY, read_unigram},
              [BL_TOKENS_WORDPIECE] = {"WordPiece", BL_JSON_OBJECT, read_wordpiece}};

/* Older files do not say the type, but have what it needs. */
static bl_status choose_model(reader *r, const bl_json *model)
{
    bl_json at;
    bl_span type = BL_S("BPE");
    if (bl_token_find(model, "vocab", &at) && at.kind == BL_JSON_ARRAY)
        type = BL_S("Unigram");
    else if (bl_token_find(model, "max_input_chars_per_word", &at))
        type = BL_S("WordPiece");
    BL_TRY(bl_token_find_text(r, model, "type", &type));
    for (int i = 0; i < (int)(sizeof models / sizeof models[0]); i++)
        if (bl_span_is(type, models[i].type)) {
            r->t->model = (bl_token_model)i;
            return BL_OK;
        }
    return bl_token_not_known(r, model, "type", type);
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
    bl_json model, vocab;
    BL_TRY(bl_json_need(root, "model", &model, r->err));
    BL_TRY(bl_json_expect(&model, BL_JSON_OBJECT, r->err));
    BL_TRY(choose_model(r, &model));
    BL_TRY(bl_json_need(&model, "vocab", &vocab, r->err));
    BL_TRY(bl_json_expect(&vocab, models[r->t->model].vocab, r->err));
    BL_TRY(bl_token_find_flag(r, &model, "byte_fallback", &t->byte_fallback));
    BL_TRY(make_room(r, &vocab, added));
    if (vocab.kind == BL_JSON_OBJECT)
        BL_TRY(read_vocab(r, &vocab));
    t->unknown = -1;
    BL_TRY(models[t->model].read(r, &model));
    find_byte_tokens(t);
    return BL_OK;
}

/* ---- added tokens */

static int compare_added(const void *a, const void *b)
{
    const bl_added_token *x = a, *y = b;
    if (x->text.data[0] != y->text.data[0])
        return (unsigned char)x->text.data[0] < (unsigned char)y->text.data[0] ? -1 : 1;
    return x->text.len != y->text.len ? (x->text.len > y->text.len ? -1 : 1) : x->id - y->id;
}

/* |normalised|: it is looked for in what the normaliser gives. */
static bl_status read_added_token(reader *r, const bl_json *at, bl_added_token *out, bool *normalised)
{
    bl_tokenizer *t = r->t;
    bl_json member;
    bl_token *token = NULL;
    int64_t id = 0;
    BL_TRY(bl_json_need(at, "id", &member, r->err));
    BL_TRY(bl_token_read_id(r, &member, &id));
    BL_TRY(bl_token_need_text(r, at, "content", &out->text));
    if (out->text.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "an added token has no content");
    BL_TRY(must_be_off(r, at, "single_word"));
    BL_TRY(bl_token_find_flag(r, at, "lstrip", &out->eats_left));
    BL_TRY(bl_token_find_flag(r, at, "rstrip", &out->eats_right));
    out->id = (int32_t)id;
    token = &t->tokens[id];
    if (token->text.data == NULL) {
        BL_TRY(add_token(r, at, id, out->text));
        token->added = true;
    } else if (!bl_span_eq(token->text, out->text)) {
        return bl_json_fail(at, r->err, BL_EINVAL, "the id %lld is that of \"%.60s\" already", (long long)id, token->text.data);
    }
    BL_TRY(bl_token_find_flag(r, at, "special", &token->special));
    *normalised = !token->special;
    return bl_token_find_flag(r, at, "normalized", normalised);
}

/* What the normaliser makes of one: nothing, where it can never be found. */
static bl_status normalise_added(reader *r, bl_token_encoder *e, bl_added_token *added)
{
    bl_text room[2] = {{0}};
    bl_status st = bl_token_normalise(e, room, &added->text);
    if (st == BL_OK) {
        added->text.data = bl_arena_strndup(r->t->arena, added->text.data, added->text.len);
        st = added->text.data != NULL ? BL_OK : bl_token_read_without_memory(r);
    }
    bl_text_fini(&room[0]);
    bl_text_fini(&room[1]);
    return st;
}

static void sort_added(bl_added_tokens *among)
{
    if (among->count > 1)
        qsort(among->token, among->count, sizeof *among->token, compare_added);
    for (size_t i = 0; i < among->count; i++)
        among->from[(unsigned char)among->token[i].text.data[0] + 1]++;
    for (size_t i = 0; i < 256; i++)
        among->from[i + 1] += among->from[i];
}

static bl_status make_added_room(reader *r, const bl_json *added, bl_added_tokens *among)
{
    size_t count = bl_json_count(added);
    if (count > MOST_ADDED)
        return bl_json_fail(added, r->err, BL_ELIMIT, "over %d added tokens", MOST_ADDED);
    among->token = bl_arena_array(r->t->arena, count + 1, sizeof *among->token);
    return among->token != NULL ? BL_OK : bl_token_read_without_memory(r);
}

static bl_status read_added(reader *r, const bl_json *added)
{
    bl_tokenizer *t = r->t;
    bl_json_iter it = bl_json_each(added);
    bl_json one;
    BL_TRY(make_added_room(r, added, &t->as_written));
    BL_TRY(make_added_room(r, added, &t->normalised));
    while (bl_json_next(&it, &one)) {
        bl_added_token token = {0};
        bl_added_tokens *among = NULL;
        bool normalised = false;
        BL_TRY(read_added_token(r, &one, &token, &normalised));
        among = normalised ? &t->normalised : &t->as_written;
        among->token[among->count++] = token;
    }
    sort_added(&t->as_written);
    return BL_OK;
}

/* The steps are known. */
static bl_status normalise_all_added(reader *r)
{
    bl_tokenizer *t = r->t;
    bl_added_tokens *among = &t->normalised;
    bl_token_encoder e;
    bl_status st = BL_OK;
    size_t kept = 0;
    bl_token_encoder_init(&e, t, r->err);
    for (size_t i = 0; i < among->count && st == BL_OK; i++) {
        bl_added_token token = among->token[i];
        st = normalise_added(r, &e, &token);
        if (st != BL_OK)
            break;
        t->tokens[token.id].bytes = token.text; /* the library tells it so */
        if (token.text.len > 0)
            among->token[kept++] = token;
    }
    bl_token_encoder_fini(&e);
    if (st != BL_OK)
        return st;
    among->count = kept;
    sort_added(among);
    return BL_OK;
}

/* ---- rows */

static bl_status read_row(reader *r, const bl_json *at, const bl_token_row *rows, const char *list, bool inside)
{
    bl_span type = {0};
    bl_json all, one;
    BL_TRY(bl_json_expect(at, BL_JSON_OBJECT, r->err));
    BL_TRY(bl_token_need_text(r, at, "type", &type));
    for (const bl_token_row *row = rows; row->type != NULL; row++)
        if (bl_span_is(type, row->type))
            return row->read(r, at);
    if (!bl_span_is(type, "Sequence") || inside)
        return bl_token_not_known(r, at, "type", type);
    BL_TRY(bl_json_need(at, list, &all, r->err));
    BL_TRY(bl_json_expect(&all, BL_JSON_ARRAY, r->err));
    bl_json_iter it = bl_json_each(&all);
    while (bl_json_next(&it, &one))
        BL_TRY(read_row(r, &one, rows, list, true));
    return BL_OK;
}

bl_status bl_token_read_rows(reader *r, const bl_json *at, const bl_token_row *rows, const char *list)
{
    return read_row(r, at, rows, list, false);
}

/* ---- all of it */

static bl_status read_root(reader *r, const bl_json *root)
{
    bl_json added;
    bool more = bl_token_find(root, "added_tokens", &added);
    BL_TRY(bl_json_expect(root, BL_JSON_OBJECT, r->err));
    if (more)
        BL_TRY(bl_json_expect(&added, BL_JSON_ARRAY, r->err));
    BL_TRY(read_model(r, root, more ? &added : NULL));
    if (more)
        BL_TRY(read_added(r, &added));
    BL_TRY(bl_token_read_steps(r, root));
    BL_TRY(normalise_all_added(r));
    BL_TRY(bl_token_read_around(r, root));
    return bl_token_read_decoder(r, root);
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
