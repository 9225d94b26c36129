/* SPDX-License-Identifier: MIT */
/* The device interp:0 runs kernels from text and detects their errors. */
#include "engine/device/device.h"

#include "tests/lower/read_linear.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BUFFERS = 3, ROOM = 1024 };

typedef struct bench {
    bl_device *dev;
    bl_err err;
    float data[MAX_BUFFERS][ROOM]; /* initial and final contents of the buffers */
    size_t bytes[MAX_BUFFERS];
    int32_t vars[BL_MAX_SCALARS];
    uint64_t nanoseconds;
} bench;

static void open_bench(bench *b)
{
    uint32_t count = 0;

    memset(b, 0, sizeof *b);
    assert_int_equal(BL_OK, bl_backend_interp.open(4, &b->dev, &count, NULL, &b->err));
    assert_int_equal(1, count);
    for (int k = 0; k < MAX_BUFFERS; k++) {
        b->bytes[k] = sizeof b->data[k];
        for (int i = 0; i < ROOM; i++)
            b->data[k][i] = (float)(i % 97) - 20.0f;
    }
}

/* The kernel source for |text|. */
static bl_kernel_source source_of(bl_arena *arena, const char *text)
{
    bl_linear *linear = NULL;
    bl_err err = {0};
    bl_kernel_source source = {.text = text, .len = strlen(text)};

    if (read_linear(arena, text, source.len, &linear, &err) != BL_OK)
        fail_msg("%s\n%s", text, err.text);
    source.linear = linear;
    source.entry = linear->name;
    source.nbuffers = linear->nbuffers;
    source.nscalars = linear->nscalars;
    source.writes = linear->writes;
    source.local_bytes = linear->local_bytes;
    memcpy(source.local, linear->local, sizeof source.local);
    return source;
}

static bl_status run(bench *b, const char *text, uint32_t x, uint32_t y, uint32_t z)
{
    bl_arena *arena = bl_arena_create(0);
    bl_kernel_source source = source_of(arena, text);
    bl_launch launch = {.slot = {0, 1, 2}, .var = {0, 1, 2, 3, 4, 5, 6, 7}};
    bl_buffer *buffers[MAX_BUFFERS] = {NULL};
    bl_recording *recording = NULL;
    bl_submission submission = {
        .slots = buffers, .vars = b->vars, .groups = &(const uint32_t[3]){x, y, z}, .nanoseconds = &b->nanoseconds};
    bl_status st;

    for (int k = 0; k < MAX_BUFFERS; k++) {
        assert_int_equal(BL_OK, bl_buffer_alloc(b->dev, b->bytes[k], &buffers[k], &b->err));
        assert_int_equal(BL_OK, bl_buffer_write(buffers[k], 0, b->data[k], b->bytes[k], &b->err));
    }
    assert_int_equal(BL_OK, bl_kernel_create(b->dev, &source, &launch.kernel, &b->err));
    assert_int_equal(BL_OK, bl_recording_create(b->dev, 1, &launch, MAX_BUFFERS, BL_MAX_SCALARS, &recording, &b->err));
    st = bl_recording_submit(recording, &submission, &b->err);
    if (st == BL_OK)
        st = bl_device_wait(b->dev, &b->err);
    for (int k = 0; k < MAX_BUFFERS; k++) {
        assert_int_equal(BL_OK, bl_buffer_read(buffers[k], 0, b->data[k], b->bytes[k], &b->err));
        bl_buffer_release(buffers[k]);
    }
    bl_recording_destroy(recording);
    bl_kernel_destroy(launch.kernel);
    bl_arena_destroy(arena);
    return st;
}

static void run_ok(bench *b, const char *text, uint32_t x, uint32_t y, uint32_t z)
{
    if (run(b, text, x, y, z) != BL_OK)
        fail_msg("%s\n%s", text, b->err.text);
}

static void close_bench(bench *b)
{
    assert_int_equal(0, atomic_load(&b->dev->bytes_used));
    bl_device_destroy(b->dev);
}

static void expect_float(const char *what, int i, double want, float got)
{
    if ((double)got != want)
        fail_msg("%s: element %d is %g, not %g", what, i, (double)got, want);
}

/* ---- correct kernels */

/* More work-groups than run concurrently, in all three dimensions. */
static void elementwise(void **state)
{
    static const char text[] = "linear e buffers=float32,float32 writes=2 scalars=1 local=1,1,1 localbytes=0\n"
                               "0 buffer float32 arg=0\n"
                               "1 buffer float32 arg=1\n"
                               "2 group_id int32 arg=0\n"
                               "3 group_id int32 arg=1\n"
                               "4 group_id int32 arg=2\n"
                               "5 const int32 10\n"
                               "6 fma int32 %3 %5 %2\n"
                               "7 var int32 arg=0\n"
                               "8 mul int32 %7 %4\n"
                               "9 add int32 %6 %8\n"
                               "10 load float32 %0 %9\n"
                               "11 const float32 2.5\n"
                               "12 mul float32 %10 %11\n"
                               "13 store %1 %9 %12\n";
    bench b;

    (void)state;
    open_bench(&b);
    b.vars[0] = 60;
    run_ok(&b, text, 10, 6, 3); /* with 7 for 6, exchanged dimensions would cover every element */
    for (int i = 0; i < 180; i++)
        expect_float("e", i, 2.5 * (double)b.data[0][i], b.data[1][i]);
    expect_float("e", 180, (double)b.data[0][180], b.data[1][180]); /* not written */
    close_bench(&b);
}

static void local_ids(void **state)
{
    static const char text[] = "linear ids buffers=float32 writes=1 scalars=0 local=2,2,4 localbytes=0\n"
                               "0 buffer float32 arg=0\n"
                               "1 local_id int32 arg=0\n"
                               "2 local_id int32 arg=1\n"
                               "3 local_id int32 arg=2\n"
                               "4 const int32 10\n"
                               "5 fma int32 %3 %4 %2\n"
                               "6 fma int32 %5 %4 %1\n"
                               "7 cast float32 %6\n"
                               "8 group_id int32 arg=0\n"
                               "9 const int32 500\n"
                               "10 fma int32 %8 %9 %6\n"
                               "11 store %0 %10 %7\n";
    bench b;

    (void)state;
    open_bench(&b);
    memset(b.data[0], 0, sizeof b.data[0]);
    run_ok(&b, text, 2, 1, 1);
    for (int i = 0; i < 1000; i++) {
        int id = i % 500;
        bool there = id / 100 < 4 && id / 10 % 10 < 2 && id % 10 < 2;

        expect_float("ids", i, there ? id : 0, b.data[0][i]);
    }
    close_bench(&b);
}

/* Row sums over as many elements as the row's number: concurrent work-groups leave the loop at different times. */
static void loops(void **state)
{
    static const char text[] = "linear rows buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n"
                               "0 buffer float32 arg=0\n"
                               "1 buffer float32 arg=1\n"
                               "2 group_id int32 arg=0\n"
                               "3 const float32 0\n"
                               "4 acc float32 %3\n"
                               "5 loop int32 %2\n"
                               "6 const int32 3\n"
                               "7 loop int32 %6\n"
                               "8 add int32 %5 %7\n"
                               "9 load float32 %0 %8\n"
                               "10 add float32 %4 %9\n"
                               "11 set %4 %10\n"
                               "12 end\n"
                               "13 end\n"
                               "14 store %1 %2 %4\n";
    bench b;

    (void)state;
    open_bench(&b);
    run_ok(&b, text, 100, 1, 1);
    for (int row = 0; row < 100; row++) {
        double sum = 0;

        for (int i = 0; i < row; i++)
            for (int k = 0; k < 3; k++)
                sum += (double)b.data[0][i + k];
        expect_float("rows", row, sum, b.data[1][row]);
    }
    close_bench(&b);
}

/* Consecutive and gathered loads, lanes, a stack, a fold, a vector accumulator and a scattered store. */
static void vectors(void **state)
{
    static const char text[] = "linear v buffers=float32,float32,float32 writes=6 scalars=0 local=1,1,1 localbytes=0\n"
                               "0 buffer float32 arg=0\n"
                               "1 buffer float32 arg=1\n"
                               "2 buffer float32 arg=2\n"
                               "3 group_id int64 arg=0\n"
                               "4 const int64 4\n"
                               "5 mul int64 %3 %4\n"
                               "6 load float32x4 %0 %5\n"
                               "7 lane int64x4\n"
                               "8 const int64 3\n"
                               "9 sub int64x4 %8 %7\n"
                               "10 add int64x4 %9 %5\n"
                               "11 load float32x4 %0 %10\n"
                               "12 const float32 100\n"
                               "13 acc float32x4 %12\n"
                               "14 mul float32x4 %6 %11\n"
                               "15 add float32x4 %13 %14\n"
                               "16 set %13 %15\n"
                               "17 fold float32 %13 sub=add\n"
                               "18 fold float32 %6 sub=max\n"
                               "19 stack float32x2 %17 %18\n"
                               "20 const int64 2\n"
                               "21 mul int64 %3 %20\n"
                               "22 store float32x2 %1 %21 %19\n"
                               "23 store float32x4 %2 %10 %6\n";
    bench b;

    (void)state;
    open_bench(&b);
    run_ok(&b, text, 77, 1, 1);
    for (int g = 0; g < 77; g++) {
        const float *x = &b.data[0][4 * g];
        double sum = 400, max = -1e9;

        for (int l = 0; l < 4; l++) {
            sum += (double)x[l] * (double)x[3 - l];
            max = fmax(max, (double)x[l]);
            expect_float("scatter", l, (double)x[3 - l], b.data[2][4 * g + l]);
        }
        expect_float("sum", g, sum, b.data[1][2 * g]);
        expect_float("max", g, max, b.data[1][2 * g + 1]);
    }
    close_bench(&b);
}

/* A separate lane of a vector for each work-group. */
static void extracted(void **state)
{
    static const char text[] = "linear x buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n"
                               "0 buffer float32 arg=0\n"
                               "1 buffer float32 arg=1\n"
                               "2 group_id int32 arg=0\n"
                               "3 const int32 4\n"
                               "4 mul int32 %2 %3\n"
                               "5 load float32x4 %0 %4\n"
                               "6 extract float32 %5 arg=3\n"
                               "7 extract float32 %5 arg=0\n"
                               "8 sub float32 %6 %7\n"
                               "9 store %1 %2 %8\n";
    bench b;

    (void)state;
    open_bench(&b);
    run_ok(&b, text, 77, 1, 1);
    for (int g = 0; g < 77; g++)
        expect_float("extract", g, (double)b.data[0][4 * g + 3] - (double)b.data[0][4 * g], b.data[1][g]);
    close_bench(&b);
}

/* A gate prevents an invalid load (which then gives 0) and an invalid store; for vectors, per lane. */
static void gates(void **state)
{
    static const char text[] = "linear g buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n"
                               "0 buffer float32 arg=0\n"
                               "1 buffer float32 arg=1\n"
                               "2 group_id int32 arg=0\n"
                               "3 const int32 -2\n"
                               "4 add int32 %2 %3\n"
                               "5 lane int32x4\n"
                               "6 add int32x4 %4 %5\n"
                               "7 const int32 -1\n"
                               "8 cmplt bool %7 %4\n"
                               "9 cmplt boolx4 %7 %6\n"
                               "10 load float32 %0 %4 %8\n"
                               "11 load float32x4 %0 %4 %9\n"
                               "12 fold float32 %11 sub=add\n"
                               "13 add float32 %10 %12\n"
                               "14 store %1 %2 %13\n"
                               "15 store %1 %4 %10 %8\n";
    bench b;

    (void)state;
    open_bench(&b);
    run_ok(&b, text, 2, 1, 1); /* indices -2 and -1: the second store is gated off */
    expect_float("g", 0, -20.0 - 19.0, b.data[1][0]);
    expect_float("g", 1, -20.0 - 19.0 - 18.0, b.data[1][1]);
    expect_float("g", 2, -18.0, b.data[1][2]);
    close_bench(&b);
}

#define LOCAL_HEAD                                                                                                               \
    "linear l buffers=float32,float32 writes=2 scalars=0 local=8,1,1 localbytes=32\n"                                            \
    "0 buffer float32 arg=0\n"                                                                                                   \
    "1 buffer float32 arg=1\n"                                                                                                   \
    "2 buffer float32 sub=local arg=8\n"                                                                                         \
    "3 group_id int32 arg=0\n"                                                                                                   \
    "4 local_id int32 arg=0\n"                                                                                                   \
    "5 const int32 8\n"                                                                                                          \
    "6 fma int32 %3 %5 %4\n"                                                                                                     \
    "7 load float32 %0 %6\n"                                                                                                     \
    "8 store %2 %4 %7\n"

/* Each work-group reverses its eight elements through local memory. */
static void local_memory(void **state)
{
    static const char text[] = LOCAL_HEAD "9 barrier\n"
                                          "10 const int32 7\n"
                                          "11 sub int32 %10 %4\n"
                                          "12 load float32 %2 %11\n"
                                          "13 store %1 %6 %12\n";
    bench b;

    (void)state;
    open_bench(&b);
    run_ok(&b, text, 100, 1, 1);
    for (int i = 0; i < 800; i++)
        expect_float("reversed", i, (double)b.data[0][i / 8 * 8 + 7 - i % 8], b.data[1][i]);
    close_bench(&b);
}

/* Without its barrier, the same kernel reads local memory before it is written, and the interpreter detects this. */
static void missing_barrier(void **state)
{
    static const char text[] = LOCAL_HEAD "9 const int32 7\n"
                                          "10 sub int32 %9 %4\n"
                                          "11 load float32 %2 %10\n"
                                          "12 store %1 %6 %11\n";
    bench b;

    (void)state;
    open_bench(&b);
    run_ok(&b, text, 3, 1, 1);
    for (int g = 0; g < 3; g++) {
        assert_true(isnan(b.data[1][g * 8]));
        expect_float("late item", 7, (double)b.data[0][g * 8], b.data[1][g * 8 + 7]);
    }
    close_bench(&b);
}

/* A sum over the work-group in three rounds, with barriers in a loop. */
static void barriers_in_a_loop(void **state)
{
    static const char text[] = LOCAL_HEAD "9 const int32 3\n"
                                          "10 const int32 4\n"
                                          "11 acc int32 %10\n"
                                          "12 loop int32 %9\n"
                                          "13 barrier\n"
                                          "14 add int32 %4 %11\n"
                                          "15 cmplt bool %4 %11\n"
                                          "16 load float32 %2 %4 %15\n"
                                          "17 load float32 %2 %14 %15\n"
                                          "18 add float32 %16 %17\n"
                                          "19 store %2 %4 %18 %15\n"
                                          "20 const int32 1\n"
                                          "21 shr int32 %11 %20\n"
                                          "22 set %11 %21\n"
                                          "23 end\n"
                                          "24 const int32 1\n"
                                          "25 cmplt bool %4 %24\n"
                                          "26 load float32 %2 %4 %25\n"
                                          "27 store %1 %3 %26 %25\n";
    bench b;

    (void)state;
    open_bench(&b);
    run_ok(&b, text, 100, 1, 1);
    for (int g = 0; g < 100; g++) {
        double sum = 0;

        for (int i = 0; i < 8; i++)
            sum += (double)b.data[0][g * 8 + i];
        expect_float("tree", g, sum, b.data[1][g]);
    }
    close_bench(&b);
}

/* ---- erroneous kernels */

#define WRONG_HEAD                                                                                                               \
    "linear wrong buffers=float32,float32 writes=2 scalars=1 local=4,1,1 localbytes=16\n"                                        \
    "0 buffer float32 arg=0\n"                                                                                                   \
    "1 buffer float32 arg=1\n"                                                                                                   \
    "2 buffer float32 sub=local arg=4\n"                                                                                         \
    "3 var int32 arg=0\n"                                                                                                        \
    "4 const int32 0\n"                                                                                                          \
    "5 const float32 1\n"                                                                                                        \
    "6 local_id int32 arg=0\n"                                                                                                   \
    "7 store %1 %4 %5\n"

static void wrong_kernels(void **state)
{
    static const struct {
        const char *text, *why;
        int32_t var;
    } rows[] = {
        {WRONG_HEAD "8 load float32 %0 %3\n", "kernel wrong, instruction 8 reads element 10 of buffer 0 that has 10", 10},
        {WRONG_HEAD "8 load float32 %0 %3\n", "reads element -1 of buffer 0", -1},
        {WRONG_HEAD "8 load float32x4 %0 %3\n", "reads element 10 of buffer 0", 7},
        {WRONG_HEAD "8 store %1 %3 %5\n", "instruction 8 writes element 10 of buffer 1 that has 10", 10},
        {WRONG_HEAD "8 store %1 %3 %5\n", "writes element -2147483648 of buffer 1", INT32_MIN},
        {WRONG_HEAD "8 store %2 %3 %5\n", "writes element 4 of local memory that has 4", 4},
        {WRONG_HEAD "8 load float32 %2 %3\n", "reads element -3 of local memory that has 4", -3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b;
        bl_status st;

        open_bench(&b);
        b.bytes[0] = b.bytes[1] = 10 * sizeof(float) + 3; /* a partial element at the end is out of bounds */
        b.vars[0] = rows[i].var;
        st = run(&b, rows[i].text, 3, 1, 1);
        if (st != BL_EDEVICE || strstr(b.err.text, rows[i].why) == NULL)
            fail_msg("%s\nwanted: %s\ngot: %s: %s", rows[i].text, rows[i].why, bl_status_name(st), b.err.text);
        close_bench(&b);
    }
}

/* After a failed kernel the device still works. */
static void failure_is_not_loss(void **state)
{
    bench b;

    (void)state;
    open_bench(&b);
    b.vars[0] = 5000;
    assert_int_equal(BL_EDEVICE, run(&b, WRONG_HEAD "8 load float32 %0 %3\n", 1, 1, 1));
    b.vars[0] = 5;
    b.err = (bl_err){0};
    run_ok(&b, WRONG_HEAD "8 load float32 %0 %3\n", 1, 1, 1);
    assert_true(b.nanoseconds > 0);
    close_bench(&b);
}

static void wrong_sources(void **state)
{
    static bl_inst two_ends[2] = {{.op = BL_OP_END, .lanes = 1}, {.op = BL_OP_END, .lanes = 1}};
    static const bl_linear good = {.name = "k", .local = {1, 1, 1}},
                           odd = {.name = "k", .local = {1, 1, 1}, .inst = two_ends, .ninst = 2};
    static const struct {
        bl_kernel_source source;
        bl_status status;
        const char *why;
    } rows[] = {
        {{.entry = "k", .linear = &good, .local = {1, 1, 1}}, BL_OK, ""},
        {{.entry = "k", .linear = &odd, .local = {1, 1, 1}}, BL_EBUG, "linear kernel k, instruction 0: end without loop"},
        {{.entry = "k", .local = {1, 1, 1}}, BL_EBUG, "differ"},
        {{.entry = "k", .linear = &good, .local = {2, 1, 1}}, BL_EBUG, "differ"},
        {{.entry = "k", .linear = &good, .local = {1, 1, 1}, .nbuffers = 1}, BL_EBUG, "differ"},
        {{.entry = "k", .linear = &good, .local = {1, 1, 1}, .nscalars = 1}, BL_EBUG, "differ"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b;
        bl_kernel *kernel = NULL;
        bl_status st;

        open_bench(&b);
        st = bl_kernel_create(b.dev, &rows[i].source, &kernel, &b.err);
        if (st != rows[i].status || strstr(b.err.text, rows[i].why) == NULL)
            fail_msg("row %zu: %s: %s", i, bl_status_name(st), b.err.text);
        bl_kernel_destroy(kernel);
        close_bench(&b);
    }
}

static void views(void **state)
{
    bench b;
    bl_buffer *whole = NULL, *part = NULL;
    float back[4] = {0};

    (void)state;
    open_bench(&b);
    assert_int_equal(BL_OK, bl_buffer_alloc(b.dev, 256, &whole, &b.err));
    assert_int_equal(BL_OK, bl_buffer_view(whole, 32, 16, &part, &b.err));
    assert_int_equal(BL_OK, bl_buffer_write(part, 0, b.data[0], 16, &b.err));
    assert_int_equal(BL_OK, bl_buffer_read(whole, 32, back, 16, &b.err));
    assert_memory_equal(b.data[0], back, 16);
    assert_ptr_equal((char *)whole->host + 32, part->host);
    bl_buffer_release(whole);
    bl_buffer_release(part);
    close_bench(&b);
}

/* Any thread may make buffers and kernels while the worker runs. */
static void *make_things(void *arg)
{
    bl_device *dev = arg;
    static const bl_linear nothing = {.name = "k", .local = {1, 1, 1}};
    const bl_kernel_source source = {.entry = "k", .linear = &nothing, .local = {1, 1, 1}};

    for (int i = 0; i < 200; i++) {
        bl_err err = {0};
        bl_buffer *buffer = NULL;
        bl_kernel *kernel = NULL;

        if (bl_buffer_alloc(dev, 1000, &buffer, &err) != BL_OK || bl_kernel_create(dev, &source, &kernel, &err) != BL_OK)
            return dev;
        bl_buffer_release(buffer);
        bl_kernel_destroy(kernel);
    }
    return NULL;
}

static void threads(void **state)
{
    bench b;
    pthread_t thread[3];

    (void)state;
    open_bench(&b);
    for (int i = 0; i < 3; i++)
        assert_int_equal(0, pthread_create(&thread[i], NULL, make_things, b.dev));
    for (int i = 0; i < 20; i++)
        run_ok(&b, WRONG_HEAD "8 barrier\n", 100, 1, 1);
    for (int i = 0; i < 3; i++) {
        void *failed = NULL;

        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),   cmocka_unit_test(loops),
        cmocka_unit_test(local_ids),     cmocka_unit_test(vectors),
        cmocka_unit_test(extracted),     cmocka_unit_test(gates),
        cmocka_unit_test(local_memory),  cmocka_unit_test(missing_barrier),
        cmocka_unit_test(wrong_kernels), cmocka_unit_test(barriers_in_a_loop),
        cmocka_unit_test(wrong_sources), cmocka_unit_test(failure_is_not_loss),
        cmocka_unit_test(views),         cmocka_unit_test(threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
