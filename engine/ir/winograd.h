/* Convolutions of 3 x 3 windows by Winograd's minimal filtering (Lavin and Gray, "Fast Algorithms for Convolutional Neural
 * Networks", 2015): F(m x m, 3 x 3) makes a tile of m x m results of one of m + 2 by m + 2 inputs with (m + 2)^2 products for
 * each pair of channels in place of 9 m^2.  The tiles and the weight are transformed by sums with small factors, the products are
 * a matrix product for each of the (m + 2)^2 places, and their sums are transformed back.  Thread: that of the ir. */
#ifndef BL_IR_WINOGRAD_H
#define BL_IR_WINOGRAD_H

#include "engine/ir/node.h"

typedef struct bl_correlation {
    int tile;                /* m: 2 or 4 */
    int before[2], after[2]; /* zeros around rows and columns: 0 to 2 */
} bl_correlation;

int64_t bl_correlation_pack(bl_correlation correlation); /* arg of a CORRELATE */
bl_correlation bl_correlation_unpack(int64_t arg);

/* x [N, C, H, W] and w [O, C, 3, 3], of one float dtype and fixed sizes, to [N, O, H', W']: an ALIAS of the transforms, whose
 * gradients are such convolutions again: they go to a CORRELATE, which is never computed. */
const bl_node *bl_winograd(bl_ir *ir, const bl_node *x, const bl_node *w, bl_correlation correlation);
/* The gradient to w, [O, C, 3, 3], from x and the cotangent g [N, O, H', W']: an ALIAS of transforms, whose gradients go to
 * windows, a product and a sum. */
const bl_node *bl_winograd_weight(bl_ir *ir, const bl_node *x, const bl_node *g, bl_correlation correlation);
/* w for the gradient to x: [C, O, 3, 3], turned round; and its zeros around. */
const bl_node *bl_winograd_turned(bl_ir *ir, const bl_node *w);
bl_correlation bl_correlation_turned(bl_correlation correlation);

#endif
