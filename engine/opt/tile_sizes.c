/* SPDX-License-Identifier: MIT */
#include "engine/opt/facts.h"

#include <math.h>

double sizes_choose(const sizes *s, int64_t *best)
{
    int64_t at[MOST_SIZES];
    double least = INFINITY;

    for (int i = 0; i < s->n; i++) {
        at[i] = s->range[i].least;
        if (at[i] > s->range[i].most)
            return INFINITY;
    }
    for (int i = 0; i >= 0;) {
        double cost = s->cost(s->arg, at);
        if (cost < least) {
            least = cost;
            for (int k = 0; k < s->n; k++)
                best[k] = at[k];
        }
        for (i = s->n - 1; i >= 0; i--) {
            at[i] = s->range[i].doubles ? 2 * at[i] : at[i] + 1;
            if (at[i] <= s->range[i].most)
                break;
            at[i] = s->range[i].least;
        }
    }
    return least;
}
