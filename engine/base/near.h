/* The known name that is most like one that is not known, for the end of an error.  Any thread. */
#ifndef BL_BASE_NEAR_H
#define BL_BASE_NEAR_H

#include "engine/base/text.h"

enum { BL_NEAR_LONGEST = 40 /* bytes of a name that is compared; a longer one is near to none */ };

typedef struct bl_near {
    bl_span wanted, best; /* borrowed */
    int distance;         /* of |best|: edits, a transposition of neighbours being one; letters of either case are equal */
    char hint[BL_NEAR_LONGEST + 24];
} bl_near;

void bl_near_init(bl_near *near, bl_span wanted);
void bl_near_offer(bl_near *near, bl_span known);
/* "; did you mean "softmax"?", or "" where no name that was offered is near.  Lives as long as |near|. */
const char *bl_near_hint(bl_near *near);

#endif
