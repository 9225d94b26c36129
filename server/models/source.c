/* SPDX-License-Identifier: MIT */
/* The source of models: the folder of --models, or the files of a request.  In the folder a model is NAME/VERSION/ with the
 * files of |parts|.  A language model is NAME.gguf, or the parts of a split model (NAME-00001-of-00003.gguf and so on), or a
 * folder NAME/ or NAME/VERSION/. */
#include "server/models/models_internal.h"

#include "engine/base/map.h"
#include "proto/gguf/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINES = 65536 };

static const char *const parts[] = {"model.json", "model.safetensors", "model.onnx", "tokenizer.json"};
enum { JSON_PART, TENSORS_PART, ONNX_PART, TOKENIZER_PART, PART_COUNT };

bool bl_model_file_parse(const char *text, bl_model_file *out)
{
    char *slash = NULL;
    out->version = strtoull(text, &slash, 10);
    for (int i = 0; i < PART_COUNT; i++)
        if (text[0] > '0' && text[0] <= '9' && slash - text <= 18 && *slash == '/' && strcmp(slash + 1, parts[i]) == 0) {
            out->name = parts[i];
            return true;
        }
    return false;
}

const char *bl_models_folder(const bl_models *models)
{
    const char *folder = models->server->settings.models;
    return folder[0] != '\0' ? folder : NULL;
}

/* A hash of size, modification time and inode of a file; 0: there is no such file. */
static uint64_t source_stamp(int dir, const char *name, size_t *bytes)
{
    struct stat st;
    uint64_t hash = 0;
    *bytes = 0;
    if (fstatat(dir, name, &st, 0) != 0 || !S_ISREG(st.st_mode))
        return 0;
    *bytes = (size_t)st.st_size;
    hash = bl_hash_add(1, (uint64_t)st.st_size);
    hash = bl_hash_add(hash, (uint64_t)st.st_mtim.tv_sec);
    hash = bl_hash_add(hash, (uint64_t)st.st_mtim.tv_nsec);
    return bl_hash_add(hash, (uint64_t)st.st_ino) | 1;
}

/* Parse a version number such as "1" or "12", without a sign or leading zeros. */
static bool source_read_number(const char *name, uint64_t *out)
{
    size_t len = strlen(name);
    *out = strtoull(name, NULL, 10);
    return len > 0 && len <= 18 && name[0] != '0' && strspn(name, "0123456789") == len;
}

static int compare_versions(const void *a, const void *b)
{
    const bl_source_version *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bl_status add_version(bl_arena *arena, bl_source *out, int *cap, const bl_source_version *version, bl_err *err)
{
    void *at = out->versions;
    if (out->nversions == BL_MOST_VERSIONS)
        return bl_fail(err, BL_ELIMIT, "a model has at most %d versions", BL_MOST_VERSIONS);
    if (!bl_arena_reserve(arena, &at, out->nversions, cap, sizeof *out->versions))
        return bl_arena_status(arena, err);
    out->versions = at;
    out->versions[out->nversions++] = *version;
    return BL_OK;
}

static bool source_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* The language model in a folder: GGUF files, or config.json and safetensors files. */
typedef struct llm_look {
    bool gguf, tensors, config;
    uint64_t hash; /* the sum of the hashes of its files, which does not depend on their order */
} llm_look;

static llm_look look_llm(int dir)
{
    llm_look look = {0};
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    if (list == NULL && copy >= 0)
        close(copy);
    for (const struct dirent *entry = NULL; list != NULL && (entry = readdir(list)) != NULL;) {
        size_t bytes = 0;
        bool gguf = source_ends_with(entry->d_name, ".gguf"), tensors = source_ends_with(entry->d_name, ".safetensors");
        bool config = strcmp(entry->d_name, "config.json") == 0;
        uint64_t hash =
            gguf || tensors || source_ends_with(entry->d_name, ".json") ? source_stamp(dir, entry->d_name, &bytes) : 0;
        if (hash == 0)
            continue;
        look.gguf |= gguf;
        look.tensors |= tensors;
        look.config |= config;
        look.hash += bl_hash_bytes(entry->d_name, strlen(entry->d_name), hash);
    }
    if (list != NULL)
        closedir(list);
    return look;
}

static bool is_llm(const llm_look *look)
{
    return look->gguf || (look->tensors && look->config);
}

/* Add the folder of a version, unless it has nothing to load. */
static bl_status look_version(int dir, const char *model, const char *name, bl_arena *arena, bl_source *out, int *cap,
                              bl_err *err)
{
    bl_source_version version = {0};
    uint64_t hash[PART_COUNT];
    int at = -1;
    if (!source_read_number(name, &version.number))
        return BL_OK;
    at = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return BL_OK;
    version.fingerprint = out->fingerprint;
    for (int i = 0; i < PART_COUNT; i++) {
        size_t bytes = 0;
        hash[i] = source_stamp(at, parts[i], &bytes);
        version.fingerprint = bl_hash_add(version.fingerprint, hash[i]);
    }
    version.form = hash[JSON_PART] == 0 && hash[ONNX_PART] != 0 ? BL_MODEL_ONNX : BL_MODEL_PROGRAM;
    llm_look look = hash[JSON_PART] == 0 && hash[ONNX_PART] == 0 ? look_llm(at) : (llm_look){0};
    close(at);
    if (is_llm(&look)) {
        version.form = BL_MODEL_LLM;
        version.fingerprint = bl_hash_add(version.fingerprint, look.hash);
        version.path = bl_arena_printf(arena, "%s/%s", model, name);
    }
    return hash[JSON_PART] == 0 && hash[ONNX_PART] == 0 && !is_llm(&look) ? BL_OK : add_version(arena, out, cap, &version, err);
}

/* Add the folder of the model itself as version 1, if there is no other version. */
static bl_status look_whole(int dir, const char *model, bl_arena *arena, bl_source *out, int *cap, bl_err *err)
{
    llm_look look = look_llm(dir);
    bl_source_version version = {.number = 1, .form = BL_MODEL_LLM, .path = bl_arena_strdup(arena, model)};
    if (out->nversions > 0 || !is_llm(&look))
        return BL_OK;
    version.fingerprint = bl_hash_add(out->fingerprint, look.hash);
    return add_version(arena, out, cap, &version, err);
}

/* Is |text| a config.json of Hugging Face?  Such a file describes the model, and not how it is served. */
static bool is_hub_config(bl_span text)
{
    return text.len > 0 && (memmem(text.data, text.len, "\"model_type\"", 12) != NULL ||
                            memmem(text.data, text.len, "\"architectures\"", 15) != NULL);
}

static bl_status source_read_config(int dir, const char *name, bl_arena *arena, bl_source *out, bl_err *err)
{
    size_t bytes = 0;
    uint64_t hash = source_stamp(dir, name, &bytes);
    char *text = NULL;
    ssize_t got = 0;
    int file = -1;
    if (hash == 0)
        return BL_OK;
    out->fingerprint = bl_hash_add(out->fingerprint, hash);
    if (bytes > BL_MOST_CONFIG)
        return bl_fail(err, BL_ELIMIT, "%s has %zu bytes, the limit is %d", name, bytes, BL_MOST_CONFIG);
    text = bl_arena_alloc(arena, bytes + 1);
    if (text == NULL)
        return bl_arena_status(arena, err);
    file = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (file >= 0)
        got = read(file, text, bytes);
    if (file >= 0)
        close(file);
    if (file < 0 || got < 0)
        return bl_fail(err, BL_EINVAL, "%s cannot be read: %s", name, strerror(errno));
    if (!is_hub_config((bl_span){text, (size_t)got}))
        out->config = (bl_span){text, (size_t)got};
    return BL_OK;
}

static bl_status look_in(int dir, const char *model, bl_arena *arena, bl_source *out, bl_err *err)
{
    DIR *list = fdopendir(dir);
    bl_status st = BL_OK;
    int cap = 0;
    if (list == NULL) {
        close(dir);
        return bl_fail(err, BL_ENOMEM, "out of host memory for listing the folder of a model");
    }
    st = source_read_config(dirfd(list), "config.json", arena, out, err);
    if (st == BL_OK)
        st = source_read_config(dirfd(list), "serving.json", arena, out, err);
    for (const struct dirent *entry = NULL; st == BL_OK && (entry = readdir(list)) != NULL;)
        st = look_version(dirfd(list), model, entry->d_name, arena, out, &cap, err);
    if (st == BL_OK)
        st = look_whole(dirfd(list), model, arena, out, &cap, err);
    closedir(list);
    if (out->nversions > 1)
        qsort(out->versions, (size_t)out->nversions, sizeof *out->versions, compare_versions);
    for (int i = 0; i < out->nversions; i++)
        out->fingerprint = bl_hash_add(out->fingerprint, out->versions[i].fingerprint + out->versions[i].number);
    return st;
}

/* Is |file| a part of the split model |name|? */
static bool is_part_of(const char *file, const char *name, int *count)
{
    size_t stem = 0;
    int no = 0;
    return bl_gguf_part_name((bl_span){file, strlen(file)}, &stem, &no, count) && stem == strlen(name) &&
           memcmp(file, name, stem) == 0;
}

/* The fingerprint of the parts of NAME in the folder; *count: the number of parts of the model.  Returns 0 if there is no
 * part. */
static uint64_t look_parts(const char *folder, const char *name, int *count)
{
    DIR *list = opendir(folder);
    uint64_t hash = 0;
    for (const struct dirent *entry = NULL; list != NULL && (entry = readdir(list)) != NULL;) {
        size_t bytes = 0;
        uint64_t one = is_part_of(entry->d_name, name, count) ? source_stamp(dirfd(list), entry->d_name, &bytes) : 0;
        if (one != 0)
            hash += bl_hash_bytes(entry->d_name, strlen(entry->d_name), one);
    }
    if (list != NULL)
        closedir(list);
    return hash;
}

/* Look for NAME.gguf or its parts, if there is no folder NAME. */
static bl_status look_file(const char *folder, const char *name, bl_arena *arena, bl_source *out, bl_err *err)
{
    bl_source_version version = {.number = 1, .form = BL_MODEL_LLM, .path = bl_arena_printf(arena, "%s.gguf", name)};
    char *path = bl_arena_printf(arena, "%s/%s.gguf", folder, name);
    size_t bytes = 0;
    int cap = 0, count = 0;
    version.fingerprint = path != NULL ? source_stamp(AT_FDCWD, path, &bytes) : 0;
    if (version.fingerprint == 0 && (version.fingerprint = look_parts(folder, name, &count)) != 0)
        version.path = bl_arena_printf(arena, "%s-00001-of-%05d.gguf", name, count);
    if (version.fingerprint == 0)
        return bl_arena_status(arena, err);
    out->found = true;
    out->fingerprint = version.fingerprint;
    return add_version(arena, out, &cap, &version, err);
}

bl_status bl_source_look(bl_models *models, bl_arena *arena, const char *name, bl_source *out, bl_err *err)
{
    const char *folder = bl_models_folder(models);
    char *path = folder != NULL ? bl_arena_printf(arena, "%s/%s", folder, name) : NULL;
    int dir = -1;
    *out = (bl_source){0};
    if (path == NULL)
        return bl_arena_status(arena, err);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return look_file(folder, name, arena, out, err);
    out->found = true;
    return look_in(dir, name, arena, out, err);
}

bl_status bl_source_of_files(bl_arena *arena, const bl_model_op *op, bl_source *out, bl_err *err)
{
    int cap = 0;
    *out = (bl_source){.found = true};
    for (int i = 0; i < op->nfiles; i++) {
        const bl_model_file *file = &op->files[i];
        bl_source_version version = {.number = file->version,
                                     .form = strcmp(file->name, parts[ONNX_PART]) == 0 ? BL_MODEL_ONNX : BL_MODEL_PROGRAM};
        bool known = strcmp(file->name, parts[TENSORS_PART]) == 0 || strcmp(file->name, parts[TOKENIZER_PART]) == 0;
        for (int k = 0; k < out->nversions && !known; k++)
            known = out->versions[k].number == file->version;
        if (!known)
            BL_TRY(add_version(arena, out, &cap, &version, err));
    }
    if (out->nversions > 1)
        qsort(out->versions, (size_t)out->nversions, sizeof *out->versions, compare_versions);
    return BL_OK;
}

bl_status bl_source_read_open(bl_request *rq, int fd, const char *file, bl_span *out)
{
    struct stat st;
    char *data = NULL;
    size_t done = 0;
    bl_status status = BL_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = bl_fail(&rq->err, BL_EINVAL, "%s is not a regular file", file);
    else
        data = bl_request_alloc(rq, (size_t)st.st_size, file);
    while (data != NULL && status == BL_OK && done < (size_t)st.st_size) {
        ssize_t got = read(fd, data + done, (size_t)st.st_size - done);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            status =
                bl_fail(&rq->err, BL_ESTORAGE, "%s %s", file, got == 0 ? "became shorter while it was read" : strerror(errno));
        done += got > 0 ? (size_t)got : 0;
    }
    *out = (bl_span){data, done};
    return rq->err.status;
}

bl_status bl_source_read(bl_request *rq, const char *model, uint64_t version, const char *file, bl_span *out)
{
    char *path =
        bl_arena_printf(rq->arena, "%s/%s/%llu/%s", rq->server->settings.models, model, (unsigned long long)version, file);
    int fd = -1;
    bl_status st = BL_OK;
    *out = (bl_span){0};
    if (path == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? BL_OK : bl_fail(&rq->err, BL_EINVAL, "%s cannot be opened: %s", file, strerror(errno));
    st = bl_source_read_open(rq, fd, file, out);
    close(fd);
    return st;
}

bl_status bl_source_read_lines(bl_models *models, const char *model, const char *file, bl_arena *arena, const char *const **lines,
                               size_t *count, bl_err *err)
{
    const char *folder = bl_models_folder(models);
    char *path = folder != NULL ? bl_arena_printf(arena, "%s/%s/%s", folder, model, file) : NULL, *text = NULL;
    const char **out = NULL;
    size_t cap = 0;
    FILE *from = NULL;
    *count = 0;
    if (!bl_model_name_ok(file)) /* the name must not be a path */
        return bl_fail(err, BL_EINVAL, "\"%.100s\" is not a valid name of a file", file);
    from = path != NULL ? fopen(path, "re") : NULL;
    if (from == NULL)
        return bl_fail(err, BL_ENOTFOUND, "the file \"%s\" is missing beside config.json", file);
    out = bl_arena_array(arena, MOST_LINES, sizeof *out);
    while (out != NULL && *count < MOST_LINES && getline(&text, &cap, from) >= 0) {
        text[strcspn(text, "\r\n")] = '\0';
        out[(*count)++] = bl_arena_strdup(arena, text);
    }
    free(text);
    fclose(from);
    *lines = out;
    return bl_arena_status(arena, err);
}

/* Does the folder of models have a file |name| with the suffix |end| and of the type |kind|? */
static bool has_file(const char *folder, const char *name, const char *end, mode_t kind)
{
    bl_text path = {0};
    struct stat st;
    bool has = false;
    bl_text_printf(&path, "%s/%s%s", folder, name, end);
    has = !path.failed && stat(path.data, &st) == 0 && (st.st_mode & S_IFMT) == kind;
    bl_text_fini(&path);
    return has;
}

bool bl_source_has(bl_models *models, const char *name)
{
    const char *folder = bl_models_folder(models);
    int count = 0;
    return folder != NULL && (has_file(folder, name, "", S_IFDIR) || has_file(folder, name, ".gguf", S_IFREG) ||
                              look_parts(folder, name, &count) != 0);
}

bool bl_source_is_there(bl_models *models)
{
    const char *folder = bl_models_folder(models);
    DIR *list = folder != NULL ? opendir(folder) : NULL;
    if (list != NULL)
        closedir(list);
    return list != NULL;
}

/* Is this the part by which a split model is listed, the first part that exists in the folder? */
static bool is_first_part(const char *folder, const char *name, int no, int count)
{
    char end[40];
    bool first = !has_file(folder, name, ".gguf", S_IFREG);
    for (int i = 1; i < no && first; i++) {
        snprintf(end, sizeof end, "-%05d-of-%05d.gguf", i, count);
        first = !has_file(folder, name, end, S_IFREG);
    }
    return first;
}

void bl_source_each(bl_models *models, void (*each)(void *arg, const char *name), void *arg)
{
    const char *folder = bl_models_folder(models);
    DIR *list = folder != NULL ? opendir(folder) : NULL;
    for (const struct dirent *entry = NULL; list != NULL && (entry = readdir(list)) != NULL;) {
        char name[sizeof entry->d_name];
        bool file = source_ends_with(entry->d_name, ".gguf");
        size_t stem = strlen(entry->d_name) - (file ? strlen(".gguf") : 0);
        int no = 0, count = 0;
        bool part = bl_gguf_part_name((bl_span){entry->d_name, strlen(entry->d_name)}, &stem, &no, &count);
        snprintf(name, sizeof name, "%.*s", (int)stem, entry->d_name);
        if (bl_model_name_ok(name) && (!file || !has_file(folder, name, "", S_IFDIR)) &&
            (!part || is_first_part(folder, name, no, count)))
            each(arg, name);
    }
    if (list != NULL)
        closedir(list);
}
