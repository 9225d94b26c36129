/* SPDX-License-Identifier: MIT */
/* The parts of the OpenCL back end without a device: the cache on disk, build logs, error codes. */
#include "opencl/opencl.h"

#include "tests/device/cache_files.h"

#include <unistd.h>

static void cache_trusts_only_itself(void **state)
{
    const char *base = *state;
    char *folder = bl_cl_cache_folder(), path[256];
    bl_span key = BL_S("a key"), other = BL_S("another");
    struct stat info;
    size_t len = 0;
    char *got;

    assert_non_null(folder);
    assert_int_equal(0, strncmp(folder, base, strlen(base)));
    assert_string_equal("/opencl", folder + strlen(base));
    assert_int_equal(0, stat(folder, &info));
    assert_int_equal(S_IFDIR | 0700, info.st_mode);
    assert_null(bl_cl_cache_load(folder, key, &len));
    assert_true(bl_cl_cache_store(folder, key, "program", 7));
    got = bl_cl_cache_load(folder, key, &len);
    assert_non_null(got);
    assert_int_equal(7, len);
    assert_memory_equal("program", got, 7);
    free(got);
    assert_null(bl_cl_cache_load(folder, other, &len));
    only_file(base, path, &info);
    for (off_t at = 0; at < info.st_size; at++) { /* a change of any bit is detected */
        damage_byte(path, at);
        got = bl_cl_cache_load(folder, key, &len);
        if (got != NULL)
            fail_msg("byte %ld of the file may be anything", (long)at);
        damage_byte(path, at);
    }
    for (off_t size = info.st_size - 1; size >= 0; size--) {
        assert_int_equal(0, truncate(path, size));
        assert_null(bl_cl_cache_load(folder, key, &len));
    }
    assert_false(bl_cl_cache_store("/nowhere/at/all", key, "program", 7)); /* the failure sets no error, and no file is left */
    assert_null(bl_cl_cache_load("/nowhere/at/all", key, &len));
    empty_folder(base);
    free(folder);
}

/* Two processes that compile the same kernels at the same time store two programs. */
static void batches_keep_apart(void **state)
{
    const char *base = *state;
    char *folder = bl_cl_cache_folder(), *got;
    bl_span key = BL_S("a batch");
    bl_cl_batch mine, other;
    size_t len = 0;

    assert_true(bl_cl_cache_store_batch(folder, key, "mine", 4, &mine));
    assert_true(bl_cl_cache_store_batch(folder, key, "other", 5, &other));
    got = bl_cl_cache_load_batch(folder, &mine, &len);
    assert_non_null(got);
    assert_int_equal(4, len);
    assert_memory_equal("mine", got, 4);
    free(got);
    got = bl_cl_cache_load_batch(folder, &other, &len);
    assert_non_null(got);
    assert_int_equal(5, len);
    free(got);
    assert_true(bl_cl_cache_has_batch(folder, &mine) && bl_cl_cache_has_batch(folder, &other));
    empty_folder(base);
    free(folder);
}

static void folder_follows_the_environment(void **state)
{
    const char *base = *state;
    static const struct {
        const char *name, *rest, *want; /* a variable, the path after the folder in it, and the path after the folder in the
                                         * result */
    } rows[] = {
        {"HOME", "/h", "/h/.cache/beamline/opencl"},
        {"XDG_CACHE_HOME", "/x", "/x/beamline/opencl"},
        {"BEAMLINE_CACHE", "/b/c", "/b/c/opencl"},
    };
    char value[128], want[128];

    unsetenv("XDG_CACHE_HOME");
    unsetenv("BEAMLINE_CACHE");
    unsetenv("HOME");
    assert_null(bl_cl_cache_folder());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) { /* each row has precedence over the rows above */
        char *folder;

        snprintf(value, sizeof value, "%s%s", base, rows[i].rest);
        snprintf(want, sizeof want, "%s%s", base, rows[i].want);
        setenv(rows[i].name, value, 1);
        folder = bl_cl_cache_folder();
        assert_non_null(folder);
        assert_string_equal(want, folder);
        free(folder);
    }
    setenv("BEAMLINE_CACHE", "/dev/null/no", 1);
    assert_null(bl_cl_cache_folder());
}

static void log_is_one_clean_sentence(void **state)
{
    static const struct {
        const char *log, *want;
    } rows[] = {
        {"", "the driver does not say why"},
        {"\n\n", "the driver does not say why"},
        {"it is broken\n", "it is broken"},
        {"warning: w\n/root/.cache/a/b.cl:3:5: error: no x\n  x\n  ^\n", "kernel:3:5: error: no x"},
        {"error: file '/tmp/x y' a/b c / d\n", "error: file 'kernel y' a/b c / d"},
        {"Error one\nerror two\nerror three\nerror four", "Error one; error two; error three"},
        {"error \x1b[31mred", "error  [31mred"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_text out = {0};

        bl_cl_log_summary(rows[i].log, strlen(rows[i].log) + 1, &out);
        assert_string_equal(rows[i].want, out.data);
        bl_text_fini(&out);
    }
}

static void codes_have_names(void **state)
{
    bl_err err = {0};

    (void)state;
    assert_string_equal("CL_OUT_OF_RESOURCES", bl_cl_code_name(CL_OUT_OF_RESOURCES));
    assert_string_equal("unknown error code", bl_cl_code_name(-9999));
    assert_int_equal(BL_EDEVICE, bl_cl_fail(-9999, "a call", &err));
    assert_string_equal("opencl: a call failed: unknown error code (-9999)", err.text);
    err = (bl_err){0};
    assert_int_equal(BL_ENODEVMEM, bl_cl_fail(CL_MEM_OBJECT_ALLOCATION_FAILURE, "a call", &err));
}

static void queue_codes_lose_the_device(void **state)
{
    static const struct {
        cl_int code;
        bool lost;
    } rows[] = {{CL_OUT_OF_RESOURCES, true},
                {CL_DEVICE_NOT_AVAILABLE, true},
                {CL_INVALID_COMMAND_QUEUE, true},
                {-9999, true},
                {CL_MEM_OBJECT_ALLOCATION_FAILURE, false},
                {CL_INVALID_KERNEL_ARGS, false}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_cl_device dev = {0};
        bl_err err = {0};

        assert_int_not_equal(BL_OK, bl_cl_fail_queue(&dev, rows[i].code, "a call", &err));
        assert_int_equal(rows[i].lost, atomic_load(&dev.base.lost));
    }
}

static int set_up(void **state)
{
    static char base[] = "/tmp/beamline-test-XXXXXX";

    if (mkdtemp(base) == NULL)
        return -1;
    setenv("BEAMLINE_CACHE", base, 1);
    *state = base;
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", (const char *)*state);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_trusts_only_itself),
        cmocka_unit_test(batches_keep_apart),
        cmocka_unit_test(folder_follows_the_environment),
        cmocka_unit_test(log_is_one_clean_sentence),
        cmocka_unit_test(codes_have_names),
        cmocka_unit_test(queue_codes_lose_the_device),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
