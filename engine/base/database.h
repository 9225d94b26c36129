/* SPDX-License-Identifier: MIT */
/* SQLite files of our own: opened, checked and, where they cannot be used, set aside; never deleted.
 * Thread: a connection has no lock of its own, so its owner's lock is held around every call. */
#ifndef BL_BASE_DATABASE_H
#define BL_BASE_DATABASE_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite3;

typedef struct bl_database_kind {
    int32_t ours;       /* SQLite's application_id: it keeps it for who wrote a file */
    int schema;         /* user_version: of what |create| leaves */
    const char *create; /* statements that bring a file of any version up to |schema| to that: IF NOT EXISTS */
    bool durable;       /* what was committed outlives a loss of power */
} bl_database_kind;

typedef enum bl_opened {
    BL_DATABASE_READY,
    BL_DATABASE_DAMAGED,
    BL_DATABASE_NEWER,   /* of a later version of ours */
    BL_DATABASE_FOREIGN, /* another program's */
    BL_DATABASE_UNUSABLE /* the folder is missing, the disk is full, somebody holds its lock ... */
} bl_opened;

/* *out is NULL unless it is ready; closed with sqlite3_close.  |path| may be ":memory:". */
bl_opened bl_database_open(const char *path, const bl_database_kind *kind, struct sqlite3 **out);
/* PATH.WHY, or PATH.WHY-2 and so on where that is taken: what to set a file aside as.  Freed by the caller; NULL without memory.
 */
char *bl_database_aside(const char *path, const char *why);
/* Rename the file, with what SQLite keeps beside it. */
bool bl_database_set_aside(const char *path, const char *aside);

bool bl_database_run(struct sqlite3 *db, const char *sql);
/* The one number that a query gives; false where it fails. */
bool bl_database_ask(struct sqlite3 *db, const char *sql, int64_t *value);
/* Whether a result code says that the file is no (whole) database. */
bool bl_database_is_damage(int code);

#endif
