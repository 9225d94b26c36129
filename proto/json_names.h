/* The names of the members of the objects of a document, so that one that stands twice is found when it is scanned.
 * A hash table with a random seed: no choice of names makes it slow.  Thread: one at a time. */
#ifndef BL_PROTO_JSON_NAMES_H
#define BL_PROTO_JSON_NAMES_H

#include "engine/base/status.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BL_JSON_NAMES_FIRST = 64 };

typedef struct bl_json_name {
    const char *text; /* the caller's; NULL: a free slot */
    uint32_t len, object;
} bl_json_name;

/* Zeroed is ready. */
typedef struct bl_json_names {
    bl_json_name first[BL_JSON_NAMES_FIRST];
    bl_json_name *more; /* heap, in place of |first|; or NULL */
    size_t cap, count;
    uint64_t seed;
} bl_json_names;

/* Add |name| to those of |object|; *twice: it has one of that name.  The text must live as long as |names|. */
BL_NODISCARD bl_status bl_json_names_add(bl_json_names *names, uint32_t object, bl_span name, bool *twice, bl_err *err);
void bl_json_names_fini(bl_json_names *names);

#endif
