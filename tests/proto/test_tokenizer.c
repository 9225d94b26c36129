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

/* Like Llama-2: a blank is U+2581, with one before the text, and bytes without a character token have byte tokens. */
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

/* BERT's: "naive" is not in the vocabulary, and "x" is not a character token. */
#define WORDS_MODEL                                                                                                              \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_"      \
    "word\":6,"                                                                                                                  \
    "\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"na\":3,\"##i\":4,\"##ive\":5,\"##ve\":6,\",\":7,\"\xe6\xbc\xa2\":8,\"a\":" \
    "9,"                                                                                                                         \
    "\"##a\":10,\"do\":11}}"
#define WORDS                                                                                                                    \
    "{\"added_tokens\":[{\"id\":1,\"content\":\"[CLS]\",\"special\":true},{\"id\":2,\"content\":\"[SEP]\",\"special\":true},"    \
    "{\"id\":12,\"content\":\"New\",\"normalized\":true},{\"id\":13,\"content\":\"Old\",\"normalized\":false,\"lstrip\":true}]," \
    "\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"                            \
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]},"                              \
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}," WORDS_MODEL "}"

/* Scores: "ab" and "c" score higher than "a" and "bc"; "abc" is no token.  Two byte tokens, those of U+00E9. */
#define SCORES(unknown, more)                                                                                                    \
    "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" M "\","                    \
    "\"prepend_scheme\":\"first\",\"split\":false},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"" M                     \
    "\",\"prepend_scheme\":\"first\",\"split\":false},\"model\":{\"type\":\"Unigram\"," unknown more                             \
    "\"vocab\":[[\"<unk>\",0],[\"" M "\",-2],[\"a\",-2.5],[\"bc\",-3],[\"ab\",-1.5],[\"c\",-3.25],[\"NaN\",-4],[\"<0xC3>\",-9]," \
    "[\"<0xA9>\",-9]]}}"

/* A character map of SentencePiece: "A" becomes "b". */
#define CHARS                                                                                                                    \
    "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"DAAAAAAAAQBBDQAAAAAAgGIA\"},\"model\":"                \
    "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"b\",-1]]}}"

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
        {BYTES, "  w", "4 10", "  w"}, /* the last blank belongs to the word */
        {BYTES, "\xc3\xa9", "11 12", "\xc3\xa9"},
        {BYTES, "hell<|end|>o", "8 14 3", "hello"}, /* a special token has no text */
        {BYTES, "lll", "6 2", "lll"},
        {BYTES, "o1", "3 15", "o1"},
        {BYTES, "oxo", "3 3", "oo"}, /* a character without token and bytes is dropped */
        {META, "", "1", ""},
        {META, "ab", "1 4 7", "ab"}, /* a and b are joined before the blank and a: merges apply by rank, not by position */
        {META, "aba", "1 8 9", "aba"},
        {META, "b ab", "1 4 6 4 7", "b ab"},
        {META, "\xc3\xa9", "1 4 2 3", "\xc3\xa9"},
        {META, "zza", "1 4 0 5", "a"}, /* adjacent unknown characters become one unknown token */
        {SPLIT("\\\\p{N}", "Isolated"), "a11", "0 1 1", "a 1 1"},
        {SPLIT("\\\\p{N}+", "Isolated"), "a11a", "0 2 0", "a 11 a"},
        {SPLIT("\\\\p{N}", "Removed"), "a1a", "0 0", "a a"},
        {SPLIT("\\\\p{N}", "Contiguous"), "a11a", "0 2 0", "a 11 a"},
        {SPLIT("\\\\p{N}", "MergedWithPrevious"), "a11a", "3 1 0", "a1 1 a"},
        {SPLIT("\\\\p{N}", "MergedWithNext"), "a11a", "0 1 4", "a 1 1a"},
        {SPLIT("(?=1)", "Isolated"), "a11", "0 2", "a 11"}, /* empty matches split nothing */
        {SPLIT("\\\\w+", "Isolated"),
         "a\xcc\x81"
         "1!a",
         "3 0", "a1 a"}, /* a combining mark is part of a word */
        {WORDS, "", "1 2", ""},
        {WORDS, "Na\xc3\xafve", "1 3 5 2", "naive"}, /* the longest token first, without backtracking */
        {WORDS, "na,nai", "1 3 7 3 4 2", "na, nai"},
        {WORDS, "nax a", "1 0 9 2", "[UNK] a"},     /* a word is known as a whole, or becomes the unknown token */
        {WORDS, "aaaaaaa a", "1 0 9 2", "[UNK] a"}, /* over six characters */
        {WORDS, "a\xe6\xbc\xa2\tdo", "1 9 8 11 2", "a \xe6\xbc\xa2 do"},
        {WORDS, "a new NEW", "1 9 12 12 2", "a new new"},         /* an added token found in normalised text, */
        {WORDS, "a\xc2\xa0Old old", "1 9 13 0 2", "a Old [UNK]"}, /* or in the original text */
        {SCORES("\"unk_id\":0,", ""), "", "", ""},
        {SCORES("\"unk_id\":0,", ""), "abc", "1 4 5", "abc"},
        {SCORES("\"unk_id\":0,", ""), "a bc", "1 2 1 3", "a bc"},
        {SCORES("\"unk_id\":0,", ""), "abxyc", "1 4 0 5", "ab<unk>c"}, /* adjacent unknown characters become one unknown
                                                                        * token */
        {SCORES("\"unk_id\":0,", ""), "NaN", "1 6", "NaN"},
        {SCORES("\"unk_id\":0,", "\"byte_fallback\":true,"), "e\xcc\x81", "1 7 8", "<0xC3><0xA9>"}, /* composed */
        {CHARS, "Ab", "1 1", "b b"},
        {CHARS, "A\xcc\x81 Ac", "1 0 1 0", "b ? b ?"}, /* the replacement of a short cluster's prefix replaces the cluster */
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
#define MODEL(more)              "{\"model\":{" more "\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}"
#define UNIGRAM(pieces, unknown) "{\"model\":{\"type\":\"Unigram\",\"unk_id\":" unknown ",\"vocab\":[" pieces "]}}"
#define WITH(member)             "{" member ",\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"
    static const struct {
        const char *file;
        bl_status status;
        const char *says;
    } rows[] = {
        {"", BL_EINVAL, "JSON"},
        {"[]", BL_EINVAL, "expected an object"},
        {"{}", BL_EINVAL, "model"},
        {MODEL("\"type\":\"WordLevel\","), BL_EUNSUPPORTED, "model: the type \"WordLevel\" is not supported"},
        {MODEL("\"type\":\"Unigram\","), BL_EINVAL, "model.vocab: expected an array"},
        {MODEL("\"type\":\"WordPiece\","), BL_EINVAL, "\"[UNK]\" is not in the vocabulary"},
        {UNIGRAM("[\"a\",0],[\"b\"]", "0"), BL_EINVAL, "model.vocab[1]: a piece must be a text and its score"},
        {UNIGRAM("[\"a\",0],[\"b\",\"x\"]", "0"), BL_EINVAL, "model.vocab[1][1]"},
        {UNIGRAM("[\"a\",0],[\"b\",\"NaN\"]", "0"), BL_EINVAL, "a score must be a finite number"},
        {UNIGRAM("[\"a\",0],[\"a\",-1]", "0"), BL_EINVAL, "\"a\" is given twice"},
        {UNIGRAM("[\"a\",0]", "1"), BL_EGRAPH, "model.unk_id"},
        {MODEL("\"dropout\":0.1,"), BL_EUNSUPPORTED, "model.dropout: only null"},
        {MODEL("\"end_of_word_suffix\":\"</w>\","), BL_EUNSUPPORTED, "end_of_word_suffix"},
        {MODEL("\"unk_token\":\"x\","), BL_EINVAL, "\"x\" is not in the vocabulary"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", BL_EINVAL, "the id 0 already belongs to \"a\""},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", BL_EGRAPH, "model.vocab.a: "},
        {"{\"model\":{\"vocab\":{\"a\":1000000000},\"merges\":[]}}", BL_EGRAPH, "model.vocab.a: "},
        {"{\"model\":{\"vocab\":{\"a\":0.5},\"merges\":[]}}", BL_EINVAL, "expected an integer"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", BL_EINVAL, "model.merges[0]: a merge must be two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]}}", BL_EINVAL, "model.merges[0]: a merge must be two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", BL_EINVAL, "model.merges[0]: a merge must be two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", BL_EINVAL, "model.merges[0]: \"aa\" is not in the vocabulary"},
        {"{\"model\":{\"vocab\":{\"a\":0}}}", BL_EINVAL, "merges"},
        {WITH("\"added_tokens\":[{\"id\":0,\"content\":\"b\"}]"), BL_EINVAL,
         "added_tokens[0]: the id 0 already belongs to \"a\""},
        {WITH("\"added_tokens\":[{\"id\":1,\"content\":\"\"}]"), BL_EINVAL, "an added token has no content"},
        {WITH("\"normalizer\":{\"type\":\"Nmt\"}"), BL_EUNSUPPORTED, "normalizer: the type \"Nmt\" is not supported"},
        {WITH("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"a\"}"), BL_EINVAL, "is not base64"},
        {WITH("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAA==\"}"), BL_EINVAL,
         "has 4 bytes, and its trie 4"},
        {WITH("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAAAP8=\"}"), BL_EINVAL,
         "its texts are not UTF-8"},
        {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a*\"},\"content\":\"\"}"), BL_EUNSUPPORTED,
         "the pattern matches the empty text"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[\\\\W]\"},\"behavior\":\"Isolated\"}"),
         BL_EUNSUPPORTED, "\\W within a class"},
        {WITH("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"), BL_EUNSUPPORTED, "pre_tokenizer: the type \"UnicodeScripts\""},
        {WITH("\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",1]}"), BL_EINVAL,
         "post_processor.sep: unknown token 1"},
        {WITH("\"truncation\":{\"direction\":\"Up\"}"), BL_EUNSUPPORTED, "truncation: the direction \"Up\""},
        {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Metaspace\"}]}"), BL_EUNSUPPORTED,
         "decoder.decoders[1]: after Fuse or ByteLevel"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
              "\"behavior\":\"Isolated\"}]}"),
         BL_EINVAL, "pre_tokenizer.pretokenizers[0]: the pattern is not a valid regular expression: missing closing parenthesis"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Eaten\"}"), BL_EUNSUPPORTED,
         "the behavior \"Eaten\""},
        {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],"
              "\"special_tokens\":{\"x\":{\"ids\":[7]}}}"),
         BL_EINVAL, "post_processor.single[0]: unknown token 7"},
        {WITH("\"decoder\":{\"type\":\"CTC\"}"), BL_EUNSUPPORTED, "decoder: the type \"CTC\""},
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

/* A limit on the number of tokens, invalid UTF-8, and a regular expression with exponential backtracking, which is stopped. */
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

/* An expression that backtracks once over a long run, as \s*[\r\n]+ over blanks, ends in time. */
static void long_runs(void **state)
{
    enum { RUN = 300000 };
    bl_tokenizer *tokenizer = read_ok(SPLIT("a*1|a+", "Isolated"));
    bl_tokens tokens = {0};
    bl_err err = {0};
    char *run = malloc(RUN);
    (void)state;
    assert_non_null(run);
    memset(run, 'a', RUN);
    assert_int_equal(bl_tokenizer_encode(tokenizer, (bl_span){run, RUN}, SIZE_MAX, &tokens, &err), BL_OK);
    assert_int_equal(tokens.count, RUN);
    bl_tokenizer_destroy(tokenizer);
    free(tokens.id);
    free(run);
}

/* Special tokens that tokenizer.json does not name are recognised by their texts if the file calls them special; and a text may
 * be encoded without special tokens. */
static void known_marks(void **state)
{
    bl_tokenizer *tokenizer = read_ok(BYTES);
    bl_tokens tokens = {0};
    bl_text text = {0};
    bl_err err = {0};
    (void)state;
    assert_int_equal(bl_tokenizer_marks(tokenizer)->eot, 14);
    assert_int_equal(bl_tokenizer_marks(tokenizer)->eos, -1);
    assert_true(bl_tokenizer_is_end(tokenizer, 14));
    assert_false(bl_tokenizer_is_end(tokenizer, 9));
    assert_int_equal(bl_tokenizer_encode_as(tokenizer, BL_S("hello<|end|>"), (bl_encode_options){0}, 10, &tokens, &err), BL_OK);
    assert_int_equal(tokens.count, 2);
    assert_int_equal(tokens.id[1], 1); /* of "<|end|>" the vocabulary has only an e */
    assert_int_equal(bl_tokenizer_encode(tokenizer, BL_S("<|end|>"), 10, &tokens, &err), BL_OK);
    bl_tokenizer_decode(tokenizer, tokens.id, tokens.count, false, &text);
    assert_string_equal(bl_text_get(&text), "helloe");
    bl_tokenizer_decode(tokenizer, tokens.id, tokens.count, true, &text);
    assert_string_equal(bl_text_get(&text), "helloehelloe<|end|>");
    bl_text_fini(&text);
    free(tokens.id);
    bl_tokenizer_destroy(tokenizer);

    tokenizer = read_ok(META);
    assert_int_equal(bl_tokenizer_marks(tokenizer)->unknown, 0);
    bl_tokenizer_destroy(tokenizer);
}

/* Each allocation fails once: all memory is freed, and the error says so. */
static void no_memory(void **state)
{
    static const char *const files[] = {META, WORDS, SCORES("\"unk_id\":0,", "\"byte_fallback\":true,")};
    static const char text[] = "b ab \xc3\xa9Na\xc3\xafve New";
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        bl_status st = BL_ENOMEM;
        for (long n = 1; st != BL_OK && n < 1000; n++) {
            bl_tokenizer *tokenizer = NULL;
            bl_tokens tokens = {0};
            bl_err err = {0};
            bl_fault_arm(BL_FAULT_ALLOC, n);
            st = bl_tokenizer_read((bl_span){files[i], strlen(files[i])}, &tokenizer, &err);
            if (st == BL_OK)
                st = bl_tokenizer_encode(tokenizer, BL_S(text), 100, &tokens, &err);
            bl_fault_arm(BL_FAULT_ALLOC, 0);
            assert_true(st == BL_OK || st == BL_ENOMEM);
            free(tokens.id);
            bl_tokenizer_destroy(tokenizer);
        }
        assert_int_equal(st, BL_OK);
    }
}

/* Rows of a tensor are truncated as the file says; the tokens around a text stay. */
static void rows(void **state)
{
#define CUT(direction)                                                                                                           \
    "{\"truncation\":{\"max_length\":5,\"direction\":\"" direction                                                               \
    "\"},\"padding\":{\"strategy\":{\"Fixed\":8},\"direction\":\"Left\","                                                        \
    "\"pad_id\":7,\"pad_to_multiple_of\":4},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"                                  \
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}," WORDS_MODEL "}"
    static const struct {
        const char *file, *text;
        size_t most;
        const char *ids;
    } cases[] = {{CUT("Right"), "a na", 100, "1 9 3 2"},
                 {CUT("Right"), "a na do a na", 100, "1 9 3 11 2"},
                 {CUT("Left"), "a na do a na", 100, "1 11 9 3 2"},
                 {CUT("Right"), "a na do", 4, "1 9 3 2"},
                 {CUT("Left"), "a na do", 2, "1 2"},
                 {WORDS, "a na do", 5, "1 9 3 11 2"}};
    bl_tokens tokens = {0};
    bl_text out = {0};
    bl_err err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bl_tokenizer *tokenizer = read_ok(cases[i].file);
        bl_span text = {cases[i].text, strlen(cases[i].text)};
        assert_int_equal(bl_tokenizer_encode_row(tokenizer, text, cases[i].most, &tokens, &err), BL_OK);
        print_ids(&tokens, &out);
        assert_string_equal(bl_text_get(&out), cases[i].ids);
        bl_tokenizer_destroy(tokenizer);
    }
    bl_tokenizer *tokenizer = read_ok(CUT("Right"));
    const bl_token_layout *layout = bl_tokenizer_layout(tokenizer);
    assert_true(layout->padded == 8 && layout->multiple == 4 && layout->pad == 7 && layout->pads_left && !layout->cuts_left);
    assert_int_equal(bl_tokenizer_encode_row(tokenizer, BL_S("a"), 1, &tokens, &err), BL_EINVAL);
    bl_tokenizer_destroy(tokenizer);
    err = (bl_err){0};
    tokenizer = read_ok(WORDS);
    assert_int_equal(bl_tokenizer_encode_row(tokenizer, BL_S("a na do"), 4, &tokens, &err), BL_EINVAL);
    assert_non_null(strstr(err.text, "over 4 tokens"));
    bl_tokenizer_destroy(tokenizer);
    free(tokens.id);
    bl_text_fini(&out);
}

/* Long runs of combining marks are sorted in less than quadratic time, which would be an hour here. */
static void marks(void **state)
{
    enum { PAIRS = 400000 };
    bl_tokenizer *tokenizer = read_ok("{\"normalizer\":{\"type\":\"NFD\"},\"model\":{\"type\":\"Unigram\",\"vocab\":["
                                      "[\"a\",-1],[\"\xcc\x81\",-1],[\"\xcc\xa3\",-1]]}}");
    bl_tokens tokens = {0};
    bl_text text = {0};
    bl_err err = {0};
    (void)state;
    bl_text_puts(&text, "a");
    for (int i = 0; i < PAIRS; i++)
        bl_text_puts(&text, "\xcc\x81\xcc\xa3");
    assert_int_equal(bl_tokenizer_encode(tokenizer, (bl_span){text.data, text.len}, SIZE_MAX, &tokens, &err), BL_OK);
    assert_int_equal(tokens.count, 2 * PAIRS + 1);
    for (int i = 0; i <= 2 * PAIRS; i++)
        assert_int_equal(tokens.id[i], i == 0 ? 0 : i <= PAIRS ? 2 : 1);
    free(tokens.id);
    bl_text_fini(&text);
    bl_tokenizer_destroy(tokenizer);
}

/* ---- GPT-2's own files, with llama.cpp's expected ids */

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

/* Makes a tokenizer.json from a vocabulary and a list of merges. */
static char *make_file(const char *vocab, const char *merges)
{
    bl_text out = {0};
    const char *line = strchr(merges, '\n') + 1; /* the first line is the version */
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts),     cmocka_unit_test(refused),     cmocka_unit_test(limits),
                                       cmocka_unit_test(long_runs), cmocka_unit_test(known_marks), cmocka_unit_test(no_memory),
                                       cmocka_unit_test(rows),      cmocka_unit_test(marks),       cmocka_unit_test(gpt2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
