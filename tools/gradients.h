/* SPDX-License-Identifier: MIT */
/* How far an op of the wire can be differentiated, found by building its examples with gradients behind them. */
#ifndef BL_TOOLS_GRADIENTS_H
#define BL_TOOLS_GRADIENTS_H

#include "engine/front/sig.h"

typedef struct bl_gradients {
    int nexamples;
    bool floats;              /* some result is one */
    bool checked[BL_SIG_MAX]; /* by input: an example gives it as floats */
    bool first[BL_SIG_MAX];   /* a gradient reaches it, */
    bool second[BL_SIG_MAX];  /* and depends on where it is taken */
} bl_gradients;

/* An example: a node without its id, and its inputs, with ' for ". */
typedef struct bl_example {
    const char *node, *inputs, *results;
} bl_example;

/* Take an example of the op in.  False where it cannot be built; the reason is on stderr. */
bool bl_gradients_add(bl_gradients *g, const bl_sig *sig, const bl_example *example);

#endif
