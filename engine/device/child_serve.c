/* SPDX-License-Identifier: MIT */
/* The child's side of the protocol: reads requests and writes answers until the pipe closes. */
#include "engine/device/child.h"

#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/device/message.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_DEVICES = 16 };

typedef struct serving {
    int in, out;
    int nbackends;
    const bl_backend *const *backends;
    bool *opened;
    bl_device *devices[MAX_DEVICES];
    uint32_t ndevices;
} serving;

/* ---- devices: a back end is opened when a request first names one of its devices */

static void child_serve_open_backend(serving *s, const bl_backend *backend)
{
    bl_text why = {0};
    bl_err err = {0};
    uint32_t count = 0;

    if (backend->open(MAX_DEVICES - s->ndevices, s->devices + s->ndevices, &count, &why, &err) == BL_OK)
        s->ndevices += count;
    else
        bl_log(BL_LOG_WARN, "in a child: %s: %s", backend->name, err.text);
    bl_text_fini(&why);
}

static bl_device *find_device(serving *s, const char *id)
{
    size_t name = strcspn(id, ":");

    for (int i = 0; i < s->nbackends; i++) {
        if (!s->opened[i] && strlen(s->backends[i]->name) == name && memcmp(s->backends[i]->name, id, name) == 0) {
            s->opened[i] = true;
            child_serve_open_backend(s, s->backends[i]);
        }
    }
    for (uint32_t i = 0; i < s->ndevices; i++) {
        if (strcmp(s->devices[i]->info.id, id) == 0)
            return s->devices[i];
    }
    return NULL;
}

/* ---- requests.  An answer says whether the device exists. If the device exists, the answer has the results. */

static bool child_serve_compile(bl_device *dev, bl_message_reader *in, bl_text *out)
{
    uint32_t n = bl_message_take_count(in, BL_MESSAGE_MOST_ITEMS);
    bl_kernel_source *sources = bl_calloc((size_t)n + 1, sizeof *sources);
    bl_err *outcomes = bl_calloc((size_t)n + 1, sizeof *outcomes);
    bool good = sources != NULL && outcomes != NULL;

    for (uint32_t i = 0; i < n && good; i++)
        bl_message_take_source(in, &sources[i]);
    good = good && bl_message_is_whole(in);
    if (good) {
        bl_kernels_compile(dev, n, sources, outcomes);
        for (uint32_t i = 0; i < n; i++)
            bl_message_put_err(out, &outcomes[i]);
    }
    free(sources);
    free(outcomes);
    return good;
}

static bool run_trials(bl_device *dev, bl_message_reader *in, bl_text *out)
{
    bl_trials trials;
    bl_err err = {0};
    bool good;

    bl_message_take_trials(in, &trials);
    good = bl_message_is_whole(in);
    if (good) {
        err.status = bl_trials_run(dev, &trials, &err);
        bl_message_put_err(out, &err);
        bl_message_put_results(out, &trials);
    }
    free(trials.trial);
    return good;
}

/* Answer a request. False if it is malformed; the child then exits. */
static bool child_serve_answer(serving *s, uint32_t kind, bl_message_reader *in, bl_text *out)
{
    size_t len = 0;
    bl_device *dev = find_device(s, bl_message_take_string(in, &len));

    bl_message_put_u32(out, dev != NULL);
    if (dev == NULL)
        return true;
    if (kind == BL_MESSAGE_COMPILE)
        return child_serve_compile(dev, in, out);
    return kind == BL_MESSAGE_TIME && run_trials(dev, in, out);
}

static bool serve_one(serving *s)
{
    bl_message_head head;
    bl_text out = {0};
    char *body = NULL;
    bool good = bl_read_all(s->in, &head, sizeof head) && bl_message_is_head(&head);

    if (good)
        good = (body = malloc((size_t)head.len + 1)) != NULL && bl_read_all(s->in, body, (size_t)head.len);
    if (good) {
        bl_message_begin(&out, head.kind);
        good = child_serve_answer(s, head.kind, &(bl_message_reader){.at = body, .left = (size_t)head.len}, &out);
        bl_message_end(&out);
        good = good && !out.failed && bl_write_all(s->out, out.data, out.len);
    }
    free(body);
    bl_text_fini(&out);
    return good;
}

/* ---- the process */

/* Exit when the server closes its end of the pipe, even while the driver compiles. */
static void *watch_pipe(void *arg)
{
    struct pollfd end = {.fd = *(const int *)arg};

    for (;;) {
        if (poll(&end, 1, -1) > 0 && (end.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
            _exit(EXIT_SUCCESS);
    }
    return NULL;
}

/* Drivers print to the standard files and start processes (PoCL starts a linker), so move the pipes to other descriptors
 * that processes do not inherit. */
static bool take_files(serving *s, int in, int out)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

    s->in = fcntl(in, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    s->out = fcntl(out, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (nothing < 0 || s->in < 0 || s->out < 0)
        return false;
    dup2(nothing, in);
    dup2(out == STDOUT_FILENO ? STDERR_FILENO : nothing, out);
    return true;
}

static void limit_self(void)
{
    struct rlimit none = {0, 0};
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    (void)setrlimit(RLIMIT_CORE, &none); /* a crash of the compiler is expected, and its core dump is large */
    if (fd >= 0) {                       /* if memory is short, the kernel should kill this process rather than the server */
        (void)!write(fd, "500", 3);
        close(fd);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, SIG_IGN); /* the server decides when a child ends, so ignore termination signals */
    signal(SIGINT, SIG_IGN);
}

_Noreturn void bl_child_serve(int in, int out, int nbackends, const bl_backend *const *backends)
{
    serving s = {.nbackends = nbackends, .backends = backends};
    bl_text hello = {0};
    pthread_t watcher;
    bool good;

    limit_self();
    s.opened = bl_calloc((size_t)nbackends + 1, sizeof *s.opened);
    good = s.opened != NULL && take_files(&s, in, out) && pthread_create(&watcher, NULL, watch_pipe, &s.in) == 0;
    if (good) {
        bl_message_begin(&hello, BL_MESSAGE_HELLO);
        bl_message_end(&hello);
        good = !hello.failed && bl_write_all(s.out, hello.data, hello.len);
        bl_text_fini(&hello);
        while (good)
            good = serve_one(&s);
    }
    _exit(EXIT_SUCCESS); /* skip the drivers' exit handlers, which may wait for a hung compiler */
}
