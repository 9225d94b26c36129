/* SPDX-License-Identifier: MIT */
/* Files in a folder of --state, each with a row in the database.  The file is written before its row and removed after it, so a
 * crash leaves at most files without a row, which the sweep removes.  Thread: any. */
#ifndef BL_SERVER_DATA_KEPT_H
#define BL_SERVER_DATA_KEPT_H

#include "server/ops/server.h"

enum { BL_KEPT_NAME = 48 };

/* Write a new file of |owner| in FOLDER/|part|, under a random, unique name. */
typedef struct bl_kept_file {
    const char *part;
    uint32_t owner;
    uint64_t bytes, replaces; /* bytes of the new file, and of the old file that is removed afterwards */
    bl_status (*write)(void *arg, int fd, bl_err *err);
    void *arg;
} bl_kept_file;
BL_NODISCARD bl_status bl_kept_write(const bl_server *server, const bl_kept_file *file, char name[BL_KEPT_NAME], bl_err *err);
/* BL_ESTORAGE if the file cannot be opened.  The caller closes *fd. */
BL_NODISCARD bl_status bl_kept_open(const bl_server *server, const char *part, const char *name, int *fd, uint64_t *bytes,
                                    bl_err *err);
void bl_kept_remove(const bl_server *server, uint32_t owner, const char *part, const char *name); /* "": no file */
uint64_t bl_kept_bytes(const bl_server *server, const char *part, const char *name);              /* 0: there is no such file */
/* Remove the files of |part| that no row names.  |sql| gives name and owner of each file that a row names; the owner is charged
 * for the file.  If not all of these names can be read, nothing is removed. */
BL_NODISCARD bl_status bl_kept_sweep(const bl_server *server, const char *part, const char *sql, bl_err *err);
/* A row callback for bl_storage_run: copies the text of the first column to |name|, a char[BL_KEPT_NAME]. */
struct bl_cell;
bool bl_kept_take(void *name, const struct bl_cell *cells, int n);

#endif
