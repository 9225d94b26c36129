/* All OpenCL devices of the machine, with a separate program cache, and two test kernels. */
#ifndef BL_TESTS_OPENCL_DEVICES_H
#define BL_TESTS_OPENCL_DEVICES_H

#include "opencl/opencl.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX_DEVICES = 8, N = 1024 };

typedef struct fixture {
    bl_device *devices[MAX_DEVICES];
    uint32_t count;
    bl_text why;
    struct sigaction trap; /* the driver's handler of division by zero */
    char folder[64];       /* the folder of the cache */
} fixture;

/* y[i] = x[i] * k; a group computes a 64th of the data. */
extern const char scale_text[];
/* y[i] = x[i] + 1, through local memory. */
extern const char next_text[];
extern float counting[N];

/* Fails the test, with the line, if the call has the wrong status or if the error contains a path. */
void must(bl_status st, const bl_err *err, const char *call, int line);
void must_fail(bl_status want, bl_status got, const bl_err *err, int line);
#define MUST(call)            must((call), &err, #call, __LINE__)
#define MUST_FAIL(want, call) must_fail((want), (call), &err, __LINE__)

bl_kernel_source source_of(const char *entry, const char *text, uint32_t nbuffers, uint32_t nscalars, uint32_t local);
bl_kernel *make_kernel(bl_device *dev, const char *entry, const char *text, uint32_t nscalars, uint32_t local);
bl_buffer *make_buffer(bl_device *dev, const float *values, size_t n);
/* Checks that element i is i * factor + offset. */
void check_buffer(bl_buffer *buffer, size_t n, float factor, float offset);
/* Runs "scale", compiled or from the cache, and checks the result. */
void run_scale(bl_device *dev);

/* Fixture of the whole group of tests: *state is a fixture. */
int set_up(void **state);
int tear_down(void **state);
/* Defines test##_all, which runs test(device, fixture) on each device; skipped without a device. */
#define ON_EACH_DEVICE(test)                                                                                                     \
    static void test##_all(void **state)                                                                                         \
    {                                                                                                                            \
        fixture *f = *state;                                                                                                     \
        if (f->count == 0)                                                                                                       \
            skip();                                                                                                              \
        for (uint32_t i = 0; i < f->count; i++)                                                                                  \
            test(f->devices[i], f);                                                                                              \
    }

#endif
