/* SPDX-License-Identifier: MIT */
/* `beamline push`: store files as blobs under their SHA-256.  Bytes that the server already has are not sent again. */
#include "server/command/command.h"

#include "engine/base/clock.h"
#include "proto/data.h"
#include "proto/encode.h"
#include "server/command/terminal.h"
#include "server/data/file_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TRIES = 5 };
static const int64_t show_ns = 200 * 1000000;

typedef struct push {
    bl_call *call;
    const char *path;
    char digest[7 + BL_SHA256_HEX + 1]; /* for instance "sha256:..." */
    int fd;
    int64_t bytes, from, shown_ns;
    bool terminal;
} push;

static bl_status push_open_file(push *p, bl_err *err)
{
    struct stat st;
    p->fd = open(p->path, O_RDONLY | O_CLOEXEC);
    if (p->fd < 0 || fstat(p->fd, &st) != 0)
        return bl_fail(err, BL_ENOTFOUND, "%.300s cannot be opened: %s", p->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return bl_fail(err, BL_EINVAL, "%.300s is not a file", p->path);
    p->bytes = st.st_size;
    return BL_OK;
}

static bl_status digest_file(push *p, bl_err *err)
{
    bl_err why = {0};
    (void)snprintf(p->digest, sizeof p->digest, "sha256:");
    if (bl_file_hash(p->fd, GNUTLS_DIG_SHA256, (bl_span){0}, p->digest + 7, &why) == BL_OK)
        return BL_OK;
    return bl_fail(err, why.status, "%.300s: %s", p->path, why.text);
}

static void show_progress(void *arg, int64_t sent)
{
    push *p = arg;
    bl_text line = {0};
    int64_t now = bl_clock_ns(), done = p->from + sent;
    if (!p->terminal || (done < p->bytes && now - p->shown_ns < show_ns))
        return;
    p->shown_ns = now;
    bl_text_puts(&line, "\r\033[K");
    bl_text_put_safe(&line, p->path);
    bl_text_puts(&line, "  ");
    bl_text_put_bytes(&line, (double)done);
    bl_text_puts(&line, " of ");
    bl_text_put_bytes(&line, (double)p->bytes);
    (void)fprintf(stderr, "%s%s", bl_text_get(&line), done == p->bytes ? "\n" : "");
    bl_text_fini(&line);
}

/* Ask how many bytes of the blob the server has. */
static bl_status ask_received(push *p, const char *path, bl_err *err)
{
    char range[64];
    bl_ask_request request = {.method = "PUT", .path = path, .header = range, .seconds = BL_ASK_SECONDS};
    cJSON *answer = NULL;
    (void)snprintf(range, sizeof range, "Content-Range: bytes */%lld", (long long)p->bytes);
    BL_TRY(bl_ask_send(&p->call->ask, &request, err));
    BL_TRY(bl_ask_document(&p->call->ask, &answer, err));
    p->from = (int64_t)bl_answer_number(answer, "received", 0);
    cJSON_Delete(answer);
    return p->from >= 0 && p->from <= p->bytes ? BL_OK
                                               : bl_fail(err, BL_EINVAL, "the server has a file %s of another size", p->digest);
}

static bl_status send_rest(push *p, const char *path, bl_err *err)
{
    char range[96];
    bl_ask_request request = {.method = "PUT",
                              .path = path,
                              .media = "application/octet-stream",
                              .header = range,
                              .fd = p->fd,
                              .from = p->from,
                              .bytes = p->bytes - p->from,
                              .sent = show_progress,
                              .arg = p};
    (void)snprintf(range, sizeof range, "Content-Range: bytes %lld-%lld/%lld", (long long)p->from, (long long)p->bytes - 1,
                   (long long)p->bytes);
    return bl_ask_send(&p->call->ask, &request, err);
}

/* Send an empty file, which has no range. */
static bl_status send_nothing(push *p, const char *path, bl_err *err)
{
    bl_ask_request request = {.method = "PUT", .path = path, .media = "application/octet-stream", .body = BL_S("")};
    return bl_ask_send(&p->call->ask, &request, err);
}

/* Send the blob until it is complete. After a broken connection, resume at the byte that the server needs next. */
static bl_status send_blob(push *p, bl_err *err)
{
    bl_text path = {0};
    bl_status st = BL_EBUSY;
    bool reached = false;
    bl_ask_path(&path, "/api/v1/blobs/", p->digest, "");
    for (int tries = 0; st != BL_OK; tries++) {
        bl_err failure = {0};
        st = p->bytes > 0 ? ask_received(p, bl_text_get(&path), &failure) : send_nothing(p, bl_text_get(&path), &failure);
        reached = reached || st == BL_OK;
        if (st == BL_OK && p->from < p->bytes)
            st = send_rest(p, bl_text_get(&path), &failure);
        if (st == BL_OK)
            break;
        if (!p->call->ask.silent || !reached || tries + 1 == MOST_TRIES) {
            *err = failure;
            break;
        }
        (void)sleep(1U << tries);
    }
    bl_text_fini(&path);
    return st;
}

/* ---- a held tensor */

static bl_status push_make_tensor(push *p, const char *name, bl_err *err)
{
    bl_data_format format = bl_data_format_of(p->path);
    bl_text path = {0}, body = {0};
    bl_ask_request request = {.method = "PUT"};
    if (format == BL_DATA_FORMATS || format == BL_DATA_RAW)
        return bl_fail(err, BL_EINVAL,
                       "%.200s is not the name of a tensor file; it must end with .npy, .safetensors, .csv, .idx or -ubyte",
                       p->path);
    bl_text_printf(&body, "{\"blob\": \"%s\", \"format\": \"%s\"", p->digest, bl_data_format_names[format]);
    if (format == BL_DATA_SAFETENSORS) {
        bl_text_puts(&body, ", \"name\": ");
        bl_encode_string(&body, name);
    }
    bl_text_puts(&body, "}");
    bl_ask_path(&path, "/api/v1/tensors/", name, "");
    request.path = bl_text_get(&path);
    request.body = (bl_span){bl_text_get(&body), body.len};
    bl_status st = bl_ask_send(&p->call->ask, &request, err);
    bl_text_fini(&path);
    bl_text_fini(&body);
    return st;
}

static bl_status push_file(bl_call *call, const char *path, bl_err *err)
{
    push p = {.call = call, .path = path, .fd = -1, .terminal = isatty(STDERR_FILENO)};
    bl_status st = push_open_file(&p, err);
    if (st == BL_OK)
        st = digest_file(&p, err);
    if (st == BL_OK)
        st = send_blob(&p, err);
    if (st == BL_OK && bl_call_has(call, "tensor"))
        st = push_make_tensor(&p, bl_call_text(call, "tensor"), err);
    if (st == BL_OK && bl_call_has(call, "json"))
        (void)bl_call_print_json(bl_text_get(&call->ask.body));
    else if (st == BL_OK)
        printf("%s  %s\n", p.digest, path);
    if (p.fd >= 0)
        close(p.fd);
    return st;
}

bl_status bl_command_push(bl_call *call, bl_err *err)
{
    if (bl_call_has(call, "tensor") && call->noperands > 1)
        return bl_call_misuse(call, err, "--tensor names the tensor of one file, but %d files are given", call->noperands);
    BL_TRY(bl_call_connect(call, err));
    for (int i = 0; i < call->noperands; i++)
        BL_TRY(push_file(call, call->operands[i], err));
    return BL_OK;
}
