/* SPDX-License-Identifier: MIT */
/* Explanation of a plan as JSON (explain_json.c). */
#ifndef BL_SERVER_RUN_EXPLAIN_JSON_H
#define BL_SERVER_RUN_EXPLAIN_JSON_H

#include "server/programs/programs.h"

/* The caller fills the members up to |plan| and keeps them alive; bl_explain_make fills the rest. */
typedef struct bl_explained {
    const bl_wire_graph *wire; /* the graph of the plan's key, with the names that the client gave */
    const char *entry;         /* name of the entry; "main" for a run */
    const bl_worker *worker;
    bl_plan *plan;
    bl_plan_detail detail;
    int level; /* the highest debug level that |rq| may ask for: texts of higher levels are null */
} bl_explained;

/* Call bl_plan_explain.  The detail lives in the arena of |rq|.  Thread: a compile thread. */
BL_NODISCARD bl_status bl_explain_make(bl_request *rq, bl_explained *x, bl_err *err);
void bl_explain_put(bl_text *out, const bl_explained *x); /* thread: any */

#endif
