/* SPDX-License-Identifier: MIT */
/* A plot of one series over steps, drawn with characters. */
#ifndef BL_SERVER_COMMAND_CURVE_H
#define BL_SERVER_COMMAND_CURVE_H

#include "engine/base/text.h"

enum { BL_CURVE_POINTS = 8192 };

/* A zeroed curve is empty.  When it is full, every second point is dropped. */
typedef struct bl_curve {
    double x[BL_CURVE_POINTS], y[BL_CURVE_POINTS];
    size_t count;
} bl_curve;

void bl_curve_add(bl_curve *curve, double x, double y); /* |x| must increase; points that are not finite are dropped */
/* Draw |rows| lines with |columns| columns; the last two lines are the axis.  With |unicode| a character has 2 x 4 dots.
 * The scale is logarithmic if all values are positive and their ratio is large. */
void bl_curve_draw(const bl_curve *curve, int columns, int rows, bool unicode, bl_text *out);

#endif
