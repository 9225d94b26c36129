/* SPDX-License-Identifier: MIT */
#include "server/models/config.h"

#include "proto/infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BATCH = 65536,
    MOST_TENSORS = 4096,
    MOST_WARMUPS = 64,
    MOST_RUNS = 10000,
    MOST_DELAY_US = 100 * 1000000, /* a longer delay is treated as a mistake */
    USUAL_DRAFT = 15,              /* 16 rows are the largest number that has an exact plan (exact.c) */
    USUAL_IDLE_US = 60 * 1000000   /* of a sequence; Triton's default of one second is too short for interactive use */
};

typedef struct reader {
    bl_arena *arena;
    bl_model_config *out;
    bl_err *err;
} reader;

/* Members of Triton's configuration that this server does not support, by their object, with the alternative. */
static const struct absent {
    const char *object, *member, *instead;
} absents[] = {
    {"", "runtime", "the file of a model determines what runs it"},
    {"", "optimization", "kernels are chosen by measurement"},
    {"", "ensemble_scheduling", "one program may hold all steps"},
    {"", "batch_input", "a request sends all inputs"},
    {"", "batch_output", "the program computes all outputs"},
    {"", "default_model_filename", "the file is model.json or model.onnx"},
    {"", "cc_model_filenames", "the file is model.json or model.onnx"},
    {"", "model_repository_agents", "files are served as they are"},
    {"", "model_operations", "a model has only the ops of the server"},
    {"", "metric_tags", "metrics have labels for the route and the device only"},
    {"", "model_metrics", "metrics and their buckets are the same for all models"},
    {"input", "reshape", "dims must be those of the program; reshape in the program"},
    {"input", "allow_ragged_batch", "requests whose dimensions differ are not batched"},
    {"input", "is_non_linear_format_io", "tensors are in row-major order"},
    {"output", "reshape", "dims must be those of the program; reshape in the program"},
    {"output", "is_non_linear_format_io", "tensors are in row-major order"},
    {"dynamic_batching", "priority_queue_policy", "default_queue_policy applies to all priorities"},
    {"sequence_batching", "control_input", "sequence_start resets the state of the program without an input for it"},
    {"sequence_batching", "state", "the updates of the program define the state of a sequence"},
    {"sequence_batching", "iterative_sequence", "one program may hold the loop"},
    {"sequence_batching", "oldest", "requests of sequences run one by one, in the order of their arrival"},
    {"instance_group", "rate_limiter", "the server shares a device by measured time"},
    {"instance_group", "host_policy", "\"device\" chooses a device by its id"},
    {"instance_group", "secondary_devices", "\"device\" chooses a device by its id"},
    {"instance_group", "profile", "the server compiles plans for the sizes in use"},
    {"instance_group", "passive", "every instance answers requests"},
    {"model_warmup.inputs", "input_data_file", "use \"zero_data\" or \"random_data\""},
};

/* Like bl_json_allow, for the object that the table calls |object|. */
static bl_status allow(const bl_json *at, const char *object, const char *const *names, bl_err *err)
{
    BL_TRY(bl_json_expect(at, BL_JSON_OBJECT, err));
    for (size_t i = 0; i < sizeof absents / sizeof absents[0]; i++) {
        bl_json member;
        if (strcmp(absents[i].object, object) == 0 && bl_json_find(at, absents[i].member, &member))
            return bl_json_fail(&member, err, BL_EUNSUPPORTED, "this field is not supported: %s", absents[i].instead);
    }
    return bl_json_allow(at, names, err);
}

static bl_status find_int(const bl_json *object, const char *name, int64_t lo, int64_t hi, int64_t *out, bl_err *err)
{
    bl_json at;
    return bl_json_find(object, name, &at) ? bl_json_int(&at, lo, hi, out, err) : BL_OK;
}

static bl_status find_bool(const bl_json *object, const char *name, bool *out, bl_err *err)
{
    bl_json at;
    return bl_json_find(object, name, &at) ? bl_json_bool(&at, out, err) : BL_OK;
}

/* Triton prints 64-bit numbers in its configurations as strings; both forms are read. */
static bl_status config_read_version(const bl_json *at, uint64_t *out, bl_err *err)
{
    const char *text = NULL;
    if (at->kind != BL_JSON_STRING)
        return bl_json_u64(at, out, err);
    BL_TRY(bl_json_string(at, &text, err));
    *out = strtoull(text, NULL, 10);
    if (*text == '\0' || *out > INT64_MAX || strspn(text, "0123456789") != strlen(text))
        return bl_json_fail(at, err, BL_EINVAL, "\"%.40s\" is not a version; a version is a whole number", text);
    return BL_OK;
}

static bl_status read_policy(reader *r, const bl_json *at)
{
    bl_config_versions *out = &r->out->versions;
    static const char *const names[] = {"latest", "all", "specific", NULL}, *const latest[] = {"num_versions", NULL},
                             *const none[] = {NULL}, *const specific[] = {"versions", NULL};
    bl_json one, list, version;
    int64_t n = 1;
    BL_TRY(bl_json_allow(at, names, r->err));
    if (bl_json_count(at) != 1)
        return bl_json_fail(at, r->err, BL_EINVAL, "must have exactly one of \"latest\", \"all\" and \"specific\"");
    if (bl_json_find(at, "latest", &one)) {
        BL_TRY(bl_json_allow(&one, latest, r->err));
        BL_TRY(find_int(&one, "num_versions", 1, INT32_MAX, &n, r->err));
        out->latest = (uint64_t)n;
        return BL_OK;
    }
    if (bl_json_find(at, "all", &one)) {
        out->policy = BL_POLICY_ALL;
        return bl_json_allow(&one, none, r->err);
    }
    (void)bl_json_find(at, "specific", &one);
    out->policy = BL_POLICY_SPECIFIC;
    BL_TRY(bl_json_allow(&one, specific, r->err));
    BL_TRY(bl_json_need(&one, "versions", &list, r->err));
    BL_TRY(bl_json_expect(&list, BL_JSON_ARRAY, r->err));
    bl_json_iter it = bl_json_each(&list);
    while (bl_json_next(&it, &version)) {
        if (out->nspecific == BL_MOST_SPECIFIC)
            return bl_json_fail(&list, r->err, BL_ELIMIT, "over %d versions", BL_MOST_SPECIFIC);
        BL_TRY(config_read_version(&version, &out->specific[out->nspecific++], r->err));
    }
    return BL_OK;
}

static bl_status read_type(const bl_json *at, int *out, bl_err *err)
{
    const char *text = NULL;
    BL_TRY(bl_json_string(at, &text, err));
    *out = strcmp(text, "TYPE_STRING") == 0 ? BL_INFER_BYTES
           : strncmp(text, "TYPE_", 5) == 0 ? bl_infer_datatype_find(text + 5)
                                            : -1;
    return *out >= 0 ? BL_OK : bl_json_fail(at, err, BL_EINVAL, "unknown data type \"%.40s\"", text);
}

static bl_status read_dims(const bl_json *at, int *ndim, int64_t *dim, bl_err *err)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, err));
    *ndim = 0;
    while (bl_json_next(&it, &one)) {
        int64_t value = 0;
        if (one.kind == BL_JSON_STRING) { /* Triton prints them as strings */
            uint64_t size = 0;
            bool varies = bl_span_is(one.text, "-1");
            if (!varies)
                BL_TRY(config_read_version(&one, &size, err));
            value = varies ? -1 : (int64_t)size;
        } else {
            BL_TRY(bl_json_int(&one, -1, INT64_MAX, &value, err));
        }
        if (*ndim == 16)
            return bl_json_fail(at, err, BL_ELIMIT, "over 16 dimensions");
        dim[(*ndim)++] = value;
    }
    return BL_OK;
}

static bl_status config_read_tensor(reader *r, const bl_json *at, bool output, bl_config_tensor *out)
{
    static const char *const inputs[] = {"name", "data_type", "dims", "format", "optional", "is_shape_tensor", NULL},
                             *const outputs[] = {"name", "data_type", "dims", "label_filename", "is_shape_tensor", NULL};
    bl_json one;
    bool flag = false;
    out->ndim = -1;
    BL_TRY(allow(at, output ? "output" : "input", output ? outputs : inputs, r->err));
    BL_TRY(bl_json_need(at, "name", &one, r->err));
    BL_TRY(bl_json_string(&one, &out->name, r->err));
    BL_TRY(bl_json_need(at, "data_type", &one, r->err));
    BL_TRY(read_type(&one, &out->datatype, r->err));
    if (bl_json_find(at, "dims", &one))
        BL_TRY(read_dims(&one, &out->ndim, out->dim, r->err));
    if (bl_json_find(at, "label_filename", &one))
        BL_TRY(bl_json_string(&one, &out->labels, r->err));
    if (bl_json_find(at, "format", &one) && !bl_span_is(one.text, "FORMAT_NONE"))
        return bl_json_fail(&one, r->err, BL_EUNSUPPORTED, "only FORMAT_NONE is supported");
    BL_TRY(find_bool(at, "optional", &flag, r->err));
    if (!flag)
        BL_TRY(find_bool(at, "is_shape_tensor", &flag, r->err));
    return flag ? bl_json_fail(at, r->err, BL_EUNSUPPORTED, "optional inputs and shape tensors are not supported") : BL_OK;
}

static bl_status read_tensors(reader *r, const bl_json *at, bool output, int *count, bl_config_tensor **out)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    size_t n = bl_json_count(at);
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, r->err));
    if (n > MOST_TENSORS)
        return bl_json_fail(at, r->err, BL_ELIMIT, "over %d tensors", MOST_TENSORS);
    *out = bl_arena_array(r->arena, n + 1, sizeof **out);
    if (*out == NULL)
        return bl_arena_status(r->arena, r->err);
    while (bl_json_next(&it, &one))
        BL_TRY(config_read_tensor(r, &one, output, &(*out)[(*count)++]));
    return BL_OK;
}

/* The ranges of dimensions, such as {"seq": [1, 512], "height": [32, 1280, 32], "n": 8, "mask.1": "ids.1"}. */
static bl_status config_read_ranges(reader *r, const bl_json *at)
{
    bl_json one;
    BL_TRY(bl_json_expect(at, BL_JSON_OBJECT, r->err));
    if (bl_json_count(at) > BL_WIRE_MAX_DIMS)
        return bl_json_fail(at, r->err, BL_ELIMIT, "over %d dimensions", BL_WIRE_MAX_DIMS);
    r->out->dims = bl_arena_array(r->arena, bl_json_count(at) + 1, sizeof *r->out->dims);
    if (r->out->dims == NULL)
        return bl_arena_status(r->arena, r->err);
    bl_json_iter it = bl_json_each(at);
    while (bl_json_next(&it, &one)) {
        bl_onnx_range *range = &r->out->dims[r->out->ndims++];
        *range = (bl_onnx_range){.var.name = bl_arena_strdup(r->arena, one.key)};
        if (one.kind == BL_JSON_STRING)
            BL_TRY(bl_json_string(&one, &range->same, r->err));
        else
            BL_TRY(bl_decode_range(&one, &range->var, r->err));
    }
    return bl_arena_status(r->arena, r->err);
}

static bl_status read_queue_policy(reader *r, const bl_json *at, bl_config_batching *out)
{
    static const char *const names[] = {"timeout_action", "default_timeout_microseconds", "allow_timeout_override",
                                        "max_queue_size", NULL};
    bl_json one;
    BL_TRY(bl_json_allow(at, names, r->err));
    BL_TRY(find_int(at, "default_timeout_microseconds", 0, INT64_MAX / 2000, &out->timeout_us, r->err));
    BL_TRY(find_int(at, "max_queue_size", 0, INT32_MAX, &out->how.max_waiting, r->err));
    out->may_override = false; /* Triton's default if there is a policy */
    BL_TRY(find_bool(at, "allow_timeout_override", &out->may_override, r->err));
    if (bl_json_find(at, "timeout_action", &one) && !bl_span_is(one.text, "REJECT"))
        return bl_json_fail(&one, r->err, BL_EUNSUPPORTED, "only REJECT is supported");
    return BL_OK;
}

static bl_status read_batching(reader *r, const bl_json *at)
{
    static const char *const names[] = {"preferred_batch_size",
                                        "max_queue_delay_microseconds",
                                        "preserve_ordering",
                                        "priority_levels",
                                        "default_priority_level",
                                        "default_queue_policy",
                                        NULL};
    bl_config_batching *out = &r->out->batching;
    bl_json one, size;
    bool ordered = true;
    out->present = true;
    BL_TRY(allow(at, "dynamic_batching", names, r->err));
    BL_TRY(find_int(at, "max_queue_delay_microseconds", 0, MOST_DELAY_US, &out->how.delay_us, r->err));
    BL_TRY(find_bool(at, "preserve_ordering", &ordered, r->err)); /* answers are in order in any case */
    BL_TRY(find_int(at, "priority_levels", 0, BL_MOST_PRIORITIES, &out->priority_levels, r->err));
    out->default_priority = (out->priority_levels + 1) / 2;
    if (bl_json_find(at, "default_priority_level", &one))
        BL_TRY(bl_json_int(&one, 1, out->priority_levels, &out->default_priority, r->err));
    if (bl_json_find(at, "default_queue_policy", &one))
        BL_TRY(read_queue_policy(r, &one, out));
    if (!bl_json_find(at, "preferred_batch_size", &one))
        return BL_OK;
    BL_TRY(bl_json_expect(&one, BL_JSON_ARRAY, r->err));
    bl_json_iter it = bl_json_each(&one);
    while (bl_json_next(&it, &size)) {
        if (out->how.npreferred == BL_WIRE_MOST_PREFERRED)
            return bl_json_fail(&one, r->err, BL_ELIMIT, "over %d sizes", BL_WIRE_MOST_PREFERRED);
        BL_TRY(bl_json_int(&size, 1, MOST_BATCH, &out->how.preferred[out->how.npreferred++], r->err));
    }
    return BL_OK;
}

static bl_status config_read_sequences(reader *r, const bl_json *at)
{
    static const char *const names[] = {"max_sequence_idle_microseconds", "direct", NULL};
    r->out->sequences.present = true;
    BL_TRY(allow(at, "sequence_batching", names, r->err));
    return find_int(at, "max_sequence_idle_microseconds", 1, INT64_MAX / 2000, &r->out->sequences.idle_us, r->err);
}

static bl_status read_kind(const bl_json *at, bl_config_kind *out, bl_err *err)
{
    static const char *const names[] = {
        [BL_INSTANCE_AUTO] = "KIND_AUTO", [BL_INSTANCE_CPU] = "KIND_CPU", [BL_INSTANCE_GPU] = "KIND_GPU"};
    const char *text = NULL;
    BL_TRY(bl_json_string(at, &text, err));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (bl_config_kind)i;
            return BL_OK;
        }
    return bl_json_fail(at, err, BL_EUNSUPPORTED,
                        "\"%.40s\": KIND_AUTO, KIND_CPU and KIND_GPU are supported; \"device\" chooses one by its id", text);
}

static bl_status read_gpus(const bl_json *at, bl_config_instance *out, bl_err *err)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, err));
    if (out->kind == BL_INSTANCE_CPU)
        return bl_json_fail(at, err, BL_EINVAL, "KIND_CPU takes no \"gpus\"");
    while (bl_json_next(&it, &one)) {
        if (out->ngpus == BL_MOST_INSTANCES)
            return bl_json_fail(at, err, BL_ELIMIT, "over %d GPUs", BL_MOST_INSTANCES);
        BL_TRY(bl_json_int(&one, 0, INT32_MAX, &out->gpus[out->ngpus++], err));
    }
    out->kind = out->ngpus > 0 ? BL_INSTANCE_GPU : out->kind;
    return BL_OK;
}

static bl_status read_instance(const bl_json *at, bl_config_instance *out, bl_err *err)
{
    static const char *const names[] = {"name", "count", "kind", "device", "gpus", NULL};
    bl_json member;
    int64_t count = 1;
    *out = (bl_config_instance){0};
    BL_TRY(allow(at, "instance_group", names, err));
    BL_TRY(find_int(at, "count", 1, INT32_MAX, &count, err));
    if (count > 1)
        return bl_json_fail(at, err, BL_EUNSUPPORTED,
                            "count is %lld; it must be 1: a device runs one instance, which batches the waiting requests; for "
                            "more instances, name several devices",
                            (long long)count);
    if (bl_json_find(at, "kind", &member))
        BL_TRY(read_kind(&member, &out->kind, err));
    if (bl_json_find(at, "gpus", &member))
        BL_TRY(read_gpus(&member, out, err));
    if (bl_json_find(at, "device", &member))
        BL_TRY(bl_json_string(&member, &out->device, err));
    if (out->device != NULL && out->ngpus > 0)
        return bl_json_fail(at, err, BL_EINVAL, "\"device\" and \"gpus\" exclude each other");
    return BL_OK;
}

static bl_status read_instances(reader *r, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, r->err));
    while (bl_json_next(&it, &one)) {
        if (r->out->ninstances == BL_MOST_INSTANCES)
            return bl_json_fail(at, r->err, BL_ELIMIT, "over %d groups of instances", BL_MOST_INSTANCES);
        BL_TRY(read_instance(&one, &r->out->instances[r->out->ninstances++], r->err));
    }
    return BL_OK;
}

static bl_status read_warmup_input(reader *r, const bl_json *at, bl_config_warmup_input *out)
{
    static const char *const names[] = {"data_type", "dims", "zero_data", "random_data", NULL};
    bl_json one;
    bool zeros = false;
    out->name = bl_arena_strdup(r->arena, at->key);
    BL_TRY(allow(at, "model_warmup.inputs", names, r->err));
    BL_TRY(bl_json_need(at, "data_type", &one, r->err));
    BL_TRY(read_type(&one, &out->datatype, r->err));
    BL_TRY(bl_json_need(at, "dims", &one, r->err));
    BL_TRY(read_dims(&one, &out->ndim, out->dim, r->err));
    BL_TRY(find_bool(at, "zero_data", &zeros, r->err));
    BL_TRY(find_bool(at, "random_data", &out->random, r->err));
    if (zeros == out->random)
        return bl_json_fail(at, r->err, BL_EINVAL, "exactly one of \"zero_data\" and \"random_data\" must be true");
    return bl_arena_status(r->arena, r->err);
}

static bl_status read_warmup(reader *r, const bl_json *at, bl_config_warmup *out)
{
    static const char *const names[] = {"name", "batch_size", "count", "inputs", NULL};
    bl_json one, input;
    out->batch_size = out->count = 1;
    BL_TRY(bl_json_allow(at, names, r->err));
    BL_TRY(bl_json_need(at, "name", &one, r->err));
    BL_TRY(bl_json_string(&one, &out->name, r->err));
    BL_TRY(find_int(at, "batch_size", 0, MOST_BATCH, &out->batch_size, r->err));
    BL_TRY(find_int(at, "count", 1, MOST_RUNS, &out->count, r->err));
    BL_TRY(bl_json_need(at, "inputs", &one, r->err));
    BL_TRY(bl_json_expect(&one, BL_JSON_OBJECT, r->err));
    out->inputs = bl_arena_array(r->arena, bl_json_count(&one) + 1, sizeof *out->inputs);
    if (out->inputs == NULL)
        return bl_arena_status(r->arena, r->err);
    bl_json_iter it = bl_json_each(&one);
    while (bl_json_next(&it, &input))
        BL_TRY(read_warmup_input(r, &input, &out->inputs[out->ninputs++]));
    return BL_OK;
}

static bl_status read_warmups(reader *r, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    size_t n = bl_json_count(at);
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, r->err));
    if (n > MOST_WARMUPS)
        return bl_json_fail(at, r->err, BL_ELIMIT, "over %d warm-up requests", MOST_WARMUPS);
    r->out->warmups = bl_arena_array(r->arena, n + 1, sizeof *r->out->warmups);
    if (r->out->warmups == NULL)
        return bl_arena_status(r->arena, r->err);
    while (bl_json_next(&it, &one))
        BL_TRY(read_warmup(r, &one, &r->out->warmups[r->out->nwarmups++]));
    return BL_OK;
}

static bl_status config_read_tokens(reader *r, const bl_json *at, const char *text, int lo, int hi, int64_t *out)
{
    char *end = NULL;
    *out = strtoll(text, &end, 10);
    if (*end == '\0' && end != text && *out >= lo && *out <= hi)
        return BL_OK;
    return bl_json_fail(at, r->err, BL_EINVAL, "it is \"%.40s\"; it must be a number of tokens, from %d to %d", text, lo, hi);
}

static bl_status read_context(reader *r, const bl_json *at, const char *text)
{
    return config_read_tokens(r, at, text, 1, BL_MOST_CONTEXT, &r->out->generation.context);
}

static bl_status read_chunk(reader *r, const bl_json *at, const char *text)
{
    return config_read_tokens(r, at, text, 1, BL_MOST_CONTEXT, &r->out->generation.chunk);
}

static bl_status read_draft_max(reader *r, const bl_json *at, const char *text)
{
    return config_read_tokens(r, at, text, 1, BL_MOST_DRAFT, &r->out->draft.most);
}

static bl_status read_draft_min(reader *r, const bl_json *at, const char *text)
{
    return config_read_tokens(r, at, text, 0, BL_MOST_DRAFT, &r->out->draft.least);
}

static bl_status read_draft_p_min(reader *r, const bl_json *at, const char *text)
{
    char *end = NULL;
    r->out->draft.p_min = strtof(text, &end);
    return *end == '\0' && end != text && r->out->draft.p_min >= 0 && r->out->draft.p_min <= 1
               ? BL_OK
               : bl_json_fail(at, r->err, BL_EINVAL, "it is \"%.40s\"; it must be a probability, from 0 to 1", text);
}

static bl_status read_share(reader *r, const bl_json *at, const char *text)
{
    r->out->generation.shares_prefix = strcmp(text, "all") == 0;
    return r->out->generation.shares_prefix || strcmp(text, "key") == 0
               ? BL_OK
               : bl_json_fail(at, r->err, BL_EINVAL, "share_prefix is \"%.100s\"; it must be \"key\" or \"all\"", text);
}

static bl_status config_read_pooling(reader *r, const bl_json *at, const char *text)
{
    static const char *const known[] = {"none", "mean", "cls", "last"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(text, known[i]) == 0)
            r->out->words.pooling = known[i];
    return r->out->words.pooling != NULL
               ? BL_OK
               : bl_json_fail(at, r->err, BL_EINVAL, "pooling is \"%.40s\"; it must be \"none\", \"mean\", \"cls\" or \"last\"",
                              text);
}

static bl_status read_activations(reader *r, const bl_json *at, const char *text)
{
    r->out->exact = strcmp(text, "float32") == 0;
    return r->out->exact || strcmp(text, "int8") == 0
               ? BL_OK
               : bl_json_fail(at, r->err, BL_EINVAL, "activations is \"%.40s\"; it must be \"int8\" or \"float32\"", text);
}

/* Read {"entry": {"string_value": "main"}}: a string of the configuration, or the value that |read| makes of it. */
static bl_status read_parameters(reader *r, const bl_json *at)
{
    static const char *const values[] = {"string_value", NULL};
    bl_model_config *out = r->out;
    const struct {
        const char *name, **text;
        bl_status (*read)(reader *r, const bl_json *at, const char *text);
    } rows[] = {{"entry", &out->entry, NULL},
                {"tokens", &out->generation.tokens, NULL},
                {"position", &out->generation.position, NULL},
                {"logits", &out->generation.logits, NULL},
                {"end", &out->generation.end, NULL},
                {"text", &out->words.text, NULL},
                {"mask", &out->words.mask, NULL},
                {"types", &out->words.types, NULL},
                {"picture", &out->picture, NULL},
                {"context", NULL, read_context},
                {"chunk", NULL, read_chunk},
                {"draft", &out->draft.name, NULL},
                {"draft_max", NULL, read_draft_max},
                {"draft_min", NULL, read_draft_min},
                {"draft_p_min", NULL, read_draft_p_min},
                {"share_prefix", NULL, read_share},
                {"activations", NULL, read_activations},
                {"pooling", NULL, config_read_pooling},
                {"chat_template", &out->openai.chat_template, NULL},
                {"defaults", &out->openai.defaults, NULL},
                {"aliases", &out->openai.aliases, NULL},
                {"tags", &out->openai.tags, NULL},
                {"reasoning", &out->openai.reasoning, NULL}};
    enum { ROWS = sizeof rows / sizeof rows[0] };
    const char *names[ROWS + 1] = {NULL}, *text = NULL;
    bl_json one, value;
    for (int i = 0; i < ROWS; i++)
        names[i] = rows[i].name;
    BL_TRY(bl_json_allow(at, names, r->err));
    for (int i = 0; i < ROWS; i++) {
        if (!bl_json_find(at, rows[i].name, &one))
            continue;
        BL_TRY(bl_json_allow(&one, values, r->err));
        BL_TRY(bl_json_need(&one, "string_value", &value, r->err));
        BL_TRY(bl_json_string(&value, &text, r->err));
        if (rows[i].text != NULL)
            *rows[i].text = text;
        else
            BL_TRY(rows[i].read(r, &value, text));
    }
    return BL_OK;
}

static bl_status config_check_name(reader *r, const bl_json *root, const char *name)
{
    bl_json at;
    if (!bl_json_find(root, "name", &at))
        return BL_OK;
    BL_TRY(bl_json_expect(&at, BL_JSON_STRING, r->err));
    return bl_span_is(at.text, name) ? BL_OK
                                     : bl_json_fail(&at, r->err, BL_EINVAL, "must be \"%s\", the name of the model", name);
}

/* The platform follows from the files of a model.  A configuration may repeat it, but may not name another one. */
static bl_status check_platform(reader *r, const bl_json *root)
{
    static const char *const members[] = {"platform", "backend"};
    static const char *const good[] = {"", "beamline_program", "beamline", "onnx", "onnxruntime_onnx", "onnxruntime", "llm"};
    for (int i = 0; i < 2; i++) {
        bl_json at;
        bool known = false;
        if (!bl_json_find(root, members[i], &at))
            continue;
        BL_TRY(bl_json_expect(&at, BL_JSON_STRING, r->err));
        for (size_t k = 0; k < sizeof good / sizeof good[0]; k++)
            known |= bl_span_is(at.text, good[k]);
        if (!known)
            return bl_json_fail(
                &at, r->err, BL_EUNSUPPORTED,
                "models are model.json (\"beamline_program\"), model.onnx (\"onnx\") or language models (\"llm\")");
    }
    return BL_OK;
}

static bl_status config_read_document(reader *r, const bl_json *root, const char *name)
{
    static const char *const names[] =
        {"name",       "platform",     "backend",          "version_policy",           "max_batch_size",
         "input",      "output",       "dynamic_batching", "sequence_batching",        "instance_group",
         "parameters", "model_warmup", "response_cache",   "model_transaction_policy", "dims",
         NULL},
                             *const cache[] = {"enable", NULL}, *const transactions[] = {"decoupled", NULL};
    bl_json at;
    bool decoupled = false;
    BL_TRY(allow(root, "", names, r->err));
    BL_TRY(config_check_name(r, root, name));
    BL_TRY(check_platform(r, root));
    BL_TRY(find_int(root, "max_batch_size", 0, MOST_BATCH, &r->out->max_batch_size, r->err));
    if (bl_json_find(root, "version_policy", &at))
        BL_TRY(read_policy(r, &at));
    if (bl_json_find(root, "input", &at))
        BL_TRY(read_tensors(r, &at, false, &r->out->ninputs, &r->out->inputs));
    if (bl_json_find(root, "dims", &at))
        BL_TRY(config_read_ranges(r, &at));
    if (bl_json_find(root, "output", &at))
        BL_TRY(read_tensors(r, &at, true, &r->out->noutputs, &r->out->outputs));
    if (bl_json_find(root, "dynamic_batching", &at))
        BL_TRY(read_batching(r, &at));
    if (bl_json_find(root, "sequence_batching", &at))
        BL_TRY(config_read_sequences(r, &at));
    if (bl_json_find(root, "instance_group", &at))
        BL_TRY(read_instances(r, &at));
    if (bl_json_find(root, "parameters", &at))
        BL_TRY(read_parameters(r, &at));
    if (bl_json_find(root, "model_warmup", &at))
        BL_TRY(read_warmups(r, &at));
    if (bl_json_find(root, "model_transaction_policy", &at)) {
        BL_TRY(bl_json_allow(&at, transactions, r->err));
        BL_TRY(find_bool(&at, "decoupled", &decoupled, r->err));
        if (decoupled)
            return bl_json_fail(&at, r->err, BL_EUNSUPPORTED, "decoupled models are not supported; a request has one answer");
    }
    if (!bl_json_find(root, "response_cache", &at))
        return BL_OK;
    BL_TRY(bl_json_allow(&at, cache, r->err));
    return find_bool(&at, "enable", &r->out->cached, r->err);
}

bl_status bl_model_config_read(bl_arena *arena, const char *name, bl_span text, bl_model_config *out, bl_err *err)
{
    reader r = {.arena = arena, .out = out, .err = err};
    bl_json_doc doc = {0};
    bl_err problem = {0};
    bl_status st = BL_OK;
    *out = (bl_model_config){.versions.latest = 1,
                             .max_batch_size = -1,
                             .batching.may_override = true,
                             .sequences.idle_us = USUAL_IDLE_US,
                             .draft.most = USUAL_DRAFT};
    if (text.data == NULL)
        return BL_OK;
    r.err = &problem;
    st = bl_json_parse(&doc, arena, text, NULL, r.err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = config_read_document(&r, &root, name);
    }
    bl_json_fini(&doc);
    return st == BL_OK ? BL_OK : bl_fail(err, problem.status, "model \"%s\", configuration: %s", name, problem.text);
}

bool bl_config_versions_want(const bl_config_versions *versions, uint64_t version, uint64_t rank)
{
    if (versions->policy == BL_POLICY_LATEST)
        return rank < versions->latest;
    for (int i = 0; i < versions->nspecific; i++)
        if (versions->specific[i] == version)
            return true;
    return versions->policy == BL_POLICY_ALL;
}

void bl_model_config_put_type(bl_text *out, int datatype)
{
    bl_text_printf(out, "\"TYPE_%s\"", datatype == BL_INFER_BYTES ? "STRING" : bl_infer_datatype(datatype));
}
