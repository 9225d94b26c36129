/* SPDX-License-Identifier: MIT */
/* Reads a Hugging Face folder as a source with GGUF's names.  hub.def maps names of tensors and members of config.json. */
#include "proto/llm/importer.h"

#include "proto/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 4096, NAME = 200 };

typedef struct hub {
    bl_llm_source *source;
    bl_arena *arena;
    bl_json config;
    bl_err *err;
} hub;

/* ---- keys */

static bl_status add_key(hub *h, const bl_llm_key *key)
{
    void *keys = h->source->keys;
    if (!bl_arena_reserve(h->arena, &keys, h->source->nkeys, &h->source->key_cap, sizeof *key))
        return bl_arena_status(h->arena, h->err);
    h->source->keys = keys;
    h->source->keys[h->source->nkeys++] = *key;
    return BL_OK;
}

static bl_status add_number(hub *h, const char *name, double value)
{
    double *kept = bl_arena_alloc(h->arena, sizeof *kept);
    if (kept == NULL)
        return bl_arena_status(h->arena, h->err);
    *kept = value;
    return add_key(h, &(bl_llm_key){.name = name, .count = 1, .number = kept});
}

/* Reads a number, or a bool as 1 or 0.  False if |at| is of another kind, such as null. */
static bool json_number(const bl_json *at, double *out)
{
    bl_wire_number number;
    bl_err ignored = {0};
    if (at->kind == BL_JSON_BOOL) {
        *out = at->boolean;
        return true;
    }
    if (at->kind != BL_JSON_NUMBER || bl_json_number(at, &number, &ignored) != BL_OK)
        return false;
    *out = number.value;
    return true;
}

static bool hub_find_number(const bl_json *object, const char *name, double *out)
{
    bl_json at;
    return bl_json_find(object, name, &at) && json_number(&at, out);
}

static bl_status read_plain_keys(hub *h)
{
    static const struct {
        const char *names, *ours;
    } rows[] = {
#define BL_HUB_TENSOR(name, ours, models)
#define BL_HUB_BLOCK(name, ours, models)
#define BL_HUB_KEY(names, ours) {names, ours},
#define BL_HUB_MUST(name, value)
#define BL_HUB_IGNORED(names)
#include "proto/llm/hub.def"
#undef BL_HUB_KEY
#undef BL_HUB_MUST
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *at = rows[i].names;
        for (size_t n; *rows[i].ours != '\0' && *(at += strspn(at, " ")) != '\0'; at += n) {
            double value;
            n = strcspn(at, " ");
            const char *name = bl_arena_strndup(h->arena, at, n);
            if (name != NULL && hub_find_number(&h->config, name, &value))
                BL_TRY(add_number(h, rows[i].ours, value));
        }
    }
    return BL_OK;
}

/* Accepts quantised weights only of gpt_oss with the quant_method mxfp4. */
static bl_status check_quantization(hub *h)
{
    bl_json at, method;
    if (!bl_json_find(&h->config, "quantization_config", &at) || at.kind == BL_JSON_NULL)
        return BL_OK;
    if (bl_span_is(h->source->arch, "gpt_oss") && bl_json_find(&at, "quant_method", &method) && method.kind == BL_JSON_STRING &&
        bl_span_is(method.text, "mxfp4"))
        return BL_OK;
    return bl_json_fail(
        &at, h->err, BL_EUNSUPPORTED,
        "of quantised folders only those of gpt_oss with the quant_method mxfp4 are supported; use a GGUF file of the model");
}

static bl_status check_must(hub *h)
{
    static const struct {
        const char *name, *value;
    } rows[] = {
#define BL_HUB_KEY(names, ours)
#define BL_HUB_MUST(name, value) {name, value},
#include "proto/llm/hub.def"
#undef BL_HUB_KEY
#undef BL_HUB_MUST
    };
    bl_json at;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = 0, wanted = strcmp(rows[i].value, "true") == 0 ? 1 : strtod(rows[i].value, NULL);
        if (!bl_json_find(&h->config, rows[i].name, &at) || at.kind == BL_JSON_NULL)
            continue;
        bool empty = at.kind == BL_JSON_ARRAY && bl_json_count(&at) == 0 && strcmp(rows[i].value, "[]") == 0;
        bool number = json_number(&at, &value) && strcmp(rows[i].value, "null") != 0;
        bool text = at.kind == BL_JSON_STRING && bl_span_is(at.text, rows[i].value);
        if (!empty && !text && (!number || value != wanted))
            return bl_json_fail(&at, h->err, BL_EUNSUPPORTED, "must be %s or absent", rows[i].value);
    }
    return BL_OK;
}

/* Whether a row of KEY, MUST or IGNORED has |name|. */
static bool hub_is_known(const char *name)
{
    static const char *const rows[] = {
#define BL_HUB_KEY(names, ours)  names,
#define BL_HUB_MUST(name, value) name,
#undef BL_HUB_IGNORED
#define BL_HUB_IGNORED(names) names,
#include "proto/llm/hub.def"
#undef BL_HUB_KEY
#undef BL_HUB_MUST
#undef BL_HUB_IGNORED
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (bl_llm_has_word(rows[i], (bl_span){name, strlen(name)}))
            return true;
    return false;
}

/* Fails at an unknown member, since it may change what the model computes, unless its value is null, false or 0. */
static bl_status hub_check_members(hub *h)
{
    bl_json_iter it = bl_json_each(&h->config);
    bl_json at;
    double value;
    while (bl_json_next(&it, &at)) {
        bool nothing = at.kind == BL_JSON_NULL || (json_number(&at, &value) && value == 0);
        if (!nothing && !hub_is_known(at.key))
            return bl_json_fail(&at, h->err, BL_EUNSUPPORTED,
                                "this member of config.json is not supported, and may change what the model computes");
    }
    return BL_OK;
}

/* ---- keys whose values need a conversion */

static bl_status hub_read_act(hub *h)
{
    static const char *const names[] = {"hidden_activation", "hidden_act", "activation_function", "activation"};
    bl_json at;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (bl_json_find(&h->config, names[i], &at) && at.kind == BL_JSON_STRING)
            return add_key(
                h,
                &(bl_llm_key){.name = "hidden_act", .count = -1, .text = bl_arena_strndup(h->arena, at.text.data, at.text.len)});
    return BL_OK;
}

/* Computes the rotary frequency factors of Llama 3.1.  A GGUF file has them as a tensor. */
static bl_status add_llama3_factors(hub *h, const bl_json *rope, double base, double size)
{
    double factor = 8, low = 1, high = 4, trained = 8192;
    int count = size >= 2 && size <= 4096 ? (int)size / 2 : 0;
    double *factors = bl_arena_array(h->arena, (size_t)count + 1, sizeof *factors);
    if (factors == NULL)
        return bl_arena_status(h->arena, h->err);
    (void)hub_find_number(rope, "factor", &factor);
    (void)hub_find_number(rope, "low_freq_factor", &low);
    (void)hub_find_number(rope, "high_freq_factor", &high);
    (void)hub_find_number(rope, "original_max_position_embeddings", &trained);
    for (int i = 0; i < count; i++) {
        double wave = 2 * M_PI * pow(base, 2.0 * i / size);
        double smooth = (trained / wave - low) / (high - low);
        factors[i] = wave < trained / high ? 1 : wave > trained / low ? factor : 1 / ((1 - smooth) / factor + smooth);
    }
    return add_key(h, &(bl_llm_key){.name = "rope.factors", .count = count, .number = factors});
}

static bl_status add_factors(hub *h, const bl_json *rope, const char *name, const char *ours)
{
    bl_json list, at;
    if (!bl_json_find(rope, name, &list) || list.kind != BL_JSON_ARRAY)
        return BL_OK;
    bl_json_iter it = bl_json_each(&list);
    bl_llm_key key = {.name = ours};
    double *number = bl_arena_array(h->arena, bl_json_count(&list) + 1, sizeof *number);
    if (number == NULL)
        return bl_arena_status(h->arena, h->err);
    while (bl_json_next(&it, &at))
        if (json_number(&at, &number[key.count]))
            key.count++;
    key.number = number;
    return add_key(h, &key);
}

/* The number of elements of a head that rotate. */
static double rotating(hub *h, const bl_json *rope)
{
    double part = 1, size = 0, width = 0, heads = 1, dims;
    (void)(hub_find_number(&h->config, "hidden_size", &width) || hub_find_number(&h->config, "n_embd", &width));
    (void)(hub_find_number(&h->config, "num_attention_heads", &heads) || hub_find_number(&h->config, "n_head", &heads));
    if (!hub_find_number(&h->config, "head_dim", &size) || size == 0)
        size = floor(width / fmax(1, heads));
    (void)(hub_find_number(rope, "partial_rotary_factor", &part) || hub_find_number(&h->config, "partial_rotary_factor", &part) ||
           hub_find_number(&h->config, "rotary_pct", &part) || hub_find_number(&h->config, "rotary_emb_fraction", &part));
    return hub_find_number(&h->config, "rotary_dim", &dims) ? dims : floor(size * part);
}

static bl_status read_scaling(hub *h, const bl_json *rope, double base)
{
    static const struct {
        const char *name, *ours;
    } numbers[] = {{"factor", "rope.scaling.factor"},
                   {"original_max_position_embeddings", "rope.scaling.original_context_length"},
                   {"attention_factor", "rope.scaling.attn_factor"},
                   {"beta_fast", "rope.scaling.yarn_beta_fast"},
                   {"beta_slow", "rope.scaling.yarn_beta_slow"},
                   {"llama_4_scaling_beta", "attention.temperature_scale"},
                   {"truncate", "rope.scaling.yarn_truncate"}};
    bl_json at;
    double value, all, by = 1;
    const char *type = "default";
    if ((bl_json_find(rope, "rope_type", &at) || bl_json_find(rope, "type", &at)) && at.kind == BL_JSON_STRING)
        BL_TRY(bl_json_string(&at, &type, h->err));
    if (strcmp(type, "llama3") == 0)
        return add_llama3_factors(h, rope, base, rotating(h, rope));
    if (strcmp(type, "su") == 0)
        type = "longrope";
    if (strcmp(type, "default") == 0)
        return BL_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (hub_find_number(rope, numbers[i].name, &value))
            BL_TRY(add_number(h, numbers[i].ours, value));
    if (hub_find_number(&h->config, "original_max_position_embeddings", &value))
        BL_TRY(add_number(h, "rope.scaling.original_context_length", value));
    if (hub_find_number(rope, "mscale", &value) && hub_find_number(rope, "mscale_all_dim", &all) &&
        hub_find_number(rope, "factor", &by) && by > 1)
        BL_TRY(add_number(h, "rope.scaling.attn_factor", (0.1 * value * log(by) + 1) / (0.1 * all * log(by) + 1)));
    BL_TRY(add_factors(h, rope, "short_factor", "rope.short_factors"));
    BL_TRY(add_factors(h, rope, "long_factor", "rope.long_factors"));
    return add_key(h, &(bl_llm_key){.name = "rope.scaling.type", .count = -1, .text = type});
}

static bl_status hub_read_rope(hub *h)
{
    bl_json rope, full, local;
    double base = 10000, value;
    if ((!bl_json_find(&h->config, "rope_parameters", &rope) || rope.kind != BL_JSON_OBJECT) &&
        (!bl_json_find(&h->config, "rope_scaling", &rope) || rope.kind != BL_JSON_OBJECT))
        rope = h->config;
    if (!bl_json_find(&rope, "full_attention", &full))
        full = rope;
    else if (bl_json_find(&rope, "sliding_attention", &local) && hub_find_number(&local, "rope_theta", &value))
        BL_TRY(add_number(h, "rope.freq_base_swa", value));
    if (hub_find_number(&h->config, "rope_local_base_freq", &value))
        BL_TRY(add_number(h, "rope.freq_base_swa", value));
    if (hub_find_number(&full, "rope_theta", &base) || hub_find_number(&h->config, "rope_theta", &base) ||
        hub_find_number(&h->config, "rotary_emb_base", &base))
        BL_TRY(add_number(h, "rope.freq_base", base));
    if (rotating(h, &full) >= 1)
        BL_TRY(add_number(h, "rope.dimension_count", rotating(h, &full)));
    return read_scaling(h, &full, base);
}

/* Converts layer_types to a period whose last block has full attention; 0 if no block has.  |*windows|: some block has a
 * sliding window; unchanged without layer_types. */
static bl_status read_layer_types(hub *h, bool *windows)
{
    bl_json types, at;
    int period = 0, n = 0;
    if (!bl_json_find(&h->config, "layer_types", &types) || types.kind != BL_JSON_ARRAY)
        return BL_OK;
    *windows = false;
    bl_json_iter it = bl_json_each(&types);
    for (; bl_json_next(&it, &at); n++) {
        bool full = bl_span_is(at.text, "full_attention");
        if (!full && !bl_span_is(at.text, "sliding_attention"))
            return bl_json_fail(&at, h->err, BL_EUNSUPPORTED, "blocks must be \"full_attention\" or \"sliding_attention\"");
        *windows = *windows || !full;
        if (full && period == 0)
            period = n + 1;
        if (period > 1 && full != (n % period == period - 1))
            return bl_json_fail(&at, h->err, BL_EUNSUPPORTED, "blocks with a window must repeat with a period");
        if (period == 1 && !full)
            return bl_json_fail(&at, h->err, BL_EUNSUPPORTED,
                                "the last block of each period must be the one of \"full_attention\"");
    }
    return *windows ? add_number(h, "attention.sliding_window_pattern", period) : BL_OK;
}

static bl_status read_windows(hub *h)
{
    bool windows = true;
    double use = 1, period;
    BL_TRY(read_layer_types(h, &windows));
    if ((hub_find_number(&h->config, "use_sliding_window", &use) && use == 0) || !windows)
        return add_number(h, "attention.no_window", 1);
    if (hub_find_number(&h->config, "sliding_window_pattern", &period) ||
        hub_find_number(&h->config, "_sliding_window_pattern", &period))
        return add_number(h, "attention.sliding_window_pattern", period);
    return BL_OK;
}

/* Fails unless exactly the blocks 3, 7, 11, ... do not rotate. */
static bl_status check_no_rope(hub *h)
{
    bl_json list, at;
    double value;
    int n = 0;
    if (!bl_json_find(&h->config, "no_rope_layers", &list) || list.kind != BL_JSON_ARRAY)
        return BL_OK;
    bl_json_iter it = bl_json_each(&list);
    for (; bl_json_next(&it, &at); n++)
        if (!json_number(&at, &value) || (value == 0) != (n % 4 == 3))
            return bl_json_fail(&at, h->err, BL_EUNSUPPORTED, "the blocks without rotation must be 3, 7, 11, ...");
    return BL_OK;
}

static bl_status hub_read_scales(hub *h)
{
    double value, width = 1, layers = 1;
    (void)hub_find_number(&h->config, "hidden_size", &width);
    (void)hub_find_number(&h->config, "num_hidden_layers", &layers);
    if (hub_find_number(&h->config, "query_pre_attn_scalar", &value) && value > 0)
        BL_TRY(add_number(h, "attention.scale", 1 / sqrt(value)));
    if (hub_find_number(&h->config, "scale_depth", &value))
        BL_TRY(add_number(h, "residual_scale", value / sqrt(fmax(1, layers))));
    if (hub_find_number(&h->config, "dim_model_base", &value) && value > 0)
        BL_TRY(add_number(h, "logit_scale", width / value));
    return BL_OK;
}

/* Renames a key; the new name "" removes it. */
static void rename_key(hub *h, const char *from, const char *to)
{
    for (int i = 0; i < h->source->nkeys; i++)
        if (strcmp(h->source->keys[i].name, from) == 0)
            h->source->keys[i].name = to;
}

/* Falcon's first architecture has one key-value head; its num_kv_heads is ignored. */
static bl_status read_falcon(hub *h)
{
    double multi = 0, fresh = 0;
    if (!bl_span_is(h->source->arch, "falcon"))
        return BL_OK;
    (void)hub_find_number(&h->config, "multi_query", &multi);
    (void)hub_find_number(&h->config, "new_decoder_architecture", &fresh);
    if (multi == 0 || fresh != 0)
        return BL_OK;
    rename_key(h, "attention.head_count_kv", "");
    return add_number(h, "attention.head_count_kv", 1);
}

/* ---- encoders */

/* Fails if config.json makes the encoder a decoder (is_decoder).  Limits the context to max_trained_positions, since
 * n_positions can be larger. */
static bl_status read_encoder(hub *h)
{
    const bl_llm_arch *row = bl_llm_arch_find(h->source->arch, true);
    double trained = 0, length = 0;
    bl_json at;
    if ((row->flags & BL_LLM_ENCODER) == 0)
        return BL_OK;
    if (bl_json_find(&h->config, "is_decoder", &at) && at.kind == BL_JSON_BOOL && at.boolean)
        return bl_json_fail(&at, h->err, BL_EUNSUPPORTED, "must be false or absent");
    if (!hub_find_number(&h->config, "max_trained_positions", &trained) || !hub_find_number(&h->config, "n_positions", &length) ||
        length <= trained)
        return BL_OK;
    rename_key(h, "context_length", "");
    return add_number(h, "context_length", trained);
}

static bl_status hub_read_config(hub *h)
{
    bl_json type;
    const char *name;
    BL_TRY(bl_json_expect(&h->config, BL_JSON_OBJECT, h->err));
    BL_TRY(bl_json_need(&h->config, "model_type", &type, h->err));
    BL_TRY(bl_json_string(&type, &name, h->err));
    h->source->arch = (bl_span){name, strlen(name)};
    if (bl_llm_arch_find(h->source->arch, true) == NULL) /* choose_row reports the unknown model_type with a clearer message */
        return BL_OK;
    BL_TRY(hub_check_members(h));
    BL_TRY(check_must(h));
    BL_TRY(check_quantization(h));
    BL_TRY(read_plain_keys(h));
    BL_TRY(hub_read_act(h));
    BL_TRY(hub_read_rope(h));
    BL_TRY(read_windows(h));
    BL_TRY(check_no_rope(h));
    BL_TRY(hub_read_scales(h));
    BL_TRY(read_encoder(h));
    if (bl_span_is(h->source->arch, "exaone")) /* exaone has RMS norms although its key is the epsilon of a layer norm */
        rename_key(h, "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon");
    return read_falcon(h);
}

/* ---- tensors */

typedef struct tensor_row {
    const char *name, *ours, *models;
} tensor_row;

#define BL_HUB_KEY(names, ours)
#define BL_HUB_MUST(name, value)
#define BL_HUB_IGNORED(names)
#undef BL_HUB_TENSOR
#define BL_HUB_TENSOR(name, ours, models) {name, ours, models},
static const tensor_row outer_rows[] = {
#include "proto/llm/hub.def"
};
#undef BL_HUB_TENSOR
#undef BL_HUB_BLOCK
#define BL_HUB_TENSOR(name, ours, models)
#define BL_HUB_BLOCK(name, ours, models) {name, ours, models},
static const tensor_row block_rows[] = {
#include "proto/llm/hub.def"
};
#undef BL_HUB_TENSOR
#undef BL_HUB_BLOCK

/* Whether |name| matches |pattern|, where % matches a decimal number, stored in |*number|. */
static bool hub_fits(const char *pattern, bl_span name, long *number)
{
    const char *at = name.data, *end = name.data + name.len;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '%') {
            char *after;
            if (at == end || *at < '0' || *at > '9')
                return false;
            *number = strtol(at, &after, 10);
            at = after;
        } else if (at == end || *at++ != *pattern) {
            return false;
        }
    }
    return at == end;
}

static const tensor_row *hub_find_row(const hub *h, const tensor_row *rows, size_t count, bl_span name, long *number)
{
    for (size_t i = 0; i < count; i++)
        if (hub_fits(rows[i].name, name, number) && (*rows[i].models == '\0' || bl_llm_has_word(rows[i].models, h->source->arch)))
            return &rows[i];
    return NULL;
}

/* The destination of a tensor of the files. */
typedef struct place {
    const char *name;                              /* GGUF's name; NULL: ignored */
    long number;                                   /* index of the tensor in a stack; -1: not stacked */
    enum place_kind { WHOLE, CODES, SCALES } kind; /* MXFP4 has separate tensors for codes and scales */
} place;

/* Removes the suffix from the name |*stem| and sets out->kind.  Returns the part that the suffix means: "weight" or "bias". */
static const char *cut_name(const hub *h, bl_span *stem, place *out)
{
    const struct {
        const char *end, *part;
        enum place_kind kind;
        bool packed;
    } rows[] = {{".weight", "weight", WHOLE, false},
                {".bias", "bias", WHOLE, false},
                {"_bias", "bias", WHOLE, false},
                {"_blocks", "weight", CODES, true},
                {"_scales", "weight", SCALES, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = strlen(rows[i].end);
        if (stem->len <= n || memcmp(stem->data + stem->len - n, rows[i].end, n) != 0 ||
            (rows[i].packed && !bl_span_is(h->source->arch, "gpt_oss")))
            continue;
        stem->len -= n;
        out->kind = rows[i].kind;
        return rows[i].part;
    }
    return "weight";
}

/* Maps the name of a tensor: "model.layers.3.mlp.up_proj.weight" becomes "blk.3.ffn_up.weight". */
static bl_status hub_find_place(hub *h, const char *name, place *out)
{
    static const char *const fronts[] = {"model.", "transformer.", "gpt_neox.", "language_model.",
                                         "bert.",  "roberta.",     "encoder."};
    static const char *const blocks[] = {"layers.", "h.", "layer."};
    const char *at = name, *part;
    long layer = -1;
    *out = (place){.number = -1};
    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++)
        at += strncmp(at, fronts[i], strlen(fronts[i])) == 0 ? strlen(fronts[i]) : 0;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0] && layer < 0; i++) {
        size_t n = strlen(blocks[i]);
        char *after;
        if (strncmp(at, blocks[i], n) != 0 || at[n] < '0' || at[n] > '9')
            continue;
        layer = strtol(at + n, &after, 10);
        at = *after == '.' ? after + 1 : at;
    }
    bl_span stem = {at, strlen(at)};
    size_t n = strlen(at);
    part = cut_name(h, &stem, out);
    const tensor_row *row = layer < 0 ? hub_find_row(h, outer_rows, sizeof outer_rows / sizeof outer_rows[0], stem, &out->number)
                                      : hub_find_row(h, block_rows, sizeof block_rows / sizeof block_rows[0], stem, &out->number);
    bool mask = layer >= 0 && (bl_span_is((bl_span){at, n}, "attn.bias") || bl_span_is((bl_span){at, n}, "attention.bias"));
    if (row == NULL && !mask)
        return bl_fail(h->err, BL_EUNSUPPORTED, "the tensor \"%.100s\" is not supported in a model of the type \"%.*s\"", name,
                       (int)h->source->arch.len, h->source->arch.data);
    if (mask || row->ours == NULL)
        return BL_OK;
    out->name = layer < 0 ? bl_arena_printf(h->arena, "%s.%s", row->ours, part)
                          : bl_arena_printf(h->arena, "blk.%ld.%s.%s", layer, row->ours, part);
    return bl_arena_status(h->arena, h->err);
}

static const bl_ggml_type *hub_type_of(bl_dtype dtype)
{
    switch ((int)dtype) {
    case BL_F32:
        return bl_ggml_type_find(BL_GGML_F32);
    case BL_F16:
        return bl_ggml_type_find(BL_GGML_F16);
    case BL_BF16:
        return bl_ggml_type_find(BL_GGML_BF16);
    default:
        return NULL;
    }
}

static bl_llm_tensor *find_stack(bl_llm_source *source, const char *name)
{
    for (int i = source->ntensors - 1; i >= 0; i--) /* backwards, since the files list the parts of a stack close together */
        if (strcmp(source->tensors[i].name, name) == 0)
            return &source->tensors[i];
    return NULL;
}

static bl_status add_to_stack(hub *h, bl_llm_tensor *tensor, const bl_file_tensor *from, const place *at)
{
    bl_span *parts = (bl_span *)(uintptr_t)tensor->parts;
    bool same = tensor->ndim == from->ndim + 1 && tensor->type == hub_type_of(from->dtype);
    for (int d = 0; same && d < from->ndim; d++)
        same = tensor->dim[d] == from->dim[from->ndim - 1 - d];
    if (!same || at->number >= MOST_PARTS || parts[at->number].data != NULL)
        return bl_fail(h->err, BL_EINVAL, "the tensor \"%.100s\" does not fit the other tensors of its matrix", from->name);
    parts[at->number] = (bl_span){from->data, from->bytes};
    if (at->number >= tensor->dim[from->ndim])
        tensor->dim[from->ndim] = tensor->nparts = (int)at->number + 1;
    return BL_OK;
}

/* Adds a tensor with room for |nparts| parts to the source; NULL if out of memory. */
static bl_llm_tensor *hub_make_tensor(hub *h, const char *name, size_t nparts)
{
    bl_llm_source *source = h->source;
    void *tensors = source->tensors;
    bl_span *parts = bl_arena_array(h->arena, nparts, sizeof *parts);
    if (parts == NULL || !bl_arena_reserve(h->arena, &tensors, source->ntensors, &source->tensor_cap, sizeof *source->tensors))
        return NULL;
    source->tensors = tensors;
    source->tensors[source->ntensors] = (bl_llm_tensor){.name = name, .nparts = 1, .parts = parts, .dim = {1, 1, 1, 1}};
    return &source->tensors[source->ntensors++];
}

/* Adds the codes, uint8 [experts, rows, blocks, 16], or the scales, uint8 [experts, rows, blocks], of an MXFP4 tensor. */
static bl_status add_packed(hub *h, const bl_file_tensor *from, const place *at)
{
    bl_llm_tensor *tensor = find_stack(h->source, at->name);
    bool codes = at->kind == CODES, fits = from->dtype == BL_U8 && from->ndim == 3 + codes && (!codes || from->dim[3] == 16);
    if (tensor == NULL && (tensor = hub_make_tensor(h, at->name, 1)) == NULL)
        return bl_arena_status(h->arena, h->err);
    bool first = tensor->type == NULL;
    for (int d = 0; fits && d < 3; d++) {
        int64_t size = from->dim[2 - d] * (d == 0 ? 32 : 1);
        tensor->dim[d] = first ? size : tensor->dim[d];
        fits = tensor->dim[d] == size && from->dim[2 - d] > 0 && from->dim[2 - d] < INT64_MAX / 32;
    }
    bl_span *to = codes ? (bl_span *)(uintptr_t)tensor->parts : &tensor->scales;
    if (!fits || to->data != NULL || (!first && tensor->type->id != BL_GGML_MXFP4))
        return bl_fail(h->err, BL_EINVAL, "the tensor \"%.100s\" does not fit the other tensors of its matrix", from->name);
    tensor->type = bl_ggml_type_find(BL_GGML_MXFP4);
    tensor->ndim = 3;
    *to = (bl_span){from->data, from->bytes};
    return BL_OK;
}

static bl_status hub_add_tensor(hub *h, const bl_file_tensor *from)
{
    bl_llm_source *source = h->source;
    place at;
    BL_TRY(hub_find_place(h, from->name, &at));
    if (at.name == NULL)
        return BL_OK;
    if (at.kind != WHOLE)
        return add_packed(h, from, &at);
    if (hub_type_of(from->dtype) == NULL || from->ndim < 1 || from->ndim + (at.number >= 0) > BL_GGUF_DIMS)
        return bl_fail(h->err, BL_EUNSUPPORTED,
                       "the tensor \"%.100s\" is of %s with %d axes; weights must be float32, float16 or bfloat16", from->name,
                       bl_dtype_name(from->dtype), from->ndim);
    bl_llm_tensor *stack = at.number >= 0 ? find_stack(source, at.name) : NULL;
    if (stack != NULL)
        return add_to_stack(h, stack, from, &at);
    bl_llm_tensor *tensor = hub_make_tensor(h, at.name, at.number >= 0 ? MOST_PARTS : 1);
    if (tensor == NULL)
        return bl_arena_status(h->arena, h->err);
    tensor->type = hub_type_of(from->dtype);
    tensor->ndim = from->ndim;
    for (int d = 0; d < from->ndim; d++)
        tensor->dim[d] = from->dim[from->ndim - 1 - d];
    if (at.number < 0) {
        *(bl_span *)(uintptr_t)tensor->parts = (bl_span){from->data, from->bytes};
        return BL_OK;
    }
    tensor->ndim++;
    tensor->dim[from->ndim] = 0;
    return add_to_stack(h, tensor, from, &at);
}

static bl_status check_stacks(const hub *h)
{
    for (int i = 0; i < h->source->ntensors; i++) {
        const bl_llm_tensor *tensor = &h->source->tensors[i];
        bool packed = tensor->type->id == BL_GGML_MXFP4;
        for (int p = 0; p < tensor->nparts; p++)
            if (tensor->parts[p].data == NULL)
                return packed ? bl_fail(h->err, BL_EINVAL, "the blocks of \"%.100s\" are missing", tensor->name)
                              : bl_fail(h->err, BL_EINVAL, "part %d of \"%.100s\" is missing", p, tensor->name);
        if (packed && tensor->scales.data == NULL)
            return bl_fail(h->err, BL_EINVAL, "the scales of \"%.100s\" are missing", tensor->name);
    }
    return BL_OK;
}

/* Removes the first pad_token_id + 1 rows of RoBERTa's position embeddings: RoBERTa reserves them for padding, and the first
 * token of a text has the position pad_token_id + 1. */
static bl_status drop_places(hub *h)
{
    bl_llm_tensor *places = find_stack(h->source, "position_embd.weight");
    double pad = 1;
    int64_t skipped;
    size_t bytes;
    if (places == NULL || !bl_llm_has_word("roberta xlm-roberta camembert", h->source->arch))
        return BL_OK;
    (void)hub_find_number(&h->config, "pad_token_id", &pad);
    if (places->ndim != 2 || !(pad >= 0 && pad + 1 < (double)places->dim[1]))
        return bl_fail(h->err, BL_EINVAL, "pad_token_id is %g, but the model has vectors of %lld positions", pad,
                       (long long)places->dim[1]);
    skipped = (int64_t)pad + 1;
    bytes = places->parts[0].len / (size_t)places->dim[1] * (size_t)skipped;
    *(bl_span *)(uintptr_t)places->parts = (bl_span){places->parts[0].data + bytes, places->parts[0].len - bytes};
    places->dim[1] -= skipped;
    rename_key(h, "context_length", "");
    return add_number(h, "context_length", (double)places->dim[1]);
}

/* The matrices of GPT-2 and the experts of gpt-oss without MXFP4 are transposed: their outputs are contiguous. */
static void mark_transposed(bl_llm_source *source)
{
    bool gpt2 = bl_span_is(source->arch, "gpt2"), oss = bl_span_is(source->arch, "gpt_oss");
    for (int i = 0; i < source->ntensors; i++) {
        bl_llm_tensor *t = &source->tensors[i];
        t->transposed =
            (gpt2 && t->ndim == 2 && strncmp(t->name, "blk.", 4) == 0) || (oss && t->ndim == 3 && t->type->id != BL_GGML_MXFP4);
    }
}

/* Whether the file has tensors of the model.  With an index: the index names the file.  Without an index: the file is
 * model.safetensors, or the folder has no such file. */
static bool hub_is_part(const bl_llm_file *files, int nfiles, const bl_llm_file *file)
{
    const bl_llm_file *index = bl_llm_find_file(files, nfiles, "model.safetensors.index.json");
    size_t n = strlen(file->name);
    if (n < 12 || strcmp(file->name + n - 12, ".safetensors") != 0)
        return false;
    if (index != NULL)
        return index->data.len > 0 && memmem(index->data.data, index->data.len, file->name, n) != NULL;
    return bl_llm_find_file(files, nfiles, "model.safetensors") == NULL || strcmp(file->name, "model.safetensors") == 0;
}

static bl_status add_file(hub *h, const bl_llm_file *file, const bl_wire_limits *limits)
{
    bl_tensor_file tensors = {0};
    bl_err problem = {0};
    bl_status st = bl_safetensors_open(h->arena, file->data, limits, &tensors, &problem);
    if (st != BL_OK)
        return bl_fail(h->err, st, "%.100s: %s", file->name, problem.text);
    for (size_t i = 0; i < tensors.ntensors; i++)
        BL_TRY(hub_add_tensor(h, &tensors.tensors[i]));
    return BL_OK;
}

bl_status bl_hub_open(bl_llm_source *source, const bl_llm_file *files, int nfiles, const bl_wire_limits *limits, bl_err *err)
{
    const bl_llm_file *config = bl_llm_find_file(files, nfiles, "config.json");
    double pooling = -1;
    bl_json_doc doc = {0};
    bl_json_limits json_limits = {0};
    hub h = {.source = source, .arena = source->arena, .err = err};
    bl_status st;
    if (config == NULL)
        return bl_fail(err, BL_EINVAL, "config.json is missing");
    st = bl_json_parse(&doc, source->arena, config->data, &json_limits, err);
    if (st == BL_OK) {
        h.config = bl_json_root(&doc);
        st = hub_read_config(&h);
    }
    if (st == BL_OK)
        st = bl_hub_read_modules(source->arena, files, nfiles, &pooling, err);
    if (st == BL_OK && pooling >= 0)
        st = add_number(&h, "pooling_type", pooling);
    for (int i = 0; st == BL_OK && bl_llm_arch_find(source->arch, true) != NULL && i < nfiles; i++)
        if (hub_is_part(files, nfiles, &files[i]))
            st = add_file(&h, &files[i], limits);
    if (st == BL_OK && bl_llm_arch_find(source->arch, true) != NULL)
        st = drop_places(&h);
    source->arch.data = bl_arena_strndup(source->arena, source->arch.data != NULL ? source->arch.data : "", source->arch.len);
    bl_json_fini(&doc);
    if (st == BL_OK && source->arch.data == NULL)
        st = bl_arena_status(source->arena, err);
    if (st == BL_OK)
        st = check_stacks(&h);
    if (st == BL_OK)
        mark_transposed(source);
    return st;
}
