/* SPDX-License-Identifier: MIT */
/* Language models from their files: the import of proto/llm, and the text model. */
#include "server/models/models_internal.h"

#include "engine/base/log.h"
#include "proto/gguf/gguf.h"
#include "proto/llm/llm.h"
#include "server/models/text_input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 1024 };

typedef struct llm_files {
    int count;
    bl_llm_file file[MOST_FILES];
} llm_files;

static bool load_llm_has_end(const char *name, const char *end)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, end) == 0;
}

/* Open a file of the model.  Files of weights are mapped.  Other files are small texts, and their parsers read them more than
 * once, so these files are copied into memory, where they cannot change. */
static bl_status load_llm_open_file(bl_request *rq, int dir, const char *name, bl_mapped *mapped, llm_files *files)
{
    bl_llm_file *file = &files->file[files->count];
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    bl_status st = BL_OK;
    if (fd < 0)
        return bl_fail(&rq->err, BL_EINVAL, "%s cannot be opened: %s", name, strerror(errno));
    *file = (bl_llm_file){.name = bl_arena_strdup(rq->arena, name)};
    st = load_llm_has_end(name, ".gguf") || load_llm_has_end(name, ".safetensors")
             ? bl_mapped_add(mapped, fd, strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name, &file->data, &rq->err)
             : bl_source_read_open(rq, fd, name, &file->data);
    close(fd);
    files->count++;
    return st == BL_OK ? bl_arena_status(rq->arena, &rq->err) : st;
}

static bool load_llm_is_wanted(const char *name)
{
    return name[0] != '.' && strncmp(name, "mmproj", 6) != 0 &&
           (load_llm_has_end(name, ".gguf") || load_llm_has_end(name, ".json") || load_llm_has_end(name, ".safetensors") ||
            load_llm_has_end(name, ".jinja"));
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const bl_llm_file *)a)->name, ((const bl_llm_file *)b)->name);
}

/* Open the files in which sentence-transformers describe the pooling of token vectors. */
static bl_status open_pooling(bl_request *rq, int dir, bl_mapped *mapped, llm_files *files)
{
    static const char name[] = "1_Pooling/config.json";
    struct stat info;
    bool there = files->count < MOST_FILES && fstatat(dir, name, &info, 0) == 0 && S_ISREG(info.st_mode);
    return there ? load_llm_open_file(rq, dir, name, mapped, files) : BL_OK;
}

static bl_status open_folder(bl_request *rq, int dir, bl_mapped *mapped, llm_files *files)
{
    DIR *list = fdopendir(dir);
    bl_status st = BL_OK;
    if (list == NULL) {
        close(dir);
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for listing the folder of a model");
    }
    for (const struct dirent *entry = NULL; st == BL_OK && (entry = readdir(list)) != NULL;) {
        struct stat info;
        if (!load_llm_is_wanted(entry->d_name) || fstatat(dirfd(list), entry->d_name, &info, 0) != 0 || !S_ISREG(info.st_mode))
            continue;
        st = files->count < MOST_FILES ? load_llm_open_file(rq, dirfd(list), entry->d_name, mapped, files)
                                       : bl_fail(&rq->err, BL_ELIMIT, "the model has more than %d files", MOST_FILES);
    }
    if (st == BL_OK)
        st = open_pooling(rq, dirfd(list), mapped, files);
    closedir(list);
    if (files->count > 1)
        qsort(files->file, (size_t)files->count, sizeof files->file[0], compare_files);
    return st;
}

/* Open the parts of a split model in the folder of models.  The import reports missing parts. */
static bl_status open_parts(bl_request *rq, const char *path, size_t stem, int count, bl_mapped *mapped, llm_files *files)
{
    if (count > MOST_FILES)
        return bl_fail(&rq->err, BL_ELIMIT, "the model has more than %d files", MOST_FILES);
    for (int i = 1; i <= count; i++) {
        const char *name = bl_arena_printf(rq->arena, "%.*s-%05d-of-%05d.gguf", (int)stem, path, i, count);
        const char *full = name != NULL ? bl_arena_printf(rq->arena, "%s/%s", rq->server->settings.models, name) : NULL;
        struct stat info;
        if (full == NULL)
            return bl_arena_status(rq->arena, &rq->err);
        if (stat(full, &info) != 0)
            continue;
        BL_TRY(load_llm_open_file(rq, AT_FDCWD, full, mapped, files));
        files->file[files->count - 1].name = name;
    }
    return BL_OK;
}

static bl_status open_model(bl_request *rq, const char *path, bl_mapped *mapped, llm_files **out)
{
    const char *full = bl_arena_printf(rq->arena, "%s/%s", rq->server->settings.models, path);
    llm_files *files = bl_arena_alloc(rq->arena, sizeof *files);
    size_t stem = 0;
    int dir, no = 0, count = 0;
    *out = files;
    if (full == NULL || files == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    dir = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0)
        return open_folder(rq, dir, mapped, files);
    if (bl_gguf_part_name((bl_span){path, strlen(path)}, &stem, &no, &count))
        return open_parts(rq, path, stem, count, mapped, files);
    BL_TRY(load_llm_open_file(rq, AT_FDCWD, full, mapped, files));
    files->file[0].name = path;
    return BL_OK;
}

/* ---- the text model */

static void fill_sampling(bl_text_about *about, const bl_llm_sampling *from)
{
    about->samples = !isnan(from->temperature) || !isnan(from->top_p) || !isnan(from->min_p) || !isnan(from->repeat_penalty) ||
                     from->top_k >= 0;
    bl_sampling_init_usual(&about->sampling);
    if (!isnan(from->temperature))
        about->sampling.temperature = (float)from->temperature;
    if (!isnan(from->top_p))
        about->sampling.top_p = (float)from->top_p;
    if (!isnan(from->min_p))
        about->sampling.min_p = (float)from->min_p;
    if (!isnan(from->repeat_penalty))
        about->sampling.repeat_penalty = (float)from->repeat_penalty;
    if (from->top_k >= 0 && from->top_k < INT32_MAX)
        about->sampling.top_k = (int)from->top_k;
}

static const char *token_text(bl_model_version *version, const bl_tokenizer *tokenizer, int32_t id)
{
    bl_span text = bl_tokenizer_text(tokenizer, id);
    return id >= 0 && text.data != NULL ? bl_arena_strndup(version->arena, text.data, text.len) : NULL;
}

/* The path of the GGUF file in a folder; or |path| itself. */
static const char *find_weights(bl_arena *arena, const llm_files *files, const char *path)
{
    for (int i = 0; i < files->count && !load_llm_has_end(path, ".gguf"); i++)
        if (load_llm_has_end(files->file[i].name, ".gguf"))
            return bl_arena_printf(arena, "%s/%s", path, files->file[i].name);
    return bl_arena_strdup(arena, path);
}

static bl_text_about describe_files(bl_model_version *version, const bl_llm_model *model, const bl_tokenizer *tokenizer,
                                    const char *file)
{
    bl_text_about about = {
        .chat_template = model->chat_template != NULL ? bl_arena_strdup(version->arena, model->chat_template) : NULL,
        .bos_token = token_text(version, tokenizer, model->bos),
        .eos_token = model->nends > 0 ? token_text(version, tokenizer, model->ends[0]) : NULL,
        .architecture = bl_arena_strdup(version->arena, model->architecture),
        .quantisation = model->quantisation != NULL ? bl_arena_strdup(version->arena, model->quantisation) : NULL,
        .file = file,
        .trained_context = model->trained_context,
        .parameters = model->parameters,
        .bytes = model->bytes,
        .width = model->width};
    fill_sampling(&about, &model->sampling);
    return about;
}

static bl_status fill_text(bl_model_version *version, bl_llm_model *model, const char *file, bl_err *err)
{
    bl_text_model *text = bl_arena_alloc(version->arena, sizeof *text);
    if (text == NULL)
        return bl_arena_status(version->arena, err);
    text->tokenizer = model->tokenizer;
    model->tokenizer = NULL;
    version->text = text; /* from here on |text| owns the tokenizer */
    text->nends = model->nends;
    memcpy(text->ends, model->ends, (size_t)model->nends * sizeof *text->ends);
    text->about = describe_files(version, model, text->tokenizer, file);
    return bl_arena_status(version->arena, err);
}

/* Set up an embedding model; clients of /v2 send strings as the input "text". */
static bl_status fill_words(bl_model_version *version, bl_llm_model *model, const char *file, bl_err *err)
{
    bl_text_input *words = bl_arena_alloc(version->arena, sizeof *words);
    if (words == NULL)
        return bl_arena_status(version->arena, err);
    words->tokenizer = model->tokenizer;
    model->tokenizer = NULL;
    version->words = words; /* from here on |words| owns the tokenizer */
    words->whole = true;
    words->about = describe_files(version, model, words->tokenizer, file);
    if (version->config.words.text == NULL)
        version->config.words.text = "text";
    return bl_arena_status(version->arena, err);
}

bl_status bl_model_import_llm(bl_request *rq, bl_program *program, bl_model_version *version, const char *path, bl_mapped *mapped)
{
    const bl_settings *set = &rq->server->settings;
    bl_llm_options options = {.limits = rq->server->limits,
                              .context = version->config.generation.context,
                              .chunk = version->config.generation.chunk,
                              .rows = version->config.max_batch_size > 0 ? version->config.max_batch_size : 0,
                              .exact = version->config.exact,
                              .pooling = version->config.words.pooling,
                              .max_bytes = set->max_compile,
                              .max_seconds = set->max_compile_seconds};
    llm_files *files = NULL;
    bl_llm_model model;
    bl_status st = BL_OK;
    BL_TRY(open_model(rq, path, mapped, &files));
    st = bl_llm_import(program->arena, files->file, files->count, &options, &model, &rq->err);
    if (st == BL_OK && version->text == NULL && version->words == NULL) /* otherwise the previous instance has done this */
        st = (model.embeds ? fill_words : fill_text)(version, &model, find_weights(version->arena, files, path), &rq->err);
    bl_tokenizer_destroy(model.tokenizer);
    program->doc = model.program;
    return st;
}
