/* SPDX-License-Identifier: MIT */
#include "engine/base/near.h"

#include <ctype.h>
#include <stdio.h>

enum { LETTERS_AN_EDIT = 3, MOST_EDITS = 4 }; /* "axi" is near to "axis", "sum" is not near to "max" */

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

/* Edits from |a| to |b|, both at most BL_NEAR_LONGEST long: insertions, deletions, replacements, and transpositions of neighbours
 * (optimal string alignment). */
static int edits_between(bl_span a, bl_span b)
{
    int row[3][BL_NEAR_LONGEST + 1]; /* the row of a's prefix, and the two before it */

    for (size_t j = 0; j <= b.len; j++)
        row[0][j] = (int)j;
    for (size_t i = 1; i <= a.len; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= b.len; j++) {
            int edits = least_of(last[j], now[j - 1]) + 1;
            edits = least_of(edits, last[j - 1] + !same_letter(a.data[i - 1], b.data[j - 1]));
            if (i > 1 && j > 1 && same_letter(a.data[i - 1], b.data[j - 2]) && same_letter(a.data[i - 2], b.data[j - 1]))
                edits = least_of(edits, before[j - 2] + 1);
            now[j] = edits;
        }
    }
    return row[a.len % 3][b.len];
}

void bl_near_init(bl_near *near, bl_span wanted)
{
    int most = wanted.len <= BL_NEAR_LONGEST ? least_of(((int)wanted.len + 1) / LETTERS_AN_EDIT, MOST_EDITS) : 0;

    *near = (bl_near){.wanted = wanted, .distance = most + 1};
}

void bl_near_offer(bl_near *near, bl_span known)
{
    int edits;

    if (near->wanted.len > BL_NEAR_LONGEST || known.len > BL_NEAR_LONGEST || known.len == 0)
        return;
    edits = edits_between(near->wanted, known);
    if (edits < near->distance) {
        near->distance = edits;
        near->best = known;
    }
}

const char *bl_near_hint(bl_near *near)
{
    near->hint[0] = '\0';
    if (near->best.len > 0)
        snprintf(near->hint, sizeof near->hint, "; did you mean \"%.*s\"?", (int)near->best.len, near->best.data);
    return near->hint;
}
