/* SPDX-License-Identifier: MIT */
/* Composite ops as formulas: evaluates the text of a BL_FORMULA row on the operands of one call. This file has statements,
 * loops and results; formula_parts.h describes the language. */
#include "engine/front/formula_parts.h"

#include "engine/ir/scan.h"

#include <string.h>

/* ---- statements and results */

static void set_name(bl_formula_reader *r, bl_span name, bl_formula_value v)
{
    int at = 0;

    while (at < r->nnames && !bl_span_eq(r->name[at], name))
        at++;
    if (at == BL_FORMULA_NAMES) {
        bl_formula_broken(r, "has too many names");
        return;
    }
    r->nnames += at == r->nnames;
    r->name[at] = name;
    r->made[at] = v;
}

static bool read_statement(bl_formula_reader *r);

/* An unrolled loop, after its "for". The body is read again for each iteration; with no iterations it is read once without
 * effect. */
static void read_loop(bl_formula_reader *r)
{
    bl_span name = bl_formula_take_name(r);
    bl_formula_value count = bl_formula_take(r, "in ") ? bl_formula_read_value(r) : (bl_formula_value){0};
    bool idle = r->skip > 0 || !bl_formula_is_number(&count) || count.attr.number.value < 1;

    if (!bl_formula_take(r, "{") || (r->skip == 0 && !bl_formula_is_number(&count)))
        bl_formula_broken(r, "has a malformed loop");
    const char *body = r->at;
    r->skip += idle;
    for (int i = 0; !r->failed && i < (idle ? 1 : (int)count.attr.number.value); i++) {
        r->at = body;
        if (!idle)
            set_name(r, name, bl_formula_number_value(i, true));
        while (!r->failed && !bl_formula_take(r, "}")) {
            if (!read_statement(r))
                bl_formula_broken(r, "has a malformed statement");
        }
    }
    r->skip -= idle;
}

/* Skip a body in braces, and record the names that it assigns. */
static void note_body(bl_formula_reader *r)
{
    r->noting = true;
    r->nnoted = 0;
    r->skip++;
    while (!r->failed && !bl_formula_take(r, "}")) {
        if (!read_statement(r))
            bl_formula_broken(r, "has a malformed statement");
    }
    r->skip--;
    r->noting = false;
}

static bool is_noted(const bl_formula_reader *r, bl_span name)
{
    for (int i = 0; i < r->nnoted; i++) {
        if (bl_span_eq(r->noted[i], name))
            return true;
    }
    return false;
}

static const bl_node *bound_like(bl_formula_reader *r, int which, const bl_node *src)
{
    return bl_bound(r->c->ir, which, (bl_dtype)src->dtype, src->ndim, src->dim);
}

/* Make the sources of a loop's scan: the variables it assigns, its counter, and all other values it may read. Each name becomes
 * the body's parameter. */
static void bind_names(bl_formula_reader *r, bl_scan *scan, bl_span counter, const bl_node **src, int *carry)
{
    bl_ir *ir = r->c->ir;
    const bl_sig *sig = &r->c->sig;
    int n = 0;

    for (int i = 0; i < sig->ninputs; i++) { /* an input that the body assigns becomes a variable */
        if (r->input[i] != NULL && is_noted(r, sig->input[i].name))
            set_name(r, sig->input[i].name, bl_formula_node_value(r->input[i]));
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < r->nnames; i++) {
            if (r->made[i].kind == BL_FORMULA_ATTR && is_noted(r, r->name[i]))
                bl_formula_broken(r, "changes a number in a loop");
            if (r->made[i].kind != BL_FORMULA_NODE || is_noted(r, r->name[i]) != (pass == 0))
                continue;
            if (pass == 0)
                carry[scan->ncarries++] = i;
            else
                scan->nconstants++;
            src[n] = r->made[i].node;
            r->made[i] = bl_formula_node_value(bound_like(r, n, src[n]));
            n++;
        }
        if (pass == 0) {
            src[n] = bl_iota(ir, BL_I32, scan->length);
            set_name(r, counter, bl_formula_node_value(bl_bound(ir, n++, BL_I32, 0, NULL)));
            scan->nsequences = 1;
            r->noted[r->nnoted++] = counter; /* the counter is a sequence, not a constant */
        }
    }
    for (int i = 0; i < sig->ninputs; i++) {
        if (r->input[i] == NULL)
            continue;
        src[n] = r->input[i];
        r->input[i] = bound_like(r, n, src[n]);
        n++;
        scan->nconstants++;
    }
}

/* A loop that becomes a scan, after its "loop". The body is read once. */
static void read_scan(bl_formula_reader *r)
{
    enum { MOST = BL_FORMULA_NAMES + BL_SIG_MAX + 1 };
    bl_span counter = bl_formula_take_name(r);
    bl_formula_value count = bl_formula_take(r, "in ") ? bl_formula_read_value(r) : (bl_formula_value){0};
    const bl_node *src[MOST], *root[BL_FORMULA_NAMES], *made = NULL;
    bl_scan scan = {.root = root};
    int carry[BL_FORMULA_NAMES];
    bl_formula_reader before;

    if (!bl_formula_take(r, "{") || r->noting || (r->skip == 0 && !bl_formula_is_number(&count)))
        bl_formula_broken(r, "has a malformed loop");
    const char *body = r->at;
    note_body(r);
    if (r->skip > 0 || r->failed || count.attr.number.value < 1 || r->nnoted == BL_FORMULA_NAMES)
        return;
    scan.length = bl_index(r->c->ir, (int64_t)count.attr.number.value);
    before = *r;
    bind_names(r, &scan, counter, src, carry);
    r->at = body;
    while (!r->failed && !bl_formula_take(r, "}")) {
        if (!read_statement(r))
            bl_formula_broken(r, "has a malformed statement");
    }
    for (int i = 0; !r->failed && i < scan.ncarries; i++) {
        root[i] = r->made[carry[i]].node;
        if (r->made[carry[i]].kind != BL_FORMULA_NODE || root[i]->dtype != src[i]->dtype || !bl_shape_equal(root[i], src[i]))
            bl_formula_broken(r, "has a loop that changes a dtype or shape");
    }
    if (r->failed)
        return;
    made = bl_scan_make(r->c->ir, &scan, src);
    memcpy(r->input, before.input, sizeof r->input);
    for (int i = 0; i < before.nnames; i++)
        r->made[i] = before.made[i];
    for (int i = 0; i < scan.ncarries; i++)
        r->made[carry[i]] = bl_formula_node_value(bl_scan_result(r->c->ir, made, i));
    r->nnames = before.nnames;
    for (int i = 0; i < scan.ncarries; i++)
        r->nnames = carry[i] >= r->nnames ? carry[i] + 1 : r->nnames;
}

/* Fail with |text| and the actual value |x|: a shape, a word or a number. */
static void formula_refuse(bl_formula_reader *r, const char *text, const bl_formula_value *x)
{
    if (x->kind == BL_FORMULA_NOTHING)
        bl_call_fail(r->c, "%s", text);
    else if (bl_formula_is_number(x))
        bl_call_fail(r->c, "%s, not %g", text, x->attr.number.value);
    else
        bl_call_fail(r->c, "%s, not %s", text, x->kind == BL_FORMULA_NODE ? bl_call_shape(r->c, x->node) : x->attr.string);
    r->failed = true;
}

/* A condition, after its "need(". */
static void read_need(bl_formula_reader *r)
{
    bl_formula_value condition = bl_formula_read_value(r), x = {0};
    bool holds = bl_formula_truth(r, &condition) || r->skip > 0, comma = bl_formula_take(r, ",");
    bl_formula_value text = bl_formula_read_value(r);

    if (bl_formula_take(r, ","))
        x = bl_formula_read_value(r);
    if (!comma || !bl_formula_take(r, ")") || !bl_formula_take(r, ";") || text.kind != BL_FORMULA_ATTR ||
        text.attr.kind != BL_ATTR_STRING)
        bl_formula_broken(r, "has a malformed condition");
    else if (!holds && !r->failed)
        formula_refuse(r, text.attr.string, &x);
}

/* Read a statement. False if there is none, or after a failure. */
static bool read_statement(bl_formula_reader *r)
{
    const char *before = r->at;
    bl_span name[BL_FORMULA_RESULTS];
    int count = 0;

    do {
        bl_span next = bl_formula_take_name(r);
        if (next.len == 0 || count == BL_FORMULA_RESULTS)
            break;
        name[count++] = next;
    } while (bl_formula_take(r, ","));
    if (count == 1 && bl_span_is(name[0], "for") && bl_formula_peek(r) != '=') {
        read_loop(r);
        return !r->failed;
    }
    if (count == 1 && bl_span_is(name[0], "loop") && bl_formula_peek(r) != '=') {
        read_scan(r);
        return !r->failed;
    }
    if (count == 1 && bl_span_is(name[0], "need") && bl_formula_take(r, "(")) {
        read_need(r);
        return !r->failed;
    }
    if (count == 0 || bl_formula_peek(r) != '=' || r->at[1] == '=') {
        r->at = before;
        return false;
    }
    for (int i = 0; i < count && r->noting && r->nnoted < BL_FORMULA_NAMES; i++)
        r->noted[r->nnoted++] = name[i];
    r->at++;
    r->wanted = count;
    bl_formula_value v = bl_formula_read_value(r);
    r->wanted = 1;
    for (int i = 0; i < count && r->skip == 0 && !r->failed; i++)
        set_name(r, name[i], count == 1 ? v : bl_formula_node_value(r->result[i]));
    return bl_formula_take(r, ";") || (bl_formula_broken(r, "lacks a semicolon"), false);
}

/* Cast |x| to the dtype of result |i| in the signature. */
static const bl_node *formula_narrow(const bl_call *c, int i, const bl_node *x)
{
    bl_span type = c->sig.result[i];
    for (int k = 0; k < c->sig.ninputs && bl_span_is(type, "Float") && x->dtype == BL_F32; k++)
        if (c->sig.input[k].kind == BL_SIG_FLOAT && c->in[k] != NULL)
            return bl_cast(c->ir, (bl_dtype)c->in[k]->dtype, x);
    return x;
}

const bl_node *bl_formula_eval(bl_call *c, const char *text)
{
    bl_formula_reader r = {.c = c, .at = text, .wanted = 1};
    int count = 0;

    for (int i = 0; i < c->sig.ninputs; i++)
        r.input[i] = c->in[i] != NULL && c->sig.input[i].kind == BL_SIG_FLOAT ? bl_widen(c->ir, c->in[i]) : c->in[i];
    while (!r.failed && read_statement(&r))
        ;
    do {
        bl_formula_value v = bl_formula_read_value(&r);
        if (bl_formula_is_number(&v))
            v = bl_formula_node_value(bl_call_literal(c, BL_F32, &v.attr.number));
        if (r.failed || v.kind != BL_FORMULA_NODE || count == c->sig.nresults)
            return bl_formula_broken(&r, "gives no result").node;
        c->result[count] = formula_narrow(c, count, v.node);
        count++;
    } while (bl_formula_take(&r, ","));
    if (bl_formula_peek(&r) != '\0' || count != c->sig.nresults)
        return bl_formula_broken(&r, "does not end").node;
    return c->result[0];
}
