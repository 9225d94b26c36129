/* A hash map from names to pointers.  Thread: one at a time. */
#ifndef BL_SERVER_NAMES_H
#define BL_SERVER_NAMES_H

#include "engine/base/status.h"

/* Name keys, copied; on the heap.  Iteration is in order of insertion. */
typedef struct bl_namemap bl_namemap;
bl_namemap *bl_namemap_create(void);      /* NULL if out of memory */
void bl_namemap_destroy(bl_namemap *map); /* values are the caller's */
BL_NODISCARD bl_status bl_namemap_put(bl_namemap *map, const char *name, void *value, bl_err *err);
void *bl_namemap_get(const bl_namemap *map, const char *name); /* NULL if absent */
void *bl_namemap_remove(bl_namemap *map, const char *name);    /* what was there, or NULL */
size_t bl_namemap_count(const bl_namemap *map);
/* The |i|-th pair still there, in order of insertion; false past the end.  Constant time when called for 0, 1, 2, ...,
 * also where the pair just seen is removed and the same |i| asked again.  NULL has none. */
bool bl_namemap_at(bl_namemap *map, size_t i, const char **name, void **value);

#endif
