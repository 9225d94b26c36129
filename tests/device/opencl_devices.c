/* SPDX-License-Identifier: MIT */
#include "tests/device/opencl_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char scale_text[] = "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
                          "void scale(__global const float *x, __global float *y, int k) {\n"
                          "  int at = get_group_id(0) * 64;\n"
                          "  for (int i = 0; i < 64; i++) y[at + i] = x[at + i] * k;\n"
                          "}\n";
const char next_text[] = "__kernel __attribute__((reqd_work_group_size(16, 1, 1)))\n"
                         "void next(__global const float *x, __global float *y) {\n"
                         "  __local float t[16];\n"
                         "  t[15 - get_local_id(0)] = x[get_global_id(0)];\n"
                         "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                         "  y[get_global_id(0)] = t[15 - get_local_id(0)] + 1.0f;\n"
                         "}\n";
float counting[N];

void must(bl_status st, const bl_err *err, const char *call, int line)
{
    if (st != BL_OK)
        fail_msg("line %d: %s: %s: %s", line, call, bl_status_name(st), err->text);
}

void must_fail(bl_status want, bl_status got, const bl_err *err, int line)
{
    if (want != got)
        fail_msg("line %d: %s expected, got %s: %s", line, bl_status_name(want), bl_status_name(got), err->text);
    if (strchr(err->text, '/') != NULL)
        fail_msg("line %d: a path in \"%s\"", line, err->text);
}

bl_kernel_source source_of(const char *entry, const char *text, uint32_t nbuffers, uint32_t nscalars, uint32_t local)
{
    return (bl_kernel_source){.entry = entry,
                              .text = text,
                              .len = strlen(text),
                              .nbuffers = nbuffers,
                              .nscalars = nscalars,
                              .writes = 2,
                              .local = {local, 1, 1}};
}

bl_kernel *make_kernel(bl_device *dev, const char *entry, const char *text, uint32_t nscalars, uint32_t local)
{
    bl_kernel_source source = source_of(entry, text, 2, nscalars, local);
    bl_kernel *kernel = NULL;
    bl_err err = {0};

    MUST(bl_kernel_create(dev, &source, &kernel, &err));
    return kernel;
}

bl_buffer *make_buffer(bl_device *dev, const float *values, size_t n)
{
    bl_buffer *buffer = NULL;
    bl_err err = {0};

    MUST(bl_buffer_alloc(dev, n * sizeof(float), &buffer, &err));
    if (values != NULL)
        MUST(bl_buffer_write(buffer, 0, values, n * sizeof(float), &err));
    return buffer;
}

void check_buffer(bl_buffer *buffer, size_t n, float factor, float offset)
{
    float *got = calloc(n, sizeof *got);
    bl_err err = {0};

    assert_non_null(got);
    MUST(bl_buffer_read(buffer, 0, got, n * sizeof *got, &err));
    for (size_t i = 0; i < n; i++) {
        float want = (float)i * factor + offset;
        if (got[i] < want || got[i] > want)
            fail_msg("element %zu is %g, expected %g", i, (double)got[i], (double)want);
    }
    free(got);
}

void run_scale(bl_device *dev)
{
    bl_kernel *scale = make_kernel(dev, "scale", scale_text, 1, 1);
    bl_launch launch = {.kernel = scale, .slot = {0, 1}};
    bl_buffer *x = make_buffer(dev, counting, N), *y = make_buffer(dev, counting, N);
    const uint32_t groups[][3] = {{N / 64, 1, 1}};
    bl_recording *recording = NULL;
    bl_err err = {0};

    MUST(bl_recording_create(dev, 1, &launch, 2, 1, &recording, &err));
    MUST(bl_recording_submit(recording,
                             &(bl_submission){.slots = (bl_buffer *[]){x, y}, .vars = (int32_t[]){6}, .groups = groups}, &err));
    check_buffer(y, N, 6, 0);
    bl_recording_destroy(recording);
    bl_kernel_destroy(scale);
    bl_buffer_release(x);
    bl_buffer_release(y);
}

int set_up(void **state)
{
    static fixture f;
    bl_err err = {0};

    for (size_t i = 0; i < N; i++)
        counting[i] = (float)i;
    snprintf(f.folder, sizeof f.folder, "/tmp/beamline-test-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    setenv("BEAMLINE_CACHE", f.folder, 1);
    MUST(bl_backend_opencl.open(MAX_DEVICES, f.devices, &f.count, &f.why, &err));
    sigaction(SIGFPE, NULL, &f.trap); /* cmocka installs its own handler during each test */
    if (f.count == 0)
        print_message("no OpenCL device: %s", f.why.data != NULL ? f.why.data : "no reason given\n");
    *state = &f;
    return 0;
}

int tear_down(void **state)
{
    fixture *f = *state;
    char command[128];

    for (uint32_t i = 0; i < f->count; i++)
        bl_device_destroy(f->devices[i]);
    bl_text_fini(&f->why);
    snprintf(command, sizeof command, "rm -rf '%s'", f->folder);
    return system(command);
}
