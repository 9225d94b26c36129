/* A loop in the tensor graph, as jax.lax.scan: in each of |length| steps a body makes the next carries, and outputs that are
 * stacked, from the carries, a slice of each sequence and constants.  The body is a graph of its own, closed: its leaves are
 * BOUND nodes (and literals and named dimensions), so that a walk over the graph around it never enters it.
 *
 * Sources of a SCAN node: what each carry starts as, sequences [length, ...], constants.  BOUND number k in the body is the
 * carry, the slice or the constant that source k gives.  Results: [0, ncarries) the last carries; then |nys| outputs
 * [length, ...]; then each carry as it was at the start of every step, [length, ...], which gradients ask for.  A result that
 * nobody uses costs nothing.
 *
 * |length| may have named dimensions in it.  Two buffers take turns as a carry, so which of them the last step writes depends on
 * the length: results [0, ncarries) are then the carries after the last step of an even number (steps 0, 2, ...), the results
 * behind the histories those after the last step of an odd number, and bl_scan_last selects one of the two. */
#ifndef BL_IR_SCAN_H
#define BL_IR_SCAN_H

#include "engine/ir/node.h"

typedef struct bl_scan {
    int ncarries, nsequences, nconstants, nys;
    const bl_node *length; /* INDEX: at least 0, and a constant at least 1 */
    bool reverse;          /* from the last slice to the first, and so are the outputs stacked */
    /* Of the body: next carries, then outputs.  A next carry has the dtype and shape of its source. */
    const bl_node *const *root;
} bl_scan;

/* The node and its results.  |scan| and its roots are copied; equal bodies share a number.  Sequences and constants that the body
 * does not read are left out. */
const bl_node *bl_scan_make(bl_ir *ir, const bl_scan *scan, const bl_node *const *src);
const bl_node *bl_scan_result(bl_ir *ir, const bl_node *scan, int which);
/* Carry |which| after all steps, whatever the length is. */
const bl_node *bl_scan_last(bl_ir *ir, const bl_node *scan, int which);
const bl_scan *bl_scan_get(const bl_ir *ir, const bl_node *scan);
static inline int bl_scan_sources(const bl_scan *scan)
{
    return scan->ncarries + scan->nsequences + scan->nconstants;
}
/* The first of the carries after the last step of an odd number. */
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
/* The parameter that the body has for source |which| of |src|. */
const bl_node *bl_scan_bound(bl_ir *ir, const bl_scan *scan, const bl_node *const *src, int which);
/* Put the value of every ALIAS in its place, in the bodies of scans as well. */
void bl_drop_aliases(bl_ir *ir, int nroots, const bl_node **roots);
/* A parameter of a body: source |which| as it is, or a slice of it where it is a sequence. */
const bl_node *bl_bound(bl_ir *ir, int which, bl_dtype dtype, int ndim, const bl_node *const *dim);

#endif
