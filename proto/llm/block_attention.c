/* SPDX-License-Identifier: MIT */
/* Causal attention of a block over a paged KV cache (its form: server/models/pages.h). */
#include "proto/llm/importer.h"

/* ---- inputs, rotary angles and masks, shared by all blocks */

static bl_wire_type named_type(bl_dtype dtype, int ndim, const int64_t *size)
{
    bl_wire_type type = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        type.dim[i] = size[i] > 0 ? (bl_wire_dim){size[i], -1} : (bl_wire_dim){0, (int)-size[i]};
    return type;
}

/* A size of an input is a number, or the negative of a named dimension (BL_LLM_VARS). */
enum { ROWS = -BL_LLM_ROWS, N = -BL_LLM_N, PAGES = -BL_LLM_PAGES };

static void block_attention_add_inputs(bl_llm_graph *g)
{
    bl_wire_type tokens = named_type(BL_I32, 2, (const int64_t[]){ROWS, N}),
                 position = named_type(BL_I32, 1, (const int64_t[]){ROWS});
    bl_wire_type table = named_type(BL_I32, 2, (const int64_t[]){ROWS, PAGES});
    g->tokens = bl_llm_input(g, "tokens", &tokens);
    g->position = bl_llm_input(g, "position", &position);
    g->slots = bl_llm_input(g, "slots", &tokens);
    g->table = bl_llm_input(g, "table", &table);
    g->slots = bl_llm_make(g, "reshape($0, shape=[-1])", ARGS(V(g->slots)));
}

/* The causal mask [rows, 1, 1, n, pages, 32]: a token attends to the positions up to its own and inside its sliding window. */
static void add_mask(bl_llm_graph *g, int which, int64_t window)
{
    bl_llm_value *at = bl_llm_make(g, "reshape($0, shape=[rows, 1, 1, n, 1, 1])", ARGS(V(g->place)));
    bl_llm_value *seen = bl_llm_make(g, "less_equal($0, $1)", ARGS(V(g->places), V(at)));
    if (window > 0)
        seen = bl_llm_make(g, "logical_and($0, less(sub($1, $2), $3))", ARGS(V(seen), V(at), V(g->places), I(window)));
    g->seen[which] = seen;
}

static void add_places(bl_llm_graph *g)
{
    bl_llm_value *last;
    g->each = bl_llm_make(g, "arange(stop=n, dtype=int32)", NULL);
    g->place = bl_llm_make(g, "add($0, reshape($1, shape=[rows, 1]))", ARGS(V(g->each), V(g->position)));
    g->places =
        bl_llm_make(g, "add(mul(reshape(arange(stop=pages, dtype=int32), shape=[pages, 1]), $0), arange(stop=$0, dtype=int32))",
                    ARGS(I(BL_LLM_PAGE)));
    last =
        bl_llm_make(g, "reshape(slice($0, start=[$1], axis=[1]), shape=[rows, 1, 1, 1, 1, 1, 1])", ARGS(V(g->place), T("n - 1")));
    g->written = bl_llm_make(g, "less_equal(reshape($0, shape=[pages, $2, 1]), $1)", ARGS(V(g->places), V(last), I(BL_LLM_PAGE)));
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
    for (int64_t i = 0; i < s->layers; i++)
        mixed = mixed || bl_llm_has_window(s, i);
    if (s->embeds) {
        bl_llm_prepare_texts(g, mixed);
    } else {
        block_attention_add_inputs(g);
        add_places(g);
        add_mask(g, 0, 0);
        if (mixed)
            add_mask(g, 1, s->window);
    }
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

/* Normalises x [rows, n, heads * size] or [rows, n, heads, size].  The size of the norm's weight decides whether the norm
 * covers each head or all heads together. */
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

/* Rotary position embedding of the first rope_size elements of each head. */
static bl_llm_value *block_attention_rotate(bl_llm_graph *g, bl_llm_value *x, int64_t layer, int64_t heads, int64_t size)
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
    return (s->arch->flags & BL_LLM_WINDOW_ROPE) == 0 || s->window == 0 || bl_llm_has_window(s, layer);
}

/* Shapes queries or keys as heads, normalises and rotates them. */
static bl_llm_value *finish_heads(bl_llm_graph *g, bl_llm_value *x, const char *norm, int64_t layer, int64_t heads)
{
    const bl_llm_spec *s = &g->spec;
    const char *name = bl_llm_block(g, layer, norm);
    bool after = (s->arch->flags & BL_LLM_QK_AFTER) != 0;
    x = bl_llm_make(g, "reshape($0, shape=[rows, n, $1, $2])", ARGS(V(x), I(heads), I(s->key_size)));
    if (!after)
        x = norm_heads(g, x, name, heads, s->key_size);
    if (rotates(s, layer))
        x = block_attention_rotate(g, x, layer, heads, s->key_size);
    return after ? norm_heads(g, x, name, heads, s->key_size) : x;
}

/* Splits the fused projection |x| into q, k and v [rows, n, heads * size]. */
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

/* Appends the new keys or values |now| [rows, n, groups, size] to the paged KV cache at |slots| and returns the pages of each
 * text, by |table|.  The cache is a state of the program and is updated in place.  Keys have the layout
 * [pool, groups, size, 32], so that the scores of a page are contiguous; values have the layout [pool, groups, 32, size]. */
static bl_llm_value *block_attention_remember(bl_llm_graph *g, bool keys, bl_llm_value *now, int64_t layer, int64_t size)
{
    const bl_llm_spec *s = &g->spec;
    const char *name = bl_arena_printf(g->arena, "kv.%lld.%s", (long long)layer, keys ? "k" : "v");
    bl_tensor_value zeros = {.kind = BL_VALUE_ZEROS,
                             .dtype = s->kv_dtype,
                             .ndim = 4,
                             .dim = {s->pool, s->groups, keys ? size : BL_LLM_PAGE, keys ? BL_LLM_PAGE : size}};
    const int64_t there[4] = {0, keys ? 3 : 2, 1, keys ? 2 : 3}, back[4] = {0, 2, keys ? 3 : 1, keys ? 1 : 3};
    bl_llm_value *state, *put;
    if (name == NULL || now == NULL || g->failed)
        return NULL;
    if (bl_tensor_measure(name, zeros.dtype, zeros.ndim, zeros.dim, &g->options->limits, &zeros.count, &zeros.bytes, g->err) !=
        BL_OK)
        return bl_llm_stop(g, BL_ELIMIT, "keys and values");
    state = bl_llm_add_state(g, name, &zeros);
    now = bl_llm_make(g, "cast(reshape($0, shape=[-1, $1, $2]), dtype=$3)", ARGS(V(now), I(s->groups), I(size), D(s->kv_dtype)));
    put = bl_llm_make(g, "index_put(reshape(permute($0, axes=$1), shape=[$2, $3, $4]), $5, $6)",
                      ARGS(V(state), IS(4, there), I(s->pool * BL_LLM_PAGE), I(s->groups), I(size), V(now), V(g->slots)));
    state = bl_llm_make(g, "permute(reshape($0, shape=[$1, $2, $3, $4]), axes=$5)",
                        ARGS(V(put), I(s->pool), I(BL_LLM_PAGE), I(s->groups), I(size), IS(4, back)));
    bl_llm_update(g, name, state);
    return bl_llm_make(g, "cast(take($0, $1), dtype=float32)", ARGS(V(state), V(g->table)));
}

/* Attention weights [rows, groups, heads per group, n, pages, 32]: a softmax over the masked scores and the attention sinks. */
static bl_llm_value *block_attention_weigh(bl_llm_graph *g, bl_llm_value *scores, int64_t layer)
{
    const bl_llm_spec *s = &g->spec;
    bl_llm_value *sink = bl_llm_state(g, bl_llm_block(g, layer, "attn_sinks"), "weight"), *most, *total;
    scores = bl_llm_make(g, "where($0, $1, -1e30)",
                         ARGS(V(g->seen[bl_llm_has_window(s, layer)]), V(bl_llm_cap(g, scores, s->score_cap))));
    most = bl_llm_make(g, "max($0, axis=[4, 5], keepdim=true)", ARGS(V(scores)));
    if (sink != NULL) {
        sink = bl_llm_make(g, "cast(reshape($0, shape=[1, $1, $2, 1, 1, 1]), dtype=float32)",
                           ARGS(V(sink), I(s->groups), I(s->heads / s->groups)));
        most = bl_llm_make(g, "maximum($0, $1)", ARGS(V(most), V(sink)));
    }
    scores = bl_llm_make(g, "exp(sub($0, $1))", ARGS(V(scores), V(most)));
    total = bl_llm_make(g, "sum($0, axis=[4, 5], keepdim=true)", ARGS(V(scores)));
    if (sink != NULL)
        total = bl_llm_make(g, "add($0, exp(sub($1, $2)))", ARGS(V(total), V(sink), V(most)));
    return bl_llm_make(g, "div($0, $1)", ARGS(V(scores), V(total)));
}

/* Grouped-query attention of q [rows, n, heads, size] to k and v [rows, n, groups, size]; returns [rows, n, heads * size]. */
static bl_llm_value *attend(bl_llm_graph *g, bl_llm_value *q, bl_llm_value *k, bl_llm_value *v, int64_t layer)
{
    const bl_llm_spec *s = &g->spec;
    int64_t each = s->heads / s->groups;
    bl_llm_value *keys = block_attention_remember(g, true, k, layer, s->key_size),
                 *values = block_attention_remember(g, false, v, layer, s->value_size), *weights;
    q = bl_llm_make(
        g, "reshape(permute(reshape($0, shape=[rows, n, $1, $2, $3]), axes=[0, 2, 3, 1, 4]), shape=[rows, $1, $2, n, $3, 1, 1])",
        ARGS(V(q), I(s->groups), I(each), I(s->key_size)));
    keys = bl_llm_make(g, "reshape(permute($0, axes=[0, 2, 3, 1, 4]), shape=[rows, $1, 1, 1, $2, pages, $3])",
                       ARGS(V(keys), I(s->groups), I(s->key_size), I(BL_LLM_PAGE)));
    values = bl_llm_make(g, "reshape(permute($0, axes=[0, 2, 1, 3, 4]), shape=[rows, $1, 1, 1, pages, $2, $3])",
                         ARGS(V(values), I(s->groups), I(BL_LLM_PAGE), I(s->value_size)));
    values = bl_llm_make(g, "where($0, $1, 0)", ARGS(V(g->written), V(values)));
    weights = block_attention_weigh(g, bl_llm_make(g, "sum(mul($0, $1), axis=4)", ARGS(V(q), V(keys))), layer);
    bl_llm_value *y = bl_llm_make(g, "sum(mul(unsqueeze($0, axis=-1), $1), axis=[4, 5])", ARGS(V(weights), V(values)));
    return bl_llm_make(g, "reshape(permute($0, axes=[0, 3, 1, 2, 4]), shape=[rows, n, $1])",
                       ARGS(V(y), I(s->heads * s->value_size)));
}

bl_llm_value *bl_llm_attention(bl_llm_graph *g, bl_llm_value *x, int64_t layer)
{
    const bl_llm_spec *s = &g->spec;
    bl_llm_value *q = NULL, *k = NULL, *v = NULL;
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
    x = s->embeds ? bl_llm_attend_texts(g, q, k, v, layer) : attend(g, q, k, v, layer);
    return bl_llm_linear(g, x, bl_llm_block(g, layer, "attn_output"));
}
