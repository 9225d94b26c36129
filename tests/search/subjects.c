/* SPDX-License-Identifier: MIT */
#include "tests/search/subjects.h"

#include "engine/ir/shape.h"

bl_search_nest test_search_nest(const test_graph *graph, const bl_schedule *schedule, int which, bl_device *dev,
                                const bl_target *target, int64_t *elements)
{
    const bl_nest *nest = &schedule->nests[which];

    for (int i = 0; i < nest->nparams; i++) {
        const bl_place *place = &schedule->places[nest->param[i]];
        const bl_node *input = place->kind == BL_PLACE_INPUT ? graph->graph->inputs[place->index] : NULL;
        elements[i] = place->count == NULL ? 0 : place->count->hi;
        if (input != NULL)
            (void)bl_shape_max_count(input->ndim, input->dim, &elements[i]);
    }
    return (bl_search_nest){.name = nest->name,
                            .ir = graph->graph->ir,
                            .sink = nest->sink,
                            .nparams = nest->nparams,
                            .elements = elements,
                            .writes = nest->writes,
                            .dev = dev,
                            .target = target};
}
