/* SPDX-License-Identifier: MIT */
#include "server/command/curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 10 /* number of columns of the numbers beside the axis */, MOST_COLUMNS = 512, MOST_ROWS = 128, FAR_APART = 50 };

void bl_curve_add(bl_curve *curve, double x, double y)
{
    if (!isfinite(x) || !isfinite(y) || (curve->count > 0 && x <= curve->x[curve->count - 1]))
        return;
    if (curve->count == BL_CURVE_POINTS) {
        for (size_t i = 0; i < BL_CURVE_POINTS / 2; i++) {
            curve->x[i] = curve->x[2 * i + 1];
            curve->y[i] = curve->y[2 * i + 1];
        }
        curve->count = BL_CURVE_POINTS / 2;
    }
    curve->x[curve->count] = x;
    curve->y[curve->count++] = y;
}

/* The plot: a grid of dots, and the mapping of values to dots. */
typedef struct plot {
    /* |columns|, |rows|: number of characters; |across|, |down|: number of dots in one character */
    int columns, rows, across, down;
    double x0, x1, y0, y1; /* range of the scaled y */
    bool logarithmic;
    unsigned char dots[MOST_ROWS][MOST_COLUMNS]; /* bits of the dots of each character */
} plot;

static double scale_value(const plot *p, double y)
{
    return p->logarithmic ? log10(y) : y;
}

static void measure_plot(plot *p, const bl_curve *curve)
{
    double least = curve->y[0], most = curve->y[0];
    for (size_t i = 1; i < curve->count; i++) {
        least = fmin(least, curve->y[i]);
        most = fmax(most, curve->y[i]);
    }
    p->logarithmic = least > 0 && most / least > FAR_APART;
    p->x0 = curve->x[0];
    p->x1 = curve->x[curve->count - 1];
    p->y0 = scale_value(p, least);
    p->y1 = scale_value(p, most);
    if (p->y1 <= p->y0) { /* draw a constant in the middle */
        double margin = p->y0 == 0 ? 1 : fabs(p->y0) * 0.1;
        p->y0 -= margin;
        p->y1 += margin;
    }
}

/* The bit of a dot in a Braille character (Unicode 15, 2800): two columns of four dots. */
static unsigned char dot_bit(const plot *p, int x, int y)
{
    static const unsigned char braille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    return p->across == 1 ? 1 : braille[y][x];
}

static void set_dot(plot *p, int x, int y)
{
    if (x >= 0 && y >= 0 && x < p->columns * p->across && y < p->rows * p->down)
        p->dots[y / p->down][x / p->across] |= dot_bit(p, x % p->across, y % p->down);
}

static int dot_x(const plot *p, double x)
{
    double part = p->x1 > p->x0 ? (x - p->x0) / (p->x1 - p->x0) : 0;
    return (int)lround(part * (p->columns * p->across - 1));
}

static int dot_y(const plot *p, double y)
{
    double part = (scale_value(p, y) - p->y0) / (p->y1 - p->y0);
    return (int)lround((1 - part) * (p->rows * p->down - 1));
}

/* Draw a line from each point to the next. */
static void draw_lines(plot *p, const bl_curve *curve)
{
    set_dot(p, dot_x(p, curve->x[0]), dot_y(p, curve->y[0]));
    for (size_t i = 1; i < curve->count; i++) {
        int ax = dot_x(p, curve->x[i - 1]), ay = dot_y(p, curve->y[i - 1]), bx = dot_x(p, curve->x[i]),
            by = dot_y(p, curve->y[i]);
        int steps = (bx - ax > abs(by - ay) ? bx - ax : abs(by - ay));
        for (int k = 1; k <= steps; k++)
            set_dot(p, ax + (int)lround((double)(bx - ax) * k / steps), ay + (int)lround((double)(by - ay) * k / steps));
        if (steps == 0)
            set_dot(p, bx, by);
    }
}

static void put_label(const plot *p, int row, bool unicode, bl_text *out)
{
    char number[64] = "";
    bool told = row == 0 || row == p->rows - 1 || (row == (p->rows - 1) / 2 && p->rows >= 5);
    double part = p->rows > 1 ? 1 - (double)row / (p->rows - 1) : 0, y = p->y0 + part * (p->y1 - p->y0);
    if (told)
        (void)snprintf(number, sizeof number, "%.3g", p->logarithmic ? pow(10, y) : fabs(y) < 1e-12 * (p->y1 - p->y0) ? 0 : y);
    bl_text_printf(out, "%*s %s", LABEL - 2, number, unicode ? told ? "┤" : "│" : told ? "+" : "|");
}

static void draw_curve_put_row(const plot *p, int row, bool unicode, bl_text *out)
{
    int last = p->columns;
    while (last > 0 && p->dots[row][last - 1] == 0)
        last--;
    put_label(p, row, unicode, out);
    for (int i = 0; i < last; i++) {
        unsigned char bits = p->dots[row][i];
        if (!unicode || bits == 0)
            bl_text_putc(out, bits != 0 ? '*' : ' ');
        else /* the character is U+2800 + bits */
            bl_text_printf(out, "\xe2%c%c", 0xa0 | bits >> 6, 0x80 | (bits & 0x3f));
    }
    bl_text_puts(out, "\n");
}

static void put_axis_row(const plot *p, bool unicode, bl_text *out)
{
    char left[40], right[40];
    bl_text_printf(out, "%*s %s", LABEL - 2, "", unicode ? "└" : "+");
    for (int i = 0; i < p->columns; i++)
        bl_text_puts(out, unicode ? "─" : "-");
    (void)snprintf(left, sizeof left, "%.12g", p->x0);
    (void)snprintf(right, sizeof right, "%.12g", p->x1);
    int gap = p->columns - (int)strlen(left) - (int)strlen(right);
    bl_text_printf(out, "\n%*s%s%*s%s\n", LABEL, "", left, gap > 1 ? gap : 1, "", p->x1 > p->x0 ? right : "");
}

void bl_curve_draw(const bl_curve *curve, int columns, int rows, bool unicode, bl_text *out)
{
    plot p = {.columns = columns - LABEL, .rows = rows - 2, .across = unicode ? 2 : 1, .down = unicode ? 4 : 1};
    p.columns = p.columns < 8 ? 8 : p.columns > MOST_COLUMNS ? MOST_COLUMNS : p.columns;
    p.rows = p.rows < 1 ? 1 : p.rows > MOST_ROWS ? MOST_ROWS : p.rows;
    if (curve->count > 0) {
        measure_plot(&p, curve);
        draw_lines(&p, curve);
    }
    for (int row = 0; row < p.rows; row++) {
        if (curve->count > 0)
            draw_curve_put_row(&p, row, unicode, out);
        else
            bl_text_puts(out, "\n");
    }
    if (curve->count > 0)
        put_axis_row(&p, unicode, out);
    else
        bl_text_puts(out, "\n\n");
}
