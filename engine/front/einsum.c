/* SPDX-License-Identifier: MIT */
/* einsum: operands are multiplied one after the other along their common axes. An axis is summed as soon as neither a later
 * operand nor the output has it. */
#include "engine/front/build.h"

#include <ctype.h>
#include <string.h>

/* The axes of a term: letters, and for the axes under "..." the numbers 1, 2, ... counted from the end. */
typedef struct term {
    int n;
    char label[BL_MAX_DIMS];
} term;

typedef struct equation {
    bl_call *c;
    const char *at;
    int dots; /* number of axes under "..." in the widest operand */
    term output;
} equation;

static bool add_label(equation *e, term *t, char label)
{
    if (t->n < BL_MAX_DIMS) {
        t->label[t->n++] = label;
        return true;
    }
    bl_call_fail_as(e->c, BL_ELIMIT, "a term has at most %d axes", BL_MAX_DIMS);
    return false;
}

static bool has_label(const term *t, char label)
{
    return memchr(t->label, label, (size_t)t->n) != NULL;
}

/* Read one term up to a comma, an arrow or the end. |dots| is the number of axes under its "..."; -1 if "..." is not
 * allowed. */
static bool read_term(equation *e, int dots, term *t)
{
    t->n = 0;
    for (; *e->at != '\0' && *e->at != ',' && *e->at != '-'; e->at++) {
        if (isalpha((unsigned char)*e->at)) {
            if (!add_label(e, t, *e->at))
                return false;
        } else if (strncmp(e->at, "...", 3) == 0 && dots >= 0) {
            for (int i = dots; i > 0; i--)
                if (!add_label(e, t, (char)i))
                    return false;
            dots = -1;
            e->at += 2;
        } else if (*e->at != ' ') {
            bl_call_fail(e->c, "the equation is not understood at \"%.20s\"", e->at);
            return false;
        }
    }
    return true;
}

/* Count the letters of the next term, and find out whether it has "...". */
static int count_letters(const char *at, bool *dots)
{
    int n = 0;
    for (*dots = false; *at != '\0' && *at != ',' && *at != '-'; at++) {
        n += isalpha((unsigned char)*at) != 0;
        *dots = *dots || *at == '.';
    }
    return n;
}

static bool read_operands(equation *e, int n, term *terms)
{
    for (int i = 0; i < n; i++) {
        const bl_node *x = e->c->rest[i];
        bool dots;
        int letters = count_letters(e->at, &dots), under = x->ndim - letters;
        if (under < 0 || (!dots && under != 0)) {
            bl_call_fail(e->c, "term %d names %d axes, but operand %d is %s", i + 1, letters, i + 1, bl_call_shape(e->c, x));
            return false;
        }
        e->dots = dots && under > e->dots ? under : e->dots;
        if (!read_term(e, dots ? under : -1, &terms[i]))
            return false;
        if (i + 1 < n && *e->at++ != ',') {
            bl_call_fail(e->c, "the equation has %d terms for %d operands", i + 1, n);
            return false;
        }
    }
    if (*e->at != ',')
        return true;
    bl_call_fail(e->c, "the equation has more terms than the %d operands", n);
    return false;
}

/* The implicit output: the axes under "...", then the letters that occur once, in alphabetical order. */
static bool infer_output(equation *e, int n, const term *terms)
{
    for (int i = e->dots; i > 0; i--)
        if (!add_label(e, &e->output, (char)i))
            return false;
    for (char label = 'A'; label <= 'z'; label++) {
        int times = 0;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < terms[i].n; k++)
                times += terms[i].label[k] == label;
        if (times == 1 && !add_label(e, &e->output, label))
            return false;
    }
    return true;
}

static bool read_output(equation *e, int n, const term *terms)
{
    if (strncmp(e->at, "->", 2) != 0) {
        if (*e->at == '\0')
            return infer_output(e, n, terms);
        bl_call_fail(e->c, "the equation is not understood at \"%.20s\"", e->at);
        return false;
    }
    e->at += 2;
    if (!read_term(e, e->dots, &e->output))
        return false;
    if (*e->at != '\0') {
        bl_call_fail(e->c, "the equation is not understood at \"%.20s\"", e->at);
        return false;
    }
    for (int i = 0; i < e->output.n; i++) {
        bool known = false;
        for (int k = 0; k < n; k++)
            known = known || has_label(&terms[k], e->output.label[i]);
        if (!known || memchr(e->output.label, e->output.label[i], (size_t)i) != NULL) {
            bl_call_fail(e->c, known ? "the output names axis %c twice" : "no operand has the output's axis %c",
                         e->output.label[i]);
            return false;
        }
    }
    return true;
}

/* A letter that occurs twice in a term selects a diagonal: the other elements are masked, and one of the two axes is summed. */
static const bl_node *take_diagonals(bl_call *c, const bl_node *x, term *t)
{
    bl_ir *ir = c->ir;
    for (int i = 0; i < t->n; i++) {
        char *again = memchr(t->label + i + 1, t->label[i], (size_t)(t->n - i - 1));
        if (again == NULL)
            continue;
        int k = (int)(again - t->label);
        if (x->dim[i] != x->dim[k])
            return bl_call_fail(c, "axis %c has two extents in %s", t->label[i], bl_call_shape(c, x));
        const bl_node *same = bl_alu2(ir, BL_OP_CMPEQ, bl_iota_like(ir, x, i, BL_I64), bl_iota_like(ir, x, k, BL_I64));
        x = bl_where(ir, same, x, bl_full_like(ir, x, 0));
        x = bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, x, 1u << k), 1u << k);
        memmove(again, again + 1, (size_t)(t->n - k - 1));
        t->n--;
        i--;
    }
    return x;
}

/* x with the axes of |all|, in that order; an axis that x lacks gets extent 1. */
static const bl_node *spread_axes(bl_ir *ir, const bl_node *x, const term *t, const term *all)
{
    const bl_node *dim[BL_MAX_DIMS];
    int perm[BL_MAX_DIMS], n = 0;

    for (int i = 0; i < all->n; i++) {
        const char *found = memchr(t->label, all->label[i], (size_t)t->n);
        dim[i] = found == NULL ? bl_index(ir, 1) : x->dim[found - t->label];
        if (found != NULL)
            perm[n++] = (int)(found - t->label);
    }
    return bl_reshape(ir, bl_permute(ir, x, perm), all->n, dim);
}

/* All labels, the output's first; the axes after these are summed. */
static bool gather_labels(equation *e, int n, const term *terms, term *all)
{
    *all = e->output;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < terms[i].n; k++)
            if (!has_label(all, terms[i].label[k]) && !add_label(e, all, terms[i].label[k]))
                return false;
    return true;
}

/* The axes that neither the output nor an operand after number |i| has. */
static uint32_t finished(const equation *e, int n, const term *terms, int i, const term *all)
{
    uint32_t axes = 0;
    for (int a = e->output.n; a < all->n; a++) {
        bool later = false;
        for (int k = i + 1; k < n; k++)
            later = later || has_label(&terms[k], all->label[a]);
        axes |= later ? 0 : 1u << a;
    }
    return axes;
}

const bl_node *expand_einsum(bl_call *c)
{
    bl_ir *ir = c->ir;
    equation e = {.c = c, .at = bl_attr(c, "equation")->text};
    int n = c->nrest;
    term *terms = bl_arena_array(bl_ir_arena(ir), (size_t)n + 1, sizeof *terms), all;
    const bl_node *product = NULL;

    if (terms == NULL)
        return NULL;
    if (!read_operands(&e, n, terms) || !read_output(&e, n, terms))
        return c->rest[0];
    for (int i = 0; i < n; i++) {
        c->rest[i] = take_diagonals(c, c->rest[i], &terms[i]);
        if (c->rest[i]->op == BL_OP_POISON)
            return c->rest[i];
    }
    if (!gather_labels(&e, n, terms, &all))
        return c->rest[0];
    for (int i = 0; i < n; i++) {
        const bl_node *both[2] = {product, bl_widen(ir, spread_axes(ir, c->rest[i], &terms[i], &all))};
        if (product != NULL && !bl_call_broadcast(c, 2, both))
            return product;
        product = product == NULL ? both[1] : bl_mul(ir, both[0], both[1]);
        product = bl_reduce(ir, BL_OP_ADD, product, finished(&e, n, terms, i, &all));
    }
    product = bl_drop_axes(ir, product, ((1u << all.n) - 1) & ~((1u << e.output.n) - 1));
    return bl_cast(ir, (bl_dtype)c->rest[0]->dtype, product);
}
