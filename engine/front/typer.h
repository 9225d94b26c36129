/* Dtypes and shapes of a wire graph under construction. Each node passes through the front end as soon as it is added, so an
 * importer of another format asks for a dtype or a shape and need not know the rules of every op. All graphs of a typer share
 * one ir. A failed call returns NULL or POISON, and bl_ir_status of the ir has the reason. Thread: one at a time. */
#ifndef BL_FRONT_TYPER_H
#define BL_FRONT_TYPER_H

#include "engine/ir/node.h"
#include "proto/wire.h"

typedef struct bl_typer bl_typer;
typedef struct bl_typer_graph bl_typer_graph;

/* The slot of the INPUT for the state of the random generator. No input of a graph has this slot, and its elements are never
 * known. */
enum { BL_TYPER_RNG = INT32_MAX };

/* |vars| are the named dimensions of all graphs; they are copied. |max_bytes| limits the memory, |max_seconds| the time (0: no
 * limit). */
BL_NODISCARD bl_status bl_typer_create(int nvars, const bl_wire_var *vars, size_t max_bytes, double max_seconds, bl_typer **out,
                                       bl_err *err);
void bl_typer_destroy(bl_typer *typer); /* with all its graphs; accepts NULL */
bl_ir *bl_typer_ir(bl_typer *typer);

/* Make an empty graph. |outer| is the graph that will contain the node of a body, or NULL. NULL without memory. */
bl_typer_graph *bl_typer_open(bl_typer *typer, bl_typer_graph *outer);
/* Add an input; its reference is BL_REF_INPUT with the number of earlier inputs. Returns an INPUT node of its dtype and
 * shape. */
const bl_node *bl_typer_input(bl_typer_graph *graph, bl_dtype dtype, int ndim, const bl_node *const *dim);
/* Add a node; its reference is BL_REF_NODE with the number of earlier nodes. |node| is borrowed for the call and may refer to
 * earlier inputs and nodes (there are no states here). Returns node->nids values, or NULL after a failure. */
const bl_node *const *bl_typer_node(bl_typer_graph *graph, const bl_wire_node *node);

#endif
