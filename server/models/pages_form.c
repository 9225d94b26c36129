/* SPDX-License-Identifier: MIT */
/* Checks the form of a program with a paged KV cache (pages.h). */
#include "server/models/pages.h"

#include "server/models/text_model.h"

#include <string.h>

static int pages_form_find_input(const bl_model_version *version, const char *name)
{
    for (int i = 0; i < version->batcher.ninputs; i++)
        if (strcmp(version->inputs[i].name, name) == 0)
            return i;
    return -1;
}

static bl_status check_input(const bl_model_version *version, const char *name, bl_err *err)
{
    int i = pages_form_find_input(version, name);
    const bl_model_tensor *tensor = i >= 0 ? &version->inputs[i] : NULL;
    bool good = tensor != NULL && tensor->dtype == BL_I32 && tensor->ndim == 2 && tensor->var[0] == version->batcher.var;
    good = good && (strcmp(name, "table") != 0 || (tensor->var[1] >= 0 && tensor->var[1] != version->batcher.var));
    return good
               ? BL_OK
               : bl_fail(
                     err, BL_EGRAPH,
                     "a text model with an input \"slots\" keeps keys and values in pages: its input \"%s\" must be int32 [rows, "
                     "%s], with rows the first dimension of all inputs and outputs",
                     name, strcmp(name, "table") == 0 ? "pages], a named dimension" : "n]");
}

bl_status bl_pages_describe(const bl_model_version *version, int64_t *count, bl_err *err)
{
    const bl_model_instance *instance = &version->instances[0];
    const bl_plan_info *info = bl_plan_get_info(instance->slot.plan);
    *count = 0;
    BL_TRY(check_input(version, "slots", err));
    BL_TRY(check_input(version, "table", err));
    for (int i = 0; i < info->nstates + info->nhidden; i++) {
        const bl_state *state = &instance->slot.program->states[instance->slot.entry->state[i]];
        if (!info->updated[i])
            continue;
        if (i >= info->nstates || state->type.type.ndim == 0 || (*count > 0 && state->type.type.dim[0].size != *count))
            return bl_fail(err, BL_EGRAPH,
                           "state \"%s\": the first axis of each state that a text model with pages updates must be the number "
                           "of pages, the same for all",
                           i < info->nstates ? state->type.name : "of random numbers");
        *count = state->type.type.dim[0].size;
    }
    return *count > 0 ? BL_OK : bl_fail(err, BL_EGRAPH, "a text model with an input \"slots\" must update states of pages");
}

void bl_pages_shrink(const bl_model_version *version, bl_program_doc *doc)
{
    bl_err ignored = {0};
    const bl_wire_graph *graph = NULL;
    int at = 0;
    if (version->text == NULL ||
        bl_decode_choose_entry(doc->entries, doc->nentries, version->config.entry, &at, &ignored) != BL_OK)
        return;
    graph = &doc->entries[at].graph;
    for (int i = 0; i < doc->nstates && bl_text_model_has_pages(version, graph); i++) {
        bl_tensor_value *value = &doc->values[i];
        bool updated = false;
        for (int k = 0; k < graph->nupdates; k++)
            updated = updated || strcmp(graph->updates[k].name, doc->states[i].name) == 0;
        if (!updated || value->kind != BL_VALUE_ZEROS || value->ndim == 0 || value->dim[0] <= BL_FIRST_PAGES)
            continue;
        value->count = value->count / (size_t)value->dim[0] * BL_FIRST_PAGES;
        value->bytes = value->bytes / (size_t)value->dim[0] * BL_FIRST_PAGES;
        value->dim[0] = BL_FIRST_PAGES;
    }
}
