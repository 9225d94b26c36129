/* A table that numbers texts from 0 in the order of insertion.  The table lives in the arena and does not copy the texts.
 * Thread: one at a time while it grows, any afterwards. */
#ifndef BL_PROTO_TEXTS_H
#define BL_PROTO_TEXTS_H

#include "engine/base/arena.h"
#include "engine/base/text.h"

#include <stdint.h>

enum { BL_TEXTS_MOST = 1 << 24 };

typedef struct bl_texts {
    int count, cap;
    bl_span *text;
    size_t nslots; /* a power of two */
    int32_t *slot; /* number + 1; 0: free */
} bl_texts;

/* The number of |text|, or -1. */
int bl_texts_find(const bl_texts *texts, bl_span text);
/* The number of |text|; adds it if it is new.  -1 if the table cannot grow. */
int bl_texts_add(bl_texts *texts, bl_arena *arena, bl_span text);

#endif
