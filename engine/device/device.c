/* SPDX-License-Identifier: MIT */
#include "engine/device/device.h"

#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 /* bytes per piece of a copy through host memory */ };

/* ---- devices */

void bl_device_destroy(bl_device *dev)
{
    if (dev != NULL)
        dev->ops->destroy(dev);
}

bl_status bl_device_reopen(bl_device *dev, bl_err *err)
{
    BL_TRY(dev->ops->reopen(dev, err));
    atomic_fetch_add(&dev->generation, 1);
    atomic_store(&dev->lost, false);
    return BL_OK;
}

/* Check that the device is not lost. Called before every call of a back end. */
static bl_status check_alive(bl_device *dev, bl_err *err)
{
    if (atomic_load(&dev->lost))
        return bl_fail(err, BL_EDEVICE, "device %s is lost", dev->info.id);
    return BL_OK;
}

static bl_status check_generation(bl_device *dev, unsigned generation, const char *what, bl_err *err)
{
    BL_TRY(check_alive(dev, err));
    if (generation != atomic_load(&dev->generation))
        return bl_fail(err, BL_EDEVICE, "this %s was lost when device %s failed", what, dev->info.id);
    return BL_OK;
}

/* Fault injection: the n-th call of a device fails. The device stays usable. */
static bl_status check_fault(bl_device *dev, const char *what, bl_err *err)
{
    if (bl_fault_hit(BL_FAULT_DEVICE))
        return bl_fail(err, BL_EDEVICE, "device %s failed to %s (injected fault)", dev->info.id, what);
    return BL_OK;
}

/* check_fault for calls whose failure means that the device is lost. */
static bl_status check_fatal_fault(bl_device *dev, const char *what, bl_err *err)
{
    bl_status st = check_fault(dev, what, err);

    if (st != BL_OK)
        atomic_store(&dev->lost, true);
    return st;
}

/* ---- buffers */

/* Reserve |bytes| of the device's memory. The compare-and-exchange keeps two threads from reserving the same bytes. */
static bool device_count_bytes(bl_device *dev, size_t bytes)
{
    size_t used = atomic_load(&dev->bytes_used), peak;

    do {
        if (used > dev->info.memory || bytes > dev->info.memory - used)
            return false;
    } while (!atomic_compare_exchange_weak(&dev->bytes_used, &used, used + bytes));
    used += bytes;
    peak = atomic_load(&dev->bytes_peak);
    while (peak < used && !atomic_compare_exchange_weak(&dev->bytes_peak, &peak, used))
        ;
    return true;
}

/* Fill in the public fields of a buffer that the back end has made. */
static bl_buffer *fill_in(bl_buffer *buffer, bl_device *dev, bl_buffer *parent, size_t offset, size_t bytes, unsigned generation)
{
    buffer->dev = dev;
    buffer->parent = parent;
    buffer->offset = offset;
    buffer->bytes = bytes;
    buffer->generation = generation;
    atomic_init(&buffer->refs, 1);
    return buffer;
}

bl_status bl_buffer_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err)
{
    unsigned generation = atomic_load(&dev->generation);
    bl_buffer *buffer = NULL;
    bl_status st;

    *out = NULL;
    if (bytes == 0)
        bytes = 1;
    BL_TRY(check_alive(dev, err));
    if (bytes > dev->info.max_alloc)
        return bl_fail(err, BL_ENODEVMEM, "a buffer of %zu bytes is too large for device %s: one buffer can have %llu bytes",
                       bytes, dev->info.id, (unsigned long long)dev->info.max_alloc);
    if (bl_fault_hit(BL_FAULT_DEVICE))
        return bl_fail(err, BL_ENODEVMEM, "device %s cannot allocate %zu bytes (injected fault)", dev->info.id, bytes);
    if (!device_count_bytes(dev, bytes))
        return bl_fail(err, BL_ENODEVMEM, "device %s cannot allocate %zu bytes: %zu of %llu bytes are in use", dev->info.id,
                       bytes, atomic_load(&dev->bytes_used), (unsigned long long)dev->info.memory);
    st = bl_budget_take(dev->host, bytes, BL_ENODEVMEM, "a buffer", err);
    if (st == BL_OK) {
        st = dev->ops->alloc(dev, bytes, &buffer, err);
        if (st != BL_OK)
            bl_budget_give(dev->host, bytes);
    }
    if (st != BL_OK) {
        atomic_fetch_sub(&dev->bytes_used, bytes);
        return st;
    }
    *out = fill_in(buffer, dev, NULL, 0, bytes, generation);
    bl_buffer_change(buffer);
    return BL_OK;
}

/* Check that |bytes| at |offset| lie within the buffer. Sizes from the wire were checked before, so a failure is a bug. */
static bl_status check_bounds(const bl_buffer *buffer, size_t offset, size_t bytes, bl_err *err)
{
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return bl_fail(err, BL_EBUG, "bytes %zu to %zu + %zu of a buffer of %zu", offset, offset, bytes, buffer->bytes);
    return BL_OK;
}

bl_status bl_buffer_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err)
{
    bl_device *dev = parent->dev;
    bl_buffer *view = NULL;

    *out = NULL;
    if (bytes == 0)
        bytes = 1;
    BL_TRY(check_bounds(parent, offset, bytes, err));
    if (parent->parent != NULL) { /* make a view of the parent's buffer: OpenCL has no sub-buffers of sub-buffers */
        offset += parent->offset;
        parent = parent->parent;
    }
    if (offset % dev->info.alignment != 0)
        return bl_fail(err, BL_EBUG, "a view begins at byte %zu; device %s needs a multiple of %u", offset, dev->info.id,
                       (unsigned)dev->info.alignment);
    BL_TRY(check_generation(dev, parent->generation, "buffer", err));
    BL_TRY(check_fault(dev, "make a view", err));
    BL_TRY(dev->ops->view(parent, offset, bytes, &view, err));
    *out = fill_in(view, dev, bl_buffer_retain(parent), offset, bytes, parent->generation);
    return BL_OK;
}

bl_buffer *bl_buffer_retain(bl_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    return buffer;
}

void bl_buffer_release(bl_buffer *buffer)
{
    while (buffer != NULL && atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) == 1) {
        bl_device *dev = buffer->dev;
        bl_buffer *parent = buffer->parent;
        size_t bytes = parent == NULL ? buffer->bytes : 0;

        dev->ops->dealloc(buffer);
        atomic_fetch_sub(&dev->bytes_used, bytes);
        bl_budget_give(dev->host, bytes);
        buffer = parent;
    }
}

static bl_status check_copy(const bl_buffer *buffer, size_t offset, size_t bytes, const char *what, bl_err *err)
{
    BL_TRY(check_bounds(buffer, offset, bytes, err));
    BL_TRY(check_generation(buffer->dev, buffer->generation, "buffer", err));
    return bytes == 0 ? BL_OK : check_fault(buffer->dev, what, err);
}

void bl_buffer_change(bl_buffer *buffer)
{
    buffer->version = atomic_fetch_add(&buffer->dev->versions, 1) + 1;
}

/* Give the buffer an earlier generation. The wrappers then reject the buffer like a buffer from before the device was
 * reopened. */
void bl_buffer_lose(bl_buffer *buffer)
{
    buffer->generation = atomic_load(&buffer->dev->generation) - 1;
}

bool bl_buffer_is_lost(const bl_buffer *buffer)
{
    return buffer->generation != atomic_load(&buffer->dev->generation);
}

bl_status bl_buffer_write(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err)
{
    BL_TRY(check_copy(buffer, offset, bytes, "write", err));
    bl_buffer_change(buffer);
    return bytes == 0 ? BL_OK : buffer->dev->ops->write(buffer, offset, data, bytes, err);
}

bl_status bl_buffer_read(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err)
{
    BL_TRY(check_copy(buffer, offset, bytes, "read", err));
    return bytes == 0 ? BL_OK : buffer->dev->ops->read(buffer, offset, data, bytes, err);
}

/* Copy through host memory, piece by piece. */
static bl_status write_pieces(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err)
{
    size_t most = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    bl_status st = BL_OK;
    char *piece = bl_calloc(1, most + 1);

    if (piece == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a copy of %zu bytes", bytes);
    for (size_t done = 0; done < bytes && st == BL_OK; done += most) {
        size_t n = bytes - done < most ? bytes - done : most;
        if (from != NULL)
            st = bl_buffer_read(from, offset + done, piece, n, err);
        if (st == BL_OK)
            st = bl_buffer_write(to, at + done, piece, n, err);
    }
    free(piece);
    return st;
}

bl_status bl_buffer_copy(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err)
{
    BL_TRY(check_copy(from, offset, bytes, "copy", err));
    /* host to host: bl_buffer_write waits for submitted work first */
    if (from->host != NULL && to->host != NULL)
        return bl_buffer_write(to, at, (const char *)from->host + offset, bytes, err);
    if (to->dev->ops->copy == NULL)
        return write_pieces(to, at, from, offset, bytes, err);
    BL_TRY(check_copy(to, at, bytes, "copy", err));
    bl_buffer_change(to);
    return bytes == 0 ? BL_OK : to->dev->ops->copy(to, at, from, offset, bytes, err);
}

bl_status bl_buffer_clear(bl_buffer *to, size_t at, size_t bytes, bl_err *err)
{
    return write_pieces(to, at, NULL, 0, bytes, err);
}

/* ---- kernels */

/* Drivers react to a kernel over their limits with anything from an error to an abort, so such kernels are rejected here. */
static bl_status device_check_source(const bl_device_info *info, const bl_kernel_source *source, bl_err *err)
{
    uint64_t items = 1;

    if (info->max_bindings > 0 && source->nbuffers > info->max_bindings)
        return bl_fail(err, BL_EUNSUPPORTED, "kernel %s has %u buffers; device %s allows %u", source->entry,
                       (unsigned)source->nbuffers, info->id, (unsigned)info->max_bindings);
    if (source->nbuffers > BL_MAX_BINDINGS || source->nscalars > BL_MAX_SCALARS)
        return bl_fail(err, BL_EBUG, "kernel %s has %u buffers and %u scalars", source->entry, (unsigned)source->nbuffers,
                       (unsigned)source->nscalars);
    for (int i = 0; i < 3; i++) {
        if (source->local[i] == 0 || source->local[i] > info->max_local)
            return bl_fail(err, BL_EUNSUPPORTED,
                           "kernel %s: a work-group has %u work-items in dimension %d; device %s allows 1 to %u", source->entry,
                           (unsigned)source->local[i], i, info->id, (unsigned)info->max_local);
        items *= source->local[i];
        if (items > info->max_local)
            return bl_fail(err, BL_EUNSUPPORTED, "kernel %s: a work-group has more than the %u work-items that device %s allows",
                           source->entry, (unsigned)info->max_local, info->id);
    }
    if (source->local_bytes > info->local_bytes)
        return bl_fail(err, BL_EUNSUPPORTED, "kernel %s needs %u bytes of local memory; device %s has %u", source->entry,
                       (unsigned)source->local_bytes, info->id, (unsigned)info->local_bytes);
    return BL_OK;
}

bl_status bl_kernel_create(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    unsigned generation = atomic_load(&dev->generation);
    bl_kernel *kernel = NULL;

    *out = NULL;
    BL_TRY(device_check_source(&dev->info, source, err));
    BL_TRY(check_alive(dev, err));
    BL_TRY(check_fault(dev, "compile a kernel", err));
    BL_TRY(dev->ops->kernel(dev, source, &kernel, err));
    kernel->dev = dev;
    kernel->nbuffers = source->nbuffers;
    kernel->nscalars = source->nscalars;
    for (int i = 0; i < 3; i++)
        kernel->local[i] = source->local[i];
    kernel->generation = generation;
    *out = kernel;
    return BL_OK;
}

void bl_kernel_destroy(bl_kernel *kernel)
{
    if (kernel != NULL)
        kernel->dev->ops->kernel_destroy(kernel);
}

bool bl_kernel_wants_compiling(bl_device *dev, const bl_kernel_source *source)
{
    bl_err ignored = {0};

    return dev->ops->compile != NULL && device_check_source(&dev->info, source, &ignored) == BL_OK &&
           !dev->ops->is_compiled(dev, source);
}

void bl_kernels_compile(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes)
{
    bl_err first = {0};

    memset(outcomes, 0, n * sizeof *outcomes);
    for (uint32_t i = 0; i < n; i++)
        outcomes[i].status = device_check_source(&dev->info, &sources[i], &outcomes[i]);
    for (uint32_t i = 0, end; i < n; i = end) { /* sources i to end - 1 may be passed to the driver */
        end = i + 1;
        if (outcomes[i].status != BL_OK)
            continue;
        while (end < n && outcomes[end].status == BL_OK)
            end++;
        if (dev->ops->compile == NULL || check_alive(dev, &first) != BL_OK)
            return;
        if (check_fault(dev, "compile kernels", &first) == BL_OK)
            dev->ops->compile(dev, end - i, sources + i, outcomes + i);
        else
            outcomes[i] = first;
    }
}

/* ---- recordings */

static bl_status check_launch(bl_device *dev, const bl_launch *launch, uint32_t nslots, uint32_t nvars, bl_err *err)
{
    const bl_kernel *kernel = launch->kernel;

    if (kernel->dev != dev)
        return bl_fail(err, BL_EBUG, "a kernel of device %s recorded for %s", kernel->dev->info.id, dev->info.id);
    BL_TRY(check_generation(dev, kernel->generation, "kernel", err));
    for (uint32_t i = 0; i < kernel->nbuffers; i++) {
        if (launch->slot[i] >= nslots)
            return bl_fail(err, BL_EBUG, "a launch names slot %u of %u", (unsigned)launch->slot[i], (unsigned)nslots);
    }
    for (uint32_t i = 0; i < kernel->nscalars; i++) {
        if (launch->var[i] >= nvars)
            return bl_fail(err, BL_EBUG, "a launch names variable %u of %u", (unsigned)launch->var[i], (unsigned)nvars);
    }
    return BL_OK;
}

bl_status bl_recording_create(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                              bl_recording **out, bl_err *err)
{
    unsigned generation = atomic_load(&dev->generation);
    bl_recording *recording = NULL;

    *out = NULL;
    BL_TRY(check_alive(dev, err));
    for (uint32_t i = 0; i < n; i++)
        BL_TRY(check_launch(dev, &launches[i], nslots, nvars, err));
    BL_TRY(check_fault(dev, "record", err));
    BL_TRY(dev->ops->record(dev, n, launches, nslots, nvars, &recording, err));
    recording->dev = dev;
    recording->nlaunches = n;
    recording->nslots = nslots;
    recording->nvars = nvars;
    recording->generation = generation;
    *out = recording;
    return BL_OK;
}

void bl_recording_destroy(bl_recording *recording)
{
    if (recording != NULL)
        recording->dev->ops->recording_destroy(recording);
}

bl_status bl_recording_submit(bl_recording *recording, const bl_submission *submission, bl_err *err)
{
    bl_device *dev = recording->dev;

    recording->begun = false;
    BL_TRY(check_generation(dev, recording->generation, "recording", err));
    for (uint32_t i = 0; i < recording->nslots; i++) {
        const bl_buffer *buffer = submission->slots[i];

        if (buffer->dev != dev && (buffer->dev->stand_in != dev || buffer->host == NULL))
            return bl_fail(err, BL_EBUG, "a buffer of device %s given to %s", buffer->dev->info.id, dev->info.id);
        BL_TRY(check_generation(buffer->dev, buffer->generation, "buffer", err));
    }
    for (uint32_t i = 0; i < recording->nlaunches; i++) {
        for (int d = 0; d < 3; d++) {
            uint32_t groups = submission->groups[i][d];

            if (groups > dev->info.max_groups[d])
                return bl_fail(err, BL_EBUG, "launch %u has %u groups in dimension %d; the limit is %u", (unsigned)i,
                               (unsigned)groups, d, (unsigned)dev->info.max_groups[d]);
        }
    }
    BL_TRY(check_fatal_fault(dev, "submit", err));
    return dev->ops->submit(recording, submission, err);
}

bl_status bl_device_wait(bl_device *dev, bl_err *err)
{
    BL_TRY(check_alive(dev, err));
    BL_TRY(check_fatal_fault(dev, "finish", err));
    return dev->ops->wait(dev, err);
}
