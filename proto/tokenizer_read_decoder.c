/* SPDX-License-Identifier: MIT */
/* Decoders: what each token is within a text, and where it begins one, worked out when the file is read. */
#include "proto/tokenizer_reader.h"

#include "proto/utf8.h"

#include <string.h>

enum { MOST_OPS = 16 };

typedef struct operation operation;

/* |text|, which is token |token|'s so far, as it goes on to |out|.  |first|: it begins a text. */
typedef void (*apply)(const operation *op, const bl_token *token, bl_span text, bool first, bl_text *out);

struct operation {
    apply apply;
    bl_span from, to;
    bool flag;          /* metaspace: blanks that begin a text are dropped; wordpiece: what stands apart is drawn together */
    size_t start, stop; /* so many of |from| are stripped there at the most */
    bool whole;         /* of the whole text, and not of each token */
};

typedef struct decoder {
    int count;
    operation op[MOST_OPS];
    bool whole; /* from here on there is one text */
} decoder;

/* What the rows need beside the reader. */
typedef struct decoder_reader {
    bl_token_reader base;
    decoder decoder;
} decoder_reader;

static bool begins_with(bl_span text, bl_span with)
{
    return text.len >= with.len && memcmp(text.data, with.data, with.len) == 0;
}

/* ---- what is done */

static void replace(const operation *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    (void)token;
    (void)first;
    for (size_t i = 0; i < text.len;) {
        if (begins_with((bl_span){text.data + i, text.len - i}, op->from)) {
            bl_text_append(out, op->to.data, op->to.len);
            i += op->from.len;
        } else {
            bl_text_putc(out, text.data[i++]);
        }
    }
}

/* An added token is text as it is. */
static void from_bytes(const operation *op, const bl_token *token, bl_span text, bool first, bl_text *out)
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

static void byte_token(const operation *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    bool is_one = text.len == 6 && begins_with(text, BL_S("<0x")) && text.data[5] == '>' && hex(text.data[3]) >= 0 &&
                  hex(text.data[4]) >= 0;
    (void)op;
    (void)token;
    (void)first;
    if (is_one)
        bl_text_putc(out, (char)(hex(text.data[3]) << 4 | hex(text.data[4])));
    else
        bl_text_append(out, text.data, text.len);
}

static void blanks(const operation *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    operation as = *op;
    as.to = first && op->flag ? BL_S("") : BL_S(" ");
    replace(&as, token, text, first, out);
}

/* As the library draws together what stands apart in English. */
static void draw_together(const bl_token *token, bl_text *text)
{
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        operation op = {.from = {pairs[i][0], strlen(pairs[i][0])}, .to = {pairs[i][1], strlen(pairs[i][1])}};
        bl_text next = {0};
        replace(&op, token, (bl_span){bl_text_get(text), text->len}, false, &next);
        next.failed = next.failed || text->failed;
        bl_text_fini(text);
        *text = next;
    }
}

static void words(const operation *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    bool goes_on = !first && begins_with(text, op->from);
    if (!first && !goes_on)
        bl_text_putc(out, ' ');
    bl_text_append(out, text.data + (goes_on ? op->from.len : 0), text.len - (goes_on ? op->from.len : 0));
    if (op->flag)
        draw_together(token, out);
}

static void strip(const operation *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    (void)token;
    for (size_t i = 0; i < op->start && (first || !op->whole) && begins_with(text, op->from); i++)
        text = (bl_span){text.data + op->from.len, text.len - op->from.len};
    for (size_t i = 0; i < op->stop && text.len >= op->from.len &&
                       memcmp(text.data + text.len - op->from.len, op->from.data, op->from.len) == 0;
         i++)
        text.len -= op->from.len;
    bl_text_append(out, text.data, text.len);
}

/* Where the file has no decoder. */
static void apart(const operation *op, const bl_token *token, bl_span text, bool first, bl_text *out)
{
    (void)op;
    (void)token;
    if (!first)
        bl_text_putc(out, ' ');
    bl_text_append(out, text.data, text.len);
}

/* ---- what the file says */

static bl_status add(bl_token_reader *r, const bl_json *at, operation op)
{
    decoder *d = &((decoder_reader *)r)->decoder;
    if (d->count == MOST_OPS)
        return bl_json_fail(at, r->err, BL_ELIMIT, "over %d decoders", MOST_OPS);
    if (d->whole && (op.apply != strip || op.start > 1 || op.stop > 0))
        return bl_json_fail(at, r->err, BL_EUNSUPPORTED,
                            "behind what joins the tokens (Fuse, ByteLevel) only a Strip of one at the start is supported");
    op.whole = d->whole;
    d->op[d->count++] = op;
    return BL_OK;
}

static bl_status read_fuse(bl_token_reader *r, const bl_json *at)
{
    (void)at;
    ((decoder_reader *)r)->decoder.whole = true;
    return BL_OK;
}

static bl_status read_byte_level(bl_token_reader *r, const bl_json *at)
{
    BL_TRY(add(r, at, (operation){.apply = from_bytes}));
    return read_fuse(r, at);
}

static bl_status read_byte_fallback(bl_token_reader *r, const bl_json *at)
{
    return add(r, at, (operation){.apply = byte_token});
}

static bl_status read_replace(bl_token_reader *r, const bl_json *at)
{
    operation op = {.apply = replace};
    bl_json pattern, regex;
    BL_TRY(bl_json_need(at, "pattern", &pattern, r->err));
    if (bl_token_find(&pattern, "Regex", &regex))
        return bl_json_fail(at, r->err, BL_EUNSUPPORTED, "Replace is supported with a String here, and not with a Regex");
    BL_TRY(bl_token_need_text(r, &pattern, "String", &op.from));
    BL_TRY(bl_token_need_text(r, at, "content", &op.to));
    if (op.from.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "an empty pattern");
    return add(r, at, op);
}

static bl_status read_metaspace(bl_token_reader *r, const bl_json *at)
{
    operation op = {.apply = blanks, .from = BL_S(BL_TOKEN_BLANK)};
    bl_span scheme = {"always", 6};
    bool prefix = true;
    BL_TRY(bl_token_find_text(r, at, "replacement", &op.from));
    BL_TRY(bl_token_find_flag(r, at, "add_prefix_space", &prefix));
    BL_TRY(bl_token_find_text(r, at, "prepend_scheme", &scheme));
    if (op.from.len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "an empty replacement");
    op.flag = prefix && !bl_span_is(scheme, "never");
    return add(r, at, op);
}

static bl_status read_wordpiece(bl_token_reader *r, const bl_json *at)
{
    operation op = {.apply = words, .from = BL_S("##"), .flag = true};
    BL_TRY(bl_token_find_text(r, at, "prefix", &op.from));
    BL_TRY(bl_token_find_flag(r, at, "cleanup", &op.flag));
    return add(r, at, op);
}

static bl_status read_count(bl_token_reader *r, const bl_json *at, const char *name, size_t *out)
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
    operation op = {.apply = strip};
    BL_TRY(bl_token_need_text(r, at, "content", &op.from));
    BL_TRY(read_count(r, at, "start", &op.start));
    BL_TRY(read_count(r, at, "stop", &op.stop));
    if (op.from.len == 0 || bl_utf8_length(op.from.data, op.from.len) != op.from.len)
        return bl_json_fail(at, r->err, BL_EINVAL, "the content is one character");
    return add(r, at, op);
}

static const bl_token_row decoders[] = {{"ByteFallback", read_byte_fallback},
                                        {"ByteLevel", read_byte_level},
                                        {"Fuse", read_fuse},
                                        {"Metaspace", read_metaspace},
                                        {"Replace", read_replace},
                                        {"Strip", read_strip},
                                        {"WordPiece", read_wordpiece},
                                        {NULL, NULL}};

/* ---- of each token */

static bl_status make_bytes(decoder_reader *r, const bl_token *token, bl_span begin, bool first, bl_text room[2], bl_span *out)
{
    *out = begin;
    for (int i = 0; i < r->decoder.count; i++) {
        bl_text *to = &room[i % 2];
        bl_text_clear(to);
        r->decoder.op[i].apply(&r->decoder.op[i], token, *out, first, to);
        BL_TRY(bl_text_status(to, r->base.err));
        *out = (bl_span){bl_text_get(to), to->len};
    }
    return BL_OK;
}

static bl_status keep(decoder_reader *r, bl_span *bytes)
{
    bytes->data = bl_arena_strndup(r->base.t->arena, bytes->data, bytes->len);
    return bytes->data != NULL ? BL_OK : bl_token_read_without_memory(&r->base);
}

static bl_status fill_token(decoder_reader *r, bl_token *token, bl_text room[2])
{
    bl_span begin = token->bytes.data != NULL ? token->bytes : token->text; /* an added token may have been normalised */
    if (token->text.data == NULL || token->special)
        return BL_OK;
    BL_TRY(make_bytes(r, token, begin, false, room, &token->bytes));
    BL_TRY(keep(r, &token->bytes));
    BL_TRY(make_bytes(r, token, begin, true, room, &token->first));
    if (!bl_span_eq(token->first, token->bytes))
        return keep(r, &token->first);
    token->first = token->bytes; /* as nearly all */
    return BL_OK;
}

bl_status bl_token_read_decoder(bl_token_reader *base, const bl_json *root)
{
    decoder_reader r = {.base = *base};
    bl_text room[2] = {{0}};
    bl_status st = BL_OK;
    bl_json at;
    if (bl_token_find(root, "decoder", &at))
        BL_TRY(bl_token_read_rows(&r.base, &at, decoders, "decoders"));
    else
        r.decoder.op[r.decoder.count++] = (operation){.apply = apart};
    for (size_t i = 0; i < base->t->size && st == BL_OK; i++)
        st = fill_token(&r, &base->t->tokens[i], room);
    bl_text_fini(&room[0]);
    bl_text_fini(&room[1]);
    return st;
}
