/* SPDX-License-Identifier: MIT */
/* Opens a source from a GGUF file or a Hugging Face folder, and looks up its tensors and keys. */
#include "proto/llm/importer.h"

#include <stdlib.h>
#include <string.h>

/* Keys of an architecture whose values follow from the tensors, or do not affect the model's results. */
static const char *const told_elsewhere[] = {"vocab_size",
                                             "feed_forward_length",
                                             "expert_feed_forward_length",
                                             "rope.scaling.finetuned",
                                             "expert_shared_feed_forward_length",
                                             "tensor_data_layout",
                                             "expert_shared_count",
                                             "interleave_moe_layer_step"};

static bool llm_source_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static int compare_tensors(const void *a, const void *b)
{
    return strcmp(((const bl_llm_tensor *)a)->name, ((const bl_llm_tensor *)b)->name);
}

bl_llm_tensor *bl_llm_find_tensor(bl_llm_source *source, const char *name)
{
    bl_llm_tensor key = {.name = name};
    bl_llm_tensor *found =
        source->ntensors > 0 ? bsearch(&key, source->tensors, (size_t)source->ntensors, sizeof key, compare_tensors) : NULL;
    if (found != NULL)
        found->used = true;
    return found;
}

/* ---- keys */

/* Makes GGUF's full name of a key and records it in |asked|; NULL if out of memory. */
static const char *full_key(bl_llm_source *source, const char *key)
{
    bool own = strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0;
    char *name = own ? bl_arena_strdup(source->arena, key)
                     : bl_arena_printf(source->arena, "%.*s.%s", (int)source->arch.len, source->arch.data, key);
    void *asked = source->asked;
    if (name == NULL || !bl_arena_reserve(source->arena, &asked, source->nasked, &source->asked_cap, sizeof *source->asked))
        return NULL;
    source->asked = asked;
    source->asked[source->nasked++] = name;
    return name;
}

static const bl_llm_key *llm_source_find_key(const bl_llm_source *source, const char *key)
{
    for (int i = 0; i < source->nkeys; i++)
        if (strcmp(source->keys[i].name, key) == 0)
            return &source->keys[i];
    return NULL;
}

bool bl_llm_number(bl_llm_source *source, const char *key, int at, double *out)
{
    bl_gguf_values values;
    bool flag;
    if (source->gguf == NULL) {
        const bl_llm_key *found = llm_source_find_key(source, key);
        if (found == NULL || found->count <= 0)
            return false;
        *out = found->number[at < found->count ? at : found->count - 1];
        return true;
    }
    const char *name = full_key(source, key);
    if (name == NULL || !bl_gguf_find(source->gguf, name, &values) || values.count == 0)
        return false;
    size_t i = (size_t)at < values.count ? (size_t)at : values.count - 1;
    if (values.kind == BL_GGUF_BOOL && bl_gguf_bool_at(&values, i, &flag)) {
        *out = flag;
        return true;
    }
    return bl_gguf_f64_at(&values, i, out);
}

bool bl_llm_text(bl_llm_source *source, const char *key, bl_span *out)
{
    if (source->gguf == NULL) {
        const bl_llm_key *found = llm_source_find_key(source, key);
        if (found == NULL || found->count >= 0)
            return false;
        *out = (bl_span){found->text, strlen(found->text)};
        return true;
    }
    const char *name = full_key(source, key);
    return name != NULL && bl_gguf_text(source->gguf, name, out);
}

/* ---- files */

const bl_llm_file *bl_llm_find_file(const bl_llm_file *files, int nfiles, const char *name)
{
    for (int i = 0; i < nfiles; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

/* ---- GGUF */

static bl_status add_gguf_tensors(bl_llm_source *source, bl_err *err)
{
    size_t count;
    const bl_gguf_tensor *tensors = bl_gguf_tensors(source->gguf, &count);
    source->tensors = bl_arena_array(source->arena, count + 1, sizeof *source->tensors);
    bl_span *parts = bl_arena_array(source->arena, count + 1, sizeof *parts);
    if (source->tensors == NULL || parts == NULL)
        return bl_arena_status(source->arena, err);
    for (size_t i = 0; i < count; i++) {
        bl_llm_tensor *t = &source->tensors[source->ntensors++];
        parts[i] = tensors[i].data;
        *t = (bl_llm_tensor){.name = bl_arena_strndup(source->arena, tensors[i].name.data, tensors[i].name.len),
                             .type = tensors[i].type,
                             .ndim = tensors[i].ndim,
                             .nparts = 1,
                             .parts = &parts[i]};
        memcpy(t->dim, tensors[i].dim, sizeof t->dim);
        if (t->name == NULL)
            return bl_arena_status(source->arena, err);
    }
    return BL_OK;
}

/* Fails unless all parts of a split model are present, by their names. */
static bl_status check_parts(const bl_llm_source *source, const bl_llm_file *files, int nfiles, bl_err *err)
{
    size_t stem = 0;
    int at = 0, no = 0, count = 0;
    while (at < nfiles && !bl_gguf_part_name((bl_span){files[at].name, strlen(files[at].name)}, &stem, &no, &count))
        at++;
    for (int i = 1; at < nfiles && i <= count; i++) {
        const char *name = bl_arena_printf(source->arena, "%.*s-%05d-of-%05d.gguf", (int)stem, files[at].name, i, count);
        if (name == NULL)
            return bl_arena_status(source->arena, err);
        if (bl_llm_find_file(files, nfiles, name) == NULL)
            return bl_fail(err, BL_EINVAL, "the part \"%.200s\" is missing", name);
    }
    return BL_OK;
}

static bl_status open_gguf(bl_llm_source *source, const bl_llm_file *files, int nfiles, bl_err *err)
{
    bl_span *data = bl_arena_array(source->arena, (size_t)nfiles, sizeof *data);
    bl_gguf *gguf;
    int n = 0;
    if (data == NULL)
        return bl_arena_status(source->arena, err);
    for (int i = 0; i < nfiles; i++)
        if (llm_source_ends_with(files[i].name, ".gguf"))
            data[n++] = files[i].data;
    BL_TRY(check_parts(source, files, nfiles, err));
    BL_TRY(bl_gguf_open(source->arena, data, n, &gguf, err));
    source->gguf = gguf;
    BL_TRY(bl_gguf_need_text(gguf, "general.architecture", &source->arch, err));
    return add_gguf_tensors(source, err);
}

/* ---- both kinds of sources */

bool bl_llm_is_model(const bl_llm_file *files, int nfiles)
{
    bool config = false, tensors = false;
    for (int i = 0; i < nfiles; i++) {
        if (llm_source_ends_with(files[i].name, ".gguf"))
            return true;
        config = config || strcmp(files[i].name, "config.json") == 0;
        tensors = tensors || llm_source_ends_with(files[i].name, ".safetensors");
    }
    return config && tensors;
}

static bl_status choose_row(bl_llm_source *source, bl_err *err)
{
    source->row = bl_llm_arch_find(source->arch, source->gguf == NULL);
    if (source->row != NULL)
        return BL_OK;
    return bl_fail(err, BL_EUNSUPPORTED, "%s: the architecture \"%.*s\" is not supported; docs/llm.md lists the supported ones",
                   source->gguf != NULL ? "general.architecture" : "model_type of config.json",
                   (int)(source->arch.len < 60 ? source->arch.len : 60), source->arch.data);
}

bl_status bl_llm_source_open(bl_arena *arena, const bl_llm_file *files, int nfiles, const bl_wire_limits *limits,
                             bl_llm_source *out, bl_err *err)
{
    bool gguf = false;
    *out = (bl_llm_source){.arena = arena};
    for (int i = 0; i < nfiles; i++)
        gguf = gguf || llm_source_ends_with(files[i].name, ".gguf");
    BL_TRY(gguf ? open_gguf(out, files, nfiles, err) : bl_hub_open(out, files, nfiles, limits, err));
    BL_TRY(choose_row(out, err));
    if (out->ntensors > 1)
        qsort(out->tensors, (size_t)out->ntensors, sizeof *out->tensors, compare_tensors);
    for (int i = 1; i < out->ntensors; i++)
        if (strcmp(out->tensors[i].name, out->tensors[i - 1].name) == 0)
            return bl_fail(err, BL_EINVAL, "the tensor \"%.100s\" is given twice", out->tensors[i].name);
    return BL_OK;
}

static bool was_asked(const bl_llm_source *source, bl_span key)
{
    for (int i = 0; i < source->nasked; i++)
        if (strlen(source->asked[i]) == key.len && memcmp(source->asked[i], key.data, key.len) == 0)
            return true;
    for (size_t i = 0; i < sizeof told_elsewhere / sizeof told_elsewhere[0]; i++) {
        size_t n = strlen(told_elsewhere[i]);
        if (key.len == source->arch.len + 1 + n && memcmp(key.data + source->arch.len + 1, told_elsewhere[i], n) == 0)
            return true;
    }
    return false;
}

bl_status bl_llm_check_used(const bl_llm_source *source, bl_err *err)
{
    for (int i = 0; i < source->ntensors; i++)
        if (!source->tensors[i].used)
            return bl_fail(err, BL_EUNSUPPORTED, "the tensor \"%.100s\" is not supported in the architecture \"%s\"",
                           source->tensors[i].name, source->row->name);
    for (size_t i = 0; source->gguf != NULL && i < bl_gguf_key_count(source->gguf); i++) {
        bl_gguf_values values;
        bl_span key = bl_gguf_key(source->gguf, i, &values);
        bool own = key.len > source->arch.len && memcmp(key.data, source->arch.data, source->arch.len) == 0 &&
                   key.data[source->arch.len] == '.';
        if (own && !was_asked(source, key))
            return bl_fail(err, BL_EUNSUPPORTED, "the key \"%.*s\" is not supported, and may change what the model computes",
                           (int)(key.len < 100 ? key.len : 100), key.data);
    }
    return BL_OK;
}
