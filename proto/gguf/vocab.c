/* SPDX-License-Identifier: MIT */
/* One reader per value of tokenizer.ggml.model: each reads its keys and builds the steps and the decoder. */
#include "proto/gguf/vocab.h"

#include "proto/tokenizer_build.h"
#include "proto/utf8.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define KEY "tokenizer.ggml."

/* Types of tokens, with the numbers of tokenizer.ggml.token_type. */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

/* Flags of a pre-tokenizer; pre.def documents them. */
enum { WHOLE = 1, BOS = 2, BLANKS = 4, COMPOSED = 8 };

typedef struct vocab {
    const bl_gguf *gguf;
    bl_tokenizer *t;
    bl_err *err;
    bl_gguf_values types, scores; /* count 0: the file has no such array */
    bool prefix;                  /* put a blank before a text */
} vocab;

/* printf arguments for "%.*s" that truncate a long text. */
#define SHOWN(text) (int)((text).len < 60 ? (text).len : 60), (text).data

/* ---- tokens */

static int64_t vocab_type_of(const vocab *v, size_t id)
{
    int64_t type = NORMAL;
    if (v->types.count > 0)
        (void)bl_gguf_i64_at(&v->types, id, &type);
    return type;
}

static double score_of(const vocab *v, size_t id)
{
    double score = 0;
    if (v->scores.count > 0)
        (void)bl_gguf_f64_at(&v->scores, id, &score);
    return score;
}

static bool is_utf8(bl_span text)
{
    size_t at = 0, n = 1;
    for (; at < text.len && n > 0; at += n)
        n = bl_utf8_length(text.data + at, text.len - at);
    return n > 0;
}

static bl_status vocab_add_token(vocab *v, int32_t id, bl_span text)
{
    bl_tokenizer *t = v->t;
    int64_t type = vocab_type_of(v, (size_t)id);
    int32_t found = -1;
    if (text.len == 0) {
        text.data = bl_arena_printf(t->arena, "[EMPTY_%d]", id);
        if (text.data == NULL)
            return bl_arena_status(t->arena, v->err);
        text.len = strlen(text.data);
    }
    if (!is_utf8(text))
        return bl_fail(v->err, BL_EINVAL, "GGUF: token %d is not UTF-8", id);
    found = bl_token_add(t, id, text);
    if (found != id)
        return bl_fail(v->err, BL_EINVAL, "GGUF: the tokens %d and %d are both \"%.*s\"", found, id, SHOWN(text));
    t->tokens[id].special = type == CONTROL || type == UNKNOWN;
    t->tokens[id].added = t->tokens[id].special || type == USER_DEFINED;
    return BL_OK;
}

/* Finds an optional array with a value for each token; fails if the array is too short. */
static bl_status vocab_find_column(const vocab *v, const char *key, size_t count, bl_gguf_values *out)
{
    if (!bl_gguf_array(v->gguf, key, false, out))
        return BL_OK;
    if (out->count < count)
        return bl_fail(v->err, BL_EINVAL, "GGUF: %s has %zu values for %zu tokens", key, out->count, count);
    return BL_OK;
}

/* Adds the tokens.  Copies all texts at once, with the layout of the file. */
static bl_status vocab_read_tokens(vocab *v)
{
    bl_tokenizer *t = v->t;
    bl_gguf_values tokens;
    bl_span text;
    char *copy = NULL;
    int32_t id = 0;
    if (!bl_gguf_array(v->gguf, KEY "tokens", true, &tokens) || tokens.count == 0)
        return bl_fail(v->err, BL_EINVAL, "GGUF: there is no list of tokens, " KEY "tokens");
    if (tokens.count > BL_TOKEN_IDS)
        return bl_fail(v->err, BL_ELIMIT, "GGUF: %zu tokens; the most is %d", tokens.count, BL_TOKEN_IDS);
    BL_TRY(vocab_find_column(v, KEY "token_type", tokens.count, &v->types));
    BL_TRY(vocab_find_column(v, KEY "scores", tokens.count, &v->scores));
    BL_TRY(bl_token_make_room(t, tokens.count, tokens.count, v->err));
    copy = bl_arena_alloc(t->arena, tokens.data.len);
    if (copy == NULL)
        return bl_arena_status(t->arena, v->err);
    memcpy(copy, tokens.data.data, tokens.data.len);
    tokens.data.data = copy;
    for (size_t place = 0; bl_gguf_next_text(&tokens, &place, &text); id++)
        BL_TRY(vocab_add_token(v, id, text));
    return BL_OK;
}

/* ---- marks */

static void read_ids(vocab *v)
{
    static const struct {
        size_t member;
        const char *key;
    } keys[] = {
#define BL_MARK_KEY(member, key) {offsetof(bl_token_marks, member), KEY key},
#include "proto/token_marks.def"
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char *member = (char *)&v->t->marks + keys[i].member;
        uint64_t found = 0;
        int32_t id = -1;
        memcpy(&id, member, sizeof id);
        if (bl_gguf_u64(v->gguf, keys[i].key, &found) && found < v->t->size)
            id = (int32_t)found;
        if (id >= 0 && (size_t)id >= v->t->size)
            id = -1; /* the default id belongs to a larger vocabulary */
        memcpy(member, &id, sizeof id);
    }
}

/* |usual|: default ids and flags of this kind of model. */
static void read_marks(vocab *v, const bl_token_marks *usual)
{
    bl_tokenizer *t = v->t;
    t->marks = *usual;
    read_ids(v);
    (void)bl_gguf_bool(v->gguf, KEY "add_bos_token", &t->marks.adds_bos);
    (void)bl_gguf_bool(v->gguf, KEY "add_eos_token", &t->marks.adds_eos);
    bl_token_find_marks(t, true);
    t->layout.pad = t->marks.pad >= 0 ? t->marks.pad : 0;
}

static void vocab_put_around(vocab *v)
{
    bl_tokenizer *t = v->t;
    if (t->marks.adds_bos && t->marks.bos >= 0)
        t->before[t->nbefore++] = t->marks.bos;
    if (t->marks.adds_eos && t->marks.eos >= 0)
        t->after[t->nafter++] = t->marks.eos;
}

/* ---- added tokens, found in a text before normalisation */

static bool text_has(const vocab *v, const char *key, const char *part)
{
    bl_span text;
    size_t len = strlen(part);
    if (!bl_gguf_text(v->gguf, key, &text))
        return false;
    for (size_t i = 0; i + len <= text.len; i++)
        if (strncasecmp(text.data + i, part, len) == 0)
            return true;
    return false;
}

/* Which added tokens strip blanks beside them.  The metadata lack this, so the names of some models decide. */
typedef struct eaten {
    const char *mask; /* this token strips the blanks on its left; NULL: none */
    bool right;       /* all but <unk>, <s> and <|endoftext|> strip the blanks on their right */
} eaten;

static eaten find_eaten(const vocab *v)
{
    eaten e = {0};
    if (text_has(v, KEY "pre", "jina-v2-") || text_has(v, "general.architecture", "nomic-bert-moe") ||
        text_has(v, "general.architecture", "jina-bert-v3"))
        e.mask = "<mask>";
    if (text_has(v, "general.name", "modern-bert"))
        e.mask = "[MASK]";
    e.right = text_has(v, "general.name", "phi-3") || text_has(v, "general.name", "phi3");
    return e;
}

static bl_status vocab_read_added(vocab *v)
{
    bl_tokenizer *t = v->t;
    bl_added_tokens *among = &t->as_written;
    eaten e = find_eaten(v);
    size_t count = 0;
    for (size_t i = 0; i < t->size; i++)
        count += t->tokens[i].special || t->tokens[i].added;
    BL_TRY(bl_token_make_added(t, among, count, v->err));
    for (size_t i = 0; i < t->size; i++) {
        bl_token *token = &t->tokens[i];
        bl_span text = token->text;
        if (!token->special && !token->added)
            continue;
        token->added = true;
        among->token[among->count++] =
            (bl_added_token){.text = text,
                             .id = (int32_t)i,
                             .eats_left = e.mask != NULL && bl_span_is(text, e.mask),
                             .eats_right = e.right && !bl_span_is(text, "<unk>") && !bl_span_is(text, "<s>") &&
                                           !bl_span_is(text, "<|endoftext|>")};
    }
    bl_token_sort_added(among);
    return BL_OK;
}

/* ---- byte-pair encoding */

typedef struct pre_form {
    int flags;
    const char *patterns[8]; /* NULL after the last pattern */
} pre_form;

typedef enum pre_id {
#define BL_PRE_FORM(id, flags, ...) PRE_##id,
#include "proto/gguf/pre.def"
    PRE_COUNT
} pre_id;

static const pre_form *find_pre(const char *name, size_t len)
{
    static const pre_form forms[PRE_COUNT] = {
#define BL_PRE_FORM(id, flags, ...) [PRE_##id] = {flags, {__VA_ARGS__}},
#include "proto/gguf/pre.def"
    };
    static const struct {
        const char *name;
        pre_id form;
    } names[] = {
#define BL_PRE(name, id) {name, PRE_##id},
#include "proto/gguf/pre.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == len && memcmp(names[i].name, name, len) == 0)
            return &forms[names[i].form];
    return NULL;
}

/* Parses "left right".  The search for the blank starts at the second byte, since a token may begin with a blank. */
static bl_status put_merge(const vocab *v, bl_span text, int32_t rank, bl_token_merges *merges)
{
    const char *blank = text.len > 1 ? memchr(text.data + 1, ' ', text.len - 1) : NULL;
    if (blank == NULL)
        return bl_fail(v->err, BL_EINVAL, "GGUF: the merge %d, \"%.*s\", must be two tokens with a space between them", rank,
                       SHOWN(text));
    bl_span left = {text.data, (size_t)(blank - text.data)}, right = {blank + 1, text.len - left.len - 1};
    return bl_token_put_merge(merges, left, right, v->err);
}

/* |rank|: rank of the first merge of the batch. */
static bl_status vocab_add_merges(const vocab *v, bl_token_merges *merges, int32_t rank)
{
    bl_span missing = {0};
    int bad = bl_token_add_merges(v->t, merges, rank, false, &missing);
    return bad < 0 ? BL_OK
                   : bl_fail(v->err, BL_EINVAL, "GGUF: the merge %d is of \"%.*s\", which is not in the vocabulary", rank + bad,
                             SHOWN(missing));
}

static bl_status vocab_take_merges(const vocab *v, const bl_gguf_values *all, bl_token_merges *merges)
{
    size_t place = 0;
    int32_t rank = 0;
    for (bl_span text; bl_gguf_next_text(all, &place, &text); rank++) {
        if (merges->count == BL_TOKEN_MERGES)
            BL_TRY(vocab_add_merges(v, merges, rank - BL_TOKEN_MERGES));
        BL_TRY(put_merge(v, text, rank, merges));
    }
    return vocab_add_merges(v, merges, rank - merges->count);
}

static bl_status vocab_read_merges(const vocab *v)
{
    bl_token_merges merges = {0};
    bl_gguf_values all;
    bl_status st = BL_OK;
    if (!bl_gguf_array(v->gguf, KEY "merges", true, &all) || all.count > INT32_MAX)
        return bl_fail(v->err, BL_EINVAL, "GGUF: there is no list of merges, " KEY "merges");
    BL_TRY(bl_token_make_pairs(v->t, all.count, v->err));
    st = vocab_take_merges(v, &all, &merges);
    bl_token_fini_merges(&merges);
    return st;
}

static bl_status build_bpe(vocab *v, const pre_form *pre)
{
    bl_tokenizer *t = v->t;
    bl_token_decoder decoder = {1, {{.kind = BL_DECODE_BYTES, .model = true}}};
    BL_TRY(vocab_read_merges(v));
    t->whole_words = (pre->flags & WHOLE) != 0;
    t->byte_fallback = (pre->flags & BLANKS) != 0;
    if (t->byte_fallback) {
        BL_TRY(bl_token_add_replace(t, BL_S(" "), BL_S(BL_TOKEN_BLANK), v->err));
        t->unknown = t->marks.unknown;
        t->fuse_unknown = true;
        decoder = (bl_token_decoder){2,
                                     {{.kind = BL_DECODE_REPLACE, .from = BL_S(BL_TOKEN_BLANK), .to = BL_S(" "), .model = true},
                                      {.kind = BL_DECODE_BYTE_TOKEN}}};
    }
    if ((pre->flags & COMPOSED) != 0)
        BL_TRY(bl_token_add_form(t, false, true, v->err));
    t->nnormal = t->nsteps;
    for (const char *const *pattern = pre->patterns; *pattern != NULL; pattern++)
        BL_TRY(
            bl_token_add_split(t, (bl_span){*pattern, strlen(*pattern)}, BL_PATTERN_ONIGURUMA, BL_SPLIT_ISOLATED, false, v->err));
    if (!t->byte_fallback)
        BL_TRY(bl_token_add_map(t, bl_token_map_bytes, v->err));
    return bl_token_fill_bytes(t, &decoder, v->err);
}

static bl_status vocab_read_bpe(vocab *v, const char *name, size_t len)
{
    bl_token_marks usual = v->t->marks;
    const pre_form *pre = find_pre(name, len);
    if (pre == NULL)
        return bl_fail(v->err, BL_EUNSUPPORTED, "GGUF: the pre-tokenizer \"%.*s\" is not supported", (int)(len < 60 ? len : 60),
                       name);
    usual.adds_bos = (pre->flags & BOS) != 0;
    read_marks(v, &usual);
    /* some converters wrote add_bos_token false, but a text of any of these models begins with bos */
    v->t->marks.adds_bos = v->t->marks.adds_bos || (pre->flags & (BLANKS | BOS)) == (BLANKS | BOS);
    vocab_put_around(v);
    BL_TRY(vocab_read_added(v));
    return build_bpe(v, pre);
}

static bl_status read_gpt2(vocab *v)
{
    bl_span pre = BL_S("");
    (void)bl_gguf_text(v->gguf, KEY "pre", &pre);
    return vocab_read_bpe(v, pre.data, pre.len);
}

static bl_status read_gemma4(vocab *v)
{
    return vocab_read_bpe(v, "gemma4", strlen("gemma4"));
}

/* ---- SentencePiece: merges by score, and Unigram */

/* Decodes U+2581 to a blank.  With |prefix|, removes the first blank of a text, since the tokenizer added the blank. */
static bl_status fill_pieces(vocab *v)
{
    bl_token_decoder decoder = {2,
                                {{.kind = BL_DECODE_REPLACE, .from = BL_S(BL_TOKEN_BLANK), .to = BL_S(" "), .model = true},
                                 {.kind = BL_DECODE_BYTE_TOKEN}}};
    if (v->prefix)
        decoder.op[decoder.count++] =
            (bl_token_decode){.kind = BL_DECODE_STRIP, .from = BL_S(" "), .start = 1, .whole = true, .model = true};
    return bl_token_fill_bytes(v->t, &decoder, v->err);
}

/* Converts a score to a rank: the larger the score, the smaller the rank. */
static int32_t vocab_rank_of(float score)
{
    int32_t bits = 0;
    score += 0.0F; /* makes a negative zero positive, since both zeros must have one rank */
    memcpy(&bits, &score, sizeof bits);
    return ~(bits < 0 ? bits ^ INT32_MAX : bits);
}

/* Whether no token has U+2581 after another character, as in nearly all vocabularies.  No merge then crosses the start of a
 * word, so words can be encoded separately. */
static bool has_words(const bl_tokenizer *t)
{
    const bl_span blank = BL_S(BL_TOKEN_BLANK);
    for (size_t i = 0; i < t->size; i++) {
        bl_span text = t->tokens[i].text;
        size_t at = 0;
        while (at + blank.len <= text.len && memcmp(text.data + at, blank.data, blank.len) == 0)
            at += blank.len;
        if (memmem(text.data + at, text.len - at, blank.data, blank.len) != NULL)
            return false;
    }
    return true;
}

static bl_status read_llama(vocab *v)
{
    bl_tokenizer *t = v->t;
    bl_token_marks usual = t->marks;
    usual.bos = 1;
    usual.eos = 2;
    usual.unknown = 0;
    usual.adds_bos = v->prefix = true;
    read_marks(v, &usual);
    (void)bl_gguf_bool(v->gguf, KEY "add_space_prefix", &v->prefix);
    vocab_put_around(v);
    BL_TRY(vocab_read_added(v));
    t->unknown = t->marks.unknown;
    t->byte_fallback = true;
    t->ranks = bl_arena_array(t->arena, t->size, sizeof *t->ranks);
    if (t->ranks == NULL)
        return bl_arena_status(t->arena, v->err);
    for (size_t i = 0; i < t->size; i++)
        t->ranks[i] = vocab_rank_of((float)score_of(v, i));
    if (v->prefix)
        BL_TRY(bl_token_add_step(t, (bl_token_step){.kind = BL_STEP_MAP, .map = bl_token_map_prepend, .to = BL_S(" ")}, NULL,
                                 v->err));
    BL_TRY(bl_token_add_replace(t, BL_S(" "), BL_S(BL_TOKEN_BLANK), v->err));
    t->nnormal = t->nsteps;
    if (has_words(t))
        BL_TRY(bl_token_add_split(t, BL_S(BL_TOKEN_BLANK "+"), BL_PATTERN_PCRE, BL_SPLIT_WITH_NEXT, false, v->err));
    return fill_pieces(v);
}

static bl_status read_scores(vocab *v)
{
    const double penalty = 10; /* unknown tokens score below the lowest score by this, as in SentencePiece */
    bl_tokenizer *t = v->t;
    bool *in = bl_arena_array(t->arena, t->size, sizeof *in);
    double least = INFINITY;
    t->scores = bl_arena_array(t->arena, t->size, sizeof *t->scores);
    if (in == NULL || t->scores == NULL)
        return bl_arena_status(t->arena, v->err);
    for (size_t i = 0; i < t->size; i++) {
        int64_t type = vocab_type_of(v, i);
        double score = score_of(v, i);
        if (!isfinite(score))
            return bl_fail(v->err, BL_EINVAL, "GGUF: the score of token %zu is not finite", i);
        in[i] = type == NORMAL || type == USER_DEFINED || type == UNUSED;
        t->scores[i] = type == USER_DEFINED ? 0 : score;
        least = type == NORMAL && score < least ? score : least;
    }
    t->unknown_score = least - penalty;
    return bl_token_make_trie(t, in, v->err);
}

/* Adds SentencePiece's character map and the split into words.  remove_extra_whitespaces: splits at runs of blanks and puts
 * U+2581 before each word. */
static bl_status add_words(vocab *v)
{
    bl_tokenizer *t = v->t;
    bl_gguf_values map;
    bool squeezes = false;
    (void)bl_gguf_bool(v->gguf, KEY "remove_extra_whitespaces", &squeezes);
    if (bl_gguf_array(v->gguf, KEY "precompiled_charsmap", false, &map) && map.count == map.data.len) {
        char *copy = bl_arena_alloc(t->arena, map.data.len);
        if (copy == NULL)
            return bl_arena_status(t->arena, v->err);
        memcpy(copy, map.data.data, map.data.len);
        BL_TRY(bl_token_add_chars(t, (bl_span){copy, map.data.len}, v->err));
    }
    if (!squeezes)
        BL_TRY(bl_token_add_replace(t, BL_S(" "), BL_S(BL_TOKEN_BLANK), v->err));
    t->nnormal = t->nsteps;
    if (squeezes)
        BL_TRY(bl_token_add_blanks(t, v->err));
    if (squeezes || v->prefix)
        BL_TRY(bl_token_add_step(t, (bl_token_step){.kind = BL_STEP_PREFIX, .to = BL_S(BL_TOKEN_BLANK)}, NULL, v->err));
    return BL_OK;
}

static bl_status read_t5(vocab *v)
{
    bl_tokenizer *t = v->t;
    bl_token_marks usual = t->marks;
    usual.eos = 1;
    usual.unknown = 2;
    usual.pad = 0;
    usual.adds_eos = true;
    read_marks(v, &usual);
    (void)bl_gguf_bool(v->gguf, KEY "add_space_prefix", &v->prefix);
    vocab_put_around(v);
    BL_TRY(vocab_read_added(v));
    BL_TRY(read_scores(v));
    t->unknown = t->marks.unknown;
    if (t->unknown < 0)
        return bl_fail(v->err, BL_EINVAL, "GGUF: " KEY "unknown_token_id is missing");
    BL_TRY(add_words(v));
    return fill_pieces(v);
}

/* ---- WordPiece: a token that begins a word starts with U+2581, a token that continues a word has no mark */

static bl_status read_bert(vocab *v)
{
    bl_tokenizer *t = v->t;
    bl_bert_options options = {.cleans = true, .chinese = true, .lowers = true};
    bl_token_marks usual = t->marks;
    usual.bos = 101;
    usual.unknown = 100;
    usual.separator = 102;
    usual.pad = 0;
    usual.mask = 103;
    read_marks(v, &usual);
    t->marks.adds_bos = true; /* the keys of the file are ignored */
    t->marks.adds_eos = false;
    vocab_put_around(v);
    if (t->marks.separator >= 0)
        t->after[t->nafter++] = t->marks.separator;
    BL_TRY(vocab_read_added(v));
    t->unknown = t->marks.unknown;
    if (t->unknown < 0)
        return bl_fail(v->err, BL_EINVAL, "GGUF: " KEY "unknown_token_id is missing");
    (void)bl_gguf_bool(v->gguf, KEY "normalizer.lowercase", &options.lowers);
    options.strips = options.lowers;
    (void)bl_gguf_bool(v->gguf, KEY "normalizer.strip_accents", &options.strips);
    t->begins = BL_S(BL_TOKEN_BLANK);
    t->most_characters = 100; /* the limit of all BERT tokenizers */
    BL_TRY(bl_token_add_bert(t, options, v->err));
    t->nnormal = t->nsteps;
    BL_TRY(bl_token_add_blanks(t, v->err));
    BL_TRY(bl_token_add_punctuation(t, BL_SPLIT_ISOLATED, v->err));
    v->prefix = true;
    return fill_pieces(v);
}

/* ---- the tokenizer */

static bl_status vocab_read_vocab(vocab *v)
{
    static const struct {
        const char *name;
        bl_token_model model;
        bl_status (*read)(vocab *v);
    } models[] = {{"gpt2", BL_TOKENS_BPE, read_gpt2},
                  {"gemma4", BL_TOKENS_BPE, read_gemma4},
                  {"llama", BL_TOKENS_SPM, read_llama},
                  {"bert", BL_TOKENS_WORDPIECE, read_bert},
                  {"t5", BL_TOKENS_UNIGRAM, read_t5}};
    bl_span name = {0};
    BL_TRY(bl_gguf_need_text(v->gguf, KEY "model", &name, v->err));
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        if (!bl_span_is(name, models[i].name))
            continue;
        v->t->model = models[i].model;
        BL_TRY(vocab_read_tokens(v));
        bl_token_find_byte_tokens(v->t);
        return models[i].read(v);
    }
    return bl_fail(v->err, BL_EUNSUPPORTED, "GGUF: the tokenizer \"%.*s\" is not supported; gpt2, gemma4, llama, bert and t5 are",
                   SHOWN(name));
}

bl_status bl_gguf_tokenizer(const bl_gguf *gguf, bl_tokenizer **out, bl_err *err)
{
    vocab v = {.gguf = gguf, .t = bl_token_create(), .err = err};
    bl_status st = BL_OK;
    *out = NULL;
    if (v.t == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a tokenizer");
    st = vocab_read_vocab(&v);
    if (st == BL_OK)
        *out = v.t;
    else
        bl_tokenizer_destroy(v.t);
    return st;
}
