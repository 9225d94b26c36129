/* SPDX-License-Identifier: MIT */
/* A curve that is drawn with characters: points of one series over steps. */
#ifndef BL_SERVER_COMMAND_CURVE_H
#define BL_SERVER_COMMAND_CURVE_H

#include "engine/base/text.h"

enum { BL_CURVE_POINTS = 8192 };

/* A zeroed one is empty.  When it is full, every second point goes. */
typedef struct bl_curve {
    double x[BL_CURVE_POINTS], y[BL_CURVE_POINTS];
    size_t count;
} bl_curve;

void bl_curve_add(bl_curve *curve, double x, double y); /* x grows; what is not finite is left out */
/* |rows| lines, of which the last two are the axis, |columns| wide.  With |unicode| a character has 2 x 4 dots.  Where all values
 * are positive and far apart the scale is logarithmic. */
void bl_curve_draw(const bl_curve *curve, int columns, int rows, bool unicode, bl_text *out);

#endif
