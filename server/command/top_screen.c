/* SPDX-License-Identifier: MIT */
/* `beamline top`: who uses which device, asked again and again. */
#include "server/command/command.h"

#include "proto/json.h"
#include "server/command/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ROWS = 1024 };

typedef struct figure {
    char device[32], key[128];
    double seconds;
} figure;

typedef struct screen {
    double clock; /* of the answer before; 0: there was none */
    int count;
    figure before[MOST_ROWS];
    bl_text out;
} screen;

static bl_status need_number(const bl_json *object, const char *name, double *out, bl_err *err)
{
    bl_json at;
    bl_wire_number number = {0};
    BL_TRY(bl_json_need(object, name, &at, err));
    BL_TRY(bl_json_number(&at, &number, err));
    *out = number.value;
    return BL_OK;
}

static bl_status need_text(const bl_json *object, const char *name, const char **out, bl_err *err)
{
    bl_json at;
    BL_TRY(bl_json_need(object, name, &at, err));
    return bl_json_string(&at, out, err);
}

/* What the row had at the answer before, and from now on has. */
static double exchange(screen *s, const char *device, const char *key, double seconds)
{
    double before = 0;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->before[i].device, device) == 0 && strcmp(s->before[i].key, key) == 0) {
            before = s->before[i].seconds;
            s->before[i].seconds = seconds;
            return before;
        }
    if (s->count < MOST_ROWS) {
        figure *f = &s->before[s->count++];
        snprintf(f->device, sizeof f->device, "%s", device);
        snprintf(f->key, sizeof f->key, "%s", key);
        f->seconds = seconds;
    }
    return 0;
}

/* "    job 4f2a of line, model m (3)" */
static bl_status show_work(screen *s, const bl_json *row, bl_err *err)
{
    bl_json list, one;
    int shown = 0;
    if (!bl_json_find(row, "work", &list)) /* of an older server */
        return BL_OK;
    for (bl_json_iter each = bl_json_each(&list); bl_json_next(&each, &one);) {
        const char *what = "";
        double requests = 0;
        BL_TRY(need_text(&one, "for", &what, err));
        BL_TRY(need_number(&one, "requests", &requests, err));
        bl_text_puts(&s->out, shown++ > 0 ? ", " : "    ");
        bl_text_puts(&s->out, what);
        if (requests > 1)
            bl_text_printf(&s->out, " (%.0f)", requests);
    }
    bl_text_puts(&s->out, shown > 0 ? "\n" : "");
    return BL_OK;
}

static bl_status show_key(screen *s, const char *device, const bl_json *row, double passed, bl_err *err)
{
    const char *key = "";
    double requests = 0, seconds = 0, held = 0, before = 0;
    BL_TRY(need_text(row, "key", &key, err));
    BL_TRY(need_number(row, "requests", &requests, err));
    BL_TRY(need_number(row, "device_seconds", &seconds, err));
    BL_TRY(need_number(row, "held_bytes", &held, err));
    before = exchange(s, device, key, seconds);
    bl_text_printf(&s->out, "  %-20s ", *key != '\0' ? key : "(no key)");
    if (passed > 0)
        bl_text_printf(&s->out, "%6.1f%%", 100 * (seconds - before) / passed);
    else
        bl_text_puts(&s->out, "      -");
    bl_text_printf(&s->out, " %12.3f s %8.0f %10.1f MB\n", seconds, requests, held / 1e6);
    return show_work(s, row, err);
}

static bl_status show(screen *s, const bl_json *root, bl_err *err)
{
    bl_json devices, device, keys, row;
    double clock = 0, passed = 0;
    BL_TRY(need_number(root, "seconds", &clock, err));
    passed = s->clock > 0 ? clock - s->clock : 0;
    s->clock = clock;
    BL_TRY(bl_json_need(root, "devices", &devices, err));
    bl_text_puts(&s->out, "  key                     busy       since start requests         held\n");
    for (bl_json_iter each = bl_json_each(&devices); bl_json_next(&each, &device);) {
        const char *id = "";
        double queue = 0, used = 0, moved = 0;
        BL_TRY(need_text(&device, "id", &id, err));
        BL_TRY(need_number(&device, "queue", &queue, err));
        BL_TRY(need_number(&device, "memory_used", &used, err));
        BL_TRY(need_number(&device, "memory_moved", &moved, err));
        BL_TRY(bl_json_need(&device, "keys", &keys, err));
        bl_text_printf(&s->out, "%s: %.0f in the queue, %.1f MB", id, queue, used / 1e6);
        if (moved > 0)
            bl_text_printf(&s->out, ", %.1f MB more wait on the host", moved / 1e6);
        bl_text_puts(&s->out, "\n");
        for (bl_json_iter rows = bl_json_each(&keys); bl_json_next(&rows, &row);)
            BL_TRY(show_key(s, id, &row, passed, err));
    }
    return bl_text_status(&s->out, err);
}

static bl_status look_once(screen *s, bl_call *call, bool clear, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/top", .seconds = BL_ASK_SECONDS};
    bl_arena *arena = NULL;
    bl_json_limits limits = {0};
    bl_json_doc doc = {0};
    bool told = false;
    BL_TRY(bl_call_ask(call, &request, &told, err));
    if (told)
        return BL_OK;
    arena = bl_arena_create(0);
    bl_status st = bl_json_parse(&doc, arena, (bl_span){bl_text_get(&call->ask.body), call->ask.body.len}, &limits, err);
    bl_text_clear(&s->out);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = show(s, &root, err);
    }
    if (st == BL_OK) {
        printf("%s%s", clear ? "\033[H\033[2J" : "", bl_text_get(&s->out));
        fflush(stdout);
    }
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return st;
}

bl_status bl_command_top(bl_call *call, bl_err *err)
{
    static screen shown;
    double interval = bl_call_number(call, "interval", 2);
    bool once = bl_call_has(call, "json");
    long times = (long)bl_call_number(call, "times", once ? 1 : 0);
    bool clear = times == 0 && isatty(STDOUT_FILENO) != 0;
    int interrupts = bl_terminal_catch_interrupts(clear);
    bl_status st = bl_ask_open(&call->ask, call->noperands > 0 ? call->operands[0] : bl_call_text(call, "url"),
                               bl_call_text(call, "key-file"), err);
    for (long i = 0; st == BL_OK && (times == 0 || i < times); i++) {
        if (i > 0 && !bl_terminal_sleep(interrupts, interval))
            break;
        st = look_once(&shown, call, clear, err);
    }
    bl_text_fini(&shown.out);
    close(interrupts);
    return st;
}
