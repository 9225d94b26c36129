/* The kernel database: results of searches, stored in a file that all servers of a machine share. A row belongs to one nest
 * on one device with one driver. A cache in memory answers repeated look-ups without the file. A damaged file is renamed and
 * replaced by a new file. A file of another program is left unchanged. The server runs in either case. Thread: any. */
#ifndef BL_SEARCH_KERNEL_STORE_H
#define BL_SEARCH_KERNEL_STORE_H

#include "engine/device/device.h"
#include "engine/opt/move.h"
#include "engine/search/peaks.h"

typedef struct bl_kernels bl_kernels;

/* A search result for a nest. */
typedef struct bl_kernel_record {
    int nmoves;
    bl_move moves[BL_MAX_MOVES];
    int width; /* beam width of the widest search so far */
    int tried; /* number of candidates of that search */
    uint64_t heuristic_ns, best_ns;
} bl_kernel_record;

/* A row for listing, export and import. All text is borrowed. */
typedef struct bl_kernel_row {
    const char *key; /* hash of the nest's structure: 16 hexadecimal digits */
    const char *device, *driver;
    const char *name;  /* name of the kernel, for instance "r_64_10_1600" */
    const char *nest;  /* the nest as text, before its moves */
    const char *moves; /* for instance "split(1, vector, 16), split(0, unroll, 6)" */
    int64_t version;   /* BL_MOVES_VERSION of |moves| */
    int64_t width, tried;
    int64_t heuristic_ns, best_ns;
    int64_t searched; /* time of the search, in seconds since 1970 */
} bl_kernel_row;

/* Open the database at |path|; NULL keeps everything in memory. Fails only without memory. */
BL_NODISCARD bl_status bl_kernels_open(const char *path, bl_kernels **out, bl_err *err);
void bl_kernels_close(bl_kernels *kernels); /* accepts NULL */

/* Look up the nest |sink| of |ir|. False if the database has no row for the nest. */
bool bl_kernels_find(bl_kernels *kernels, const bl_device_info *info, bl_ir *ir, const bl_node *sink, bl_kernel_record *out);
/* Store a search result; the result replaces an older result. */
void bl_kernels_store(bl_kernels *kernels, const bl_device_info *info, bl_ir *ir, const bl_node *sink, const char *name,
                      const bl_kernel_record *record);

/* The key of a nest: the hash of its structure. */
uint64_t bl_kernels_key(bl_ir *ir, const bl_node *sink);
/* Replace the stored moves of |key| by |moves|, because the stored moves were slower in service than |moves|. The nest is
 * then not searched again with the same beam width. */
void bl_kernels_withdraw(bl_kernels *kernels, const bl_device_info *info, uint64_t key, const char *moves);

/* The measured peaks of the device. False if the peaks were never measured. */
bool bl_kernels_find_peaks(bl_kernels *kernels, const bl_device_info *info, bl_peaks *out);
void bl_kernels_store_peaks(bl_kernels *kernels, const bl_device_info *info, const bl_peaks *peaks);

/* Call |row| for every row in order of name, or for the rows of |key| if it is not NULL, until |row| returns false. */
BL_NODISCARD bl_status bl_kernels_list(bl_kernels *kernels, const char *key, bool (*row)(void *arg, const bl_kernel_row *row),
                                       void *arg, bl_err *err);
/* Import a row. BL_EINVAL if its moves or its key are malformed. The row is stored if its kernel is faster than the kernel
 * of the stored row. */
BL_NODISCARD bl_status bl_kernels_put(bl_kernels *kernels, const bl_kernel_row *row, bl_err *err);

#endif
