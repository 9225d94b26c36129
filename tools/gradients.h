/* SPDX-License-Identifier: MIT */
/* Finds out to which inputs of a wire op gradients and second gradients flow: builds the examples of the op with gradient nodes
 * added. */
#ifndef BL_TOOLS_GRADIENTS_H
#define BL_TOOLS_GRADIENTS_H

#include "engine/front/sig.h"

typedef struct bl_gradients {
    int nexamples;
    bool floats;              /* some result is a float tensor */
    bool checked[BL_SIG_MAX]; /* per input: an example gives floats */
    bool first[BL_SIG_MAX];   /* per input: a gradient reaches the input */
    bool second[BL_SIG_MAX];  /* per input: this gradient depends on the inputs, so a second gradient exists */
} bl_gradients;

/* An example: a node without its id, and its inputs; the texts have ' in place of ". */
typedef struct bl_example {
    const char *node, *inputs, *results;
} bl_example;

/* Adds an example of the op to |g|.  False if the example cannot be built; the reason is on stderr. */
bool bl_gradients_add(bl_gradients *g, const bl_sig *sig, const bl_example *example);

#endif
