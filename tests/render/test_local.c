/* SPDX-License-Identifier: MIT */
/* Local memory has elements: a vector store followed by scalar loads, and scalar stores followed by a vector load, for every
 * dtype and number of lanes. */
#include "engine/ir/dtype.h"
#include "engine/ir/stage.h"
#include "engine/lower/linear.h"
#include "tests/device/run_kernel.h"
#include "tests/lower/read_linear.h"
#include "tests/plan/on_devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 64, BUFFERS = 3 };

/* y: x through a vector store to local memory and scalar loads; z: x through scalar stores and a vector load. */
static void print_kernel(bl_dtype dtype, bool narrow, int lanes, bl_text *text)
{
    const char *name = bl_dtype_name(dtype), *where = narrow ? "narrow" : "local";
    int n = 9 + lanes, from = 0; /* from 9 on: the indices of the lanes; 8: the index of the vector */

    bl_text_printf(text, "linear moved buffers=%s,%s,%s writes=6 scalars=0 local=1,1,1 localbytes=%d\n", name, name, name,
                   2 * (int)bl_local_bytes(dtype, narrow, lanes));
    bl_text_printf(text, "0 group_id int32 arg=0\n1 const int32 %d\n2 buffer %s arg=0\n3 buffer %s arg=1\n4 buffer %s arg=2\n",
                   lanes, name, name, name);
    bl_text_printf(text, "5 buffer %s sub=%s arg=%d\n6 buffer %s sub=%s arg=%d\n7 const int32 0\n8 mul int32 %%0 %%1\n", name,
                   where, lanes, name, where, lanes);
    for (int i = 0; i < lanes; i++)
        bl_text_printf(text, "%d const int32 %d\n", 9 + i, i);
    from = n;
    for (int i = 0; i < lanes; i++, n++)
        bl_text_printf(text, "%d add int32 %%8 %%%d\n", n, 9 + i);
    bl_text_printf(text, "%d load %sx%d %%2 %%8\n%d store %sx%d %%5 %%7 %%%d\n", n, name, lanes, n + 1, name, lanes, n);
    n += 2;
    for (int i = 0; i < lanes; i++, n += 2)
        bl_text_printf(text, "%d load %s %%2 %%%d\n%d store %%6 %%%d %%%d\n", n, name, from + i, n + 1, 9 + i, n);
    bl_text_printf(text, "%d barrier\n", n++);
    for (int i = 0; i < lanes; i++, n += 2)
        bl_text_printf(text, "%d load %s %%5 %%%d\n%d store %%3 %%%d %%%d\n", n, name, 9 + i, n + 1, from + i, n);
    bl_text_printf(text, "%d load %sx%d %%6 %%7\n%d store %sx%d %%4 %%8 %%%d\n", n, name, lanes, n + 1, name, lanes, n);
}

/* All three buffers have |values| afterwards. */
static bl_status move(bl_arena *arena, bl_device *dev, bl_dtype dtype, bool narrow, int lanes, const char *values,
                      char *got[BUFFERS], bl_err *err)
{
    size_t bytes = COUNT * bl_dtype_bytes(dtype);
    bl_buffer *buffers[BUFFERS] = {0};
    bl_linear *linear = NULL;
    bl_text text = {0};
    bl_status st = BL_OK;

    print_kernel(dtype, narrow, lanes, &text);
    st = read_linear(arena, text.data, text.len, &linear, err);
    for (int i = 0; st == BL_OK && i < BUFFERS; i++)
        st = bl_buffer_alloc(dev, bytes, &buffers[i], err);
    if (st == BL_OK)
        st = bl_buffer_write(buffers[0], 0, values, bytes, err);
    if (st == BL_OK)
        st = test_run_kernel(dev, linear, (uint32_t[3]){(uint32_t)(COUNT / lanes), 1, 1}, buffers, NULL, err);
    for (int i = 0; st == BL_OK && i < BUFFERS; i++) {
        got[i] = bl_arena_alloc(arena, bytes);
        st = bl_buffer_read(buffers[i], 0, got[i], bytes, err);
    }
    for (int i = 0; i < BUFFERS; i++)
        bl_buffer_release(buffers[i]);
    bl_text_fini(&text);
    return st;
}

static void check(bl_device *dev, bl_dtype dtype, bool narrow, int lanes)
{
    static const char *const how[BUFFERS] = {"not at all", "as a vector and back one by one", "one by one and back as a vector"};
    bl_arena *arena = bl_arena_create(0);
    size_t bytes = bl_dtype_bytes(dtype);
    char values[COUNT * 8], *got[BUFFERS];
    bl_err err = {0};

    for (int i = 0; i < COUNT; i++)
        bl_scalar_write(dtype, bl_scalar_cast(dtype, BL_I32, (bl_scalar){.i = dtype == BL_BOOL ? i % 3 == 0 : i}),
                        values + (size_t)i * bytes);
    if (move(arena, dev, dtype, narrow, lanes, values, got, &err) != BL_OK)
        fail_msg("%s %sx%d: %s", dev->info.id, bl_dtype_name(dtype), lanes, err.text);
    for (int b = 0; b < BUFFERS; b++) {
        for (size_t i = 0; i < COUNT; i++) {
            if (memcmp(got[b] + i * bytes, values + i * bytes, bytes) != 0)
                fail_msg("%s %sx%d: element %zu is another, moved %s", dev->info.id, bl_dtype_name(dtype), lanes, i, how[b]);
        }
    }
    bl_arena_destroy(arena);
}

static void test_device(void **state)
{
    static const int widths[] = {2, 4, 8, 16};
    bl_device *dev = *state;

    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        if (dev->info.dialect == BL_DIALECT_GLSL && widths[w] > 4)
            continue;
        for (int dtype = 0; dtype < BL_DTYPE_WIRE; dtype++) {
            if (bl_dtype_is_float8((bl_dtype)dtype) || (dtype == BL_F64 && (dev->info.features & BL_FEATURE_F64) == 0))
                continue; /* kernels do not use the 8-bit floats: ir/float8.c */
            check(dev, (bl_dtype)dtype, false, widths[w]);
            if (dtype == BL_F16 || dtype == BL_BF16)
                check(dev, (bl_dtype)dtype, true, widths[w]);
        }
    }
}

int main(void)
{
    return on_devices("local", test_device, 0, NULL);
}
