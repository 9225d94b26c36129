/* SPDX-License-Identifier: MIT */
/* The Vulkan back end under the validation layer, on every device of the machine: with default settings, with all copies
 * staged, and with staged copies on a transfer queue.  Without a device all tests are skipped; test_vulkan_choose.c has the
 * tests that need no device. */
#include "vulkan/vk_internal.h"

#include "engine/base/fault.h"
#include "tests/device/keep_mapped.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_DEVICES = 8, N = 1024 };

typedef struct fixture {
    bl_device *devices[MAX_DEVICES];
    int staged[MAX_DEVICES]; /* 1: all copies are staged; 2: on a second queue, which is simulated */
    uint32_t count;
    bl_text why;
    char folder[64]; /* folder of the cache */
} fixture;

static void must(bl_status st, const bl_err *err, const char *call, int line)
{
    if (st != BL_OK)
        fail_msg("line %d: %s: %s: %s", line, call, bl_status_name(st), err->text);
}
#define MUST(call) must((call), &err, #call, __LINE__)

#include "tests/device/copies.h"

static void must_fail(bl_status want, bl_status got, const bl_err *err, int line)
{
    if (want != got)
        fail_msg("line %d: %s expected, got %s: %s", line, bl_status_name(want), bl_status_name(got), err->text);
    if (err->text[0] == '\0' || strchr(err->text, '/') != NULL)
        fail_msg("line %d: no sentence, or a path in it: \"%s\"", line, err->text);
}
#define MUST_FAIL(want, call) must_fail((want), (call), &err, __LINE__)

/* y[i] = x[i] * k + j */
static const char scale_text[] = "#version 450\n"
                                 "layout(local_size_x = 64) in;\n"
                                 "layout(std430, set = 0, binding = 0) readonly buffer B0 { int x[]; };\n"
                                 "layout(std430, set = 0, binding = 1) writeonly buffer B1 { int y[]; };\n"
                                 "layout(push_constant) uniform P { int k; int j; };\n"
                                 "void main() { uint i = gl_GlobalInvocationID.x; y[i] = x[i] * k + j; }\n";
/* x[i] += i: in place, without scalars */
static const char count_text[] = "#version 450\n"
                                 "layout(local_size_x = 64) in;\n"
                                 "layout(std430, set = 0, binding = 0) buffer B0 { int x[]; };\n"
                                 "void main() { uint i = gl_GlobalInvocationID.x; x[i] += int(i); }\n";

static bl_kernel_source source_of(const char *entry, const char *text, uint32_t nbuffers, uint32_t nscalars)
{
    return (bl_kernel_source){.entry = entry,
                              .text = text,
                              .len = strlen(text),
                              .nbuffers = nbuffers,
                              .nscalars = nscalars,
                              .writes = 1u << (nbuffers - 1),
                              .local = {64, 1, 1}};
}

static bl_kernel *make_kernel(bl_device *dev, const char *entry, const char *text, uint32_t nbuffers, uint32_t nscalars)
{
    bl_kernel_source source = source_of(entry, text, nbuffers, nscalars);
    bl_kernel *kernel = NULL;
    bl_err err = {0};
    MUST(bl_kernel_create(dev, &source, &kernel, &err));
    return kernel;
}

static bl_buffer *make_buffer(bl_device *dev, const int *values, size_t n)
{
    bl_buffer *buffer = NULL;
    bl_err err = {0};
    MUST(bl_buffer_alloc(dev, n * sizeof(int), &buffer, &err));
    if (values != NULL)
        MUST(bl_buffer_write(buffer, 0, values, n * sizeof(int), &err));
    return buffer;
}

static void check_values(bl_buffer *buffer, const int *want, size_t n, const char *what)
{
    int *got = malloc(n * sizeof *got);
    bl_err err = {0};
    assert_non_null(got);
    MUST(bl_buffer_read(buffer, 0, got, n * sizeof *got, &err));
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("%s: element %zu is %d, not %d", what, i, got[i], want[i]);
    free(got);
}

static size_t count_files(const char *folder, const char *prefix, char *last, size_t cap)
{
    size_t n = 0;
    char path[128];
    snprintf(path, sizeof path, "%s/vulkan", folder);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        if (last != NULL)
            assert_true(snprintf(last, cap, "%s/%s", path, entry->d_name) < (int)cap);
        n++;
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

static void flip_byte(const char *path, off_t at)
{
    unsigned char c = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c ^= 1;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static void for_each(void **state, void (*test)(fixture *, bl_device *))
{
    fixture *f = *state;
    if (f->count == 0) {
        print_message("no Vulkan device: %s", f->why.data != NULL ? f->why.data : "none found\n");
        skip();
    }
    for (uint32_t i = 0; i < f->count; i++) {
        unsigned before = atomic_load(&bl_vk_instance_of(f->devices[i])->messages);
        test(f, f->devices[i]);
        unsigned messages = atomic_load(&bl_vk_instance_of(f->devices[i])->messages) - before;
        if (messages > 0)
            fail_msg("%s%s: %u messages of the validation layer", f->devices[i]->info.name,
                     (const char *[]){"", " (staged)", " (two queues)"}[f->staged[i]], messages);
    }
}

static void are_described(fixture *f, bl_device *dev)
{
    const bl_device_info *i = &dev->info;
    (void)f;
    assert_int_equal(strncmp(i->id, "vulkan:", 7), 0);
    assert_true(i->name[0] != '\0' && i->driver[0] != '\0');
    assert_int_equal(i->dialect, BL_DIALECT_GLSL);
    assert_true(i->memory >= i->max_alloc && i->max_alloc > 0 && i->max_binding >= 128 << 20);
    assert_true(i->alignment >= 4 && i->alignment <= 256 && (i->alignment & (i->alignment - 1)) == 0);
    assert_true(i->units > 0 && i->registers > 0 && i->subgroup > 0 && i->max_local >= 128 && i->local_bytes >= 16384);
    for (int axis = 0; axis < 3; axis++)
        assert_true(i->max_groups[axis] >= 65535);
    if (i->type == BL_DEVICE_CPU)
        assert_int_equal(i->vector_bits, 128);
    else
        assert_int_equal(i->vector_bits, 0);
}

static void buffers_keep_values(fixture *f, bl_device *dev)
{
    /* Sizes in bytes around the slab classes, their end, and the parts of the staging memory; none is a multiple of a word. */
    static const size_t sizes[] = {1, 255, 256, 257, 4095, 262144, 262145, 1000003, (4 << 20) + 5, (9 << 20) + 3};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    bl_buffer *buffers[COUNT];
    bl_err err = {0};
    (void)f;
    for (size_t i = 0; i < COUNT; i++) {
        unsigned char *data = malloc(sizes[i]);
        assert_non_null(data);
        for (size_t j = 0; j < sizes[i]; j++)
            data[j] = (unsigned char)(i * 31 + j * 7 + (j >> 12));
        MUST(bl_buffer_alloc(dev, sizes[i], &buffers[i], &err));
        assert_int_equal(dev->info.host_memory, buffers[i]->host != NULL);
        MUST(bl_buffer_write(buffers[i], 0, data, sizes[i], &err));
        free(data);
    }
    for (size_t i = 0; i < COUNT; i++) {
        size_t from = sizes[i] / 3, n = sizes[i] - from;
        unsigned char *data = malloc(n);
        assert_non_null(data);
        MUST(bl_buffer_read(buffers[i], from, data, n, &err));
        for (size_t j = 0; j < n; j++)
            if (data[j] != (unsigned char)(i * 31 + (from + j) * 7 + ((from + j) >> 12)))
                fail_msg("%zu bytes: byte %zu is %u", sizes[i], from + j, data[j]);
        free(data);
        bl_buffer_release(buffers[i]);
    }
    assert_int_equal(atomic_load(&dev->bytes_used), 0);
}

/* The device counts allocations up to the driver's limit: an allocation over the limit is refused before the driver is called,
 * and a freed allocation makes room. */
static void allocations_are_counted(fixture *f, bl_device *dev)
{
    enum { MORE = 3, LARGE = 1 << 20 };
    bl_vk_device *mine = (bl_vk_device *)dev;
    uint32_t *most = &mine->facts.props.limits.maxMemoryAllocationCount, real = *most;
    unsigned before = atomic_load(&mine->context->allocations);
    bl_buffer *buffers[MORE] = {0}, *extra = NULL;
    bl_err err = {0};
    (void)f;
    *most = before + MORE;
    for (int i = 0; i < MORE; i++)
        MUST(bl_buffer_alloc(dev, LARGE, &buffers[i], &err));
    MUST_FAIL(BL_ENODEVMEM, bl_buffer_alloc(dev, LARGE, &extra, &err));
    assert_non_null(strstr(err.text, "too many allocations"));
    bl_buffer_release(buffers[0]);
    err = (bl_err){0};
    MUST(bl_buffer_alloc(dev, LARGE, &buffers[0], &err));
    for (int i = 0; i < MORE; i++)
        bl_buffer_release(buffers[i]);
    assert_int_equal(atomic_load(&mine->context->allocations), before);
    *most = real;
}

/* A caller may release a buffer directly after a write: the write completes before the memory is reused. */
static void written_buffers_may_go_at_once(fixture *f, bl_device *dev)
{
    enum { LARGE = 6 << 20 }; /* a dedicated allocation, larger than a part of the staging memory */
    char *data = calloc(1, LARGE);
    bl_err err = {0};
    (void)f;
    assert_non_null(data);
    for (int i = 0; i < 4; i++) {
        bl_buffer *buffer = NULL;
        MUST(bl_buffer_alloc(dev, LARGE, &buffer, &err));
        MUST(bl_buffer_write(buffer, 0, data, LARGE, &err));
        bl_buffer_release(buffer);
    }
    free(data);
}

static void small_buffers_are_apart(fixture *f, bl_device *dev)
{
    enum { COUNT = 700 }; /* more than two slabs of 256 */
    static bl_buffer *buffers[COUNT];
    bl_err err = {0};
    (void)f;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            MUST(bl_buffer_alloc(dev, 200, &buffers[i], &err));
            MUST(bl_buffer_write(buffers[i], 196, &i, sizeof i, &err));
        }
        for (int i = 0; i < COUNT; i++) {
            int got = -1, at = round == 0 ? i : COUNT - 1 - i;
            MUST(bl_buffer_read(buffers[at], 196, &got, sizeof got, &err));
            assert_int_equal(got, at);
            bl_buffer_release(buffers[at]);
        }
    }
}

static void copies_are_exact(fixture *f, bl_device *dev)
{
    (void)f;
    check_copies(dev);
}

static void views_share_memory(fixture *f, bl_device *dev)
{
    static int values[N];
    bl_buffer *view = NULL, *inner = NULL;
    bl_err err = {0};
    int got = 0;
    (void)f;
    for (int i = 0; i < N; i++)
        values[i] = i;
    bl_buffer *whole = make_buffer(dev, values, N);
    MUST(bl_buffer_view(whole, 1024, 1024, &view, &err));
    MUST(bl_buffer_view(view, 256, 256, &inner, &err));
    bl_buffer_release(whole); /* the views keep the buffer alive */
    MUST(bl_buffer_read(view, 4, &got, sizeof got, &err));
    assert_int_equal(got, 257);
    values[0] = -5;
    MUST(bl_buffer_write(inner, 0, values, 4, &err));
    MUST(bl_buffer_read(view, 256, &got, sizeof got, &err));
    assert_int_equal(got, -5);
    if (dev->info.host_memory)
        assert_ptr_equal(inner->host, (char *)view->host + 256);
    bl_buffer_release(view);
    bl_buffer_release(inner);
}

/* More variants than the cache keeps, twice in a cycle, so that each variant is recorded, replayed, evicted and recorded
 * again. */
static void recordings_rebind(fixture *f, bl_device *dev)
{
    enum { OUTPUTS = 5, TRIALS = 60 };
    static int input[N], want[N];
    bl_kernel *kernel = make_kernel(dev, "scale", scale_text, 2, 2);
    bl_buffer *outputs[OUTPUTS];
    bl_recording *recording = NULL;
    bl_launch launch = {.kernel = kernel, .slot = {1, 0}, .var = {1, 0}};
    bl_err err = {0};
    (void)f;
    for (int i = 0; i < N; i++)
        input[i] = i - 100;
    bl_buffer *x = make_buffer(dev, input, N);
    memset(want, 0, sizeof want);
    for (int i = 0; i < OUTPUTS; i++)
        outputs[i] = make_buffer(dev, want, N);
    MUST(bl_recording_create(dev, 1, &launch, 2, 2, &recording, &err));
    for (int t = 0; t < TRIALS; t++) {
        const uint32_t groups[1][3] = {{1 + (uint32_t)(t / 2) % 4, 1, 1}};
        int32_t vars[2] = {t % 3, t % 7 - 3};
        bl_buffer *slots[2] = {outputs[t % OUTPUTS], x};
        bl_submission s = {.slots = slots, .vars = vars, .groups = groups};
        memset(want, 0, sizeof want);
        MUST(bl_buffer_write(slots[0], 0, want, sizeof want, &err));
        MUST(bl_recording_submit(recording, &s, &err));
        MUST(bl_recording_submit(recording, &s, &err)); /* replays a recording that may still be in flight */
        MUST(bl_device_wait(dev, &err));
        for (uint32_t i = 0; i < groups[0][0] * 64; i++)
            want[i] = input[i] * vars[1] + vars[0];
        check_values(slots[0], want, N, "scaled");
    }
    bl_recording_destroy(recording);
    for (int i = 0; i < OUTPUTS; i++)
        bl_buffer_release(outputs[i]);
    bl_buffer_release(x);
    bl_kernel_destroy(kernel);
}

/* A new buffer at the driver address of a freed buffer must not be taken for the freed buffer. */
static void new_buffers_are_new(fixture *f, bl_device *dev)
{
    enum { BIG = 300000 };
    bl_kernel *kernel = make_kernel(dev, "count", count_text, 1, 0);
    bl_recording *recording = NULL;
    bl_launch launch = {.kernel = kernel};
    bl_err err = {0};
    int *zeros = calloc(BIG, sizeof *zeros), want[64];
    (void)f;
    assert_non_null(zeros);
    for (int i = 0; i < 64; i++)
        want[i] = i;
    MUST(bl_recording_create(dev, 1, &launch, 1, 0, &recording, &err));
    for (int t = 0; t < 20; t++) {
        static const uint32_t groups[1][3] = {{1, 1, 1}};
        bl_buffer *x = make_buffer(dev, zeros, BIG);
        bl_submission s = {.slots = &x, .groups = groups};
        MUST(bl_recording_submit(recording, &s, &err));
        MUST(bl_device_wait(dev, &err));
        check_values(x, want, 64, "new");
        bl_buffer_release(x);
    }
    free(zeros);
    bl_recording_destroy(recording);
    bl_kernel_destroy(kernel);
}

/* A chain over two overlapping views and a third buffer: each launch reads or overwrites what the launch before wrote. */
static void launches_see_what_came_before(fixture *f, bl_device *dev)
{
    enum { LAUNCHES = 300, SLOTS = 4, SUBMISSIONS = 5 };
    static bl_launch launches[LAUNCHES];
    static uint32_t groups[LAUNCHES][3];
    static int whole[2 * N], other[N];
    int *slot_values[SLOTS] = {whole, whole + N / 2, other, whole + N};
    bl_kernel *kernel = make_kernel(dev, "scale", scale_text, 2, 2);
    bl_buffer *parent, *slots[SLOTS];
    bl_recording *recording = NULL;
    bl_err err = {0};
    int32_t vars[2] = {3, 1};
    unsigned seed = 7;
    (void)f;
    for (int i = 0; i < 2 * N; i++)
        whole[i] = i;
    parent = make_buffer(dev, whole, 2 * N);
    slots[2] = make_buffer(dev, other, N);
    MUST(bl_buffer_view(parent, 0, N * 4, &slots[0], &err));
    MUST(bl_buffer_view(parent, N * 2, N * 4, &slots[1], &err));
    MUST(bl_buffer_view(parent, N * 4, N * 4, &slots[3], &err));
    for (int i = 0; i < LAUNCHES; i++) {
        uint16_t from = (uint16_t)((seed = seed * 1103515245 + 12345) >> 16) % SLOTS, to;
        do {
            to = (uint16_t)((seed = seed * 1103515245 + 12345) >> 16) % SLOTS;
        } while (to == from || (from < 2 && to < 2) || (from + to == 4 && from % 2)); /* a launch does not overlap itself */
        launches[i] = (bl_launch){.kernel = kernel, .slot = {from, to}, .var = {0, 1}};
        groups[i][0] = N / 64;
        groups[i][1] = groups[i][2] = 1;
    }
    MUST(bl_recording_create(dev, LAUNCHES, launches, SLOTS, 2, &recording, &err));
    bl_submission s = {.slots = slots, .vars = vars, .groups = (const uint32_t(*)[3])groups};
    for (int t = 0; t < SUBMISSIONS; t++) {
        MUST(bl_recording_submit(recording, &s, &err));
        for (int i = 0; i < LAUNCHES; i++)
            for (int j = 0; j < N; j++)
                slot_values[launches[i].slot[1]][j] =
                    (int)((unsigned)slot_values[launches[i].slot[0]][j] * (unsigned)vars[0] + (unsigned)vars[1]);
    }
    check_values(parent, whole, 2 * N, "views"); /* a read waits for the launches */
    check_values(slots[2], other, N, "other");
    bl_recording_destroy(recording);
    for (int i = 0; i < SLOTS; i++)
        bl_buffer_release(slots[i]);
    bl_buffer_release(parent);
    bl_kernel_destroy(kernel);
}

static void times_are_told(fixture *f, bl_device *dev)
{
    enum { LAUNCHES = 3, BIG = 1 << 20 };
    static const uint32_t groups[LAUNCHES][3] = {{BIG / 64, 1, 1}, {1, 1, 1}, {BIG / 64, 1, 1}};
    uint64_t first[LAUNCHES], second[LAUNCHES];
    bl_kernel *kernel = make_kernel(dev, "count", count_text, 1, 0);
    bl_launch launches[LAUNCHES] = {{.kernel = kernel}, {.kernel = kernel}, {.kernel = kernel}};
    bl_recording *recording = NULL;
    bl_buffer *x = make_buffer(dev, NULL, BIG);
    bl_err err = {0};
    (void)f;
    MUST(bl_recording_create(dev, LAUNCHES, launches, 1, 0, &recording, &err));
    memset(first, 0xff, sizeof first);
    memset(second, 0xff, sizeof second);
    bl_submission s = {.slots = &x, .groups = groups, .nanoseconds = first};
    MUST(bl_recording_submit(recording, &s, &err));
    s.nanoseconds = second; /* the same variant, submitted before a wait for the first */
    MUST(bl_recording_submit(recording, &s, &err));
    s.nanoseconds = NULL;
    MUST(bl_recording_submit(recording, &s, &err));
    MUST(bl_device_wait(dev, &err));
    for (int i = 0; i < LAUNCHES; i++)
        if (first[i] == 0 || first[i] > 10000000000 || second[i] == 0 || second[i] > 10000000000)
            fail_msg("launch %d took %llu and %llu ns", i, (unsigned long long)first[i], (unsigned long long)second[i]);
    uint64_t all = first[2] < second[2] ? first[2] : second[2], few = first[1] < second[1] ? first[1] : second[1];
    if (all <= few)
        fail_msg("%llu ns for all, %llu ns for 64", (unsigned long long)all, (unsigned long long)few);
    s.nanoseconds = first;
    MUST(bl_recording_submit(recording, &s, &err));
    bl_recording_destroy(recording); /* while times are outstanding */
    MUST(bl_device_wait(dev, &err));
    bl_buffer_release(x);
    bl_kernel_destroy(kernel);
}

/* A named dimension may make a launch empty: the launch is skipped, and its time is reported. */
static void empty_launches_are_skipped(fixture *f, bl_device *dev)
{
    static const uint32_t groups[3][3] = {{0, 1, 1}, {1, 1, 1}, {1, 0, 1}};
    static int zeros[64], want[64];
    uint64_t ns[3];
    bl_kernel *kernel = make_kernel(dev, "count", count_text, 1, 0);
    bl_launch launches[3] = {{.kernel = kernel}, {.kernel = kernel}, {.kernel = kernel}};
    bl_recording *recording = NULL;
    bl_buffer *x = make_buffer(dev, zeros, 64);
    bl_submission s = {.slots = &x, .groups = groups, .nanoseconds = ns};
    bl_err err = {0};
    (void)f;
    for (int i = 0; i < 64; i++)
        want[i] = i;
    memset(ns, 0xff, sizeof ns);
    MUST(bl_recording_create(dev, 3, launches, 1, 0, &recording, &err));
    MUST(dev->ops->submit(recording, &s, &err));
    MUST(bl_device_wait(dev, &err));
    assert_true(ns[0] < ns[1] || ns[2] < ns[1]);
    check_values(x, want, 64, "once");
    bl_recording_destroy(recording);
    bl_buffer_release(x);
    bl_kernel_destroy(kernel);
}

static void bad_kernels_are_refused(fixture *f, bl_device *dev)
{
    bl_kernel_source wrong = source_of("wrong", "#version 450\nvoid main() { int x = nothing; }\n", 1, 0);
    bl_kernel_source wide = source_of("wide", scale_text, 2, 2);
    bl_kernel *kernel = NULL;
    bl_err err = {0};
    (void)f;
    MUST_FAIL(BL_EBUG, bl_kernel_create(dev, &wrong, &kernel, &err));
    assert_null(kernel);
    assert_non_null(strstr(err.text, "nothing"));
    err = (bl_err){0};
    wide.local[0] = dev->info.max_local + 1;
    MUST_FAIL(BL_EUNSUPPORTED, bl_kernel_create(dev, &wide, &kernel, &err));
    bl_kernel_destroy(make_kernel(dev, "scale", scale_text, 2, 2)); /* the device still works */
}

static void too_much_memory_is_refused(fixture *f, bl_device *dev)
{
    bl_buffer *buffer = NULL;
    bl_err err = {0};
    (void)f;
    MUST_FAIL(BL_ENODEVMEM, bl_buffer_alloc(dev, (size_t)1 << 62, &buffer, &err));
    assert_null(buffer);
    err = (bl_err){0};
    MUST_FAIL(BL_ENODEVMEM, bl_buffer_alloc(dev, dev->info.max_alloc + 1, &buffer, &err));
    assert_false(atomic_load(&dev->lost));
    assert_int_equal(atomic_load(&dev->bytes_used), 0);
}

typedef struct compiling {
    bl_device *dev;
    int number;
    bl_status status;
    bl_err err;
} compiling;

static void *compile_many(void *arg)
{
    compiling *c = arg;
    for (int i = 0; i < 6 && c->status == BL_OK; i++) {
        char text[sizeof scale_text + 64];
        bl_kernel *kernel = NULL;
        bl_buffer *buffer = NULL;
        snprintf(text, sizeof text, "%s/* %d %d */", scale_text, c->number, i % 5);
        bl_kernel_source source = source_of("scale", text, 2, 2);
        c->status = bl_kernel_create(c->dev, &source, &kernel, &c->err);
        if (c->status == BL_OK)
            c->status = bl_buffer_alloc(c->dev, (size_t)1000 << i, &buffer, &c->err);
        bl_buffer_release(buffer);
        bl_kernel_destroy(kernel);
    }
    return NULL;
}

static void threads_compile(fixture *f, bl_device *dev)
{
    pthread_t threads[3];
    compiling work[3];
    (void)f;
    for (int i = 0; i < 3; i++) {
        work[i] = (compiling){.dev = dev, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, compile_many, &work[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        if (work[i].status != BL_OK)
            fail_msg("thread %d: %s", i, work[i].err.text);
}

static void kernels_are_cached(fixture *f, bl_device *dev)
{
    char text[sizeof scale_text + 96], path[256];
    static int values[64], want[64];
    snprintf(text, sizeof text, "%s/* cached by %p */", scale_text, (void *)dev);
    size_t before = count_files(f->folder, "spirv-", NULL, 0);
    bl_kernel_destroy(make_kernel(dev, "scale", text, 2, 2));
    assert_int_equal(count_files(f->folder, "spirv-", NULL, 0), before + 1);
    bl_kernel_destroy(make_kernel(dev, "scale", text, 2, 2));
    assert_int_equal(count_files(f->folder, "spirv-", path, sizeof path), before + 1);
    flip_byte(path, 200); /* an invalid entry of either kind is compiled again */
    bl_kernel *kernel = make_kernel(dev, "scale", text, 2, 2);
    bl_launch launch = {.kernel = kernel, .slot = {0, 1}, .var = {0, 1}};
    bl_recording *recording = NULL;
    bl_err err = {0};
    int32_t vars[2] = {2, 5};
    static const uint32_t groups[1][3] = {{1, 1, 1}};
    for (int i = 0; i < 64; i++) {
        values[i] = i;
        want[i] = 2 * i + 5;
    }
    bl_buffer *slots[2] = {make_buffer(dev, values, 64), make_buffer(dev, values, 64)};
    MUST(bl_recording_create(dev, 1, &launch, 2, 2, &recording, &err));
    bl_submission s = {.slots = slots, .vars = vars, .groups = groups};
    MUST(bl_recording_submit(recording, &s, &err));
    check_values(slots[1], want, 64, "cached");
    bl_recording_destroy(recording);
    bl_buffer_release(slots[0]);
    bl_buffer_release(slots[1]);
    bl_kernel_destroy(kernel);
}

/* The driver reports a lost device from any call; older objects may then only be released, in any order. */
static void a_lost_device_comes_back(fixture *f, bl_device *dev)
{
    static int values[N];
    bl_kernel *kernel = make_kernel(dev, "count", count_text, 1, 0);
    bl_buffer *old = make_buffer(dev, values, N), *view = NULL, *fresh = NULL;
    bl_recording *recording = NULL;
    bl_launch launch = {.kernel = kernel};
    static const uint32_t groups[1][3] = {{N / 64, 1, 1}};
    bl_submission s = {.slots = &old, .groups = groups};
    bl_err err = {0};
    (void)f;
    MUST(bl_buffer_view(old, 256, 256, &view, &err));
    MUST(bl_recording_create(dev, 1, &launch, 1, 0, &recording, &err));
    MUST(bl_recording_submit(recording, &s, &err));
    bl_vk_context *ctx = bl_vk_context_get(dev);
    MUST_FAIL(BL_EDEVICE, bl_vk_check(ctx, VK_ERROR_DEVICE_LOST, "testing", &err));
    err = (bl_err){0};
    assert_true(atomic_load(&dev->lost));
    MUST_FAIL(BL_EDEVICE, bl_buffer_alloc(dev, 64, &fresh, &err));
    err = (bl_err){0};
    MUST(bl_device_reopen(dev, &err));
    MUST_FAIL(BL_EDEVICE, bl_vk_check(ctx, VK_ERROR_DEVICE_LOST, "testing", &err)); /* a late error of the old device */
    bl_vk_context_release(ctx);
    assert_false(atomic_load(&dev->lost));
    err = (bl_err){0};
    MUST_FAIL(BL_EDEVICE, bl_recording_submit(recording, &s, &err));
    err = (bl_err){0};
    fresh = make_buffer(dev, values, N);
    bl_buffer_release(old);
    bl_kernel_destroy(kernel);
    bl_recording_destroy(recording);
    bl_buffer_release(view);
    check_values(fresh, values, N, "fresh");
    bl_buffer_release(fresh);
}

static bl_status run_once(bl_device *dev, const char *text, bl_err *err)
{
    bl_kernel_source source = source_of("count", text, 1, 0);
    bl_kernel *kernel = NULL;
    bl_buffer *x = NULL, *big = NULL;
    bl_recording *recording = NULL;
    bl_launch launch = {0};
    uint64_t ns = 0;
    static const uint32_t groups[1][3] = {{1, 1, 1}};
    static int values[64];
    bl_status st = bl_kernel_create(dev, &source, &kernel, err);
    if (st == BL_OK)
        st = bl_buffer_alloc(dev, sizeof values, &x, err);
    if (st == BL_OK)
        st = bl_buffer_alloc(dev, 1 << 20, &big, err);
    if (st == BL_OK)
        st = bl_buffer_write(x, 0, values, sizeof values, err);
    launch.kernel = kernel;
    if (st == BL_OK)
        st = bl_recording_create(dev, 1, &launch, 1, 0, &recording, err);
    bl_submission s = {.slots = &x, .groups = groups, .nanoseconds = &ns};
    if (st == BL_OK)
        st = bl_recording_submit(recording, &s, err);
    if (st == BL_OK)
        st = bl_device_wait(dev, err);
    bl_recording_destroy(recording);
    bl_buffer_release(x);
    bl_buffer_release(big);
    bl_kernel_destroy(kernel);
    return st;
}

static void each_allocation_may_fail(fixture *f, bl_device *dev)
{
    char text[sizeof count_text + 64];
    int n = 1;
    (void)f;
    for (bl_status st = BL_ENOMEM; st != BL_OK; n++) {
        bl_err err = {0};
        snprintf(text, sizeof text, "%s/* try %d of %p */", count_text, n, (void *)dev);
        bl_fault_arm(BL_FAULT_ALLOC, n);
        st = run_once(dev, text, &err);
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        if (st != BL_OK && st != BL_ENOMEM && st != BL_ENODEVMEM)
            fail_msg("allocation %d: %s: %s", n, bl_status_name(st), err.text);
        if (n > 1000)
            fail_msg("no end after %d allocations", n);
    }
    assert_in_range(n, 8, 1000);
    assert_int_equal(atomic_load(&dev->bytes_used), 0);
}

static void opening_may_run_out_of_memory(void **state)
{
    bl_device *devices[MAX_DEVICES];
    bl_status st = BL_ENOMEM;
    uint32_t count = 0;
    (void)state;
    for (int n = 1; n < 200; n++) {
        bl_text why = {0};
        bl_err err = {0};
        bl_fault_arm(BL_FAULT_ALLOC, n);
        st = bl_backend_vulkan.open(MAX_DEVICES, devices, &count, &why, &err);
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        for (uint32_t i = 0; i < count; i++)
            bl_device_destroy(devices[i]);
        bl_text_fini(&why);
        if (st != BL_OK && st != BL_ENOMEM)
            fail_msg("allocation %d: %s: %s", n, bl_status_name(st), err.text);
        if (n > 8 && st == BL_OK)
            break;
    }
    assert_int_equal(st, BL_OK);
}

#define DEVICE_TEST(name)                                                                                                        \
    static void name##_all(void **state)                                                                                         \
    {                                                                                                                            \
        for_each(state, name);                                                                                                   \
    }
DEVICE_TEST(are_described)
DEVICE_TEST(buffers_keep_values)
DEVICE_TEST(allocations_are_counted)
DEVICE_TEST(written_buffers_may_go_at_once)
DEVICE_TEST(small_buffers_are_apart)
DEVICE_TEST(copies_are_exact)
DEVICE_TEST(views_share_memory)
DEVICE_TEST(recordings_rebind)
DEVICE_TEST(new_buffers_are_new)
DEVICE_TEST(launches_see_what_came_before)
DEVICE_TEST(times_are_told)
DEVICE_TEST(empty_launches_are_skipped)
DEVICE_TEST(bad_kernels_are_refused)
DEVICE_TEST(too_much_memory_is_refused)
DEVICE_TEST(threads_compile)
DEVICE_TEST(kernels_are_cached)
DEVICE_TEST(a_lost_device_comes_back)
DEVICE_TEST(each_allocation_may_fail)

static fixture the_fixture;

static int set_up(void **state)
{
    fixture *f = &the_fixture;
    snprintf(f->folder, sizeof f->folder, "/tmp/bl_test_vulkan_XXXXXX");
    if (mkdtemp(f->folder) == NULL)
        return -1;
    setenv("BEAMLINE_CACHE", f->folder, 1);
    setenv("BEAMLINE_VULKAN_VALIDATION", "sync", 1);
    for (int staged = 0; staged < 3; staged++) {
        bl_err err = {0};
        uint32_t n = 0;
        setenv("BEAMLINE_VULKAN_STAGING", (const char *[]){"0", "1", "2"}[staged], 1);
        if (bl_backend_vulkan.open(MAX_DEVICES - f->count, f->devices + f->count, &n, &f->why, &err) != BL_OK)
            return -1;
        for (; n > 0; n--)
            f->staged[f->count++] = staged;
    }
    setenv("BEAMLINE_VULKAN_STAGING", "0", 1);
    keep_mapped();
    *state = f;
    return 0;
}

/* Messages of the layer at device destruction count too. */
static int tear_down(void **state)
{
    fixture *f = *state;
    char command[128];
    unsigned messages = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        bl_vk_instance *in = bl_vk_instance_retain(bl_vk_instance_of(f->devices[i]));
        bl_device_destroy(f->devices[i]);
        messages += atomic_load(&in->messages);
        bl_vk_instance_release(in);
    }
    size_t saved = count_files(f->folder, "pipeline-", NULL, 0);
    bl_text_fini(&f->why);
    snprintf(command, sizeof command, "rm -r '%s'", f->folder);
    if (system(command) != 0)
        return -1;
    if (messages > 0 || (f->count > 0 && saved == 0))
        fprintf(stderr, "%u messages of the validation layer, %zu pipeline caches\n", messages, saved);
    return messages > 0 || (f->count > 0 && saved == 0) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_described_all),
        cmocka_unit_test(buffers_keep_values_all),
        cmocka_unit_test(allocations_are_counted_all),
        cmocka_unit_test(written_buffers_may_go_at_once_all),
        cmocka_unit_test(small_buffers_are_apart_all),
        cmocka_unit_test(copies_are_exact_all),
        cmocka_unit_test(views_share_memory_all),
        cmocka_unit_test(recordings_rebind_all),
        cmocka_unit_test(new_buffers_are_new_all),
        cmocka_unit_test(launches_see_what_came_before_all),
        cmocka_unit_test(times_are_told_all),
        cmocka_unit_test(empty_launches_are_skipped_all),
        cmocka_unit_test(bad_kernels_are_refused_all),
        cmocka_unit_test(too_much_memory_is_refused_all),
        cmocka_unit_test(threads_compile_all),
        cmocka_unit_test(kernels_are_cached_all),
        cmocka_unit_test(a_lost_device_comes_back_all),
        cmocka_unit_test(each_allocation_may_fail_all),
        cmocka_unit_test(opening_may_run_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
