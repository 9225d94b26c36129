/* SPDX-License-Identifier: MIT */
/* The order of the products of a register tile. Of a tile of 2 vectors by 12 rows, the outer product of each iteration takes 2
 * vectors and 12 factors of rows: in the order of the vectors all 12 stay in registers for the second vector, and the
 * accumulators do not have room; in the order of the rows, the 2 vectors stay, and a factor of a row is used at once. Compilers
 * keep the order of the text. */
#include "engine/lower/emit.h"

/* The factor that the first products of two members share; NULL if there is none. */
static const bl_node *common_factor(const bl_node *a, const bl_node *b)
{
    const bl_node *x = a->src[0], *y = b->src[0];

    for (int i = 0; x->op == BL_OP_MUL && y->op == BL_OP_MUL && i < 2; i++) {
        if (x->src[i] == y->src[0] || x->src[i] == y->src[1])
            return x->src[i];
    }
    return NULL;
}

int emit_tile_run(int n, const bl_node *const *members)
{
    const bl_node *first = n > 1 ? common_factor(members[0], members[1]) : NULL;
    int run = 1;

    while (first != NULL && run < n && common_factor(members[0], members[run]) == first)
        run++;
    if (n % run != 0 || n / run >= run)
        return n;
    for (int i = run; i < n; i++) {
        if (common_factor(members[i], members[i - run]) == NULL)
            return n;
    }
    return run;
}
