/* SPDX-License-Identifier: MIT */
#include "proto/tokenizer_parts.h"

#include "engine/base/fault.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    MOST_DECOMPOSED = 32, /* code points of one decomposition; Unicode guarantees at most 18 */
    SHORT_RUN = 32,       /* shorter runs of marks are sorted by insertion */
    MOST_CHANGED = 3      /* most code points that replace a code point */
};

bool bl_token_is_blank(uint32_t point)
{
    return point == ' ' || (point >= '\t' && point <= '\r') || point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 || point == 0x202f || point == 0x205f ||
           point == 0x3000;
}

uint32_t bl_token_point(const char *text, size_t len)
{
    static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t point = (unsigned char)text[0] & lead[len];
    for (size_t i = 1; i < len; i++)
        point = point << 6 | ((unsigned char)text[i] & 0x3f);
    return point;
}

static void put_point(bl_text *out, uint32_t point)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t len = utf8proc_encode_char((utf8proc_int32_t)point, bytes);
    bl_text_append(out, (const char *)bytes, (size_t)len);
}

/* ---- maps of single code points */

/* Writes the replacement of |point|; returns its length, at most MOST_CHANGED. */
typedef int (*change_point)(uint32_t point, uint32_t *to);

static bl_status change_all(bl_span text, bl_text *out, change_point change)
{
    uint32_t to[MOST_CHANGED];
    for (size_t at = 0, n = 0; at < text.len; at += n) {
        int count = 0;
        n = bl_utf8_length(text.data + at, text.len - at);
        count = change(bl_token_point(text.data + at, n), to);
        for (int i = 0; i < count; i++)
            put_point(out, to[i]);
    }
    return BL_OK;
}

/* Lower case without rules of a language.  Only the capital I with a dot becomes two code points. */
static int lower(uint32_t point, uint32_t *to)
{
    to[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)point);
    if (point != 0x130)
        return 1;
    to[0] = 'i';
    to[1] = 0x307;
    return 2;
}

static bool tokenizer_unicode_is_in(uint32_t point, utf8proc_category_t first, utf8proc_category_t last)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category >= first && category <= last;
}

static int without_marks(uint32_t point, uint32_t *to)
{
    to[0] = point;
    return !tokenizer_unicode_is_in(point, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

static int without_accents(uint32_t point, uint32_t *to)
{
    to[0] = point;
    return !tokenizer_unicode_is_in(point, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN);
}

static int clean(uint32_t point, uint32_t *to)
{
    to[0] = bl_token_is_blank(point) ? ' ' : point;
    if (point == '\t' || point == '\n' || point == '\r')
        return 1;
    return point != 0xfffd && !tokenizer_unicode_is_in(point, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF) &&
           !tokenizer_unicode_is_in(point, UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CO);
}

/* The blocks of Chinese characters in Hugging Face's library.  One block starts elsewhere in BERT's own code. */
static bool is_chinese(uint32_t point)
{
    static const uint32_t blocks[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                                         {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (point >= blocks[i][0] && point <= blocks[i][1])
            return true;
    return false;
}

static int tokenizer_unicode_apart(uint32_t point, uint32_t *to)
{
    bool chinese = is_chinese(point);
    to[0] = to[2] = ' ';
    to[chinese ? 1 : 0] = point;
    return chinese ? 3 : 1;
}

#define CHANGES(name, change)                                                                                                    \
    bl_status name(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)                                   \
    {                                                                                                                            \
        (void)e;                                                                                                                 \
        (void)step;                                                                                                              \
        return change_all(text, out, change);                                                                                    \
    }
CHANGES(bl_token_map_lower, lower)
CHANGES(bl_token_map_without_marks, without_marks)
CHANGES(bl_token_map_without_accents, without_accents)
CHANGES(bl_token_map_clean, clean)
CHANGES(bl_token_map_chinese, tokenizer_unicode_apart)
#undef CHANGES

bl_status bl_token_map_strip(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)
{
    size_t from = text.len, to = text.len;
    bool inside = false;
    (void)e;
    for (size_t at = 0, n = 0; at < text.len; at += n) {
        n = bl_utf8_length(text.data + at, text.len - at);
        if (bl_token_is_blank(bl_token_point(text.data + at, n)))
            continue;
        from = inside ? from : at;
        to = at + n;
        inside = true;
    }
    from = step->left ? from : 0;
    to = step->right ? (inside ? to : 0) : text.len;
    if (to > from)
        bl_text_append(out, text.data + from, to - from);
    return BL_OK;
}

/* ---- normal forms */

static utf8proc_propval_t mark_class(int32_t point)
{
    return utf8proc_get_property(point)->combining_class;
}

/* Sorts a run of marks stably by combining class.  utf8proc's own sort takes quadratic time. */
static bl_status order_marks(bl_token_encoder *e, int32_t *points, size_t count)
{
    size_t from[257] = {0};
    int32_t *sorted = NULL;
    for (size_t i = 1; count <= SHORT_RUN && i < count; i++) {
        int32_t point = points[i];
        size_t k = i;
        for (; k > 0 && mark_class(points[k - 1]) > mark_class(point); k--)
            points[k] = points[k - 1];
        points[k] = point;
    }
    if (count <= SHORT_RUN)
        return BL_OK;
    sorted = bl_calloc(count, sizeof *sorted);
    if (sorted == NULL)
        return bl_fail(e->err, BL_ENOMEM, "out of host memory for the marks of a text");
    for (size_t i = 0; i < count; i++)
        from[mark_class(points[i]) + 1]++;
    for (int i = 0; i < 256; i++)
        from[i + 1] += from[i];
    for (size_t i = 0; i < count; i++)
        sorted[from[mark_class(points[i])]++] = points[i];
    memcpy(points, sorted, count * sizeof *sorted);
    free(sorted);
    return BL_OK;
}

static bl_status order_all_marks(bl_token_encoder *e, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        size_t end = at;
        while (end < count && mark_class(e->points[end]) > 0)
            end++;
        if (end > at + 1)
            BL_TRY(order_marks(e, e->points + at, end - at));
        at = end;
    }
    return BL_OK;
}

bl_status bl_token_map_form(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)
{
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | (step->compat ? UTF8PROC_COMPAT : 0);
    size_t count = 0;
    for (size_t at = 0, n = 0; at < text.len; at += n) {
        int boundary = 0;
        n = bl_utf8_length(text.data + at, text.len - at);
        BL_TRY(bl_token_grow(e, &e->points, count + MOST_DECOMPOSED, &e->points_cap, sizeof *e->points));
        utf8proc_ssize_t got = utf8proc_decompose_char((utf8proc_int32_t)bl_token_point(text.data + at, n), e->points + count,
                                                       MOST_DECOMPOSED, options, &boundary);
        if (got < 0 || got > MOST_DECOMPOSED)
            return bl_fail(e->err, BL_EINVAL, "the text has a character that has no normal form");
        count += (size_t)got;
    }
    BL_TRY(order_all_marks(e, count));
    if (step->joins)
        count = (size_t)utf8proc_normalize_utf32(e->points, (utf8proc_ssize_t)count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (size_t i = 0; i < count; i++)
        put_point(out, (uint32_t)e->points[i]);
    return BL_OK;
}

/* ---- SentencePiece's character map: a double-array trie of darts-clone, and strings.  Both are untrusted. */

static bool get_unit(const bl_token_step *step, size_t at, uint32_t *out)
{
    const unsigned char *p = step->units + at * 4;
    if (at >= step->nunits)
        return false;
    *out = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return true;
}

static size_t unit_offset(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1U << 9)) >> 6);
}

/* Gives the replacement of the shortest prefix of |text| in the map. */
static bool find_mapped(const bl_token_step *step, bl_span text, bl_span *to)
{
    uint32_t unit = 0, value = 0;
    size_t node = 0;
    if (!get_unit(step, 0, &unit))
        return false;
    node = unit_offset(unit);
    for (size_t i = 0; i < text.len && text.data[i] != '\0'; i++) {
        unsigned char c = (unsigned char)text.data[i];
        node ^= c;
        if (!get_unit(step, node, &unit) || (unit & (1U << 31 | 0xff)) != c)
            return false;
        node ^= unit_offset(unit);
        if ((unit >> 8 & 1) == 0)
            continue;
        if (!get_unit(step, node, &value) || (value & ~(1U << 31)) >= step->from.len)
            return false;
        value &= ~(1U << 31);
        to->data = step->from.data + value;
        to->len = strnlen(to->data, step->from.len - value);
        return true;
    }
    return false;
}

static bl_status put_mapped(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)
{
    bl_span to = {0};
    for (size_t at = 0, n = 0; at < text.len; at += n) {
        bl_span one = {text.data + at, n = bl_utf8_length(text.data + at, text.len - at)};
        bool mapped = find_mapped(step, one, &to);
        bl_text_append(out, mapped ? to.data : one.data, mapped ? to.len : one.len);
        BL_TRY(bl_token_fits(e, out->len));
    }
    return BL_OK;
}

/* The end of the grapheme cluster at |at|. */
static size_t end_of_cluster(bl_span text, size_t at)
{
    utf8proc_int32_t state = 0;
    size_t n = bl_utf8_length(text.data + at, text.len - at);
    uint32_t point = bl_token_point(text.data + at, n);
    for (at += n; at < text.len; at += n) {
        uint32_t next = 0;
        n = bl_utf8_length(text.data + at, text.len - at);
        next = bl_token_point(text.data + at, n);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)point, (utf8proc_int32_t)next, &state))
            break;
        point = next;
    }
    return at;
}

/* As in Hugging Face's library, a short cluster is replaced by the replacement of its prefix, and the rest of the cluster is
 * dropped. */
bl_status bl_token_map_chars(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)
{
    enum { SHORT = 6 };
    bl_span to = {0};
    for (size_t at = 0, end = 0; at < text.len; at = end) {
        end = end_of_cluster(text, at);
        bl_span cluster = {text.data + at, end - at};
        if (cluster.len < SHORT && find_mapped(step, cluster, &to))
            bl_text_append(out, to.data, to.len);
        else
            BL_TRY(put_mapped(e, step, cluster, out));
        BL_TRY(bl_token_fits(e, out->len));
    }
    return BL_OK;
}
