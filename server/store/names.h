/* A hash map from names to pointers.  Thread: one thread at a time. */
#ifndef BL_SERVER_STORE_NAMES_H
#define BL_SERVER_STORE_NAMES_H

#include "engine/base/status.h"

/* The map copies its keys to the heap.  Iteration is in order of insertion. */
typedef struct bl_namemap bl_namemap;
bl_namemap *bl_namemap_create(void);      /* NULL if out of memory */
void bl_namemap_destroy(bl_namemap *map); /* does not free the values */
BL_NODISCARD bl_status bl_namemap_put(bl_namemap *map, const char *name, void *value, bl_err *err);
void *bl_namemap_get(const bl_namemap *map, const char *name); /* NULL if absent */
void *bl_namemap_remove(bl_namemap *map, const char *name);    /* returns the removed value, or NULL if |name| is absent */
size_t bl_namemap_count(const bl_namemap *map);
/* The |i|-th pair in order of insertion; false past the end.  A call takes constant time if |i| goes 0, 1, 2, ..., also if
 * the caller removes the pair just returned and asks for the same |i| again.  A NULL map is empty. */
bool bl_namemap_at(bl_namemap *map, size_t i, const char **name, void **value);

#endif
