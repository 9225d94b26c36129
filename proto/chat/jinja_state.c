/* SPDX-License-Identifier: MIT */
/* The state of a rendering: limits, failure, growing texts in its arena, and scopes. */
#include "proto/chat/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_NESTED = 800, /* nested calls of the functions that execute, print and compare; a stack frame is below 1 KiB */
    LONG_JOINED = 256  /* bytes of a string; shorter ones are simply copied */
};

/* ---- limits and failures */

bl_jinja_value bl_jinja_fail(bl_jinja_run *run, bl_status status, const char *fmt, ...)
{
    char text[500];
    va_list args;
    if (!run->failed) {
        va_start(args, fmt);
        (void)vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
        (void)bl_fail(run->err, status, "chat template, line %d: %s", run->line, text);
    }
    run->failed = true;
    return bl_jinja_undefined(BL_JINJA_MESSAGE, (bl_span){"", 0});
}

bool bl_jinja_work(bl_jinja_run *run, size_t bytes)
{
    run->steps += 1 + bytes / 256;
    if (run->steps > run->most_steps)
        (void)bl_jinja_fail(run, BL_ELIMIT, "the template takes more than %llu steps", (unsigned long long)run->most_steps);
    return !run->failed;
}

void *bl_jinja_alloc(bl_jinja_run *run, size_t count, size_t size)
{
    if (run->failed || !bl_jinja_work(run, size == 0 || count < SIZE_MAX / size ? count * size : SIZE_MAX))
        return NULL;
    void *at = bl_arena_array(run->arena, count, size);
    if (at == NULL) {
        bl_err why = {0};
        bl_status status = bl_arena_status(run->arena, &why);
        if (status == BL_ENOMEM)
            (void)bl_jinja_fail(run, BL_ENOMEM, "out of memory");
        else
            (void)bl_jinja_fail(run, BL_ELIMIT, "the template's values take too much memory");
    }
    return at;
}

bool bl_jinja_enter(bl_jinja_run *run)
{
    if (++run->depth > MOST_NESTED)
        (void)bl_jinja_fail(run, BL_ELIMIT, "calls or values nest too deeply");
    return bl_jinja_work(run, 0);
}

void bl_jinja_leave(bl_jinja_run *run)
{
    run->depth--;
}

/* ---- growing texts */

void bl_jinja_put(bl_jinja_run *run, bl_jinja_buffer *buffer, const char *data, size_t len)
{
    if (len == 0 || run->failed || (len > 256 && !bl_jinja_work(run, len)))
        return;
    if (buffer->text != NULL) {
        if (buffer->text->len + len > run->most_output)
            (void)bl_jinja_fail(run, BL_ELIMIT, "the text is too long");
        else
            bl_text_append(buffer->text, data, len);
        return;
    }
    if (len > buffer->cap - buffer->len) {
        size_t cap = buffer->cap == 0 ? len : 2 * (buffer->len + len);
        char *more = bl_jinja_alloc(run, cap < 32 ? 32 : cap, 1);
        if (more == NULL)
            return;
        if (buffer->len > 0)
            memcpy(more, buffer->data, buffer->len);
        buffer->data = more;
        buffer->cap = cap < 32 ? 32 : cap;
    }
    memcpy(buffer->data + buffer->len, data, len);
    buffer->len += len;
}

void bl_jinja_puts(bl_jinja_run *run, bl_jinja_buffer *buffer, const char *text)
{
    bl_jinja_put(run, buffer, text, strlen(text));
}

void bl_jinja_put_span(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_span text)
{
    bl_jinja_put(run, buffer, text.data, text.len);
}

bl_jinja_value bl_jinja_take(bl_jinja_buffer *buffer)
{
    return bl_jinja_string((bl_span){buffer->data, buffer->len});
}

/* Removes the tail from the list, since a string can be continued only once. */
bl_jinja_buffer bl_jinja_continue(bl_jinja_run *run, bl_span text)
{
    bl_jinja_buffer buffer = {0};
    for (int i = 0; i < BL_JINJA_TAILS; i++) {
        if (run->tail[i].data != NULL && run->tail[i].data == text.data && run->tail[i].len == text.len) {
            buffer = run->tail[i];
            run->tail[i] = (bl_jinja_buffer){0};
            return buffer;
        }
    }
    bl_jinja_put_span(run, &buffer, text);
    return buffer;
}

bl_jinja_value bl_jinja_take_joined(bl_jinja_run *run, bl_jinja_buffer *buffer)
{
    if (buffer->len >= LONG_JOINED) {
        run->tail[run->next_tail] = *buffer;
        run->next_tail = (run->next_tail + 1) % BL_JINJA_TAILS;
    }
    return bl_jinja_take(buffer);
}

/* ---- scopes */

bl_jinja_scope *bl_jinja_scope_open(bl_jinja_run *run, bl_jinja_scope *parent)
{
    bl_jinja_scope *scope = bl_jinja_alloc(run, 1, sizeof *scope);
    if (scope != NULL)
        scope->parent = parent;
    return scope;
}

/* Frees the scope's variables for reuse, unless a macro was defined in it. */
void bl_jinja_scope_close(bl_jinja_run *run, bl_jinja_scope *scope)
{
    while (scope != NULL && !scope->kept && scope->first != NULL) {
        bl_jinja_variable *variable = scope->first;
        scope->first = variable->next;
        variable->next = run->spare;
        run->spare = variable;
    }
}

void bl_jinja_scope_keep(bl_jinja_scope *scope)
{
    for (; scope != NULL && !scope->kept; scope = scope->parent)
        scope->kept = true;
}

void bl_jinja_bind(bl_jinja_run *run, bl_jinja_scope *scope, bl_span name, bl_jinja_value value)
{
    bl_jinja_variable *variable = scope->first;
    while (variable != NULL && !bl_span_eq(variable->name, name))
        variable = variable->next;
    if (variable == NULL) {
        variable = run->spare;
        if (variable != NULL)
            run->spare = variable->next;
        else
            variable = bl_jinja_alloc(run, 1, sizeof *variable);
        if (variable == NULL)
            return;
        *variable = (bl_jinja_variable){.next = scope->first, .name = name};
        scope->first = variable;
    }
    variable->value = value;
}

bl_jinja_value bl_jinja_look_up(bl_jinja_run *run, bl_span name, const bl_jinja_scope *scope)
{
    size_t passed = 0;
    for (; scope != NULL; scope = scope->parent) {
        for (const bl_jinja_variable *v = scope->first; v != NULL; v = v->next) {
            if (bl_span_eq(v->name, name))
                return v->value;
            if (++passed % 64 == 0 && !bl_jinja_work(run, 0))
                return bl_jinja_none();
        }
    }
    const bl_jinja_function *global = bl_jinja_find_global(name);
    return global != NULL ? (bl_jinja_value){.kind = BL_JINJA_FUNCTION, .as.function = global}
                          : bl_jinja_undefined(BL_JINJA_NO_NAME, name);
}
