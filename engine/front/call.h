/* SPDX-License-Identifier: MIT */
/* One use of a wire op while its graph is built, and what the expand functions share: checked inputs and attributes, messages,
 * broadcasting, sums.  Everything here lives as long as the ir.  Thread: that of the ir.
 *
 * Expand functions never fail loudly either: they return what bl_call_fail gives.  A node that an expand function made may be
 * POISON, whose extents are POISON too. */
#ifndef BL_FRONT_CALL_H
#define BL_FRONT_CALL_H

#include "engine/front/front.h"
#include "engine/front/sig.h"
#include "engine/ir/shape.h"

/* What an attribute says, by the kind of its parameter. */
typedef struct bl_value {
    bool given;                 /* or preset; false: left out, and the preset is none or all */
    const bl_wire_attr *from;   /* as the client or the preset says it; NULL if not given */
    bool flag;                  /* bool */
    int64_t whole;              /* int */
    double real;                /* float */
    bl_wire_number number;      /* number, bound, rate */
    const char *text;           /* text, a choice, or the name of a rate */
    const bl_wire_ref *ref;     /* what a rate's name stands for, or NULL */
    const bl_wire_graph *graph; /* a body */
    bl_dtype dtype;
    const bl_node *size;   /* size, bound: an INDEX node (bound: NULL for a number with a fraction) */
    int count;             /* of the list; pairs: of all numbers in it */
    const int64_t *wholes; /* ints */
    const double *reals;
    const bl_node *const *sizes; /* sizes, pairs: INDEX nodes */
} bl_value;

typedef struct bl_build bl_build;

typedef struct bl_call bl_call;
struct bl_call {
    bl_ir *ir;
    bl_build *build;
    const char *op;                /* its wire name */
    const bl_call *caller;         /* whose formula uses the op, or NULL */
    const bl_wire_node *node;      /* refs of operands that are nodes say nothing: see |operand| */
    const bl_node *const *operand; /* of node->refs, NULL for a literal */
    bl_sig sig;
    const bl_node *in[BL_SIG_MAX]; /* by position in the signature, NULL where left out */
    int nrest;                     /* of the last parameter, where that is "..." */
    const bl_node **rest;
    int first_rest; /* which of the wire node's operands the first of them is */
    bl_value attr[BL_SIG_MAX];
    int nresults;
    const bl_node **result; /* an op of several results stores them here */
};

/* ---- messages */
/* 422 "OP: ..." on the call's node; gives POISON. */
const bl_node *bl_call_fail(bl_call *c, const char *fmt, ...) BL_PRINTF(2, 3);
const bl_node *bl_call_fail_as(bl_call *c, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
const bl_node *bl_call_failed(bl_call *c);               /* the poison of a failure that was recorded */
const char *bl_call_shape(bl_call *c, const bl_node *x); /* "[2, batch]" */
/* Whether the node has as many ids as an op of any number of results gives; a failure where not. */
bool bl_call_results(bl_call *c, int wanted);

/* ---- attributes (attr.c) */
/* By name; an attribute that the signature lacks is a bug (500). */
const bl_value *bl_attr(bl_call *c, const char *name);
/* Decode and check all attributes of the call's node.  False after a failure. */
bool bl_call_decode_attrs(bl_call *c);
/* 0 <= result < ndim, counted from the end where negative; or a failure and -1. */
int bl_call_axis(bl_call *c, int64_t axis, int ndim);
/* The axes as a mask; all where none were given.  False after a failure (a repeated axis is one). */
bool bl_call_axes(bl_call *c, const bl_value *value, int ndim, uint32_t *mask);
/* |n| numbers, or one that stands for each, at least |low|.  False after a failure. */
bool bl_call_each(bl_call *c, const char *name, int64_t low, int n, int64_t *each);

/* ---- dtypes and literals (operand.c) */
bl_dtype bl_dtype_promote(bl_dtype a, bl_dtype b);
/* The scalar constant that a literal is as |dtype|; a failure where it does not fit. */
const bl_node *bl_call_literal(bl_call *c, bl_dtype dtype, const bl_wire_number *number);
/* Resolve, check, promote and cast the inputs of the call's node.  False after a failure. */
bool bl_call_take_inputs(bl_call *c);
/* The scalar that an attribute of kind rate is, as |dtype|. */
const bl_node *bl_call_rate(bl_call *c, const bl_value *value, bl_dtype dtype);

/* ---- shapes (shapes.c) */
/* Bring |n| nodes to their common shape. */
bool bl_call_broadcast(bl_call *c, int n, const bl_node **x);
/* bl_expand and bl_reshape with the limits on rank and on the number of elements. */
const bl_node *bl_call_expand(bl_call *c, const bl_node *x, int ndim, const bl_node *const *dim);
const bl_node *bl_call_reshape(bl_call *c, const bl_node *x, int ndim, const bl_node *const *dim);
/* bl_pad_with with the limit on the number of elements. */
const bl_node *bl_call_pad(bl_call *c, const bl_node *x, const bl_node *const *before, const bl_node *const *after,
                           const bl_node *value);
const bl_node *bl_call_full(bl_call *c, const bl_node *scalar, int ndim, const bl_node *const *dim);
/* The scalar |s| (of any dtype) in the shape of |like|. */
const bl_node *bl_spread(bl_ir *ir, const bl_node *s, const bl_node *like);
/* |n| parts one after the other along an axis; none is POISON.  (movement.c) */
const bl_node *bl_call_join(bl_call *c, int n, const bl_node *const *part, int axis);
/* x without the axes in |mask|, all of extent 1. */
const bl_node *bl_drop_axes(bl_ir *ir, const bl_node *x, uint32_t mask);
/* x with an axis of extent 1 before axis |axis|. */
const bl_node *bl_add_axis(bl_ir *ir, const bl_node *x, int axis);
/* Padding with the scalar |value| of x's dtype (NULL: zeros). */
const bl_node *bl_pad_with(bl_ir *ir, const bl_node *x, const bl_node *const *before, const bl_node *const *after,
                           const bl_node *value);
/* The part of x between start and start + size on one axis. */
const bl_node *bl_shrink_axis(bl_ir *ir, const bl_node *x, int axis, const bl_node *start, const bl_node *size);
/* 0, 1, ... along axis |axis| of |like|'s shape. */
const bl_node *bl_iota_like(bl_ir *ir, const bl_node *like, int axis, bl_dtype dtype);
/* How many elements the axes in |mask| hold, as a scalar of |dtype|. */
const bl_node *bl_count_axes(bl_ir *ir, const bl_node *x, uint32_t mask, bl_dtype dtype);

/* ---- arithmetic on whole tensors (functions.c, reduce.c) */
const bl_node *bl_add_real(bl_ir *ir, const bl_node *x, double value);
const bl_node *bl_mul_real(bl_ir *ir, const bl_node *x, double value);
/* float16 and bfloat16 as float32, in which composites compute; everything else as it is. */
const bl_node *bl_widen(bl_ir *ir, const bl_node *x);
/* coefficient[0] * x^(n-1) + ... + coefficient[n-1]. */
const bl_node *bl_poly(bl_ir *ir, const bl_node *x, int n, const double *coefficient);
const bl_node *bl_log1p_unit(bl_ir *ir, const bl_node *x); /* log(1 + x) for -1/2 <= x <= 1 */
const bl_node *bl_exp2(bl_ir *ir, const bl_node *x);
const bl_node *bl_pow(bl_ir *ir, const bl_node *x, const bl_node *y); /* of floats */
const bl_node *bl_expm1(bl_ir *ir, const bl_node *x);
const bl_node *bl_floor(bl_ir *ir, const bl_node *x);
const bl_node *bl_is_nan(bl_ir *ir, const bl_node *x);

/* ---- indices (index.c, index_check.c) */
/* |index| with negative indices counted from the end, in an integer dtype wide enough for |extent|. */
const bl_node *bl_wrap_index(bl_ir *ir, const bl_node *index, const bl_node *extent);
/* The same for an index of a client into an axis of x; checked if the graph asks for checks. */
const bl_node *bl_call_index(bl_call *c, const bl_node *index, const bl_node *x, int axis);
/* x[.., index, ..] along |axis|, by what bl_call_index made: the index's axes in place of that one. */
const bl_node *bl_call_take(bl_call *c, const bl_node *x, const bl_node *index, int axis);
/* Add a check of |index|, of any shape, if the graph asks for checks. */
void bl_call_check_index(bl_call *c, const bl_node *index, const bl_index_bound *bound);
bool bl_call_checks_indices(const bl_call *c);
int bl_checks_count(const bl_index_check *checks);
/* Add the checks of a body to the graph around it.  A branch is taken where |is| holds.  The checks of a scan are its results
 * from number |result| on. */
void bl_checks_of_branch(bl_call *c, const bl_node *is, const bl_index_check *checks);
void bl_checks_of_scan(bl_call *c, const bl_node *scan, int result, const bl_index_check *checks);

/* How many of the ascending numbers along |axis| are below what is wanted, int32; other extents equal (scatter.c). */
const bl_node *bl_search(bl_ir *ir, const bl_node *sorted, const bl_node *wanted, int axis);
/* The first |count| positions along |axis| in their order, int32, where it is known to have so many; NULL after a failure
 * (sort.c). */
const bl_node *bl_first_places(bl_call *c, const bl_node *x, int axis, bool descending, const bl_node *count);
/* x with axis |axis| moved to the end, and back. */
const bl_node *bl_to_last(bl_ir *ir, const bl_node *x, int axis);
const bl_node *bl_from_last(bl_ir *ir, const bl_node *x, int axis);
/* The sums of all elements up to each (cumulate.c); in x's dtype. */
const bl_node *bl_cumsum(bl_ir *ir, const bl_node *x, int axis);

/* ---- random bits (random.c) */
typedef struct bl_words {
    const bl_node *at[2]; /* uint32 */
} bl_words;
/* Threefry-2x32 with 20 rounds of nodes of one shape. */
bl_words bl_threefry(bl_ir *ir, bl_words key, bl_words counter);

#endif
