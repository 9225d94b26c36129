/* SPDX-License-Identifier: MIT */
/* Reads post-processors, truncation and padding. */
#include "proto/tokenizer_reader.h"

typedef bl_token_reader reader;

/* ---- post-processors */

static bl_status add_one_around(reader *r, const bl_json *at, int64_t id, bool after)
{
    int *count = after ? &r->t->nafter : &r->t->nbefore;
    if ((size_t)id >= r->t->size || r->t->tokens[id].text.data == NULL)
        return bl_json_fail(at, r->err, BL_EINVAL, "unknown token %lld", (long long)id);
    if (*count == BL_TOKEN_AROUND)
        return bl_json_fail(at, r->err, BL_ELIMIT, "more than %d tokens around a text", BL_TOKEN_AROUND);
    (after ? r->t->after : r->t->before)[(*count)++] = (int32_t)id;
    return BL_OK;
}

static bl_status add_around(reader *r, const bl_json *at, const bl_json *ids, bool after)
{
    bl_json_iter it = bl_json_each(ids);
    bl_json one;
    BL_TRY(bl_json_expect(ids, BL_JSON_ARRAY, r->err));
    while (bl_json_next(&it, &one)) {
        int64_t id = 0;
        BL_TRY(bl_token_read_id(r, &one, &id));
        BL_TRY(add_one_around(r, at, id, after));
    }
    return BL_OK;
}

/* Only one post-processor of a Sequence may add tokens. */
static bl_status must_be_only(reader *r, const bl_json *at)
{
    return r->t->nbefore + r->t->nafter == 0
               ? BL_OK
               : bl_json_fail(at, r->err, BL_EUNSUPPORTED, "two post-processors that put tokens around a text");
}

static bl_status note_type(reader *r, const bl_json *at)
{
    bl_json one, number;
    int64_t type = 0;
    if ((bl_token_find(at, "Sequence", &one) || bl_token_find(at, "SpecialToken", &one)) &&
        bl_token_find(&one, "type_id", &number))
        BL_TRY(bl_json_int(&number, 0, INT32_MAX, &type, r->err));
    r->t->layout.typed = r->t->layout.typed || type != 0;
    return BL_OK;
}

static bl_status post_template(reader *r, const bl_json *at)
{
    bl_json single, one, token, tokens, row, ids;
    bool after = false;
    BL_TRY(must_be_only(r, at));
    BL_TRY(bl_json_need(at, "single", &single, r->err));
    BL_TRY(bl_json_expect(&single, BL_JSON_ARRAY, r->err));
    bl_json_iter it = bl_json_each(&single);
    while (bl_json_next(&it, &one)) {
        bl_span name = {0};
        BL_TRY(note_type(r, &one));
        if (bl_token_find(&one, "Sequence", &token)) {
            if (after)
                return bl_json_fail(&one, r->err, BL_EUNSUPPORTED,
                                    "the template contains the text twice; it must contain it once");
            after = true;
            continue;
        }
        BL_TRY(bl_json_need(&one, "SpecialToken", &token, r->err));
        BL_TRY(bl_token_need_text(r, &token, "id", &name));
        BL_TRY(bl_json_need(at, "special_tokens", &tokens, r->err));
        BL_TRY(bl_json_need(&tokens, name.data, &row, r->err));
        BL_TRY(bl_json_need(&row, "ids", &ids, r->err));
        BL_TRY(add_around(r, &one, &ids, after));
    }
    return after ? BL_OK : bl_json_fail(&single, r->err, BL_EUNSUPPORTED, "the template does not contain the text");
}

/* BERT's and RoBERTa's post-processors: "cls" and "sep" are ["text", id]. */
static bl_status post_bert(reader *r, const bl_json *at)
{
    static const char *const names[] = {"cls", "sep"};
    BL_TRY(must_be_only(r, at));
    for (int i = 0; i < 2; i++) {
        bl_json pair, text, number, more;
        int64_t id = 0;
        BL_TRY(bl_json_need(at, names[i], &pair, r->err));
        bl_json_iter it = bl_json_each(&pair);
        if (pair.kind != BL_JSON_ARRAY || !bl_json_next(&it, &text) || !bl_json_next(&it, &number) || bl_json_next(&it, &more))
            return bl_json_fail(&pair, r->err, BL_EINVAL, "must be a token and its id");
        BL_TRY(bl_token_read_id(r, &number, &id));
        BL_TRY(add_one_around(r, &pair, id, i > 0));
    }
    return BL_OK;
}

/* A post-processor without effect here, since it changes only offsets, and this tokenizer computes none. */
static bl_status nothing(reader *r, const bl_json *at)
{
    (void)r;
    (void)at;
    return BL_OK;
}

static const bl_token_row post_processors[] = {{"BertProcessing", post_bert},
                                               {"ByteLevel", nothing},
                                               {"RobertaProcessing", post_bert},
                                               {"TemplateProcessing", post_template},
                                               {NULL, NULL}};

/* ---- truncation and padding */

static bl_status read_left(reader *r, const bl_json *at, bool *left)
{
    bl_span direction = BL_S("Right");
    BL_TRY(bl_token_find_text(r, at, "direction", &direction));
    *left = bl_span_is(direction, "Left");
    return *left || bl_span_is(direction, "Right") ? BL_OK : bl_token_not_known(r, at, "direction", direction);
}

static bl_status tokenizer_read_around_read_length(reader *r, const bl_json *at, const char *name, int64_t *out)
{
    bl_json member;
    return bl_token_find(at, name, &member) ? bl_json_int(&member, 0, INT32_MAX, out, r->err) : BL_OK;
}

static bl_status read_truncation(reader *r, const bl_json *at)
{
    bl_token_layout *layout = &r->t->layout;
    BL_TRY(bl_json_expect(at, BL_JSON_OBJECT, r->err));
    layout->cuts = true;
    BL_TRY(tokenizer_read_around_read_length(r, at, "max_length", &layout->longest));
    return read_left(r, at, &layout->cuts_left);
}

/* The strategy is "BatchLongest" or {"Fixed": N}. */
static bl_status read_padding(reader *r, const bl_json *at)
{
    bl_token_layout *layout = &r->t->layout;
    bl_json strategy;
    int64_t pad = 0;
    BL_TRY(bl_json_expect(at, BL_JSON_OBJECT, r->err));
    if (bl_token_find(at, "strategy", &strategy) && strategy.kind == BL_JSON_OBJECT)
        BL_TRY(tokenizer_read_around_read_length(r, &strategy, "Fixed", &layout->padded));
    BL_TRY(tokenizer_read_around_read_length(r, at, "pad_to_multiple_of", &layout->multiple));
    BL_TRY(tokenizer_read_around_read_length(r, at, "pad_id", &pad));
    layout->pad = (int32_t)pad;
    return read_left(r, at, &layout->pads_left);
}

bl_status bl_token_read_around(reader *r, const bl_json *root)
{
    bl_json at;
    if (bl_token_find(root, "post_processor", &at))
        BL_TRY(bl_token_read_rows(r, &at, post_processors, "processors"));
    if (bl_token_find(root, "truncation", &at))
        BL_TRY(read_truncation(r, &at));
    return bl_token_find(root, "padding", &at) ? read_padding(r, &at) : BL_OK;
}
