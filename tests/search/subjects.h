/* Nests for tests of the search. */
#ifndef BL_TESTS_SEARCH_SUBJECTS_H
#define BL_TESTS_SEARCH_SUBJECTS_H

#include "engine/search/search.h"
#include "tests/plan/graphs.h"

/* Nest |which| of the graph's schedule in the form of a search; |elements| has room for its parameters. */
bl_search_nest test_search_nest(const test_graph *graph, const bl_schedule *schedule, int which, bl_device *dev,
                                const bl_target *target, int64_t *elements);

#endif
