/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "proto/json.h"
#include "proto/json_names.h"
#include "proto/number.h"
#include "proto/utf8.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONG_STRING = 256, /* strings of this length or more stay in the body if they have no escapes */
    NAME_SHOWN = 100   /* bytes of a name in an error message */
};

/* A level of the stack of open arrays and objects. */
typedef struct scan_level {
    const char *no_list; /* an array at this position is known to be no list */
    bl_span member;      /* object: name of the current member, without escapes */
    size_t index;        /* array: index of the current element */
    uint32_t object;     /* number of the object */
    char closer;         /* its closing bracket */
} scan_level;

typedef struct scan {
    bl_json_doc *doc;
    const char *p, *end;
    bl_text out; /* reduced text for cJSON */
    size_t values, max_values;
    uint32_t objects;    /* number of objects so far */
    bl_json_names names; /* names of all members */
    int depth, max_depth;
    bl_err *err;
    scan_level level[]; /* max_depth + 1 items */
} scan;

void bl_json_where(const bl_json_doc *doc, const char *at, char *out, size_t size)
{
    size_t line = 1, offset = (size_t)(at - doc->body.data);
    const char *start = doc->body.data;

    for (const char *p = start; (p = memchr(p, '\n', (size_t)(at - p))) != NULL; start = ++p)
        line++;
    (void)snprintf(out, size, "line %zu, column %zu (byte %zu)", line, (size_t)(at - start) + 1, offset);
}

static bl_status json_scan_fail_at(scan *s, const char *at, const char *rule)
{
    char where[96];

    bl_json_where(s->doc, at, where, sizeof where);
    return bl_fail(s->err, BL_EINVAL, "JSON, %s: %s", where, rule);
}

static inline const char *json_scan_skip_space(const char *p, const char *end)
{
    while (p != end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* The value of the four hexadecimal digits at |p|, or -1. */
static int hex4(const char *p, const char *end)
{
    int value = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Scans the escape at s->p and advances s->p past it. */
static bl_status scan_escape(scan *s)
{
    const char *at = s->p;

    if (s->end - at < 2)
        return json_scan_fail_at(s, at, "the string is not closed");
    if (at[1] != 'u') {
        if (strchr("\"\\/bfnrt", at[1]) == NULL || at[1] == '\0')
            return json_scan_fail_at(s, at, "unknown escape in a string");
        s->p += 2;
        return BL_OK;
    }
    int code = hex4(at + 2, s->end);
    if (code < 0)
        return json_scan_fail_at(s, at, "\\u must be followed by four hexadecimal digits");
    if (code == 0)
        return json_scan_fail_at(s, at, "\\u0000 is not allowed in strings");
    s->p += 6;
    if (code >= 0xd800 && code < 0xe000) {
        bool pair = code < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u';
        int low = pair ? hex4(s->p + 2, s->end) : -1;
        if (low < 0xdc00 || low >= 0xe000)
            return json_scan_fail_at(s, at, "the other half of a surrogate pair is missing");
        s->p += 6;
    }
    return BL_OK;
}

/* Scans the string at s->p and advances s->p past the closing quote.  |*plain|: it has no escapes. */
static bl_status scan_string(scan *s, bool *plain)
{
    const char *open = s->p++;

    *plain = true;
    while (s->p != s->end) {
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            s->p++;
            return BL_OK;
        }
        if (c == '\\') {
            *plain = false;
            BL_TRY(scan_escape(s));
        } else if (c < 0x20) {
            return json_scan_fail_at(s, s->p, "control bytes in a string must be escaped");
        } else if (c < 0x80) {
            s->p++;
        } else {
            size_t n = bl_utf8_length(s->p, (size_t)(s->end - s->p));
            if (n == 0)
                return json_scan_fail_at(s, s->p, "the text is not valid UTF-8");
            s->p += n;
        }
    }
    return json_scan_fail_at(s, open, "the string is not closed");
}

/* Writes the placeholder of a part of the body, or of a list. */
static void put_place(scan *s, char kind, size_t number, size_t len)
{
    char text[2 * BL_NUMBER_CHARS] = {'"', '\xff', kind};
    size_t n = 3;

    n += bl_print_u64(text + n, number);
    text[n++] = ':';
    n += bl_print_u64(text + n, len);
    text[n++] = '"';
    bl_text_append(&s->out, text, n);
}

static bl_status string_value(scan *s)
{
    const char *open = s->p;
    bool plain;

    BL_TRY(scan_string(s, &plain));
    size_t len = (size_t)(s->p - open);
    if (plain && len > LONG_STRING)
        put_place(s, 's', (size_t)(open + 1 - s->doc->body.data), len - 2);
    else
        bl_text_append(&s->out, open, len);
    return BL_OK;
}

static bool json_scan_begins_with(const scan *s, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(s->end - s->p) >= n && memcmp(s->p, word, n) == 0;
}

/* Some Python and JavaScript libraries write these numbers without quotes. */
static bl_status no_finite_number(scan *s)
{
    return json_scan_fail_at(s, s->p, "JSON has no such number; write \"NaN\", \"Infinity\" or \"-Infinity\" in quotes");
}

static bl_status number_value(scan *s)
{
    const char *open = s->p, *end = bl_number_skip(open, s->end);

    if (end == NULL && json_scan_begins_with(s, "-Infinity"))
        return no_finite_number(s);
    if (end == NULL)
        return json_scan_fail_at(s, open, "not a number of JSON");
    put_place(s, 'n', (size_t)(open - s->doc->body.data), (size_t)(end - open));
    s->p = end;
    return BL_OK;
}

static bl_status word_value(scan *s)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < 3; i++) {
        if (json_scan_begins_with(s, words[i])) {
            bl_text_append(&s->out, s->p, strlen(words[i]));
            s->p += strlen(words[i]);
            return BL_OK;
        }
    }
    if (json_scan_begins_with(s, "NaN") || json_scan_begins_with(s, "Infinity"))
        return no_finite_number(s);
    return json_scan_fail_at(s, s->p, "expected a value");
}

/* ---- lists */

typedef struct measure {
    const char *p, *end;
    bl_list *list;
    int depth, deepest;
    bool leaf; /* a scalar was found, so the depth of the list is known */
    const char **open;
    int64_t count[BL_JSON_DEPTH_MAX],
        first[BL_JSON_DEPTH_MAX]; /* number of elements of the open array, and of the first closed array (-1: none), per level */
} measure;

/* The byte after the scalar at |p|; NULL if it is no scalar that a list may hold. */
static const char *list_scalar(const char *p, const char *end, unsigned *holds)
{
    static const struct {
        const char *text;
        size_t len;
        unsigned holds;
    } words[] = {{"true", 4, BL_LIST_BOOLS},
                 {"false", 5, BL_LIST_BOOLS},
                 {"\"NaN\"", 5, BL_LIST_STRINGS},
                 {"\"Infinity\"", 10, BL_LIST_STRINGS},
                 {"\"-Infinity\"", 11, BL_LIST_STRINGS}};

    if (p != end && (*p == '-' || (*p >= '0' && *p <= '9'))) {
        *holds |= BL_LIST_NUMBERS;
        return bl_number_skip(p, end);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if ((size_t)(end - p) >= words[i].len && memcmp(p, words[i].text, words[i].len) == 0) {
            *holds |= words[i].holds;
            return p + words[i].len;
        }
    }
    return NULL;
}

static void note_ragged(measure *m, const char *at)
{
    if (m->list->ragged == NULL)
        m->list->ragged = at;
}

static bool open_bracket(measure *m, int max_depth)
{
    if (m->depth == max_depth)
        return false;
    m->open[m->depth] = m->p;
    m->count[m->depth] = 0;
    if (m->depth == m->deepest) {
        /* a level below the scalars, or below arrays that were closed without scalars */
        if (m->leaf || (m->deepest > 0 && m->first[m->deepest - 1] >= 0))
            note_ragged(m, m->p);
        m->first[m->deepest++] = -1;
    }
    m->depth++;
    m->p = json_scan_skip_space(m->p + 1, m->end);
    return true;
}

static void close_bracket(measure *m)
{
    int level = --m->depth;

    if (m->first[level] < 0)
        m->first[level] = m->count[level];
    else if (m->first[level] != m->count[level])
        note_ragged(m, m->p);
    m->p++;
}

/* Skips commas and closing brackets after a value, up to the next value.  False if the text is malformed; sets |*done| at the end
 * of the list. */
static bool next_value(measure *m, bool *done)
{
    for (;;) {
        if (m->depth == 0) {
            *done = true;
            return true;
        }
        m->count[m->depth - 1]++;
        if (m->p != m->end && *m->p != ',' && *m->p != ']')
            m->p = json_scan_skip_space(m->p, m->end);
        if (m->p == m->end)
            return false;
        if (*m->p == ',') {
            m->p++;
            if (m->p != m->end && (unsigned char)*m->p <= ' ')
                m->p = json_scan_skip_space(m->p, m->end);
            return true;
        }
        if (*m->p != ']')
            return false;
        close_bracket(m);
    }
}

static bool measure_all(measure *m, int max_depth)
{
    bool done = false;

    while (!done) {
        if (m->p == m->end)
            return false;
        if (*m->p == '[') {
            if (!open_bracket(m, max_depth))
                return false;
            if (m->p == m->end)
                return false;
            if (*m->p != ']')
                continue;
            close_bracket(m);
        } else {
            const char *at = m->p;
            m->p = list_scalar(at, m->end, &m->list->holds);
            if (m->p == NULL) {
                m->p = at;
                return false;
            }
            if (m->depth != m->deepest)
                note_ragged(m, at);
            m->leaf = true;
            m->list->count++;
        }
        if (!next_value(m, &done))
            return false;
    }
    return true;
}

const char *bl_list_measure(const char *p, const char *end, int depth, bl_list *out, const char **open, int *nopen)
{
    measure m = {.p = p, .end = end, .list = out, .open = open};

    memset(out, 0, sizeof *out);
    bool fine = measure_all(&m, depth < BL_JSON_DEPTH_MAX ? depth : BL_JSON_DEPTH_MAX);
    *nopen = m.depth;
    if (!fine)
        return NULL;
    out->text = (bl_span){p, (size_t)(m.p - p)};
    out->depth = m.deepest;
    for (int i = 0; i < m.deepest && i < BL_LIST_DIMS; i++)
        out->dim[i] = m.first[i];
    return m.p;
}

static bl_status add_list(scan *s, const bl_list *list)
{
    bl_json_doc *doc = s->doc;

    if (doc->nlists == doc->lists_cap) {
        size_t cap = doc->lists_cap == 0 ? 16 : doc->lists_cap * 2;
        bl_list *lists = bl_realloc(doc->lists, cap * sizeof *lists);
        if (lists == NULL)
            return bl_fail(s->err, BL_ENOMEM, "out of host memory for the lists of a JSON document");
        doc->lists = lists;
        doc->lists_cap = cap;
    }
    put_place(s, 'l', doc->nlists, 0);
    doc->lists[doc->nlists++] = *list;
    s->p += list->text.len;
    return BL_OK;
}

/* Whether the array at s->p is a list.  If not, records that the arrays around the offending element are no lists, so that each
 * byte is measured at most twice at any depth. */
static bool try_list(scan *s, bl_list *list)
{
    const char *open[BL_JSON_DEPTH_MAX];
    int nopen = 0;

    if (s->level[s->depth].no_list == s->p)
        return false;
    if (bl_list_measure(s->p, s->end, s->max_depth - s->depth, list, open, &nopen) != NULL)
        return true;
    for (int i = 0; i < nopen; i++)
        s->level[s->depth + i].no_list = open[i];
    return false;
}

/* ---- the scan of the whole text */

static bl_status open_container(scan *s, char closer)
{
    if (s->depth == s->max_depth)
        return bl_fail(s->err, BL_EINVAL, "JSON: arrays and objects are nested deeper than %d", s->max_depth);
    scan_level *opened = &s->level[s->depth++];
    opened->closer = closer;
    opened->index = 0;
    opened->member = (bl_span){NULL, 0};
    opened->object = s->objects++;
    bl_text_putc(&s->out, *s->p++);
    s->p = json_scan_skip_space(s->p, s->end);
    return BL_OK;
}

static void close_container(scan *s)
{
    bl_text_putc(&s->out, *s->p++);
    s->depth--;
}

/* Prints the path of the current object: "inputs: ", "nodes[3].attrs: ". */
static void json_scan_print_place(const scan *s, bl_text *out)
{
    for (int i = 0; i + 1 < s->depth; i++) {
        const scan_level *at = &s->level[i];
        if (at->closer == ']')
            bl_text_printf(out, "[%zu]", at->index);
        else
            bl_text_printf(out, "%s%.*s", i == 0 ? "" : ".", (int)(at->member.len < NAME_SHOWN ? at->member.len : NAME_SHOWN),
                           at->member.data);
    }
    bl_text_puts(out, s->depth > 1 ? ": " : "");
}

/* Gives the name between |open| and |close|; cJSON resolves its escapes. */
static bl_status read_name(scan *s, const char *open, const char *close, bool plain, bl_span *out)
{
    cJSON *item = NULL;

    *out = (bl_span){open + 1, (size_t)(close - open) - 2};
    if (plain)
        return BL_OK;
    item = cJSON_ParseWithLength(open, (size_t)(close - open));
    out->data = item != NULL ? bl_arena_strdup(s->doc->arena, item->valuestring) : NULL;
    cJSON_Delete(item);
    if (out->data == NULL)
        return bl_fail(s->err, BL_ENOMEM, "out of host memory for the name of a member");
    out->len = strlen(out->data);
    return BL_OK;
}

static bl_status json_scan_check_name(scan *s, bl_span name)
{
    scan_level *object = &s->level[s->depth - 1];
    bl_text place = {0};
    bool twice = false;

    BL_TRY(bl_json_names_add(&s->names, object->object, name, &twice, s->err));
    object->member = name;
    if (!twice)
        return BL_OK;
    json_scan_print_place(s, &place);
    (void)bl_fail(s->err, BL_EINVAL, "%sthe member \"%.*s\" is given twice", bl_text_get(&place),
                  (int)(name.len < NAME_SHOWN ? name.len : NAME_SHOWN), name.data);
    bl_text_fini(&place);
    return s->err->status;
}

static bl_status member_name(scan *s)
{
    const char *open = s->p;
    bl_span name;
    bool plain;

    if (s->p == s->end || *s->p != '"')
        return json_scan_fail_at(s, s->p, "expected the name of a member, in quotes");
    BL_TRY(scan_string(s, &plain));
    BL_TRY(read_name(s, open, s->p, plain, &name));
    BL_TRY(json_scan_check_name(s, name));
    bl_text_append(&s->out, open, (size_t)(s->p - open));
    s->p = json_scan_skip_space(s->p, s->end);
    if (s->p == s->end || *s->p != ':')
        return json_scan_fail_at(s, s->p, "expected a colon after the name of a member");
    bl_text_putc(&s->out, ':');
    s->p = json_scan_skip_space(s->p + 1, s->end);
    return BL_OK;
}

/* Scans the value at s->p.  |*inside|: it opened a container that is not empty, and s->p is at its first value. */
static bl_status scan_value(scan *s, bool *inside)
{
    *inside = false;
    if (s->p == s->end)
        return json_scan_fail_at(s, s->p, "the document ends where a value is expected");
    if (++s->values > s->max_values)
        return bl_fail(s->err, BL_ELIMIT, "JSON: more than %zu values in one document", s->max_values);
    switch (*s->p) {
    case '"':
        return string_value(s);
    case '[':
    case '{': {
        bool array = *s->p == '[';
        bl_list list;
        if (array && s->depth < s->max_depth && try_list(s, &list))
            return add_list(s, &list);
        BL_TRY(open_container(s, array ? ']' : '}'));
        if (s->p != s->end && *s->p == s->level[s->depth - 1].closer) {
            close_container(s);
            return BL_OK;
        }
        *inside = true;
        return array ? BL_OK : member_name(s);
    }
    default:
        return *s->p == '-' || (*s->p >= '0' && *s->p <= '9') ? number_value(s) : word_value(s);
    }
}

/* After a value: closes the containers that end here and advances to the next value.  Sets |*done| after the last. */
static bl_status scan_after(scan *s, bool *done)
{
    for (;;) {
        s->p = json_scan_skip_space(s->p, s->end);
        *done = s->depth == 0;
        if (*done)
            return s->p == s->end ? BL_OK : json_scan_fail_at(s, s->p, "there is text after the document");
        char closer = s->level[s->depth - 1].closer;
        if (s->p == s->end)
            return json_scan_fail_at(s, s->p, closer == ']' ? "an array is not closed" : "an object is not closed");
        if (*s->p == ',') {
            bl_text_putc(&s->out, ',');
            s->p = json_scan_skip_space(s->p + 1, s->end);
            s->level[s->depth - 1].index++;
            return closer == '}' ? member_name(s) : BL_OK;
        }
        if (*s->p != closer)
            return json_scan_fail_at(s, s->p, closer == ']' ? "expected a comma or ]" : "expected a comma or }");
        close_container(s);
    }
}

static bl_status scan_document(scan *s)
{
    bool inside = false, done = false;

    if (s->end - s->p >= 3 && memcmp(s->p, "\xef\xbb\xbf", 3) == 0)
        return json_scan_fail_at(s, s->p, "a byte order mark is not allowed");
    s->p = json_scan_skip_space(s->p, s->end);
    while (!done) {
        BL_TRY(scan_value(s, &inside));
        if (!inside)
            BL_TRY(scan_after(s, &done));
    }
    return bl_text_status(&s->out, s->err);
}

bl_status bl_json_parse(bl_json_doc *doc, bl_arena *arena, bl_span body, const bl_json_limits *limits, bl_err *err)
{
    int depth = limits == NULL || limits->depth <= 0 ? BL_JSON_DEPTH : limits->depth;
    int max_depth = depth < BL_JSON_DEPTH_MAX ? depth : BL_JSON_DEPTH_MAX;
    scan *s = bl_calloc(1, sizeof *s + ((size_t)max_depth + 1) * sizeof *s->level);
    bl_status st;

    *doc = (bl_json_doc){.arena = arena, .body = body};
    if (s == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for reading JSON");
    s->doc = doc;
    s->p = body.data;
    s->end = body.data + body.len;
    s->max_depth = max_depth;
    s->max_values = limits == NULL || limits->values == 0 ? BL_JSON_VALUES : limits->values;
    s->err = err;
    st = scan_document(s);
    if (st == BL_OK) {
        /* the text is valid, so a failure means that memory ran out */
        doc->root = cJSON_ParseWithLengthOpts(s->out.data, s->out.len + 1, NULL, 1);
        if (doc->root == NULL)
            st = bl_fail(err, BL_ENOMEM, "out of host memory for the tree of a JSON document");
    }
    bl_json_names_fini(&s->names);
    bl_text_fini(&s->out);
    free(s);
    return st;
}

void bl_json_fini(bl_json_doc *doc)
{
    if (doc == NULL)
        return;
    cJSON_Delete(doc->root);
    free(doc->lists);
    doc->root = NULL;
    doc->lists = NULL;
}
