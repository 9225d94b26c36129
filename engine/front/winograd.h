/* The choice between the two ways to compute a convolution. Thread: that of the ir. */
#ifndef BL_FRONT_WINOGRAD_H
#define BL_FRONT_WINOGRAD_H

#include "engine/front/frame.h"

/* The tile m of F(m x m, 3 x 3) for x [N, C, H, W] and w [O, C, 3, 3] under the frame |f|; 0 if the convolution is computed by
 * windows, a product and a sum. */
int bl_winograd_tile(const bl_front_options *options, const bl_node *x, const bl_node *w, const bl_frame *f, int64_t groups,
                     bl_winograd_use use);

#endif
