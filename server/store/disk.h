/* SPDX-License-Identifier: MIT */
/* The folder of --state on its disk: the lock of the one server that uses the folder, a check that the path still leads to
 * the folder, the free space, and a reserve for a full disk.
 *
 * The reserve is a file of allocated blocks.  Operations that must work on a full disk (deletions, changes of keys, the
 * start) release the reserve a step at a time.  Operations that add data (blobs, tensors, checkpoints, reports) need the
 * whole reserve. The server restores the reserve as soon as there is room. Thread: any, but bl_disk_open and bl_disk_close
 * need that no other thread uses the disk. */
#ifndef BL_SERVER_STORE_DISK_H
#define BL_SERVER_STORE_DISK_H

#include "engine/base/status.h"

#include <stdint.h>
#include <sys/types.h>

#define BL_DISK_DATABASE "beamline.db"

typedef struct bl_file_id {
    dev_t device;
    ino_t inode;
    bool known;
} bl_file_id;

typedef struct bl_disk {
    char *folder; /* NULL: the server stores no files */
    int folder_fd, lock_fd;
    bl_file_id lock, database; /* ids of the open lock file and of the open database file */
} bl_disk;

/* Open the folder. Takes |folder|, which must exist.  With |alone| the folder is locked: BL_ECONFLICT if another process has
 * the lock. */
BL_NODISCARD bl_status bl_disk_open(bl_disk *disk, char *folder, bool alone, bl_err *err);
void bl_disk_close(bl_disk *disk);         /* afterwards the disk stores no files */
void bl_disk_note_database(bl_disk *disk); /* call after the database in the folder was opened */

/* False if the path of the folder leads to another folder, or to no folder: a restart would not find the data that is
 * written now. */
bool bl_disk_is_there(const bl_disk *disk);
/* BL_ESTORAGE unless bl_disk_is_there. */
BL_NODISCARD bl_status bl_disk_check(const bl_disk *disk, bl_err *err);
/* BL_ESTORAGE if |bytes| more would leave less than |least| free, if the reserve is not whole, or if the folder is not
 * there. */
BL_NODISCARD bl_status bl_disk_check_room(const bl_disk *disk, uint64_t bytes, uint64_t least, bl_err *err);
/* The check of free bytes of bl_disk_check_room alone, on the disk of any open file or folder. */
BL_NODISCARD bl_status bl_disk_check_free(int fd, uint64_t bytes, uint64_t least, bl_err *err);
bool bl_disk_is_full(const bl_disk *disk); /* fewer bytes than a step of the reserve are free */
/* Release a step of the reserve, after a write that found the disk full.  False: no reserve is left. */
bool bl_disk_make_way(const bl_disk *disk);
/* Make the reserve whole if there is room.  True if the reserve is whole. */
bool bl_disk_reserve(const bl_disk *disk);
/* Free bytes for this process, or UINT64_MAX if the file system does not report them. */
uint64_t bl_disk_free_bytes(int fd);

#endif
