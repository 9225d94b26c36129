/* SPDX-License-Identifier: MIT */
/* Strings with Python's semantics: sequences of code points, with Unicode's cases, spaces and lines. */
#include "proto/chat/jinja.h"

#include <string.h>
#include <utf8proc.h>

uint32_t bl_jinja_point(const char *p, const char *end, size_t *bytes)
{
    utf8proc_int32_t point = 0;
    if (p < end && (unsigned char)*p < 0x80) {
        *bytes = 1;
        return (unsigned char)*p;
    }
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)p, end - p, &point);
    *bytes = n > 0 ? (size_t)n : 1;
    return n > 0 ? (uint32_t)point : 0xfffd;
}

void bl_jinja_put_point(bl_jinja_run *run, bl_jinja_buffer *buffer, uint32_t point)
{
    char bytes[4];
    utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)point, (utf8proc_uint8_t *)bytes);
    bl_jinja_put(run, buffer, bytes, n > 0 ? (size_t)n : 0);
}

size_t bl_jinja_points(bl_span text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return n;
}

size_t bl_jinja_offset(bl_span text, size_t points)
{
    size_t i = 0;
    for (; i < text.len; i++) {
        if (((unsigned char)text.data[i] & 0xc0) != 0x80 && points-- == 0)
            break;
    }
    return i;
}

/* ---- classes of characters */

bool bl_jinja_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_category(uint32_t c, utf8proc_category_t first, utf8proc_category_t last)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= first && category <= last;
}

bool bl_jinja_is_printable(uint32_t c)
{
    return c == ' ' || !(is_category(c, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO) ||
                         is_category(c, UTF8PROC_CATEGORY_CN, UTF8PROC_CATEGORY_CN));
}

bool bl_jinja_is_word(uint32_t c)
{
    if (c < 0x80)
        return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    return is_category(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO) ||
           is_category(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool bl_jinja_is_digit(uint32_t c)
{
    return is_category(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_ND);
}

bool bl_jinja_is_numeric(uint32_t c)
{
    return is_category(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

/* ---- cases */

typedef struct casing {
    uint32_t point;
    const char *upper, *title, *lower;
} casing;

static const casing *find_casing(uint32_t point)
{
    static const casing rows[] = {
#define BL_JINJA_CASING(point, upper, title, lower) {point, upper, title, lower},
#include "proto/chat/casing.def"
    };
    size_t low = 0, high = sizeof rows / sizeof *rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rows[middle].point == point)
            return &rows[middle];
        if (rows[middle].point < point)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool is_cased(uint32_t c)
{
    return is_category(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT);
}

static bool is_case_ignorable(uint32_t c)
{
    return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xa8 || c == 0xb7 || c == 0x2019 ||
           is_category(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN) ||
           is_category(c, UTF8PROC_CATEGORY_ME, UTF8PROC_CATEGORY_ME) ||
           is_category(c, UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LM) ||
           is_category(c, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CF) ||
           is_category(c, UTF8PROC_CATEGORY_SK, UTF8PROC_CATEGORY_SK);
}

/* Whether the sigma at |at| ends a word: a cased letter precedes it and none follows. */
static bool ends_word(bl_span text, size_t at)
{
    const char *end = text.data + text.len, *p = text.data + at;
    size_t bytes = 0;
    uint32_t c = 0;
    do {
        if (p == text.data)
            return false;
        do
            p--;
        while (((unsigned char)*p & 0xc0) == 0x80);
        c = bl_jinja_point(p, end, &bytes);
    } while (is_case_ignorable(c));
    if (!is_cased(c))
        return false;
    for (p = text.data + at + 2; p < end; p += bytes) {
        c = bl_jinja_point(p, end, &bytes);
        if (!is_case_ignorable(c))
            return !is_cased(c);
    }
    return true;
}

static void put_cased(bl_jinja_run *run, bl_jinja_buffer *out, bl_span text, size_t at, uint32_t c, bl_jinja_case to)
{
    const casing *special = c >= 0x80 ? find_casing(c) : NULL;
    if (to == BL_JINJA_LOWER && c == 0x3a3)
        bl_jinja_put_point(run, out, ends_word(text, at) ? 0x3c2 : 0x3c3);
    else if (special != NULL)
        bl_jinja_puts(run, out, to == BL_JINJA_UPPER ? special->upper : to == BL_JINJA_LOWER ? special->lower : special->title);
    else
        bl_jinja_put_point(run, out,
                           (uint32_t)(to == BL_JINJA_UPPER   ? utf8proc_toupper((utf8proc_int32_t)c)
                                      : to == BL_JINJA_LOWER ? utf8proc_tolower((utf8proc_int32_t)c)
                                                             : utf8proc_totitle((utf8proc_int32_t)c)));
}

bl_jinja_value bl_jinja_recase(bl_jinja_run *run, bl_span text, bl_jinja_case to)
{
    bl_jinja_buffer out = {0};
    size_t bytes = 0;
    bool after_cased = false; /* the previous character is a cased letter */
    for (size_t i = 0; i < text.len && !run->failed; i += bytes) {
        uint32_t c = bl_jinja_point(text.data + i, text.data + text.len, &bytes);
        bl_jinja_case now = to;
        if (to == BL_JINJA_CAPITAL)
            now = i == 0 ? BL_JINJA_TITLE : BL_JINJA_LOWER;
        else if (to == BL_JINJA_TITLE)
            now = after_cased ? BL_JINJA_LOWER : BL_JINJA_TITLE;
        else if (to == BL_JINJA_SWAP)
            now = is_category(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LU) ? BL_JINJA_LOWER : BL_JINJA_UPPER;
        put_cased(run, &out, text, i, c, now);
        after_cased = is_cased(c);
    }
    return bl_jinja_take(&out);
}

bl_jinja_value bl_jinja_casefold(bl_jinja_run *run, bl_span text)
{
    bl_jinja_buffer out = {0};
    size_t bytes = 0;
    for (size_t i = 0; i < text.len && !run->failed; i += bytes) {
        utf8proc_int32_t folded[8], c = (utf8proc_int32_t)bl_jinja_point(text.data + i, text.data + text.len, &bytes);
        int last = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char(c, folded, 8, UTF8PROC_CASEFOLD, &last);
        for (utf8proc_ssize_t k = 0; k < n && n <= 8; k++)
            bl_jinja_put_point(run, &out, (uint32_t)folded[k]);
    }
    return bl_jinja_take(&out);
}

/* ---- stripping and lines */

static bool is_stripped(uint32_t c, const bl_span *chars)
{
    size_t bytes = 0;
    if (chars == NULL)
        return bl_jinja_is_space(c);
    for (size_t i = 0; i < chars->len; i += bytes) {
        if (bl_jinja_point(chars->data + i, chars->data + chars->len, &bytes) == c)
            return true;
    }
    return false;
}

bl_span bl_jinja_strip(bl_span text, const bl_span *chars, bool left, bool right)
{
    const char *p = text.data, *end = text.data + text.len;
    size_t bytes = 0;
    while (left && p < end && is_stripped(bl_jinja_point(p, end, &bytes), chars))
        p += bytes;
    while (right && p < end) {
        const char *last = end - 1;
        while (last > p && ((unsigned char)*last & 0xc0) == 0x80)
            last--;
        if (!is_stripped(bl_jinja_point(last, end, &bytes), chars))
            break;
        end = last;
    }
    return (bl_span){p, (size_t)(end - p)};
}

static bool ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bl_span bl_jinja_next_line(bl_span text, size_t *at, size_t *whole)
{
    const char *start = text.data + *at, *end = text.data + text.len, *p = start;
    size_t bytes = 0;
    uint32_t c = 0;
    while (p < end && !ends_line(c = bl_jinja_point(p, end, &bytes)))
        p += bytes;
    bl_span line = {start, (size_t)(p - start)};
    if (p < end)
        p += c == '\r' && p + 1 < end && p[1] == '\n' ? 2 : bytes;
    *whole = (size_t)(p - start);
    *at += *whole;
    return line;
}

/* ---- searching */

int64_t bl_jinja_find(bl_span text, bl_span what, size_t from)
{
    if (from > text.len || what.len > text.len - from)
        return -1;
    const char *found = what.len == 0 ? text.data + from : memmem(text.data + from, text.len - from, what.data, what.len);
    return found == NULL ? -1 : found - text.data;
}

bl_jinja_value bl_jinja_replace(bl_jinja_run *run, bl_span text, bl_span old, bl_span new, int64_t count)
{
    bl_jinja_buffer out = {0};
    size_t at = 0, bytes = 0;
    while (count != 0 && bl_jinja_work(run, 0)) {
        int64_t found = bl_jinja_find(text, old, at);
        if (found < 0)
            break;
        bl_jinja_put(run, &out, text.data + at, (size_t)found - at);
        bl_jinja_put_span(run, &out, new);
        at = (size_t)found + old.len;
        count--;
        if (old.len == 0) { /* inserts between all characters */
            if (at == text.len)
                return bl_jinja_take(&out);
            (void)bl_jinja_point(text.data + at, text.data + text.len, &bytes);
            bl_jinja_put(run, &out, text.data + at, bytes);
            at += bytes;
        }
    }
    bl_jinja_put(run, &out, text.data + at, text.len - at);
    return bl_jinja_take(&out);
}

void bl_jinja_put_escaped(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value)
{
    static const struct {
        char c;
        const char *says;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
    bl_span text = bl_jinja_text(bl_jinja_str(run, value));
    size_t from = 0;
    if (value.kind == BL_JINJA_STRING && value.flag) {
        bl_jinja_put_span(run, buffer, text);
        return;
    }
    for (size_t i = 0; i < text.len; i++) {
        for (size_t e = 0; e < sizeof escapes / sizeof *escapes; e++) {
            if (text.data[i] != escapes[e].c)
                continue;
            bl_jinja_put(run, buffer, text.data + from, i - from);
            bl_jinja_puts(run, buffer, escapes[e].says);
            from = i + 1;
        }
    }
    bl_jinja_put(run, buffer, text.data + from, text.len - from);
}
