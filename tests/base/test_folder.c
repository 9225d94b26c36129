/* SPDX-License-Identifier: MIT */
/* The size limit of the cache folder. */
#include "engine/base/folder.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char base[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/bl_test_folder_XXXXXX");
    return mkdtemp(base) != NULL && setenv("BEAMLINE_CACHE", base, 1) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

static void path_of(const char *name, char out[160])
{
    snprintf(out, 160, "%s/%s", base, name);
}

/* Makes a file whose last use was |age| seconds ago. */
static void make_file(const char *name, size_t bytes, long age)
{
    struct timespec used[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    char path[160];
    int fd;

    path_of(name, path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(futimens(fd, used), 0);
    close(fd);
}

static bool is_there(const char *name)
{
    char path[160];
    path_of(name, path);
    return access(path, F_OK) == 0;
}

/* Trimming removes the oldest files of both back ends, down to three quarters of the limit; files of other programs stay. */
static void test_least_recently_used(void **state)
{
    static const struct {
        const char *name;
        size_t bytes;
        long age;
        bool stays;
    } rows[] = {
        {"opencl/a.clbin", 4000, 9000, false}, {"vulkan/spirv-b", 3000, 8000, false},  {"opencl/c.clbin", 3000, 7000, true},
        {"vulkan/pipeline-d", 2000, 10, true}, {"opencl/e.clbin", 1000, 6000, true},   {"opencl/notes.txt", 9000, 99999, true},
        {"vulkan/other", 9000, 99999, true},   {"kernels.db", 9000, 99999, true},      {"opencl/new-abcdef", 9000, 99999, false},
        {"opencl/new-ghijkl", 9000, 5, true},  {"spirv-elsewhere", 9000, 99999, true},
    };

    (void)state;
    assert_int_equal(bl_cache_trim(0), 0); /* the folder is empty */
    free(bl_cache_folder("opencl"));
    free(bl_cache_folder("vulkan"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        make_file(rows[i].name, rows[i].bytes, rows[i].age);
    assert_int_equal(bl_cache_trim(13000), 13000); /* exactly the limit */
    assert_true(is_there("opencl/a.clbin"));
    assert_int_equal(bl_cache_trim(9000), 6000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (is_there(rows[i].name) != rows[i].stays)
            fail_msg("%s %s", rows[i].name, rows[i].stays ? "is gone" : "stays");
    }
    assert_int_equal(bl_cache_trim(0), 0);
    assert_false(is_there("vulkan/pipeline-d"));
}

static void *trim_and_trim(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++)
        (void)bl_cache_trim(20000);
    return NULL;
}

/* Two threads trim the folder while a third thread writes to it: each deletes files that the other has listed. */
static void test_two_at_once(void **state)
{
    pthread_t threads[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, trim_and_trim, NULL), 0);
    for (int i = 0; i < 2000; i++) {
        char name[64];
        snprintf(name, sizeof name, "opencl/%08d.clbin", i);
        make_file(name, 1000, 3000 - i);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(bl_cache_trim(20000) <= 20000);
    assert_true(is_there("opencl/00001999.clbin"));
    assert_false(is_there("opencl/00000000.clbin"));
    assert_int_equal(bl_cache_trim(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_least_recently_used), cmocka_unit_test(test_two_at_once)};
    return cmocka_run_group_tests_name("base/folder", tests, set_up, tear_down);
}
