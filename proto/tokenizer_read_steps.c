/* SPDX-License-Identifier: MIT */
/* Normalizers and pre-tokenizers. */
#include "proto/tokenizer_reader.h"

#include "proto/base64.h"
#include "proto/utf8.h"

#include <string.h>

/* As GPT-2 splits, and every tokenizer of bytes that says nothing else. */
static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef bl_token_reader reader;

static bl_status new_step(reader *r, const bl_json *at, bl_token_step **out)
{
    if (r->t->nsteps == BL_TOKEN_STEPS)
        return bl_json_fail(at, r->err, BL_ELIMIT, "over %d steps", BL_TOKEN_STEPS);
    *out = &r->t->steps[r->t->nsteps++];
    return BL_OK;
}

static bl_status add_map(reader *r, const bl_json *at, bl_token_map map)
{
    bl_token_step *step = NULL;
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_MAP, .map = map};
    return BL_OK;
}

/* ---- patterns */

/* Words have marks in them as Unicode defines it, which PCRE2's \w has not; its \s has one character too many. */
#define WORD  "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define BLANK "\\p{White_Space}"
#define HEX   "0-9A-Fa-f"

/* What means another thing in the library's expressions (Oniguruma) than in PCRE2's: in a class, and outside; NULL there: it
 * cannot be said. */
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

static bl_status put_escape(reader *r, const bl_json *at, char c, bool inside, bl_text *out)
{
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        const char *put = inside ? escapes[i].inside : escapes[i].outside;
        if (escapes[i].escape != c)
            continue;
        if (put == NULL)
            return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "the pattern has \\%c within a class, which is not supported", c);
        bl_text_puts(out, put);
        return BL_OK;
    }
    bl_text_putc(out, '\\');
    bl_text_putc(out, c);
    return BL_OK;
}

static bl_status translate(reader *r, const bl_json *at, bl_span pattern, bl_text *out)
{
    bool inside = false;
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.data[i];
        size_t from = i;
        if (c == '\\' && i + 1 < pattern.len) {
            BL_TRY(put_escape(r, at, pattern.data[++i], inside, out));
            continue;
        }
        if (inside && c == '[') /* [:alpha:]; classes in classes are none of PCRE2's */
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
    return bl_text_status(out, r->err);
}

/* As the library's expressions are: Unicode's classes, and ^ and $ at every line. */
static bl_status compile(reader *r, const bl_json *at, bl_span pattern, bool literal, pcre2_code **out)
{
    char why[120] = "";
    int code = 0;
    PCRE2_SIZE where = 0;
    uint32_t options = literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE;
    *out = pcre2_compile((PCRE2_SPTR)pattern.data, pattern.len, options | PCRE2_UTF, &code, &where, r->t->rules);
    if (*out != NULL)
        return BL_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return bl_fail(r->err, BL_ENOMEM, "a regular expression");
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return bl_json_fail(at, r->err, BL_EINVAL, "the pattern is no regular expression: %s, at its byte %zu", why, (size_t)where);
}

static bl_status compile_foreign(reader *r, const bl_json *at, bl_span pattern, pcre2_code **out)
{
    bl_text text = {0};
    bl_status st = translate(r, at, pattern, &text);
    if (st == BL_OK)
        st = compile(r, at, (bl_span){bl_text_get(&text), text.len}, false, out);
    bl_text_fini(&text);
    return st;
}

/* An expression of PCRE2's. */
static bl_status add_split(reader *r, const bl_json *at, bl_span pattern, bl_split_behavior behavior, bool invert)
{
    bl_token_step *step = NULL;
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_SPLIT, .behavior = behavior, .invert = invert};
    return compile(r, at, pattern, false, &step->code);
}

/* One of the library's, or a text as it is. */
static bl_status add_foreign_split(reader *r, const bl_json *at, bl_span pattern, bool literal, bl_split_behavior behavior,
                                   bool invert)
{
    bl_token_step *step = NULL;
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_SPLIT, .behavior = behavior, .invert = invert};
    return literal ? compile(r, at, pattern, true, &step->code) : compile_foreign(r, at, pattern, &step->code);
}

/* {"String": "..."} or {"Regex": "..."} */
static bl_status read_pattern(reader *r, const bl_json *at, bl_span *out, bool *literal)
{
    bl_json pattern;
    BL_TRY(bl_json_need(at, "pattern", &pattern, r->err));
    BL_TRY(bl_token_find_text(r, &pattern, "String", out));
    *literal = out->data != NULL;
    return *literal ? BL_OK : bl_token_need_text(r, &pattern, "Regex", out);
}

static bl_status read_replace(reader *r, const bl_json *at, bl_token_step *step)
{
    bool literal = false;
    uint32_t empty = 0;
    BL_TRY(read_pattern(r, at, &step->from, &literal));
    BL_TRY(bl_token_need_text(r, at, "content", &step->to));
    if (literal && step->from.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "an empty pattern");
    if (literal)
        return BL_OK;
    BL_TRY(compile_foreign(r, at, step->from, &step->code));
    if (pcre2_pattern_info(step->code, PCRE2_INFO_MATCHEMPTY, &empty) != 0 || empty != 0)
        return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "the pattern matches nothing at all, which cannot be replaced");
    return BL_OK;
}

/* ---- normalizers */

static bl_status step_prepend(reader *r, const bl_json *at)
{
    BL_TRY(add_map(r, at, bl_token_map_prepend));
    return bl_token_need_text(r, at, "prepend", &r->t->steps[r->t->nsteps - 1].to);
}

static bl_status step_replace(reader *r, const bl_json *at)
{
    BL_TRY(add_map(r, at, bl_token_map_replace));
    return read_replace(r, at, &r->t->steps[r->t->nsteps - 1]);
}

static bl_status step_lower(reader *r, const bl_json *at)
{
    return add_map(r, at, bl_token_map_lower);
}

static bl_status step_without_marks(reader *r, const bl_json *at)
{
    return add_map(r, at, bl_token_map_without_marks);
}

static bl_status step_strip(reader *r, const bl_json *at)
{
    bl_token_step *step = NULL;
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_MAP, .map = bl_token_map_strip, .left = true, .right = true};
    BL_TRY(bl_token_find_flag(r, at, "strip_left", &step->left));
    return bl_token_find_flag(r, at, "strip_right", &step->right);
}

static bl_status add_form(reader *r, const bl_json *at, bool compat, bool joins)
{
    BL_TRY(add_map(r, at, bl_token_map_form));
    r->t->steps[r->t->nsteps - 1].compat = compat;
    r->t->steps[r->t->nsteps - 1].joins = joins;
    return BL_OK;
}

static bl_status step_nfc(reader *r, const bl_json *at)
{
    return add_form(r, at, false, true);
}

static bl_status step_nfd(reader *r, const bl_json *at)
{
    return add_form(r, at, false, false);
}

static bl_status step_nfkc(reader *r, const bl_json *at)
{
    return add_form(r, at, true, true);
}

static bl_status step_nfkd(reader *r, const bl_json *at)
{
    return add_form(r, at, true, false);
}

static bl_status step_bert(reader *r, const bl_json *at)
{
    bool cleans = true, chinese = true, lowers = true, strips = false;
    BL_TRY(bl_token_find_flag(r, at, "clean_text", &cleans));
    BL_TRY(bl_token_find_flag(r, at, "handle_chinese_chars", &chinese));
    BL_TRY(bl_token_find_flag(r, at, "lowercase", &lowers));
    strips = lowers;
    BL_TRY(bl_token_find_flag(r, at, "strip_accents", &strips)); /* null: as the case */
    if (cleans)
        BL_TRY(add_map(r, at, bl_token_map_clean));
    if (chinese)
        BL_TRY(add_map(r, at, bl_token_map_chinese));
    if (strips)
        BL_TRY(step_nfd(r, at));
    if (strips)
        BL_TRY(add_map(r, at, bl_token_map_without_accents));
    return lowers ? step_lower(r, at) : BL_OK;
}

/* The bytes of the trie in four, the least first; the trie; texts, each with a NUL behind it. */
static bl_status step_chars(reader *r, const bl_json *at)
{
    bl_span text = {0};
    bl_token_step *step = NULL;
    size_t len = 0, units = 0;
    unsigned char *map = NULL;
    BL_TRY(new_step(r, at, &step));
    BL_TRY(bl_token_need_text(r, at, "precompiled_charsmap", &text));
    if (!bl_base64_size(text, &len))
        return bl_json_fail(at, r->err, BL_EINVAL, "precompiled_charsmap is not base64");
    map = bl_arena_alloc(r->t->arena, len + 1);
    if (map == NULL)
        return bl_token_read_without_memory(r);
    if (!bl_base64_decode(text, map))
        return bl_json_fail(at, r->err, BL_EINVAL, "precompiled_charsmap is not base64");
    units = len >= 4 ? (size_t)map[0] | (size_t)map[1] << 8 | (size_t)map[2] << 16 | (size_t)map[3] << 24 : 0;
    if (len < 4 || units > len - 4 || units % 4 != 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "precompiled_charsmap has %zu bytes, and its trie %zu", len, units);
    *step = (bl_token_step){.kind = BL_STEP_MAP, .map = bl_token_map_chars, .units = map + 4, .nunits = units / 4};
    step->from = (bl_span){(const char *)map + 4 + units, len - 4 - units};
    for (size_t i = 0, n = 0; i < step->from.len; i += n)
        if ((n = bl_utf8_length(step->from.data + i, step->from.len - i)) == 0)
            return bl_json_fail(at, r->err, BL_EINVAL, "precompiled_charsmap: its texts are not UTF-8");
    return BL_OK;
}

/* ---- pre-tokenizers */

static bl_status step_byte_level(reader *r, const bl_json *at)
{
    bool prefix = true, regex = true;
    bl_token_step *step = NULL;
    BL_TRY(bl_token_find_flag(r, at, "add_prefix_space", &prefix));
    BL_TRY(bl_token_find_flag(r, at, "use_regex", &regex));
    if (prefix) {
        BL_TRY(new_step(r, at, &step));
        *step = (bl_token_step){.kind = BL_STEP_PREFIX, .to = BL_S(" ")};
    }
    if (regex)
        BL_TRY(add_foreign_split(r, at, BL_S(gpt2_pattern), false, BL_SPLIT_ISOLATED, false));
    return add_map(r, at, bl_token_map_bytes);
}

static bl_status step_metaspace(reader *r, const bl_json *at)
{
    bl_span mark = BL_S(BL_TOKEN_BLANK), scheme = {"always", 6};
    bl_token_step *step = NULL;
    bool prefix = true, cuts = true;
    BL_TRY(bl_token_find_text(r, at, "replacement", &mark));
    BL_TRY(bl_token_find_flag(r, at, "add_prefix_space", &prefix)); /* as older files say it */
    if (!prefix)
        scheme = BL_S("never");
    BL_TRY(bl_token_find_text(r, at, "prepend_scheme", &scheme));
    BL_TRY(bl_token_find_flag(r, at, "split", &cuts));
    if (mark.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "an empty replacement");
    if (!bl_span_is(scheme, "always") && !bl_span_is(scheme, "first") && !bl_span_is(scheme, "never"))
        return bl_token_not_known(r, at, "prepend_scheme", scheme);
    BL_TRY(new_step(r, at, &step));
    *step = (bl_token_step){.kind = BL_STEP_MAP, .map = bl_token_map_replace, .from = BL_S(" "), .to = mark};
    if (!bl_span_is(scheme, "never")) {
        BL_TRY(new_step(r, at, &step));
        *step = (bl_token_step){.kind = BL_STEP_PREFIX, .to = mark, .at_start = bl_span_is(scheme, "first")};
    }
    return cuts ? add_foreign_split(r, at, mark, true, BL_SPLIT_WITH_NEXT, false) : BL_OK;
}

static bl_status find_behavior(reader *r, const bl_json *at, bl_span name, bl_split_behavior *out)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    for (int i = 0; i < 5; i++)
        if (bl_span_is(name, names[i])) {
            *out = (bl_split_behavior)i;
            return BL_OK;
        }
    return bl_token_not_known(r, at, "behavior", name);
}

static bl_status step_split(reader *r, const bl_json *at)
{
    bl_split_behavior behavior = BL_SPLIT_ISOLATED;
    bl_span pattern = {0}, name = {0};
    bool literal = false, invert = false;
    BL_TRY(read_pattern(r, at, &pattern, &literal));
    BL_TRY(bl_token_need_text(r, at, "behavior", &name));
    BL_TRY(bl_token_find_flag(r, at, "invert", &invert));
    BL_TRY(find_behavior(r, at, name, &behavior));
    return add_foreign_split(r, at, pattern, literal, behavior, invert);
}

static bl_status step_digits(reader *r, const bl_json *at)
{
    bool each = false;
    BL_TRY(bl_token_find_flag(r, at, "individual_digits", &each));
    return add_split(r, at, each ? BL_S("\\p{N}") : BL_S("\\p{N}+"), BL_SPLIT_ISOLATED, false);
}

#define PUNCTUATION "[!-/:-@\\[-`{-~\\p{P}]"

static bl_status step_punctuation(reader *r, const bl_json *at)
{
    bl_split_behavior behavior = BL_SPLIT_ISOLATED;
    bl_span name = BL_S("Isolated");
    BL_TRY(bl_token_find_text(r, at, "behavior", &name));
    BL_TRY(find_behavior(r, at, name, &behavior));
    return add_split(r, at, BL_S(PUNCTUATION), behavior, false);
}

static bl_status step_blanks(reader *r, const bl_json *at)
{
    return add_split(r, at, BL_S(BLANK "+"), BL_SPLIT_REMOVED, false);
}

static bl_status step_bert_words(reader *r, const bl_json *at)
{
    BL_TRY(step_blanks(r, at));
    return add_split(r, at, BL_S(PUNCTUATION), BL_SPLIT_ISOLATED, false);
}

/* A word of this one has also what joins letters. */
#define JOINED WORD "\\p{Join_Control}"

static bl_status step_words(reader *r, const bl_json *at)
{
    return add_split(r, at, BL_S("[" JOINED "]+|[^" JOINED BLANK "]+"), BL_SPLIT_REMOVED, true);
}

static const bl_token_row normalizers[] = {{"BertNormalizer", step_bert},
                                           {"Lowercase", step_lower},
                                           {"NFC", step_nfc},
                                           {"NFD", step_nfd},
                                           {"NFKC", step_nfkc},
                                           {"NFKD", step_nfkd},
                                           {"Precompiled", step_chars},
                                           {"Prepend", step_prepend},
                                           {"Replace", step_replace},
                                           {"Strip", step_strip},
                                           {"StripAccents", step_without_marks},
                                           {NULL, NULL}};
static const bl_token_row pre_tokenizers[] = {{"BertPreTokenizer", step_bert_words},
                                              {"ByteLevel", step_byte_level},
                                              {"Digits", step_digits},
                                              {"Metaspace", step_metaspace},
                                              {"Punctuation", step_punctuation},
                                              {"Split", step_split},
                                              {"Whitespace", step_words},
                                              {"WhitespaceSplit", step_blanks},
                                              {NULL, NULL}};

bl_status bl_token_read_steps(reader *r, const bl_json *root)
{
    bl_json at;
    if (bl_token_find(root, "normalizer", &at))
        BL_TRY(bl_token_read_rows(r, &at, normalizers, "normalizers"));
    r->t->nnormal = r->t->nsteps;
    if (bl_token_find(root, "pre_tokenizer", &at))
        BL_TRY(bl_token_read_rows(r, &at, pre_tokenizers, "pretokenizers"));
    return BL_OK;
}
