/* SPDX-License-Identifier: MIT */
/* `beamline kernels`: the kernel database of this machine, or of a running server. */
#include "server/command/command.h"

#include "proto/json.h"
#include "server/command/terminal.h"
#include "server/ops/kernels_json.h"
#include "server/ops/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool kernels_store_print_row(void *arg, const bl_kernel_row *row)
{
    FILE *to = arg;
    double before = (double)row->heuristic_ns / 1e3, after = (double)row->best_ns / 1e3;
    fprintf(to, "%s  %-32s %10.1f us %10.1f us  %s%s\n", row->key, row->name, before, after, row->moves,
            row->version == BL_MOVES_VERSION ? "" : " (of another version)");
    return true;
}

static bool show_row(void *arg, const bl_kernel_row *row)
{
    int *n = arg;
    ++*n;
    printf("%s %s\non %s (%s)\n%lld candidates, beam %lld: %.3f us by the heuristic, %.3f us by the best\nmoves: %s\n%s",
           row->key, row->name, row->device, row->driver, (long long)row->tried, (long long)row->width,
           (double)row->heuristic_ns / 1e3, (double)row->best_ns / 1e3, row->moves, row->nest);
    return true;
}

static bool export_row(void *arg, const bl_kernel_row *row)
{
    FILE *to = arg;
    bl_text line = {0};
    bool good = false;
    bl_encode_kernel(&line, row, true);
    bl_text_puts(&line, "\n");
    good = !line.failed && fwrite(line.data, 1, line.len, to) == line.len;
    bl_text_fini(&line);
    return good;
}

static bl_status kernels_store_read_row(const bl_json *object, bl_kernel_row *row, bl_err *err)
{
    const struct {
        const char *name;
        const char **text;
        int64_t *number;
    } members[] = {{"key", &row->key, NULL},         {"name", &row->name, NULL},
                   {"device", &row->device, NULL},   {"driver", &row->driver, NULL},
                   {"moves", &row->moves, NULL},     {"nest", &row->nest, NULL},
                   {"version", NULL, &row->version}, {"heuristic_ns", NULL, &row->heuristic_ns},
                   {"best_ns", NULL, &row->best_ns}, {"candidates", NULL, &row->tried},
                   {"beam", NULL, &row->width},      {"searched", NULL, &row->searched}};
    bl_json at;

    BL_TRY(bl_json_expect(object, BL_JSON_OBJECT, err));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        BL_TRY(bl_json_need(object, members[i].name, &at, err));
        if (members[i].text != NULL)
            BL_TRY(bl_json_string(&at, members[i].text, err));
        else
            BL_TRY(bl_json_int(&at, 0, INT64_MAX, members[i].number, err));
    }
    return BL_OK;
}

static bl_status import_line(bl_kernels *kernels, const char *line, size_t len, bl_err *err)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_limits limits = {0};
    bl_json_doc doc = {0};
    bl_kernel_row row = {0};
    bl_status st = bl_json_parse(&doc, arena, (bl_span){line, len}, &limits, err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = kernels_store_read_row(&root, &row, err);
    }
    if (st == BL_OK)
        st = bl_kernels_put(kernels, &row, err);
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return st;
}

/* Invalid lines are reported and skipped. */
static bool import_file(bl_kernels *kernels, FILE *from)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len = 0;
    int number = 0, good = 0;

    while ((len = getline(&line, &cap, from)) >= 0) {
        bl_err err = {0};
        number++;
        if (len <= 1)
            continue;
        if (import_line(kernels, line, (size_t)len, &err) == BL_OK)
            good++;
        else
            fprintf(stderr, "beamline: line %d: %s\n", number, err.text);
    }
    free(line);
    printf("%d of %d kernels\n", good, number);
    return good == number;
}

static bool run_verb(bl_kernels *kernels, const char *verb, const char *operand, bl_err *err)
{
    bool import = strcmp(verb, "import") == 0;
    FILE *file = NULL;
    int n = 0;

    if (strcmp(verb, "list") == 0)
        return bl_kernels_list(kernels, NULL, kernels_store_print_row, stdout, err) == BL_OK;
    if (strcmp(verb, "show") == 0) {
        if (bl_kernels_list(kernels, operand, show_row, &n, err) == BL_OK && n == 0)
            (void)bl_fail(err, BL_ENOTFOUND, "unknown kernel \"%.40s\"", operand);
        return err->status == BL_OK;
    }
    file = strcmp(operand, "-") == 0 ? (import ? stdin : stdout) : fopen(operand, import ? "re" : "we");
    if (file == NULL) {
        (void)bl_fail(err, BL_ENOTFOUND, "%.200s cannot be opened", operand);
        return false;
    }
    bool good = import ? import_file(kernels, file) : bl_kernels_list(kernels, NULL, export_row, file, err) == BL_OK;
    if (file != stdin && fflush(file) != 0)
        good = false;
    if (file != stdin && file != stdout)
        good = fclose(file) == 0 && good;
    else if (file == stdin)
        clearerr(file);
    return good;
}

/* List the kernels of a running server: GET /api/v1/kernels. */
static bl_status ask_kernels(bl_call *call, bl_err *err)
{
    bl_table table = {.heads = {"key", "kernel", ">before us", ">after us", "moves"}};
    bl_ask_request request = {.path = "/api/v1/kernels", .seconds = BL_ASK_SECONDS};
    cJSON *body = NULL;
    bool told = false;
    BL_TRY(bl_call_ask(call, &request, &told, err));
    if (told)
        return BL_OK;
    BL_TRY(bl_ask_document(&call->ask, &body, err));
    for (const cJSON *row = bl_answer_first(bl_answer_at(body, "kernels")); row != NULL; row = row->next) {
        bl_table_add(&table, bl_answer_text(row, "key"));
        bl_table_add(&table, bl_answer_text(row, "name"));
        bl_table_addf(&table, "%.1f", bl_answer_number(row, "heuristic_ns", 0) / 1e3);
        bl_table_addf(&table, "%.1f", bl_answer_number(row, "best_ns", 0) / 1e3);
        bl_table_add(&table, bl_answer_text(row, "moves"));
    }
    cJSON_Delete(body);
    return bl_table_end(&table, err);
}

/* Show one kernel with its loop nest, for each device on which it was searched: GET /api/v1/kernels/KEY. */
static bl_status ask_kernel(bl_call *call, bl_err *err)
{
    bl_text path = {0}, out = {0};
    bl_ask_request request = {.seconds = BL_ASK_SECONDS};
    cJSON *body = NULL;
    bool told = false;
    bl_ask_path(&path, "/api/v1/kernels/", call->operands[0], "");
    request.path = bl_text_get(&path);
    bl_status st = bl_call_ask(call, &request, &told, err);
    if (st == BL_OK && !told)
        st = bl_ask_document(&call->ask, &body, err);
    for (const cJSON *row = bl_answer_first(bl_answer_at(body, "kernels")); row != NULL; row = row->next) {
        bl_text_put_safe(&out, bl_answer_text(row, "key"));
        bl_text_puts(&out, " ");
        bl_text_put_safe(&out, bl_answer_text(row, "name"));
        bl_text_puts(&out, "\non ");
        bl_text_put_safe(&out, bl_answer_text(row, "device"));
        bl_text_puts(&out, " (");
        bl_text_put_safe(&out, bl_answer_text(row, "driver"));
        bl_text_printf(&out, ")\n%.0f candidates, beam %.0f: %.3f us by the heuristic, %.3f us by the best\nmoves: ",
                       bl_answer_number(row, "candidates", 0), bl_answer_number(row, "beam", 0),
                       bl_answer_number(row, "heuristic_ns", 0) / 1e3, bl_answer_number(row, "best_ns", 0) / 1e3);
        bl_text_put_safe(&out, bl_answer_text(row, "moves"));
        bl_text_puts(&out, "\n");
        bl_text_put_words(&out, bl_answer_text(row, "nest"));
    }
    (void)bl_terminal_print(&out);
    cJSON_Delete(body);
    bl_text_fini(&path);
    bl_text_fini(&out);
    return st;
}

static bl_status ask_verb(bl_call *call, bl_err *err)
{
    if (strcmp(call->verb, "list") == 0)
        return ask_kernels(call, err);
    if (strcmp(call->verb, "show") == 0)
        return ask_kernel(call, err);
    return bl_call_misuse(call, err, "only `kernels list` and `kernels show` can ask a running server");
}

bl_status bl_command_kernels(bl_call *call, bl_err *err)
{
    static bl_server server;
    const char *operand = call->noperands > 0 ? call->operands[0] : "";
    bool good = false;

    if (bl_call_is_remote(call))
        return ask_verb(call, err);
    if (bl_settings_load(&server.settings, call->nsettings, call->settings, err) == BL_OK &&
        bl_tuning_start(&server, err) == BL_OK)
        good = run_verb(server.search.tuner.kernels, call->verb, operand, err);
    bl_tuning_stop(&server);
    bl_settings_fini(&server.settings);
    return good ? BL_OK : bl_fail(err, BL_EINVAL, "%s", ""); /* invalid lines were already reported */
}
