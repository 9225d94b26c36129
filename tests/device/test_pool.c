/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "engine/device/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int open_null(void **state)
{
    bl_device *dev = NULL;
    uint32_t count = 0;

    assert_int_equal(bl_backend_null.open(1, &dev, &count, NULL, NULL), BL_OK);
    *state = dev;
    return 0;
}

static int close_null(void **state)
{
    bl_device *dev = *state;

    assert_int_equal(atomic_load(&dev->bytes_used), 0);
    bl_device_destroy(dev);
    return 0;
}

static void sizes_waste_a_third_at_most(void **state)
{
    static const struct {
        size_t bytes, want;
    } rows[] = {{0, 4096},
                {1, 4096},
                {4096, 4096},
                {4097, 6144},
                {6144, 6144},
                {6145, 8192},
                {8193, 12288},
                {100000, 131072},
                {130000, 131072},
                {1 << 20, 1 << 20},
                {1 << 24, 1 << 24},
                {(1 << 24) + 1, 3 << 23},
                {600000000, 805306368},
                {805306369, 1 << 30},
                {1 << 30, 1 << 30}};
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, 0);
    bl_buffer *buffer;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(bl_pool_alloc(pool, rows[i].bytes, &buffer, NULL), BL_OK);
        assert_int_equal(buffer->bytes, rows[i].want);
        bl_pool_release(pool, buffer);
        assert_int_equal(bl_pool_idle_bytes(pool), 0);
    }
    dev->info.max_alloc = 1000000; /* not a power of two, so that the size classes near it are irregular */
    for (size_t bytes = 1; bytes <= 1000000; bytes += bytes / 50 + 1) {
        assert_int_equal(bl_pool_alloc(pool, bytes, &buffer, NULL), BL_OK);
        assert_in_range(buffer->bytes, bytes, bytes <= 4096 ? 4096 : bytes + bytes / 2);
        bl_pool_release(pool, buffer);
    }
    assert_int_equal(bl_pool_alloc(pool, 1000001, &buffer, NULL), BL_ENODEVMEM);
    bl_pool_destroy(pool);
    bl_pool_destroy(NULL);
}

static void last_in_first_out(void **state)
{
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, 1 << 20);
    bl_buffer *b[4], *again;

    for (int i = 0; i < 4; i++)
        assert_int_equal(bl_pool_alloc(pool, i == 3 ? 10000 : 5000, &b[i], NULL), BL_OK);
    for (int i = 0; i < 4; i++)
        bl_pool_release(pool, b[i]);
    assert_int_equal(bl_pool_idle_bytes(pool), 3 * 6144 + 12288);
    for (int i = 2; i >= 0; i--) {
        assert_int_equal(bl_pool_alloc(pool, 4100 + (size_t)i, &again, NULL), BL_OK);
        assert_ptr_equal(again, b[i]);
        assert_int_equal(atomic_load(&again->refs), 1);
    }
    assert_int_equal(bl_pool_idle_bytes(pool), 12288);
    for (int i = 0; i < 3; i++)
        bl_pool_release(pool, b[i]);
    bl_pool_release(pool, NULL);
    bl_pool_trim(pool);
    assert_int_equal(atomic_load(&dev->bytes_used), 0);
    bl_pool_destroy(pool);
}

static void idle_bytes_are_bounded_and_the_oldest_goes(void **state)
{
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, 20000);
    bl_buffer *b[5], *again;

    for (int i = 0; i < 5; i++)
        assert_int_equal(bl_pool_alloc(pool, i == 0 ? 6000 : 4096, &b[i], NULL), BL_OK);
    for (int i = 0; i < 5; i++) {
        bl_pool_release(pool, b[i]);
        assert_in_range(bl_pool_idle_bytes(pool), 1, 20000);
    }
    assert_int_equal(bl_pool_idle_bytes(pool), 4 * 4096); /* b[0] was freed */
    assert_int_equal(atomic_load(&dev->bytes_used), 4 * 4096);
    assert_int_equal(bl_pool_alloc(pool, 30000, &again, NULL), BL_OK);
    bl_pool_release(pool, again); /* larger than the limit alone: all idle buffers are freed */
    assert_int_equal(bl_pool_idle_bytes(pool), 0);
    bl_pool_destroy(pool);
}

static void idle_buffers_are_bounded(void **state)
{
    enum { N = 1500 };
    bl_pool *pool = bl_pool_create(*state, SIZE_MAX);
    static bl_buffer *b[N];

    for (int i = 0; i < N; i++)
        assert_int_equal(bl_pool_alloc(pool, 1, &b[i], NULL), BL_OK);
    for (int i = 0; i < N; i++)
        bl_pool_release(pool, b[i]);
    assert_int_equal(bl_pool_idle_bytes(pool), 1024 * 4096);
    bl_pool_destroy(pool);
}

static void other_references_keep_a_buffer_out(void **state)
{
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, 1 << 20);
    bl_buffer *buffer, *view, *other;

    assert_int_equal(bl_pool_alloc(pool, 4096, &buffer, NULL), BL_OK);
    assert_int_equal(bl_buffer_view(buffer, 64, 64, &view, NULL), BL_OK);
    bl_pool_release(pool, buffer);
    assert_int_equal(bl_pool_idle_bytes(pool), 0);
    assert_int_equal(bl_pool_alloc(pool, 4096, &other, NULL), BL_OK);
    assert_true(other != buffer);
    bl_pool_release(pool, other);
    bl_pool_release(pool, bl_buffer_retain(view)); /* not the last reference either */
    bl_buffer_release(view);                       /* the device frees the last reference, not the pool */
    assert_int_equal(atomic_load(&dev->bytes_used), 4096);
    bl_pool_destroy(pool);
}

static void short_of_memory_empties_the_pool(void **state)
{
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, SIZE_MAX);
    bl_buffer *a, *b, *none;
    bl_err err = {0};

    dev->info.memory = 20000;
    assert_int_equal(bl_pool_alloc(pool, 12000, &a, NULL), BL_OK);
    bl_pool_release(pool, a);
    assert_int_equal(bl_pool_alloc(pool, 16000, &a, NULL), BL_OK); /* frees the idle 12288 bytes */
    assert_int_equal(bl_pool_alloc(pool, 3500, &b, NULL), BL_OK);  /* the size class does not fit, but the exact size does */
    assert_int_equal(b->bytes, 3500);
    assert_int_equal(bl_pool_alloc(pool, 501, &none, &err), BL_ENODEVMEM);
    assert_null(none);
    assert_int_equal(err.status, BL_ENODEVMEM);
    bl_pool_release(pool, b); /* no size class: the buffer is not kept */
    assert_int_equal(bl_pool_idle_bytes(pool), 0);
    bl_pool_release(pool, a);
    bl_pool_destroy(pool);
}

/* Frees one of its buffers per call; the last buffer is too small to help. */
typedef struct hoard {
    bl_buffer *buffer[3];
    int n, calls;
} hoard;

static bool give_one(void *arg, size_t bytes)
{
    hoard *h = arg;

    (void)bytes;
    h->calls++;
    if (h->n == 0)
        return false;
    bl_buffer_release(h->buffer[--h->n]);
    return true;
}

static void room_is_made_until_there_is_enough(void **state)
{
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, SIZE_MAX);
    bl_buffer *a, *none;
    bl_err err = {0};
    hoard h = {.n = 3};

    dev->info.memory = 20000;
    for (int i = 0; i < 3; i++)
        assert_int_equal(bl_buffer_alloc(dev, 6000, &h.buffer[i], NULL), BL_OK);
    bl_pool_set_room(pool, give_one, &h);
    assert_int_equal(bl_pool_alloc(pool, 12000, &a, NULL), BL_OK); /* two freed buffers suffice */
    assert_int_equal(h.calls, 2);
    assert_int_equal(bl_pool_alloc(pool, 20001, &none, NULL), BL_ENODEVMEM); /* no amount of freed memory would suffice, so the
                                                                              * hoard is not asked */
    assert_int_equal(h.calls, 2);
    assert_int_equal(bl_pool_alloc(pool, 9000, &none, &err), BL_ENODEVMEM);
    assert_int_equal(h.calls, 4);
    assert_int_equal(err.status, BL_ENODEVMEM);
    bl_pool_release(pool, a);
    bl_pool_destroy(pool);
}

/* Spare buffers use only free memory.  Other allocations evict them, the least recently used first. */
static void spares_give_way(void **state)
{
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, SIZE_MAX);
    bl_spare spare[4] = {{0}};
    atomic_size_t total = 0;
    bl_buffer *idle;
    hoard h = {0};

    dev->info.memory = 20000;
    bl_pool_set_room(pool, give_one, &h);
    assert_int_equal(bl_pool_alloc(pool, 12000, &idle, NULL), BL_OK);
    bl_pool_release(pool, idle);
    assert_int_equal(bl_pool_spare_bytes(pool), 0);
    for (int i = 0; i < 3; i++) /* idle buffers are evicted */
        assert_true(bl_pool_spare_alloc(pool, 6000, &total, &spare[i]));
    assert_false(bl_pool_spare_alloc(pool, 6000, &total, &spare[3]));
    assert_int_equal(h.calls, 0);
    assert_int_equal(atomic_load(&total), 18000);
    bl_pool_spare_use(&spare[0]);
    assert_true(bl_pool_drop_spares(pool, 1) >= 6000);
    assert_null(spare[1].buffer);
    assert_non_null(spare[0].buffer);
    assert_int_equal(atomic_load(&total), 12000);
    bl_pool_spare_release(&spare[2]); /* returned to the pool */
    assert_true(bl_pool_idle_bytes(pool) >= 6000);
    assert_int_equal(bl_pool_drop_spares(pool, SIZE_MAX), 6144);
    assert_int_equal(atomic_load(&total), 0);
    assert_int_equal(bl_pool_spare_bytes(pool), 0);
    assert_int_equal(bl_pool_drop_spares(pool, 1), 0);
    for (int i = 0; i < 4; i++)
        bl_pool_spare_release(&spare[i]); /* evicted spares, and a spare that never had a buffer */
    assert_true(bl_pool_spare_alloc(pool, 6000, &total, &spare[0]));
    bl_pool_destroy(pool);
    bl_pool_spare_release(&spare[0]); /* released after the pool */
    bl_pool_spare_release(&spare[0]);
    assert_int_equal(atomic_load(&dev->bytes_used), 0);
}

static void failures_come_back(void **state)
{
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, SIZE_MAX);
    bl_buffer *buffer;
    bl_err err = {0};

    bl_fault_arm(BL_FAULT_DEVICE, 1); /* the retry hides a single failure */
    assert_int_equal(bl_pool_alloc(pool, 1, &buffer, NULL), BL_OK);
    bl_pool_release(pool, buffer);
    atomic_store(&dev->lost, true);
    assert_int_equal(bl_pool_alloc(pool, 1, &buffer, &err), BL_EDEVICE);
    assert_string_equal(err.text, "device null:0 is lost");
    assert_null(buffer);
    assert_int_equal(bl_pool_idle_bytes(pool), 0);
    bl_pool_destroy(pool);
    bl_fault_arm(BL_FAULT_ALLOC, 1);
    assert_null(bl_pool_create(dev, 0));
}

static void buffers_of_a_lost_device_do_not_come_back(void **state)
{
    bl_device *dev = *state;
    bl_pool *pool = bl_pool_create(dev, SIZE_MAX);
    bl_buffer *idle, *held, *fresh;

    assert_int_equal(bl_pool_alloc(pool, 1, &idle, NULL), BL_OK);
    assert_int_equal(bl_pool_alloc(pool, 1, &held, NULL), BL_OK);
    bl_pool_release(pool, idle);
    atomic_store(&dev->lost, true);
    assert_int_equal(bl_device_reopen(dev, NULL), BL_OK);
    bl_pool_release(pool, held);
    assert_int_equal(bl_pool_idle_bytes(pool), 4096); /* only the earlier idle buffer, which this allocation does not get: */
    assert_int_equal(bl_pool_alloc(pool, 1, &fresh, NULL), BL_OK);
    assert_int_equal(fresh->generation, atomic_load(&dev->generation));
    bl_pool_release(pool, fresh);
    bl_pool_destroy(pool);
}

static void *churn(void *arg)
{
    bl_pool *pool = arg;

    for (size_t i = 0; i < 20000; i++) {
        bl_buffer *buffer = NULL;

        if (bl_pool_alloc(pool, i * 7919 % 30000, &buffer, NULL) != BL_OK)
            return arg;
        *(char *)buffer->host = (char)i;
        bl_pool_release(pool, buffer);
    }
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    bl_pool *pool = bl_pool_create(*state, 40000);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, pool), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_in_range(bl_pool_idle_bytes(pool), 0, 40000);
    bl_pool_destroy(pool);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_null, close_null)
    const struct CMUnitTest tests[] = {
        TEST(sizes_waste_a_third_at_most),
        TEST(last_in_first_out),
        TEST(idle_bytes_are_bounded_and_the_oldest_goes),
        TEST(idle_buffers_are_bounded),
        TEST(other_references_keep_a_buffer_out),
        TEST(short_of_memory_empties_the_pool),
        TEST(room_is_made_until_there_is_enough),
        TEST(spares_give_way),
        TEST(failures_come_back),
        TEST(buffers_of_a_lost_device_do_not_come_back),
        TEST(threads_share_a_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
