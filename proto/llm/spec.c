/* SPDX-License-Identifier: MIT */
/* Reads the hyperparameters of a model from the row of its architecture and from the keys of its files. */
#include "proto/llm/importer.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = 256,
    ROWS = 32,
    POOL_BYTES = 64 << 20 /* least size of the KV cache, unless all rows with a full context need less */,
    MOST_LAYERS = 1024,
    MOST_EXPERTS = 4096,
    MOST_SIZE = 1 << 20,
    MOST_ROPE = 4096
};

static const bl_llm_arch archs[] = {
#define BL_LLM(name, hub, rope, act, period, flags) {name, hub, BL_ROPE_##rope, BL_ACT_##act, period, flags},
#include "proto/llm/archs.def"
#undef BL_LLM
};

bool bl_llm_has_word(const char *words, bl_span word)
{
    while (*(words += strspn(words, " ")) != '\0') {
        size_t n = strcspn(words, " ");
        if (n == word.len && memcmp(words, word.data, n) == 0)
            return true;
        words += n;
    }
    return false;
}

const bl_llm_arch *bl_llm_arch_find(bl_span name, bool hub)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (bl_llm_has_word(hub ? archs[i].hub : archs[i].name, name))
            return &archs[i];
    return NULL;
}

/* ---- numbers */

typedef struct reading {
    bl_llm_source *source;
    bl_err *err;
} reading;

static double number_or(const reading *r, const char *key, double preset)
{
    double value = preset;
    return bl_llm_number(r->source, key, 0, &value) ? value : preset;
}

/* Reads an integer from 1 to |most|; |preset| is the default, 0: the key is required. */
static bl_status spec_read_size(const reading *r, const char *key, int64_t preset, int64_t most, int64_t *out)
{
    double value = 0;
    *out = preset;
    if (!bl_llm_number(r->source, key, 0, &value))
        return preset != 0 ? BL_OK
                           : bl_fail(r->err, BL_EINVAL, "the key \"%.*s.%s\" is missing", (int)r->source->arch.len,
                                     r->source->arch.data, key);
    if (!(value >= 1 && value <= (double)most) || value != floor(value))
        return bl_fail(r->err, BL_EINVAL, "the key \"%.*s.%s\" is %g; it must be a whole number from 1 to %lld",
                       (int)r->source->arch.len, r->source->arch.data, key, value, (long long)most);
    *out = (int64_t)value;
    return BL_OK;
}

/* Reads a number that a file may give for each block; fails if blocks differ. */
static bl_status read_same(const reading *r, const char *key, int64_t layers, int64_t preset, int64_t *out)
{
    double value = 0;
    BL_TRY(spec_read_size(r, key, preset, MOST_SIZE, out));
    for (int64_t i = 0; i < layers && bl_llm_number(r->source, key, (int)i, &value); i++)
        if (value != (double)*out)
            return bl_fail(r->err, BL_EUNSUPPORTED,
                           "the key \"%.*s.%s\" has %g for block %lld and %lld for block 0; blocks must be alike",
                           (int)r->source->arch.len, r->source->arch.data, key, value, (long long)i, (long long)*out);
    return BL_OK;
}

/* ---- parts */

static bl_status read_heads(const reading *r, bl_llm_spec *s)
{
    int64_t heads_size;
    BL_TRY(read_same(r, "attention.head_count", s->layers, 0, &s->heads));
    BL_TRY(read_same(r, "attention.head_count_kv", s->layers, s->heads, &s->groups));
    heads_size = s->width / s->heads;
    BL_TRY(spec_read_size(r, "attention.key_length", heads_size > 0 ? heads_size : 1, MOST_SIZE, &s->key_size));
    BL_TRY(spec_read_size(r, "attention.value_length", s->key_size, MOST_SIZE, &s->value_size));
    if (s->heads % s->groups != 0)
        return bl_fail(r->err, BL_EINVAL, "attention.head_count is %lld; it must be a multiple of attention.head_count_kv, %lld",
                       (long long)s->heads, (long long)s->groups);
    return BL_OK;
}

/* The present epsilon decides between RMS norms and layer norms.  If a file has both, norms with a bias are layer norms
 * (nemotron), and norms without a bias are RMS norms (exaone). */
static bl_status read_norm(const reading *r, bl_llm_spec *s)
{
    double root = 0, centred = 0;
    bool has_root = bl_llm_number(r->source, "attention.layer_norm_rms_epsilon", 0, &root);
    bool has_centred = bl_llm_number(r->source, "attention.layer_norm_epsilon", 0, &centred);
    if (!has_root && !has_centred && (s->arch->flags & BL_LLM_BARE_NORM) == 0)
        return bl_fail(r->err, BL_EINVAL, "attention.layer_norm_rms_epsilon or attention.layer_norm_epsilon is missing");
    s->rms = has_root && (!has_centred || bl_llm_find_tensor(r->source, "output_norm.bias") == NULL);
    s->eps = s->rms ? root : has_centred ? centred : 1e-5;
    return s->eps >= 0 && s->eps < 1 ? BL_OK
                                     : bl_fail(r->err, BL_EINVAL, "the epsilon of norms is %g; it must be from 0 to 1", s->eps);
}

static bl_status spec_read_rope(const reading *r, bl_llm_spec *s)
{
    const bl_llm_arch *row = s->arch;
    s->rope = row->rope == BL_ROPE_PERMUTED ? r->source->gguf != NULL ? BL_ROPE_PAIRS : BL_ROPE_HALVES : row->rope;
    BL_TRY(spec_read_size(r, "rope.dimension_count", s->key_size, MOST_ROPE, &s->rope_size));
    s->rope_base = number_or(r, "rope.freq_base", 10000);
    s->rope_local_base =
        number_or(r, "rope.freq_base_swa", s->window_period > 0 && (row->flags & BL_LLM_EMBED_SQRT) != 0 ? 10000 : s->rope_base);
    if (s->rope_size % 2 != 0 || s->rope_size > s->key_size)
        return bl_fail(r->err, BL_EINVAL, "rope.dimension_count is %lld; it must be even and at most the size of a head, %lld",
                       (long long)s->rope_size, (long long)s->key_size);
    if (!(s->rope_base > 0 && s->rope_base < 1e12))
        return bl_fail(r->err, BL_EINVAL, "rope.freq_base is %g; it must be above 0", s->rope_base);
    return BL_OK;
}

static bl_status read_experts(const reading *r, bl_llm_spec *s)
{
    double gating = number_or(r, "expert_gating_func", 0);
    double experts = number_or(r, "expert_count", 0), used = number_or(r, "expert_used_count", 0);
    s->experts_norm = number_or(r, "expert_weights_norm", (s->arch->flags & BL_LLM_EXPERTS_NORM) != 0) != 0;
    s->experts_scale = number_or(r, "expert_weights_scale", 1);
    s->experts_scale = s->experts_scale == 0 ? 1 : s->experts_scale;
    s->experts_sigmoid = gating == 2; /* llama.cpp's numbers: 1 softmax, 2 sigmoid, 3 softmax of the chosen experts */
    if (gating < 0 || gating > 3)
        return bl_fail(r->err, BL_EUNSUPPORTED, "expert_gating_func is %g; it must be 1, 2 or 3", gating);
    if (!(experts >= 0 && experts <= MOST_EXPERTS && used >= 0 && used <= experts) || (experts > 0 && used < 1))
        return bl_fail(r->err, BL_EINVAL,
                       "expert_used_count is %g and expert_count is %g; of up to %d experts at least one must be used", used,
                       experts, MOST_EXPERTS);
    s->experts = (int64_t)experts;
    s->experts_used = (int64_t)used;
    return BL_OK;
}

static bl_status spec_read_scales(const reading *r, bl_llm_spec *s)
{
    static const char *const needed[] = {"embedding_scale", "residual_scale", "logit_scale"};
    const unsigned flags = s->arch->flags;
    double value;
    for (size_t i = 0; (flags & BL_LLM_NEEDS_SCALES) != 0 && i < sizeof needed / sizeof needed[0]; i++)
        if (!bl_llm_number(r->source, needed[i], 0, &value))
            return bl_fail(r->err, BL_EINVAL, "the key \"%s.%s\" is missing; convert the model anew", s->arch->name, needed[i]);
    s->attention_scale = number_or(r, "attention.scale", 0);
    if (s->attention_scale == 0)
        s->attention_scale = 1 / sqrt((double)s->key_size);
    s->embedding_scale = number_or(r, "embedding_scale", (flags & BL_LLM_EMBED_SQRT) != 0 ? sqrt((double)s->width) : 1);
    s->residual_scale = number_or(r, "residual_scale", 1);
    s->logit_scale = number_or(r, "logit_scale", 1);
    s->logit_scale = s->logit_scale == 0 ? 1 : s->logit_scale;
    s->residual_scale = s->residual_scale == 0 ? 1 : s->residual_scale;
    s->embedding_scale = s->embedding_scale == 0 ? 1 : s->embedding_scale;
    if ((flags & BL_LLM_LOGIT_DIVIDED) != 0)
        s->logit_scale = 1 / s->logit_scale;
    s->temperature_scale = number_or(r, "attention.temperature_scale", 0);
    s->temperature_length =
        number_or(r, "attention.temperature_length", number_or(r, "rope.scaling.original_context_length", 8192));
    s->score_cap = number_or(r, "attn_logit_softcapping", 0);
    s->logit_cap = number_or(r, "final_logit_softcapping", 0);
    return BL_OK;
}

/* Some files have a flag for each block: 1 for a sliding window, 0 for full attention.  Converts the flags to a period whose
 * last block has full attention; period 0: all blocks have a window. */
static bl_status read_window_flags(const reading *r, bl_llm_spec *s)
{
    double flag = 1;
    int first = -1;
    for (int i = 0; i < s->layers && bl_llm_number(r->source, "attention.sliding_window_pattern", i, &flag); i++)
        if (flag == 0 && first < 0)
            first = i;
    s->window_period = first + 1;
    if (first == 0)
        s->window = 0;
    for (int i = 0; i < s->layers && bl_llm_number(r->source, "attention.sliding_window_pattern", i, &flag); i++)
        if ((flag != 0) != bl_llm_has_window(s, i))
            return bl_fail(
                r->err, BL_EUNSUPPORTED,
                "attention.sliding_window_pattern: blocks without a window must be the last of each period, but block %d is not",
                i);
    return BL_OK;
}

static bl_status read_window(const reading *r, bl_llm_spec *s)
{
    double window = number_or(r, "attention.sliding_window", 0), period = 0;
    bool counts = s->arch->window_period > 0 || (s->arch->flags & BL_LLM_WINDOWED) != 0 || r->source->gguf == NULL;
    bool said = bl_llm_number(r->source, "attention.sliding_window_pattern", 0, &period);
    if (!(window >= 0 && window <= (double)INT32_MAX))
        return bl_fail(r->err, BL_EINVAL, "attention.sliding_window is %g; it must be at least 0", window);
    counts = counts && number_or(r, "attention.no_window", 0) == 0;
    s->window = counts ? (int64_t)window : 0;
    s->window_period = said && period >= 2 && period <= MOST_LAYERS ? (int)period : s->arch->window_period;
    return s->window > 0 && said && period < 2 ? read_window_flags(r, s) : BL_OK;
}

/* Chooses the dtype and the pages of the KV cache: float32 if blk.0.ffn_down.weight is F32 or missing, else float16.  The pages
 * hold at least one text with a full context, and more texts within POOL_BYTES. */
static void size_pages(const reading *r, bl_llm_spec *s)
{
    const bl_llm_tensor *tensor = bl_llm_find_tensor(r->source, "blk.0.ffn_down.weight");
    int64_t one = (s->context + BL_LLM_PAGE - 1) / BL_LLM_PAGE, bytes;
    s->kv_dtype = tensor == NULL || tensor->type->id == BL_GGML_F32 ? BL_F32 : BL_F16;
    bytes = s->layers * s->groups * (s->key_size + s->value_size) * BL_LLM_PAGE * (int64_t)bl_dtype_bytes(s->kv_dtype);
    s->pool = POOL_BYTES / bytes;
    if (s->pool > one * s->rows)
        s->pool = one * s->rows;
    if (s->pool < one)
        s->pool = one;
}

/* Decides whether the model is an embedding model, and its pooling: from the options, else from the files, else mean for an
 * encoder. */
static bl_status spec_read_pooling(const reading *r, const bl_llm_options *options, bl_llm_spec *s)
{
    static const char *const names[BL_POOLINGS] = {"none", "mean", "cls", "last"};
    const bool encoder = (s->arch->flags & BL_LLM_ENCODER) != 0;
    double said = -1;
    s->causal = number_or(r, "attention.causal", !encoder) != 0;
    (void)bl_llm_number(r->source, "pooling_type", 0, &said);
    for (int i = 0; options->pooling != NULL && i < BL_POOLINGS; i++)
        if (strcmp(options->pooling, names[i]) == 0)
            said = i;
    s->embeds = encoder || said > 0 || options->pooling != NULL;
    if (s->embeds && (said >= BL_POOLINGS || said != floor(said)))
        return bl_fail(r->err, BL_EUNSUPPORTED, "pooling_type is %g%s; 0 (none), 1 (mean), 2 (cls) and 3 (last) are supported",
                       said, said == 4 ? " (rank: the model compares texts)" : "");
    s->pooling = said >= 0 && said < BL_POOLINGS ? (bl_llm_pooling)said : BL_POOLING_MEAN;
    if (!s->embeds && !s->causal)
        return bl_fail(
            r->err, BL_EUNSUPPORTED,
            "attention.causal is false and pooling_type is missing: the parameter \"pooling\" says what a vector is made of");
    return BL_OK;
}

/* Reads the activation of a folder.  Gemma's activation comes from its row, since old files of Gemma name another one. */
static bl_status spec_read_act(const reading *r, bl_llm_spec *s)
{
    static const struct {
        const char *names;
        bl_llm_act act;
    } rows[] = {{"silu swish swiglu", BL_ACT_SILU},
                {"gelu", BL_ACT_GELU},
                {"gelu_new gelu_pytorch_tanh gelu_fast", BL_ACT_GELU_TANH},
                {"relu2", BL_ACT_RELU2}};
    bl_span name;
    if (!bl_llm_text(r->source, "hidden_act", &name) || s->act == BL_ACT_SWIGLU_CLAMPED ||
        (s->arch->flags & BL_LLM_EMBED_SQRT) != 0)
        return BL_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        s->act = rows[i].act;
        if (bl_llm_has_word(rows[i].names, name))
            return BL_OK;
    }
    return bl_fail(r->err, BL_EUNSUPPORTED, "hidden_act is \"%.*s\"; silu, gelu, gelu_new and relu2 are supported",
                   (int)(name.len < 40 ? name.len : 40), name.data);
}

static bl_status spec_read_sizes(const reading *r, const bl_llm_options *options, bl_llm_spec *s)
{
    const bl_llm_tensor *embed = bl_llm_find_tensor(r->source, "token_embd.weight");
    const bl_llm_tensor *places = bl_llm_find_tensor(r->source, "position_embd.weight");
    BL_TRY(spec_read_size(r, "block_count", 0, MOST_LAYERS, &s->layers));
    BL_TRY(spec_read_size(r, "embedding_length", 0, MOST_SIZE, &s->width));
    BL_TRY(spec_read_size(r, "context_length", 0, (int64_t)1 << 40, &s->trained_context));
    if (embed == NULL || embed->ndim != 2)
        return bl_fail(r->err, BL_EINVAL, "the matrix \"token_embd.weight\" is missing");
    if (embed->dim[0] != s->width)
        return bl_fail(r->err, BL_EINVAL, "\"token_embd.weight\" has rows of %lld, but embedding_length is %lld",
                       (long long)embed->dim[0], (long long)s->width);
    s->vocabulary = embed->dim[1];
    s->context = options->context > 0                  ? options->context
                 : s->trained_context < BL_LLM_CONTEXT ? s->trained_context
                                                       : BL_LLM_CONTEXT;
    if (places != NULL && places->ndim == 2 &&
        places->dim[1] < s->context) /* the table of position embeddings has no further positions */
        s->context = places->dim[1];
    s->rows = options->rows > 0 ? options->rows : ROWS;
    s->chunk = options->chunk > 0 ? options->chunk : CHUNK;
    s->chunk = s->chunk < s->context ? s->chunk : s->context;
    return BL_OK;
}

bl_status bl_llm_read_spec(bl_llm_source *source, const bl_llm_options *options, bl_llm_spec *out, bl_err *err)
{
    reading r = {source, err};
    *out = (bl_llm_spec){.arch = source->row, .act = source->row->act};
    BL_TRY(spec_read_sizes(&r, options, out));
    BL_TRY(read_heads(&r, out));
    BL_TRY(read_norm(&r, out));
    BL_TRY(read_window(&r, out));
    BL_TRY(spec_read_rope(&r, out));
    BL_TRY(read_experts(&r, out));
    size_pages(&r, out);
    BL_TRY(spec_read_scales(&r, out));
    BL_TRY(spec_read_act(&r, out));
    BL_TRY(spec_read_pooling(&r, options, out));
    out->parallel = number_or(&r, "use_parallel_residual", (source->row->flags & BL_LLM_PARALLEL) != 0) != 0;
    return BL_OK;
}

/* ---- rotary position embedding */

/* The index of the pair that rotates |rotations| times over the trained context, for YaRN (Peng et al. 2023).  Between two such
 * indices the angles blend from unscaled to interpolated. */
static double yarn_edge(double rotations, const bl_llm_spec *s, double base, double trained)
{
    return (double)s->rope_size * log(trained / (rotations * 2 * M_PI)) / (2 * log(base));
}

static double yarn_scale(double factor, double by)
{
    return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

/* The factor of cosines and sines.  A folder's attention factor is the whole factor; GGUF's attn_factor multiplies YaRN's own
 * factor. */
static double yarn_factor(const reading *r, double factor)
{
    double set = number_or(r, "rope.scaling.attn_factor", 0), by = number_or(r, "rope.scaling.yarn_log_multiplier", 0);
    if (set > 0 && r->source->gguf == NULL)
        return set;
    return (set > 0 ? set : 1) * yarn_scale(factor, 1) / (by != 0 ? yarn_scale(factor, by) : 1);
}

static void apply_yarn(const reading *r, const bl_llm_spec *s, double base, double factor, float *angles, double *mscale)
{
    double trained = number_or(r, "rope.scaling.original_context_length", (double)s->trained_context);
    double fast = number_or(r, "rope.scaling.yarn_beta_fast", 32), slow = number_or(r, "rope.scaling.yarn_beta_slow", 1);
    double low = yarn_edge(fast, s, base, trained), high = yarn_edge(slow, s, base, trained);
    if (number_or(r, "rope.scaling.yarn_truncate", 1) != 0) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(0, low);
    high = fmin((double)s->rope_size - 1, high);
    for (int64_t i = 0; i < s->rope_size / 2; i++) {
        double ramp = fmin(1, fmax(0, ((double)i - low) / fmax(0.001, high - low)));
        angles[i] = (float)(angles[i] * (ramp / factor + 1 - ramp));
    }
    *mscale = yarn_factor(r, factor);
}

/* Divides the angles by the factors of Llama 3.1 or LongRoPE: the key |key| of a folder, the tensor |name| of a GGUF file. */
static bl_status divide_angles(const reading *r, const bl_llm_spec *s, const char *name, const char *key, float *angles)
{
    const bl_llm_tensor *factors = bl_llm_find_tensor(r->source, name);
    float factor;
    double value;
    for (int64_t i = 0; r->source->gguf == NULL && i < s->rope_size / 2 && bl_llm_number(r->source, key, (int)i, &value); i++)
        angles[i] = (float)(angles[i] / value);
    if (factors == NULL)
        return BL_OK;
    if (factors->type->id != BL_GGML_F32 || factors->ndim != 1 || factors->dim[0] != s->rope_size / 2)
        return bl_fail(r->err, BL_EINVAL, "\"%s\" must be %lld numbers of F32", name, (long long)s->rope_size / 2);
    for (int64_t i = 0; i < s->rope_size / 2; i++) {
        memcpy(&factor, factors->parts[0].data + (size_t)i * sizeof factor, sizeof factor);
        angles[i] /= factor;
    }
    return BL_OK;
}

bl_status bl_llm_rope_angles(bl_llm_source *source, const bl_llm_spec *spec, double base, bool scaled, float *angles,
                             double *factor, bl_err *err)
{
    reading r = {source, err};
    bl_span type = {"none", 4};
    double by = number_or(&r, "rope.scaling.factor", 1),
           trained = number_or(&r, "rope.scaling.original_context_length", (double)spec->trained_context);
    bool longer = (double)spec->context > trained;
    *factor = 1;
    (void)bl_llm_text(source, "rope.scaling.type", &type);
    if (by == 0)
        by = 1;
    if (type.len == 0)
        type = (bl_span){"none", 4};
    for (int64_t i = 0; i < spec->rope_size / 2; i++)
        angles[i] = (float)pow(base, -2 * (double)i / (double)spec->rope_size);
    if (scaled && bl_llm_has_word("linear", type)) {
        for (int64_t i = 0; i < spec->rope_size / 2; i++)
            angles[i] = (float)(angles[i] / by);
    } else if (scaled && bl_llm_has_word("yarn", type)) {
        apply_yarn(&r, spec, base, by, angles, factor);
    } else if (scaled && bl_llm_has_word("longrope", type)) {
        double longer_by = (double)spec->trained_context / trained;
        *factor = number_or(&r, "rope.scaling.attn_factor", longer_by > 1 ? sqrt(1 + log(longer_by) / log(trained)) : 1);
    } else if (bl_llm_has_word("dynamic", type)) { /* changes the angles only beyond the trained context */
        if (spec->context > spec->trained_context)
            return bl_fail(err, BL_EUNSUPPORTED,
                           "rope.scaling.type is \"dynamic\", and the context is %lld; it must be at most what was trained, %lld",
                           (long long)spec->context, (long long)spec->trained_context);
    } else if (!bl_llm_has_word("none linear yarn longrope", type)) {
        return bl_fail(err, BL_EUNSUPPORTED,
                       "rope.scaling.type is \"%.*s\"; none, linear, yarn, longrope and dynamic are supported",
                       (int)(type.len < 40 ? type.len : 40), type.data);
    }
    (void)bl_llm_find_tensor(source, longer ? "rope_factors_short.weight" : "rope_factors_long.weight");
    BL_TRY(divide_angles(&r, spec, longer ? "rope_factors_long.weight" : "rope_factors_short.weight",
                         longer ? "rope.long_factors" : "rope.short_factors", angles));
    return divide_angles(&r, spec, "rope_freqs.weight", "rope.factors", angles);
}
