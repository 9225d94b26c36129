/* SPDX-License-Identifier: MIT */
/* Reads normalizers and pre-tokenizers. */
#include "proto/tokenizer_reader.h"

#include "proto/base64.h"
#include "proto/utf8.h"

#include <string.h>

typedef bl_token_reader reader;

/* Adds a map without parameters. */
static bl_status add_map(reader *r, const bl_json *at, bl_token_map map)
{
    bl_err problem = {0};
    return bl_token_place(r, at, bl_token_add_map(r->t, map, &problem), &problem);
}

static bl_status tokenizer_read_steps_add_step(reader *r, const bl_json *at, bl_token_step step, bl_token_step **out)
{
    bl_err problem = {0};
    return bl_token_place(r, at, bl_token_add_step(r->t, step, out, &problem), &problem);
}

static bl_status add_split(reader *r, const bl_json *at, bl_span pattern, bl_token_pattern kind, bl_split_behavior behavior,
                           bool invert)
{
    bl_err problem = {0};
    return bl_token_place(r, at, bl_token_add_split(r->t, pattern, kind, behavior, invert, &problem), &problem);
}

/* {"String": "..."} or {"Regex": "..."} */
static bl_status read_pattern(reader *r, const bl_json *at, bl_span *out, bl_token_pattern *kind)
{
    bl_json pattern;
    BL_TRY(bl_json_need(at, "pattern", &pattern, r->err));
    BL_TRY(bl_token_find_text(r, &pattern, "String", out));
    *kind = out->data != NULL ? BL_PATTERN_TEXT : BL_PATTERN_ONIGURUMA;
    return out->data != NULL ? BL_OK : bl_token_need_text(r, &pattern, "Regex", out);
}

static bl_status tokenizer_read_steps_read_replace(reader *r, const bl_json *at, bl_token_step *step)
{
    bl_token_pattern kind = BL_PATTERN_TEXT;
    uint32_t empty = 0;
    bl_err problem = {0};
    BL_TRY(read_pattern(r, at, &step->from, &kind));
    BL_TRY(bl_token_need_text(r, at, "content", &step->to));
    if (kind == BL_PATTERN_TEXT && step->from.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "the pattern is empty");
    if (kind == BL_PATTERN_TEXT)
        return BL_OK;
    BL_TRY(bl_token_place(r, at, bl_token_compile(r->t, step->from, kind, &step->code, &problem), &problem));
    if (pcre2_pattern_info(step->code, PCRE2_INFO_MATCHEMPTY, &empty) != 0 || empty != 0)
        return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "the pattern matches the empty text, which cannot be replaced");
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
    return tokenizer_read_steps_read_replace(r, at, &r->t->steps[r->t->nsteps - 1]);
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
    BL_TRY(tokenizer_read_steps_add_step(
        r, at, (bl_token_step){.kind = BL_STEP_MAP, .map = bl_token_map_strip, .left = true, .right = true}, &step));
    BL_TRY(bl_token_find_flag(r, at, "strip_left", &step->left));
    return bl_token_find_flag(r, at, "strip_right", &step->right);
}

static bl_status add_form(reader *r, const bl_json *at, bool compat, bool joins)
{
    bl_err problem = {0};
    return bl_token_place(r, at, bl_token_add_form(r->t, compat, joins, &problem), &problem);
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
    bl_bert_options options = {.cleans = true, .chinese = true, .lowers = true};
    bl_err problem = {0};
    BL_TRY(bl_token_find_flag(r, at, "clean_text", &options.cleans));
    BL_TRY(bl_token_find_flag(r, at, "handle_chinese_chars", &options.chinese));
    BL_TRY(bl_token_find_flag(r, at, "lowercase", &options.lowers));
    options.strips = options.lowers;
    BL_TRY(bl_token_find_flag(r, at, "strip_accents", &options.strips)); /* null: same as "lowercase" */
    return bl_token_place(r, at, bl_token_add_bert(r->t, options, &problem), &problem);
}

static bl_status step_chars(reader *r, const bl_json *at)
{
    bl_span text = {0};
    size_t len = 0;
    unsigned char *map = NULL;
    bl_err problem = {0};
    BL_TRY(bl_token_need_text(r, at, "precompiled_charsmap", &text));
    if (!bl_base64_size(text, &len))
        return bl_json_fail(at, r->err, BL_EINVAL, "precompiled_charsmap is not base64");
    map = bl_arena_alloc(r->t->arena, len + 1);
    if (map == NULL)
        return bl_token_read_without_memory(r);
    if (!bl_base64_decode(text, map))
        return bl_json_fail(at, r->err, BL_EINVAL, "precompiled_charsmap is not base64");
    return bl_token_place(r, at, bl_token_add_chars(r->t, (bl_span){(const char *)map, len}, &problem), &problem);
}

/* ---- pre-tokenizers */

static bl_status step_byte_level(reader *r, const bl_json *at)
{
    bool prefix = true, regex = true;
    BL_TRY(bl_token_find_flag(r, at, "add_prefix_space", &prefix));
    BL_TRY(bl_token_find_flag(r, at, "use_regex", &regex));
    if (prefix)
        BL_TRY(tokenizer_read_steps_add_step(r, at, (bl_token_step){.kind = BL_STEP_PREFIX, .to = BL_S(" ")}, NULL));
    if (regex)
        BL_TRY(add_split(r, at, BL_S(BL_TOKEN_GPT2), BL_PATTERN_ONIGURUMA, BL_SPLIT_ISOLATED, false));
    return add_map(r, at, bl_token_map_bytes);
}

static bl_status step_metaspace(reader *r, const bl_json *at)
{
    bl_span mark = BL_S(BL_TOKEN_BLANK), scheme = {"always", 6};
    bool prefix = true, cuts = true;
    BL_TRY(bl_token_find_text(r, at, "replacement", &mark));
    BL_TRY(bl_token_find_flag(r, at, "add_prefix_space", &prefix)); /* the member of older files */
    if (!prefix)
        scheme = BL_S("never");
    BL_TRY(bl_token_find_text(r, at, "prepend_scheme", &scheme));
    BL_TRY(bl_token_find_flag(r, at, "split", &cuts));
    if (mark.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "the replacement is empty");
    if (!bl_span_is(scheme, "always") && !bl_span_is(scheme, "first") && !bl_span_is(scheme, "never"))
        return bl_token_not_known(r, at, "prepend_scheme", scheme);
    BL_TRY(tokenizer_read_steps_add_step(
        r, at, (bl_token_step){.kind = BL_STEP_MAP, .map = bl_token_map_replace, .from = BL_S(" "), .to = mark}, NULL));
    if (!bl_span_is(scheme, "never"))
        BL_TRY(tokenizer_read_steps_add_step(
            r, at, (bl_token_step){.kind = BL_STEP_PREFIX, .to = mark, .at_start = bl_span_is(scheme, "first")}, NULL));
    return cuts ? add_split(r, at, mark, BL_PATTERN_TEXT, BL_SPLIT_WITH_NEXT, false) : BL_OK;
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
    bl_token_pattern kind = BL_PATTERN_TEXT;
    bool invert = false;
    BL_TRY(read_pattern(r, at, &pattern, &kind));
    BL_TRY(bl_token_need_text(r, at, "behavior", &name));
    BL_TRY(bl_token_find_flag(r, at, "invert", &invert));
    BL_TRY(find_behavior(r, at, name, &behavior));
    return add_split(r, at, pattern, kind, behavior, invert);
}

static bl_status step_digits(reader *r, const bl_json *at)
{
    bool each = false;
    BL_TRY(bl_token_find_flag(r, at, "individual_digits", &each));
    return add_split(r, at, each ? BL_S("\\p{N}") : BL_S("\\p{N}+"), BL_PATTERN_PCRE, BL_SPLIT_ISOLATED, false);
}

static bl_status step_punctuation(reader *r, const bl_json *at)
{
    bl_split_behavior behavior = BL_SPLIT_ISOLATED;
    bl_span name = BL_S("Isolated");
    bl_err problem = {0};
    BL_TRY(bl_token_find_text(r, at, "behavior", &name));
    BL_TRY(find_behavior(r, at, name, &behavior));
    return bl_token_place(r, at, bl_token_add_punctuation(r->t, behavior, &problem), &problem);
}

static bl_status step_blanks(reader *r, const bl_json *at)
{
    bl_err problem = {0};
    return bl_token_place(r, at, bl_token_add_blanks(r->t, &problem), &problem);
}

static bl_status step_bert_words(reader *r, const bl_json *at)
{
    bl_err problem = {0};
    BL_TRY(step_blanks(r, at));
    return bl_token_place(r, at, bl_token_add_punctuation(r->t, BL_SPLIT_ISOLATED, &problem), &problem);
}

/* Words of this pre-tokenizer also contain Join_Control characters. */
static bl_status step_words(reader *r, const bl_json *at)
{
    return add_split(r, at, BL_S("[\\w\\p{Join_Control}]+|[^\\w\\p{Join_Control}\\s]+"), BL_PATTERN_ONIGURUMA, BL_SPLIT_REMOVED,
                     true);
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
