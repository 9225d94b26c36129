/* SPDX-License-Identifier: MIT */
#include "server/command/events.h"

#include <string.h>

/* Read a field line: |name|, a colon, and the value without one leading blank. */
static bool read_field(const char *line, size_t len, const char *name, bl_span *out)
{
    size_t size = strlen(name);
    if (len <= size || memcmp(line, name, size) != 0 || line[size] != ':')
        return false;
    size += size + 1 < len && line[size + 1] == ' ' ? 2 : 1;
    *out = (bl_span){line + size, len - size};
    return true;
}

/* Process a line; an empty line ends an event. */
static bool take_line(bl_events *e, const char *line, size_t len)
{
    bl_span field;
    bool goes_on = true;
    if (len > 0 && line[len - 1] == '\r')
        len--;
    if (len == 0) {
        if (e->data.len > 0)
            goes_on = e->event(e->arg, bl_text_get(&e->name), bl_text_get(&e->id), bl_text_get(&e->data), e->data.len);
        bl_text_clear(&e->name);
        bl_text_clear(&e->id);
        bl_text_clear(&e->data);
    } else if (read_field(line, len, "data", &field)) {
        bl_text_puts(&e->data, e->data.len > 0 ? "\n" : "");
        bl_text_append(&e->data, field.data, field.len);
    } else if (read_field(line, len, "event", &field)) {
        bl_text_append(&e->name, field.data, field.len);
    } else if (read_field(line, len, "id", &field)) {
        bl_text_append(&e->id, field.data, field.len);
    }
    return goes_on;
}

bool bl_events_take(void *events, const char *data, size_t len)
{
    bl_events *e = events;
    size_t from = 0;
    bool goes_on = true;
    bl_text_append(&e->unread, data, len);
    for (const char *end = NULL; goes_on && (end = memchr(bl_text_get(&e->unread) + from, '\n', e->unread.len - from)) != NULL;) {
        const char *line = e->unread.data + from;
        goes_on = take_line(e, line, (size_t)(end - line));
        from += (size_t)(end - line) + 1;
    }
    if (from > 0) {
        memmove(e->unread.data, e->unread.data + from, e->unread.len - from + 1);
        e->unread.len -= from;
    }
    return goes_on && !e->unread.failed && !e->data.failed;
}

void bl_events_fini(bl_events *e)
{
    bl_text_fini(&e->unread);
    bl_text_fini(&e->name);
    bl_text_fini(&e->id);
    bl_text_fini(&e->data);
}
