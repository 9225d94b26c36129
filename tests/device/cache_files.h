/* Finds and damages the files of a kernel cache, for tests. */
#ifndef BL_TESTS_DEVICE_CACHE_FILES_H
#define BL_TESTS_DEVICE_CACHE_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static inline void empty_folder(const char *base)
{
    char command[128];

    snprintf(command, sizeof command, "rm -f '%s'/opencl/*", base);
    assert_int_equal(0, system(command));
}

/* Gives the path of the only file in the cache, and its |info|. */
static inline void only_file(const char *base, char path[256], struct stat *info)
{
    char command[128];
    FILE *list;

    snprintf(command, sizeof command, "ls -d '%s'/opencl/*", base);
    list = popen(command, "r");
    assert_non_null(list);
    assert_non_null(fgets(path, 256, list));
    path[strcspn(path, "\n")] = '\0';
    assert_int_equal(EOF, fgetc(list));
    pclose(list);
    assert_int_equal(0, stat(path, info));
}

/* Flips a bit; a second call restores the bit. */
static inline void damage_byte(const char *path, off_t at)
{
    FILE *file = fopen(path, "r+b");
    int c;

    assert_non_null(file);
    assert_int_equal(0, fseek(file, at, SEEK_SET));
    c = fgetc(file);
    assert_int_equal(0, fseek(file, at, SEEK_SET));
    assert_int_equal(c ^ 1, fputc(c ^ 1, file));
    assert_int_equal(0, fclose(file));
}

#endif
