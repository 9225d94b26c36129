/* SPDX-License-Identifier: MIT */
/* Builds wire graphs for importers from recipes: "add(mul(a, $0), b)" is two nodes.  Each node passes through the front end
 * when it is written, so that the importer knows the dtype and the shape of the node.
 *
 * The importer's values are opaque: its callbacks give the reference of a value and make a value of a written node.
 * Failures belong to the importer and are sticky: after the first failure the writer adds no node.  Thread: one at a time. */
#ifndef BL_PROTO_WRITE_H
#define BL_PROTO_WRITE_H

#include "engine/front/typer.h"

typedef struct bl_write_calls {
    bool (*ok)(void *owner); /* true if nothing has failed */
    void (*fail)(void *owner, bl_status status, const char *text);
    bl_wire_ref (*use)(void *owner, void *value); /* the reference of a value in the current graph */
    void *(*make)(void *owner, const bl_node *type, bl_wire_ref ref);
    /* The importer's number |name|, for "@name"; |preset| NULL: the number is required.  False after a failure. */
    bool (*number)(void *owner, const char *name, const bl_wire_number *preset, bl_wire_number *out);
    const char *(*size_text)(void *owner, const bl_node *size); /* as a size expression; NULL after a failure */
} bl_write_calls;

/* The state of a graph under construction.  The importer owns what the pointers refer to; |wire| grows. */
typedef struct bl_write {
    const bl_write_calls *calls;
    void *owner;
    bl_arena *arena;   /* arena of the nodes */
    bl_arena *scratch; /* arena of data that only the typer reads */
    bl_ir *ir;
    bl_typer_graph *typer;
    bl_wire_graph *wire;
    int *node_cap;
    int first_state; /* index of the first state among the typer's inputs */
    size_t max_nodes;
    const char *label; /* prefix of the nodes' names */
    int nwritten;      /* nodes written with this label */
    int nin;           /* number of values for the letters a to h; NULL for an omitted one */
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
    int count; /* number of ints, of sizes, or of the values of "$0..." */
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

/* Converts a number to the wire's form; a whole double becomes an integer. */
bl_wire_number bl_write_int(int64_t value);
bl_wire_number bl_write_real(double value);

/* Writes the wire nodes of |text|: OP(operands, attribute=value, ...).  Operands are nested calls, numbers, the letters a to
 * h (an omitted value ends the operands), and $0 to $9, which refer to |args|; "$0..." stands for all values of VS.
 * Attributes are numbers, words, true, false, [lists] of these, $0, and @name:preset, a number of the importer (required
 * without :preset), which is also allowed as an operand.  |out| is an array of |n| pointers to values, which gets the
 * results of the outermost op.  False after a failure. */
bool bl_write_many(bl_write *w, const char *text, const bl_write_arg *args, int n, void *out);
/* Like bl_write_many for one result; NULL after a failure. */
void *bl_write_one(bl_write *w, const char *text, const bl_write_arg *args);

#endif
