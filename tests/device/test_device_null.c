/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "engine/device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int open_null(void **state)
{
    bl_device *dev = NULL;
    uint32_t count = 0;

    assert_int_equal(bl_backend_null.open(1, &dev, &count, NULL, NULL), BL_OK);
    assert_int_equal(count, 1);
    *state = dev;
    return 0;
}

/* Checks that the test has released all objects. */
static int close_null(void **state)
{
    bl_device *dev = *state;

    assert_int_equal(atomic_load(&dev->bytes_used), 0);
    bl_device_destroy(dev);
    return 0;
}

static void opens_at_most_max(void **state)
{
    bl_device *dev = *state, *other = NULL;
    uint32_t count = 7;

    assert_string_equal(dev->info.id, "null:0");
    assert_int_equal(bl_backend_null.open(0, &other, &count, NULL, NULL), BL_OK);
    assert_int_equal(count, 0);
    bl_fault_arm(BL_FAULT_ALLOC, 1);
    assert_int_equal(bl_backend_null.open(1, &other, &count, NULL, NULL), BL_ENOMEM);
    assert_int_equal(count, 0);
    bl_device_destroy(NULL);
}

static void buffers_hold_what_is_written(void **state)
{
    bl_device *dev = *state;
    bl_buffer *buffer;
    char out[8] = {0};

    assert_int_equal(bl_buffer_alloc(dev, 100, &buffer, NULL), BL_OK);
    assert_int_equal(buffer->bytes, 100);
    assert_int_equal(bl_buffer_write(buffer, 92, "12345678", 8, NULL), BL_OK);
    assert_int_equal(bl_buffer_read(buffer, 92, out, 8, NULL), BL_OK);
    assert_memory_equal(out, "12345678", 8);
    assert_int_equal(bl_buffer_write(buffer, 100, NULL, 0, NULL), BL_OK);
    bl_buffer_release(bl_buffer_retain(buffer));
    assert_int_equal(atomic_load(&dev->bytes_used), 100);
    bl_buffer_release(buffer);
    bl_buffer_release(NULL);
}

static void bounds_are_checked(void **state)
{
    static const struct {
        size_t offset, bytes;
    } rows[] = {{93, 8}, {101, 0}, {SIZE_MAX, 1}, {1, SIZE_MAX}, {0, 101}, {SIZE_MAX, SIZE_MAX}};
    bl_device *dev = *state;
    bl_buffer *buffer, *view;
    char bytes[8];

    assert_int_equal(bl_buffer_alloc(dev, 100, &buffer, NULL), BL_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(bl_buffer_write(buffer, rows[i].offset, bytes, rows[i].bytes, NULL), BL_EBUG);
        assert_int_equal(bl_buffer_read(buffer, rows[i].offset, bytes, rows[i].bytes, NULL), BL_EBUG);
        assert_int_equal(bl_buffer_view(buffer, rows[i].offset, rows[i].bytes, &view, NULL), BL_EBUG);
        assert_null(view);
    }
    assert_int_equal(bl_buffer_view(buffer, 63, 8, &view, NULL), BL_EBUG); /* not aligned */
    bl_buffer_release(buffer);
}

/* The memory of a device that the host cannot access. */
static char *unseen;

static bl_status read_unseen(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err)
{
    (void)buffer, (void)err;
    memcpy(data, unseen + offset, bytes);
    return BL_OK;
}

static void copies_go_where_they_should(void **state)
{
    enum { SIZE = (2 << 20) + 5 }; /* several pieces and a partial piece */
    bl_device *dev = *state;
    const bl_device_ops *ops = dev->ops;
    bl_device_ops others = *ops;
    bl_buffer *from, *to;
    char *out = malloc(SIZE);

    others.read = read_unseen;
    assert_int_equal(bl_buffer_alloc(dev, SIZE, &from, NULL), BL_OK);
    assert_int_equal(bl_buffer_alloc(dev, SIZE, &to, NULL), BL_OK);
    for (int hidden = 0; hidden < 2; hidden++) {
        memset(out, 'a', SIZE);
        assert_int_equal(bl_buffer_write(to, 0, out, SIZE, NULL), BL_OK);
        memset(out, 'b', SIZE);
        out[SIZE - 4] = 'c';
        assert_int_equal(bl_buffer_write(from, 0, out, SIZE, NULL), BL_OK);
        unseen = from->host;
        from->host = hidden ? NULL : unseen;
        dev->ops = hidden ? &others : ops;
        assert_int_equal(bl_buffer_copy(to, 1, from, 3, SIZE - 3, NULL), BL_OK);
        dev->ops = ops;
        from->host = unseen;
        assert_int_equal(bl_buffer_read(to, 0, out, SIZE, NULL), BL_OK);
        assert_memory_equal(out, "abb", 3);
        assert_memory_equal(out + SIZE - 8, "bbcbbbaa", 8);
        assert_int_equal(bl_buffer_clear(to, 1, SIZE - 2, NULL), BL_OK);
        assert_int_equal(bl_buffer_read(to, 0, out, SIZE, NULL), BL_OK);
        assert_int_equal(out[0], 'a');
        assert_int_equal(out[SIZE - 1], 'a');
        for (int i = 1; i < SIZE - 1; i++)
            assert_int_equal(out[i], 0);
        assert_int_equal(bl_buffer_copy(to, 0, from, 3, SIZE, NULL), BL_EBUG);
        assert_int_equal(bl_buffer_copy(to, 3, from, 0, SIZE, NULL), BL_EBUG);
    }
    free(out);
    bl_buffer_release(from);
    bl_buffer_release(to);
}

static void views_keep_their_parent(void **state)
{
    bl_device *dev = *state;
    bl_buffer *buffer, *view, *inner;
    char out[4] = {0};

    assert_int_equal(bl_buffer_alloc(dev, 1024, &buffer, NULL), BL_OK);
    assert_int_equal(bl_buffer_view(buffer, 128, 512, &view, NULL), BL_OK);
    assert_int_equal(bl_buffer_view(view, 64, 256, &inner, NULL), BL_OK);
    assert_ptr_equal(inner->parent, buffer); /* the parent is the buffer, not the view */
    assert_int_equal(inner->offset, 192);
    bl_buffer_release(inner);
    assert_int_equal(bl_buffer_view(view, 320, 256, &inner, NULL), BL_EBUG); /* within the buffer, but not within the view */
    assert_null(inner);
    assert_int_equal(bl_buffer_view(view, 64, 256, &inner, NULL), BL_OK);
    assert_int_equal(atomic_load(&dev->bytes_used), 1024);
    assert_int_equal(bl_buffer_write(inner, 4, "abcd", 4, NULL), BL_OK);
    assert_int_equal(bl_buffer_read(buffer, 196, out, 4, NULL), BL_OK);
    assert_memory_equal(out, "abcd", 4);
    bl_buffer_release(buffer);
    bl_buffer_release(view);
    assert_int_equal(atomic_load(&dev->bytes_used), 1024);
    assert_int_equal(bl_buffer_read(inner, 4, out, 4, NULL), BL_OK);
    bl_buffer_release(inner);
}

static void memory_is_counted(void **state)
{
    bl_device *dev = *state;
    bl_buffer *a, *b;
    bl_err err = {0};

    dev->info.memory = 1000;
    dev->info.max_alloc = 800;
    assert_int_equal(bl_buffer_alloc(dev, 801, &a, NULL), BL_ENODEVMEM);
    assert_int_equal(bl_buffer_alloc(dev, SIZE_MAX, &a, NULL), BL_ENODEVMEM);
    assert_null(a);
    assert_int_equal(bl_buffer_alloc(dev, 800, &a, NULL), BL_OK);
    assert_int_equal(bl_buffer_alloc(dev, 201, &b, &err), BL_ENODEVMEM);
    assert_string_equal(err.text, "device null:0 cannot allocate 201 bytes: 800 of 1000 bytes are in use");
    bl_buffer_release(a);
    assert_int_equal(bl_buffer_alloc(dev, 0, &b, NULL), BL_OK); /* gives one byte */
    assert_int_equal(atomic_load(&dev->bytes_used), 1);
    bl_buffer_release(b);
    assert_int_equal(atomic_load(&dev->bytes_peak), 800);
    for (long nth = 1; nth <= 2; nth++) { /* a failed allocation of the back end is not counted */
        bl_fault_arm(BL_FAULT_ALLOC, nth);
        assert_int_equal(bl_buffer_alloc(dev, 8, &b, NULL), BL_ENODEVMEM);
        assert_int_equal(atomic_load(&dev->bytes_used), 0);
    }
}

static const bl_kernel_source source = {
    .entry = "k", .text = "", .nbuffers = 2, .nscalars = 1, .writes = 1, .local = {8, 4, 1}, .local_bytes = 64};

static void kernels_are_checked(void **state)
{
    static const struct {
        bl_kernel_source source;
        bl_status want;
    } rows[] = {
        {{.entry = "k", .local = {1, 1, 1}}, BL_OK},
        {{.entry = "k", .local = {1024, 1, 1}, .local_bytes = 32768, .nbuffers = BL_MAX_BINDINGS}, BL_OK},
        {{.entry = "k", .local = {1, 0, 1}}, BL_EUNSUPPORTED},
        {{.entry = "k", .local = {1025, 1, 1}}, BL_EUNSUPPORTED},
        {{.entry = "k", .local = {64, 64, 1}}, BL_EUNSUPPORTED},
        {{.entry = "k", .local = {UINT32_MAX, UINT32_MAX, UINT32_MAX}}, BL_EUNSUPPORTED},
        {{.entry = "k", .local = {1, 1, 1}, .local_bytes = 32769}, BL_EUNSUPPORTED},
        {{.entry = "k", .local = {1, 1, 1}, .nbuffers = BL_MAX_BINDINGS + 1}, BL_EBUG},
        {{.entry = "k", .local = {1, 1, 1}, .nscalars = BL_MAX_SCALARS + 1}, BL_EBUG},
    };
    bl_kernel *kernel;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(bl_kernel_create(*state, &rows[i].source, &kernel, NULL), rows[i].want);
        assert_int_equal(kernel != NULL, rows[i].want == BL_OK);
        bl_kernel_destroy(kernel);
    }
}

static void recordings_run(void **state)
{
    bl_device *dev = *state;
    bl_kernel *kernel;
    bl_buffer *slots[2];
    bl_recording *recording;
    static const uint32_t some[2][3] = {{1, 1, 1}, {4, 2, 0}}, too_many[2][3] = {{1, 1, 1}, {4, 2, UINT32_MAX}};
    uint64_t nanoseconds[2] = {7, 7};
    int32_t vars[1] = {3};
    bl_launch launches[2] = {{.slot = {0, 1}}, {.slot = {1, 0}}};
    bl_submission submission = {.slots = slots, .vars = vars, .groups = some, .nanoseconds = nanoseconds};

    assert_int_equal(bl_kernel_create(dev, &source, &kernel, NULL), BL_OK);
    assert_int_equal(kernel->local[1], 4);
    launches[0].kernel = launches[1].kernel = kernel;
    for (int i = 0; i < 2; i++)
        assert_int_equal(bl_buffer_alloc(dev, 64, &slots[i], NULL), BL_OK);
    assert_int_equal(bl_recording_create(dev, 2, launches, 1, 1, &recording, NULL), BL_EBUG); /* slot 1 of 1 */
    assert_int_equal(bl_recording_create(dev, 2, launches, 2, 0, &recording, NULL), BL_EBUG); /* variable 0 of 0 */
    assert_null(recording);
    assert_int_equal(bl_recording_create(dev, 2, launches, 2, 1, &recording, NULL), BL_OK);
    assert_int_equal(bl_recording_submit(recording, &submission, NULL), BL_OK);
    assert_int_equal(bl_device_wait(dev, NULL), BL_OK);
    assert_int_equal(nanoseconds[1], 0);
    submission.groups = too_many;
    assert_int_equal(bl_recording_submit(recording, &submission, NULL), BL_EBUG);
    bl_recording_destroy(recording);
    bl_recording_destroy(NULL);
    bl_kernel_destroy(kernel);
    bl_kernel_destroy(NULL);
    bl_buffer_release(slots[0]);
    bl_buffer_release(slots[1]);
}

static void lost_device_answers_until_reopened(void **state)
{
    bl_device *dev = *state;
    bl_buffer *old, *buffer;
    bl_kernel *kernel, *other;
    bl_recording *recording, *again;
    bl_launch launch = {.slot = {0, 0}};
    static const uint32_t groups[1][3] = {{1, 1, 1}};
    int32_t vars[1] = {0};
    bl_submission submission = {.slots = &old, .vars = vars, .groups = groups};
    char byte = 0;

    assert_int_equal(bl_buffer_alloc(dev, 64, &old, NULL), BL_OK);
    assert_int_equal(bl_kernel_create(dev, &source, &kernel, NULL), BL_OK);
    launch.kernel = kernel;
    assert_int_equal(bl_recording_create(dev, 1, &launch, 1, 1, &recording, NULL), BL_OK);
    bl_fault_arm(BL_FAULT_DEVICE, 1);
    assert_int_equal(bl_recording_submit(recording, &submission, NULL), BL_EDEVICE);
    assert_true(atomic_load(&dev->lost));
    for (int reopened = 0; reopened < 2; reopened++) { /* again: objects from before the loss remain unusable */
        assert_int_equal(bl_recording_submit(recording, &submission, NULL), BL_EDEVICE);
        assert_int_equal(bl_recording_create(dev, 1, &launch, 1, 1, &again, NULL), BL_EDEVICE);
        assert_int_equal(bl_buffer_write(old, 0, &byte, 1, NULL), BL_EDEVICE);
        assert_int_equal(bl_buffer_read(old, 0, &byte, 1, NULL), BL_EDEVICE);
        assert_int_equal(bl_buffer_view(old, 0, 1, &buffer, NULL), BL_EDEVICE);
        if (!reopened) {
            assert_int_equal(bl_buffer_alloc(dev, 1, &buffer, NULL), BL_EDEVICE);
            assert_int_equal(bl_kernel_create(dev, &source, &other, NULL), BL_EDEVICE);
            assert_int_equal(bl_device_wait(dev, NULL), BL_EDEVICE);
            assert_int_equal(bl_device_reopen(dev, NULL), BL_OK);
        }
    }
    assert_int_equal(bl_buffer_alloc(dev, 1, &buffer, NULL), BL_OK);
    bl_buffer_release(buffer);
    bl_recording_destroy(recording);
    bl_kernel_destroy(kernel);
    bl_buffer_release(old);
}

/* The calls of one request; the test fails each call in turn until the request succeeds. */
static bl_status one_request(bl_device *dev)
{
    bl_buffer *buffer = NULL, *view = NULL;
    bl_kernel *kernel = NULL;
    bl_recording *recording = NULL;
    bl_launch launch = {.slot = {0, 1}};
    static const uint32_t groups[1][3] = {{1, 1, 1}};
    int32_t vars[1] = {0};
    char bytes[16] = {0};
    bl_status st = bl_buffer_alloc(dev, 256, &buffer, NULL);

    if (st == BL_OK)
        st = bl_buffer_view(buffer, 64, 64, &view, NULL);
    if (st == BL_OK)
        st = bl_kernel_create(dev, &source, &kernel, NULL);
    launch.kernel = kernel;
    if (st == BL_OK)
        st = bl_recording_create(dev, 1, &launch, 2, 1, &recording, NULL);
    if (st == BL_OK)
        st = bl_buffer_write(buffer, 0, bytes, sizeof bytes, NULL);
    if (st == BL_OK) {
        bl_buffer *slots[2] = {buffer, view};
        const bl_submission submission = {.slots = slots, .vars = vars, .groups = groups};

        st = bl_recording_submit(recording, &submission, NULL);
    }
    if (st == BL_OK)
        st = bl_device_wait(dev, NULL);
    if (st == BL_OK)
        st = bl_buffer_read(view, 0, bytes, sizeof bytes, NULL);
    bl_recording_destroy(recording);
    bl_kernel_destroy(kernel);
    bl_buffer_release(view);
    bl_buffer_release(buffer);
    return st;
}

static void every_call_may_fail(void **state)
{
    static const int calls[BL_FAULT_KINDS] = {[BL_FAULT_ALLOC] = 5, [BL_FAULT_DEVICE] = 8};
    bl_device *dev = *state;

    for (int kind = 0; kind < BL_FAULT_KINDS; kind++) {
        int nth = 1;

        for (;; nth++) {
            bl_status st;

            bl_fault_arm((bl_fault_kind)kind, nth);
            st = one_request(dev);
            bl_fault_arm((bl_fault_kind)kind, 0);
            assert_int_equal(atomic_load(&dev->bytes_used), 0);
            if (st == BL_OK)
                break;
            if (atomic_load(&dev->lost))
                assert_int_equal(bl_device_reopen(dev, NULL), BL_OK);
        }
        assert_int_equal(nth, calls[kind] + 1);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_null, close_null)
    const struct CMUnitTest tests[] = {
        TEST(opens_at_most_max),
        TEST(buffers_hold_what_is_written),
        TEST(bounds_are_checked),
        TEST(copies_go_where_they_should),
        TEST(views_keep_their_parent),
        TEST(memory_is_counted),
        TEST(kernels_are_checked),
        TEST(recordings_run),
        TEST(lost_device_answers_until_reopened),
        TEST(every_call_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
