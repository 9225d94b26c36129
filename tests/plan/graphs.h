/* Converts a program document to a graph and its roots, for tests of a single stage of the compiler. */
#ifndef BL_TESTS_GRAPHS_H
#define BL_TESTS_GRAPHS_H

#include "engine/front/front.h"
#include "engine/sched/schedule.h"

/* Zero-initialise; call test_graph_close at the end. */
typedef struct test_graph {
    bl_arena *arena; /* arena of the document */
    bl_graph *graph;
    int nroots;
    const bl_node **roots; /* outputs, then new states */
} test_graph;

/* Opens the first entry of the document |text|, which has ' in place of ".  Fails the test if the document is refused. */
void test_graph_open(const char *text, test_graph *out);
void test_graph_close(test_graph *g);
/* Schedules the graph for a device of |units| cores; fails the test if there is no schedule. */
bl_schedule *test_graph_schedule(const test_graph *g, uint32_t units);
/* Schedules the graph for a device with work-groups. */
bl_schedule *test_graph_schedule_groups(const test_graph *g, uint32_t units);

#endif
