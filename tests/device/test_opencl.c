/* SPDX-License-Identifier: MIT */
/* The OpenCL back end, on every device of the machine.  Without a device all tests but the first are skipped. */
#include "tests/device/opencl_devices.h"

#include "engine/base/fault.h"
#include "tests/device/cache_files.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/device/copies.h"

static void none_has_a_reason(void **state)
{
    fixture *f = *state;

    if (f->count == 0)
        assert_true(f->why.len > 0 && f->why.data[f->why.len - 1] == '\n');
}

static void all_are_described(void **state)
{
    fixture *f = *state;

    if (f->count == 0)
        skip();
    assert_string_equal("1", getenv("POCL_AFFINITY"));
    for (uint32_t i = 0; i < f->count; i++) {
        const bl_device_info *info = &f->devices[i]->info;
        char id[32];

        snprintf(id, sizeof id, "opencl:%u", i);
        assert_string_equal(id, info->id);
        print_message("%s: %s, %s: %u units, %u-bit vectors, %u registers, %u KiB cache, %llu MiB, %llu MiB a buffer\n", info->id,
                      info->name, info->driver, info->units, info->vector_bits, info->registers, info->cache_bytes >> 10,
                      (unsigned long long)info->memory >> 20, (unsigned long long)info->max_alloc >> 20);
        assert_true(info->name[0] != '\0' && info->driver[0] != '\0');
        assert_int_equal(BL_DIALECT_OPENCL, info->dialect);
        assert_true(info->features & BL_FEATURE_I64);
        assert_true(info->units > 0 && info->subgroup > 0 && info->registers > 0 && info->max_local > 0);
        assert_true(info->memory >= info->max_alloc && info->max_alloc >= (128u << 20)); /* 128 MiB is OpenCL 1.2's minimum */
        assert_true(info->local_bytes >= (32u << 10) && info->max_groups[0] >= 65535 && info->max_groups[2] >= 65535);
        assert_int_equal(0, info->alignment & (info->alignment - 1));
        if (info->type == BL_DEVICE_CPU) /* rusticl's CPU device vectorises work-items */
            assert_true(info->vector_bits >= 128 && (info->subgroup > 1) == (strncmp(info->driver, "rusticl", 7) == 0));
#if defined(__x86_64__) || defined(__aarch64__)
        if (strstr(info->driver, "Portable Computing Language") != NULL)
            assert_true(info->brief_ns > 0 && ((bl_cl_device *)f->devices[i])->team != NULL);
#endif
    }
}

static void buffers_keep_values(bl_device *dev, const fixture *f)
{
    static const size_t sizes[] = {1, 3, 64, 4096, (3 << 20) + 5};
    bl_err err = {0};

    (void)f;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        unsigned char *data = malloc(n), *back = calloc(1, n);
        bl_buffer *buffer = NULL;

        assert_true(data != NULL && back != NULL);
        for (size_t k = 0; k < n; k++)
            data[k] = (unsigned char)(k * 7 + i);
        MUST(bl_buffer_alloc(dev, n, &buffer, &err));
        assert_true(dev->info.host_memory == (buffer->host != NULL));
        if (dev->info.type == BL_DEVICE_CPU)
            assert_int_equal(0, (uintptr_t)buffer->host % (n >= (2 << 20) ? 2 << 20 : 64));
        MUST(bl_buffer_write(buffer, 0, data, n, &err));
        MUST(bl_buffer_write(buffer, n / 2, data, n - n / 2, &err));
        MUST(bl_buffer_read(buffer, 0, back, n, &err));
        assert_memory_equal(data, back, n / 2);
        assert_memory_equal(data, back + n / 2, n - n / 2);
        bl_buffer_release(buffer);
        free(data);
        free(back);
    }
}

static void copies_are_exact(bl_device *dev, const fixture *f)
{
    (void)f;
    check_copies(dev);
}

static void views_share_memory(bl_device *dev, const fixture *f)
{
    size_t align = dev->info.alignment < 4 ? 4 : dev->info.alignment, n = align * 4 / sizeof(float);
    float *ones = calloc(n, sizeof *ones), *back = calloc(n, sizeof *back);
    bl_buffer *buffer, *view = NULL, *inner = NULL;
    bl_err err = {0};
    float mark = 7;

    (void)f;
    assert_true(ones != NULL && back != NULL);
    for (size_t i = 0; i < n; i++)
        ones[i] = 1;
    buffer = make_buffer(dev, ones, n);
    MUST(bl_buffer_view(buffer, align, align * 3, &view, &err));
    MUST(bl_buffer_view(view, align, align, &inner, &err));
    bl_buffer_release(view); /* a view keeps its parent alive */
    MUST(bl_buffer_write(inner, 4, &mark, sizeof mark, &err));
    MUST(bl_buffer_read(buffer, 0, back, n * sizeof *back, &err));
    ones[(align * 2 + 4) / sizeof *ones] = 7;
    assert_memory_equal(ones, back, n * sizeof *ones);
    bl_buffer_release(buffer);
    MUST(bl_buffer_read(inner, 4, &mark, sizeof mark, &err));
    assert_true(mark > 6 && mark < 8);
    bl_buffer_release(inner);
    free(ones);
    free(back);
}

static void recordings_rebind(bl_device *dev, const fixture *f)
{
    bl_kernel *scale = make_kernel(dev, "scale", scale_text, 1, 1), *next = make_kernel(dev, "next", next_text, 0, 16);
    bl_launch launches[] = {{.kernel = scale, .slot = {0, 1}, .var = {1}}, {.kernel = next, .slot = {1, 2}}};
    bl_buffer *x = make_buffer(dev, counting, N), *t = make_buffer(dev, counting, N), *y = make_buffer(dev, counting, N);
    const uint32_t groups[][3] = {{N / 64, 1, 1}, {N / 16, 1, 1}}, half[][3] = {{N / 128, 1, 1}, {0, 1, 1}};
    bl_recording *recording = NULL;
    bl_err err = {0};

    (void)f;
    MUST(bl_recording_create(dev, 2, launches, 3, 2, &recording, &err));
    for (int32_t k = -2; k < 3; k++) {
        MUST(bl_recording_submit(
            recording, &(bl_submission){.slots = (bl_buffer *[]){x, t, y}, .vars = (int32_t[]){99, k}, .groups = groups}, &err));
        MUST(bl_device_wait(dev, &err));
        check_buffer(t, N, (float)k, 0);
        check_buffer(y, N, (float)k, 1);
    }
    /* other buffers, one of them new and perhaps at an old address; the second launch is empty, which only the back end
     * accepts */
    bl_buffer_release(t);
    t = make_buffer(dev, counting, N);
    MUST(dev->ops->submit(recording,
                          &(bl_submission){.slots = (bl_buffer *[]){y, t, x}, .vars = (int32_t[]){0, 3}, .groups = half}, &err));
    MUST(bl_recording_submit(
        recording, &(bl_submission){.slots = (bl_buffer *[]){x, y, t}, .vars = (int32_t[]){0, 5}, .groups = groups}, &err));
    check_buffer(y, N, 5, 0); /* a read waits for earlier launches */
    check_buffer(t, N, 5, 1);
    check_buffer(x, N, 1, 0);
    bl_recording_destroy(recording);
    bl_kernel_destroy(scale);
    bl_kernel_destroy(next);
    bl_buffer_release(x);
    bl_buffer_release(t);
    bl_buffer_release(y);
}

static void views_are_bound(bl_device *dev, const fixture *f)
{
    bl_kernel *scale = make_kernel(dev, "scale", scale_text, 1, 1);
    bl_launch launch = {.kernel = scale, .slot = {0, 1}};
    bl_buffer *whole = make_buffer(dev, counting, N), *first = NULL, *second = NULL;
    const uint32_t groups[][3] = {{N / 128, 1, 1}};
    bl_recording *recording = NULL;
    bl_err err = {0};

    (void)f;
    MUST(bl_buffer_view(whole, 0, N / 2 * sizeof(float), &first, &err));
    MUST(bl_buffer_view(whole, N / 2 * sizeof(float), N / 2 * sizeof(float), &second, &err));
    MUST(bl_recording_create(dev, 1, &launch, 2, 1, &recording, &err));
    MUST(bl_recording_submit(
        recording, &(bl_submission){.slots = (bl_buffer *[]){first, second}, .vars = (int32_t[]){4}, .groups = groups}, &err));
    check_buffer(second, N / 2, 4, 0);
    check_buffer(first, N / 2, 1, 0);
    bl_recording_destroy(recording);
    bl_kernel_destroy(scale);
    bl_buffer_release(first);
    bl_buffer_release(second);
    bl_buffer_release(whole);
}

static void times_are_told(bl_device *dev, const fixture *f)
{
    bl_kernel *scale = make_kernel(dev, "scale", scale_text, 1, 1);
    bl_launch launches[] = {
        {.kernel = scale, .slot = {0, 1}}, {.kernel = scale, .slot = {1, 0}}, {.kernel = scale, .slot = {0, 1}}};
    bl_buffer *x = make_buffer(dev, counting, N), *y = make_buffer(dev, counting, N);
    const uint32_t groups[][3] = {{N / 64, 1, 1}, {N / 64, 1, 0}, {N / 64, 1, 1}};
    uint64_t times[2][3] = {{7, 7, 7}, {7, 7, 7}};
    bl_submission submission = {.slots = (bl_buffer *[]){x, y}, .vars = (int32_t[]){2}, .groups = groups};
    bl_recording *recording = NULL;
    bl_err err = {0};

    (void)f;
    MUST(bl_recording_create(dev, 3, launches, 2, 1, &recording, &err));
    MUST(dev->ops->submit(recording, &submission, &err)); /* untimed before timed, and timed before untimed */
    submission.nanoseconds = times[0];
    MUST(dev->ops->submit(recording, &submission, &err));
    submission.nanoseconds = times[1];
    MUST(dev->ops->submit(recording, &submission, &err));
    MUST(bl_device_wait(dev, &err));
    for (int i = 0; i < 2; i++) {
        if (times[i][0] == 0 || times[i][0] > 1000000000 || times[i][1] != 0 || times[i][2] == 0)
            fail_msg("times %llu, %llu, %llu; expected some, 0, some", (unsigned long long)times[i][0],
                     (unsigned long long)times[i][1], (unsigned long long)times[i][2]);
    }
    submission.nanoseconds = NULL;
    MUST(dev->ops->submit(recording, &submission, &err));
    check_buffer(y, N, 2, 0);
    bl_recording_destroy(recording);
    bl_kernel_destroy(scale);
    bl_buffer_release(x);
    bl_buffer_release(y);
}

/* ---- functions, which a CPU device's team of threads calls directly */

enum { TEXT = 2048 };

/* A kernel |entry| of x, y and |nscalars| numbers n0, ..., where |body| is what group g0 does: a function where the device calls
 * functions, and else a kernel of its own. */
static bl_kernel_source function_source(const bl_device *dev, const char *entry, const char *body, uint32_t nscalars,
                                        char text[static TEXT])
{
    const char *scalar = nscalars > 0 ? ", const int n0" : "";
    bl_kernel_source source;

    if (dev->info.calls_kernels)
        snprintf(text, TEXT,
                 "__attribute__((noinline))\nvoid %s(__global uint *x, __global uint *y%s, const int g0, const int g1, "
                 "const int g2) {\n%s}\n",
                 entry, scalar, body);
    else
        snprintf(text, TEXT,
                 "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\nvoid %s(__global uint *x, __global uint *y%s) {\n"
                 "  int g0 = get_group_id(0);\n%s}\n",
                 entry, scalar, body);
    source = source_of(entry, text, 2, nscalars, 1);
    source.function = dev->info.calls_kernels;
    return source;
}

/* Such a kernel; on PoCL its machine code can be called. */
static bl_kernel *make_function(bl_device *dev, const char *entry, const char *body, uint32_t nscalars)
{
    char text[TEXT];
    bl_kernel_source source = function_source(dev, entry, body, nscalars, text);
    bl_kernel *kernel = NULL;
    bl_err err = {0};

    MUST(bl_kernel_create(dev, &source, &kernel, &err));
    assert_true((((bl_cl_kernel *)kernel)->function != NULL) == bl_cl_is_direct((bl_cl_device *)dev));
    return kernel;
}

enum { MANY_TURNS = 30000000 }; /* some tens of milliseconds */

static uint32_t turn_many_times(uint32_t s)
{
    for (int i = 0; i < MANY_TURNS; i++)
        s = s * 1664525 + 1013904223;
    return s;
}

/* The groups of a directly called function have ended when the submission returns, on one thread and on several. */
static void functions_run_at_once(bl_device *dev, const fixture *f)
{
    static const char body[] = "  uint s = x[g0];\n"
                               "  for (int i = 0; i < n0; i++) s = s * 1664525u + 1013904223u;\n"
                               "  y[g0] = s;\n";
    bl_launch launch = {.kernel = make_function(dev, "slow", body, 1), .slot = {0, 1}};
    bl_buffer *x = make_buffer(dev, counting, N);
    const uint32_t groups[][3] = {{3, 1, 1}};
    const uint32_t seeds[] = {0, 7, 1 << 30};
    bl_recording *recording = NULL;
    bl_err err = {0};

    (void)f;
    MUST(bl_buffer_write(x, 0, seeds, sizeof seeds, &err));
    MUST(bl_recording_create(dev, 1, &launch, 2, 1, &recording, &err));
    for (int brief = 0; brief < 2; brief++) {
        bl_buffer *y = make_buffer(dev, counting, N);
        bl_submission s = {
            .slots = (bl_buffer *[]){x, y}, .vars = (int32_t[]){MANY_TURNS}, .groups = groups, .brief = brief == 1};
        uint32_t got[3] = {0};
        MUST(bl_recording_submit(recording, &s, &err));
        if (dev->info.brief_ns > 0 && y->host != NULL)
            memcpy(got, y->host, sizeof got);
        else
            MUST(bl_buffer_read(y, 0, got, sizeof got, &err));
        for (int i = 0; i < 3; i++)
            assert_int_equal(turn_many_times(seeds[i]), got[i]);
        bl_buffer_release(y);
    }
    bl_recording_destroy(recording);
    bl_kernel_destroy(launch.kernel);
    bl_buffer_release(x);
}

static const char scale_body[] = "  for (int i = g0 * 64; i < g0 * 64 + 64; i++)\n"
                                 "    ((__global float *)y)[i] = ((__global float *)x)[i] * n0;\n";

/* Each launch sees the writes of all launches before it, whether the queue or the team runs them; no call waits in between. */
static void functions_keep_order(bl_device *dev, const fixture *f)
{
    bl_kernel *scale[2] = {make_kernel(dev, "scale", scale_text, 1, 1), make_function(dev, "scale", scale_body, 1)};
    bl_kernel *next = make_kernel(dev, "next", next_text, 0, 16);
    const uint32_t scale_groups[][3] = {{N / 64, 1, 1}, {N / 64, 1, 1}}, next_groups[][3] = {{N / 16, 1, 1}};
    bl_buffer *x = make_buffer(dev, counting, N), *y = make_buffer(dev, counting, N);
    bl_recording *scales[3] = {NULL}, *nexts = NULL;
    uint64_t times[12];
    float factor = 1, offset = 0;
    bl_err err = {0};

    (void)f;
    for (int i = 0; i < 2; i++)
        MUST(bl_recording_create(dev, 1, &(bl_launch){.kernel = scale[i], .slot = {0, 1}}, 2, 1, &scales[i], &err));
    /* both kinds in one recording: the queue runs them */
    MUST(bl_recording_create(dev, 2, (bl_launch[]){{.kernel = scale[0], .slot = {0, 1}}, {.kernel = scale[1], .slot = {0, 1}}}, 2,
                             1, &scales[2], &err));
    MUST(bl_recording_create(dev, 1, &(bl_launch){.kernel = next, .slot = {1, 0}}, 2, 1, &nexts, &err));
    for (int i = 0; i < 12; i++) {
        uint64_t unused[2], *timed = i % 3 == 2 ? unused : i % 4 == 0 ? &times[i] : NULL;
        bl_submission first = {.slots = (bl_buffer *[]){x, y},
                               .vars = (int32_t[]){i % 2 + 1},
                               .groups = scale_groups,
                               .nanoseconds = timed,
                               .brief = i % 6 == 1};

        MUST(bl_recording_submit(scales[i % 3], &first, &err));
        MUST(bl_recording_submit(
            nexts, &(bl_submission){.slots = (bl_buffer *[]){x, y}, .vars = (int32_t[]){0}, .groups = next_groups}, &err));
        factor *= (float)(i % 2 + 1);
        offset = offset * (float)(i % 2 + 1) + 1;
    }
    check_buffer(x, N, factor, offset);
    for (int i = 0; i < 12; i += 4) {
        if (i % 3 != 2)
            assert_in_range(times[i], 1, 1000000000);
    }
    for (int i = 0; i < 3; i++)
        bl_recording_destroy(scales[i]);
    bl_recording_destroy(nexts);
    bl_kernel_destroy(next);
    for (int i = 0; i < 2; i++)
        bl_kernel_destroy(scale[i]);
    bl_buffer_release(x);
    bl_buffer_release(y);
}

/* Functions and kernels of one batch; the first of a batch that is created is a kernel. */
static void functions_and_kernels_share_a_batch(bl_device *dev, const fixture *f)
{
    enum { KERNELS = 6 };
    bl_kernel_source sources[KERNELS];
    bl_err outcomes[KERNELS];
    char text[KERNELS][TEXT], body[KERNELS][256];

    empty_folder(f->folder);
    for (int i = 0; i < KERNELS; i++) {
        snprintf(text[i], TEXT, "%s/* %d */\n", scale_text, i);
        snprintf(body[i], sizeof body[i], "%s/* %d */\n", scale_body, i);
        sources[i] = i % 2 == 0 ? source_of("scale", text[i], 2, 1, 1) : function_source(dev, "scale", body[i], 1, text[i]);
        assert_true(bl_kernel_wants_compiling(dev, &sources[i]));
    }
    bl_kernels_compile(dev, KERNELS, sources, outcomes);
    for (int i = 0; i < KERNELS; i++) {
        bl_kernel *kernel = NULL;
        bl_err err = outcomes[i];

        MUST(err.status);
        assert_false(bl_kernel_wants_compiling(dev, &sources[i]));
        MUST(bl_kernel_create(dev, &sources[i], &kernel, &err));
        assert_true((((bl_cl_kernel *)kernel)->function != NULL) ==
                    (sources[i].function && bl_cl_is_direct((bl_cl_device *)dev)));
        bl_kernel_destroy(kernel);
    }
}

/* The result of a division by zero is undefined, but the division must not end the process, as a processor's trap would. */
static void division_by_zero_is_survived(bl_device *dev, const fixture *f)
{
    static const char text[] = "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
                               "void divide(__global const int *x, __global int *y) {\n"
                               "  int i = get_group_id(0);\n"
                               "  y[i] = x[2 * i] / x[2 * i + 1] + x[2 * i] % x[2 * i + 1];\n"
                               "}\n";
    static const char body[] = "  int a = ((__global int *)x)[2 * g0], b = ((__global int *)x)[2 * g0 + 1];\n"
                               "  y[g0] = a / b + a % b;\n";
    static const int32_t operands[] = {7, 0, INT32_MIN, -1, 0, 0, 17, 5};
    const uint32_t groups[][3] = {{4, 1, 1}};
    bl_buffer *x = make_buffer(dev, counting, N);
    bl_err err = {0};

    sigaction(SIGFPE, &f->trap, NULL);
    MUST(bl_buffer_write(x, 0, operands, sizeof operands, &err));
    for (int i = 0; i < 2; i++) {
        bl_kernel *divide = i == 0 ? make_kernel(dev, "divide", text, 0, 1) : make_function(dev, "divide", body, 0);
        bl_launch launch = {.kernel = divide, .slot = {0, 1}};
        bl_buffer *y = make_buffer(dev, counting, N);
        bl_recording *recording = NULL;
        int32_t last = 0;

        MUST(bl_recording_create(dev, 1, &launch, 2, 0, &recording, &err));
        MUST(bl_recording_submit(recording, &(bl_submission){.slots = (bl_buffer *[]){x, y}, .groups = groups}, &err));
        MUST(bl_buffer_read(y, 12, &last, sizeof last, &err));
        assert_int_equal(3 + 2, last);
        bl_recording_destroy(recording);
        bl_kernel_destroy(divide);
        bl_buffer_release(y);
    }
    bl_buffer_release(x);
}

static void bad_kernels_are_refused(bl_device *dev, const fixture *f)
{
    static const struct {
        const char *text;
        uint32_t nscalars, local, local_bytes; /* as declared to the device */
        bl_status want;
        const char *says;
    } rows[] = {
        {"__kernel void scale(__global float *x, __global float *y, int k) { y[0] = nowhere; }", 1, 1, 0, BL_EBUG, "nowhere"},
        {"this is no program", 1, 1, 0, BL_EBUG, "does not compile"},
        {"__kernel void other(__global float *x) { x[0] = 1; }", 1, 1, 0, BL_EBUG, "CL_INVALID_KERNEL_NAME"},
        {scale_text, 0, 1, 0, BL_EBUG, "has 3 parameters, expected 2"},
        {scale_text, 1, 1, UINT32_MAX, BL_EUNSUPPORTED, "4294967295 bytes of local memory"},
        {scale_text, 1, 1u << 30, 0, BL_EUNSUPPORTED, "work-group has 1073741824 work-items"},
        /* declares less than the text uses: PoCL would abort the process at the launch */
        {"__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void scale(__global float *x, __global float *y, int k) {"
         "__local float t[32 << 20]; t[k] = 1; barrier(CLK_LOCAL_MEM_FENCE); y[0] = t[k + 1]; }",
         1, 1, 0, BL_EUNSUPPORTED, "local memory"},
    };

    (void)f;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_kernel_source source = source_of("scale", rows[i].text, 2, rows[i].nscalars, rows[i].local);
        bl_kernel *kernel = NULL;
        bl_err err = {0};

        source.local_bytes = rows[i].local_bytes;
        MUST_FAIL(rows[i].want, bl_kernel_create(dev, &source, &kernel, &err));
        assert_null(kernel);
        if (strstr(err.text, rows[i].says) == NULL)
            fail_msg("row %zu: \"%s\" does not say \"%s\"", i, err.text, rows[i].says);
    }
    bl_kernel_destroy(make_kernel(dev, "scale", scale_text, 1, 1)); /* the device still works */
}

static void too_much_memory_is_refused(bl_device *dev, const fixture *f)
{
    const size_t sizes[] = {(size_t)dev->info.max_alloc + 1, (size_t)dev->info.memory + 1, (size_t)1 << 60, SIZE_MAX};
    bl_buffer *buffer = NULL;
    bl_err err = {0};

    (void)f;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        err = (bl_err){0};
        MUST_FAIL(BL_ENODEVMEM, bl_buffer_alloc(dev, sizes[i], &buffer, &err));
        assert_null(buffer);
    }
    err = (bl_err){0};
    MUST_FAIL(BL_ENODEVMEM, dev->ops->alloc(dev, sizes[0], &buffer, &err)); /* the driver's own error */
    assert_null(buffer);
    assert_int_equal(0, atomic_load(&dev->bytes_used));
}

typedef struct compile_job {
    bl_device *dev;
    int first;
    bl_status status;
    bl_err err;
} compile_job;

static void *compile_some(void *arg)
{
    compile_job *job = arg;

    for (int i = 0; i < 3 && job->status == BL_OK; i++) {
        char text[512];
        bl_kernel_source source;
        bl_kernel *kernel = NULL;

        snprintf(text, sizeof text, "%s/* %d */\n", scale_text, job->first + i);
        source = source_of("scale", text, 2, 1, 1);
        job->status = bl_kernel_create(job->dev, &source, &kernel, &job->err);
        bl_kernel_destroy(kernel);
    }
    return NULL;
}

static void threads_compile(bl_device *dev, const fixture *f)
{
    compile_job jobs[2] = {{.dev = dev, .first = 0}, {.dev = dev, .first = 2}}; /* both jobs compile the same text */
    pthread_t threads[2];

    (void)f;
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, compile_some, &jobs[i]));
    for (int i = 0; i < 2; i++) {
        bl_err err = {0};

        assert_int_equal(0, pthread_join(threads[i], NULL));
        err = jobs[i].err;
        MUST(jobs[i].status);
    }
}

static void a_lost_device_comes_back(bl_device *dev, const fixture *f)
{
    bl_kernel *scale = make_kernel(dev, "scale", scale_text, 1, 1), *none = NULL;
    bl_kernel_source source = source_of("scale", scale_text, 2, 1, 1);
    bl_launch launch = {.kernel = scale, .slot = {0, 1}};
    bl_buffer *x = make_buffer(dev, counting, N), *y = make_buffer(dev, counting, N);
    const uint32_t groups[][3] = {{N / 64, 1, 1}};
    bl_submission submission = {.slots = (bl_buffer *[]){x, y}, .vars = (int32_t[]){6}, .groups = groups};
    bl_recording *recording = NULL;
    bl_err err = {0};

    (void)f;
    MUST(bl_recording_create(dev, 1, &launch, 2, 1, &recording, &err));
    MUST(bl_recording_submit(recording, &submission, &err));
    bl_fault_arm(BL_FAULT_DEVICE, 1);
    MUST_FAIL(BL_EDEVICE, bl_device_wait(dev, &err)); /* while work is in flight */
    assert_true(atomic_load(&dev->lost));
    err = (bl_err){0};
    MUST_FAIL(BL_EDEVICE, bl_recording_submit(recording, &submission, &err));
    err = (bl_err){0};
    MUST_FAIL(BL_EDEVICE, bl_kernel_create(dev, &source, &none, &err));
    bl_buffer_release(x); /* its memory may still be in use; some buffers are released before the device is back, some after */
    err = (bl_err){0};
    MUST(bl_device_reopen(dev, &err));
    assert_false(atomic_load(&dev->lost));
    bl_recording_destroy(recording);
    bl_kernel_destroy(scale);
    bl_buffer_release(y);
    run_scale(dev);
}

/* Fails each allocation in turn until the complete sequence succeeds: every failure is clean, and the device still works. */
static bl_status whole_life(bl_device *dev, bl_err *err)
{
    bl_kernel_source source = source_of("scale", scale_text, 2, 1, 1);
    const uint32_t groups[][3] = {{1, 1, 1}};
    uint64_t nanoseconds = 0;
    bl_buffer *buffer = NULL, *view = NULL;
    bl_kernel *kernel = NULL;
    bl_recording *recording = NULL;
    bl_status st = bl_buffer_alloc(dev, 4096, &buffer, err);

    if (st == BL_OK)
        st = bl_buffer_view(buffer, 0, 1024, &view, err);
    if (st == BL_OK)
        st = bl_kernel_create(dev, &source, &kernel, err);
    if (st == BL_OK)
        st = bl_recording_create(dev, 1, &(bl_launch){.kernel = kernel, .slot = {0, 1}}, 2, 1, &recording, err);
    if (st == BL_OK)
        st = bl_recording_submit(
            recording,
            &(bl_submission){
                .slots = (bl_buffer *[]){view, buffer}, .vars = (int32_t[]){1}, .groups = groups, .nanoseconds = &nanoseconds},
            err);
    if (st == BL_OK)
        st = bl_device_wait(dev, err);
    bl_recording_destroy(recording);
    bl_kernel_destroy(kernel);
    bl_buffer_release(view);
    bl_buffer_release(buffer);
    return st;
}

/* Disarms the fault; returns whether the fault armed with |n| occurred. */
static bool fault_struck(long n)
{
    for (long i = 0; i < n; i++) {
        if (bl_fault_hit(BL_FAULT_ALLOC))
            return false;
    }
    return true;
}

static void each_allocation_may_fail(bl_device *dev, const fixture *f)
{
    long failed = 0, n = 0;
    bl_status st;

    empty_folder(f->folder); /* covers the paths that write and read the cache, whose failures are ignored */
    do {
        bl_err err = {0};

        bl_fault_arm(BL_FAULT_ALLOC, ++n);
        st = whole_life(dev, &err);
        if (st != BL_OK && st != BL_ENOMEM && st != BL_ENODEVMEM)
            fail_msg("allocation %ld: %s: %s", n, bl_status_name(st), err.text);
        failed += st != BL_OK;
    } while (fault_struck(n));
    assert_int_equal(BL_OK, st);
    if (failed < 8)
        fail_msg("only %ld of %ld allocations failed the work, expected 8 or more", failed, n - 1);
    assert_int_equal(0, atomic_load(&dev->bytes_used));
}

/* The device's operations on buffers; also with the behaviour of other drivers, which settings of this machine's devices
 * imitate. */
static void uses_buffers(bl_device *dev, const fixture *f)
{
    buffers_keep_values(dev, f);
    copies_are_exact(dev, f);
    views_share_memory(dev, f);
    recordings_rebind(dev, f);
    views_are_bound(dev, f);
    times_are_told(dev, f);
    functions_keep_order(dev, f);
    a_lost_device_comes_back(dev, f);
    functions_keep_order(dev, f);
}

/* Like a GPU: every write and read is a copy. */
static void buffers_may_be_remote(bl_device *dev, const fixture *f)
{
    bool was = dev->info.host_memory;

    dev->info.host_memory = false;
    uses_buffers(dev, f);
    dev->info.host_memory = was;
}

/* Like a driver that needs a mapping. */
static void buffers_may_be_mapped(bl_device *dev, const fixture *f)
{
    bl_cl_device *cl = (bl_cl_device *)dev;
    bool was = cl->coherent;

    cl->coherent = false;
    uses_buffers(dev, f);
    cl->coherent = was;
}

ON_EACH_DEVICE(buffers_keep_values)
ON_EACH_DEVICE(copies_are_exact)
ON_EACH_DEVICE(views_share_memory)
ON_EACH_DEVICE(recordings_rebind)
ON_EACH_DEVICE(views_are_bound)
ON_EACH_DEVICE(times_are_told)
ON_EACH_DEVICE(functions_run_at_once)
ON_EACH_DEVICE(functions_keep_order)
ON_EACH_DEVICE(functions_and_kernels_share_a_batch)
ON_EACH_DEVICE(buffers_may_be_remote)
ON_EACH_DEVICE(buffers_may_be_mapped)
ON_EACH_DEVICE(division_by_zero_is_survived)
ON_EACH_DEVICE(bad_kernels_are_refused)
ON_EACH_DEVICE(too_much_memory_is_refused)
ON_EACH_DEVICE(threads_compile)
ON_EACH_DEVICE(a_lost_device_comes_back)
ON_EACH_DEVICE(each_allocation_may_fail)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_has_a_reason),
        cmocka_unit_test(all_are_described),
        cmocka_unit_test(buffers_keep_values_all),
        cmocka_unit_test(copies_are_exact_all),
        cmocka_unit_test(views_share_memory_all),
        cmocka_unit_test(recordings_rebind_all),
        cmocka_unit_test(views_are_bound_all),
        cmocka_unit_test(times_are_told_all),
        cmocka_unit_test(functions_run_at_once_all),
        cmocka_unit_test(functions_keep_order_all),
        cmocka_unit_test(functions_and_kernels_share_a_batch_all),
        cmocka_unit_test(buffers_may_be_remote_all),
        cmocka_unit_test(buffers_may_be_mapped_all),
        cmocka_unit_test(division_by_zero_is_survived_all),
        cmocka_unit_test(bad_kernels_are_refused_all),
        cmocka_unit_test(too_much_memory_is_refused_all),
        cmocka_unit_test(threads_compile_all),
        cmocka_unit_test(a_lost_device_comes_back_all),
        cmocka_unit_test(each_allocation_may_fail_all),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
