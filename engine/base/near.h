/* The known name that is nearest to an unknown name, as a hint at the end of an error.  Any thread. */
#ifndef BL_BASE_NEAR_H
#define BL_BASE_NEAR_H

#include "engine/base/text.h"

enum { BL_NEAR_LONGEST = 40 /* bytes of a name that is compared; there are no hints for longer names */ };

typedef struct bl_near {
    bl_span wanted, best; /* borrowed */
    int distance;         /* edits from |wanted| to |best|; a transposition of neighbours is one edit; case does not count */
    char hint[BL_NEAR_LONGEST + 24];
} bl_near;

void bl_near_init(bl_near *near, bl_span wanted);
void bl_near_offer(bl_near *near, bl_span known);
/* "; did you mean "softmax"?", or "" if no offered name is near.  Lives as long as |near|. */
const char *bl_near_hint(bl_near *near);

#endif
