/* SPDX-License-Identifier: MIT */
#include "server/command/document.h"

#include "proto/encode.h"
#include "proto/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { PIECE = 1 << 20 };

/* ---- files */

bl_status bl_document_read_file(const char *path, bl_text *out, bl_err *err)
{
    bool input = strcmp(path, "-") == 0;
    int fd = input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC), got = 0;
    gzFile file = fd >= 0 ? gzdopen(fd, "rb") : NULL; /* gzread reads uncompressed files unchanged */
    if (file == NULL) {
        bl_status st = bl_fail(err, BL_ENOTFOUND, "%.300s cannot be opened: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return st;
    }
    for (char *to = NULL; (to = bl_text_reserve(out, PIECE)) != NULL && (got = gzread(file, to, PIECE)) > 0;)
        out->len += (size_t)got;
    bool bad = got < 0;
    gzclose(file);
    if (bad)
        return bl_fail(err, BL_ESTORAGE, "%.300s cannot be read", path);
    bl_text_append(out, "", 0);
    return bl_text_status(out, err);
}

static bl_status check_json(const bl_text *text, bl_json_kind *kind, bl_err *err)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_limits limits = {.depth = BL_JSON_DEPTH_MAX, .values = SIZE_MAX};
    bl_json_doc doc = {0};
    bl_status st = arena != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a document");
    if (st == BL_OK)
        st = bl_json_parse(&doc, arena, (bl_span){bl_text_get(text), text->len}, &limits, err);
    if (st == BL_OK)
        *kind = bl_json_root(&doc).kind;
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return st;
}

bl_status bl_document_read(const char *path, bl_text *out, bl_err *err)
{
    bl_json_kind kind = BL_JSON_NULL;
    bl_err wrong = {0};
    BL_TRY(bl_document_read_file(path, out, err));
    if (check_json(out, &kind, &wrong) != BL_OK)
        return bl_fail(err, wrong.status, "%.200s: %s", path, wrong.text);
    return kind == BL_JSON_OBJECT ? BL_OK : bl_fail(err, BL_EINVAL, "%.200s must hold a JSON object", path);
}

bool bl_document_is_json(const char *text)
{
    bl_text borrowed = {.data = (char *)(uintptr_t)text, .len = strlen(text)};
    bl_json_kind kind = BL_JSON_NULL;
    bl_err err = {0};
    return check_json(&borrowed, &kind, &err) == BL_OK;
}

/* ---- members; the text must be valid JSON */

static const char *document_skip_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

static const char *skip_string(const char *p)
{
    for (p++; *p != '"'; p++)
        p += *p == '\\';
    return p + 1;
}

static const char *skip_value(const char *p)
{
    int depth = 0;
    if (*p != '"' && *p != '{' && *p != '[')
        return p + strcspn(p, ",]} \t\r\n");
    do {
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p++;
    } while (depth > 0);
    return p;
}

/* The place of a member in the text, from its name to the end of its value. */
typedef struct member_place {
    const char *name, *value, *end;
    bool first;
} member_place;

static bool document_find_member(const char *object, const char *name, member_place *out)
{
    size_t len = strlen(name);
    const char *p = document_skip_space(document_skip_space(object) + 1);
    for (bool first = true; *p == '"'; first = false) {
        *out = (member_place){.name = p, .first = first};
        p = skip_string(p);
        bool same = (size_t)(p - out->name) == len + 2 && memcmp(out->name + 1, name, len) == 0;
        out->value = document_skip_space(document_skip_space(p) + 1);
        out->end = p = skip_value(out->value);
        if (same)
            return true;
        p = document_skip_space(p);
        if (*p == ',')
            p = document_skip_space(p + 1);
    }
    return false;
}

static void put_member(bl_text *out, const char *name, const char *value, bool more)
{
    bl_encode_string(out, name);
    bl_text_printf(out, ": %s%s", value, more ? ", " : "");
}

void bl_document_set(bl_text *document, const char *in, const char *name, const char *value)
{
    const char *text = bl_text_get(document), *object = text, *end = text + document->len;
    bl_text out = {0};
    member_place place;
    if (in != NULL && !document_find_member(text, in, &place)) {
        if (value == NULL)
            return;
        bl_document_set(document, NULL, in, "{}");
        bl_document_set(document, in, name, value);
        return;
    }
    if (in != NULL)
        object = place.value;
    if (*document_skip_space(object) != '{') /* the server reports the error */
        return;
    if (!document_find_member(object, name, &place)) {
        const char *open = document_skip_space(object) + 1;
        bl_text_append(&out, text, (size_t)(open - text));
        if (value != NULL)
            put_member(&out, name, value, *document_skip_space(open) != '}');
        bl_text_append(&out, open, (size_t)(end - open));
    } else if (value != NULL) {
        bl_text_append(&out, text, (size_t)(place.value - text));
        bl_text_puts(&out, value);
        bl_text_append(&out, place.end, (size_t)(end - place.end));
    } else { /* remove the comma after the member, or else the comma before it */
        const char *from = place.name, *to = document_skip_space(place.end);
        if (*to == ',')
            to++;
        else
            for (; !place.first && *from != ',';)
                from--;
        bl_text_append(&out, text, (size_t)(from - text));
        bl_text_append(&out, to, (size_t)(end - to));
    }
    out.failed = out.failed || document->failed;
    bl_text_fini(document);
    *document = out;
}

void bl_document_set_string(bl_text *document, const char *name, const char *value)
{
    bl_text quoted = {0};
    bl_encode_string(&quoted, value);
    bl_document_set(document, NULL, name, bl_text_get(&quoted));
    document->failed = document->failed || quoted.failed;
    bl_text_fini(&quoted);
}
