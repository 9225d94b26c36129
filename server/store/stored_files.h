/* SPDX-License-Identifier: MIT */
/* Files in the folder of --state, each with a row in the database.  A file is written before its row and removed after its
 * row. So a crash leaves at most files without a row, which the next start removes.  The bytes of a file are charged to its
 * owner.  Blobs (data/blobs.h) are not stored here: several owners share the file of a blob, and without --state blobs have
 * their own folder.  Thread: any that may wait for a disk. */
#ifndef BL_SERVER_STORE_STORED_FILES_H
#define BL_SERVER_STORE_STORED_FILES_H

#include "server/ops/server.h"
#include "server/store/storage.h"

/* Each kind has a folder and a table; the rows of kinds are in stored_files.c. */
typedef enum bl_stored_kind {
    BL_STORED_TENSOR,
    BL_STORED_PROGRAM,
    BL_STORED_VERSION, /* a version of a model, made from a program */
    BL_STORED_MODEL,   /* a model that was uploaded */
    BL_STORED_JOB      /* a file of a job, named "ID/NAME": the table names the job, not the files */
} bl_stored_kind;

enum { BL_STORED_NAME = 96 };

typedef struct bl_stored_file {
    bl_stored_kind kind;
    uint32_t owner;
    const char *name;         /* name of the file; NULL: a new random name */
    uint64_t bytes, replaces; /* |bytes|: size of the file; |replaces|: size of the file that is removed afterwards */
    bl_status (*write)(void *arg, int fd, bl_err *err);
    bl_status (*insert)(void *arg, const char *name, bl_err *err); /* inserts the row; NULL: the caller inserts the row later */
    void *arg;
} bl_stored_file;

/* Write a file, then its row.  If the row fails, the file is removed.  |name| (or NULL) gets its name. */
BL_NODISCARD bl_status bl_stored_put(const bl_server *server, const bl_stored_file *file, char name[BL_STORED_NAME], bl_err *err);
/* BL_ESTORAGE if the file cannot be opened, BL_ENOMEM without memory for its path.  The caller closes *fd. */
BL_NODISCARD bl_status bl_stored_open(const bl_server *server, bl_stored_kind kind, const char *name, int *fd, uint64_t *bytes,
                                      bl_err *err);
/* size of the file; 0: there is no such file */
uint64_t bl_stored_bytes(const bl_server *server, bl_stored_kind kind, const char *name);
/* Remove a file whose row is deleted; "": no file. */
void bl_stored_remove(const bl_server *server, bl_stored_kind kind, uint32_t owner, const char *name);
/* Delete the rows of |owner| for which the SQL condition |where| holds, with its parameters |cells|, and then their files. */
BL_NODISCARD bl_status bl_stored_delete(const bl_server *server, bl_stored_kind kind, uint32_t owner, const char *where, int n,
                                        const bl_cell *cells, bl_err *err);
/* The name of the file in the first row for which |where| holds; "" if there is no such row. */
BL_NODISCARD bl_status bl_stored_find(const bl_server *server, bl_stored_kind kind, const char *where, int n,
                                      const bl_cell *cells, char name[BL_STORED_NAME], bl_err *err);

/* Call at the start: remove the files that no row names, charge the other files to their owners, and call |row| for each row
 * of |sql|; |row| may use the store.  If not all rows can be read, no file is removed. */
BL_NODISCARD bl_status bl_stored_load(const bl_server *server, bl_stored_kind kind, const char *sql, bl_storage_row row,
                                      void *arg, bl_err *err);
/* Call |each| for every name in the folder of |kind|, or in its folder |below| ("": none).  |each| may remove the file. */
void bl_stored_each(const bl_server *server, bl_stored_kind kind, const char *below, void (*each)(void *arg, const char *name),
                    void *arg);
/* The path of a file or folder of |kind|; the caller frees it.  NULL if the store has no folder, or if out of memory. */
char *bl_stored_path(const bl_server *server, bl_stored_kind kind, const char *name);

#endif
