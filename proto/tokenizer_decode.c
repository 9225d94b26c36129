/* SPDX-License-Identifier: MIT */
/* Precomputes the bytes of each token within a text. */
#include "proto/tokenizer_build.h"

#include "proto/utf8.h"

#include <string.h>

/* Applies |op| to |text|, the current text of |token|, and appends the result to |out|.  |first|: it begins a text. */
typedef void (*apply)(const bl_token_decode *op, const bl_token *token, bl_span text, bool first, bl_text *out);

/* ---- operations */

static void tokenizer_decode_replace(const bl_token_decode *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    (void)token;
    (void)first;
    for (size_t i = 0; i < text.len;) {
        if (bl_token_begins((bl_span){text.data + i, text.len - i}, op->from)) {
            bl_text_append(out, op->to.data, op->to.len);
            i += op->from.len;
        } else {
            bl_text_putc(out, text.data[i++]);
        }
    }
}

/* An added token is plain text and stays unchanged. */
static void from_bytes(const bl_token_decode *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    (void)op;
    (void)first;
    for (size_t i = 0, n = 0; i < text.len; i += n) {
        n = bl_utf8_length(text.data + i, text.len - i);
        int value = token->added ? -1 : bl_token_byte_get(bl_token_point(text.data + i, n));
        if (value >= 0)
            bl_text_putc(out, (char)value);
        else
            bl_text_append(out, text.data + i, n);
    }
}

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)((at - digits) % 16) : -1;
}

static void byte_token(const bl_token_decode *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    bool is_one = text.len == 6 && bl_token_begins(text, BL_S("<0x")) && text.data[5] == '>' && hex(text.data[3]) >= 0 &&
                  hex(text.data[4]) >= 0;
    (void)op;
    (void)token;
    (void)first;
    if (is_one)
        bl_text_putc(out, (char)(hex(text.data[3]) << 4 | hex(text.data[4])));
    else
        bl_text_append(out, text.data, text.len);
}

static void blanks(const bl_token_decode *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    bl_token_decode as = *op;
    as.to = first && op->flag ? BL_S("") : BL_S(" ");
    tokenizer_decode_replace(&as, token, text, first, out);
}

/* Closes up English punctuation and contractions as Hugging Face's library does. */
static void draw_together(const bl_token *token, bl_text *text)
{
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        bl_token_decode op = {.from = {pairs[i][0], strlen(pairs[i][0])}, .to = {pairs[i][1], strlen(pairs[i][1])}};
        bl_text next = {0};
        tokenizer_decode_replace(&op, token, (bl_span){bl_text_get(text), text->len}, false, &next);
        next.failed = next.failed || text->failed;
        bl_text_fini(text);
        *text = next;
    }
}

static void tokenizer_decode_words(const bl_token_decode *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    bool goes_on = !first && bl_token_begins(text, op->from);
    if (!first && !goes_on)
        bl_text_putc(out, ' ');
    bl_text_append(out, text.data + (goes_on ? op->from.len : 0), text.len - (goes_on ? op->from.len : 0));
    if (op->flag)
        draw_together(token, out);
}

static void tokenizer_decode_strip(const bl_token_decode *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    (void)token;
    for (size_t i = 0; i < op->start && (first || !op->whole) && bl_token_begins(text, op->from); i++)
        text = (bl_span){text.data + op->from.len, text.len - op->from.len};
    for (size_t i = 0; i < op->stop && text.len >= op->from.len &&
                       memcmp(text.data + text.len - op->from.len, op->from.data, op->from.len) == 0;
         i++)
        text.len -= op->from.len;
    bl_text_append(out, text.data, text.len);
}

/* The default of a file without a decoder. */
static void tokenizer_decode_apart(const bl_token_decode *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    (void)op;
    (void)token;
    if (!first)
        bl_text_putc(out, ' ');
    bl_text_append(out, text.data, text.len);
}

static const apply kinds[] = {[BL_DECODE_REPLACE] = tokenizer_decode_replace,
                              [BL_DECODE_BYTES] = from_bytes,
                              [BL_DECODE_BYTE_TOKEN] = byte_token,
                              [BL_DECODE_BLANKS] = blanks,
                              [BL_DECODE_WORDS] = tokenizer_decode_words,
                              [BL_DECODE_STRIP] = tokenizer_decode_strip,
                              [BL_DECODE_APART] = tokenizer_decode_apart};

/* ---- the bytes of each token */

static bl_status make_bytes(const bl_token_decoder *decoder, const bl_token *token, bl_span begin, bool first, bl_text room[2],
                            bl_span *out, bl_err *err)
{
    *out = begin;
    for (int i = 0; i < decoder->count; i++) {
        const bl_token_decode *op = &decoder->op[i];
        bl_text *to = &room[i % 2];
        if (op->model && token->added)
            continue;
        bl_text_clear(to);
        kinds[op->kind](op, token, *out, first, to);
        BL_TRY(bl_text_status(to, err));
        *out = (bl_span){bl_text_get(to), to->len};
    }
    return BL_OK;
}

/* Keeps the bytes of a token.  The bytes of most tokens equal the token's text and share the memory of the text. */
static bl_status tokenizer_decode_keep(bl_tokenizer *t, bl_span text, bl_span *bytes, bl_err *err)
{
    if (bl_span_eq(text, *bytes)) {
        bytes->data = text.data;
        return BL_OK;
    }
    bytes->data = bl_arena_strndup(t->arena, bytes->data, bytes->len);
    return bytes->data != NULL ? BL_OK : bl_arena_status(t->arena, err);
}

/* Whether a token differs at the beginning of a text. */
static bool knows_first(const bl_token_decoder *decoder)
{
    bool knows = false;
    for (int i = 0; i < decoder->count; i++) {
        const bl_token_decode *op = &decoder->op[i];
        knows = knows || op->kind == BL_DECODE_WORDS || op->kind == BL_DECODE_APART ||
                (op->kind == BL_DECODE_BLANKS && op->flag) || (op->kind == BL_DECODE_STRIP && op->whole);
    }
    return knows;
}

static bl_status fill_token(bl_tokenizer *t, const bl_token_decoder *decoder, bl_token *token, bool twice, bl_text room[2],
                            bl_err *err)
{
    bl_span begin = token->bytes.data != NULL ? token->bytes : token->text; /* an added token may have been normalised */
    if (token->text.data == NULL || token->special)
        return BL_OK;
    BL_TRY(make_bytes(decoder, token, begin, false, room, &token->bytes, err));
    BL_TRY(tokenizer_decode_keep(t, token->text, &token->bytes, err));
    token->first = token->bytes;
    if (!twice)
        return BL_OK;
    BL_TRY(make_bytes(decoder, token, begin, true, room, &token->first, err));
    if (bl_span_eq(token->first, token->bytes))
        token->first = token->bytes; /* nearly all tokens share the memory of both texts */
    return token->first.data == token->bytes.data ? BL_OK : tokenizer_decode_keep(t, token->text, &token->first, err);
}

bl_status bl_token_fill_bytes(bl_tokenizer *t, const bl_token_decoder *decoder, bl_err *err)
{
    bl_text room[2] = {{0}};
    bl_status st = BL_OK;
    bool twice = knows_first(decoder);
    for (size_t i = 0; i < t->size && st == BL_OK; i++)
        st = fill_token(t, decoder, &t->tokens[i], twice, room, err);
    bl_text_fini(&room[0]);
    bl_text_fini(&room[1]);
    return st;
}
