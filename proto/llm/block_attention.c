/* SPDX-License-Identifier: MIT */
/* Attention of a block, with the keys and values of the tokens before. */
#include "proto/llm/importer.h"

/* ---- inputs, angles and masks, which all blocks share */

static bl_wire_type named_type(bl_dtype dtype, int ndim, const int64_t *size)
{
    bl_wire_type type = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        type.dim[i] = size[i] > 0 ? (bl_wire_dim){size[i], -1} : (bl_wire_dim){0, (int)-size[i]};
    return type;
}

/* Sizes of inputs: a number, or a named dimension as its negative. */
enum { ROWS = -BL_LLM_ROWS, N = -BL_LLM_N };

static bl_llm_value *past_input(bl_llm_graph *g, const char *what, int64_t layer, int64_t size)
{
    const char *name = bl_arena_printf(g->arena, "past.%s.%lld", what, (long long)layer);
    bl_wire_type type = named_type(BL_F32, 4, (const int64_t[]){ROWS, g->spec.context, g->spec.groups, size});
    return name != NULL ? bl_llm_input(g, name, &type) : NULL;
}

static void add_inputs(bl_llm_graph *g)
{
    bl_wire_type tokens = named_type(BL_I32, 2, (const int64_t[]){ROWS, N}),
                 position = named_type(BL_I32, 1, (const int64_t[]){ROWS});
    g->tokens = bl_llm_input(g, "tokens", &tokens);
    g->position = bl_llm_input(g, "position", &position);
    g->past_keys = bl_arena_array(g->scratch, (size_t)g->spec.layers, sizeof(bl_llm_value *));
    g->past_values = bl_arena_array(g->scratch, (size_t)g->spec.layers, sizeof(bl_llm_value *));
    for (int64_t i = 0; g->past_keys != NULL && g->past_values != NULL && i < g->spec.layers; i++) {
        g->past_keys[i] = past_input(g, "keys", i, g->spec.key_size);
        g->past_values[i] = past_input(g, "values", i, g->spec.value_size);
    }
}

static void add_masks(bl_llm_graph *g, int which, int64_t window)
{
    bl_llm_value *there = bl_llm_make(g, "arange(stop=$0, dtype=int32)", ARGS(I(g->spec.context)));
    bl_llm_value *seen = bl_llm_make(g, "less($0, reshape($1, shape=[rows, 1, 1, 1, 1]))", ARGS(V(there), V(g->position)));
    bl_llm_value *behind = bl_llm_make(g, "less_equal($0, reshape($0, shape=[n, 1]))", ARGS(V(g->each)));
    if (window > 0) {
        seen = bl_llm_make(g, "logical_and($0, less(sub(reshape($1, shape=[rows, 1, 1, n, 1]), $2), $3))",
                           ARGS(V(seen), V(g->place), V(there), I(window)));
        behind = bl_llm_make(g, "logical_and($0, less(sub(reshape($1, shape=[n, 1]), $1), $2))",
                             ARGS(V(behind), V(g->each), I(window)));
    }
    g->there[which] = seen;
    g->behind[which] = behind;
}

static void add_angles(bl_llm_graph *g, int which, double base, bool scaled)
{
    int64_t half = g->spec.rope_size / 2;
    float *angles = bl_arena_array(g->scratch, (size_t)half, sizeof *angles);
    double factor = 1;
    if (angles == NULL || g->failed)
        return;
    if (bl_llm_rope_angles(g->source, &g->spec, base, scaled, angles, &factor, g->err) != BL_OK) {
        g->failed = true;
        return;
    }
    bl_llm_value *each = bl_llm_constant(g, which == 0 ? "rope.angles" : "rope.angles_local", 1, &half, angles);
    bl_llm_value *turn =
        bl_llm_make(g, "mul(cast(reshape($0, shape=[rows, n, 1, 1]), dtype=float32), $1)", ARGS(V(g->place), V(each)));
    g->cosines[which] = bl_llm_scale(g, bl_llm_make(g, "cos($0)", ARGS(V(turn))), factor);
    g->sines[which] = bl_llm_scale(g, bl_llm_make(g, "sin($0)", ARGS(V(turn))), factor);
}

void bl_llm_prepare_attention(bl_llm_graph *g)
{
    const bl_llm_spec *s = &g->spec;
    bool mixed = false, same = s->rope_base == s->rope_local_base;
    add_inputs(g);
    g->each = bl_llm_make(g, "arange(stop=n, dtype=int32)", NULL);
    g->place = bl_llm_make(g, "add($0, reshape($1, shape=[rows, 1]))", ARGS(V(g->each), V(g->position)));
    for (int64_t i = 0; i < s->layers; i++)
        mixed = mixed || bl_llm_has_window(s, i);
    add_masks(g, 0, 0);
    if (mixed)
        add_masks(g, 1, s->window);
    if (s->temperature_scale != 0)
        g->growth = bl_llm_make(
            g, "add(mul(log(add(floor(mul(cast(reshape($0, shape=[rows, n, 1, 1]), dtype=float32), $1)), 1)), $2), 1)",
            ARGS(V(g->place), R(1 / s->temperature_length), R(s->temperature_scale)));
    if (s->rope == BL_ROPE_NONE)
        return;
    add_angles(g, 0, s->rope_base, true);
    g->cosines[1] = g->cosines[0];
    g->sines[1] = g->sines[0];
    if (s->window_period > 0 && !same)
        add_angles(g, 1, s->rope_local_base, false);
}

/* ---- queries, keys and values */

/* x [rows, n, heads * size] or [rows, n, heads, size], normalised as the tensor of the norm says: over each head, or over all. */
static bl_llm_value *norm_heads(bl_llm_graph *g, bl_llm_value *x, const char *name, int64_t heads, int64_t size)
{
    bl_llm_value *weight = bl_llm_state(g, name, "weight");
    bool all = weight != NULL && bl_llm_size(weight, -1) == heads * size && heads > 1;
    if (weight == NULL)
        return x;
    if (all)
        x = bl_llm_make(g, "reshape($0, shape=[rows, n, $1])", ARGS(V(x), I(heads * size)));
    x = bl_llm_norm(g, x, name);
    return all ? bl_llm_make(g, "reshape($0, shape=[rows, n, $1, $2])", ARGS(V(x), I(heads), I(size))) : x;
}

/* The first rope_size elements of each head turn, pair by pair. */
static bl_llm_value *rotate(bl_llm_graph *g, bl_llm_value *x, int64_t layer, int64_t heads, int64_t size)
{
    const bl_llm_spec *s = &g->spec;
    int which = bl_llm_has_window(s, layer);
    bool pairs = s->rope == BL_ROPE_PAIRS;
    int64_t turning = s->rope_size, half = turning / 2;
    bl_llm_value *rest = NULL, *a, *b, *split;
    if (turning < size) {
        rest = bl_llm_make(g, "slice($0, start=[$1], axis=[-1])", ARGS(V(x), I(turning)));
        x = bl_llm_make(g, "slice($0, stop=[$1], axis=[-1])", ARGS(V(x), I(turning)));
    }
    split = bl_llm_make(g, "reshape($0, shape=[rows, n, $1, $2, $3])",
                        ARGS(V(x), I(heads), I(pairs ? half : 2), I(pairs ? 2 : half)));
    a = bl_llm_make(g, "squeeze(slice($0, stop=[1], axis=[$1]), axis=$1)", ARGS(V(split), I(pairs ? 4 : 3)));
    b = bl_llm_make(g, "squeeze(slice($0, start=[1], axis=[$1]), axis=$1)", ARGS(V(split), I(pairs ? 4 : 3)));
    x = bl_llm_make(g, "stack(sub(mul($0, $2), mul($1, $3)), add(mul($0, $3), mul($1, $2)), axis=$4)",
                    ARGS(V(a), V(b), V(g->cosines[which]), V(g->sines[which]), I(pairs ? 4 : 3)));
    x = bl_llm_make(g, "reshape($0, shape=[rows, n, $1, $2])", ARGS(V(x), I(heads), I(turning)));
    return rest != NULL ? bl_llm_make(g, "cat($0, $1, axis=-1)", ARGS(V(x), V(rest))) : x;
}

static bool rotates(const bl_llm_spec *s, int64_t layer)
{
    if (s->rope == BL_ROPE_NONE || ((s->arch->flags & BL_LLM_SKIP_ROPE) != 0 && layer % 4 == 3))
        return false;
    return (s->arch->flags & BL_LLM_WINDOW_ROPE) == 0 || bl_llm_has_window(s, layer);
}

/* Of queries or keys. */
static bl_llm_value *finish_heads(bl_llm_graph *g, bl_llm_value *x, const char *norm, int64_t layer, int64_t heads)
{
    const bl_llm_spec *s = &g->spec;
    const char *name = bl_llm_block(g, layer, norm);
    bool after = (s->arch->flags & BL_LLM_QK_AFTER) != 0;
    x = bl_llm_make(g, "reshape($0, shape=[rows, n, $1, $2])", ARGS(V(x), I(heads), I(s->key_size)));
    if (!after)
        x = norm_heads(g, x, name, heads, s->key_size);
    if (rotates(s, layer))
        x = rotate(g, x, layer, heads, s->key_size);
    return after ? norm_heads(g, x, name, heads, s->key_size) : x;
}

/* q, k and v [rows, n, heads * size] from one product. */
static void split_fused(bl_llm_graph *g, bl_llm_value *x, bl_llm_value **q, bl_llm_value **k, bl_llm_value **v)
{
    const bl_llm_spec *s = &g->spec;
    int64_t each = s->heads / s->groups, sizes[3] = {s->heads * s->key_size, s->groups * s->key_size, s->groups * s->value_size};
    bl_llm_value *part[3] = {NULL};
    bool grouped = g->source->gguf == NULL && (s->arch->flags & BL_LLM_HUB_GROUPED) != 0;
    int axis = -1;
    if (grouped) {
        sizes[0] = each;
        sizes[1] = sizes[2] = 1;
        axis = 3;
        x = bl_llm_make(g, "reshape($0, shape=[rows, n, $1, $2, $3])", ARGS(V(x), I(s->groups), I(each + 2), I(s->key_size)));
    }
    if (x == NULL || !bl_write_many(&g->w, "split($0, sizes=$1, axis=$2)", ARGS(V(x), IS(3, sizes), I(axis)), 3, part))
        return;
    *q = part[0];
    *k = part[1];
    *v = part[2];
}

/* ---- attention */

/* [rows, n, heads, size] as [rows, groups, heads of a group, n, size]. */
static bl_llm_value *by_groups(bl_llm_graph *g, bl_llm_value *x, int64_t each, int64_t size)
{
    return bl_llm_make(g, "permute(reshape($0, shape=[rows, n, $1, $2, $3]), axes=[0, 2, 3, 1, 4])",
                       ARGS(V(x), I(g->spec.groups), I(each), I(size)));
}

static bl_llm_value *remember(bl_llm_graph *g, const char *what, bl_llm_value *past, bl_llm_value *now, int64_t layer,
                              int64_t size)
{
    const char *name = bl_arena_printf(g->arena, "present.%s.%lld", what, (long long)layer);
    if (name != NULL)
        bl_llm_output(g, name, now);
    return bl_llm_make(g, "permute(reshape($0, shape=[rows, $1, $2, 1, $3]), axes=[0, 2, 3, 1, 4])",
                       ARGS(V(past), I(g->spec.context), I(g->spec.groups), I(size)));
}

static bl_llm_value *score(bl_llm_graph *g, bl_llm_value *q, bl_llm_value *k, bl_llm_value *mask)
{
    bl_llm_value *x = bl_llm_cap(g, bl_llm_make(g, "matmul($0, transpose($1))", ARGS(V(q), V(k))), g->spec.score_cap);
    return bl_llm_make(g, "where($0, $1, -1e30)", ARGS(V(mask), V(x)));
}

/* One softmax over the scores of what was there and of what is new, and of a sink where the block has one. */
static bl_llm_value *attend(bl_llm_graph *g, bl_llm_value *q, bl_llm_value *const *k, bl_llm_value *const *v, int64_t layer)
{
    int which = bl_llm_has_window(&g->spec, layer);
    bl_llm_value *sink = bl_llm_state(g, bl_llm_block(g, layer, "attn_sinks"), "weight");
    bl_llm_value *before = score(g, q, k[0], g->there[which]), *now = score(g, q, k[1], g->behind[which]);
    bl_llm_value *most =
        bl_llm_make(g, "maximum(max($0, axis=-1, keepdim=true), max($1, axis=-1, keepdim=true))", ARGS(V(before), V(now)));
    if (sink != NULL) {
        sink = bl_llm_make(g, "cast(reshape($0, shape=[1, $1, $2, 1, 1]), dtype=float32)",
                           ARGS(V(sink), I(g->spec.groups), I(g->spec.heads / g->spec.groups)));
        most = bl_llm_make(g, "maximum($0, $1)", ARGS(V(most), V(sink)));
    }
    before = bl_llm_make(g, "exp(sub($0, $1))", ARGS(V(before), V(most)));
    now = bl_llm_make(g, "exp(sub($0, $1))", ARGS(V(now), V(most)));
    bl_llm_value *total =
        bl_llm_make(g, "add(sum($0, axis=-1, keepdim=true), sum($1, axis=-1, keepdim=true))", ARGS(V(before), V(now)));
    if (sink != NULL)
        total = bl_llm_make(g, "add($0, exp(sub($1, $2)))", ARGS(V(total), V(sink), V(most)));
    return bl_llm_make(g, "div(add(matmul($0, $1), matmul($2, $3)), $4)", ARGS(V(before), V(v[0]), V(now), V(v[1]), V(total)));
}

bl_llm_value *bl_llm_attention(bl_llm_graph *g, bl_llm_value *x, int64_t layer)
{
    const bl_llm_spec *s = &g->spec;
    int64_t each = s->heads / s->groups;
    bl_llm_value *q = NULL, *k = NULL, *v = NULL, *keys[2], *values[2], *y;
    const char *fused = bl_llm_block(g, layer, "attn_qkv");
    if (bl_llm_has(g, fused)) {
        split_fused(g, bl_llm_linear(g, x, fused), &q, &k, &v);
    } else {
        q = bl_llm_linear(g, x, bl_llm_block(g, layer, "attn_q"));
        k = bl_llm_linear(g, x, bl_llm_block(g, layer, "attn_k"));
        v = bl_llm_linear(g, x, bl_llm_block(g, layer, "attn_v"));
    }
    q = bl_llm_scale(g, finish_heads(g, q, "attn_q_norm", layer, s->heads), s->attention_scale);
    if (s->temperature_scale != 0)
        q = bl_llm_make(g, "mul($0, $1)", ARGS(V(q), V(g->growth)));
    k = finish_heads(g, k, "attn_k_norm", layer, s->groups);
    v = bl_llm_make(g, "reshape($0, shape=[rows, n, $1, $2])", ARGS(V(v), I(s->groups), I(s->value_size)));
    keys[0] = remember(g, "keys", g->past_keys[layer], k, layer, s->key_size);
    values[0] = remember(g, "values", g->past_values[layer], v, layer, s->value_size);
    keys[1] = by_groups(g, k, 1, s->key_size);
    values[1] = by_groups(g, v, 1, s->value_size);
    y = attend(g, by_groups(g, q, each, s->key_size), keys, values, layer);
    y = bl_llm_make(g, "reshape(permute($0, axes=[0, 3, 1, 2, 4]), shape=[rows, n, $1])",
                    ARGS(V(y), I(s->heads * s->value_size)));
    return bl_llm_linear(g, y, bl_llm_block(g, layer, "attn_output"));
}
