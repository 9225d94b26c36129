/* SPDX-License-Identifier: MIT */
/* Counter-based random numbers: Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC'11).  The key of random node p is threefry(key = (seed, step), counter = (p, 0)), or, where an input named key is
 * given, threefry(key = (seed, that value), counter = (p, 1)); element j draws threefry(key, counter = (j, j >> 32)). */
#include "engine/base/size.h"
#include "engine/front/build.h"
#include "engine/ir/shape.h"

#include <math.h>

static const bl_node *random_word(bl_ir *ir, const bl_node *like, uint32_t value)
{
    return bl_full_like(ir, like, value);
}

static const bl_node *random_rotate(bl_ir *ir, const bl_node *x, uint32_t left)
{
    const bl_node *high = bl_alu2(ir, BL_OP_SHL, x, random_word(ir, x, left));
    return bl_alu2(ir, BL_OP_OR, high, bl_alu2(ir, BL_OP_SHR, x, random_word(ir, x, 32 - left)));
}

bl_words bl_threefry(bl_ir *ir, bl_words key, bl_words counter)
{
    static const uint32_t rotation[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const bl_node *parity = bl_alu2(ir, BL_OP_XOR, key.at[0], random_word(ir, key.at[0], 0x1bd11bda));
    const bl_node *schedule[3] = {key.at[0], key.at[1], bl_alu2(ir, BL_OP_XOR, parity, key.at[1])};
    const bl_node *x = bl_add(ir, counter.at[0], key.at[0]);
    const bl_node *y = bl_add(ir, counter.at[1], key.at[1]);

    for (uint32_t round = 0; round < 20; round++) {
        x = bl_add(ir, x, y);
        y = bl_alu2(ir, BL_OP_XOR, random_rotate(ir, y, rotation[round % 8]), x);
        if (round % 4 != 3)
            continue;
        uint32_t turn = round / 4 + 1;
        x = bl_add(ir, x, schedule[turn % 3]);
        y = bl_add(ir, y, bl_add(ir, schedule[(turn + 1) % 3], random_word(ir, y, turn)));
    }
    return (bl_words){{x, y}};
}

/* The seed (i = 0) or the step (i = 1) of the generator. */
static const bl_node *state_word(bl_call *c, int i)
{
    bl_ir *ir = c->ir;
    const bl_node *rng = bl_build_rng(c, i == 1);
    return bl_drop_axes(ir, bl_shrink_axis(ir, rng, 0, bl_index(ir, i), bl_index(ir, 1)), 1);
}

/* The key of this random node: two scalars. |input| is the optional scalar that replaces the step. */
static bl_words random_take_key(bl_call *c, const bl_node *input)
{
    bl_ir *ir = c->ir;
    const bl_value *seed = bl_attr(c, "seed");
    uint32_t place = (uint32_t)bl_build_outermost(c->build)->nrandom++;
    bl_words key = {{NULL, NULL}};

    if (seed->given && (seed->whole < 0 || seed->whole > UINT32_MAX)) {
        key.at[0] = key.at[1] = bl_call_fail(c, "seed must be between 0 and %u, not %lld", UINT32_MAX, (long long)seed->whole);
        return key;
    }
    if (input != NULL && !bl_is_int(bl_shape_count(ir, input->ndim, input->dim), 1)) {
        key.at[0] = key.at[1] = bl_call_fail(c, "key must be a scalar, not of shape %s", bl_call_shape(c, input));
        return key;
    }
    key.at[0] = seed->given ? bl_const_int(ir, BL_U32, seed->whole) : state_word(c, 0);
    key.at[1] = input != NULL ? bl_cast(ir, BL_U32, bl_reshape(ir, input, 0, NULL)) : state_word(c, 1);
    bl_words counter = {{bl_const_int(ir, BL_U32, place), bl_const_int(ir, BL_U32, input != NULL)}};
    return bl_threefry(ir, key, counter);
}

/* Two random words for each element of the shape. */
static bl_words random_draw(bl_call *c, const bl_node *input, int ndim, const bl_node *const *dim)
{
    bl_ir *ir = c->ir;
    const bl_node *frame = bl_call_full(c, bl_const_int(ir, BL_U32, 0), ndim, dim);
    bl_words key = random_take_key(c, input);
    bl_words counter;

    if (frame->op == BL_OP_POISON)
        return (bl_words){{frame, frame}};
    const bl_node *count = bl_shape_count(ir, ndim, dim);
    bool narrow = count->hi <= UINT32_MAX;
    const bl_node *at = bl_reshape(ir, bl_iota(ir, narrow ? BL_U32 : BL_U64, count), ndim, dim);
    counter.at[0] = bl_cast(ir, BL_U32, at);
    counter.at[1] = narrow ? frame : bl_cast(ir, BL_U32, bl_alu2(ir, BL_OP_SHR, at, bl_full_like(ir, at, 32)));
    for (int i = 0; i < 2; i++)
        key.at[i] = bl_spread(ir, key.at[i], frame);
    return bl_threefry(ir, key, counter);
}

/* Number of random bits of a fraction that is exact in the dtype. */
static int fraction_bits(bl_dtype dtype)
{
    return dtype == BL_F16 ? 11 : dtype == BL_BF16 ? 8 : dtype == BL_F8E4M3 ? 4 : dtype == BL_F8E5M2 ? 3 : 24;
}

/* A number in [0, 1) with as many bits as the dtype has, from the upper bits of the words. */
static const bl_node *unit(bl_ir *ir, bl_words words, bl_dtype dtype)
{
    const bl_node *x = words.at[0];
    if (dtype == BL_F64) { /* 53 bits: 27 and 26 */
        const bl_node *high = bl_cast(ir, BL_F64, bl_alu2(ir, BL_OP_SHR, x, random_word(ir, x, 5)));
        const bl_node *low = bl_cast(ir, BL_F64, bl_alu2(ir, BL_OP_SHR, words.at[1], random_word(ir, x, 6)));
        return bl_mul_real(ir, bl_add(ir, bl_mul_real(ir, high, 0x1p26), low), 0x1p-53);
    }
    int bits = fraction_bits(dtype);
    const bl_node *top = bl_alu2(ir, BL_OP_SHR, x, random_word(ir, x, (uint32_t)(32 - bits)));
    return bl_mul_real(ir, bl_cast(ir, BL_F32, top), ldexp(1, -bits));
}

static bool check_float(bl_call *c, bl_dtype dtype)
{
    if (bl_dtype_is_float(dtype))
        return true;
    bl_call_fail(c, "draws floats, not %s", bl_dtype_name(dtype));
    return false;
}

/* Uniform numbers between low and high, in the shape of attribute "shape". */
static const bl_node *uniform_between(bl_call *c, double low, double high, bl_dtype dtype)
{
    const bl_value *shape = bl_attr(c, "shape");

    if (!check_float(c, dtype))
        return bl_call_fail(c, "no floats");
    const bl_node *u = unit(c->ir, random_draw(c, c->in[0], shape->count, shape->sizes), dtype);
    if (low != 0 || high != 1)
        u = bl_add_real(c->ir, bl_mul_real(c->ir, u, high - low), low);
    return bl_cast(c->ir, dtype, u);
}

/* Box and Muller, "A note on the generation of random normal deviates", 1958. Uses both words of a draw. */
static const bl_node *box_muller(bl_call *c, bl_words words, bl_dtype dtype)
{
    bl_ir *ir = c->ir;
    bl_dtype wide = dtype == BL_F64 ? BL_F64 : BL_F32;
    const bl_node *radius = bl_mul_real(ir, bl_cast(ir, wide, words.at[0]), 0x1p-32);
    radius = bl_alu1(ir, BL_OP_LOG, bl_add_real(ir, radius, 0x1p-33)); /* never the logarithm of 0 */
    radius = bl_alu1(ir, BL_OP_SQRT, bl_mul_real(ir, radius, -2));
    const bl_node *turn = bl_mul_real(ir, bl_cast(ir, wide, words.at[1]), 0x1p-32);
    return bl_mul(ir, radius, bl_alu1(ir, BL_OP_SIN, bl_mul_real(ir, turn, 2 * M_PI)));
}

static const bl_node *normal_around(bl_call *c, double mean, double deviation, bl_dtype dtype)
{
    bl_ir *ir = c->ir;
    const bl_value *shape = bl_attr(c, "shape");

    if (!check_float(c, dtype))
        return bl_call_fail(c, "no floats");
    const bl_node *z = box_muller(c, random_draw(c, c->in[0], shape->count, shape->sizes), dtype);
    if (mean != 0 || deviation != 1)
        z = bl_add_real(ir, bl_mul_real(ir, z, deviation), mean);
    return bl_cast(ir, dtype, z);
}

const bl_node *expand_uniform(bl_call *c)
{
    return uniform_between(c, bl_attr(c, "low")->real, bl_attr(c, "high")->real, bl_attr(c, "dtype")->dtype);
}

const bl_node *expand_normal(bl_call *c)
{
    return normal_around(c, bl_attr(c, "mean")->real, bl_attr(c, "std")->real, bl_attr(c, "dtype")->dtype);
}

static const bl_node *draw_like(bl_call *c, bool normal)
{
    const bl_node *x = c->in[0];
    bl_dtype own = bl_dtype_is_float((bl_dtype)x->dtype) ? (bl_dtype)x->dtype : BL_F32;
    bl_dtype dtype = bl_attr(c, "dtype")->given ? bl_attr(c, "dtype")->dtype : own;

    if (!check_float(c, dtype))
        return x;
    bl_words words = random_draw(c, c->in[1], x->ndim, x->dim);
    return bl_cast(c->ir, dtype, normal ? box_muller(c, words, dtype) : unit(c->ir, words, dtype));
}

const bl_node *expand_rand_like(bl_call *c)
{
    return draw_like(c, false);
}

const bl_node *expand_randn_like(bl_call *c)
{
    return draw_like(c, true);
}

const bl_node *expand_dropout(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    double p = bl_attr(c, "p")->real;

    if (!(p >= 0 && p <= 1))
        return bl_call_fail(c, "p must be between 0 and 1, not %g", p);
    bl_words words = random_draw(c, c->in[1], x->ndim, x->dim);
    const bl_node *zero = bl_full_like(ir, x, 0);
    if (p == 0 || p == 1)
        return p == 0 ? x : zero;
    const bl_node *drop = bl_less(ir, words.at[0], random_word(ir, words.at[0], (uint32_t)(p * 0x1p32)));
    return bl_where(ir, drop, zero, bl_cast(ir, (bl_dtype)x->dtype, bl_mul_real(ir, bl_widen(ir, x), 1 / (1 - p))));
}

/* The upper half of the 128-bit product of two uint64. */
static const bl_node *multiply_high(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    const bl_node *shift = bl_full_like(ir, x, 32);
    const bl_node *mask = bl_full_like(ir, x, UINT32_MAX);
    const bl_node *x_low = bl_alu2(ir, BL_OP_AND, x, mask), *x_high = bl_alu2(ir, BL_OP_SHR, x, shift);
    const bl_node *y_low = bl_alu2(ir, BL_OP_AND, y, mask), *y_high = bl_alu2(ir, BL_OP_SHR, y, shift);
    const bl_node *low = bl_alu2(ir, BL_OP_SHR, bl_mul(ir, x_low, y_low), shift);
    const bl_node *middle = bl_add(ir, bl_mul(ir, x_high, y_low), low); /* does not overflow */
    const bl_node *other = bl_add(ir, bl_mul(ir, x_low, y_high), bl_alu2(ir, BL_OP_AND, middle, mask));
    const bl_node *high = bl_add(ir, bl_mul(ir, x_high, y_high), bl_alu2(ir, BL_OP_SHR, middle, shift));
    return bl_add(ir, high, bl_alu2(ir, BL_OP_SHR, other, shift));
}

/* Multiply and shift: the random bits, as a fraction of one, times the size of the range. */
const bl_node *expand_randint(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_value *shape = bl_attr(c, "shape");
    bl_dtype dtype = bl_attr(c, "dtype")->dtype;
    const bl_node *low = bl_const_int(ir, BL_I64, bl_attr(c, "low")->whole);
    const bl_node *high = bl_attr(c, "high")->size;

    if (!bl_dtype_is_int(dtype))
        return bl_call_fail(c, "draws integers, not %s", bl_dtype_name(dtype));
    if (high == NULL)
        return bl_call_fail(c, "high must be a whole number");
    if (high->lo <= bl_attr(c, "low")->whole)
        return bl_call_fail(c, "high must be above low");
    bl_words words = random_draw(c, c->in[0], shape->count, shape->sizes);
    const bl_node *span = bl_cast(ir, BL_U64, bl_sub(ir, bl_cast(ir, BL_I64, high), low)); /* wraps to the true size */
    int64_t most;
    bool narrow = bl_i64_sub(high->hi, bl_attr(c, "low")->whole, &most) && most <= UINT32_MAX;
    const bl_node *bits = bl_cast(ir, BL_U64, words.at[0]);
    span = bl_spread(ir, span, bits);
    if (narrow) {
        bits = bl_alu2(ir, BL_OP_SHR, bl_mul(ir, bits, span), bl_full_like(ir, bits, 32));
    } else {
        bits = bl_alu2(ir, BL_OP_SHL, bits, bl_full_like(ir, bits, 32));
        bits = multiply_high(ir, bl_alu2(ir, BL_OP_OR, bits, bl_cast(ir, BL_U64, words.at[1])), span);
    }
    const bl_node *value = bl_add(ir, bl_cast(ir, BL_I64, bits), bl_spread(ir, low, bits));
    return bl_cast(ir, dtype, value);
}

/* Round keys of randperm: a 64-bit linear congruential generator (Knuth's MMIX constants), seeded with the node's key; the
 * upper words are used. */
typedef struct round_keys {
    const bl_node *state; /* uint64 scalar */
} round_keys;

static const bl_node *next_key(bl_ir *ir, round_keys *keys)
{
    const bl_node *times = bl_const(ir, BL_U64, (bl_scalar){.u = 6364136223846793005u});
    const bl_node *plus = bl_const(ir, BL_U64, (bl_scalar){.u = 1442695040888963407u});
    keys->state = bl_add(ir, bl_mul(ir, keys->state, times), plus);
    return bl_alu2(ir, BL_OP_SHR, keys->state, bl_const_int(ir, BL_U64, 32));
}

/* One bit of a hash of x: the part of MurmurHash3's finaliser (Appleby) that determines its top bit. */
static const bl_node *hash_bit(bl_ir *ir, const bl_node *x)
{
    x = bl_mul(ir, x, random_word(ir, x, 0x85ebca6b));
    x = bl_alu2(ir, BL_OP_XOR, x, bl_alu2(ir, BL_OP_SHR, x, random_word(ir, x, 13)));
    x = bl_mul(ir, x, random_word(ir, x, 0xc2b2ae35));
    return bl_less(ir, x, random_word(ir, x, 0x80000000));
}

/* The swap-or-not shuffle (Hoang, Morris and Rogaway, "An enciphering scheme based on a card shuffle", CRYPTO 2012): a
 * bijection that is evaluated at each position alone, so that a gather from it costs only the gathered positions. */
static const bl_node *shuffle(bl_ir *ir, const bl_node *x, const bl_node *n, bl_words key)
{
    enum { ROUNDS = 48 }; /* from 36 on the permutations of 2 to 6 elements pass a chi-square test of 400,000 draws */
    const bl_node *high = bl_alu2(ir, BL_OP_SHL, bl_cast(ir, BL_U64, key.at[0]), bl_const_int(ir, BL_U64, 32));
    round_keys keys = {bl_alu2(ir, BL_OP_OR, high, bl_cast(ir, BL_U64, key.at[1]))};
    const bl_node *span = bl_cast(ir, BL_U64, n);
    const bl_node *size = bl_spread(ir, bl_cast(ir, BL_U32, n), x);

    for (int round = 0; round < ROUNDS; round++) {
        const bl_node *bits = bl_mul(ir, next_key(ir, &keys), span);
        const bl_node *offset = bl_cast(ir, BL_U32, bl_alu2(ir, BL_OP_SHR, bits, bl_const_int(ir, BL_U64, 32)));
        const bl_node *salt = bl_cast(ir, BL_U32, next_key(ir, &keys));
        /* (offset - x) mod n: the smaller of the difference and the difference + n, since the other one wrapped */
        const bl_node *partner = bl_sub(ir, bl_spread(ir, offset, x), x);
        partner = bl_alu2(ir, BL_OP_MIN, partner, bl_add(ir, partner, size));
        const bl_node *pair = bl_alu2(ir, BL_OP_MAX, x, partner);
        const bl_node *stay = hash_bit(ir, bl_alu2(ir, BL_OP_XOR, pair, bl_spread(ir, salt, pair)));
        x = bl_where(ir, stay, x, partner);
    }
    return x;
}

const bl_node *expand_randperm(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *n = bl_attr(c, "n")->size;
    bl_dtype dtype = bl_attr(c, "dtype")->dtype;

    if (!bl_dtype_is_int(dtype))
        return bl_call_fail(c, "draws integers, not %s", bl_dtype_name(dtype));
    if (n->lo < 0 || n->hi > INT32_MAX)
        return bl_call_fail(c, "n must be between 0 and %d", INT32_MAX);
    bl_words key = random_take_key(c, c->in[0]);
    return bl_cast(ir, dtype, shuffle(ir, bl_iota(ir, BL_U32, n), n, key));
}

const bl_node *expand_step(bl_call *c)
{
    bl_dtype dtype = bl_attr(c, "dtype")->dtype;
    if (!bl_dtype_is_int(dtype))
        return bl_call_fail(c, "counts in integers, not %s", bl_dtype_name(dtype));
    return bl_cast(c->ir, dtype, state_word(c, 1));
}

/* PyTorch's fans of a weight [out, in, ...]; of a vector both are its size. */
static bool take_fans(bl_call *c, double *in, double *out)
{
    const bl_value *shape = bl_attr(c, "shape");
    double field = 1;

    for (int i = 0; i < shape->count; i++) {
        if (!bl_is_const(shape->sizes[i])) {
            bl_call_fail(c, "an initialiser needs fixed sizes");
            return false;
        }
        if (i > 1)
            field *= (double)bl_const_value(shape->sizes[i]).i;
    }
    if (shape->count == 0) {
        bl_call_fail(c, "a scalar has no fans");
        return false;
    }
    *out = (double)bl_const_value(shape->sizes[0]).i * field;
    *in = shape->count == 1 ? *out : (double)bl_const_value(shape->sizes[1]).i * field;
    return true;
}

/* sqrt(2 / ((1 + a^2) * fan)), He et al., arXiv:1502.01852. */
static bool kaiming_deviation(bl_call *c, double *deviation)
{
    double in, out;
    double a = bl_attr(c, "a")->real;
    bool forward = bl_attr(c, "mode")->text[4] == 'i';

    if (!take_fans(c, &in, &out))
        return false;
    *deviation = sqrt(2 / ((1 + a * a) * fmax(1, forward ? in : out)));
    return true;
}

const bl_node *expand_kaiming_uniform(bl_call *c)
{
    double deviation;
    if (!kaiming_deviation(c, &deviation))
        return bl_call_fail(c, "no fans");
    double bound = sqrt(3) * deviation;
    return uniform_between(c, -bound, bound, bl_attr(c, "dtype")->dtype);
}

const bl_node *expand_kaiming_normal(bl_call *c)
{
    double deviation;
    if (!kaiming_deviation(c, &deviation))
        return bl_call_fail(c, "no fans");
    return normal_around(c, 0, deviation, bl_attr(c, "dtype")->dtype);
}

const bl_node *expand_glorot_uniform(bl_call *c)
{
    double in, out;
    if (!take_fans(c, &in, &out))
        return bl_call_fail(c, "no fans");
    double bound = sqrt(6 / fmax(1, in + out));
    return uniform_between(c, -bound, bound, bl_attr(c, "dtype")->dtype);
}

const bl_node *expand_scaled_uniform(bl_call *c)
{
    const bl_value *given = bl_attr(c, "fan_in");
    double in, out;

    if (given->given && given->whole < 1)
        return bl_call_fail(c, "fan_in must be at least 1, not %lld", (long long)given->whole);
    if (!given->given && !take_fans(c, &in, &out))
        return bl_call_fail(c, "no fans");
    double bound = 1 / sqrt(given->given ? (double)given->whole : fmax(1, in));
    return uniform_between(c, -bound, bound, bl_attr(c, "dtype")->dtype);
}

const bl_node *expand_random_bits(bl_call *c)
{
    const bl_value *shape = bl_attr(c, "shape");
    return random_draw(c, c->in[0], shape->count, shape->sizes).at[0];
}

/* uint64 as two words, and back. */
static bl_words split_words(bl_ir *ir, const bl_node *x)
{
    return (bl_words){{bl_cast(ir, BL_U32, x), bl_cast(ir, BL_U32, bl_alu2(ir, BL_OP_SHR, x, bl_full_like(ir, x, 32)))}};
}

const bl_node *expand_threefry(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *both[2] = {bl_cast(ir, BL_U64, c->in[0]), bl_cast(ir, BL_U64, c->in[1])};

    if (!bl_call_broadcast(c, 2, both))
        return both[0];
    bl_words words = bl_threefry(ir, split_words(ir, both[1]), split_words(ir, both[0]));
    const bl_node *high = bl_cast(ir, BL_U64, words.at[1]);
    return bl_alu2(ir, BL_OP_OR, bl_cast(ir, BL_U64, words.at[0]), bl_alu2(ir, BL_OP_SHL, high, bl_full_like(ir, high, 32)));
}

/* -log(-log(u)) for u in (0, 1). The element with the largest log(w) plus this is a draw with weight w (Gumbel; Efraimidis and
 * Spirakis, 2006, for draws without replacement). */
static const bl_node *gumbel(bl_ir *ir, bl_words words)
{
    const bl_node *u = bl_add_real(ir, bl_mul_real(ir, unit(ir, words, BL_F32), 1 - 0x1p-23), 0x1p-24);
    const bl_node *inner = bl_alu1(ir, BL_OP_NEG, bl_alu1(ir, BL_OP_LOG, u));
    return bl_alu1(ir, BL_OP_NEG, bl_alu1(ir, BL_OP_LOG, inner));
}

const bl_node *expand_multinomial(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *w = bl_cast(ir, BL_F32, c->in[0]), *n = bl_attr(c, "num_samples")->size;
    const bl_node *dim[BL_MAX_DIMS];
    int last = w->ndim - 1;

    if (last < 0 || w->dim[last]->lo < 1 || w->ndim >= BL_MAX_DIMS - 2)
        return bl_call_fail(c, "needs weights [..., n], not %s", bl_call_shape(c, w));
    for (int i = 0; i <= last; i++)
        dim[i] = i == last ? n : w->dim[i];
    if (bl_attr(c, "replacement")->flag) {
        const bl_node *sum = bl_contiguous(ir, bl_cumsum(ir, w, last));
        const bl_node *total = bl_shrink_axis(ir, sum, last, bl_sub(ir, w->dim[last], bl_index(ir, 1)), bl_index(ir, 1));
        const bl_node *u = unit(ir, random_draw(c, c->in[1], w->ndim, dim), BL_F32);
        /* above u * total, so that a weight of 0 is never drawn */
        u = bl_mul(ir, bl_add_real(ir, bl_mul_real(ir, u, 1 - 0x1p-23), 0x1p-24), bl_spread(ir, total, u));
        const bl_node *found = bl_search(ir, sum, u, last);
        const bl_node *most = bl_spread(ir, bl_cast(ir, BL_I32, bl_sub(ir, w->dim[last], bl_index(ir, 1))), found);
        return bl_cast(ir, BL_I64, bl_alu2(ir, BL_OP_MIN, found, most));
    }
    if (bl_may_be_negative(ir, n) || bl_may_be_negative(ir, bl_sub(ir, w->dim[last], n)))
        return bl_call_fail(c, "without replacement the number of draws must be at most the number of weights: %s",
                            bl_call_shape(c, w));
    const bl_node *score = bl_add(ir, bl_alu1(ir, BL_OP_LOG, w), gumbel(ir, random_draw(c, c->in[1], w->ndim, w->dim)));
    const bl_node *at = bl_first_places(c, bl_contiguous(ir, score), last, true, n);
    return at == NULL ? NULL : bl_cast(ir, BL_I64, at);
}
