/* SPDX-License-Identifier: MIT */
/* The program cache of the OpenCL back end, for single kernels and batches, on every device of the machine. */
#include "tests/device/opencl_devices.h"

#include "tests/device/cache_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A hit leaves the file unchanged; an invalid entry is built again and replaced by a new file. */
static void programs_are_cached(bl_device *dev, const fixture *f)
{
    struct stat stored, now;
    char path[256];

    empty_folder(f->folder);
    run_scale(dev);
    only_file(f->folder, path, &stored);
    run_scale(dev);
    only_file(f->folder, path, &now);
    assert_int_equal(stored.st_ino, now.st_ino);
    assert_true(stored.st_mtim.tv_nsec != now.st_mtim.tv_nsec); /* a hit updates the time of last use, by which trimming orders
                                                                 * files */
    for (int i = 0; i < 4; i++) {
        stored = now;
        if (i == 0)
            damage_byte(path, stored.st_size - 1);
        else if (i == 1)
            damage_byte(path, 0);
        else if (i == 2)
            assert_int_equal(0, truncate(path, stored.st_size / 2));
        else
            assert_int_equal(0, chmod(path, 0666)); /* other users could have written the file */
        run_scale(dev);
        only_file(f->folder, path, &now);
        if (stored.st_ino == now.st_ino)
            fail_msg("damage %d was not noticed", i);
        assert_int_equal(0600, now.st_mode & 0777);
    }
}

/* A cached program without the requested kernel is rejected; PoCL would abort. */
static void a_kernel_is_looked_for(bl_device *dev, const fixture *f)
{
    bl_kernel_source source = source_of("absent", scale_text, 2, 1, 64);
    bl_kernel *kernel = NULL;
    bl_err err = {0};

    empty_folder(f->folder);
    run_scale(dev);
    assert_int_not_equal(BL_OK, bl_kernel_create(dev, &source, &kernel, &err));
    assert_null(kernel);
    run_scale(dev);
}

/* Two kernels of one name, with a function that both need; and a kernel with another name. */
static const char *const batch_text[] = {
    "#ifndef HAS_twice\n#define HAS_twice\ninline float twice(float x) { return x + x; }\n#endif\n"
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
    "void r_64(__global const float *x, __global float *y) { int i = get_group_id(0); y[i] = twice(x[i]); }\n",
    "#ifndef HAS_twice\n#define HAS_twice\ninline float twice(float x) { return x + x; }\n#endif\n"
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
    "void r_64(__global const float *x, __global float *y) { int i = get_group_id(0); y[i] = twice(x[i]) + 1.0f; }\n",
    next_text,
};
enum { IN_BATCH = 3 };

static void fill_batch(bl_kernel_source sources[IN_BATCH])
{
    for (int i = 0; i < IN_BATCH; i++)
        sources[i] = i < 2 ? source_of("r_64", batch_text[i], 2, 0, 1) : source_of("next", batch_text[i], 2, 0, 16);
}

static int count_files(const char *base)
{
    char command[128], line[256];
    FILE *list;
    int n = 0;

    snprintf(command, sizeof command, "ls '%s'/opencl", base);
    list = popen(command, "r");
    assert_non_null(list);
    while (fgets(line, sizeof line, list) != NULL)
        n++;
    pclose(list);
    return n;
}

/* Runs all kernels of the batch, whether or not they are in the cache.  Returns whether they share a program. */
static bool run_batch(bl_device *dev)
{
    static const float factor[] = {2, 2, 1}, offset[] = {0, 1, 1};
    bl_kernel_source sources[IN_BATCH];
    bl_kernel *kernels[IN_BATCH] = {0};
    bl_buffer *x = make_buffer(dev, counting, N), *y = make_buffer(dev, counting, N);
    bl_err err = {0};
    bool shared = true;

    fill_batch(sources);
    for (int i = 0; i < IN_BATCH; i++) {
        const uint32_t groups[][3] = {{N / sources[i].local[0], 1, 1}};
        bl_launch launch = {.slot = {0, 1}};
        bl_recording *recording = NULL;

        MUST(bl_kernel_create(dev, &sources[i], &kernels[i], &err));
        shared = shared && ((bl_cl_kernel *)kernels[i])->program == ((bl_cl_kernel *)kernels[0])->program;
        launch.kernel = kernels[i];
        MUST(bl_recording_create(dev, 1, &launch, 2, 0, &recording, &err));
        MUST(bl_recording_submit(recording, &(bl_submission){.slots = (bl_buffer *[]){x, y}, .groups = groups}, &err));
        check_buffer(y, N, factor[i], offset[i]);
        bl_recording_destroy(recording);
    }
    for (int i = 0; i < IN_BATCH; i++)
        bl_kernel_destroy(kernels[i]);
    assert_null(((bl_cl_device *)dev)->shared);
    bl_buffer_release(x);
    bl_buffer_release(y);
    return shared;
}

static void batches_are_cached(bl_device *dev, const fixture *f)
{
    bl_kernel_source sources[IN_BATCH];
    bl_err outcomes[IN_BATCH];
    char command[256];

    empty_folder(f->folder);
    fill_batch(sources);
    for (int i = 0; i < IN_BATCH; i++)
        assert_true(bl_kernel_wants_compiling(dev, &sources[i]));
    bl_kernels_compile(dev, IN_BATCH, sources, outcomes);
    for (int i = 0; i < IN_BATCH; i++) {
        must(outcomes[i].status, &outcomes[i], "bl_kernels_compile", __LINE__);
        assert_false(bl_kernel_wants_compiling(dev, &sources[i]));
    }
    assert_int_equal(IN_BATCH + 1, count_files(f->folder)); /* compiled as one program */
    assert_true(run_batch(dev));
    /* without the program the entries of its members are useless: each kernel is compiled separately */
    snprintf(command, sizeof command, "rm -f $(ls -S '%s'/opencl/* | head -1)", f->folder);
    assert_int_equal(0, system(command));
    for (int i = 0; i < IN_BATCH; i++)
        assert_true(bl_kernel_wants_compiling(dev, &sources[i]));
    assert_false(run_batch(dev));
    assert_int_equal(IN_BATCH, count_files(f->folder));
}

/* An error in a batch is reported for the kernel at fault; the other kernels are compiled. */
static void one_of_a_batch_is_bad(bl_device *dev, const fixture *f)
{
    static const struct {
        const char *text;
        uint32_t nbuffers, local;
        bl_status want;
    } rows[] = {
        {"__kernel void r_64(__global float *x) { x[0] = nothing; }\n", 1, 1, BL_EBUG},
        {"__kernel void other(__global float *x) { x[0] = 1; }\n", 1, 1, BL_EBUG},
        {"__kernel void r_64(__global float *x) { x[0] = 1; }\n", 2, 1, BL_EBUG},         /* wrong number of parameters */
        {"__kernel void r_64(__global float *x) { x[0] = 1; }\n", 1, 0, BL_EUNSUPPORTED}, /* refused before the driver is
                                                                                           * called */
    };
    bl_kernel_source sources[IN_BATCH];
    bl_err outcomes[IN_BATCH];

    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        empty_folder(f->folder);
        fill_batch(sources);
        sources[1] = source_of("r_64", rows[r].text, rows[r].nbuffers, 0, rows[r].local);
        bl_kernels_compile(dev, IN_BATCH, sources, outcomes);
        must_fail(rows[r].want, outcomes[1].status, &outcomes[1], __LINE__);
        must(outcomes[0].status, &outcomes[0], "the first", __LINE__);
        must(outcomes[2].status, &outcomes[2], "the last", __LINE__);
        assert_false(bl_kernel_wants_compiling(dev, &sources[0]));
        assert_false(bl_kernel_wants_compiling(dev, &sources[2]));
    }
}

ON_EACH_DEVICE(programs_are_cached)
ON_EACH_DEVICE(a_kernel_is_looked_for)
ON_EACH_DEVICE(batches_are_cached)
ON_EACH_DEVICE(one_of_a_batch_is_bad)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_cached_all),
        cmocka_unit_test(a_kernel_is_looked_for_all),
        cmocka_unit_test(batches_are_cached_all),
        cmocka_unit_test(one_of_a_batch_is_bad_all),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
