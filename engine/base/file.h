/* Whole reads and writes of a file descriptor, and files that are there whole or not at all. */
#ifndef BL_BASE_FILE_H
#define BL_BASE_FILE_H

#include "engine/base/status.h"

/* All |len| bytes, whatever signals come between; false where the file ends before, or fails. */
bool bl_read_all(int fd, void *data, size_t len);
bool bl_write_all(int fd, const void *data, size_t len);

/* Put what |write| writes to its descriptor in place of the file |path|: a new file beside it, brought to the disk and renamed,
 * so that at any moment, power failures included, the one is there or the other.  A file that stays behind unfinished is called
 * PATH.new.  BL_ESTORAGE where the disk refuses; then |path| is as it was. */
BL_NODISCARD bl_status bl_file_replace(const char *path, bl_status (*write)(void *arg, int fd, bl_err *err), void *arg,
                                       bl_err *err);
/* Bring the entries of the folder that |path| is in to the disk: after a file there was renamed or removed. */
bool bl_file_sync_folder(const char *path);

#endif
