/* SPDX-License-Identifier: MIT */
/* Reads folders of sentence-transformers: modules.json lists the modules after the model, and 1_Pooling/config.json gives the
 * pooling.  An unknown module is BL_EUNSUPPORTED with its name, since the module may change the embedding. */
#include "proto/llm/importer.h"

#include <string.h>

static bool modules_ends_with(bl_span text, const char *end)
{
    size_t n = strlen(end);
    return text.len >= n && memcmp(text.data + text.len - n, end, n) == 0;
}

static bl_status parse_file(bl_arena *arena, const bl_llm_file *file, bl_json_doc *doc, bl_err *err)
{
    bl_json_limits limits = {0};
    bl_err problem = {0};
    bl_status st = bl_json_parse(doc, arena, file->data, &limits, &problem);
    return st == BL_OK ? BL_OK : bl_fail(err, st, "%s: %s", file->name, problem.text);
}

/* Reads the pooling from "pooling_mode", or from the one member "pooling_mode_NAME" that is true. */
static bl_status choose_pooling(const bl_json *config, double *out, bl_err *err)
{
    static const struct {
        const char *names;
        bl_llm_pooling pooling;
    } rows[] = {{"mean pooling_mode_mean_tokens", BL_POOLING_MEAN},
                {"cls pooling_mode_cls_token", BL_POOLING_CLS},
                {"lasttoken pooling_mode_lasttoken", BL_POOLING_LAST}};
    bl_json_iter it = bl_json_each(config);
    bl_json at;
    int said = 0;
    while (bl_json_next(&it, &at)) {
        bool named = strcmp(at.key, "pooling_mode") == 0 && at.kind == BL_JSON_STRING;
        bool chosen = strncmp(at.key, "pooling_mode_", 13) == 0 && at.kind == BL_JSON_BOOL && at.boolean;
        bl_span name = named ? at.text : (bl_span){at.key, strlen(at.key)};
        bool known = false;
        for (size_t i = 0; (named || chosen) && i < sizeof rows / sizeof rows[0]; i++) {
            if (!bl_llm_has_word(rows[i].names, name))
                continue;
            *out = rows[i].pooling;
            known = true;
        }
        if ((named || chosen) && (!known || ++said > 1))
            return bl_json_fail(&at, err, BL_EUNSUPPORTED, "must be one of mean, cls and lasttoken");
    }
    return BL_OK;
}

static bl_status modules_read_pooling(bl_arena *arena, const bl_llm_file *files, int nfiles, const char *folder, double *out,
                                      bl_err *err)
{
    const char *name = bl_arena_printf(arena, "%s/config.json", folder);
    const bl_llm_file *file = name != NULL ? bl_llm_find_file(files, nfiles, name) : NULL;
    bl_json_doc doc = {0};
    bl_status st = BL_OK;
    if (name == NULL)
        return bl_arena_status(arena, err);
    if (file == NULL)
        return bl_fail(err, BL_EINVAL, "modules.json names \"%.100s\", but %.100s is missing", folder, name);
    st = parse_file(arena, file, &doc, err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = choose_pooling(&root, out, err);
    }
    bl_json_fini(&doc);
    return st;
}

bl_status bl_hub_read_modules(bl_arena *arena, const bl_llm_file *files, int nfiles, double *out, bl_err *err)
{
    const bl_llm_file *file = bl_llm_find_file(files, nfiles, "modules.json");
    bl_json_doc doc = {0};
    bl_json root, one, type, path;
    bl_status st = BL_OK;
    if (file == NULL)
        return BL_OK;
    st = parse_file(arena, file, &doc, err);
    root = st == BL_OK ? bl_json_root(&doc) : (bl_json){0};
    for (bl_json_iter it = bl_json_each(&root); st == BL_OK && root.kind == BL_JSON_ARRAY && bl_json_next(&it, &one);) {
        const char *folder = "1_Pooling";
        if (!bl_json_find(&one, "type", &type) || type.kind != BL_JSON_STRING)
            continue;
        if (bl_json_find(&one, "path", &path))
            st = bl_json_string(&path, &folder, err);
        if (st == BL_OK && modules_ends_with(type.text, "Pooling"))
            st = modules_read_pooling(arena, files, nfiles, folder, out, err);
        else if (st == BL_OK && !modules_ends_with(type.text, "Transformer") && !modules_ends_with(type.text, "Normalize"))
            st = bl_fail(err, BL_EUNSUPPORTED,
                         "modules.json: the module \"%.*s\" is not supported; it must be Transformer, Pooling or Normalize",
                         (int)(type.text.len < 80 ? type.text.len : 80), type.text.data);
    }
    bl_json_fini(&doc);
    return st;
}
