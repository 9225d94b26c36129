/* SPDX-License-Identifier: MIT */
/* Scales pictures.  A pixel of a smaller picture is a weighted mean of the pixels that it covers, which avoids aliasing; a larger
 * picture is interpolated linearly.  The columns are scaled first, then the rows, with the triangle filter that pillow calls
 * BILINEAR. */
#include "proto/picture.h"

#include <string.h>

/* The weights of the pixels |first| to |first| + |n| - 1 of an axis; their sum is 1. */
typedef struct tap {
    int first, n;
    float *weight;
} tap;

static double picture_scale_reach_of(int n, int want)
{
    return n > want ? (double)n / want : 1;
}

static void fill_tap(tap *t, int i, int n, int want)
{
    double scale = (double)n / want, reach = picture_scale_reach_of(n, want), center = (i + 0.5) * scale, sum = 0;
    int low = (int)(center - reach), high = (int)(center + reach + 1);
    t->first = low < 0 ? 0 : low;
    t->n = (high > n ? n : high) - t->first;
    for (int k = 0; k < t->n; k++) {
        double away = (t->first + k + 0.5 - center) / reach;
        away = away < 0 ? -away : away;
        t->weight[k] = (float)(away < 1 ? 1 - away : 0);
        sum += (double)t->weight[k];
    }
    for (int k = 0; k < t->n; k++)
        t->weight[k] = (float)((double)t->weight[k] / sum);
}

static size_t most_taps(int n, int want)
{
    return (size_t)picture_scale_reach_of(n, want) * 2 + 4;
}

size_t bl_picture_scratch(int height, int width, int to_height, int to_width)
{
    size_t down = most_taps(height, to_height), across = most_taps(width, to_width);
    return ((size_t)height + 1) * (size_t)to_width * BL_PICTURE_CHANNELS + (down > across ? down : across);
}

void bl_picture_scale(const unsigned char *from, int height, int width, unsigned char *to, int to_height, int to_width,
                      float *scratch)
{
    size_t row = (size_t)to_width * BL_PICTURE_CHANNELS;
    float *narrow = scratch, *sum = narrow + (size_t)height * row;
    tap t = {.weight = sum + row};
    for (int x = 0; x < to_width; x++) {
        fill_tap(&t, x, width, to_width);
        for (int y = 0; y < height; y++) {
            const unsigned char *in = from + ((size_t)y * (size_t)width + (size_t)t.first) * BL_PICTURE_CHANNELS;
            float *out = narrow + (size_t)y * row + (size_t)x * BL_PICTURE_CHANNELS;
            memset(out, 0, BL_PICTURE_CHANNELS * sizeof *out);
            for (int k = 0; k < t.n; k++)
                for (int c = 0; c < BL_PICTURE_CHANNELS; c++)
                    out[c] += t.weight[k] * in[k * BL_PICTURE_CHANNELS + c];
        }
    }
    for (int y = 0; y < to_height; y++) {
        fill_tap(&t, y, height, to_height);
        memset(sum, 0, row * sizeof *sum);
        for (int k = 0; k < t.n; k++)
            for (size_t i = 0; i < row; i++)
                sum[i] += t.weight[k] * narrow[((size_t)t.first + (size_t)k) * row + i];
        for (size_t i = 0; i < row; i++)
            to[(size_t)y * row + i] = (unsigned char)(sum[i] + 0.5F);
    }
}
