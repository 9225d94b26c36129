/* SPDX-License-Identifier: MIT */
/* `beamline run`: run a graph once, by POST /api/v1/run. */
#include "server/command/command.h"

#include "server/command/arrays.h"
#include "server/command/document.h"
#include "server/command/terminal.h"

#include <stdio.h>
#include <string.h>

/* Print "opencl:0, 1 kernel, compiled, 0.38 ms". */
static void tell_stats(const cJSON *answer)
{
    const cJSON *stats = bl_answer_at(answer, "stats");
    double kernels = bl_answer_number(stats, "kernels", 0);
    bl_text out = {0};
    bl_text_put_safe(&out, bl_answer_text(stats, "device"));
    bl_text_printf(&out, ", %.0f kernel%s, plan ", kernels, kernels == 1 ? "" : "s");
    bl_text_put_safe(&out, bl_answer_text(stats, "plan"));
    bl_text_puts(&out, ", ");
    bl_text_put_time(&out, bl_answer_number(stats, "time_ms", 0) * 1e-3);
    (void)fprintf(stderr, "%s\n", bl_text_get(&out));
    bl_text_fini(&out);
}

/* Print the estimated cost of a run. */
static bl_status print_dry_run(const bl_ask *ask, bl_err *err)
{
    bl_table table = {.heads = {"kernel", ">launches", ">operations", ">bytes", "moves"}};
    cJSON *answer = NULL;
    bl_text out = {0};
    BL_TRY(bl_ask_document(ask, &answer, err));
    bl_text_put_safe(&out, bl_answer_text(answer, "device"));
    bl_text_puts(&out, ": ");
    bl_text_put_time(&out, bl_answer_number(answer, "seconds", 0));
    bl_text_printf(&out, " estimated, %.0f kernels, %.3g operations, ", bl_answer_number(answer, "kernels", 0),
                   bl_answer_number(answer, "ops", 0));
    bl_text_put_bytes(&out, bl_answer_number(answer, "bytes", 0));
    bl_text_puts(&out, " of traffic, ");
    bl_text_put_bytes(&out, bl_answer_number(answer, "memory_bytes", 0));
    bl_text_puts(&out, " of memory\n");
    (void)bl_terminal_print(&out);
    bl_text_fini(&out);
    for (const cJSON *row = bl_answer_first(bl_answer_at(answer, "launched")); row != NULL; row = row->next) {
        bl_table_add(&table, bl_answer_text(row, "kernel"));
        bl_table_addf(&table, "%.0f", bl_answer_number(row, "launches", 0));
        bl_table_addf(&table, "%.0f", bl_answer_number(row, "ops", 0));
        bl_table_addf(&table, "%.0f", bl_answer_number(row, "bytes", 0));
        bl_table_add(&table, bl_answer_text(row, "moves"));
    }
    cJSON_Delete(answer);
    return bl_table_end(&table, err);
}

/* Save or print the outputs of a safetensors answer. */
static bl_status give_outputs(const bl_call *call, bl_err *err)
{
    bl_arena *arena = bl_arena_create(0);
    bl_tensor_file file = {0};
    bl_text out = {0};
    int at = 0;
    bl_status st = arena != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for the answer");
    if (st == BL_OK)
        st = bl_safetensors_open(arena, (bl_span){bl_text_get(&call->ask.body), call->ask.body.len}, &bl_arrays_limits, &file,
                                 err);
    for (const char *to = NULL; st == BL_OK && (to = bl_call_next(call, "out", &at)) != NULL;)
        st = bl_arrays_save(file.tensors, file.ntensors, to, err);
    for (size_t i = 0; !bl_call_has(call, "out") && i < file.ntensors; i++)
        bl_array_print(&file.tensors[i], &out);
    if (st == BL_OK && !bl_terminal_print(&out))
        st = bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
    const char *response = st == BL_OK ? bl_safetensors_text(&file, "response") : NULL;
    cJSON *answer = response != NULL ? cJSON_Parse(response) : NULL;
    if (answer != NULL)
        tell_stats(answer);
    cJSON_Delete(answer);
    bl_text_fini(&out);
    bl_arena_destroy(arena);
    return st;
}

static bl_status run_graph_make_request(const bl_call *call, bl_arrays *arrays, bl_text *document, bl_text *body,
                                        const char **media, bl_err *err)
{
    int at = 0;
    BL_TRY(bl_document_read(call->operands[0], document, err));
    for (const char *given = NULL; (given = bl_call_next(call, "in", &at)) != NULL;)
        BL_TRY(bl_arrays_take(arrays, given, document, "inputs", err));
    if (bl_call_has(call, "device"))
        bl_document_set_string(document, "device", bl_call_text(call, "device"));
    if (bl_call_has(call, "dry-run"))
        bl_document_set(document, NULL, "dry_run", "true");
    return bl_arrays_body(arrays, document, body, media, err);
}

bl_status bl_command_run(bl_call *call, bl_err *err)
{
    static bl_arrays arrays;
    bl_text document = {0}, body = {0};
    bl_ask_request request = {.path = "/api/v1/run"};
    bool dry = bl_call_has(call, "dry-run"), told = false;
    if (bl_call_has(call, "out") && (dry || bl_call_has(call, "json")))
        return bl_call_misuse(call, err, "--out and %s exclude each other", dry ? "--dry-run" : "--json");
    bl_status st = run_graph_make_request(call, &arrays, &document, &body, &request.media, err);
    if (st == BL_OK) {
        request.body = (bl_span){body.data, body.len};
        request.accept = dry || bl_call_has(call, "json") ? "application/json" : "application/x-safetensors";
        st = bl_call_ask(call, &request, &told, err);
    }
    if (st == BL_OK && !told)
        st = dry ? print_dry_run(&call->ask, err) : give_outputs(call, err);
    bl_arrays_fini(&arrays);
    bl_text_fini(&document);
    bl_text_fini(&body);
    return st;
}
