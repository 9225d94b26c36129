/* SPDX-License-Identifier: MIT */
/* CSV of RFC 4180, including quoted fields with line breaks and doubled quotes; lines may also end with LF alone. */
#include "proto/data.h"
#include "proto/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 65536, MAX_WORDS = 65536, FIELD_BYTES = 256 };

/* The distinct words of a column, sorted; the number of a word is its index. */
typedef struct bl_words {
    size_t n, cap;
    const char **word;
} bl_words;

/* ---- fields */

typedef struct reader {
    const char *at, *end;
    char text[FIELD_BYTES]; /* last field without quotes, truncated to this size */
    size_t line;            /* from 1 */
} reader;

static void csv_put(reader *r, size_t *n, char c)
{
    if (*n < FIELD_BYTES - 1)
        r->text[(*n)++] = c;
}

/* Reads the next field into r->text.  |*last|: the field ends its line.  False at the end of the text. */
static bool next_field(reader *r, bool first, bool *last)
{
    size_t n = 0;
    if (r->at >= r->end && first)
        return false;
    if (r->at < r->end && *r->at == '"') {
        for (r->at++; r->at < r->end; r->at++) {
            if (*r->at == '"' && (r->at + 1 == r->end || r->at[1] != '"'))
                break;
            r->at += *r->at == '"';
            csv_put(r, &n, *r->at);
        }
        r->at += r->at < r->end;
    }
    while (r->at < r->end && *r->at != ',' && *r->at != '\n')
        csv_put(r, &n, *r->at++);
    *last = r->at >= r->end || *r->at == '\n';
    r->line += *last;
    if (*last && n > 0 && r->text[n - 1] == '\r')
        n--;
    r->text[n] = '\0';
    r->at += r->at < r->end;
    return true;
}

/* ---- words */

/* The index of |text| among the words, or the insertion index of |text|. */
static size_t csv_place_of(const bl_words *words, const char *text)
{
    size_t low = 0, high = words->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(words->word[middle], text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bl_status grow_words(bl_arena *arena, bl_words *words, bl_err *err)
{
    size_t cap = words->cap * 2 + 16;
    const char **grown = bl_arena_array(arena, cap, sizeof *grown);
    if (grown == NULL)
        return bl_arena_status(arena, err);
    if (words->n > 0)
        memcpy(grown, words->word, words->n * sizeof *grown);
    words->word = grown;
    words->cap = cap;
    return BL_OK;
}

static bl_status add_word(bl_arena *arena, bl_words *words, const char *text, bl_err *err)
{
    size_t at = csv_place_of(words, text);
    if (at < words->n && strcmp(words->word[at], text) == 0)
        return BL_OK;
    if (words->n == MAX_WORDS)
        return bl_fail(err, BL_ELIMIT, "csv: a column of \"categories\" has more than %d different words", MAX_WORDS);
    if (words->n == words->cap)
        BL_TRY(grow_words(arena, words, err));
    text = bl_arena_strdup(arena, text);
    if (text == NULL)
        return bl_arena_status(arena, err);
    memmove(&words->word[at + 1], &words->word[at], (words->n - at) * sizeof *words->word);
    words->word[at] = text;
    words->n++;
    return BL_OK;
}

/* ---- fields and words of a file */

/* Reads the names of the first line; without a header, counts its fields and sets each name to NULL. */
static bl_status read_first(bl_arena *arena, reader *r, bool header, int *n, const char ***names, bl_err *err)
{
    const char *begin = r->at;
    bool last = false;
    *n = 0;
    for (bool first = true; !last && next_field(r, first, &last); first = false)
        if (++*n > MAX_FIELDS)
            return bl_fail(err, BL_ELIMIT, "csv: a line has more than %d fields", MAX_FIELDS);
    *names = bl_arena_array(arena, (size_t)*n + 1, sizeof **names);
    if (*names == NULL)
        return bl_arena_status(arena, err);
    if (*n == 0)
        return bl_fail(err, BL_EGRAPH, "csv: the file has no lines");
    r->at = begin;
    r->line = 1;
    last = false;
    for (int i = 0; header && i < *n && next_field(r, i == 0, &last); i++)
        if (((*names)[i] = bl_arena_strdup(arena, r->text)) == NULL)
            return bl_arena_status(arena, err);
    return BL_OK;
}

static bl_status csv_find_column(const char *name, int n, const char *const *names, int *out, bl_err *err)
{
    char *end = NULL;
    for (int i = 0; i < n; i++) {
        if (names[i] != NULL && strcmp(names[i], name) == 0) {
            *out = i;
            return BL_OK;
        }
    }
    *out = (int)strtol(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && *end == '\0' && *out < n)
        return BL_OK;
    return bl_fail(err, BL_EGRAPH, "csv: none of the %d columns is named \"%.64s\"", n, name);
}

static bl_status csv_choose_columns(bl_arena *arena, const bl_data_source *source, const char *const *names, bl_data *out,
                                    bl_err *err)
{
    int *columns = NULL;
    out->ncolumns = source->ncolumns >= 0 ? source->ncolumns : out->nfields;
    columns = bl_arena_array(arena, (size_t)out->ncolumns + 1, sizeof *columns);
    if (columns == NULL)
        return bl_arena_status(arena, err);
    for (int i = 0; i < out->ncolumns; i++) {
        columns[i] = i;
        if (source->ncolumns >= 0)
            BL_TRY(csv_find_column(source->columns[i], out->nfields, names, &columns[i], err));
    }
    out->columns = columns;
    return BL_OK;
}

/* Makes a word list for each column of "categories"; words[f] belongs to field f. */
static bl_status csv_make_words(bl_arena *arena, const bl_data_source *source, const char *const *names, const bl_data *data,
                                bl_words **words, bl_err *err)
{
    for (int i = 0; i < source->ncategories; i++) {
        int field = 0;
        BL_TRY(csv_find_column(source->categories[i], data->nfields, names, &field, err));
        words[field] = bl_arena_alloc(arena, sizeof **words);
        if (words[field] == NULL)
            return bl_arena_status(arena, err);
    }
    return BL_OK;
}

/* Counts the lines, checks that each has the same number of fields, and collects the words. */
static bl_status scan_lines(bl_arena *arena, const bl_data *data, reader *r, bl_words *const *words, int64_t *lines, bl_err *err)
{
    *lines = 0;
    for (;;) {
        bool last = false;
        int field = 0;
        size_t line = r->line;
        while (!last && next_field(r, field == 0, &last)) {
            if (field < data->nfields && words[field] != NULL)
                BL_TRY(add_word(arena, words[field], r->text, err));
            field++;
        }
        if (field == 0 || (field == 1 && r->text[0] == '\0' && data->nfields > 1 && r->at >= r->end))
            return BL_OK; /* the end, or an empty last line */
        if (field != data->nfields)
            return bl_fail(err, BL_EGRAPH, "csv: line %zu has %d fields, but the first line has %d", line, field, data->nfields);
        ++*lines;
    }
}

bl_status bl_csv_find(bl_arena *arena, const bl_data_source *source, bl_span bytes, bl_data *out, bl_err *err)
{
    reader r = {.at = bytes.data, .end = bytes.data + bytes.len, .line = 1};
    const char **names = NULL;
    bl_words **words = NULL;
    int64_t lines = 0;
    if (bytes.len >= 3 && memcmp(bytes.data, "\xef\xbb\xbf", 3) == 0)
        r.at += 3;
    out->dtype = source->dtype != BL_DTYPE_COUNT ? source->dtype : BL_F32;
    if (out->dtype == BL_BOOL)
        return bl_fail(err, BL_EGRAPH, "csv: columns hold numbers; dtype bool is not supported");
    BL_TRY(read_first(arena, &r, source->header, &out->nfields, &names, err));
    BL_TRY(csv_choose_columns(arena, source, names, out, err));
    words = bl_arena_array(arena, (size_t)out->nfields + 1, sizeof *words);
    if (words == NULL)
        return bl_arena_status(arena, err);
    BL_TRY(csv_make_words(arena, source, names, out, words, err));
    out->body = (bl_span){r.at, (size_t)(r.end - r.at)};
    out->line = r.line;
    BL_TRY(scan_lines(arena, out, &r, words, &lines, err));
    out->words = (const bl_words *const *)words;
    out->ndim = 2;
    out->dim[0] = lines;
    out->dim[1] = out->ncolumns;
    return BL_OK;
}

/* ---- elements */

static bool is_missing(const char *text)
{
    static const char *const words[] = {"", "NA", "N/A", "NaN", "nan", "null", "?"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

/* Parses a field as a number.  A float dtype rounds it; an integer dtype must represent it exactly. */
static bl_status csv_read_number(const char *text, bl_dtype dtype, bl_scalar *out, bl_err *err)
{
    bl_decimal d;
    const char *end = text + strlen(text);
    uint64_t magnitude = 0;
    text += strspn(text, " +");
    while (end > text && end[-1] == ' ')
        end--;
    if (bl_decimal_scan(text, end, &d) == end && end > text) {
        if (bl_dtype_is_float(dtype)) {
            *out = bl_scalar_fit(dtype, (bl_scalar){.f = bl_decimal_to_f64(&d)});
            return BL_OK;
        }
        if (bl_decimal_to_whole(&d, &magnitude) == BL_WHOLE_OK && magnitude <= INT64_MAX) {
            bl_scalar whole = {.i = d.negative ? -(int64_t)magnitude : (int64_t)magnitude};
            *out = bl_scalar_cast(dtype, BL_I64, whole);
            if (bl_scalar_cast(BL_I64, dtype, *out).i == whole.i)
                return BL_OK;
        }
        return bl_fail(err, BL_EGRAPH, "\"%.40s\" does not fit %s", text, bl_dtype_name(dtype));
    }
    if (is_missing(text) && bl_dtype_is_float(dtype)) {
        *out = (bl_scalar){.f = (double)NAN};
        return BL_OK;
    }
    return bl_fail(err, BL_EGRAPH, "\"%.40s\" is not a number", text);
}

/* Reads the wanted fields of one line into |values|, which is indexed by field. */
static bl_status csv_read_line(const bl_data *data, reader *r, const bool *wanted, bl_scalar *values, bl_err *err)
{
    bool last = false;
    for (int field = 0; field < data->nfields && next_field(r, field == 0, &last); field++) {
        bl_err why = {0};
        size_t line = r->line - last;
        if (!wanted[field])
            continue;
        if (data->words[field] != NULL)
            values[field] =
                bl_scalar_cast(data->dtype, BL_I64, (bl_scalar){.i = (int64_t)csv_place_of(data->words[field], r->text)});
        else if (csv_read_number(r->text, data->dtype, &values[field], &why) != BL_OK)
            return bl_fail(err, why.status, "csv: line %zu, column %d: %s", line, field, why.text);
    }
    return BL_OK;
}

bl_status bl_csv_read(const bl_data *data, void *out, bl_err *err)
{
    reader r = {.at = data->body.data, .end = data->body.data + data->body.len, .line = data->line};
    size_t size = bl_dtype_bytes(data->dtype);
    bl_scalar *values = calloc((size_t)data->nfields, sizeof *values);
    bool *wanted = calloc((size_t)data->nfields, sizeof *wanted);
    char *to = out;
    bl_status st = values != NULL && wanted != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a line of csv");
    for (int i = 0; st == BL_OK && i < data->ncolumns; i++)
        wanted[data->columns[i]] = true;
    for (int64_t line = 0; line < data->dim[0] && st == BL_OK; line++) {
        st = csv_read_line(data, &r, wanted, values, err);
        for (int i = 0; st == BL_OK && i < data->ncolumns; i++, to += size)
            bl_scalar_write(data->dtype, values[data->columns[i]], to);
    }
    free(values);
    free(wanted);
    return st;
}
