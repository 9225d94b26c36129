/* SPDX-License-Identifier: MIT */
/* Sorting without exchanges in memory. Each element gets a sort key, a signed integer with a total order: the rank of the value
 * in the upper half, the place in the lower half; two integers if both do not fit in an int64. Keys are distinct, and neither
 * NaN nor the direction needs further care.
 * Within short runs, the position of an element is the number of elements before it. Longer axes merge pairs of runs: a binary
 * search along the merge path finds what the elements of each BLOCK positions take from either run (Odeh et al., "Merge path -
 * parallel merging made simple", IPDPSW 2012), and the block is the lower half of a bitonic merge (Batcher, "Sorting networks
 * and their applications", AFIPS 1968) of the next BLOCK elements of both runs, in registers.
 * The first few elements of a longer axis need no sort: each is the least element after the one before it. */
#include "engine/front/build.h"
#include "engine/ir/shape.h"

enum {
    WHOLE = 256,          /* an axis up to this length is one run, */
    WHOLE_WORK = 1 << 20, /* as is an axis with up to this many comparisons in all, since launches would cost more */
    /* length of the runs of a longer axis: with shorter runs, merging costs as much as counting, and more code */
    RUN = 256,
    BLOCK = 16, /* elements per block of a merge, limited by registers; at most half a run */
    PAIRS = 8,  /* block size if rank and place are two integers, to limit the code; divides BLOCK */
    FEW = 64,   /* up to this many elements are found one after the other, */
    FEW_OF = 32 /* on an axis at least this many times as long: on a shorter one a sort is as fast on some devices */
};

/* Sort keys: ordered by rank, equal ranks by place. place NULL: the place is the lower half of the rank. */
typedef struct keys {
    const bl_node *rank, *place;
} keys;

typedef struct order {
    bl_ir *ir;
    bool descending;
} order;

static const bl_node *small(bl_ir *ir, const bl_node *like, int64_t value)
{
    return bl_full_like(ir, like, (double)value);
}

static const bl_node *sort_whole_(bl_ir *ir, const bl_node *like, int64_t value)
{
    return bl_spread(ir, bl_const_int(ir, BL_I64, value), like);
}

/* The bits of a float as an integer of the same size with the same order: -0 ranks as 0, NaN as the largest. */
static const bl_node *rank_of_float(bl_ir *ir, const bl_node *x)
{
    bool wide = x->dtype == BL_F64;
    const bl_node *real = wide ? x : bl_cast(ir, BL_F32, x), *bits = bl_bitcast(ir, wide ? BL_I64 : BL_I32, real);
    const bl_node *lowest = wide ? sort_whole_(ir, bits, INT64_MIN) : small(ir, bits, INT32_MIN);
    const bl_node *highest = wide ? sort_whole_(ir, bits, INT64_MAX) : small(ir, bits, INT32_MAX);
    const bl_node *rank = bl_where(ir, bl_less(ir, bits, small(ir, bits, 0)), bl_sub(ir, lowest, bits), bits);

    return bl_where(ir, bl_is_nan(ir, real), highest, rank);
}

/* Is the rank an int32, so that rank and place fit in an int64? */
static bool sort_fits(const bl_node *x)
{
    return bl_dtype_bytes((bl_dtype)x->dtype) <= 4;
}

/* The rank of x[.., n], int32 or int64: smaller ranks come first, equal values have equal ranks. */
static const bl_node *sort_rank_of(const order *o, const bl_node *x)
{
    bl_ir *ir = o->ir;
    bl_dtype dtype = sort_fits(x) ? BL_I32 : BL_I64;
    const bl_node *rank = bl_cast(ir, dtype, bl_dtype_is_float((bl_dtype)x->dtype) ? rank_of_float(ir, x) : x);

    if (x->dtype == BL_U32 || x->dtype == BL_U64) /* flips the sign bit */
        rank = bl_alu2(ir, BL_OP_XOR, rank, sort_fits(x) ? small(ir, rank, INT32_MIN) : sort_whole_(ir, rank, INT64_MIN));
    return o->descending ? bl_not(ir, rank) : rank;
}

/* Combine ranks that fit with their places, as the lower half. */
static const bl_node *ordinals(bl_ir *ir, const bl_node *rank)
{
    rank = bl_alu2(ir, BL_OP_SHL, bl_cast(ir, BL_I64, rank), sort_whole_(ir, rank, 32));
    return bl_add(ir, rank, bl_iota_like(ir, rank, rank->ndim - 1, BL_I64));
}

static const bl_node *precedes(const order *o, keys a, keys b)
{
    bl_ir *ir = o->ir;
    const bl_node *less = bl_less(ir, a.rank, b.rank);

    if (a.place == NULL)
        return less;
    return bl_alu2(ir, BL_OP_OR, less, bl_and(ir, bl_alu2(ir, BL_OP_CMPEQ, a.rank, b.rank), bl_less(ir, a.place, b.place)));
}

static keys sort_choose(const order *o, const bl_node *condition, keys a, keys b)
{
    return (keys){bl_where(o->ir, condition, a.rank, b.rank),
                  a.place == NULL ? NULL : bl_where(o->ir, condition, a.place, b.place)};
}

static keys sort_look_up(const order *o, keys k, const bl_node *at, int axis)
{
    return (keys){bl_gather(o->ir, k.rank, at, axis), k.place == NULL ? NULL : bl_gather(o->ir, k.place, at, axis)};
}

static keys sort_store(const order *o, keys k)
{
    return (keys){bl_contiguous(o->ir, k.rank), k.place == NULL ? NULL : bl_contiguous(o->ir, k.place)};
}

/* A key that comes after all others, in the shape of |x|. */
static keys last_of_all(const order *o, const bl_node *x, bool place)
{
    return (keys){sort_whole_(o->ir, x, INT64_MAX), place ? bl_spread(o->ir, bl_const_int(o->ir, BL_I32, INT32_MAX), x) : NULL};
}

/* ---- runs */

/* Expand x[.., n] to [.., n, n] along its last axis or the one before it. */
static const bl_node *sort_facing(bl_ir *ir, const bl_node *x, bool rows)
{
    const bl_node *dim[BL_MAX_DIMS + 1];
    int ndim = x->ndim + 1;

    for (int i = 0; i < ndim; i++)
        dim[i] = x->dim[i < ndim - 1 ? i : i - 1];
    return bl_expand(ir, bl_add_axis(ir, x, rows ? x->ndim : x->ndim - 1), ndim, dim);
}

static keys facing_keys(const order *o, keys k, bool rows)
{
    return (keys){sort_facing(o->ir, k.rank, rows), k.place == NULL ? NULL : sort_facing(o->ir, k.place, rows)};
}

/* Move |x| along the last axis to the positions |rank|: each position finds its element. */
static const bl_node *sent(bl_ir *ir, const bl_node *rank, const bl_node *x)
{
    int last = x->ndim;
    const bl_node *found =
        bl_alu2(ir, BL_OP_CMPEQ, sort_facing(ir, rank, false), bl_iota_like(ir, sort_facing(ir, rank, false), last - 1, BL_I32));
    const bl_node *value = sort_facing(ir, x, false);

    value = bl_where(ir, found, value, bl_spread(ir, bl_const_int(ir, (bl_dtype)x->dtype, 0), value));
    return bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, value, 1u << last), 1u << last);
}

static const bl_node *sort_count(bl_ir *ir, const bl_node *before)
{
    unsigned last = 1u << (before->ndim - 1);
    return bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, bl_cast(ir, BL_I32, before), last), last);
}

/* For each element of a run, the number of elements before it. */
static const bl_node *count_before(const order *o, keys k)
{
    return sort_count(o->ir, precedes(o, facing_keys(o, k, false), facing_keys(o, k, true)));
}

/* Must value a precede b if neither was earlier? NaN is the largest. */
static const bl_node *is_first(const order *o, const bl_node *a, const bl_node *b)
{
    bl_ir *ir = o->ir;
    const bl_node *low = o->descending ? b : a, *high = o->descending ? a : b, *less = bl_less(ir, low, high);

    if (!bl_dtype_is_float((bl_dtype)a->dtype))
        return less;
    return bl_alu2(ir, BL_OP_OR, less, bl_and(ir, bl_is_nan(ir, high), bl_not(ir, bl_is_nan(ir, low))));
}

/* The positions of x[.., n] in sorted order, as one run, by comparing the values: computing ranks would need another launch. */
static const bl_node *sort_whole(const order *o, const bl_node *x)
{
    bl_ir *ir = o->ir;
    const bl_node *mine = sort_facing(ir, x, true), *other = sort_facing(ir, x, false);
    const bl_node *i = bl_iota_like(ir, mine, x->ndim - 1, BL_I32), *j = bl_iota_like(ir, mine, x->ndim, BL_I32);
    const bl_node *before = bl_where(ir, bl_less(ir, j, i), bl_not(ir, is_first(o, mine, other)), is_first(o, other, mine));
    const bl_node *rank = sort_count(ir, before);

    return sent(ir, rank, bl_iota_like(ir, rank, x->ndim - 1, BL_I32));
}

/* ---- merges */

/* Merge path: how many of the first k0 elements of the two halves of |k|[.., runs, 2 * length] come from the first half, for
 * the first position k0 of each block: int32[.., runs, blocks]. */
static const bl_node *sort_split_path(const order *o, keys k, const bl_node *k0, int64_t length)
{
    bl_ir *ir = o->ir;
    int last = k.rank->ndim - 1;
    const bl_node *len = small(ir, k0, length), *none = small(ir, k0, 0), *one = small(ir, k0, 1);
    const bl_node *low = bl_alu2(ir, BL_OP_MAX, bl_sub(ir, k0, len), none), *high = bl_alu2(ir, BL_OP_MIN, k0, len);

    int64_t step = 1;

    while (step <= length / 2)
        step *= 2;
    for (; step > 0; step /= 2) {
        const bl_node *more = bl_alu2(ir, BL_OP_MIN, bl_add(ir, low, small(ir, k0, step)), high);
        keys first = sort_look_up(o, k, bl_alu2(ir, BL_OP_MAX, bl_sub(ir, more, one), none), last);
        keys second = sort_look_up(
            o, k, bl_alu2(ir, BL_OP_MIN, bl_sub(ir, bl_add(ir, k0, len), more), small(ir, k0, 2 * length - 1)), last);
        /* once |more| equals |low|, the comparison has no effect */
        low = bl_where(ir, precedes(o, first, second), more, low);
    }
    return low;
}

/* Element |at| + |nth| of one half of |k|, which begins at |begin|; beyond its end, the last key. */
static keys sort_element(const order *o, keys k, const bl_node *at, int64_t nth, int64_t begin, int64_t length)
{
    bl_ir *ir = o->ir;
    const bl_node *place = bl_add(ir, at, small(ir, at, nth)), *end = small(ir, at, length - 1);
    const bl_node *inside = bl_alu2(ir, BL_OP_MIN, place, end);
    keys found = sort_look_up(o, k, bl_add(ir, inside, small(ir, at, begin)), k.rank->ndim - 1);

    return sort_choose(o, bl_less(ir, end, place), last_of_all(o, found.rank, k.place != NULL), found);
}

static void sort_exchange(const order *o, keys *a, keys *b)
{
    const bl_node *kept = precedes(o, *a, *b);
    keys low = sort_choose(o, kept, *a, *b);

    *b = sort_choose(o, kept, *b, *a);
    *a = low;
}

/* Join |n| parts [.., runs, blocks] to [.., runs, blocks * n]. Selects by position; a concatenation would compute each part
 * under a condition of its own. */
static const bl_node *sort_join_parts(const order *o, int n, const bl_node *const *part)
{
    bl_ir *ir = o->ir;
    const bl_node *dim[BL_MAX_DIMS + 1], *joined = NULL, *place = NULL;
    int ndim = part[0]->ndim;

    for (int i = 0; i < ndim; i++)
        dim[i] = part[0]->dim[i];
    dim[ndim] = bl_index(ir, n);
    for (int i = n - 1; i >= 0; i--) {
        const bl_node *wide = bl_expand(ir, bl_add_axis(ir, part[i], ndim), ndim + 1, dim);
        place = place == NULL ? bl_iota_like(ir, wide, ndim, BL_I32) : place;
        joined = joined == NULL ? wide : bl_where(ir, bl_alu2(ir, BL_OP_CMPEQ, place, small(ir, place, i)), wide, joined);
    }
    dim[ndim - 1] = bl_mul(ir, part[0]->dim[ndim - 1], bl_index(ir, n));
    return bl_reshape(ir, joined, ndim, dim);
}

/* Merge keys [.., runs, 2 * length] whose halves are sorted and whose ranks are distinct. Returns the rank, or the place if
 * keys have places, at each position. */
static const bl_node *merge_halves(const order *o, keys k, int64_t length)
{
    bl_ir *ir = o->ir;
    int last = k.rank->ndim - 1, n = k.place == NULL ? BLOCK : PAIRS;
    const bl_node *part[BLOCK] = {NULL};
    keys block[BLOCK];

    const bl_node *heads = bl_shrink_axis(ir, k.rank, last, bl_index(ir, 0), bl_index(ir, 2 * length / n));
    const bl_node *k0 = bl_iota_like(ir, heads, last, BL_I32);
    k0 = bl_mul(ir, k0, small(ir, k0, n));
    const bl_node *first = sort_split_path(o, k, k0, length);
    const bl_node *second = bl_alu2(ir, BL_OP_MAX, bl_sub(ir, k0, first), small(ir, k0, 0));
    for (int i = 0; i < n; i++) { /* bitonic merge: the first half ascending, the second descending; the smaller element of each
                                     pair belongs to the lower half */
        keys up = sort_element(o, k, first, i, 0, length), down = sort_element(o, k, second, n - 1 - i, length, length);
        block[i] = sort_choose(o, precedes(o, up, down), up, down);
    }
    for (int apart = n / 2; apart > 0; apart /= 2) {
        for (int i = 0; i < n; i++) {
            if ((i & apart) == 0)
                sort_exchange(o, &block[i], &block[i + apart]);
        }
    }
    for (int i = 0; i < n; i++)
        part[i] = k.place == NULL ? block[i].rank : block[i].place;
    return sort_join_parts(o, n, part);
}

/* Merge keys [.., runs, 2 * length] whose halves are sorted. */
static keys merge_runs(const order *o, keys k, int64_t length)
{
    bl_ir *ir = o->ir;
    int last = k.rank->ndim - 1;

    if (k.place == NULL)
        return (keys){merge_halves(o, k, length), NULL};
    /* equal elements of the first half come first, so their places within both halves order them */
    const bl_node *at = merge_halves(o, (keys){k.rank, bl_iota_like(ir, k.rank, last, BL_I32)}, length);
    return sort_look_up(o, k, bl_contiguous(ir, at), last);
}

/* ---- an axis */

/* Reshape x[.., runs, length] to [.., runs * length / to, to]. */
static const bl_node *in_runs(bl_ir *ir, const bl_node *x, int ndim, int64_t total, int64_t length)
{
    const bl_node *dim[BL_MAX_DIMS + 1];

    for (int i = 0; i < ndim - 1; i++)
        dim[i] = x->dim[i];
    dim[ndim - 1] = bl_index(ir, total / length);
    dim[ndim] = bl_index(ir, length);
    return bl_reshape(ir, x, ndim + 1, dim);
}

/* Pad |x| with |value| along an axis, up to |total|. */
static const bl_node *pad_to(bl_ir *ir, const bl_node *x, int axis, int64_t total, const bl_node *value)
{
    const bl_node *before[BL_MAX_DIMS], *after[BL_MAX_DIMS];

    if (bl_is_int(x->dim[axis], total))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        before[i] = bl_index(ir, 0);
        after[i] = i == axis ? bl_sub(ir, bl_index(ir, total), x->dim[i]) : before[i];
    }
    return bl_pad_with(ir, x, before, after, value);
}

/* The keys of x[.., n], padded with last keys, as sorted runs [.., runs, RUN]. */
static keys sort_runs(const order *o, const bl_node *x, int64_t total)
{
    bl_ir *ir = o->ir;
    int ndim = x->ndim;
    bool one = sort_fits(x);
    int64_t highest = one ? INT32_MAX : INT64_MAX; /* the rank of padding; its places are after all others */
    keys k = {pad_to(ir, sort_rank_of(o, x), ndim - 1, total, bl_const_int(ir, one ? BL_I32 : BL_I64, highest)), NULL};

    k.rank = one ? ordinals(ir, k.rank) : k.rank;
    k.place = one ? NULL : in_runs(ir, bl_iota_like(ir, k.rank, ndim - 1, BL_I32), ndim, total, RUN);
    k.rank = in_runs(ir, k.rank, ndim, total, RUN);
    const bl_node *at = count_before(o, k);
    return (keys){sent(ir, at, k.rank), one ? NULL : sent(ir, at, k.place)};
}

/* The number of runs: slightly more than |least|, so that pairs of pairs stay complete while there are many. */
static int64_t sort_count_runs(int64_t least)
{
    int64_t together = 1;

    while (least / together > 8)
        together *= 2;
    return (least + together - 1) / together * together;
}

/* Is the last axis of |x| one run? */
static bool is_run(const bl_node *x)
{
    int64_t extent = x->dim[x->ndim - 1]->hi, count = 0;

    return extent <= WHOLE || (bl_shape_max_count(x->ndim, x->dim, &count) && count <= WHOLE_WORK / extent);
}

static const bl_node *sort_shorten(bl_ir *ir, const bl_node *x, int axis, int64_t extent)
{
    return bl_is_int(x->dim[axis], extent) ? x : bl_shrink_axis(ir, x, axis, bl_index(ir, 0), bl_index(ir, extent));
}

/* Pair up the runs x[.., runs, length] as [.., runs / 2, 2 * length]; the last pair may be padded with |value|. */
static const bl_node *in_pairs(bl_ir *ir, const bl_node *x, int ndim, int64_t runs, int64_t length, const bl_node *value)
{
    return in_runs(ir, pad_to(ir, x, ndim - 1, runs, value), ndim, runs * length, 2 * length);
}

/* The positions of x[.., n] in sorted order, int32; if fewer are |wanted|, of at least that many. */
static const bl_node *sort_last(const order *o, const bl_node *x, int64_t wanted)
{
    bl_ir *ir = o->ir;
    int ndim = x->ndim;
    const bl_node *extent = x->dim[ndim - 1], *dim[BL_MAX_DIMS];

    if (extent->op == BL_OP_POISON)
        return extent;
    if (is_run(x))
        return sort_whole(o, x);
    int64_t length = RUN, runs = sort_count_runs((extent->hi - 1) / RUN + 1), most = (wanted / BLOCK + 1) * BLOCK;
    keys k = sort_store(o, sort_runs(o, x, runs * RUN));
    while (runs > 1) {
        runs += runs % 2;
        k.rank = in_pairs(ir, k.rank, ndim, runs, length, bl_const_int(ir, BL_I64, INT64_MAX));
        if (k.place != NULL)
            k.place = in_pairs(ir, k.place, ndim, runs, length, bl_const_int(ir, BL_I32, INT32_MAX));
        k = merge_runs(o, k, length);
        runs /= 2;
        length = 2 * length < most ? 2 * length : most; /* later elements are not wanted */
        k.rank = sort_shorten(ir, k.rank, ndim, length);
        if (k.place != NULL)
            k.place = sort_shorten(ir, k.place, ndim, length);
        if (runs > 1)
            k = sort_store(o, k);
    }
    for (int i = 0; i < ndim; i++)
        dim[i] = i == ndim - 1 ? bl_index(ir, length) : x->dim[i];
    const bl_node *places = bl_reshape(ir, bl_contiguous(ir, k.place == NULL ? bl_cast(ir, BL_I32, k.rank) : k.place), ndim, dim);
    return length < extent->hi ? places : bl_shrink_axis(ir, places, ndim - 1, bl_index(ir, 0), extent);
}

/* x as the tensor to sort, with the axis last; NULL after a failure. */
static const bl_node *sort_take_keys(bl_call *c, const bl_node *x, int axis)
{
    if (x->ndim >= BL_MAX_DIMS - 2) {
        bl_call_fail_as(c, BL_ELIMIT, "takes at most %d dimensions, not %s", BL_MAX_DIMS - 3, bl_call_shape(c, x));
        return NULL;
    }
    if (x->dim[axis]->hi > INT32_MAX / 2) {
        bl_call_fail_as(c, BL_ELIMIT, "axis %d of %s is too long", axis, bl_call_shape(c, x));
        return NULL;
    }
    return bl_to_last(c->ir, bl_detach(c->ir, x->dtype == BL_BOOL ? bl_cast(c->ir, BL_U8, x) : x), axis);
}

static const bl_node *sorted_places(bl_call *c, const bl_node *x, int axis, bool descending, int64_t wanted)
{
    order o = {c->ir, descending};
    const bl_node *last = sort_take_keys(c, x, axis);

    return last == NULL ? NULL : bl_from_last(c->ir, sort_last(&o, last, wanted), axis);
}

/* ---- the first few of the order, without the rest of it */

/* The positions of the first |count| elements, at most FEW: each is the smallest key above the one before it. If the axis has
 * fewer, -1 follows. */
static const bl_node *find_few(bl_call *c, const bl_node *x, int axis, bool descending, int64_t count)
{
    bl_ir *ir = c->ir;
    order o = {ir, descending};
    const bl_node *last = sort_take_keys(c, x, axis);
    const bl_node *found[FEW];

    if (last == NULL)
        return NULL;
    const bl_node *all = ordinals(ir, sort_rank_of(&o, last)), *end = sort_whole_(ir, all, INT64_MAX);
    for (int64_t i = 0; i < count; i++) {
        const bl_node *rest = i == 0 ? all : bl_where(ir, bl_less(ir, bl_spread(ir, found[i - 1], all), all), all, end);
        found[i] = bl_reduce(ir, BL_OP_MIN, rest, 1u << (last->ndim - 1));
    }
    if (found[count - 1]->op == BL_OP_POISON)
        return bl_call_failed(c);
    return bl_from_last(ir, bl_cast(ir, BL_I32, bl_call_join(c, (int)count, found, last->ndim - 1)), axis);
}

const bl_node *bl_first_places(bl_call *c, const bl_node *x, int axis, bool descending, const bl_node *count)
{
    bool few = count->hi > 0 && count->hi <= FEW && count->hi * FEW_OF <= x->dim[axis]->hi;
    const bl_node *at =
        few && sort_fits(x) ? find_few(c, x, axis, descending, count->hi) : sorted_places(c, x, axis, descending, count->hi);

    return at == NULL ? NULL : bl_shrink_axis(c->ir, at, axis, bl_index(c->ir, 0), count);
}

/* Store values and positions in c->result. */
static const bl_node *give_sorted(bl_call *c, const bl_node *at, int axis)
{
    c->result[0] = bl_gather(c->ir, c->in[0], at, axis);
    c->result[1] = bl_cast(c->ir, BL_I64, at);
    return c->result[0];
}

const bl_node *expand_sort(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis = x->ndim == 0 ? 0 : bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    c->result[0] = x;
    c->result[1] = x->ndim == 0 ? bl_const_int(c->ir, BL_I64, 0) : x;
    if (axis < 0 || x->ndim == 0)
        return x;
    const bl_node *at = sorted_places(c, x, axis, bl_attr(c, "descending")->flag, x->dim[axis]->hi);
    return at == NULL ? NULL : give_sorted(c, at, axis);
}

const bl_node *expand_argsort(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis = x->ndim == 0 ? 0 : bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    if (axis < 0 || x->ndim == 0)
        return axis < 0 ? x : bl_const_int(c->ir, BL_I64, 0);
    const bl_node *at = sorted_places(c, x, axis, bl_attr(c, "descending")->flag, x->dim[axis]->hi);
    return at == NULL ? NULL : bl_cast(c->ir, BL_I64, at);
}

const bl_node *expand_topk(bl_call *c)
{
    const bl_node *x = c->in[0], *k = bl_attr(c, "k")->size;
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    c->result[0] = c->result[1] = x;
    if (axis < 0)
        return x;
    if (bl_may_be_negative(c->ir, k) || bl_may_be_negative(c->ir, bl_sub(c->ir, x->dim[axis], k)))
        return bl_call_fail(c, "k must be between 0 and the extent of axis %d of %s", axis, bl_call_shape(c, x));
    const bl_node *at = bl_first_places(c, x, axis, bl_attr(c, "largest")->flag, k);
    return at == NULL ? NULL : give_sorted(c, at, axis);
}
