/* SPDX-License-Identifier: MIT */
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "proto/gguf/vocab.h"
#include "tests/proto/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#define M    "\xe2\x96\x81" /* SentencePiece's blank */
#define G    "\xc4\xa0"     /* GPT-2's blank */
#define MOST 20

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

typedef struct token {
    const char *text;
    int type;
    float score;
} token;

/* The contents of a file; members that are NULL or zero are omitted. */
typedef struct vocab_file {
    const char *model, *pre, *name;
    token tokens[MOST];
    const char *merges[MOST];
    struct {
        const char *key;
        int value;
    } ids[6], flags[6];
    bool no_types, no_scores;
} vocab_file;

static void put_file(bl_text *file, const vocab_file *v)
{
    size_t tokens = 0, merges = 0, keys = 0, ids = 0, flags = 0;
    bl_text body = {0};
    while (tokens < MOST && v->tokens[tokens].text != NULL)
        tokens++;
    while (merges < MOST && v->merges[merges] != NULL)
        merges++;
    while (ids < 6 && v->ids[ids].key != NULL)
        ids++;
    while (flags < 6 && v->flags[flags].key != NULL)
        flags++;
    if (v->model != NULL && ++keys)
        put_text_key(&body, "tokenizer.ggml.model", v->model);
    if (v->pre != NULL && ++keys)
        put_text_key(&body, "tokenizer.ggml.pre", v->pre);
    if (v->name != NULL && ++keys)
        put_text_key(&body, "general.name", v->name);
    if (tokens > 0 && ++keys)
        put_array(&body, "tokenizer.ggml.tokens", BL_GGUF_TEXT, tokens);
    for (size_t i = 0; i < tokens; i++)
        put_text(&body, v->tokens[i].text);
    if (tokens > 0 && !v->no_types && ++keys)
        put_array(&body, "tokenizer.ggml.token_type", BL_GGUF_I32, tokens);
    for (size_t i = 0; i < tokens && !v->no_types; i++)
        put(&body, (uint64_t)v->tokens[i].type, 4);
    if (tokens > 0 && !v->no_scores && ++keys)
        put_array(&body, "tokenizer.ggml.scores", BL_GGUF_F32, tokens);
    for (size_t i = 0; i < tokens && !v->no_scores; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &v->tokens[i].score, sizeof bits);
        put(&body, bits, 4);
    }
    if (merges > 0 && ++keys)
        put_array(&body, "tokenizer.ggml.merges", BL_GGUF_TEXT, merges);
    for (size_t i = 0; i < merges; i++)
        put_text(&body, v->merges[i]);
    for (size_t i = 0; i < ids; i++, keys++)
        put_key(&body, v->ids[i].key, BL_GGUF_U32, (uint64_t)v->ids[i].value, 4);
    for (size_t i = 0; i < flags; i++, keys++)
        put_key(&body, v->flags[i].key, BL_GGUF_BOOL, (uint64_t)v->flags[i].value, 1);
    put_header(file, 3, 0, keys);
    bl_text_append(file, bl_text_get(&body), body.len);
    bl_text_fini(&body);
}

/* A tokenizer does not refer to the file, which is freed before its use. */
static bl_status make_from(bl_span file, bl_tokenizer **out, bl_err *err)
{
    bl_arena *arena = bl_arena_create(0);
    bl_gguf *gguf = NULL;
    bl_status st = arena != NULL ? bl_gguf_open(arena, &file, 1, &gguf, err) : BL_ENOMEM;
    *out = NULL;
    if (st == BL_OK)
        st = bl_gguf_tokenizer(gguf, out, err);
    bl_arena_destroy(arena);
    return st;
}

static bl_status make(const vocab_file *v, bl_tokenizer **out, bl_err *err)
{
    bl_text file = {0};
    bl_status st = BL_OK;
    put_file(&file, v);
    st = make_from((bl_span){bl_text_get(&file), file.len}, out, err);
    bl_text_fini(&file);
    return st;
}

static bl_tokenizer *make_ok(const vocab_file *v)
{
    bl_tokenizer *tokenizer = NULL;
    bl_err err = {0};
    if (make(v, &tokenizer, &err) != BL_OK)
        fail_msg("%s", err.text);
    return tokenizer;
}

/* ---- kinds of tokenizers */

static const vocab_file bytes = {.model = "gpt2",
                                 .pre = "smollm",
                                 .tokens = {{"<|endoftext|>", CONTROL, 0},
                                            {"a", NORMAL, 0},
                                            {"b", NORMAL, 0},
                                            {G, NORMAL, 0},
                                            {"ab", NORMAL, 0},
                                            {G "ab", NORMAL, 0},
                                            {"1", NORMAL, 0},
                                            {"11", NORMAL, 0},
                                            {"<|im_end|>", CONTROL, 0},
                                            {"\xc3\x83", NORMAL, 0},
                                            {"\xc2\xa9", NORMAL, 0},
                                            {"<mine>", USER_DEFINED, 0},
                                            {"\xc4\x8a", NORMAL, 0}},
                                 .merges = {"a b", G " ab", "1 1", "a b"},
                                 .ids = {{"tokenizer.ggml.bos_token_id", 0},
                                         {"tokenizer.ggml.eos_token_id", 8},
                                         {"tokenizer.ggml.padding_token_id", 8},
                                         {"tokenizer.ggml.eot_token_id", 99}}};
static const vocab_file bytes_whole = {
    .model = "gpt2",
    .pre = "llama-bpe",
    .tokens = {{"<s>", CONTROL, 0}, {"a", NORMAL, 0}, {"b", NORMAL, 0}, {"ab", NORMAL, 0}, {"aba", NORMAL, 0}, {"ba", NORMAL, 0}},
    .merges = {"b a", "a b"},
    .ids = {{"tokenizer.ggml.bos_token_id", 0}}};
static const vocab_file composed = {
    .model = "gpt2",
    .pre = "qwen2",
    .tokens = {{"e", NORMAL, 0}, {"\xc3\x83", NORMAL, 0}, {"\xc2\xa9", NORMAL, 0}, {"ee", NORMAL, 0}},
    .merges = {"e e"}};
static const vocab_file gemma = {
    .model = "gemma4",
    .tokens = {{"<pad>", CONTROL, 0},
               {"<eos>", CONTROL, 0},
               {"<bos>", CONTROL, 0},
               {"<unk>", UNKNOWN, 0},
               {M, NORMAL, 0},
               {"a", NORMAL, 0},
               {M "a", NORMAL, 0},
               {"\n", NORMAL, 0},
               {"\n\n", NORMAL, 0},
               {"<0xC3>", BYTE, 0},
               {"<0xA9>", BYTE, 0},
               {"</s>", NORMAL, 0},
               {"<turn|>", CONTROL, 0},
               {"<|tool_response>", CONTROL, 0}},
    .merges = {M " a", "\n \n"},
    .ids = {{"tokenizer.ggml.bos_token_id", 2}, {"tokenizer.ggml.eos_token_id", 1}, {"tokenizer.ggml.unknown_token_id", 3}},
    .flags = {{"tokenizer.ggml.add_bos_token", 0}}};
/* Tokens that are prefixes of other tokens. */
static const vocab_file nested = {.model = "gpt2",
                                  .tokens = {{"<", NORMAL, 0},
                                             {"a", NORMAL, 0},
                                             {"<a", USER_DEFINED, 0},
                                             {"<a>b", CONTROL, 0},
                                             {"<a>", USER_DEFINED, 0},
                                             {"b", NORMAL, 0},
                                             {">", NORMAL, 0},
                                             {"<b", USER_DEFINED, 0},
                                             {"<ab", CONTROL, 0},
                                             {"ab", NORMAL, 0}},
                                  .merges = {"a b"}};
static const vocab_file sentence = {.model = "llama",
                                    .tokens = {{"<unk>", UNKNOWN, 0},
                                               {"<s>", CONTROL, 0},
                                               {"</s>", CONTROL, 0},
                                               {M, NORMAL, -9},
                                               {"a", NORMAL, -8},
                                               {"b", NORMAL, -7},
                                               {"ab", NORMAL, -5},
                                               {"ba", NORMAL, -4},
                                               {M "a", NORMAL, -6},
                                               {"<0xC3>", BYTE, 0},
                                               {"<0xA9>", BYTE, 0},
                                               {"<mine>", USER_DEFINED, 0},
                                               {M M, NORMAL, -3}}};
static const vocab_file sentence_bare = {
    .model = "llama",
    .name = "My Phi-3 model",
    .tokens = {{"<unk>", UNKNOWN, 0},
               {"<s>", CONTROL, 0},
               {"</s>", CONTROL, 0},
               {"<|end|>", CONTROL, 0},
               {"a", NORMAL, -1},
               {M, NORMAL, -2},
               {"a" M "a", NORMAL, -1},
               {M "a", NORMAL, 0}},
    .flags = {{"tokenizer.ggml.add_space_prefix", 0}, {"tokenizer.ggml.add_bos_token", 0}, {"tokenizer.ggml.add_eos_token", 1}}};
static const vocab_file words = {.model = "bert",
                                 .tokens = {{"[PAD]", CONTROL, 0},
                                            {"[UNK]", UNKNOWN, 0},
                                            {"[CLS]", CONTROL, 0},
                                            {"[SEP]", CONTROL, 0},
                                            {M "na", NORMAL, 0},
                                            {"ive", NORMAL, 0},
                                            {M ",", NORMAL, 0},
                                            {M "\xe6\xbc\xa2", NORMAL, 0}},
                                 .ids = {{"tokenizer.ggml.unknown_token_id", 1},
                                         {"tokenizer.ggml.cls_token_id", 2},
                                         {"tokenizer.ggml.seperator_token_id", 3},
                                         {"tokenizer.ggml.padding_token_id", 0}}};
static const vocab_file scores = {
    .model = "t5",
    .tokens = {{"<pad>", CONTROL, 0},
               {"</s>", CONTROL, 0},
               {"<unk>", UNKNOWN, 0},
               {M, NORMAL, -2},
               {"a", NORMAL, -2.5F},
               {"bc", NORMAL, -3},
               {"ab", NORMAL, -1.5F},
               {"c", NORMAL, -3.25F}},
    .flags = {{"tokenizer.ggml.add_space_prefix", 1}, {"tokenizer.ggml.remove_extra_whitespaces", 1}}};

#define ALL                                                                                                                      \
    {                                                                                                                            \
        true, true                                                                                                               \
    }
#define PLAIN                                                                                                                    \
    {                                                                                                                            \
        false, false                                                                                                             \
    }
#define PARSED                                                                                                                   \
    {                                                                                                                            \
        false, true                                                                                                              \
    }

static void encodes(void **state)
{
    static const struct {
        const vocab_file *file;
        const char *text;
        bl_encode_options options;
        const char *ids, *back; /* expected tokens; and the decoded text with special tokens */
    } rows[] = {
        {&bytes, "ab ab", ALL, "4 5", "ab ab"},
        {&bytes, "ab11\n", ALL, "4 6 6 12", "ab11\n"}, /* digits are separate words */
        {&bytes, "\xc3\xa9", ALL, "9 10", "\xc3\xa9"},
        {&bytes, "zb", ALL, "2", "b"}, /* characters without a token are omitted, since there is no unknown token */
        {&bytes, "a<|im_end|>b", ALL, "1 8 2", "a<|im_end|>b"},
        {&bytes, "a<mine>b", PLAIN, "1 11 2", "a<mine>b"}, /* a user-defined token is part of texts */
        {&bytes, "a<|im_end|>", PLAIN, "1", "a"},          /* the characters of <|im_end|> are not in the vocabulary */
        {&bytes_whole, "aba", ALL, "0 4", "<s>aba"},
        {&bytes_whole, "baba", ALL, "0 5 5", "<s>baba"},
        {&bytes_whole, "aba<s>", PARSED, "4 0", "aba<s>"},
        {&composed, "e\xcc\x81", ALL, "1 2", "\xc3\xa9"},
        {&gemma, " a\n\na\xc3\xa9z", ALL, "2 6 8 5 9 10 3", "<bos> a\n\na\xc3\xa9<unk>"},
        {&gemma, "</s>", ALL, "2 3", "<bos><unk>"}, /* in this vocabulary "</s>" is ordinary text */
        {&nested, "<a>b<a>a<ab<a<", PARSED, "3 4 1 8 2 0", "<a>b<a>a<ab<a<"},
        {&nested, "<a>b<ab<ac<c", PLAIN, "4 5 2 5 2 0", "<a>b<ab<a<"},
        {&sentence, "aba", ALL, "1 8 7", "<s>aba"}, /* "ba" scores higher than M "a", and is joined further */
        {&sentence, "ba ", ALL, "1 3 7 3", "<s>ba "},
        {&sentence, "  b", ALL, "1 12 3 5", "<s>  b"},
        {&sentence, "\xc3\xa9x", ALL, "1 3 9 10 0", "<s>\xc3\xa9<unk>"},
        {&sentence, "<s>b", PLAIN, "3 0 5", "<unk>b"},
        {&sentence, "b<s>b", PARSED, "3 5 1 3 5", "b<s> b"}, /* a blank is put after a special token too */
        {&sentence, "b<mine>b", PLAIN, "3 5 11 3 5", "b<mine> b"},
        {&sentence, "", ALL, "1", "<s>"},
        {&sentence_bare, "a a", ALL, "6 2", "a a</s>"}, /* a token that contains a blank */
        {&sentence_bare, "a<|end|> \n a", PARSED, "4 3 4", "a<|end|>a"},
        {&words, "Na\xc3\xafve,\xe6\xbc\xa2 nb", ALL, "2 4 5 6 7 1 3", "[CLS]naive , \xe6\xbc\xa2[UNK][SEP]"},
        {&words, "[CLS]", PLAIN, "1 1 1", "[UNK][UNK][UNK]"},
        {&scores, " abc  a", ALL, "3 6 7 3 4 1", "abc a</s>"},
        {&scores, "xxa", PLAIN, "3 2 4", "<unk>a"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_tokenizer *tokenizer = make_ok(rows[i].file);
        bl_tokens tokens = {0};
        bl_text ids = {0}, back = {0};
        bl_err err = {0};
        bl_status st =
            bl_tokenizer_encode_as(tokenizer, (bl_span){rows[i].text, strlen(rows[i].text)}, rows[i].options, 100, &tokens, &err);
        for (size_t k = 0; k < tokens.count; k++)
            bl_text_printf(&ids, k > 0 ? " %d" : "%d", tokens.id[k]);
        bl_tokenizer_decode(tokenizer, tokens.id, tokens.count, true, &back);
        if (st != BL_OK || strcmp(bl_text_get(&ids), rows[i].ids) != 0 || strcmp(bl_text_get(&back), rows[i].back) != 0)
            fail_msg("row %zu, \"%s\": %s, \"%s\"%s; expected %s, \"%s\"", i, rows[i].text, bl_text_get(&ids), bl_text_get(&back),
                     err.text, rows[i].ids, rows[i].back);
        bl_text_fini(&ids);
        bl_text_fini(&back);
        free(tokens.id);
        bl_tokenizer_destroy(tokenizer);
    }
}

static void marks(void **state)
{
    bl_tokenizer *t = make_ok(&bytes);
    const bl_token_marks *m = bl_tokenizer_marks(t);
    (void)state;
    assert_int_equal(m->bos, 0);
    assert_int_equal(m->eos, 8);
    assert_int_equal(m->eot, 8); /* by its text, since there is no token 99 */
    assert_int_equal(m->eom, -1);
    assert_int_equal(m->unknown, -1);
    assert_int_equal(bl_tokenizer_layout(t)->pad, 8);
    assert_false(m->adds_bos || m->adds_eos);
    assert_true(bl_tokenizer_is_end(t, 8) && bl_tokenizer_is_end(t, 0));
    assert_false(bl_tokenizer_is_end(t, 1) || bl_tokenizer_is_end(t, -1) || bl_tokenizer_is_end(t, 1000));
    assert_true(bl_tokenizer_is_special(t, 8));
    assert_false(bl_tokenizer_is_special(t, 11));
    assert_true(bl_span_is(bl_tokenizer_text(t, 5), G "ab"));
    assert_null(bl_tokenizer_text(t, 1000).data);
    assert_true(bl_span_is(bl_tokenizer_bytes(t, 5, true), " ab"));
    bl_tokenizer_destroy(t);

    t = make_ok(&gemma);
    assert_true(bl_tokenizer_marks(t)->adds_bos);
    assert_true(bl_tokenizer_is_end(t, 1) && bl_tokenizer_is_end(t, 12) && bl_tokenizer_is_end(t, 13));
    assert_false(bl_tokenizer_is_end(t, 11));
    bl_tokenizer_destroy(t);

    t = make_ok(&sentence_bare);
    assert_int_equal(bl_tokenizer_marks(t)->eot, 3);
    assert_true(bl_tokenizer_marks(t)->adds_eos && !bl_tokenizer_marks(t)->adds_bos);
    bl_tokenizer_destroy(t);
}

/* ---- invalid files */

static void refused(void **state)
{
    static const struct {
        vocab_file file;
        bl_status status;
        const char *says;
    } rows[] = {
        {{.tokens = {{"a", NORMAL, 0}}}, BL_EINVAL, "the key \"tokenizer.ggml.model\" is missing"},
        {{.model = "rwkv", .tokens = {{"a", NORMAL, 0}}}, BL_EUNSUPPORTED, "the tokenizer \"rwkv\" is not supported"},
        {{.model = "llama"}, BL_EINVAL, "there is no list of tokens"},
        {{.model = "gpt2", .pre = "new", .tokens = {{"a", NORMAL, 0}}},
         BL_EUNSUPPORTED,
         "the pre-tokenizer \"new\" is not supported"},
        {{.model = "gpt2", .tokens = {{"a", NORMAL, 0}}}, BL_EINVAL, "there is no list of merges"},
        {{.model = "gpt2", .tokens = {{"a", NORMAL, 0}}, .merges = {"aa"}}, BL_EINVAL, "the merge 0, \"aa\", must be two tokens"},
        {{.model = "gpt2", .tokens = {{"a", NORMAL, 0}}, .merges = {"a a"}},
         BL_EINVAL,
         "the merge 0 is of \"aa\", which is not in"},
        {{.model = "llama", .tokens = {{"a", NORMAL, 0}, {"b", NORMAL, 0}, {"a", NORMAL, 0}}},
         BL_EINVAL,
         "the tokens 0 and 2 are both \"a\""},
        {{.model = "llama", .tokens = {{"a\xff", NORMAL, 0}}}, BL_EINVAL, "token 0 is not UTF-8"},
        {{.model = "t5", .tokens = {{"a", NORMAL, 0}, {"b", NORMAL, 0}}}, BL_EINVAL, "unknown_token_id is missing"},
        {{.model = "bert", .tokens = {{"a", NORMAL, 0}}}, BL_EINVAL, "unknown_token_id is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_tokenizer *tokenizer = NULL;
        bl_err err = {0};
        bl_status st = make(&rows[i].file, &tokenizer, &err);
        if (st != rows[i].status || strstr(err.text, rows[i].says) == NULL || tokenizer != NULL)
            fail_msg("row %zu: %d, \"%s\"; expected %d, \"%s\"", i, (int)st, err.text, (int)rows[i].status, rows[i].says);
    }
}

/* Tokens without types and scores, and a token without a text. */
static void sparse(void **state)
{
    static const vocab_file file = {
        .model = "llama",
        .no_types = true,
        .no_scores = true,
        .tokens = {
            {"", NORMAL, 0}, {"<s>", NORMAL, 0}, {"</s>", NORMAL, 0}, {M "a", NORMAL, 0}, {"a", NORMAL, 0}, {M, NORMAL, 0}}};
    bl_tokenizer *t = make_ok(&file);
    bl_tokens tokens = {0};
    bl_err err = {0};
    (void)state;
    assert_true(bl_span_is(bl_tokenizer_text(t, 0), "[EMPTY_0]"));
    assert_true(bl_tokenizer_is_special(t, 2)); /* whatever its type */
    assert_int_equal(bl_tokenizer_encode(t, BL_S("a a"), 10, &tokens, &err), BL_OK);
    assert_int_equal(tokens.count, 3);
    assert_int_equal(tokens.id[1], 3);
    free(tokens.id);
    bl_tokenizer_destroy(t);
}

/* Thousands of added tokens with a common prefix, as in vocabularies with reserved tokens: a text with near matches at each
 * character takes no longer. */
static void many_marks(void **state)
{
    enum { MARKS = 4000, TEXT = 300000, MOST_MS = 10000 };
    bl_text file = {0}, text = {0};
    bl_tokenizer *tokenizer = NULL;
    bl_tokens tokens = {0};
    bl_err err = {0};
    char name[32];
    int64_t begin = 0;
    (void)state;
    put_header(&file, 3, 0, 3);
    put_text_key(&file, "tokenizer.ggml.model", "llama");
    put_array(&file, "tokenizer.ggml.tokens", BL_GGUF_TEXT, MARKS + 1);
    put_text(&file, "<");
    for (int i = 0; i < MARKS; i++) {
        (void)snprintf(name, sizeof name, "<unused%d>", i);
        put_text(&file, name);
    }
    put_array(&file, "tokenizer.ggml.token_type", BL_GGUF_I32, MARKS + 1);
    for (int i = 0; i <= MARKS; i++)
        put(&file, i == 0 ? NORMAL : CONTROL, 4);
    assert_int_equal(make_from((bl_span){bl_text_get(&file), file.len}, &tokenizer, &err), BL_OK);
    for (int i = 0; i < TEXT; i++)
        bl_text_putc(&text, '<');
    bl_text_puts(&text, "<unused77>");
    begin = bl_clock_ns();
    assert_int_equal(bl_tokenizer_encode_as(tokenizer, (bl_span){text.data, text.len}, (bl_encode_options){.parse_special = true},
                                            TEXT + 10, &tokens, &err),
                     BL_OK);
    assert_true(bl_clock_ms(begin, bl_clock_ns()) < MOST_MS);
    assert_int_equal(tokens.id[tokens.count - 1], 78);
    free(tokens.id);
    bl_tokenizer_destroy(tokenizer);
    bl_text_fini(&file);
    bl_text_fini(&text);
}

/* Each allocation fails once: all memory is freed, and the error says so. */
static void no_memory(void **state)
{
    static const vocab_file *const files[] = {&bytes, &gemma, &sentence, &words, &scores};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        bl_status st = BL_ENOMEM;
        bl_text file = {0};
        put_file(&file, files[i]);
        for (long n = 1; st != BL_OK && n < 1000; n++) {
            bl_tokenizer *tokenizer = NULL;
            bl_tokens tokens = {0};
            bl_err err = {0};
            bl_fault_arm(BL_FAULT_ALLOC, n);
            st = make_from((bl_span){file.data, file.len}, &tokenizer, &err);
            if (st == BL_OK)
                st = bl_tokenizer_encode(tokenizer, BL_S("ab \xc3\xa9 c<s>"), 100, &tokens, &err);
            bl_fault_arm(BL_FAULT_ALLOC, 0);
            if (st != BL_OK && st != BL_ENOMEM)
                fail_msg("file %zu, allocation %ld: %s", i, n, err.text);
            free(tokens.id);
            bl_tokenizer_destroy(tokenizer);
        }
        assert_int_equal(st, BL_OK);
        bl_text_fini(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes), cmocka_unit_test(marks),      cmocka_unit_test(refused),
        cmocka_unit_test(sparse),  cmocka_unit_test(many_marks), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
