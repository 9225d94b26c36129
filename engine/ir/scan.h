/* Loops in the tensor graph, like jax.lax.scan. In each of |length| steps, a body computes the next carries, and outputs that
 * are stacked, from the carries, one slice of each sequence, and constants. The body is a closed graph: its leaves are BOUND
 * nodes, literals and named dimensions. A walk over the surrounding graph therefore never enters a body.
 * Sources of a SCAN node: the initial carries, the sequences [length, ...], the constants. BOUND number k of the body is the
 * carry, the slice or the constant of source k. Results: [0, ncarries) are the last carries; then come |nys| stacked outputs
 * [length, ...]; then, for gradients, the history of each carry, [length, ...]: its value at the start of every step. An unused
 * result costs nothing.
 * |length| may contain named dimensions. A carry alternates between two buffers, so the buffer that the last step writes
 * depends on the length. Results [0, ncarries) are then the carries after the last step of even number (steps 0, 2, ...),
 * further results behind the histories are the carries after the last step of odd number, and bl_scan_last selects one of the
 * two. */
#ifndef BL_IR_SCAN_H
#define BL_IR_SCAN_H

#include "engine/ir/node.h"

typedef struct bl_scan {
    int ncarries, nsequences, nconstants, nys;
    const bl_node *length; /* INDEX: at least 0; a constant length is at least 1 */
    bool reverse;          /* steps run from the last slice to the first, and outputs are stacked in that order too */
    /* Roots of the body: the next carries, then the outputs. A next carry has the dtype and shape of its source. */
    const bl_node *const *root;
} bl_scan;

/* The SCAN node, and a result of it. |scan| and its roots are copied. Equal bodies share one number. Sequences and constants
 * that the body does not read are dropped. */
const bl_node *bl_scan_make(bl_ir *ir, const bl_scan *scan, const bl_node *const *src);
const bl_node *bl_scan_result(bl_ir *ir, const bl_node *scan, int which);
/* Carry |which| after all steps, for constant and named lengths. */
const bl_node *bl_scan_last(bl_ir *ir, const bl_node *scan, int which);
const bl_scan *bl_scan_get(const bl_ir *ir, const bl_node *scan);
static inline int bl_scan_sources(const bl_scan *scan)
{
    return scan->ncarries + scan->nsequences + scan->nconstants;
}
/* Number of the first result that is a carry after the last step of odd number. */
static inline int bl_scan_first_odd(const bl_scan *scan)
{
    return 2 * scan->ncarries + scan->nys;
}
static inline int bl_scan_results(const bl_scan *scan)
{
    return bl_scan_first_odd(scan) + (bl_is_const(scan->length) ? 0 : scan->ncarries);
}
static inline bool bl_scan_is_sequence(const bl_scan *scan, int source)
{
    return source >= scan->ncarries && source < scan->ncarries + scan->nsequences;
}
/* The BOUND node of the body for source |which| of |src|. */
const bl_node *bl_scan_bound(bl_ir *ir, const bl_scan *scan, const bl_node *const *src, int which);
/* Replace every ALIAS by its value, also in the bodies of scans. */
void bl_drop_aliases(bl_ir *ir, int nroots, const bl_node **roots);
/* A BOUND node: source |which| itself, or a slice of it if it is a sequence. */
const bl_node *bl_bound(bl_ir *ir, int which, bl_dtype dtype, int ndim, const bl_node *const *dim);

#endif
