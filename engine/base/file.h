/* Whole reads and writes of a file descriptor. */
#ifndef BL_BASE_FILE_H
#define BL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* All |len| bytes, whatever signals come between; false where the file ends before, or fails. */
bool bl_read_all(int fd, void *data, size_t len);
bool bl_write_all(int fd, const void *data, size_t len);

#endif
