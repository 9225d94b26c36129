/* SPDX-License-Identifier: MIT */
/* Copies between buffers, of any size and alignment.  The including file defines MUST. */
#ifndef BL_TESTS_DEVICE_COPIES_H
#define BL_TESTS_DEVICE_COPIES_H

#include "engine/device/device.h"

/* Uses the driver's copies, even if the host can access both buffers. */
static inline void check_copies(bl_device *dev)
{
    static const size_t sizes[] = {1, 257, 262145, (4 << 20) + 5};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    bl_err err = {0};
    for (int k = 0; k < COUNT * COUNT; k++) {
        size_t n = sizes[k % COUNT], room = n + sizes[k / COUNT] + 3, at = room - n - 1;
        unsigned char *data = malloc(n), *back = malloc(room);
        bl_buffer *from = NULL, *to = NULL;
        assert_true(data != NULL && back != NULL);
        for (size_t i = 0; i < n; i++)
            data[i] = (unsigned char)(1 + (i * 7 + i / 251) % 251);
        memset(back, 255, room);
        MUST(bl_buffer_alloc(dev, n, &from, &err));
        MUST(bl_buffer_alloc(dev, room, &to, &err));
        MUST(bl_buffer_write(from, 0, data, n, &err));
        MUST(bl_buffer_write(to, 0, back, room, &err));
        MUST(dev->ops->copy(to, at, from, 0, n, &err));
        MUST(dev->ops->copy(to, 0, to, at, 1, &err));
        memset(back, 0, room);
        MUST(bl_buffer_read(to, 0, back, room, &err));
        assert_memory_equal(data, back + at, n);
        assert_int_equal(back[0], data[0]);
        assert_int_equal(back[1], 255);
        assert_int_equal(back[room - 1], 255);
        bl_buffer_release(from);
        bl_buffer_release(to);
        free(data);
        free(back);
    }
}

#endif
