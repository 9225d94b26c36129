/* SPDX-License-Identifier: MIT */
/* Reads tokenizer.json.  Ignores members that do not affect ids and bytes, such as offsets.  Fails at an unknown value of any
 * other member, since wrong tokens are worse than an error. */
#include "proto/tokenizer_reader.h"

#include <math.h>
#include <string.h>

enum { MOST_BYTES = 512 * 1024 * 1024, MOST_VALUES = 4 * 1024 * 1024 };

typedef bl_token_reader reader;

/* ---- helpers */

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

/* Finds a member; false if it is missing or null. */
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

bl_status bl_token_place(reader *r, const bl_json *at, bl_status st, const bl_err *problem)
{
    if (st == BL_OK || st == BL_ENOMEM)
        return st == BL_OK ? BL_OK : bl_fail(r->err, st, "%s", problem->text);
    return bl_json_fail(at, r->err, st, "%s", problem->text);
}

bl_status bl_token_not_known(reader *r, const bl_json *at, const char *what, bl_span type)
{
    return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "the %s \"%.60s\" is not supported", what, type.data);
}

/* Fails unless the member is missing, null, false or "". */
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

static bl_status tokenizer_read_add_token(reader *r, const bl_json *at, int64_t id, bl_span text)
{
    bl_token *token = &r->t->tokens[id];
    if (token->text.data != NULL)
        return bl_json_fail(at, r->err, BL_EINVAL, "the id %lld already belongs to \"%.60s\"", (long long)id, token->text.data);
    (void)bl_token_add(r->t, (int32_t)id, text);
    return BL_OK;
}

bl_status bl_token_read_id(reader *r, const bl_json *at, int64_t *out)
{
    return bl_json_int(at, 0, BL_TOKEN_IDS - 1, out, r->err);
}

/* One more than the largest id. */
static bl_status tokenizer_read_measure(reader *r, const bl_json *vocab, const bl_json *added, size_t *size)
{
    bl_json one, id;
    bl_json_iter it = bl_json_each(vocab);
    int64_t value = 0;
    *size = vocab->kind == BL_JSON_ARRAY ? bl_json_count(vocab) : 0;
    if (*size > BL_TOKEN_IDS)
        return bl_json_fail(vocab, r->err, BL_ELIMIT, "more than %d tokens", BL_TOKEN_IDS);
    while (vocab->kind == BL_JSON_OBJECT && bl_json_next(&it, &one)) {
        BL_TRY(bl_token_read_id(r, &one, &value));
        *size = (size_t)value >= *size ? (size_t)value + 1 : *size;
    }
    if (added == NULL)
        return BL_OK;
    it = bl_json_each(added);
    while (bl_json_next(&it, &one)) {
        BL_TRY(bl_json_need(&one, "id", &id, r->err));
        BL_TRY(bl_token_read_id(r, &id, &value));
        *size = (size_t)value >= *size ? (size_t)value + 1 : *size;
    }
    return BL_OK;
}

static bl_status tokenizer_read_make_room(reader *r, const bl_json *vocab, const bl_json *added)
{
    size_t size = 0;
    BL_TRY(tokenizer_read_measure(r, vocab, added, &size));
    return bl_token_make_room(r->t, size, bl_json_count(vocab) + (added != NULL ? bl_json_count(added) : 0), r->err);
}

static bl_status tokenizer_read_read_vocab(reader *r, const bl_json *vocab)
{
    bl_json_iter it = bl_json_each(vocab);
    bl_json one;
    while (bl_json_next(&it, &one)) {
        int64_t id = 0;
        bl_span text = {bl_arena_strdup(r->t->arena, one.key), strlen(one.key)};
        if (text.data == NULL)
            return bl_token_read_without_memory(r);
        BL_TRY(bl_token_read_id(r, &one, &id));
        BL_TRY(tokenizer_read_add_token(r, &one, id, text));
    }
    return BL_OK;
}

static bl_status fail_part(reader *r, const bl_json *at, bl_span text)
{
    return bl_json_fail(at, r->err, BL_EINVAL, "\"%.*s\" is not in the vocabulary", (int)(text.len < 60 ? text.len : 60),
                        text.data);
}

static bl_status tokenizer_read_find_part(reader *r, const bl_json *at, bl_span text, int32_t *out)
{
    *out = bl_tokenizer_find(r->t, text);
    return *out >= 0 ? BL_OK : fail_part(r, at, text);
}

/* ---- BPE */

static bl_status tokenizer_read_read_half(reader *r, const bl_json *at, bl_span *out)
{
    BL_TRY(bl_json_string(at, &out->data, r->err));
    out->len = strlen(out->data);
    return BL_OK;
}

/* Reads "A B", or ["A", "B"]. */
static bl_status read_merge(reader *r, const bl_json *at, bl_span *left, bl_span *right)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one, two, more;
    const char *blank = NULL;
    if (at->kind == BL_JSON_ARRAY) {
        if (!bl_json_next(&it, &one) || !bl_json_next(&it, &two) || bl_json_next(&it, &more))
            return bl_json_fail(at, r->err, BL_EINVAL, "a merge must be two tokens");
        BL_TRY(tokenizer_read_read_half(r, &one, left));
        return tokenizer_read_read_half(r, &two, right);
    }
    BL_TRY(tokenizer_read_read_half(r, at, left));
    blank = memchr(left->data, ' ', left->len);
    if (blank == NULL || strchr(blank + 1, ' ') != NULL)
        return bl_json_fail(at, r->err, BL_EINVAL, "a merge must be two tokens with a space between them");
    *right = (bl_span){blank + 1, left->len - (size_t)(blank + 1 - left->data)};
    left->len = (size_t)(blank - left->data);
    return BL_OK;
}

/* |at|: the place of each merge in the file.  A repeated pair gets its last rank, as other readers do. */
static bl_status tokenizer_read_add_merges(reader *r, const bl_json at[BL_TOKEN_MERGES], bl_token_merges *merges, int32_t rank)
{
    bl_span missing = {0};
    int bad = bl_token_add_merges(r->t, merges, rank, true, &missing);
    return bad < 0 ? BL_OK : fail_part(r, &at[bad], missing);
}

static bl_status tokenizer_read_take_merges(reader *r, const bl_json *all, bl_token_merges *merges)
{
    bl_json at[BL_TOKEN_MERGES];
    bl_json_iter it = bl_json_each(all);
    int32_t rank = 0;
    for (bl_json one; bl_json_next(&it, &one); rank++) {
        bl_span left = {0}, right = {0};
        if (merges->count == BL_TOKEN_MERGES)
            BL_TRY(tokenizer_read_add_merges(r, at, merges, rank - BL_TOKEN_MERGES));
        at[merges->count] = one;
        BL_TRY(read_merge(r, &one, &left, &right));
        BL_TRY(bl_token_put_merge(merges, left, right, r->err));
    }
    return tokenizer_read_add_merges(r, at, merges, rank - merges->count);
}

static bl_status tokenizer_read_read_merges(reader *r, const bl_json *all)
{
    bl_token_merges merges = {0};
    bl_status st = BL_OK;
    BL_TRY(bl_token_make_pairs(r->t, bl_json_count(all), r->err));
    st = tokenizer_read_take_merges(r, all, &merges);
    bl_token_fini_merges(&merges);
    return st;
}

static bl_status tokenizer_read_read_bpe(reader *r, const bl_json *model)
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
    BL_TRY(tokenizer_read_read_merges(r, &merges));
    BL_TRY(bl_token_find_text(r, model, "unk_token", &unknown));
    return unknown.data != NULL ? tokenizer_read_find_part(r, model, unknown, &t->unknown) : BL_OK;
}

/* ---- Unigram */

/* Reads ["text", score]. */
static bl_status read_piece(reader *r, const bl_json *at, int32_t id)
{
    bl_tokenizer *t = r->t;
    bl_json_iter it = bl_json_each(at);
    bl_json one, two, more;
    bl_span text = {0};
    bl_wire_number score;
    if (at->kind != BL_JSON_ARRAY || !bl_json_next(&it, &one) || !bl_json_next(&it, &two) || bl_json_next(&it, &more))
        return bl_json_fail(at, r->err, BL_EINVAL, "a piece must be a text and its score");
    BL_TRY(bl_token_read_text(r, &one, &text));
    BL_TRY(bl_json_number(&two, &score, r->err));
    if (!isfinite(score.value))
        return bl_json_fail(&two, r->err, BL_EINVAL, "a score must be a finite number");
    if (bl_tokenizer_find(t, text) >= 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "\"%.60s\" is given twice", text.data);
    t->scores[id] = score.value;
    return tokenizer_read_add_token(r, at, id, text);
}

static bl_status read_unigram(reader *r, const bl_json *model)
{
    const double penalty = 10; /* unknown tokens score below the lowest score by this, as in SentencePiece */
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
    BL_TRY(bl_token_make_trie(t, NULL, r->err));
    if (bl_token_find(model, "unk_id", &unknown))
        BL_TRY(bl_json_int(&unknown, 0, (int64_t)count - 1, &id, r->err));
    t->unknown = (int32_t)id;
    return BL_OK;
}

/* ---- WordPiece */

static bl_status tokenizer_read_read_wordpiece(reader *r, const bl_json *model)
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
    return tokenizer_read_find_part(r, model, unknown, &t->unknown);
}

/* ---- the model */

static const struct {
    const char *type;
    bl_json_kind vocab;
    bl_status (*read)(reader *r, const bl_json *model);
} models[] = {[BL_TOKENS_BPE] = {"BPE", BL_JSON_OBJECT, tokenizer_read_read_bpe},
              [BL_TOKENS_UNIGRAM] = {"Unigram", BL_JSON_ARRAY, read_unigram},
              [BL_TOKENS_WORDPIECE] = {"WordPiece", BL_JSON_OBJECT, tokenizer_read_read_wordpiece}};

/* Older files omit the type; it follows from the members. */
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
    BL_TRY(tokenizer_read_make_room(r, &vocab, added));
    if (vocab.kind == BL_JSON_OBJECT)
        BL_TRY(tokenizer_read_read_vocab(r, &vocab));
    BL_TRY(models[t->model].read(r, &model));
    bl_token_find_byte_tokens(t);
    return BL_OK;
}

/* ---- added tokens */

/* |*normalised|: search the token in normalised text. */
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
        BL_TRY(tokenizer_read_add_token(r, at, id, out->text));
        token->added = true;
    } else if (!bl_span_eq(token->text, out->text)) {
        return bl_json_fail(at, r->err, BL_EINVAL, "the id %lld already belongs to \"%.60s\"", (long long)id, token->text.data);
    }
    BL_TRY(bl_token_find_flag(r, at, "special", &token->special));
    *normalised = !token->special;
    return bl_token_find_flag(r, at, "normalized", normalised);
}

/* Normalises the text of an added token.  The encoder cannot find an empty result. */
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

static bl_status make_added_room(reader *r, const bl_json *added, bl_added_tokens *among)
{
    bl_err problem = {0};
    return bl_token_place(r, added, bl_token_make_added(r->t, among, bl_json_count(added), &problem), &problem);
}

static bl_status tokenizer_read_read_added(reader *r, const bl_json *added)
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
    bl_token_sort_added(&t->as_written);
    return BL_OK;
}

/* The steps must already be read. */
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
        t->tokens[token.id].bytes = token.text; /* Hugging Face's library decodes the token to the normalised text */
        if (token.text.len > 0)
            among->token[kept++] = token;
    }
    bl_token_encoder_fini(&e);
    if (st != BL_OK)
        return st;
    among->count = kept;
    bl_token_sort_added(among);
    return BL_OK;
}

/* ---- rows */

static bl_status tokenizer_read_read_row(reader *r, const bl_json *at, const bl_token_row *rows, const char *list, bool inside)
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
        BL_TRY(tokenizer_read_read_row(r, &one, rows, list, true));
    return BL_OK;
}

bl_status bl_token_read_rows(reader *r, const bl_json *at, const bl_token_row *rows, const char *list)
{
    return tokenizer_read_read_row(r, at, rows, list, false);
}

/* ---- the file */

static bl_status read_root(reader *r, const bl_json *root)
{
    bl_json added;
    bool more = bl_token_find(root, "added_tokens", &added);
    BL_TRY(bl_json_expect(root, BL_JSON_OBJECT, r->err));
    if (more)
        BL_TRY(bl_json_expect(&added, BL_JSON_ARRAY, r->err));
    BL_TRY(read_model(r, root, more ? &added : NULL));
    if (more)
        BL_TRY(tokenizer_read_read_added(r, &added));
    bl_token_find_marks(r->t, false);
    BL_TRY(bl_token_read_steps(r, root));
    BL_TRY(normalise_all_added(r));
    BL_TRY(bl_token_read_around(r, root));
    return bl_token_read_decoder(r, root);
}

bl_status bl_tokenizer_read(bl_span file, bl_tokenizer **out, bl_err *err)
{
    const bl_json_limits limits = {.values = MOST_VALUES};
    reader r = {.t = bl_token_create(), .err = err};
    bl_arena *scratch = bl_arena_create(MOST_BYTES);
    bl_json_doc doc = {0};
    bl_status st = BL_OK;
    *out = NULL;
    if (r.t == NULL || scratch == NULL) {
        st = bl_fail(err, BL_ENOMEM, "out of host memory for a tokenizer");
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
