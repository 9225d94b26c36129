/* SPDX-License-Identifier: MIT */
/* rearrange: axes named in a text, as in einops.
 *
 *   formula := side "->" side          side := { axis | "(" { axis } ")" | "..." }          axis := name [ "=" size ] | "1"
 *
 * Names in parentheses are factors of one axis of the tensor; the last one varies fastest. On the left, all factors of an axis
 * but one need a size, which "=" gives on either side. "..." stands for all axes without a name. */
#include "engine/front/build.h"

#include <ctype.h>
#include <string.h>

/* A named factor, and the axis of its side's tensor to which it belongs. */
typedef struct part {
    bl_span name; /* for an axis under "...": its number as one byte, which no name has */
    int axis;
    const bl_node *size; /* NULL: unknown */
} part;

typedef struct side {
    int naxes, nparts;
    bool rest; /* has "..." */
    part part[BL_MAX_DIMS];
} side;

typedef struct reader {
    bl_call *c;
    const char *at;
    int nrest; /* number of axes under "..." */
    bool failed;
} reader;

static const char rest_names[BL_MAX_DIMS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static void rearrange_fail(reader *r, const char *what)
{
    if (!r->failed)
        bl_call_fail(r->c, "formula %s at \"%.32s\"", what, r->at);
    r->failed = true;
}

static bool rearrange_take(reader *r, const char *text)
{
    while (*r->at == ' ')
        r->at++;
    if (strncmp(r->at, text, strlen(text)) != 0)
        return false;
    r->at += strlen(text);
    return true;
}

static void rearrange_add_part(reader *r, side *s, bl_span name, const bl_node *size)
{
    for (int i = 0; i < s->nparts; i++) {
        if (bl_span_eq(s->part[i].name, name))
            rearrange_fail(r, "has a name twice");
    }
    if (s->nparts == BL_MAX_DIMS)
        rearrange_fail(r, "has more than 16 names");
    if (!r->failed)
        s->part[s->nparts++] = (part){name, s->naxes, size};
}

static void read_axis(reader *r, side *s)
{
    const char *start = r->at;
    int64_t size = 0;

    if (*start == '1' && !isalnum((unsigned char)start[1]) && start[1] != '_') {
        r->at++; /* an axis of one element has no name */
        return;
    }
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    bl_span name = {start, (size_t)(r->at - start)};
    if (name.len == 0 || isdigit((unsigned char)*start)) {
        rearrange_fail(r, "cannot be read");
        return;
    }
    bool sized = rearrange_take(r, "=");
    if (sized && !isdigit((unsigned char)*r->at))
        rearrange_fail(r, "lacks a size");
    while (sized && isdigit((unsigned char)*r->at) && size <= INT32_MAX)
        size = size * 10 + (*r->at++ - '0');
    if (size > INT32_MAX)
        rearrange_fail(r, "has too large a size");
    rearrange_add_part(r, s, name, sized ? bl_index(r->c->ir, size) : NULL);
}

static bool at_end(reader *r, const char *end)
{
    return rearrange_take(r, end) && (*end != '\0' || *r->at == '\0');
}

/* Read a side up to |end|. */
static void read_side(reader *r, side *s, const char *end)
{
    while (!r->failed && !at_end(r, end)) {
        if (rearrange_take(r, "...")) {
            s->rest = true;
            for (int i = 0; i < r->nrest; i++, s->naxes++)
                rearrange_add_part(r, s, (bl_span){&rest_names[i], 1}, NULL);
        } else if (rearrange_take(r, "(")) {
            while (!r->failed && !rearrange_take(r, ")"))
                read_axis(r, s);
            s->naxes++;
        } else {
            read_axis(r, s);
            s->naxes++;
        }
        if (s->naxes > BL_MAX_DIMS)
            rearrange_fail(r, "has more than 16 axes");
    }
}

static int rearrange_find(const side *s, bl_span name)
{
    for (int i = 0; i < s->nparts; i++) {
        if (bl_span_eq(s->part[i].name, name))
            return i;
    }
    return -1;
}

/* Read both sides. False after a failure. */
static bool read_formula(reader *r, const char *text, side *from, side *to)
{
    int ndim = r->c->in[0]->ndim;

    /* read once without "...", to count the other axes */
    r->at = text;
    read_side(r, from, "->");
    r->nrest = from->rest ? ndim - from->naxes : 0;
    if (r->failed)
        return false;
    if (r->nrest < 0 || from->naxes + r->nrest != ndim) {
        bl_call_fail(r->c, "formula names %d axes of %s", from->naxes, bl_call_shape(r->c, r->c->in[0]));
        return false;
    }
    *from = (side){0};
    r->at = text;
    read_side(r, from, "->");
    read_side(r, to, "");
    if (!r->failed && from->rest != to->rest)
        rearrange_fail(r, "has ... on one side");
    for (int i = 0; i < from->nparts && !r->failed; i++) {
        int k = rearrange_find(to, from->part[i].name);
        if (k < 0)
            rearrange_fail(r, "leaves out a name");
        else if (from->part[i].size == NULL)
            from->part[i].size = to->part[k].size;
        else if (to->part[k].size != NULL && to->part[k].size != from->part[i].size)
            rearrange_fail(r, "gives a name two sizes");
    }
    if (!r->failed && from->nparts != to->nparts)
        rearrange_fail(r, "has a name on the right only");
    return !r->failed;
}

/* Find the size of the only name of an axis that has none. False after a failure. */
static bool rearrange_find_sizes(reader *r, side *s, int axis)
{
    bl_ir *ir = r->c->ir;
    const bl_node *x = r->c->in[0], *known = bl_index(ir, 1);
    part *open = NULL;

    for (int i = 0; i < s->nparts; i++) {
        part *p = &s->part[i];
        if (p->axis != axis)
            continue;
        if (p->size == NULL && open != NULL) {
            rearrange_fail(r, "needs sizes (name=3): two are missing");
            return false;
        }
        if (p->size == NULL)
            open = p;
        else
            known = bl_mul(ir, known, p->size);
    }
    if (open != NULL && known->op != BL_OP_POISON && known->lo > 0) {
        open->size = bl_idiv(ir, x->dim[axis], known);
        known = bl_mul(ir, known, open->size);
        open = NULL;
    }
    if (open == NULL && known == x->dim[axis] && known->op != BL_OP_POISON)
        return true;
    bl_call_fail(r->c, "axis %d of %s does not split as formula says", axis, bl_call_shape(r->c, x));
    return false;
}

const bl_node *expand_rearrange(bl_call *c)
{
    reader r = {.c = c};
    side from = {0}, to = {0};
    const bl_node *x = c->in[0], *dim[BL_MAX_DIMS];
    int perm[BL_MAX_DIMS];

    if (!read_formula(&r, bl_attr(c, "formula")->text, &from, &to))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        if (!rearrange_find_sizes(&r, &from, i))
            return x;
    }
    for (int i = 0; i < from.nparts; i++) {
        dim[i] = from.part[i].size;
        perm[i] = rearrange_find(&from, to.part[i].name);
    }
    x = bl_permute(c->ir, bl_call_reshape(c, x, from.nparts, dim), perm);
    for (int i = 0; i < to.naxes; i++)
        dim[i] = bl_index(c->ir, 1);
    for (int i = 0; i < to.nparts; i++)
        dim[to.part[i].axis] = bl_mul(c->ir, dim[to.part[i].axis], from.part[perm[i]].size);
    return bl_call_reshape(c, x, to.naxes, dim);
}
