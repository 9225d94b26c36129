/* What a window moves over: the last axes of a tensor, for convolutions and pools.  Thread: that of the ir. */
#ifndef BL_FRONT_FRAME_H
#define BL_FRONT_FRAME_H

#include "engine/front/call.h"

/* A convolution has four axes besides two for each of the window's. */
enum { BL_FRAME_AXES = (BL_MAX_DIMS - 4) / 2 };

typedef struct bl_frame {
    int n; /* axes */
    int64_t size[BL_FRAME_AXES], stride[BL_FRAME_AXES], dilation[BL_FRAME_AXES];
    int64_t before[BL_FRAME_AXES], after[BL_FRAME_AXES]; /* padding; a negative one crops */
} bl_frame;

/* The attribute "padding": one number, one for each axis, or [before, after] for each.  False after a failure. */
bool bl_frame_take_padding(bl_call *c, bl_frame *f);
/* How many elements a window spans along axis |i|. */
int64_t bl_frame_span(const bl_frame *f, int i);
/* x with the padding around it, which is |value| (NULL: zero). */
const bl_node *bl_frame_pad(bl_call *c, const bl_node *x, const bl_frame *f, const bl_node *value);
/* The windows of a padded x: [.., n..] to [.., o.., k..], or a failure that says which one is too large. */
const bl_node *bl_frame_slide(bl_call *c, const bl_node *x, const bl_frame *f);

#endif
