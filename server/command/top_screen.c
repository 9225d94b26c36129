/* SPDX-License-Identifier: MIT */
/* `beamline top`: shows what each device does and for which key, refreshed periodically. `status` and `me` ask once. */
#include "server/command/command.h"

#include "server/command/terminal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- top */

/* Append "    job 4f2a of line, model m (3)". */
static void put_work(bl_text *out, const cJSON *row)
{
    int shown = 0;
    for (const cJSON *what = bl_answer_first(bl_answer_at(row, "what")); what != NULL; what = what->next)
        if (cJSON_IsString(what)) {
            bl_text_puts(out, shown++ > 0 ? ", " : "    ");
            bl_text_put_safe(out, what->valuestring);
        }
    bl_text_puts(out, shown > 0 ? "\n" : "");
}

static void top_screen_put_key(bl_text *out, const cJSON *row)
{
    const char *name = bl_answer_text(row, "name");
    double seconds = bl_answer_number(row, "device_seconds", 0);
    bl_text safe = {0}, held = {0};
    bl_text_put_safe(&safe, *name != '\0' ? name : "(no key)");
    bl_text_put_bytes(&held, bl_answer_number(row, "memory_used", 0));
    bl_text_printf(out, "  %-20s %6.1f%% ", bl_text_get(&safe), 100 * bl_answer_number(row, "busy", 0));
    if (seconds > 0)
        bl_text_printf(out, "%12.3f s", seconds);
    else
        bl_text_puts(out, "             -");
    bl_text_printf(out, " %8.0f %13s\n", bl_answer_number(row, "queue", 0), bl_text_get(&held));
    bl_text_fini(&safe);
    bl_text_fini(&held);
    put_work(out, row);
}

/* Append "opencl:0: 97.0% busy, 3 in the queue, 1.2 GB of 25.3 GB, free in 12 s". */
static void top_screen_put_device(bl_text *out, const cJSON *device)
{
    const cJSON *free_in = bl_answer_at(device, "free_in");
    const char *state = bl_answer_text(device, "state");
    double moved = bl_answer_number(device, "memory_moved", 0);
    bl_text_put_safe(out, bl_answer_text(device, "id"));
    bl_text_printf(out, ": %.1f%% busy, %.0f in the queue, ", 100 * bl_answer_number(device, "busy", 0),
                   bl_answer_number(device, "queue", 0));
    bl_text_put_bytes(out, bl_answer_number(device, "memory_used", 0));
    bl_text_puts(out, " of ");
    bl_text_put_bytes(out, bl_answer_number(device, "memory", 0));
    if (moved > 0) {
        bl_text_puts(out, ", ");
        bl_text_put_bytes(out, moved);
        bl_text_puts(out, " more wait on the host");
    }
    if (cJSON_IsNumber(free_in) && free_in->valuedouble > 0) {
        bl_text_puts(out, ", free in ");
        bl_text_put_seconds(out, free_in->valuedouble);
    } else if (cJSON_IsNumber(free_in)) {
        bl_text_puts(out, ", free");
    }
    if (*state != '\0' && strcmp(state, "ready") != 0) {
        bl_text_puts(out, ", ");
        bl_text_put_safe(out, state);
    }
    bl_text_puts(out, "\n");
}

static void put_devices(bl_text *out, const cJSON *now)
{

    bl_text_puts(out, "  key                     busy    since start requests          held\n");
    for (const cJSON *device = bl_answer_first(bl_answer_at(now, "devices")); device != NULL; device = device->next) {
        top_screen_put_device(out, device);
        for (const cJSON *key = bl_answer_first(bl_answer_at(device, "keys")); key != NULL; key = key->next)
            top_screen_put_key(out, key);
    }
}

/* Clear the screen and append as many lines as fit. */
static void put_screen(bl_text *out, const bl_text *lines)
{
    int columns = 0, rows = 0, shown = 0;
    bl_terminal_size(&columns, &rows);
    bl_text_puts(out, "\033[H\033[2J");
    for (const char *p = bl_text_get(lines); *p != '\0' && shown + 1 < rows; shown++) {
        size_t len = strcspn(p, "\n");
        bl_text_put_line(out, p, len, columns);
        p += len + (p[len] == '\n');
    }
}

static bl_status look_once(bl_call *call, bool clear, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/now", .seconds = BL_ASK_SECONDS};
    bl_text lines = {0}, screen = {0};
    cJSON *now = NULL;
    bool told = false;
    BL_TRY(bl_call_ask(call, &request, &told, err));
    if (told)
        return BL_OK;
    BL_TRY(bl_ask_document(&call->ask, &now, err));
    put_devices(&lines, now);
    if (clear)
        put_screen(&screen, &lines);
    bool whole = bl_terminal_print(clear ? &screen : &lines);
    cJSON_Delete(now);
    bl_text_fini(&lines);
    bl_text_fini(&screen);
    return whole ? BL_OK : bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
}

bl_status bl_command_top(bl_call *call, bl_err *err)
{
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
        st = look_once(call, clear, err);
    }
    close(interrupts);
    return st;
}

/* ---- status */

/* Append "http://127.0.0.1:8470: beamline 0.1.0, ready". */
static bl_status put_server(bl_call *call, bl_text *out, bool *ready, bl_err *err)
{
    bl_ask_request about = {.path = "/v2", .seconds = BL_ASK_SECONDS},
                   health = {.path = "/v2/health/ready", .seconds = BL_ASK_SECONDS};
    bl_err unready = {0};
    cJSON *server = NULL;
    BL_TRY(bl_ask_send(&call->ask, &about, err));
    BL_TRY(bl_ask_document(&call->ask, &server, err));
    bl_text_put_safe(out, call->ask.url);
    bl_text_puts(out, ": ");
    bl_text_put_safe(out, bl_answer_text(server, "name"));
    bl_text_puts(out, " ");
    bl_text_put_safe(out, bl_answer_text(server, "version"));
    cJSON_Delete(server);
    *ready = bl_ask_send(&call->ask, &health, &unready) == BL_OK;
    if (call->ask.silent)
        return bl_fail(err, BL_EBUSY, "%s", unready.text);
    bl_text_puts(out, *ready ? ", ready\n" : ", not ready: it loads models, or is about to end\n");
    return BL_OK;
}

static bl_status put_now(bl_call *call, bl_text *out, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/now", .seconds = BL_ASK_SECONDS};
    cJSON *now = NULL;
    BL_TRY(bl_ask_send(&call->ask, &request, err));
    BL_TRY(bl_ask_document(&call->ask, &now, err));
    bl_text_puts(out, "up ");
    bl_text_put_seconds(out, bl_answer_number(now, "uptime", 0));
    bl_text_printf(out, ", %.0f models, %.0f jobs\n", bl_answer_number(now, "models", 0), bl_answer_number(now, "jobs", 0));
    for (const cJSON *device = bl_answer_first(bl_answer_at(now, "devices")); device != NULL; device = device->next)
        top_screen_put_device(out, device);
    cJSON_Delete(now);
    return BL_OK;
}

bl_status bl_command_status(bl_call *call, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/now", .seconds = BL_ASK_SECONDS};
    bl_text out = {0};
    bool ready = false, told = false;
    if (bl_call_has(call, "json"))
        return bl_call_ask(call, &request, &told, err);
    bl_status st = bl_call_connect(call, err);
    if (st == BL_OK)
        st = put_server(call, &out, &ready, err);
    if (st == BL_OK)
        st = put_now(call, &out, err);
    (void)bl_terminal_print(&out);
    bl_text_fini(&out);
    return st != BL_OK || ready ? st : bl_fail(err, BL_EBUSY, "%s", "");
}

/* ---- me */

static void put_list(bl_text *out, const cJSON *list)
{
    for (const cJSON *item = bl_answer_first(list); item != NULL; item = item->next) {
        bl_text_puts(out, item == list->child ? "" : ", ");
        bl_text_put_safe(out, cJSON_IsString(item) ? item->valuestring : "?");
    }
    bl_text_puts(out, "\n");
}

static void put_until(bl_text *out, const cJSON *expires)
{
    char day[40] = "";
    struct tm when = {0};
    time_t seconds = cJSON_IsNumber(expires) ? (time_t)expires->valuedouble : 0;
    if (cJSON_IsNumber(expires) && gmtime_r(&seconds, &when) != NULL &&
        strftime(day, sizeof day, "%Y-%m-%d %H:%M UTC", &when) > 0)
        bl_text_printf(out, "good until      %s\n", day);
}

/* Append "memory      1.2 GB of 8.0 GB". */
static void put_quota(bl_text *out, const char *name, const cJSON *used, const cJSON *quotas)
{
    bool bytes = strcmp(name, "memory") == 0 || strcmp(name, "disk") == 0;
    double most = bl_answer_number(quotas, name, -1), now = bl_answer_number(used, name, 0);
    bl_text safe = {0};
    bl_text_put_safe(&safe, name);
    bl_text_printf(out, "%-14s  ", bl_text_get(&safe));
    bl_text_fini(&safe);
    for (int i = 0; i < (most >= 0 ? 2 : 1); i++) {
        bl_text_puts(out, i > 0 ? " of " : "");
        if (bytes)
            bl_text_put_bytes(out, i > 0 ? most : now);
        else
            bl_text_printf(out, "%.6g", i > 0 ? most : now);
    }
    bl_text_puts(out, "\n");
}

bl_status bl_command_me(bl_call *call, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/me", .seconds = BL_ASK_SECONDS};
    cJSON *me = NULL;
    bl_text out = {0};
    bool told = false;
    BL_TRY(bl_call_ask(call, &request, &told, err));
    if (told)
        return BL_OK;
    BL_TRY(bl_ask_document(&call->ask, &me, err));
    bl_text_puts(&out, "key             ");
    bl_text_put_safe(&out, cJSON_IsTrue(bl_answer_at(me, "keys")) ? bl_answer_text(me, "name") : "none: this server has no keys");
    bl_text_puts(&out, "\nscopes          ");
    put_list(&out, bl_answer_at(me, "scopes"));
    put_until(&out, bl_answer_at(me, "expires"));
    for (const cJSON *used = bl_answer_first(bl_answer_at(me, "used")); used != NULL; used = used->next)
        put_quota(&out, used->string, bl_answer_at(me, "used"), bl_answer_at(me, "quotas"));
    bool whole = bl_terminal_print(&out);
    cJSON_Delete(me);
    bl_text_fini(&out);
    return whole ? BL_OK : bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
}
