/* Complete reads and writes of a file descriptor, and atomic replacement of files. */
#ifndef BL_BASE_FILE_H
#define BL_BASE_FILE_H

#include "engine/base/status.h"

/* Read or write exactly |len| bytes; signals do not interrupt the call. False at the end of the file or on an error. */
bool bl_read_all(int fd, void *data, size_t len);
bool bl_write_all(int fd, const void *data, size_t len);

/* Replace the file |path| atomically: |write| fills PATH.new, which is synced and renamed to |path|. After a crash or a power
 * failure |path| has either the old content or the new content, and PATH.new may remain. BL_ESTORAGE if the disk fails; |path|
 * is then unchanged. */
BL_NODISCARD bl_status bl_file_replace(const char *path, bl_status (*write)(void *arg, int fd, bl_err *err), void *arg,
                                       bl_err *err);
/* Sync the folder that contains |path|. Needed after a file in the folder was renamed or removed. */
bool bl_file_sync_folder(const char *path);

#endif
