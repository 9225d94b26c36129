/* 3 x 3 convolutions by Winograd's minimal filtering (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
 * 2015). F(m x m, 3 x 3) computes a tile of m x m results from (m + 2) x (m + 2) inputs with (m + 2)^2 products for each pair
 * of channels, in place of 9 m^2. Input tiles and weight are transformed by sums with small factors; the products form one
 * matrix product for each of the (m + 2)^2 positions; their sums are transformed back. Thread: that of the ir. */
#ifndef BL_IR_WINOGRAD_TRANSFORMS_H
#define BL_IR_WINOGRAD_TRANSFORMS_H

#include "engine/ir/node.h"

typedef struct bl_correlation {
    int tile;                /* m: 2 or 4 */
    int before[2], after[2]; /* zero padding before and after rows and columns: 0 to 2 */
} bl_correlation;

int64_t bl_correlation_pack(bl_correlation correlation); /* arg of a CORRELATE */
bl_correlation bl_correlation_unpack(int64_t arg);

/* x [N, C, H, W] and w [O, C, 3, 3], of one float dtype and of constant shape, to [N, O, H', W']. The result is an ALIAS of the
 * transforms: its gradient goes to a CORRELATE, which stands for the convolution and is never computed, so that the gradients
 * are Winograd convolutions again. */
const bl_node *bl_winograd(bl_ir *ir, const bl_node *x, const bl_node *w, bl_correlation correlation);
/* The gradient with respect to w, [O, C, 3, 3], from x and the cotangent g [N, O, H', W']. The result is an ALIAS of the
 * transforms, whose gradient goes to windows, a product and a sum. */
const bl_node *bl_winograd_weight(bl_ir *ir, const bl_node *x, const bl_node *g, bl_correlation correlation);
/* The weight for the gradient with respect to x, [C, O, 3, 3]: w rotated by 180 degrees and transposed; and the padding of that
 * convolution. */
const bl_node *bl_winograd_turned(bl_ir *ir, const bl_node *w);
bl_correlation bl_correlation_turned(bl_correlation correlation);

#endif
