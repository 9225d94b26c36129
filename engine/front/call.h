/* SPDX-License-Identifier: MIT */
/* One call of a wire op while a graph is built, and what the expand functions share: checked inputs and attributes, error
 * messages, broadcasting, sums. Everything lives as long as the ir. Thread: that of the ir. Expand functions report errors like
 * IR builders: they return the result of bl_call_fail. A node from another expand function may be POISON; its extents are
 * POISON too. */
#ifndef BL_FRONT_CALL_H
#define BL_FRONT_CALL_H

#include "engine/front/front.h"
#include "engine/front/sig.h"
#include "engine/ir/shape.h"

/* The value of an attribute. The kind of the parameter determines which members are set. */
typedef struct bl_value {
    bool given;                 /* set by the client or by a default; false: absent, and the default is none or all */
    const bl_wire_attr *from;   /* the attribute as the client or the default wrote it; NULL if not given */
    bool flag;                  /* bool */
    int64_t whole;              /* int */
    double real;                /* float */
    bl_wire_number number;      /* number, bound, rate */
    const char *text;           /* text, a choice, or the name of a rate */
    const bl_wire_ref *ref;     /* the value that a rate's name refers to, or NULL */
    const bl_wire_graph *graph; /* a body */
    bl_dtype dtype;
    const bl_node *size;   /* size, bound: an INDEX node (NULL for a bound with a fraction) */
    int count;             /* length of the list; pairs: number of all numbers in it */
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
    const bl_call *caller;         /* the call whose formula uses this op, or NULL */
    const bl_wire_node *node;      /* its references to nodes are not used: see |operand| */
    const bl_node *const *operand; /* the operands of node->refs; NULL for a literal */
    bl_sig sig;
    const bl_node *in[BL_SIG_MAX]; /* by position in the signature; NULL if absent */
    int nrest;                     /* number of operands of the last parameter, if it is variadic ("...") */
    const bl_node **rest;
    int first_rest; /* number of the wire node's operand that is the first of them */
    bl_value attr[BL_SIG_MAX];
    int nresults;
    const bl_node **result; /* an op with several results stores them here */
};

/* ---- messages */
/* Fail with status 422 and the text "OP: ..." on the call's node. Returns POISON. */
const bl_node *bl_call_fail(bl_call *c, const char *fmt, ...) BL_PRINTF(2, 3);
const bl_node *bl_call_fail_as(bl_call *c, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
const bl_node *bl_call_failed(bl_call *c);               /* POISON for a failure that was recorded already */
const char *bl_call_shape(bl_call *c, const bl_node *x); /* for instance "[2, batch]" */
/* Has the node |wanted| ids, for an op with a variable number of results? Otherwise records a failure. */
bool bl_call_results(bl_call *c, int wanted);

/* ---- attributes (attr.c) */
/* The attribute |name|. An attribute that the signature lacks is a bug (500). */
const bl_value *bl_attr(bl_call *c, const char *name);
/* Decode and check all attributes of the call's node.  False after a failure. */
bool bl_call_decode_attrs(bl_call *c);
/* Check an axis and count a negative one from the end: 0 <= result < ndim. -1 after a failure. */
int bl_call_axis(bl_call *c, int64_t axis, int ndim);
/* The axes as a bit mask; all axes if none are given. False after a failure, for instance a repeated axis. */
bool bl_call_axes(bl_call *c, const bl_value *value, int ndim, uint32_t *mask);
/* Read |n| numbers, each at least |low|; a single number stands for all of them. False after a failure. */
bool bl_call_each(bl_call *c, const char *name, int64_t low, int n, int64_t *each);

/* ---- dtypes and literals (operand.c) */
bl_dtype bl_dtype_promote(bl_dtype a, bl_dtype b);
/* A literal as a scalar constant of |dtype|. Fails if the literal does not fit. */
const bl_node *bl_call_literal(bl_call *c, bl_dtype dtype, const bl_wire_number *number);
/* Resolve, check, promote and cast the inputs of the call's node. False after a failure. */
bool bl_call_take_inputs(bl_call *c);
/* The value of an attribute of kind rate, as a scalar of |dtype|. */
const bl_node *bl_call_rate(bl_call *c, const bl_value *value, bl_dtype dtype);

/* ---- shapes (shapes.c) */
/* Broadcast |n| nodes to their common shape. */
bool bl_call_broadcast(bl_call *c, int n, const bl_node **x);
/* bl_expand and bl_reshape, checked against the limits on rank and on the number of elements. */
const bl_node *bl_call_expand(bl_call *c, const bl_node *x, int ndim, const bl_node *const *dim);
const bl_node *bl_call_reshape(bl_call *c, const bl_node *x, int ndim, const bl_node *const *dim);
/* bl_pad_with, checked against the limit on the number of elements. */
const bl_node *bl_call_pad(bl_call *c, const bl_node *x, const bl_node *const *before, const bl_node *const *after,
                           const bl_node *value);
const bl_node *bl_call_full(bl_call *c, const bl_node *scalar, int ndim, const bl_node *const *dim);
/* Broadcast the scalar |s|, of any dtype, to the shape of |like|. */
const bl_node *bl_spread(bl_ir *ir, const bl_node *s, const bl_node *like);
/* Concatenate |n| parts along an axis. POISON if |n| is 0. (movement.c) */
const bl_node *bl_call_join(bl_call *c, int n, const bl_node *const *part, int axis);
/* Drop the axes in |mask|, all of extent 1. */
const bl_node *bl_drop_axes(bl_ir *ir, const bl_node *x, uint32_t mask);
/* Insert an axis of extent 1 before axis |axis|. */
const bl_node *bl_add_axis(bl_ir *ir, const bl_node *x, int axis);
/* Pad with the scalar |value| of x's dtype (NULL: zero). */
const bl_node *bl_pad_with(bl_ir *ir, const bl_node *x, const bl_node *const *before, const bl_node *const *after,
                           const bl_node *value);
/* The part of x from |start| to start + size along one axis. */
const bl_node *bl_shrink_axis(bl_ir *ir, const bl_node *x, int axis, const bl_node *start, const bl_node *size);
/* A tensor in the shape of |like| that counts 0, 1, ... along axis |axis|. */
const bl_node *bl_iota_like(bl_ir *ir, const bl_node *like, int axis, bl_dtype dtype);
/* The number of elements along the axes in |mask|, as a scalar of |dtype|. */
const bl_node *bl_count_axes(bl_ir *ir, const bl_node *x, uint32_t mask, bl_dtype dtype);

/* ---- arithmetic on whole tensors (functions.c, reduce.c) */
const bl_node *bl_add_real(bl_ir *ir, const bl_node *x, double value);
const bl_node *bl_mul_real(bl_ir *ir, const bl_node *x, double value);
/* Cast float16 and bfloat16 to float32, in which composite ops compute; keep other dtypes. */
const bl_node *bl_widen(bl_ir *ir, const bl_node *x);
/* The polynomial coefficient[0] * x^(n-1) + ... + coefficient[n-1]. */
const bl_node *bl_poly(bl_ir *ir, const bl_node *x, int n, const double *coefficient);
const bl_node *bl_log1p_unit(bl_ir *ir, const bl_node *x); /* log(1 + x) for -1/2 <= x <= 1 */
const bl_node *bl_exp2(bl_ir *ir, const bl_node *x);
const bl_node *bl_pow(bl_ir *ir, const bl_node *x, const bl_node *y); /* floats only */
const bl_node *bl_expm1(bl_ir *ir, const bl_node *x);
const bl_node *bl_floor(bl_ir *ir, const bl_node *x);
const bl_node *bl_is_nan(bl_ir *ir, const bl_node *x);

/* ---- indices (indexing.c, index_check.c) */
/* Count negative indices from the end. The result has an integer dtype wide enough for |extent|. */
const bl_node *bl_wrap_index(bl_ir *ir, const bl_node *index, const bl_node *extent);
/* The same for an index from a client into axis |axis| of x. Adds an index check if the graph asks for checks. */
const bl_node *bl_call_index(bl_call *c, const bl_node *index, const bl_node *x, int axis);
/* x[.., index, ..] along |axis|, for an index made by bl_call_index. The axes of the index replace that axis. */
const bl_node *bl_call_take(bl_call *c, const bl_node *x, const bl_node *index, int axis);
/* Add a check of |index|, of any shape, if the graph asks for checks. */
void bl_call_check_index(bl_call *c, const bl_node *index, const bl_index_bound *bound);
bool bl_call_checks_indices(const bl_call *c);
int bl_checks_count(const bl_index_check *checks);
/* Add the checks of a body to the surrounding graph. A branch is taken where |is| is true. The checks of a scan are its results
 * from number |result| on. */
void bl_checks_of_branch(bl_call *c, const bl_node *is, const bl_index_check *checks);
void bl_checks_of_scan(bl_call *c, const bl_node *scan, int result, const bl_index_check *checks);

/* Binary search: how many of the ascending numbers along |axis| are below each wanted value, int32. The other extents are equal
 * (scatter.c). */
const bl_node *bl_search(bl_ir *ir, const bl_node *sorted, const bl_node *wanted, int axis);
/* The positions of the first |count| elements of x in sorted order along |axis|, int32. |count| must be known not to exceed the
 * extent. NULL after a failure (sort.c). */
const bl_node *bl_first_places(bl_call *c, const bl_node *x, int axis, bool descending, const bl_node *count);
/* Move axis |axis| to the end, and back. */
const bl_node *bl_to_last(bl_ir *ir, const bl_node *x, int axis);
const bl_node *bl_from_last(bl_ir *ir, const bl_node *x, int axis);
/* The inclusive prefix sum along |axis| (cumulate.c), in x's dtype. */
const bl_node *bl_cumsum(bl_ir *ir, const bl_node *x, int axis);

/* ---- random bits (random.c) */
typedef struct bl_words {
    const bl_node *at[2]; /* uint32 */
} bl_words;
/* The random generator Threefry-2x32 with 20 rounds, on nodes of one shape. */
bl_words bl_threefry(bl_ir *ir, bl_words key, bl_words counter);

#endif
