/* SPDX-License-Identifier: MIT */
/* `beamline top`: who uses which device, asked again and again. */
#include "server/command/command.h"

#include "proto/json.h"
#include "server/command/terminal.h"

#include <stdio.h>
#include <unistd.h>

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

/* "    job 4f2a of line, model m (3)" */
static bl_status show_work(bl_text *out, const bl_json *row, bl_err *err)
{
    bl_json list, one;
    const char *what = "";
    int shown = 0;
    BL_TRY(bl_json_need(row, "what", &list, err));
    for (bl_json_iter each = bl_json_each(&list); bl_json_next(&each, &one);) {
        BL_TRY(bl_json_string(&one, &what, err));
        bl_text_puts(out, shown++ > 0 ? ", " : "    ");
        bl_text_puts(out, what);
    }
    bl_text_puts(out, shown > 0 ? "\n" : "");
    return BL_OK;
}

static bl_status show_key(bl_text *out, const bl_json *row, bl_err *err)
{
    bl_json name;
    const char *key = "(no key)";
    double requests = 0, seconds = 0, held = 0, busy = 0;
    bl_json known;
    BL_TRY(bl_json_need(row, "name", &name, err));
    if (name.kind != BL_JSON_NULL)
        BL_TRY(bl_json_string(&name, &key, err));
    BL_TRY(need_number(row, "busy", &busy, err));
    BL_TRY(need_number(row, "queue", &requests, err));
    if (bl_json_find(row, "device_seconds", &known))
        BL_TRY(need_number(row, "device_seconds", &seconds, err));
    BL_TRY(need_number(row, "memory_used", &held, err));
    bl_text_printf(out, "  %-20s %6.1f%% ", key, 100 * busy);
    if (seconds > 0)
        bl_text_printf(out, "%12.3f s", seconds);
    else
        bl_text_puts(out, "             -");
    bl_text_printf(out, " %8.0f %10.1f MB\n", requests, held / 1e6);
    return show_work(out, row, err);
}

static bl_status show(bl_text *out, const bl_json *root, bl_err *err)
{
    bl_json devices, device, keys, row;
    BL_TRY(bl_json_need(root, "devices", &devices, err));
    bl_text_puts(out, "  key                     busy       since start requests         held\n");
    for (bl_json_iter each = bl_json_each(&devices); bl_json_next(&each, &device);) {
        const char *id = "";
        double busy = 0, queue = 0, used = 0, moved = 0;
        BL_TRY(need_text(&device, "id", &id, err));
        BL_TRY(need_number(&device, "busy", &busy, err));
        BL_TRY(need_number(&device, "queue", &queue, err));
        BL_TRY(need_number(&device, "memory_used", &used, err));
        BL_TRY(need_number(&device, "memory_moved", &moved, err));
        BL_TRY(bl_json_need(&device, "keys", &keys, err));
        bl_text_printf(out, "%s: %.1f%% busy, %.0f in the queue, %.1f MB", id, 100 * busy, queue, used / 1e6);
        if (moved > 0)
            bl_text_printf(out, ", %.1f MB more wait on the host", moved / 1e6);
        bl_text_puts(out, "\n");
        for (bl_json_iter rows = bl_json_each(&keys); bl_json_next(&rows, &row);)
            BL_TRY(show_key(out, &row, err));
    }
    return bl_text_status(out, err);
}

static bl_status look_once(bl_text *out, bl_call *call, bool clear, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/now", .seconds = BL_ASK_SECONDS};
    bl_arena *arena = NULL;
    bl_json_limits limits = {0};
    bl_json_doc doc = {0};
    bool told = false;
    BL_TRY(bl_call_ask(call, &request, &told, err));
    if (told)
        return BL_OK;
    arena = bl_arena_create(0);
    bl_status st = bl_json_parse(&doc, arena, (bl_span){bl_text_get(&call->ask.body), call->ask.body.len}, &limits, err);
    bl_text_clear(out);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = show(out, &root, err);
    }
    if (st == BL_OK) {
        printf("%s%s", clear ? "\033[H\033[2J" : "", bl_text_get(out));
        fflush(stdout);
    }
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return st;
}

bl_status bl_command_top(bl_call *call, bl_err *err)
{
    bl_text shown = {0};
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
    bl_text_fini(&shown);
    close(interrupts);
    return st;
}
