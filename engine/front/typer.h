/* What the values of a wire graph are while somebody writes it, node by node: each node goes through the front end as soon as it
 * is there, so that who translates from another format asks for a dtype or a shape instead of knowing every op's rule.
 * All graphs of a typer share one ir.  Nothing fails loudly: a call that fails gives NULL or POISON, and bl_ir_status of the ir
 * says why.  Thread: one at a time. */
#ifndef BL_FRONT_TYPER_H
#define BL_FRONT_TYPER_H

#include "engine/ir/node.h"
#include "proto/wire.h"

typedef struct bl_typer bl_typer;
typedef struct bl_typer_graph bl_typer_graph;

/* The slot of the INPUT that random numbers are made of: no input of a graph has it, and its elements are never known. */
enum { BL_TYPER_RNG = INT32_MAX };

/* |vars| are the named dimensions of every graph, copied.  |max_bytes| bounds the memory, |max_seconds| the time (0: no limit).
 */
BL_NODISCARD bl_status bl_typer_create(int nvars, const bl_wire_var *vars, size_t max_bytes, double max_seconds, bl_typer **out,
                                       bl_err *err);
void bl_typer_destroy(bl_typer *typer); /* with all its graphs; accepts NULL */
bl_ir *bl_typer_ir(bl_typer *typer);

/* A graph without anything in it; |outer| is the one that a body's node will stand in, or NULL.  NULL without memory. */
bl_typer_graph *bl_typer_open(bl_typer *typer, bl_typer_graph *outer);
/* The graph's next input, BL_REF_INPUT of the number of those before.  Its type, as a node. */
const bl_node *bl_typer_input(bl_typer_graph *graph, bl_dtype dtype, int ndim, const bl_node *const *dim);
/* The graph's next node, BL_REF_NODE of the number of those before; references are to inputs and nodes already there (there are
 * no states here), and |node| is borrowed for the call.  node->nids values, or NULL after a failure. */
const bl_node *const *bl_typer_node(bl_typer_graph *graph, const bl_wire_node *node);

#endif
