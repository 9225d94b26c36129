/* SPDX-License-Identifier: MIT */
/* Scatter inversion: move lists on each device against the nest without moves; and refusals without effect. */
#include "tests/opt/bench.h"
#include "tests/plan/on_devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define IN(name, dtype, ...)    "'" name "': {'dtype': '" dtype "', 'shape': [" #__VA_ARGS__ "]}"
#define NODE(id, op, in, attrs) "{'id': '" id "', 'op': '" op "', 'in': [" in "], 'attrs': {" attrs "}}"
#define DOC(inputs, nodes, out) "{'inputs': {" inputs "}, 'nodes': [" nodes "], 'outputs': [" out "]}"
/* scatters 40 rows of six elements to |places| rows, by keys from 0 to 10 */
#define PUT(dtype, places, attrs)                                                                                                \
    DOC(IN("x", dtype, places, 6) ", " IN("s", dtype, 40, 6) ", " IN("i", "int32", 40),                                          \
        NODE("y", "index_put", "'x', 's', 'i'", attrs), "'y'")
#define SUM PUT("float32", 17, "'accumulate': true")
/* scatters each element by its own key */
#define EACH(dtype, places, op, attrs)                                                                                           \
    DOC(IN("x", dtype, places, 6) ", " IN("s", dtype, 40, 6) ", " IN("i", "int32", 40, 6),                                       \
        NODE("y", op, "'x', 'i', 's'", attrs), "'y'")
/* reduces where(places == keys, what, otherwise) */
#define FOLD(keys, fold, what, otherwise)                                                                                        \
    DOC("'i': {'dtype': 'int32', 'shape': " keys "}, " IN("s", "float32", 40),                                                   \
        NODE("p", "arange", "", "'stop': 17, 'dtype': 'int32'") ", " NODE("c", "reshape", "'p'", "'shape': [17, 1]") ", " NODE(  \
            "e", "equal", "'c', 'i'", "") ", " NODE("w", "where", "'e', " what ", " otherwise, "") ", " NODE("y", fold, "'w'",   \
                                                                                                             "'axis': 1"),       \
        "'y'")
/* 300 positions, and keys whose bounds show that few positions are used */
#define FEW(inputs, key)                                                                                                         \
    DOC(inputs IN("s", "float32", 40),                                                                                           \
        key ", " NODE("p", "arange", "", "'stop': 300, 'dtype': 'int32'") ", " NODE(                                             \
            "c", "reshape", "'p'", "'shape': [300, 1]") ", " NODE("e", "equal", "'c', 'k'",                                      \
                                                                  "") ", " NODE("w", "where", "'e', 's', 0",                     \
                                                                                "") ", " NODE("y", "sum", "'w'", "'axis': 1"),   \
        "'y'")
#define NAMED                                                                                                                    \
    "{'dims': {'p': [1, 30], 'k': [1, 50]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['p', 6]}, 's': {'dtype': 'float32', " \
    "'shape': ['k', 6]}, 'i': {'dtype': 'int32', 'shape': ['k']}}, 'nodes': [{'id': 'y', 'op': 'index_put', 'in': ['x', 's', "   \
    "'i'], 'attrs': {'accumulate': true}}], 'outputs': ['y']}"

/* Axes: 0 the positions, 1 the columns, 2 the 40 terms of a sum.  With columns inside a group, after SEND: 0 and 1 the
 * positions, 2 the columns; 3 the 40 terms and 4 the columns of the source. */
static const struct {
    const char *name, *document, *moves, *refused; /* |refused|: the reason why the last move is refused; NULL: no move is
                                                    * refused */
} rows[] = {
    {"the last part overlaps", SUM, "partial(0, scatter, 5)", NULL},
    {"all places", SUM, "partial(0, scatter, 17)", NULL},
    {"columns together", SUM, "split(1, loop, 6), partial(0, scatter, 5)", NULL},
    {"... some of them", SUM, "split(1, loop, 4), partial(0, scatter, 5)", NULL},
    {"... with lanes", SUM, "split(1, loop, 6), partial(0, scatter, 5), split(r2, vector, 2), split(1.1, vector, 2)", NULL},
    {"... in copies", SUM, "split(1, loop, 6), partial(0, scatter, 5), split(r2, unroll, 3), split(1.1, unroll, 3)", NULL},
    {"several at once", SUM, "split(1, loop, 6), partial(0, scatter, 5), split(r1, unroll, 5)", NULL},
    {"places in copies", SUM, "partial(0, scatter, 6), split(0.1, unroll, 3)", NULL},
    {"more rows of groups", SUM, "split(1, loop, 6), partial(0, scatter, 5), split(0.0, block, 2)", NULL},
    {"parts of the sum", SUM, "partial(r0, global, 4), partial(0, scatter, 17)", NULL},
    {"some keys are no places", PUT("float32", 9, "'accumulate': true"), "split(1, loop, 6), partial(0, scatter, 4)", NULL},
    {"float16, whose sums are float32", PUT("float16", 17, "'accumulate': true"),
     "split(1, loop, 6), partial(0, scatter, 5), split(r2, vector, 2)", NULL},
    {"bfloat16", PUT("bfloat16", 17, "'accumulate': true"), "split(1, loop, 6), partial(0, scatter, 5)", NULL},
    {"the last of those that are sent stays", PUT("int64", 17, ""), "partial(0, scatter, 5)", NULL},
    {"keys of their own", EACH("float32", 17, "scatter", "'reduce': 'add'"), "split(1, loop, 6), partial(0, scatter, 5)", NULL},
    {"... and products", EACH("int32", 17, "scatter", "'reduce': 'multiply'"), "split(1, loop, 3), partial(0, scatter, 5)", NULL},
    {"a mean: two folds", EACH("float32", 17, "scatter_reduce", "'reduce': 'mean'"), "partial(0, scatter, 5)", NULL},
    {"the largest", EACH("float32", 17, "scatter_reduce", "'reduce': 'amax'"),
     "split(1, loop, 6), partial(0, scatter, 5), split(1.1, vector, 2)", NULL},
    {"the smallest integer", EACH("int8", 17, "scatter_reduce", "'reduce': 'amin', 'include_self': false"),
     "partial(0, scatter, 17)", NULL},
    {"named extents", NAMED, "split(1, loop, 6), partial(0, scatter, 5)", NULL},
    {"... shorter than a part", NAMED, "split(1, loop, 6), partial(0, scatter, 16)", NULL},
    {"counts", FOLD("[40]", "sum", "1", "0"), "partial(0, scatter, 4)", NULL},
    {"what is sent depends on the place", FOLD("[40]", "sum", "'c'", "0"), "partial(0, scatter, 4)", NULL},
    {"a least value that all are above", FOLD("[40]", "max", "'i'", "0"), "partial(0, scatter, 4)", "its bounds are not known"},
    {"one, and not nothing", FOLD("[40]", "sum", "'s'", "1"), "partial(0, scatter, 4)",
     "it would be added once for each that is not sent"},
    {"keys of each place", FOLD("[17, 40]", "sum", "'s'", "0"), "partial(0, scatter, 4)", "they would be asked for by the place"},
    {"keys of eight bits", FEW(IN("i", "uint8", 40) ", ", NODE("k", "cast", "'i'", "'dtype': 'int32'")),
     "partial(0, scatter, 300)", NULL},
    {"... of which a part has none", FEW(IN("i", "int8", 40) ", ", NODE("k", "cast", "'i'", "'dtype': 'int32'")),
     "partial(0, scatter, 200)", NULL},
    {"one bit", FEW(IN("i", "bool", 40) ", ", NODE("k", "cast", "'i'", "'dtype': 'int32'")), "partial(0, scatter, 50)", NULL},
    {"rests", FEW(IN("i", "int32", 40) ", ", NODE("k", "mod", "'i', 7", "")), "partial(0, scatter, 100)", NULL},
    {"their own numbers", FEW("", NODE("k", "arange", "", "'stop': 40, 'dtype': 'int32'")), "partial(0, scatter, 100)", NULL},
    {"... several at once", FEW("", NODE("k", "arange", "", "'stop': 40, 'dtype': 'int32'")),
     "partial(0, scatter, 100), split(r1, unroll, 5)", NULL},
    {"one and the same", FEW("", NODE("k", "full", "", "'shape': [40], 'value': 3, 'dtype': 'int32'")),
     "partial(0, scatter, 100)", NULL},
    {"keys of 64 bits without a sign",
     DOC(IN("x", "float32", 100) ", " IN("i", "uint64", 40) ", " IN("s", "float32", 40),
         NODE("y", "gather", "'x', 'i'", "'axis': 0") ", " NODE("d", "grad", "'y', 'x', 's'", "'cotangent': true"), "'d'"),
     "partial(0, scatter, 30)", NULL},
    {"lanes of those that are sent", SUM, "split(1, loop, 6), partial(0, scatter, 5), split(r1, vector, 4)",
     "two may go to one place"},
    {"seven at once", SUM, "split(1, loop, 6), partial(0, scatter, 5), split(r1, unroll, 7)",
     "40 is no multiple, and the rest would be sent twice"},
    {"lanes of five columns", PUT("float32", 17, "'accumulate': true"),
     "split(1, loop, 6), partial(0, scatter, 5), split(r2, vector, 4)", "as before"},
    {"work-items", SUM, "partial(0, scatter, 5), split(0.0, group, 2)", "they do not share local memory that each fills"},
    {"work-items before", SUM, "split(0, group, 2), partial(0.0, scatter, 5)", "as before"},
    {"twice", SUM, "partial(0, scatter, 5), partial(0.0, scatter, 2)", "once"},
    {"columns are no places", SUM, "partial(1, scatter, 3)", "nothing asks for them"},
    {"neither is what is sent", SUM, "partial(r0, scatter, 4)", "of outputs only"},
    {"more places than there are", SUM, "partial(0, scatter, 18)", "an axis is not split by more than it has"},
    {"more sums than any memory has",
     "{'dims': {'p': [1, 3000000], 'k': [1, 50]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['p', 1000]}, 's': {'dtype': "
     "'float32', 'shape': ['k', 1000]}, 'i': "
     "{'dtype': 'int32', 'shape': ['k']}}, 'nodes': [{'id': 'y', 'op': 'index_put', 'in': ['x', 's', 'i'], 'attrs': "
     "{'accumulate': true}}], 'outputs': ['y']}",
     "split(1, loop, 1000), partial(0, scatter, 3000000)", "3,000,000,000 of them"},
    {"places with lanes", SUM, "split(0, vector, 4), partial(0.0, scatter, 2)", "lanes come later"},
};
enum { NROWS = sizeof rows / sizeof rows[0] };

static void run_row(bl_device *dev, int row)
{
    test_graph graph;
    bench b = {.name = rows[row].name, .dev = dev, .graph = &graph, .vars = {11, 23}};

    test_graph_open(rows[row].document, &graph);
    b.schedule = test_graph_schedule(&graph, 16);
    bench_row(&b, rows[row].moves, rows[row].refused);
    test_graph_close(&graph);
}

static void test_device(void **state)
{
    for (int i = 0; i < NROWS; i++)
        run_row(*state, i);
}

int main(void)
{
    return on_devices("send", test_device, 0, NULL);
}
