/* SPDX-License-Identifier: MIT */
/* The folder of --state as a place on a disk: the lock that one server has, whether the path still leads to that folder, how much
 * room there is, and a reserve for when there is none.
 *
 * The reserve is a file of allocated blocks.  What must also work on a full disk (deletions, keys, the start) gives it up a step
 * at a time; what grows (blobs, tensors, checkpoints, reports) needs it whole.  It is made again as soon as there is room.
 * Thread: any once it is open, but for bl_disk_open and bl_disk_close. */
#ifndef BL_SERVER_DISK_H
#define BL_SERVER_DISK_H

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
    char *folder; /* NULL: nothing is kept */
    int folder_fd, lock_fd;
    bl_file_id lock, database; /* of the files that this process has open */
} bl_disk;

/* Takes |folder|, which exists.  With |alone| it is locked: BL_ECONFLICT where another process has it. */
BL_NODISCARD bl_status bl_disk_open(bl_disk *disk, char *folder, bool alone, bl_err *err);
void bl_disk_close(bl_disk *disk);         /* from here on nothing is kept */
void bl_disk_note_database(bl_disk *disk); /* it has been opened, in the folder */

/* False once the path of the folder leads elsewhere, or nowhere: what is written there would not be found again. */
bool bl_disk_is_there(const bl_disk *disk);
/* BL_ESTORAGE where not. */
BL_NODISCARD bl_status bl_disk_check(const bl_disk *disk, bl_err *err);
/* BL_ESTORAGE where |bytes| more would leave less than |least| free, or the reserve is not whole, or the folder is not there. */
BL_NODISCARD bl_status bl_disk_check_room(const bl_disk *disk, uint64_t bytes, uint64_t least, bl_err *err);
/* The same of any open file or folder, without a reserve. */
BL_NODISCARD bl_status bl_disk_check_free(int fd, uint64_t bytes, uint64_t least, bl_err *err);
bool bl_disk_is_full(const bl_disk *disk); /* next to nothing is free */
/* Give up a step of the reserve, for a write that found the disk full; false: nothing is left of it. */
bool bl_disk_make_way(const bl_disk *disk);
/* Make the reserve whole where there is room for that; whether it is. */
bool bl_disk_reserve(const bl_disk *disk);
/* Free bytes for this process, or UINT64_MAX where the file system does not say. */
uint64_t bl_disk_free_bytes(int fd);

#endif
