/* SPDX-License-Identifier: MIT */
/* The gradient of a SCAN. */
#ifndef BL_GRAD_SCAN_GRAD_H
#define BL_GRAD_SCAN_GRAD_H

#include "engine/ir/node.h"

/* |g| has the cotangent of each result of the SCAN |node|, or NULL. Sets out[k] for each source k with wanted[k]; such a source
 * is a float tensor. */
void grad_scan(bl_ir *ir, const bl_node *node, const bl_node *const *g, const bool *wanted, const bl_node **out);

#endif
