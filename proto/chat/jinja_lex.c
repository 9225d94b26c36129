/* SPDX-License-Identifier: MIT */
/* The lexer of Jinja2 with trim_blocks and lstrip_blocks: a tag removes the newline after it, and the blanks from the start of
 * its line; "-" in a tag removes all whitespace on its side, "+" none. */
#include "proto/chat/jinja.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BRACKETS = 200 };

typedef struct lexer {
    bl_arena *arena;
    bl_err *err;
    const char *start, *end, *p;
    const char *counted; /* |line| counts the lines up to here */
    int line;
    bool line_starts; /* |p| is at the start of a line */
    bl_jinja_token *tokens;
    int count, cap;
    char brackets[MOST_BRACKETS];
    int open;
} lexer;

static const struct {
    bl_jinja_kind_of_token kind;
    bl_span text;
} operators[] = {
#define BL_JINJA_TOKEN(id, says)
#define BL_JINJA_OPERATOR(id, text) {BL_JINJA_T_##id, {text, sizeof text - 1}},
#include "proto/chat/tokens.def"
};

const char *bl_jinja_token_says(bl_jinja_kind_of_token kind)
{
    static const char *const says[] = {
#define BL_JINJA_TOKEN(id, says)    says,
#define BL_JINJA_OPERATOR(id, text) text,
#include "proto/chat/tokens.def"
    };
    return says[kind];
}

static int line_of(lexer *lex, const char *at)
{
    for (; lex->counted < at; lex->counted++)
        lex->line += *lex->counted == '\n';
    return lex->line;
}

static bl_status fail_lex(lexer *lex, const char *what)
{
    return bl_fail(lex->err, BL_EINVAL, "chat template, line %d: %s", line_of(lex, lex->p), what);
}

static bl_jinja_token *jinja_lex_add_token(lexer *lex, bl_jinja_kind_of_token kind, const char *at, bl_span text)
{
    static bl_jinja_token none;
    void *tokens = lex->tokens;
    bool room = bl_arena_reserve(lex->arena, &tokens, lex->count, &lex->cap, sizeof *lex->tokens);
    lex->tokens = tokens;
    if (!room) {
        none = (bl_jinja_token){0};
        return &none;
    }
    lex->tokens[lex->count] = (bl_jinja_token){.kind = kind, .line = line_of(lex, at), .text = text};
    return &lex->tokens[lex->count++];
}

static bool looks_at(const lexer *lex, const char *p, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(lex->end - p) >= len && memcmp(p, text, len) == 0;
}

static const char *jinja_lex_skip_space(const lexer *lex, const char *p)
{
    size_t bytes = 0;
    while (p < lex->end && bl_jinja_is_space(bl_jinja_point(p, lex->end, &bytes)))
        p += bytes;
    return p;
}

/* ---- between tags */

/* Whether a tag ends at |p|: |close|, such as "%}", with its sign.  Returns the place after it and after the whitespace that it
 * removes. */
static const char *tag_end(const lexer *lex, const char *p, const char *close, bool trims)
{
    if (looks_at(lex, p, close)) {
        p += 2;
        return trims && p < lex->end && *p == '\n' ? p + 1 : p;
    }
    if (p < lex->end && *p == '-' && looks_at(lex, p + 1, close))
        return jinja_lex_skip_space(lex, p + 3);
    return trims && p < lex->end && *p == '+' && looks_at(lex, p + 1, close) ? p + 3 : NULL;
}

/* Matches "{%" with a sign, then |word|.  Returns the place after the word and its blanks, or NULL. */
static const char *tag_word(const lexer *lex, const char *p, const char *word)
{
    if (!looks_at(lex, p, "{%"))
        return NULL;
    p += 2;
    if (p < lex->end && (*p == '-' || *p == '+'))
        p++;
    p = jinja_lex_skip_space(lex, p);
    return looks_at(lex, p, word) ? jinja_lex_skip_space(lex, p + strlen(word)) : NULL;
}

/* Adds the data up to the tag at |tag|, without the whitespace that the tag's sign removes. */
static void add_data(lexer *lex, const char *tag, bool is_variable)
{
    bl_span text = {lex->p, (size_t)(tag - lex->p)};
    char sign = tag + 2 < lex->end ? tag[2] : '\0';
    if (sign == '-') {
        text = bl_jinja_strip(text, NULL, false, true);
    } else if (sign != '+' && !is_variable) {
        const char *line = tag;
        while (line > lex->p && line[-1] != '\n')
            line--;
        if ((line > lex->p || lex->line_starts) && jinja_lex_skip_space(lex, line) >= tag)
            text.len = (size_t)(line - lex->p);
    }
    if (text.len > 0)
        jinja_lex_add_token(lex, BL_JINJA_T_DATA, lex->p, text);
}

static void go_to(lexer *lex, const char *p)
{
    lex->p = p;
    lex->line_starts = p > lex->start && p[-1] == '\n';
}

static bl_status lex_comment(lexer *lex)
{
    const char *p = lex->p + 2;
    p += p < lex->end && (*p == '-' || *p == '+');
    for (; p < lex->end; p++) {
        const char *end = tag_end(lex, p, "#}", true);
        if (end != NULL) {
            go_to(lex, end);
            return BL_OK;
        }
    }
    return fail_lex(lex, "Missing end of comment tag");
}

static bl_status lex_raw(lexer *lex, const char *begin)
{
    go_to(lex, begin);
    for (const char *p = begin; p < lex->end; p++) {
        const char *word = tag_word(lex, p, "endraw"), *end = word != NULL ? tag_end(lex, word, "%}", true) : NULL;
        if (end != NULL) {
            add_data(lex, p, false);
            go_to(lex, end);
            return BL_OK;
        }
    }
    return fail_lex(lex, "Missing end of raw directive");
}

/* ---- within tags */

/* Skips digits with single underscores between them; NULL if there are none. */
static const char *skip_digits(const lexer *lex, const char *p, int base)
{
    const char *last = NULL;
    for (; p < lex->end; p++) {
        int digit = *p >= '0' && *p <= '9' ? *p - '0' : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (*p | 32) - 'a' + 10 : 99;
        if (digit < base)
            last = p + 1;
        else if (*p != '_' || last != p)
            break;
    }
    return last;
}

static const char *float_end(const lexer *lex, const char *p)
{
    const char *whole = skip_digits(lex, p, 10), *fraction = NULL, *exponent = NULL;
    if (whole == NULL || (p > lex->start && p[-1] == '.'))
        return NULL;
    if (whole < lex->end && *whole == '.')
        fraction = skip_digits(lex, whole + 1, 10);
    const char *e = fraction != NULL ? fraction : whole;
    if (e < lex->end && (*e | 32) == 'e') {
        e++;
        e += e < lex->end && (*e == '+' || *e == '-');
        exponent = skip_digits(lex, e, 10);
    }
    return exponent != NULL ? exponent : fraction;
}

static bl_status lex_float(lexer *lex, const char *end)
{
    char digits[400];
    size_t n = 0;
    for (const char *p = lex->p; p < end; p++) {
        if (n + 1 == sizeof digits)
            return fail_lex(lex, "a number has more than 399 digits");
        if (*p != '_')
            digits[n++] = *p;
    }
    digits[n] = '\0';
    jinja_lex_add_token(lex, BL_JINJA_T_FLOAT, lex->p, (bl_span){lex->p, (size_t)(end - lex->p)})->number = strtod(digits, NULL);
    lex->p = end;
    return BL_OK;
}

static bl_status lex_integer(lexer *lex)
{
    static const struct {
        char letter;
        int base;
    } prefixes[] = {{'b', 2}, {'o', 8}, {'x', 16}};
    const char *p = lex->p, *end = NULL;
    int base = 10;
    int64_t value = 0;
    if (*p == '0' && p + 1 < lex->end) {
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && end == NULL; i++) {
            const char *digits = p + 2 < lex->end && p[2] == '_' ? p + 3 : p + 2;
            if ((p[1] | 32) == prefixes[i].letter && (end = skip_digits(lex, digits, prefixes[i].base)) != NULL) {
                base = prefixes[i].base;
                p = digits;
            }
        }
    }
    if (end == NULL)
        end = skip_digits(lex, p, *p == '0' ? 1 : 10);
    for (const char *d = p; d < end; d++) {
        int digit = *d <= '9' ? *d - '0' : (*d | 32) - 'a' + 10;
        if (*d != '_' && (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value)))
            return fail_lex(lex, "an integer does not fit 64 bits");
    }
    jinja_lex_add_token(lex, BL_JINJA_T_INTEGER, lex->p, (bl_span){lex->p, (size_t)(end - lex->p)})->integer = value;
    lex->p = end;
    return BL_OK;
}

/* Reads |least| to |most| digits of |base| at |*p|. */
static bool jinja_lex_read_code(const char **p, const char *end, int least, int most, int base, uint32_t *out)
{
    int n = 0;
    *out = 0;
    for (; n < most && *p < end; n++, (*p)++) {
        char c = **p;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
        if (digit >= base)
            break;
        *out = *out * (uint32_t)base + (uint32_t)digit;
    }
    return n >= least;
}

static size_t encode_point(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0U : n == 3 ? 0xe0U : 0xf0U) | c);
    return n;
}

/* Resolves the escape after the backslash at |*p|.  False if it is malformed. */
static bool resolve_escape(const char **p, const char *end, char *out, size_t *n)
{
    static const char letters[] = "abfnrtv\\'\"", means[] = "\a\b\f\n\r\t\v\\'\"";
    const char *letter = strchr(letters, **p);
    uint32_t code = 0;
    if (**p == '\n') {
        (*p)++;
        return true;
    }
    if (**p != '\0' && letter != NULL) {
        out[(*n)++] = means[letter - letters];
        (*p)++;
        return true;
    }
    if (**p >= '0' && **p <= '7') {
        (void)jinja_lex_read_code(p, end, 1, 3, 8, &code);
    } else if (**p == 'x' || **p == 'u' || **p == 'U') {
        int digits = **p == 'x' ? 2 : **p == 'u' ? 4 : 8;
        (*p)++;
        if (!jinja_lex_read_code(p, end, digits, digits, 16, &code) || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return false;
    } else if (**p == 'N') {
        return false;
    } else {
        out[(*n)++] = '\\'; /* not an escape: keep both characters */
        return true;
    }
    *n += encode_point(out + *n, code);
    return true;
}

static bl_status lex_string(lexer *lex)
{
    char quote = *lex->p;
    const char *p = lex->p + 1;
    size_t n = 0;
    while (p < lex->end && *p != quote)
        p += *p == '\\' && p + 1 < lex->end ? 2 : 1;
    if (p >= lex->end)
        return fail_lex(lex, quote == '"' ? "unexpected char '\"': the string does not end"
                                          : "unexpected char \"'\": the string does not end");
    const char *end = p;
    char *out = bl_arena_alloc(lex->arena, (size_t)(end - lex->p));
    if (out == NULL)
        return bl_arena_status(lex->arena, lex->err);
    for (p = lex->p + 1; p < end;) {
        if (*p != '\\') {
            out[n++] = *p++;
            continue;
        }
        p++;
        if (!resolve_escape(&p, end, out, &n))
            return fail_lex(lex, "a string has an escape that is malformed or names no character");
    }
    jinja_lex_add_token(lex, BL_JINJA_T_STRING, lex->p, (bl_span){out, n});
    lex->p = end + 1;
    return BL_OK;
}

static bl_status lex_operator(lexer *lex)
{
    static const char opens[] = "([{", closes[] = ")]}";
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        char c = *lex->p;
        if (!looks_at(lex, lex->p, operators[i].text.data))
            continue;
        const char *opened = strchr(opens, c), *closed = strchr(closes, c);
        if (opened != NULL) {
            if (lex->open == MOST_BRACKETS)
                return fail_lex(lex, "more than 200 nested brackets");
            lex->brackets[lex->open++] = closes[opened - opens];
        } else if (closed != NULL && (lex->open == 0 || lex->brackets[--lex->open] != c)) {
            return bl_fail(lex->err, BL_EINVAL, "chat template, line %d: unexpected '%c'", line_of(lex, lex->p), c);
        }
        jinja_lex_add_token(lex, operators[i].kind, lex->p, operators[i].text);
        lex->p += operators[i].text.len;
        return BL_OK;
    }
    size_t bytes = 1;
    (void)bl_jinja_point(lex->p, lex->end, &bytes);
    return bl_fail(lex->err, BL_EINVAL, "chat template, line %d: unexpected char '%.*s'", line_of(lex, lex->p), (int)bytes,
                   lex->p);
}

static bl_status lex_within(lexer *lex)
{
    size_t bytes = 0;
    const char *p = lex->p, *end = float_end(lex, p);
    if (end != NULL)
        return lex_float(lex, end);
    if (*p >= '0' && *p <= '9')
        return lex_integer(lex);
    while (p < lex->end && bl_jinja_is_word(bl_jinja_point(p, lex->end, &bytes)))
        p += bytes;
    if (p > lex->p) {
        jinja_lex_add_token(lex, BL_JINJA_T_NAME, lex->p, (bl_span){lex->p, (size_t)(p - lex->p)});
        lex->p = p;
        return BL_OK;
    }
    return *p == '"' || *p == '\'' ? lex_string(lex) : lex_operator(lex);
}

static bl_status lex_tag(lexer *lex, bool is_variable)
{
    const char *begin = lex->p, *close = is_variable ? "}}" : "%}";
    jinja_lex_add_token(lex, is_variable ? BL_JINJA_T_VARIABLE_BEGIN : BL_JINJA_T_BLOCK_BEGIN, begin, (bl_span){begin, 2});
    lex->p += 2;
    lex->p += lex->p < lex->end && (*lex->p == '-' || *lex->p == '+');
    lex->open = 0;
    for (;;) {
        const char *end = lex->open == 0 ? tag_end(lex, lex->p, close, !is_variable) : NULL;
        if (end != NULL) {
            jinja_lex_add_token(lex, is_variable ? BL_JINJA_T_VARIABLE_END : BL_JINJA_T_BLOCK_END, lex->p, (bl_span){lex->p, 2});
            go_to(lex, end);
            return BL_OK;
        }
        lex->p = jinja_lex_skip_space(lex, lex->p);
        if (lex->p == lex->end)
            return BL_OK; /* the parser reports the missing end */
        if (lex->open == 0 && tag_end(lex, lex->p, close, !is_variable) != NULL)
            continue;
        BL_TRY(lex_within(lex));
    }
}

static bl_status lex_next(lexer *lex)
{
    const char *tag = lex->p;
    while (tag < lex->end && !(*tag == '{' && tag + 1 < lex->end && strchr("%{#", tag[1]) != NULL && tag[1] != '\0'))
        tag++;
    if (tag == lex->end) {
        jinja_lex_add_token(lex, BL_JINJA_T_DATA, lex->p, (bl_span){lex->p, (size_t)(tag - lex->p)});
        lex->p = tag;
        return BL_OK;
    }
    const char *raw = tag_word(lex, tag, "raw");
    if (raw != NULL && looks_at(lex, raw, "-%}"))
        raw = jinja_lex_skip_space(lex, raw + 3);
    else
        raw = raw != NULL && looks_at(lex, raw, "%}") ? raw + 2 : NULL;
    add_data(lex, tag, tag[1] == '{');
    lex->p = tag;
    if (raw != NULL)
        return lex_raw(lex, raw);
    return tag[1] == '#' ? lex_comment(lex) : lex_tag(lex, tag[1] == '{');
}

/* Converts every kind of newline to "\n" and removes one at the very end. */
static char *jinja_lex_normalise(bl_arena *arena, bl_span source, size_t *len)
{
    char *out = bl_arena_alloc(arena, source.len + 1);
    size_t n = 0;
    for (size_t i = 0; out != NULL && i < source.len; i++) {
        if (source.data[i] != '\r')
            out[n++] = source.data[i];
        else if (i + 1 == source.len || source.data[i + 1] != '\n')
            out[n++] = '\n';
    }
    *len = n > 0 && out[n - 1] == '\n' ? n - 1 : n;
    return out;
}

bl_status bl_jinja_lex(bl_arena *arena, bl_span source, bl_jinja_token **out, bl_err *err)
{
    lexer lex = {.arena = arena, .err = err, .line = 1, .line_starts = true};
    size_t len = 0;
    lex.start = lex.p = lex.counted = jinja_lex_normalise(arena, source, &len);
    if (lex.start == NULL)
        return bl_arena_status(arena, err);
    lex.end = lex.start + len;
    while (lex.p < lex.end)
        BL_TRY(lex_next(&lex));
    jinja_lex_add_token(&lex, BL_JINJA_T_EOF, lex.end, (bl_span){lex.end, 0});
    *out = lex.tokens;
    return bl_arena_status(arena, err);
}
