/* SPDX-License-Identifier: MIT */
/* SQLite files that the server owns. A file is opened and checked; a file that cannot be used is renamed, never deleted.
 * Thread: a connection has no lock of its own. The owner of the connection holds a lock around every call. */
#ifndef BL_BASE_DATABASE_H
#define BL_BASE_DATABASE_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite3;

typedef struct bl_database_kind {
    int32_t ours;       /* SQLite's application_id, which says which program wrote the file */
    int schema;         /* SQLite's user_version of a file that |create| has set up */
    const char *create; /* statements that bring a file of any older version to |schema|; they use IF NOT EXISTS */
    bool durable;       /* committed data survive a power failure */
} bl_database_kind;

typedef enum bl_opened {
    BL_DATABASE_READY,
    BL_DATABASE_DAMAGED,
    BL_DATABASE_NEWER,   /* a later version of the server wrote the file */
    BL_DATABASE_FOREIGN, /* another program wrote the file */
    BL_DATABASE_UNUSABLE /* for instance the folder is missing, the disk is full or another process holds the lock */
} bl_opened;

/* Open the file |path|, or ":memory:". *out is NULL unless the result is BL_DATABASE_READY. The caller closes *out with
 * sqlite3_close. */
bl_opened bl_database_open(const char *path, const bl_database_kind *kind, struct sqlite3 **out);
/* A free name for a file that is set aside: PATH.WHY, else PATH.WHY-2 and so on. The caller frees the name. NULL without
 * memory. */
char *bl_database_aside(const char *path, const char *why);
/* Rename the file and the -wal and -shm files that SQLite keeps beside it. */
bool bl_database_set_aside(const char *path, const char *aside);

bool bl_database_run(struct sqlite3 *db, const char *sql);
/* Store in *value the one number that a query returns. False if the query fails. */
bool bl_database_ask(struct sqlite3 *db, const char *sql, int64_t *value);
/* Does the SQLite result |code| mean that the file is damaged or is no database? */
bool bl_database_is_damage(int code);

#endif
