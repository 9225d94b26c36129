/* SPDX-License-Identifier: MIT */
/* `beamline pull`: downloads a language model from a hub into a folder of models.  The files are in MODELS/.NAME.part until
 * all files are complete and their sizes and hashes match the hub's list; then the folder is renamed to MODELS/NAME.  A
 * later pull of the same model resumes an interrupted pull.  Only this command downloads: no request to a server starts a
 * download. */
#include "server/command/pull.h"

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "server/command/command.h"
#include "server/data/file_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { SPARE = 64 << 20 /* bytes of the disk that must stay free */, MILLION = 1000000 };

typedef struct pull {
    bl_hub hub;
    const char *models, *as;
    char folder[4400], staging[4400];
    const bl_hub_file *file; /* the file that is being downloaded */
    int64_t shown_ns;
    bool terminal;
} pull;

/* ---- progress */

static void pull_show(void *arg, int64_t bytes)
{
    pull *p = arg;
    int64_t now = bl_clock_ns();
    bool done = bytes == p->file->size;
    if (!p->terminal ? !done : !done && now - p->shown_ns < 200 * (int64_t)MILLION)
        return;
    p->shown_ns = now;
    fprintf(stderr, "%s%s  %.1f of %.1f MB%s", p->terminal ? "\r" : "", bl_hub_base(p->file), (double)bytes / MILLION,
            (double)p->file->size / MILLION, done || !p->terminal ? "\n" : "");
}

/* Check size and hash of a file against the hub's list. */
static bl_status check_file(int fd, const bl_hub_file *file, bl_err *err)
{
    char hex[BL_FILE_HASH_HEX + 1], head[64];
    struct stat st;
    bool lfs = file->sha256[0] != '\0';
    const char *wanted = lfs ? file->sha256 : file->oid;
    if (fstat(fd, &st) != 0 || st.st_size != file->size)
        return bl_fail(err, BL_EINVAL, "%s does not have the size that the hub reports; pull it again", bl_hub_base(file));
    if (wanted[0] == '\0')
        return bl_fail(err, BL_EINVAL, "the hub has no hash of %s", bl_hub_base(file));
    int n = snprintf(head, sizeof head, "blob %lld", (long long)file->size);
    BL_TRY(bl_file_hash(fd, lfs ? GNUTLS_DIG_SHA256 : GNUTLS_DIG_SHA1, (bl_span){head, lfs ? 0 : (size_t)n + 1}, hex, err));
    if (strcmp(hex, wanted) != 0)
        return bl_fail(err, BL_EINVAL, "%s has the %s %s, but the hub reports %s; the file was deleted, pull it again",
                       bl_hub_base(file), lfs ? "sha256" : "git hash", hex, wanted);
    return BL_OK;
}

/* ---- files */

static bool pull_path_of(char *out, size_t size, const char *folder, const char *name, const char *end)
{
    int n = snprintf(out, size, "%s/%s%s", folder, name, end);
    return n > 0 && (size_t)n < size;
}

static bl_status fetch_file(pull *p, const bl_hub_file *file, bl_err *err)
{
    char part[4700], whole[4700];
    struct stat st = {0};
    if (!pull_path_of(part, sizeof part, p->staging, bl_hub_base(file), ".part") ||
        !pull_path_of(whole, sizeof whole, p->staging, bl_hub_base(file), ""))
        return bl_fail(err, BL_EINVAL, "the path of %s is too long", bl_hub_base(file));
    if (stat(whole, &st) == 0 && st.st_size == file->size)
        return BL_OK; /* the hash was checked before the file got this name */
    int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0)
            close(fd);
        return bl_fail(err, BL_ESTORAGE, "%.200s cannot be written: %s", part, strerror(errno));
    }
    p->file = file;
    bl_status status = bl_hub_fetch(&p->hub, file, fd, st.st_size <= file->size ? st.st_size : 0, pull_show, p, err);
    if (status == BL_OK) {
        status = check_file(fd, file, err);
        if (status != BL_OK)
            (void)unlink(part);
    }
    if (status == BL_OK && (fsync(fd) != 0 || rename(part, whole) != 0))
        status = bl_fail(err, BL_ESTORAGE, "%.200s cannot be written: %s", whole, strerror(errno));
    close(fd);
    return status;
}

/* Create the folder of a file that is in a sub-folder of the model. */
static bl_status make_folder_of(const pull *p, const bl_hub_file *file, bl_err *err)
{
    const char *base = bl_hub_base(file), *slash = strchr(base, '/');
    char path[4700];
    int n = slash != NULL ? snprintf(path, sizeof path, "%s/%.*s", p->staging, (int)(slash - base), base) : 0;
    if (n < 0 || (size_t)n >= sizeof path)
        return bl_fail(err, BL_EINVAL, "the path of %s is too long", base);
    return n == 0 || mkdir(path, 0755) == 0 || errno == EEXIST
               ? BL_OK
               : bl_fail(err, BL_ESTORAGE, "%.300s cannot be made: %s", path, strerror(errno));
}

/* Check that the disk has room for the missing bytes. */
static bl_status check_space(const pull *p, bl_err *err)
{
    int64_t wanted = SPARE;
    struct statvfs disk;
    for (size_t i = 0; i < p->hub.count; i++) {
        char path[4700];
        struct stat st;
        int64_t there = 0;
        if (!p->hub.files[i].chosen)
            continue;
        for (int k = 0; k < 2; k++) {
            if (pull_path_of(path, sizeof path, p->staging, bl_hub_base(&p->hub.files[i]), k == 0 ? "" : ".part") &&
                stat(path, &st) == 0)
                there += st.st_size;
        }
        if (__builtin_add_overflow(wanted, p->hub.files[i].size > there ? p->hub.files[i].size - there : 0, &wanted))
            wanted = INT64_MAX;
    }
    if (statvfs(p->models, &disk) != 0)
        return bl_fail(err, BL_ESTORAGE, "%.300s: %s", p->models, strerror(errno));
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    return (double)wanted <= room ? BL_OK
                                  : bl_fail(err, BL_ESTORAGE, "the model takes %.1f MB, but the disk of %.200s has %.1f MB free",
                                            (double)wanted / MILLION, p->models, room / MILLION);
}

static bl_status pull_make_folders(pull *p, bl_err *err)
{
    struct stat st;
    const char *name = p->as != NULL ? p->as : strchr(p->hub.name.repository, '/') + 1;
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    char hidden[256];
    if (len == 0 || len > 100 || name[len] != '\0' || name[0] == '.' || name[0] == '-')
        return bl_fail(err, BL_EINVAL, "\"%.100s\" cannot be the name of a model; --as NAME gives it another", name);
    (void)snprintf(hidden, sizeof hidden, ".%s.part", name);
    if (!pull_path_of(p->folder, sizeof p->folder, p->models, name, "") ||
        !pull_path_of(p->staging, sizeof p->staging, p->models, hidden, ""))
        return bl_fail(err, BL_EINVAL, "the path of the folder is too long");
    if (lstat(p->folder, &st) == 0)
        return bl_fail(err, BL_ECONFLICT, "%.300s exists already; --as NAME fetches it under another name", p->folder);
    if (mkdir(p->staging, 0755) != 0 && errno != EEXIST)
        return bl_fail(err, BL_ESTORAGE, "%.300s cannot be made: %s", p->staging, strerror(errno));
    return BL_OK;
}

/* Remove files of an earlier pull that this choice does not include. */
static void pull_drop_others(const pull *p)
{
    for (size_t i = 0; i < p->hub.count; i++) {
        char path[4700];
        const char *base = bl_hub_base(&p->hub.files[i]);
        bool chosen = p->hub.files[i].chosen;
        for (size_t k = 0; k < p->hub.count && !chosen; k++)
            chosen = p->hub.files[k].chosen && strcmp(bl_hub_base(&p->hub.files[k]), base) == 0;
        for (int k = 0; k < 2 && !chosen && base[0] != '\0' && base[0] != '.'; k++) {
            if (pull_path_of(path, sizeof path, p->staging, base, k == 0 ? "" : ".part"))
                (void)unlink(path);
        }
    }
}

static bl_status fetch_model(pull *p, bl_err *err)
{
    BL_TRY(bl_hub_list(&p->hub, err));
    BL_TRY(bl_hub_choose(&p->hub, err));
    BL_TRY(pull_make_folders(p, err));
    BL_TRY(check_space(p, err));
    pull_drop_others(p);
    for (size_t i = 0; i < p->hub.count; i++) {
        if (!p->hub.files[i].chosen)
            continue;
        BL_TRY(make_folder_of(p, &p->hub.files[i], err));
        BL_TRY(fetch_file(p, &p->hub.files[i], err));
    }
    if (rename(p->staging, p->folder) != 0 || !bl_file_sync_folder(p->folder))
        return bl_fail(err, BL_ESTORAGE, "%.300s cannot be made: %s", p->folder, strerror(errno));
    printf("%s\n", p->folder);
    return BL_OK;
}

bl_status bl_command_pull(bl_call *call, bl_err *err)
{
    const char *given = getenv("HF_ENDPOINT");
    static const char usual[] = "https://huggingface.co";
    char endpoint[500];
    pull p = {.hub = {.endpoint = endpoint, .token = getenv("HF_TOKEN")},
              .models = bl_call_text(call, "to"),
              .as = bl_call_text(call, "as"),
              .terminal = isatty(STDERR_FILENO)};
    (void)snprintf(endpoint, sizeof endpoint, "%s", given != NULL && *given != '\0' ? given : usual);
    for (size_t len = strlen(endpoint); len > 0 && endpoint[len - 1] == '/'; len--)
        endpoint[len - 1] = '\0';
    if (p.models == NULL)
        return bl_call_misuse(call, err, "option \"--to MODELS\" is missing: the folder of models");
    bl_status st = bl_pull_name_parse(call->operands[0], &p.hub.name, err);
    call->misused = st != BL_OK;
    if (st == BL_OK)
        st = fetch_model(&p, err);
    if (st != BL_OK && p.terminal)
        fputs("\n", stderr); /* end the line of progress */
    bl_hub_fini(&p.hub);
    return st;
}
