/* The kernel database: what searches found, kept from one start to the next and shared by servers of one machine.
 *
 * A row is about one nest on one device with one driver.  In front of the file stands a table in memory, so that a nest that was
 * asked for before costs no look at the disk.  A file that is damaged is moved aside and begun anew, one that is not ours is left
 * alone; either way the server runs.  Thread: any. */
#ifndef BL_SEARCH_KERNELS_H
#define BL_SEARCH_KERNELS_H

#include "engine/device/device.h"
#include "engine/opt/move.h"
#include "engine/search/peaks.h"

typedef struct bl_kernels bl_kernels;

/* What is known of a nest. */
typedef struct bl_kernel_record {
    int nmoves;
    bl_move moves[BL_MAX_MOVES];
    int width; /* of the widest search so far */
    int tried; /* candidates of that */
    uint64_t heuristic_ns, best_ns;
} bl_kernel_record;

/* A row as it is listed, exported and imported: all text is borrowed. */
typedef struct bl_kernel_row {
    const char *key; /* 16 hexadecimal digits: the hash of the nest's structure */
    const char *device, *driver;
    const char *name;  /* of the kernel, "r_64_10_1600" */
    const char *nest;  /* printed, before any move */
    const char *moves; /* "vector 1 16, tile 0 6" */
    int64_t version;   /* BL_MOVES_VERSION of the moves */
    int64_t width, tried;
    int64_t heuristic_ns, best_ns;
    int64_t searched; /* seconds since 1970 */
} bl_kernel_row;

/* |path| NULL: nothing is kept on disk.  Fails only without memory. */
BL_NODISCARD bl_status bl_kernels_open(const char *path, bl_kernels **out, bl_err *err);
void bl_kernels_close(bl_kernels *kernels); /* accepts NULL */

/* False where nothing is known.  |ir| is the nest's, for its text. */
bool bl_kernels_find(bl_kernels *kernels, const bl_device_info *info, bl_ir *ir, const bl_node *sink, bl_kernel_record *out);
/* Keep what a search found, in place of what was known. */
void bl_kernels_store(bl_kernels *kernels, const bl_device_info *info, bl_ir *ir, const bl_node *sink, const char *name,
                      const bl_kernel_record *record);

/* The nest's structure as a number: the key of its row. */
uint64_t bl_kernels_key(bl_ir *ir, const bl_node *sink);
/* What was found for |key| did not hold in service: |moves|, which are back in its place, are the best that is known from now on,
 * and it is not searched again with the same width. */
void bl_kernels_withdraw(bl_kernels *kernels, const bl_device_info *info, uint64_t key, const char *moves);

/* What the device can do at most, if it was ever measured. */
bool bl_kernels_find_peaks(bl_kernels *kernels, const bl_device_info *info, bl_peaks *out);
void bl_kernels_store_peaks(bl_kernels *kernels, const bl_device_info *info, const bl_peaks *peaks);

/* Rows by name, those of |key| alone where it is not NULL; ends where |row| returns false. */
BL_NODISCARD bl_status bl_kernels_list(bl_kernels *kernels, const char *key, bool (*row)(void *arg, const bl_kernel_row *row),
                                       void *arg, bl_err *err);
/* A row from elsewhere.  BL_EINVAL where it says no moves, or a key that is none; kept if it is better than what is known. */
BL_NODISCARD bl_status bl_kernels_put(bl_kernels *kernels, const bl_kernel_row *row, bl_err *err);

#endif
