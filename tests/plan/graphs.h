/* A program document as a graph and its roots, for tests of one stage of the compiler. */
#ifndef BL_TESTS_GRAPHS_H
#define BL_TESTS_GRAPHS_H

#include "engine/front/front.h"
#include "engine/sched/schedule.h"

/* Zeroed to begin with; test_graph_close at the end. */
typedef struct test_graph {
    bl_arena *arena; /* of the document */
    bl_graph *graph;
    int nroots;
    const bl_node **roots; /* outputs, then new states */
} test_graph;

/* The first entry of the document in |text|, which has ' for ".  Fails the test where it is refused. */
void test_graph_open(const char *text, test_graph *out);
void test_graph_close(test_graph *g);
/* Its schedule for a device of |units| cores; fails the test where there is none. */
bl_schedule *test_graph_schedule(const test_graph *g, uint32_t units);
/* The same for a device whose groups have work-items. */
bl_schedule *test_graph_schedule_groups(const test_graph *g, uint32_t units);

#endif
