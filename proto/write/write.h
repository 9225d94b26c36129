/* SPDX-License-Identifier: MIT */
/* Wire graphs that an importer writes, node by node, from recipes: "add(mul(a, $0), b)" is two nodes.  Each node goes through the
 * front end as soon as it is written, so that the importer knows its dtype and shape.
 *
 * The importer's values are opaque here: its calls give the reference of a value and make a value of what was written.  Failures
 * are the importer's too, and sticky: after the first one nothing is written.  Thread: one at a time. */
#ifndef BL_PROTO_WRITE_WRITE_H
#define BL_PROTO_WRITE_WRITE_H

#include "engine/front/typer.h"

typedef struct bl_write_calls {
    bool (*ok)(void *owner); /* Is there no failure so far? */
    void (*fail)(void *owner, bl_status status, const char *text);
    bl_wire_ref (*use)(void *owner, void *value); /* the reference of a value in the graph that is written */
    void *(*make)(void *owner, const bl_node *type, bl_wire_ref ref);
    /* "@name": a number of the importer's; |preset| NULL: the number must be there.  False: it is not, and that is a failure. */
    bool (*number)(void *owner, const char *name, const bl_wire_number *preset, bl_wire_number *out);
    const char *(*size_text)(void *owner, const bl_node *size); /* in the wire's language of sizes; NULL after a failure */
} bl_write_calls;

/* Where nodes are written.  The pointers are the importer's; |wire| grows. */
typedef struct bl_write {
    const bl_write_calls *calls;
    void *owner;
    bl_arena *arena;   /* of the nodes */
    bl_arena *scratch; /* of what only the typer sees */
    bl_ir *ir;
    bl_typer_graph *typer;
    bl_wire_graph *wire;
    int *node_cap;
    int first_state; /* inputs of the typer from here on are the states */
    size_t max_nodes;
    const char *label; /* names of nodes begin with this */
    int nwritten;      /* nodes with this label so far */
    int nin;           /* values of the letters a to h; NULL where left out */
    void *const *in;
} bl_write;

typedef enum bl_write_kind {
    BL_WRITE_VALUE,
    BL_WRITE_INT,
    BL_WRITE_REAL,
    BL_WRITE_FLAG,
    BL_WRITE_TEXT,
    BL_WRITE_INTS,
    BL_WRITE_SIZES,
    BL_WRITE_BODY
} bl_write_kind;

typedef struct bl_write_arg {
    bl_write_kind kind;
    void *value;
    int64_t whole;
    double real;
    const char *text;
    int count; /* of ints, sizes, or the values of "$0..." */
    const int64_t *ints;
    const bl_node *const *sizes;
    const bl_wire_graph *body;
    const void *values; /* an array of pointers to values */
} bl_write_arg;
#define V(v)      ((bl_write_arg){.kind = BL_WRITE_VALUE, .value = (v)})
#define VS(n, v)  ((bl_write_arg){.kind = BL_WRITE_VALUE, .count = (n), .values = (v)})
#define I(n)      ((bl_write_arg){.kind = BL_WRITE_INT, .whole = (n)})
#define R(x)      ((bl_write_arg){.kind = BL_WRITE_REAL, .real = (x)})
#define B(x)      ((bl_write_arg){.kind = BL_WRITE_FLAG, .whole = (x)})
#define T(s)      ((bl_write_arg){.kind = BL_WRITE_TEXT, .text = (s)})
#define D(d)      T(bl_dtype_name(d))
#define IS(n, a)  ((bl_write_arg){.kind = BL_WRITE_INTS, .count = (n), .ints = (a)})
#define ZS(n, a)  ((bl_write_arg){.kind = BL_WRITE_SIZES, .count = (n), .sizes = (a)})
#define G(g)      ((bl_write_arg){.kind = BL_WRITE_BODY, .body = (g)})
#define ARGS(...) ((const bl_write_arg[]){__VA_ARGS__})

/* Numbers of the wire; a double that is a whole number becomes one. */
bl_wire_number bl_write_int(int64_t value);
bl_wire_number bl_write_real(double value);

/* The wire nodes that |text| says: OP(operands, attribute=value, ...).  Operands are other such calls, numbers, the letters a to
 * h (one left out ends the operands), and $0 to $9, which are |args|; "$0..." stands for all values of VS.  Attributes are
 * numbers, words, true, false, [lists] of these, $0 and @name:preset, a number of the importer's (:preset may be missing where
 * the number must be there), which may stand for an operand too.  |out| is an array of pointers to values, the |n| results of the
 * outermost op; false after a failure. */
bool bl_write_many(bl_write *w, const char *text, const bl_write_arg *args, int n, void *out);
/* The one result; NULL after a failure. */
void *bl_write_one(bl_write *w, const char *text, const bl_write_arg *args);

#endif
