/* SPDX-License-Identifier: MIT */
/* Keys in the store, for the server and for the command `beamline keys`.  A secret is shown once, when it is created.  The
 * store has the SHA-256 of the secret, from which its 256 random bits cannot be recovered.  Thread: any. */
#ifndef BL_SERVER_ACCESS_KEYS_H
#define BL_SERVER_ACCESS_KEYS_H

#include "engine/base/text.h"
#include "proto/json.h"
#include "server/store/storage.h"

enum {
#define BL_QUOTA(id, name, flag, kind, help) BL_QUOTA_##id,
#include "server/access/quotas.def"
#undef BL_QUOTA
    BL_QUOTA_COUNT
};

enum {
    BL_KEY_NAME = 64,   /* size of a name, with NUL */
    BL_KEY_SECRET = 48, /* size of a secret: "bl_" and 43 characters of base64url, with NUL */
    BL_KEY_HASH = 32,
    BL_KEY_HINT = 8 /* the first characters of the secret, by which people tell keys apart */
};

/* A key as stored in its row. */
typedef struct bl_key_row {
    uint32_t id; /* the id of the key: the owner of the objects that the key creates */
    char name[BL_KEY_NAME], hint[BL_KEY_HINT + 1];
    unsigned char hash[BL_KEY_HASH];
    unsigned scopes;
    int64_t created, expires, revoked; /* seconds since 1970; 0: never */
    double quota[BL_QUOTA_COUNT];      /* below 0: no quota */
} bl_key_row;

/* A requested change of a key; members that are not given stay unchanged, or are unset in a new key. */
typedef struct bl_key_wish {
    const char *name;
    unsigned scopes; /* 0: not given */
    bool has_ttl;
    double ttl; /* seconds from now; 0: no expiry */
    bool has_quota[BL_QUOTA_COUNT];
    double quota[BL_QUOTA_COUNT]; /* below 0: no quota */
} bl_key_wish;

BL_NODISCARD bl_status bl_keys_list(bl_storage *storage, void (*each)(void *arg, const bl_key_row *row), void *arg, bl_err *err);
BL_NODISCARD bl_status bl_keys_create(bl_storage *storage, const bl_key_wish *wish, char secret[BL_KEY_SECRET], bl_err *err);
BL_NODISCARD bl_status bl_keys_change(bl_storage *storage, const bl_key_wish *wish, bl_err *err);
/* Replace the secret.  The key keeps all its objects; a revoked key becomes valid again. */
BL_NODISCARD bl_status bl_keys_rotate(bl_storage *storage, const char *name, char secret[BL_KEY_SECRET], bl_err *err);
BL_NODISCARD bl_status bl_keys_revoke(bl_storage *storage, const char *name, bl_err *err);
/* Store the revocation of a key that is revoked in memory.  If the disk fails now, *is_owed is set, and the store gets the
 * change as soon as the disk works. */
BL_NODISCARD bl_status bl_keys_owe_revoked(bl_storage *storage, const char *name, int64_t now, bool *is_owed, bl_err *err);
/* Give all objects of owner 0, which were created before there were keys, to the key |name|. *rows: the number of changed
 * rows. BL_ECONFLICT if the key already has an object of the same name.  Allowed only while no server uses the store. */
BL_NODISCARD bl_status bl_keys_adopt(bl_storage *storage, const char *name, int64_t *rows, bl_err *err);

/* BL_EINVAL if |name| cannot be the name of a key. */
BL_NODISCARD bl_status bl_key_check_name(const char *name, bl_err *err);
void bl_key_hash(const char *secret, size_t len, unsigned char hash[BL_KEY_HASH]);
/* Parse "infer,run", or print such a list; BL_EINVAL names an unknown scope. */
BL_NODISCARD bl_status bl_scopes_parse(const char *text, unsigned *out, bl_err *err);
void bl_scopes_print(unsigned scopes, bl_text *out);
const char *bl_scope_name(unsigned scope); /* the name of a single bit */
const char *bl_quota_name(int quota);
const char *bl_quota_help(int quota);
/* Parse "10G" by the unit of its row in quotas.def; "none" gives a value below 0. */
BL_NODISCARD bl_status bl_quota_parse(int quota, const char *text, double *out, bl_err *err);
BL_NODISCARD bl_status bl_quota_check(int quota, double value, bl_err *err);
/* Write {"memory":N,...}: the quotas that are set among BL_QUOTA_COUNT values. */
void bl_quotas_encode(bl_text *out, const double *values);
void bl_scopes_encode(bl_text *out, unsigned scopes); /* writes ["run",...] */
/* Write the members of a row as JSON, without its hash. */
void bl_key_encode(bl_text *out, const bl_key_row *row);
/* Print "2026-11-22T17:00:00Z". */
void bl_time_print(int64_t seconds, char *out, size_t size);

#endif
