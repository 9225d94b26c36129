/* SPDX-License-Identifier: MIT */
#include "server/command/pull.h"

#include "engine/base/file.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LIST = 64 << 20, MOST_PAGES = 1000, MOST_REDIRECTS = 5, CONNECT_SECONDS = 30, SILENT_SECONDS = 60, TRIES = 4 };

/* ---- the name */

static bool pull_hub_is_name(const char *text, size_t len, const char *more)
{
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && strchr(more, text[i]) == NULL)
            return false;
    }
    return len > 0 && text[0] != '.' && text[0] != '/' && text[0] != '-';
}

static bool copy_part(char *out, size_t size, const char *from, const char *to)
{
    size_t len = (size_t)(to - from);
    if (len >= size)
        return false;
    memcpy(out, from, len);
    out[len] = '\0';
    return true;
}

bl_status bl_pull_name_parse(const char *text, bl_pull_name *out, bl_err *err)
{
    const char *name = strncmp(text, "hf:", 3) == 0 ? text + 3 : NULL;
    *out = (bl_pull_name){.revision = "main"};
    if (name == NULL)
        return bl_fail(err, BL_EINVAL, "\"%.200s\" is not a model of a hub; it must be hf:ORG/NAME[@REV][:FILE]", text);
    size_t len = strcspn(name, "@:");
    const char *slash = memchr(name, '/', len), *rest = name + len;
    bool fits = slash != NULL && pull_hub_is_name(name, (size_t)(slash - name), "._-") &&
                pull_hub_is_name(slash + 1, len - (size_t)(slash + 1 - name), "._-") &&
                copy_part(out->repository, sizeof out->repository, name, rest);
    if (fits && *rest == '@') {
        len = strcspn(++rest, ":");
        fits = pull_hub_is_name(rest, len, "._-/") && strstr(rest, "..") == NULL &&
               copy_part(out->revision, sizeof out->revision, rest, rest + len);
        rest += len;
    }
    if (fits && *rest == ':') {
        rest++;
        fits = pull_hub_is_name(rest, strlen(rest), "._-/") && copy_part(out->file, sizeof out->file, rest, rest + strlen(rest));
        rest += strlen(rest);
    }
    return fits && *rest == '\0'
               ? BL_OK
               : bl_fail(err, BL_EINVAL,
                         "\"%.200s\" does not have the form hf:ORG/NAME[@REV][:FILE], of letters, digits, '.', '_' and '-'",
                         text);
}

/* ---- requests to the hub */

typedef struct reply {
    bl_text *body; /* gets the body of a list; NULL: the request is for a file */
    int fd;        /* gets the bytes of a file */
    int64_t have, most;
    bool is_file, full, cannot_write;
    char next[1000]; /* URL of the next page of a list */
    void (*show)(void *arg, int64_t bytes);
    void *arg;
    CURL *curl;
} reply;

static size_t pull_hub_on_body(char *data, size_t size, size_t n, void *arg)
{
    reply *r = arg;
    long status = 0;
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300)
        return size * n; /* the body is the text of an error or of a redirect, so drop it */
    if (r->is_file) {
        if ((int64_t)(size * n) > r->most - r->have)
            return 0; /* the file is longer than in the hub's list, so end the download */
        r->cannot_write = !bl_write_all(r->fd, data, size * n);
        r->have += (int64_t)(size * n);
        r->show(r->arg, r->have);
        return r->cannot_write ? 0 : size * n;
    }
    r->full = r->body->len + size * n > MOST_LIST;
    if (!r->full)
        bl_text_append(r->body, data, size * n);
    return r->full || r->body->failed ? 0 : size * n;
}

/* Read the header: Link: <URL>; rel="next" */
static size_t pull_hub_on_header(char *data, size_t size, size_t n, void *arg)
{
    reply *r = arg;
    size_t len = size * n;
    if (len > 6 && strncasecmp(data, "link:", 5) == 0 && memmem(data, len, "rel=\"next\"", 10) != NULL) {
        const char *open = memchr(data, '<', len), *close = open != NULL ? memchr(open, '>', len - (size_t)(open - data)) : NULL;
        if (close != NULL)
            (void)copy_part(r->next, sizeof r->next, open + 1, close);
    }
    return len;
}

static struct curl_slist *set_up(const bl_hub *hub, reply *r, const char *url)
{
    const char *certificates = getenv("SSL_CERT_FILE");
    struct curl_slist *headers = NULL;
    bl_text header = {0};
    curl_easy_reset(r->curl);
    curl_easy_setopt(r->curl, CURLOPT_URL, url);
    curl_easy_setopt(r->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(r->curl, CURLOPT_REDIR_PROTOCOLS_STR, strncmp(hub->endpoint, "https:", 6) == 0 ? "https" : "http,https");
    curl_easy_setopt(r->curl, CURLOPT_FOLLOWLOCATION, 1L); /* libcurl does not send the token to other hosts */
    curl_easy_setopt(r->curl, CURLOPT_MAXREDIRS, (long)MOST_REDIRECTS);
    curl_easy_setopt(r->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(r->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(r->curl, CURLOPT_LOW_SPEED_TIME, (long)SILENT_SECONDS);
    curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, pull_hub_on_body);
    curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(r->curl, CURLOPT_HEADERFUNCTION, pull_hub_on_header);
    curl_easy_setopt(r->curl, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(r->curl, CURLOPT_USERAGENT, "beamline");
    if (certificates != NULL)
        curl_easy_setopt(r->curl, CURLOPT_CAINFO, certificates);
    if (hub->token != NULL && *hub->token != '\0') {
        bl_text_printf(&header, "Authorization: Bearer %s", hub->token);
        headers = curl_slist_append(NULL, bl_text_get(&header));
        curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, headers);
    }
    bl_text_fini(&header);
    return headers;
}

static bl_status pull_hub_explain(const bl_hub *hub, const reply *r, CURLcode code, bl_err *err)
{
    long status = 0;
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (r->cannot_write)
        return bl_fail(err, BL_ESTORAGE, "the file cannot be written");
    if (r->full)
        return bl_fail(err, BL_ELIMIT, "the list of %s is too long", hub->name.repository);
    if (status == 401 || status == 403)
        return bl_fail(err, BL_EAUTH,
                       "the hub refuses %s (%ld): set HF_TOKEN to a token that may read it, and accept its licence there",
                       hub->name.repository, status);
    if (status == 404)
        return bl_fail(err, BL_ENOTFOUND, "the hub has no %s at %s", hub->name.repository, hub->name.revision);
    if (status >= 300)
        return bl_fail(err, BL_EINVAL, "the hub answers with status %ld", status);
    return code == CURLE_OK ? BL_OK : bl_fail(err, BL_EBUSY, "no answer from the hub: %s", curl_easy_strerror(code));
}

/* ---- the list */

static void pull_hub_copy_text(char *out, size_t size, const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
    out[0] = '\0';
    if (cJSON_IsString(value) && strlen(value->valuestring) == size - 1 &&
        strspn(value->valuestring, "0123456789abcdef") == size - 1)
        memcpy(out, value->valuestring, size);
}

static bl_status take_page(bl_hub *hub, const char *text, bl_err *err)
{
    cJSON *page = cJSON_Parse(text);
    const cJSON *entry = NULL;
    bl_status st = cJSON_IsArray(page) ? BL_OK : bl_fail(err, BL_EINVAL, "the hub's list of files is not a JSON array");
    cJSON_ArrayForEach(entry, page)
    {
        const cJSON *type = cJSON_GetObjectItemCaseSensitive(entry, "type"),
                    *path = cJSON_GetObjectItemCaseSensitive(entry, "path");
        const cJSON *size = cJSON_GetObjectItemCaseSensitive(entry, "size"),
                    *lfs = cJSON_GetObjectItemCaseSensitive(entry, "lfs");
        if (st != BL_OK || !cJSON_IsString(type) || strcmp(type->valuestring, "file") != 0 || !cJSON_IsString(path) ||
            !cJSON_IsNumber(size))
            continue;
        bl_hub_file *files = realloc(hub->files, (hub->count + 1) * sizeof *files);
        if (files == NULL) {
            st = bl_fail(err, BL_ENOMEM, "out of host memory for the list of files");
            continue;
        }
        hub->files = files;
        bl_hub_file *file = &files[hub->count];
        *file = (bl_hub_file){.path = strdup(path->valuestring), .size = (int64_t)size->valuedouble};
        pull_hub_copy_text(file->sha256, sizeof file->sha256, lfs, "oid");
        pull_hub_copy_text(file->oid, sizeof file->oid, entry, "oid");
        hub->count += file->path != NULL;
    }
    cJSON_Delete(page);
    return st;
}

static bl_status pull_hub_list_page(bl_hub *hub, reply *r, char *url, size_t size, bl_err *err)
{
    struct curl_slist *headers = set_up(hub, r, url);
    r->next[0] = '\0';
    bl_text_clear(r->body);
    bl_status st = pull_hub_explain(hub, r, curl_easy_perform(r->curl), err);
    curl_slist_free_all(headers);
    if (st == BL_OK)
        st = take_page(hub, bl_text_get(r->body), err);
    if (r->next[0] != '\0' && strncmp(r->next, hub->endpoint, strlen(hub->endpoint)) != 0)
        st = bl_fail(err, BL_EINVAL, "the hub's list continues at another address: %.200s", r->next);
    (void)snprintf(url, size, "%s", r->next);
    return st;
}

bl_status bl_hub_list(bl_hub *hub, bl_err *err)
{
    bl_text body = {0};
    reply r = {.body = &body, .fd = -1, .curl = curl_easy_init()};
    char url[1400];
    bl_status st = r.curl != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for libcurl");
    (void)snprintf(url, sizeof url, "%s/api/models/%s/tree/%s?recursive=true", hub->endpoint, hub->name.repository,
                   hub->name.revision);
    for (int page = 0; st == BL_OK && url[0] != '\0'; page++)
        st = page < MOST_PAGES ? pull_hub_list_page(hub, &r, url, sizeof url, err)
                               : bl_fail(err, BL_ELIMIT, "the hub's list does not end");
    curl_easy_cleanup(r.curl);
    bl_text_fini(&body);
    return st;
}

/* ---- the choice */

static const char pooling_path[] = "1_Pooling/config.json"; /* the only file of a model that is in a sub-folder */

const char *bl_hub_base(const bl_hub_file *file)
{
    if (strcmp(file->path, pooling_path) == 0)
        return file->path;
    const char *slash = strrchr(file->path, '/');
    return slash != NULL ? slash + 1 : file->path;
}

static bool pull_hub_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

/* The length of the name before "-00002-of-00005.gguf", or 0. */
static size_t split_stem(const char *base)
{
    size_t len = strlen(base);
    return len > 20 && pull_hub_ends_with(base, ".gguf") && base[len - 20] == '-' && memcmp(base + len - 14, "-of-", 4) == 0
               ? len - 20
               : 0;
}

static bool is_weights(const bl_hub_file *file)
{
    return pull_hub_ends_with(file->path, ".gguf") && strncasecmp(bl_hub_base(file), "mmproj", 6) != 0;
}

/* Does |base| contain |word| between characters other than letters and digits? */
static bool pull_hub_has_word(const char *base, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = base; (at = strcasestr(at, word)) != NULL; at++) {
        if ((at == base || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[len]) && at[len] != '_')
            return true;
    }
    return false;
}

/* Do the files belong to one model: the same file, or parts of one split file? */
static bool belongs(const bl_hub_file *one, const bl_hub_file *other)
{
    size_t stem = split_stem(one->path);
    return one == other || (stem > 0 && split_stem(other->path) == stem && strncmp(one->path, other->path, stem) == 0);
}

/* Find the GGUF file with this path, or with this word in its name; *several: there is more than one such file. */
static const bl_hub_file *choose_gguf(const bl_hub *hub, const char *word, bool *several)
{
    const bl_hub_file *found = NULL;
    *several = false;
    for (size_t i = 0; i < hub->count; i++) {
        const bl_hub_file *file = &hub->files[i];
        bool fits =
            strcmp(file->path, word) == 0 || (is_weights(file) && (*word == '\0' || pull_hub_has_word(bl_hub_base(file), word)));
        if (fits && found != NULL && !belongs(found, file))
            *several = true;
        if (fits && found == NULL)
            found = file;
        if (strcmp(file->path, word) == 0) {
            *several = false;
            return file;
        }
    }
    return found;
}

static bl_status fail_choice(const bl_hub *hub, const char *why, bl_err *err)
{
    bl_text names = {0};
    for (size_t i = 0; i < hub->count && names.len < 350; i++) {
        if (is_weights(&hub->files[i]) && strlen(hub->files[i].path) < 100)
            bl_text_printf(&names, " %s", hub->files[i].path);
    }
    bl_status st = bl_fail(err, BL_EINVAL, "%s%s; it has:%.400s", why, hub->name.file[0] != '\0' ? hub->name.file : "",
                           names.len > 0 ? bl_text_get(&names) : " no .gguf");
    bl_text_fini(&names);
    return st;
}

static bool is_part_of_folder(const bl_hub_file *file)
{
    static const char *const names[] = {"config.json",         "generation_config.json",
                                        "tokenizer.json",      "tokenizer_config.json",
                                        "chat_template.jinja", "model.safetensors.index.json",
                                        "added_tokens.json",   "special_tokens_map.json",
                                        "modules.json",        pooling_path};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(file->path, names[i]) == 0)
            return true;
    }
    return strchr(file->path, '/') == NULL && pull_hub_ends_with(file->path, ".safetensors");
}

static bl_status pull_hub_choose_folder(bl_hub *hub, bl_err *err)
{
    bool config = false, tensors = false;
    for (size_t i = 0; i < hub->count; i++) {
        bl_hub_file *file = &hub->files[i];
        file->chosen = is_part_of_folder(file);
        config = config || strcmp(file->path, "config.json") == 0;
        tensors = tensors || (file->chosen && pull_hub_ends_with(file->path, ".safetensors"));
    }
    return config && tensors ? BL_OK
                             : fail_choice(hub, "the repository has neither a .gguf file nor config.json with .safetensors", err);
}

static bl_status pull_hub_check_names(const bl_hub *hub, bl_err *err)
{
    for (size_t i = 0; i < hub->count; i++) {
        const bl_hub_file *file = &hub->files[i];
        const char *base = bl_hub_base(file);
        if (!file->chosen)
            continue;
        if ((!pull_hub_is_name(base, strlen(base), "._-") && strcmp(base, pooling_path) != 0) || strlen(base) > 200 ||
            file->size < 0)
            return bl_fail(err, BL_EINVAL, "the hub has a file \"%.100s\"; its name must be letters, digits, '.', '_' and '-'",
                           file->path);
        for (size_t k = 0; k < i; k++) {
            if (hub->files[k].chosen && strcmp(bl_hub_base(&hub->files[k]), base) == 0)
                return bl_fail(err, BL_EINVAL, "the hub has two files \"%.100s\"", base);
        }
    }
    return BL_OK;
}

bl_status bl_hub_choose(bl_hub *hub, bl_err *err)
{
    static const char *const usual[] = {"Q4_K_M", "Q4_0", "Q4_1", "Q5_K_M", "Q8_0", "F16", ""};
    const bl_hub_file *found = NULL;
    bool several = false;
    if (hub->name.file[0] != '\0') {
        found = choose_gguf(hub, hub->name.file, &several);
        if (found == NULL || several)
            return fail_choice(hub, found == NULL ? "the repository has no file " : "the repository has several files ", err);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual && (found == NULL || several) && hub->name.file[0] == '\0'; i++)
        found = choose_gguf(hub, usual[i], &several);
    if (found == NULL)
        BL_TRY(pull_hub_choose_folder(hub, err));
    else if (several)
        return fail_choice(hub, "the repository has several files; name one with :FILE", err);
    for (size_t i = 0; i < hub->count && found != NULL; i++)
        hub->files[i].chosen = belongs(found, &hub->files[i]);
    return pull_hub_check_names(hub, err);
}

/* ---- a file */

static bool make_address(const bl_hub *hub, const bl_hub_file *file, CURL *curl, bl_text *url)
{
    bl_text_printf(url, "%s/%s/resolve/%s", hub->endpoint, hub->name.repository, hub->name.revision);
    for (const char *p = file->path; *p != '\0';) {
        size_t len = strcspn(p, "/");
        char *part = curl_easy_escape(curl, p, (int)len);
        bl_text_printf(url, "/%s", part != NULL ? part : "");
        url->failed = url->failed || part == NULL;
        curl_free(part);
        p += len + (p[len] == '/');
    }
    return !url->failed;
}

bl_status bl_hub_fetch(const bl_hub *hub, const bl_hub_file *file, int fd, int64_t have, void (*show)(void *arg, int64_t bytes),
                       void *arg, bl_err *err)
{
    reply r = {.is_file = true, .fd = fd, .have = have, .most = file->size, .show = show, .arg = arg, .curl = curl_easy_init()};
    bl_text url = {0};
    bl_status st = r.curl != NULL && make_address(hub, file, r.curl, &url)
                       ? BL_OK
                       : bl_fail(err, BL_ENOMEM, "out of host memory for libcurl");
    for (int tries = 0; st == BL_OK && r.have < file->size; tries++) {
        bl_err why = {0};
        int64_t before = r.have;
        if (lseek(fd, r.have, SEEK_SET) < 0 || ftruncate(fd, r.have) != 0) {
            st = bl_fail(err, BL_ESTORAGE, "the file cannot be written");
            break;
        }
        struct curl_slist *headers = set_up(hub, &r, bl_text_get(&url));
        curl_easy_setopt(r.curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)r.have);
        curl_easy_setopt(r.curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)file->size);
        CURLcode code = curl_easy_perform(r.curl);
        curl_slist_free_all(headers);
        if (code == CURLE_RANGE_ERROR) /* the hub ignores the range and sends the whole file again */
            r.have = 0;
        bl_status now = pull_hub_explain(hub, &r, code == CURLE_RANGE_ERROR ? CURLE_PARTIAL_FILE : code, &why);
        tries = r.have > before ? 0 : tries; /* progress resets the count of tries */
        if (now != BL_OK && (now != BL_EBUSY || tries + 1 == TRIES))
            st = bl_fail(err, now, "%s: %s", bl_hub_base(file), why.text);
        else if (now == BL_OK && r.have < file->size)
            st = bl_fail(err, BL_EINVAL, "%s has %lld bytes, but the hub reports %lld", bl_hub_base(file), (long long)r.have,
                         (long long)file->size);
    }
    curl_easy_cleanup(r.curl);
    bl_text_fini(&url);
    return st;
}

void bl_hub_fini(bl_hub *hub)
{
    for (size_t i = 0; i < hub->count; i++)
        free(hub->files[i].path);
    free(hub->files);
    *hub = (bl_hub){0};
}
