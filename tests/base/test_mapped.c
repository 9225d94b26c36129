/* SPDX-License-Identifier: MIT */
#include "engine/base/mapped.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 16, THREADS = 4 };

static size_t page;

/* Makes an unlinked file of |bytes| bytes with the value 7. */
static int make_file(size_t bytes)
{
    char path[] = "/tmp/beamline-mapped-XXXXXX";
    char *data = malloc(bytes + 1);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && data != NULL && unlink(path) == 0);
    memset(data, 7, bytes);
    assert_int_equal(write(fd, data, bytes), bytes);
    free(data);
    return fd;
}

static size_t sum(bl_span bytes)
{
    size_t total = 0;
    for (size_t i = 0; i < bytes.len; i++)
        total += ((const volatile unsigned char *)bytes.data)[i];
    return total;
}

static void file_that_became_shorter(void)
{
    bl_mapped files = {0}, others = {0};
    bl_err err = {0};
    bl_span lost, whole, other;
    int fd = make_file(PAGES * page), second = make_file(PAGES * page);

    assert_int_equal(bl_mapped_add(&files, second, "whole.gguf", &whole, &err), BL_OK);
    assert_int_equal(bl_mapped_add(&files, fd, "lost.gguf", &lost, &err), BL_OK);
    assert_int_equal(bl_mapped_add(&others, second, "other.gguf", &other, &err), BL_OK);
    assert_int_equal(sum(lost), 7 * PAGES * page);
    assert_int_equal(bl_mapped_check(&files, BL_OK, &err), BL_OK);
    assert_int_equal(ftruncate(fd, (off_t)(3 * page + 1)), 0);
    assert_int_equal(sum(lost), 7 * (3 * page + 1));
    assert_int_equal(bl_mapped_check(&others, BL_OK, &err), BL_OK);
    (void)bl_fail(&err, BL_EINVAL, "what a parser makes of zeros");
    assert_int_equal(bl_mapped_check(&files, BL_EINVAL, &err), BL_ESTORAGE);
    assert_non_null(strstr(err.text, "lost.gguf: the file became shorter while it was read"));
    assert_int_equal(ftruncate(fd, 1), 0); /* shorter again: now before the pages that became zeros */
    assert_int_equal(sum(lost), 7);
    assert_int_equal(sum(whole), 7 * PAGES * page);
    bl_mapped_fini(&files);
    bl_mapped_fini(&others);
    assert_int_equal(bl_mapped_add(&files, fd, "again.gguf", &lost, &err), BL_OK); /* the flag of the earlier file does not
                                                                                    * apply to the new mapping */
    assert_int_equal(bl_mapped_check(&files, BL_OK, &err), BL_OK);
    assert_int_equal(ftruncate(fd, 0), 0); /* the cut is within a page, so no fault reports it */
    assert_int_equal(bl_mapped_check(&files, BL_OK, &err), BL_ESTORAGE);
    bl_mapped_fini(&files);
    close(fd);
    close(second);
}

typedef struct reader {
    pthread_t thread;
    bl_span bytes;
    size_t total;
} reader;

static void *read_all(void *arg)
{
    reader *r = arg;
    r->total = sum(r->bytes);
    return NULL;
}

/* Other threads map and unmap files meanwhile, so that the handler walks a changing list. */
static void *map_and_unmap(void *arg)
{
    int fd = *(int *)arg;
    for (int i = 0; i < 2000; i++) {
        bl_mapped files = {0};
        bl_span bytes;
        bl_err err = {0};
        if (bl_mapped_add(&files, fd, "busy", &bytes, &err) != BL_OK || sum((bl_span){bytes.data, 10}) != 70)
            return arg;
        bl_mapped_fini(&files);
    }
    return NULL;
}

static void threads_read_a_lost_file(void)
{
    int fd = make_file(PAGES * page), busy = make_file(page);
    pthread_t mapper[2];
    void *failed = NULL;

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&mapper[i], NULL, map_and_unmap, &busy), 0);
    for (int round = 0; round < 20; round++) {
        bl_mapped files = {0};
        bl_err err = {0};
        bl_span bytes;
        reader readers[THREADS];
        assert_int_equal(bl_mapped_add(&files, fd, "lost", &bytes, &err), BL_OK);
        assert_int_equal(ftruncate(fd, 0), 0);
        for (int i = 0; i < THREADS; i++) {
            readers[i] = (reader){.bytes = bytes};
            assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(readers[i].thread, NULL);
            assert_int_equal(readers[i].total, 0);
        }
        assert_int_equal(bl_mapped_check(&files, BL_OK, &err), BL_ESTORAGE);
        bl_mapped_fini(&files);
        assert_int_equal(ftruncate(fd, (off_t)(PAGES * page)), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(mapper[i], &failed);
        assert_null(failed);
    }
    close(fd);
    close(busy);
}

/* Returns the exit status of a child process that runs |what|. */
static int end_of_child(void (*what)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        what();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void read_another_mapping(void)
{
    int fd = make_file(page);
    const char *bytes = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
    if (ftruncate(fd, 0) == 0)
        (void)sum((bl_span){bytes, page});
}

static void send_the_signal(void)
{
    (void)kill(getpid(), SIGBUS);
}

static void lost_pages_read_as_zeros(void **state)
{
    int status = 0;

    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    (void)signal(SIGBUS, SIG_DFL); /* removes the handlers of cmocka and of sanitizers; the first mapped file installs the
                                    * module's handler */
    file_that_became_shorter();
    threads_read_a_lost_file();
    status = end_of_child(read_another_mapping);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = end_of_child(send_the_signal);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void files_are_found_by_name(void **state)
{
    bl_mapped files = {0};
    bl_err err = {0};
    bl_span bytes;
    int fd = make_file(5), empty = make_file(0), pipes[2];

    (void)state;
    assert_false(bl_mapped_find(&files, "a", &bytes));
    assert_int_equal(bl_mapped_add(&files, fd, "a", &bytes, &err), BL_OK);
    assert_int_equal(bl_mapped_add(&files, empty, "empty", &bytes, &err), BL_OK);
    assert_int_equal(bytes.len, 0);
    assert_true(bl_mapped_find(&files, "a", &bytes) && bytes.len == 5 && bytes.data[4] == 7);
    assert_true(bl_mapped_find(&files, "empty", &bytes) && bytes.len == 0);
    assert_false(bl_mapped_find(&files, "b", &bytes));
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(bl_mapped_add(&files, pipes[0], "a pipe", &bytes, &err), BL_EINVAL);
    assert_string_equal(err.text, "a pipe is not a regular file");
    assert_int_equal(bl_mapped_check(&files, BL_OK, NULL), BL_OK);
    bl_mapped_fini(&files);
    assert_null(files.first);
    close(pipes[0]);
    close(pipes[1]);
    close(fd);
    close(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_pages_read_as_zeros),
        cmocka_unit_test(files_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
