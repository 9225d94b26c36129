/* SPDX-License-Identifier: MIT */
/* Reads the decoders of tokenizer.json. */
#include "proto/tokenizer_reader.h"

#include "proto/utf8.h"

/* The reader of a decoder's rows. */
typedef struct decoder_reader {
    bl_token_reader base;
    bl_token_decoder decoder;
    bool whole; /* the decoder has fused the tokens to one text */
} decoder_reader;

/* ---- readers of the types of decoders */

static bl_status tokenizer_read_decoder_add(bl_token_reader *r, const bl_json *at, bl_token_decode op)
{
    decoder_reader *whole = (decoder_reader *)r;
    bl_token_decoder *d = &whole->decoder;
    if (d->count == BL_TOKEN_DECODES)
        return bl_json_fail(at, r->err, BL_ELIMIT, "more than %d decoders", BL_TOKEN_DECODES);
    if (whole->whole && (op.kind != BL_DECODE_STRIP || op.start > 1 || op.stop > 0))
        return bl_json_fail(at, r->err, BL_EUNSUPPORTED,
                            "after Fuse or ByteLevel only a Strip of one character at the start is supported");
    op.whole = whole->whole;
    d->op[d->count++] = op;
    return BL_OK;
}

static bl_status read_fuse(bl_token_reader *r, const bl_json *at)
{
    (void)at;
    ((decoder_reader *)r)->whole = true;
    return BL_OK;
}

static bl_status read_byte_level(bl_token_reader *r, const bl_json *at)
{
    BL_TRY(tokenizer_read_decoder_add(r, at, (bl_token_decode){.kind = BL_DECODE_BYTES}));
    return read_fuse(r, at);
}

static bl_status read_byte_fallback(bl_token_reader *r, const bl_json *at)
{
    return tokenizer_read_decoder_add(r, at, (bl_token_decode){.kind = BL_DECODE_BYTE_TOKEN});
}

static bl_status tokenizer_read_decoder_read_replace(bl_token_reader *r, const bl_json *at)
{
    bl_token_decode op = {.kind = BL_DECODE_REPLACE};
    bl_json pattern, regex;
    BL_TRY(bl_json_need(at, "pattern", &pattern, r->err));
    if (bl_token_find(&pattern, "Regex", &regex))
        return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "Replace is supported with a String, not with a Regex");
    BL_TRY(bl_token_need_text(r, &pattern, "String", &op.from));
    BL_TRY(bl_token_need_text(r, at, "content", &op.to));
    if (op.from.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "the pattern is empty");
    return tokenizer_read_decoder_add(r, at, op);
}

static bl_status read_metaspace(bl_token_reader *r, const bl_json *at)
{
    bl_token_decode op = {.kind = BL_DECODE_BLANKS, .from = BL_S(BL_TOKEN_BLANK)};
    bl_span scheme = {"always", 6};
    bool prefix = true;
    BL_TRY(bl_token_find_text(r, at, "replacement", &op.from));
    BL_TRY(bl_token_find_flag(r, at, "add_prefix_space", &prefix));
    BL_TRY(bl_token_find_text(r, at, "prepend_scheme", &scheme));
    if (op.from.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "the replacement is empty");
    op.flag = prefix && !bl_span_is(scheme, "never");
    return tokenizer_read_decoder_add(r, at, op);
}

static bl_status tokenizer_read_decoder_read_wordpiece(bl_token_reader *r, const bl_json *at)
{
    bl_token_decode op = {.kind = BL_DECODE_WORDS, .from = BL_S("##"), .flag = true};
    BL_TRY(bl_token_find_text(r, at, "prefix", &op.from));
    BL_TRY(bl_token_find_flag(r, at, "cleanup", &op.flag));
    return tokenizer_read_decoder_add(r, at, op);
}

static bl_status tokenizer_read_decoder_read_count(bl_token_reader *r, const bl_json *at, const char *name, size_t *out)
{
    bl_json member;
    int64_t count = 0;
    BL_TRY(bl_json_need(at, name, &member, r->err));
    BL_TRY(bl_json_int(&member, 0, INT32_MAX, &count, r->err));
    *out = (size_t)count;
    return BL_OK;
}

static bl_status read_strip(bl_token_reader *r, const bl_json *at)
{
    bl_token_decode op = {.kind = BL_DECODE_STRIP};
    BL_TRY(bl_token_need_text(r, at, "content", &op.from));
    BL_TRY(tokenizer_read_decoder_read_count(r, at, "start", &op.start));
    BL_TRY(tokenizer_read_decoder_read_count(r, at, "stop", &op.stop));
    if (op.from.len == 0 || bl_utf8_length(op.from.data, op.from.len) != op.from.len)
        return bl_json_fail(at, r->err, BL_EINVAL, "the content must be one character");
    return tokenizer_read_decoder_add(r, at, op);
}

static const bl_token_row decoders[] = {{"ByteFallback", read_byte_fallback},
                                        {"ByteLevel", read_byte_level},
                                        {"Fuse", read_fuse},
                                        {"Metaspace", read_metaspace},
                                        {"Replace", tokenizer_read_decoder_read_replace},
                                        {"Strip", read_strip},
                                        {"WordPiece", tokenizer_read_decoder_read_wordpiece},
                                        {NULL, NULL}};

bl_status bl_token_read_decoder(bl_token_reader *base, const bl_json *root)
{
    decoder_reader r = {.base = *base};
    bl_json at;
    if (bl_token_find(root, "decoder", &at))
        BL_TRY(bl_token_read_rows(&r.base, &at, decoders, "decoders"));
    else
        r.decoder.op[r.decoder.count++] = (bl_token_decode){.kind = BL_DECODE_APART};
    return bl_token_fill_bytes(base->t, &r.decoder, base->err);
}
