/* The axes that a sliding window moves over: the last axes of a tensor, for convolutions and pooling. Thread: that of the
 * ir. */
#ifndef BL_FRONT_FRAME_H
#define BL_FRONT_FRAME_H

#include "engine/front/call.h"

/* Most axes of a window: a convolution has four axes besides two for each axis of the window. */
enum { BL_FRAME_AXES = (BL_MAX_DIMS - 4) / 2 };

typedef struct bl_frame {
    int n; /* number of axes */
    int64_t size[BL_FRAME_AXES], stride[BL_FRAME_AXES], dilation[BL_FRAME_AXES];
    int64_t before[BL_FRAME_AXES], after[BL_FRAME_AXES]; /* padding; a negative value crops */
} bl_frame;

/* Read the attribute "padding": one number, one number per axis, or [before, after] per axis. False after a failure. */
bool bl_frame_take_padding(bl_call *c, bl_frame *f);
/* The number of elements that a window spans along axis |i|. */
int64_t bl_frame_span(const bl_frame *f, int i);
/* x padded with |value| (NULL: zero). */
const bl_node *bl_frame_pad(bl_call *c, const bl_node *x, const bl_frame *f, const bl_node *value);
/* The windows of a padded x, from [.., n..] to [.., o.., k..]. A failure names the axis whose window is too large. */
const bl_node *bl_frame_slide(bl_call *c, const bl_node *x, const bl_frame *f);

#endif
