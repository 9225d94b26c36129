/* SPDX-License-Identifier: MIT */
/* Durable storage: the folder --state with a database and files.
 *
 * One server uses the folder at a time.  With `--state none`, or if the default folder is in use, the database is in memory and
 * there is no folder; callers use the same interface.  A damaged store, and a store of a later version, is renamed with all its
 * files, and a new one is created.  Thread: any, with an internal lock; a device worker must not wait for this lock during a
 * step. */
#ifndef BL_SERVER_STORE_STORAGE_H
#define BL_SERVER_STORE_STORAGE_H

#include "engine/base/text.h"

#include <stdint.h>

typedef struct bl_storage bl_storage;

/* A parameter of a statement, or a column of a row.  Texts and blobs of a row are borrowed until the callback returns, and a
 * text's |data| ends with a NUL. */
typedef struct bl_cell {
    enum { BL_CELL_NULL, BL_CELL_INT, BL_CELL_REAL, BL_CELL_TEXT, BL_CELL_BLOB } kind;
    int64_t integer;
    double real;
    bl_span bytes;
} bl_cell;

static inline bl_cell bl_cell_int(int64_t value)
{
    return (bl_cell){.kind = BL_CELL_INT, .integer = value};
}
static inline bl_cell bl_cell_real(double value)
{
    return (bl_cell){.kind = BL_CELL_REAL, .real = value};
}
static inline bl_cell bl_cell_blob(const void *data, size_t len)
{
    return (bl_cell){.kind = BL_CELL_BLOB, .bytes = {data, len}};
}
bl_cell bl_cell_text(const char *text); /* NULL becomes SQL's NULL */

/* |folder|: the setting; "" is the default folder, "none" stores nothing.  BL_ECONFLICT if another server uses the named
 * folder, BL_ESTORAGE if the folder cannot be written. */
BL_NODISCARD bl_status bl_storage_open(const char *folder, bl_storage **out, bl_err *err);
/* Open the store for a command, beside a server that may use it.  BL_ECONFLICT if there is no folder. */
BL_NODISCARD bl_status bl_storage_join(const char *folder, bl_storage **out, bl_err *err);
void bl_storage_close(bl_storage *store); /* accepts NULL */
/* The folder of the store, for files beside the database; NULL if the store has no folder. */
const char *bl_storage_folder(const bl_storage *store);
/* The path FOLDER/|part|, for a part that storage.c lists; creates the folder if it is missing.  The caller frees the path.
 * NULL if nothing is stored or the folder cannot be created. */
char *bl_storage_make_folder(const bl_storage *store, const char *part);

/* Does the path still lead to the folder that this server opened? */
bool bl_storage_is_there(const bl_storage *store);
BL_NODISCARD bl_status bl_storage_check(const bl_storage *store, bl_err *err); /* BL_ESTORAGE unless bl_storage_is_there */
/* Check before data is added: BL_ESTORAGE if |bytes| more would leave less than |least| free (bl_disk_check_room). */
BL_NODISCARD bl_status bl_storage_check_room(const bl_storage *store, uint64_t bytes, uint64_t least, bl_err *err);
/* Call about once a second: run owed statements, make the reserve whole, and log that the folder has gone or is back. */
void bl_storage_tend(bl_storage *store);

/* Run one statement with the parameters ?1 to ?n.  |row| (or NULL) is called for every row until it returns false; it must not
 * use the store.  BL_ECONFLICT if a row violates uniqueness, BL_ESTORAGE if the disk fails.  *changed (or NULL) becomes the
 * number of inserted, updated and deleted rows. */
typedef bool (*bl_storage_row)(void *arg, const bl_cell *cells, int n);
BL_NODISCARD bl_status bl_storage_run(bl_storage *store, const char *sql, int n, const bl_cell *cells, bl_storage_row row,
                                      void *arg, bl_err *err);
/* bl_storage_run without parameters that reads all rows before the first call of |row|, so |row| may use the store.
 * BL_ENOMEM: |row| was not called. */
BL_NODISCARD bl_status bl_storage_each(bl_storage *store, const char *sql, bl_storage_row row, void *arg, bl_err *err);
BL_NODISCARD bl_status bl_storage_change(bl_storage *store, const char *sql, int n, const bl_cell *cells, int64_t *changed,
                                         bl_err *err);
/* Run |body| as one transaction: if |body| fails, the store does not change.  |body| may be called again after a failure. */
BL_NODISCARD bl_status bl_storage_together(bl_storage *store, bl_status (*body)(void *arg, bl_err *err), void *arg, bl_err *err);

/* Run a statement that stores a revocation. The revocation has taken effect in memory already.  If the disk refuses the
 * statement, *is_owed is set, and the statement runs as soon as the disk works, before any other statement that writes.  The
 * end of the server loses owed statements. */
BL_NODISCARD bl_status bl_storage_owe(bl_storage *store, const char *sql, int n, const bl_cell *cells, bool *is_owed,
                                      bl_err *err);

/* The parameters of a statement: bl_storage_run(store, sql, BL_CELLS(a, b), row, arg, err). */
#define BL_CELLS(...)                                                                                                            \
    (int)(sizeof((bl_cell[]){__VA_ARGS__}) / sizeof(bl_cell)), (bl_cell[])                                                       \
    {                                                                                                                            \
        __VA_ARGS__                                                                                                              \
    }

#endif
