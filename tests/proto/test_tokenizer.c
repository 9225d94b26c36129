/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "proto/encode.h"
#include "proto/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

/* A byte-level vocabulary: blanks are U+0120. */
#define G "\xc4\xa0"
#define BYTES_MODEL                                                                                                              \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"h\":0,\"e\":1,\"l\":2,\"o\":3,\"" G "\":4,\"w\":5,\"ll\":6,\"he\":7,\"hell\":8,"   \
    "\"hello\":9,\"" G "w\":10,\"\xc3\x83\":11,\"\xc2\xa9\":12,\"!\":13,\"1\":15},"                                              \
    "\"merges\":[\"l l\",\"h e\",\"he ll\",\"hell o\",\"" G " w\"]}"
#define BYTES                                                                                                                    \
    "{\"added_tokens\":[{\"id\":14,\"content\":\"<|end|>\",\"special\":true}],"                                                  \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"}," BYTES_MODEL    \
    "}"

/* As Llama-2: a blank is U+2581, one in front of the text, and bytes that have no character are tokens of their own. */
#define M "\xe2\x96\x81"
#define META                                                                                                                     \
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":\"<s>\",\"special\":true}],"     \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" M "\"},"                       \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" M "\"}]},\"pre_tokenizer\":null,"                      \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"         \
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}" \
    "}},"                                                                                                                        \
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" M "\"},\"content\":\" "  \
    "\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"       \
    "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,"       \
    "\"<s>\":1,\"<0xC3>\":2,\"<0xA9>\":3,\"" M "\":4,\"a\":5,\"b\":6,\"ab\":7,\"" M "a\":8,\"ba\":9},"                           \
    "\"merges\":[[\"b\",\"a\"],[\"a\",\"b\"],[\"" M "\",\"a\"]]}}"

#define SPLIT(pattern, behavior)                                                                                                 \
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"" behavior "\"},"             \
    "\"model\":{\"vocab\":{\"a\":0,\"1\":1,\"11\":2,\"a1\":3,\"1a\":4},\"merges\":[\"1 1\",\"a 1\",\"1 a\"]}}"

static bl_tokenizer *read_ok(const char *file)
{
    bl_tokenizer *tokenizer = NULL;
    bl_err err = {0};
    if (bl_tokenizer_read((bl_span){file, strlen(file)}, &tokenizer, &err) != BL_OK)
        fail_msg("%s", err.text);
    return tokenizer;
}

static void print_ids(const bl_tokens *tokens, bl_text *out)
{
    bl_text_clear(out);
    for (size_t i = 0; i < tokens->count; i++)
        bl_text_printf(out, i > 0 ? " %d" : "%d", tokens->id[i]);
}

static void print_back(const bl_tokenizer *tokenizer, const bl_tokens *tokens, bl_text *out)
{
    bl_text_clear(out);
    for (size_t i = 0; i < tokens->count; i++) {
        bl_span bytes = bl_tokenizer_bytes(tokenizer, tokens->id[i], out->len == 0);
        bl_text_append(out, bytes.data, bytes.len);
    }
}

static void check(const bl_tokenizer *tokenizer, const char *text, size_t len, const char *ids, const char *back)
{
    bl_tokens tokens = {0};
    bl_text out = {0};
    bl_err err = {0};
    if (bl_tokenizer_encode(tokenizer, (bl_span){text, len}, 10000, &tokens, &err) != BL_OK)
        fail_msg("\"%s\": %s", text, err.text);
    print_ids(&tokens, &out);
    assert_string_equal(bl_text_get(&out), ids);
    print_back(tokenizer, &tokens, &out);
    assert_string_equal(bl_text_get(&out), back);
    free(tokens.id);
    bl_text_fini(&out);
}

static void texts(void **state)
{
    static const struct {
        const char *file, *text, *ids, *back;
    } rows[] = {
        {BYTES, "", "", ""},
        {BYTES, "hello", "9", "hello"},
        {BYTES, "hello wo!", "9 10 3 13", "hello wo!"},
        {BYTES, "  w", "4 10", "  w"}, /* the last of the blanks belongs to the word */
        {BYTES, "\xc3\xa9", "11 12", "\xc3\xa9"},
        {BYTES, "hell<|end|>o", "8 14 3", "hello"}, /* a mark is no text */
        {BYTES, "lll", "6 2", "lll"},
        {BYTES, "o1", "3 15", "o1"},
        {BYTES, "oxo", "3 3", "oo"}, /* what has no token and no bytes is dropped */
        {META, "", "1", ""},
        {META, "ab", "1 4 7", "ab"}, /* a and b come before the blank and a: by the order of the merges, not of the text */
        {META, "aba", "1 8 9", "aba"},
        {META, "b ab", "1 4 6 4 7", "b ab"},
        {META, "\xc3\xa9", "1 4 2 3", "\xc3\xa9"},
        {META, "zza", "1 4 0 5", "a"}, /* two unknown ones are one */
        {SPLIT("\\\\p{N}", "Isolated"), "a11", "0 1 1", "a11"},
        {SPLIT("\\\\p{N}+", "Isolated"), "a11a", "0 2 0", "a11a"},
        {SPLIT("\\\\p{N}", "Removed"), "a1a", "0 0", "aa"},
        {SPLIT("\\\\p{N}", "Contiguous"), "a11a", "0 2 0", "a11a"},
        {SPLIT("\\\\p{N}", "MergedWithPrevious"), "a11a", "3 1 0", "a11a"},
        {SPLIT("\\\\p{N}", "MergedWithNext"), "a11a", "0 1 4", "a11a"},
        {SPLIT("(?=1)", "Isolated"), "a11", "0 2", "a11"}, /* empty matches cut nothing */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_tokenizer *tokenizer = read_ok(rows[i].file);
        check(tokenizer, rows[i].text, strlen(rows[i].text), rows[i].ids, rows[i].back);
        bl_tokenizer_destroy(tokenizer);
    }
}

static void refused(void **state)
{
#define MODEL(more)  "{\"model\":{" more "\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}"
#define WITH(member) "{" member ",\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"
    static const struct {
        const char *file;
        bl_status status;
        const char *says;
    } rows[] = {
        {"", BL_EINVAL, "JSON"},
        {"[]", BL_EINVAL, "expected an object"},
        {"{}", BL_EINVAL, "model"},
        {MODEL("\"type\":\"Unigram\","), BL_EUNSUPPORTED, "model: the type \"Unigram\" is not supported"},
        {MODEL("\"dropout\":0.1,"), BL_EUNSUPPORTED, "model.dropout: only null"},
        {MODEL("\"end_of_word_suffix\":\"</w>\","), BL_EUNSUPPORTED, "end_of_word_suffix"},
        {MODEL("\"unk_token\":\"x\","), BL_EINVAL, "\"x\" is not in the vocabulary"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", BL_EINVAL, "the id 0 is that of \"a\" already"},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", BL_EGRAPH, "model.vocab.a: "},
        {"{\"model\":{\"vocab\":{\"a\":1000000000},\"merges\":[]}}", BL_EGRAPH, "model.vocab.a: "},
        {"{\"model\":{\"vocab\":{\"a\":0.5},\"merges\":[]}}", BL_EINVAL, "expected an integer"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", BL_EINVAL, "model.merges[0]: a merge is of two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]}}", BL_EINVAL, "model.merges[0]: a merge is of two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", BL_EINVAL, "model.merges[0]: a merge is of two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", BL_EINVAL, "model.merges[0]: \"aa\" is not in the vocabulary"},
        {"{\"model\":{\"vocab\":{\"a\":0}}}", BL_EINVAL, "merges"},
        {WITH("\"added_tokens\":[{\"id\":0,\"content\":\"b\"}]"), BL_EINVAL,
         "added_tokens[0]: the id 0 is that of \"a\" already"},
        {WITH("\"added_tokens\":[{\"id\":1,\"content\":\"\"}]"), BL_EINVAL, "an added token has no content"},
        {WITH("\"normalizer\":{\"type\":\"Lowercase\"}"), BL_EUNSUPPORTED, "normalizer: the type \"Lowercase\" is not supported"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
              "\"behavior\":\"Isolated\"}]}"),
         BL_EINVAL, "pre_tokenizer.pretokenizers[0]: the pattern is no regular expression: missing closing parenthesis"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Eaten\"}"), BL_EUNSUPPORTED,
         "the behavior \"Eaten\""},
        {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],"
              "\"special_tokens\":{\"x\":{\"ids\":[7]}}}"),
         BL_EINVAL, "post_processor.single[0]: there is no token 7"},
        {WITH("\"decoder\":{\"type\":\"WordPiece\"}"), BL_EUNSUPPORTED, "decoder: the type \"WordPiece\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_tokenizer *tokenizer = NULL;
        bl_err err = {0};
        bl_status st = bl_tokenizer_read((bl_span){rows[i].file, strlen(rows[i].file)}, &tokenizer, &err);
        if (st != rows[i].status || strstr(err.text, rows[i].says) == NULL)
            fail_msg("%s\ngives %d \"%s\", not %d \"%s\"", rows[i].file, (int)st, err.text, (int)rows[i].status, rows[i].says);
        assert_null(tokenizer);
    }
}

/* A text may have so many tokens, must be UTF-8, and an expression that tries everything ends. */
static void limits(void **state)
{
    static const char evil[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|a)*$\"},\"behavior\":\"Isolated\"},"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    bl_tokenizer *tokenizer = read_ok(BYTES);
    bl_tokens tokens = {0};
    bl_err err = {0};
    char many[4001];
    (void)state;
    assert_int_equal(bl_tokenizer_encode(tokenizer, (bl_span){"hello wo", 8}, 2, &tokens, &err), BL_EINVAL);
    assert_non_null(strstr(err.text, "over 2 tokens"));
    err = (bl_err){0};
    memset(many, 'o', sizeof many);
    assert_int_equal(bl_tokenizer_encode(tokenizer, (bl_span){many, sizeof many}, 2, &tokens, &err), BL_EINVAL);
    err = (bl_err){0};
    assert_int_equal(bl_tokenizer_encode(tokenizer, (bl_span){"o\xc3", 2}, 10, &tokens, &err), BL_EINVAL);
    assert_non_null(strstr(err.text, "UTF-8"));
    bl_tokenizer_destroy(tokenizer);
    tokenizer = read_ok(evil);
    err = (bl_err){0};
    memset(many, 'a', sizeof many);
    many[sizeof many - 1] = 'b';
    assert_int_equal(bl_tokenizer_encode(tokenizer, (bl_span){many, sizeof many}, 10000, &tokens, &err), BL_ELIMIT);
    bl_tokenizer_destroy(tokenizer);
    free(tokens.id);
}

/* Each allocation may fail: what was there is given back, and the error says so. */
static void no_memory(void **state)
{
    bl_status st = BL_ENOMEM;
    (void)state;
    for (long n = 1; st != BL_OK && n < 1000; n++) {
        bl_tokenizer *tokenizer = NULL;
        bl_tokens tokens = {0};
        bl_err err = {0};
        bl_fault_arm(BL_FAULT_ALLOC, n);
        st = bl_tokenizer_read((bl_span){META, strlen(META)}, &tokenizer, &err);
        if (st == BL_OK)
            st = bl_tokenizer_encode(tokenizer, (bl_span){"b ab", 4}, 100, &tokens, &err);
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        assert_true(st == BL_OK || st == BL_ENOMEM);
        free(tokens.id);
        bl_tokenizer_destroy(tokenizer);
    }
    assert_int_equal(st, BL_OK);
}

/* ---- GPT-2's own files, and the ids that llama.cpp expects of them */

static char *read_data(const char *name, size_t *len)
{
    const char *folder = getenv("BEAMLINE_DATA");
    char path[1024], *data = NULL;
    FILE *file = NULL;
    long size = 0;
    if (folder == NULL)
        return NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    rewind(file);
    data = calloc(1, (size_t)size + 1);
    assert_non_null(data);
    *len = fread(data, 1, (size_t)size, file);
    fclose(file);
    return data;
}

/* tokenizer.json, as it is made of a vocabulary and its list of merges. */
static char *make_file(const char *vocab, const char *merges)
{
    bl_text out = {0};
    const char *line = strchr(merges, '\n') + 1; /* the first one is the version */
    bl_text_puts(&out,
                 "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
                 "\"model\":{\"type\":\"BPE\",\"merges\":[");
    for (int n = 0; *line != '\0' && *line != '\n'; n++) {
        size_t len = strcspn(line, "\n");
        bl_text_puts(&out, n > 0 ? "," : "");
        bl_encode_span(&out, (bl_span){line, len});
        line += len + (line[len] == '\n');
    }
    bl_text_puts(&out, "],\"vocab\":");
    bl_text_puts(&out, vocab);
    bl_text_puts(&out, "}}");
    return bl_text_take(&out);
}

static void gpt2(void **state)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    size_t len = 0;
    char *vocab = read_data("tokenizers/gpt2/encoder.json", &len), *merges = read_data("tokenizers/gpt2/vocab.bpe", &len);
    char *texts_file = read_data("gguf/ggml-vocab-gpt-2.gguf.inp", &len),
         *ids_file = read_data("gguf/ggml-vocab-gpt-2.gguf.out", &len);
    char *file = NULL, *text = texts_file, *ids = ids_file;
    bl_tokenizer *tokenizer = NULL;
    int cases = 0;
    (void)state;
    if (vocab == NULL || merges == NULL || texts_file == NULL || ids_file == NULL) {
        free(vocab);
        free(merges);
        free(texts_file);
        free(ids_file);
        print_message("skipped: GPT-2's vocabulary is not in BEAMLINE_DATA\n");
        skip();
    }
    file = make_file(vocab, merges);
    tokenizer = read_ok(file);
    assert_int_equal(bl_tokenizer_size(tokenizer), 50257);
    for (char *end = NULL; (end = strstr(text, mark)) != NULL; text = end + strlen(mark), cases++) {
        char *line = strsep(&ids, "\n");
        assert_non_null(line);
        *end = '\0';
        while (line[strspn(line, " ")] == '\0' && line[0] != '\0')
            line++;
        if (line[0] == ' ')
            line++;
        check(tokenizer, text, strlen(text), line, text);
    }
    assert_true(cases >= 40);
    bl_tokenizer_destroy(tokenizer);
    free(vocab);
    free(merges);
    free(texts_file);
    free(ids_file);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(refused), cmocka_unit_test(limits),
                                       cmocka_unit_test(no_memory), cmocka_unit_test(gpt2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
