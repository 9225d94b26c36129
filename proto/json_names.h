/* The set of member names of a document's objects, which detects duplicates during the scan.  It is a hash table with a random
 * seed, so that chosen names cannot cause collisions.  Thread: one at a time. */
#ifndef BL_PROTO_JSON_NAMES_H
#define BL_PROTO_JSON_NAMES_H

#include "engine/base/status.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BL_JSON_NAMES_FIRST = 64 };

typedef struct bl_json_name {
    const char *text; /* the caller's text; NULL: a free slot */
    uint32_t len, object;
} bl_json_name;

/* Valid if all zero. */
typedef struct bl_json_names {
    bl_json_name first[BL_JSON_NAMES_FIRST];
    bl_json_name *more; /* heap table that replaces |first|, or NULL */
    size_t cap, count;
    uint64_t seed;
} bl_json_names;

/* Adds |name| to the names of |object|; sets |*twice| if it is already there.  The text must outlive |names|. */
BL_NODISCARD bl_status bl_json_names_add(bl_json_names *names, uint32_t object, bl_span name, bool *twice, bl_err *err);
void bl_json_names_fini(bl_json_names *names);

#endif
