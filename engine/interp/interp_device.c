/* SPDX-License-Identifier: MIT */
/* The devices interp:0 and so on: kernels are interpreted on the host, and checked while they run. */
#include "engine/interp/interp_device.h"

#include "engine/device/host.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/text.h"
#include "engine/interp/interp_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DEVICES = 8 };

typedef struct interp_device {
    bl_device base;
    void *scratch; /* scratch memory of the running kernel: record grows it, submit uses it, both on the worker thread */
    size_t scratch_bytes;
} interp_device;

typedef struct interp_kernel {
    bl_kernel base;
    bl_arena *arena; /* holds the code and the linear kernel */
    bl_interp_code *code;
} interp_kernel;

typedef struct interp_recording {
    bl_recording base;
    bl_launch launches[];
} interp_recording;

static void interp_device_destroy(bl_device *dev)
{
    interp_device *d = (interp_device *)dev;

    free(d->scratch);
    free(d);
}

static bl_status interp_device_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err)
{
    return bl_host_alloc(dev, bytes, 0xff, out, err); /* the contents are undefined: a NaN shows an error sooner than a zero */
}

/* ---- kernels */

static void kernel_destroy(bl_kernel *kernel)
{
    interp_kernel *k = (interp_kernel *)kernel;

    bl_arena_destroy(k->arena);
    free(k);
}

static bl_status kernel(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    interp_kernel *k = bl_calloc(1, sizeof *k);
    bl_status st = BL_OK;

    (void)dev;
    *out = NULL;
    if (source->linear == NULL || source->nbuffers != source->linear->nbuffers || source->nscalars != source->linear->nscalars ||
        memcmp(source->local, source->linear->local, sizeof source->local) != 0) {
        st = bl_fail(err, BL_EBUG, "kernel %s: its code and its parameters differ", source->entry);
        goto out;
    }
    if (k == NULL || (k->arena = bl_arena_create(0)) == NULL) {
        st = bl_fail(err, BL_ENOMEM, "out of host memory for kernel %s", source->entry);
        goto out;
    }
    st = bl_interp_compile(k->arena, source->linear, &k->code, err);
    if (st != BL_OK)
        goto out;
    *out = &k->base;
    k = NULL; /* moved to the caller */
out:
    if (k != NULL)
        kernel_destroy(&k->base);
    return st;
}

/* ---- recordings */

static bl_status grow_scratch(interp_device *d, size_t bytes, bl_err *err)
{
    void *more;

    if (bytes <= d->scratch_bytes)
        return BL_OK;
    more = bl_calloc(1, bytes);
    if (more == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for %zu bytes of registers for %s", bytes, d->base.info.id);
    free(d->scratch);
    d->scratch = more;
    d->scratch_bytes = bytes;
    return BL_OK;
}

static bl_status interp_device_record(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                                      bl_recording **out, bl_err *err)
{
    interp_recording *r;

    (void)nslots;
    (void)nvars;
    *out = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const interp_kernel *k = (const interp_kernel *)launches[i].kernel;

        BL_TRY(grow_scratch((interp_device *)dev, bl_interp_scratch(k->code), err));
    }
    r = bl_calloc(1, sizeof *r + n * sizeof *launches);
    if (r == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a recording of %u launches", n);
    if (n)
        memcpy(r->launches, launches, n * sizeof *launches);
    *out = &r->base;
    return BL_OK;
}

static void recording_destroy(bl_recording *recording)
{
    free(recording);
}

static bl_status run_launch(interp_device *d, const bl_launch *launch, const bl_submission *submission, uint32_t number,
                            bl_err *err)
{
    const interp_kernel *k = (const interp_kernel *)launch->kernel;
    bl_interp_memory buffers[BL_MAX_BINDINGS];
    int32_t scalars[BL_MAX_SCALARS];
    bl_interp_launch run = {.buffers = buffers, .scalars = scalars, .scratch = d->scratch};

    for (uint32_t i = 0; i < k->base.nbuffers; i++) {
        const bl_buffer *b = submission->slots[launch->slot[i]];

        buffers[i] = (bl_interp_memory){b->host, b->bytes};
    }
    for (uint32_t i = 0; i < k->base.nscalars; i++)
        scalars[i] = submission->vars[launch->var[i]];
    memcpy(run.groups, submission->groups[number], sizeof run.groups);
    return bl_interp_run(k->code, &run, err);
}

static bl_status interp_device_submit(bl_recording *recording, const bl_submission *submission, bl_err *err)
{
    const interp_recording *r = (const interp_recording *)recording;

    for (uint32_t i = 0; i < r->base.nlaunches; i++) {
        int64_t start = bl_clock_ns();

        if (bl_fault_hit(BL_FAULT_LAUNCH))
            return bl_fail(err, BL_ENODEVMEM, "device %s has no memory for launch %u (on purpose)", r->base.dev->info.id, i);
        recording->begun = true;
        BL_TRY(run_launch((interp_device *)r->base.dev, &r->launches[i], submission, i, err));
        if (submission->nanoseconds)
            submission->nanoseconds[i] = (uint64_t)(bl_clock_ns() - start);
    }
    return BL_OK;
}

static const bl_device_ops interp_ops = {
    .name = "interp",
    .destroy = interp_device_destroy,
    .reopen = bl_host_nothing,
    .alloc = interp_device_alloc,
    .view = bl_host_view,
    .dealloc = bl_host_dealloc,
    .write = bl_host_write,
    .read = bl_host_read,
    .kernel = kernel,
    .kernel_destroy = kernel_destroy,
    .record = interp_device_record,
    .recording_destroy = recording_destroy,
    .submit = interp_device_submit,
    .wait = bl_host_nothing, /* submit has completed all work */
};

/* ---- the devices */

/* The number of devices: 1, or the value of BEAMLINE_INTERP_DEVICES, which gives tests several devices. */
static long device_count(void)
{
    const char *text = getenv("BEAMLINE_INTERP_DEVICES");
    long count = text != NULL ? strtol(text, NULL, 10) : 1;

    return count >= 1 && count <= MOST_DEVICES ? count : 1;
}

static uint64_t host_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : (uint64_t)1 << 30;
}

bl_status bl_interp_stand_in(const bl_device *of, bl_device **out, bl_err *err)
{
    interp_device *d = bl_calloc(1, sizeof *d);

    *out = NULL;
    if (d == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for an interpreter for %s", of->info.id);
    d->base.ops = &interp_ops;
    d->base.info = of->info;
    d->base.info.dialect = BL_DIALECT_LINEAR;
    d->base.info.mega_ops = 100;
    d->base.info.mega_bytes = 1000;
    *out = &d->base;
    return BL_OK;
}

static bl_status interp_device_open_device(long number, bl_device **out, bl_err *err)
{
    interp_device *d = bl_calloc(1, sizeof *d);

    if (d == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the interpreter device");
    d->base.ops = &interp_ops;
    d->base.info = (bl_device_info){
        .name = "interpreter",
        .driver = "interpreter 1",
        .type = BL_DEVICE_CPU,
        .dialect = BL_DIALECT_LINEAR,
        .features = BL_FEATURE_F64 | BL_FEATURE_I64 | BL_FEATURE_STORE8 | BL_FEATURE_STORE16,
        .memory = host_bytes(),
        .max_alloc = host_bytes(),
        .max_binding = host_bytes(),
        .alignment = 16,
        .units = 1,
        .serial_groups = true,
        .mega_ops = 100,
        .mega_bytes = 1000,
        .launch_ns = 500,
        .vector_bits = 0,
        .registers = 16,
        .subgroup = 1,
        .max_local = 64,
        .local_bytes = 32768,
        .max_groups = {INT32_MAX, 65535, 65535},
        .host_memory = true,
        .brief_ns = 20000, /* waking the waiting thread would take as long */
    };
    snprintf(d->base.info.id, sizeof d->base.info.id, "interp:%ld", number);
    *out = &d->base;
    return BL_OK;
}

static bl_status interp_device_open_devices(uint32_t max, bl_device **out, uint32_t *count, struct bl_text *why, bl_err *err)
{
    (void)why;
    *count = 0;
    for (long i = 0; i < device_count() && *count < max; i++) {
        bl_status st = interp_device_open_device(i, &out[*count], err);
        while (st != BL_OK && *count > 0)
            bl_device_destroy(out[--*count]);
        BL_TRY(st);
        ++*count;
    }
    return BL_OK;
}

const bl_backend bl_backend_interp = {"interp", interp_device_open_devices};
