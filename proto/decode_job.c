/* SPDX-License-Identifier: MIT */
#include "proto/decode.h"
#include "proto/decode_parts.h"

#include <string.h>

bl_status bl_decode_job_programs(const bl_json *doc, const char **name, const char **evaluator, bl_err *err)
{
    bl_json evaluate, at;

    *evaluator = NULL;
    BL_TRY(bl_json_need(doc, "program", &at, err));
    BL_TRY(bl_json_string(&at, name, err));
    if (!bl_json_find(doc, "evaluate", &evaluate) || !bl_json_find(&evaluate, "program", &at))
        return BL_OK;
    return bl_json_string(&at, evaluator, err);
}

static bl_status decode_seconds(const bl_json *doc, const char *name, double *out, bl_err *err)
{
    bl_wire_number number;
    bl_json at;

    if (!bl_json_find(doc, name, &at))
        return BL_OK;
    BL_TRY(bl_json_number(&at, &number, err));
    *out = number.value;
    if (number.value > 0 && number.value <= BL_JOB_MAX_SECONDS)
        return BL_OK;
    return bl_json_fail(&at, err, BL_EGRAPH, "is %g seconds; it must be more than 0 and at most %g", number.value,
                        BL_JOB_MAX_SECONDS);
}

static bl_status decode_checkpoint(const bl_json *doc, bl_job_checkpoint *out, bl_err *err)
{
    static const bl_json_field fields[] = {
        {BL_FIELD(bl_job_checkpoint, BL_FIELD_INT64, "every", every), .least = 1, .most = INT64_MAX},
        {.name = "seconds"},
        {BL_FIELD(bl_job_checkpoint, BL_FIELD_INT, "keep", keep), .least = 1, .most = BL_JOB_MAX_KEEP},
        {.name = "max_age"},
        {.name = NULL},
    };
    bl_json checkpoint;

    if (!bl_json_find(doc, "checkpoint", &checkpoint))
        return BL_OK;
    BL_TRY(bl_json_read(&checkpoint, fields, true, out, err));
    BL_TRY(decode_seconds(&checkpoint, "seconds", &out->seconds, err));
    return decode_seconds(&checkpoint, "max_age", &out->max_age, err);
}

/* Tensors of the safetensors file whose names begin with "evaluate." are inputs of the evaluation, all others inputs of the
 * job. */
static bl_status split_file(const bl_tensor_file *all, bl_arena *arena, bl_tensor_file *own, bl_tensor_file *evaluation,
                            bl_err *err)
{
    static const char prefix[] = "evaluate.";

    *own = *evaluation = *all;
    own->ntensors = evaluation->ntensors = 0;
    own->tensors = bl_arena_array(arena, all->ntensors + 1, sizeof *own->tensors);
    evaluation->tensors = bl_arena_array(arena, all->ntensors + 1, sizeof *evaluation->tensors);
    if (own->tensors == NULL || evaluation->tensors == NULL)
        return bl_arena_status(arena, err);
    for (size_t i = 0; i < all->ntensors; i++) {
        bl_file_tensor tensor = all->tensors[i];
        if (strncmp(tensor.name, prefix, sizeof prefix - 1) != 0) {
            own->tensors[own->ntensors++] = tensor;
            continue;
        }
        tensor.name += sizeof prefix - 1;
        evaluation->tensors[evaluation->ntensors++] = tensor;
    }
    return BL_OK;
}

static bl_status decode_evaluation(bl_decoder *d, const bl_json *doc, const bl_program_doc *program, const bl_tensor_file *file,
                                   bl_job_doc *out, bl_err *err)
{
    static const char *const names[] = {"program", "entry", "inputs", "sizes", "every", "outputs", NULL};
    bl_decode_env env = *d->env;
    bl_json evaluate;

    if (!bl_json_find(doc, "evaluate", &evaluate))
        return BL_OK;
    out->evaluates = true;
    env.binary = file;
    bl_decoder *inner = bl_decoder_make(&env);
    if (inner == NULL)
        return bl_decoder_fail(&env, err);
    inner->lease = d->lease;
    BL_TRY(bl_json_allow(&evaluate, names, err));
    bl_status st =
        bl_decode_reported(inner, &evaluate, program->entries, program->nentries, out->run.steps, &out->evaluation, err);
    inner->env = d->env; /* |env| is local; d->env outlives the decoder */
    return st;
}

static bl_status decode_early_stop(const bl_json *doc, bl_job_stop *out, bl_err *err)
{
    static const bl_json_field fields[] = {
        {BL_FIELD(bl_job_stop, BL_FIELD_STRING, "metric", metric), .needed = true},
        {BL_FIELD(bl_job_stop, BL_FIELD_INT64, "patience", patience), .needed = true, .least = 1, .most = BL_WIRE_MAX_REPORTS},
        {.name = "mode"},
        {.name = "min_delta"},
        {.name = NULL},
    };
    const char *mode = "min";
    bl_wire_number number;
    bl_json stop, at;

    if (!bl_json_find(doc, "early_stop", &stop))
        return BL_OK;
    BL_TRY(bl_json_read(&stop, fields, true, out, err));
    if (bl_json_find(&stop, "mode", &at))
        BL_TRY(bl_json_string(&at, &mode, err));
    out->maximise = strcmp(mode, "max") == 0;
    if (!out->maximise && strcmp(mode, "min") != 0)
        return bl_json_fail(&at, err, BL_EINVAL, "must be \"min\" or \"max\", not \"%.60s\"", mode);
    if (!bl_json_find(&stop, "min_delta", &at))
        return BL_OK;
    BL_TRY(bl_json_number(&at, &number, err));
    out->min_delta = number.value;
    return number.value >= 0 && number.value < BL_JOB_MAX_DELTA
               ? BL_OK
               : bl_json_fail(&at, err, BL_EGRAPH, "is %g; it must be from 0 to %g", number.value, BL_JOB_MAX_DELTA);
}

/* A loss scale avoids underflow of gradients: float16 has 5 bits of exponent, bfloat16 as many as float32. */
static bl_status decode_training(const bl_json *doc, bl_job_doc *out, bl_err *err)
{
    bl_json at;
    bl_wire_number number;
    int64_t passes = 1;

    if (bl_json_find(doc, "accumulate", &at))
        BL_TRY(bl_json_int(&at, 1, BL_JOB_MAX_PASSES, &passes, err));
    out->accumulate = (int)passes;
    if (bl_json_find(doc, "compute", &at)) {
        BL_TRY(bl_decode_dtype(&at, &out->compute, err));
        if (out->compute != BL_F16 && out->compute != BL_BF16 && out->compute != BL_F32)
            return bl_json_fail(&at, err, BL_EGRAPH, "must be \"float16\", \"bfloat16\" or \"float32\", not \"%s\"",
                                bl_dtype_name(out->compute));
        out->mixed = out->compute != BL_F32;
        out->dynamic_scale = out->compute == BL_F16;
    }
    if (!bl_json_find(doc, "loss_scale", &at))
        return BL_OK;
    out->dynamic_scale = at.kind == BL_JSON_STRING && bl_span_is(at.text, "dynamic");
    if (out->dynamic_scale)
        return BL_OK;
    BL_TRY(bl_json_number(&at, &number, err));
    out->loss_scale = number.value == 1 ? 0 : number.value;
    return number.value > 0 && number.value < BL_JOB_MAX_DELTA
               ? BL_OK
               : bl_json_fail(&at, err, BL_EGRAPH, "is %g; it must be \"dynamic\" or a number above 0", number.value);
}

bl_status bl_decode_job(const bl_decode_env *env, const bl_json *doc, const bl_program_doc *program,
                        const bl_program_doc *evaluator, bl_job_doc *out, bl_err *err)
{
    static const char *const names[] = {"program", "entry",      "inputs",     "sizes",      "steps",
                                        "collect", "priority",   "checkpoint", "evaluate",   "early_stop",
                                        "lease",   "accumulate", "compute",    "loss_scale", NULL};
    bl_decode_env own = *env;
    bl_tensor_file file, evaluation;
    bl_decoder *d = bl_decoder_make(&own);
    bl_json at;

    *out = (bl_job_doc){0};
    if (d == NULL)
        return bl_decoder_fail(env, err);
    if (env->binary != NULL && bl_json_find(doc, "evaluate", &at)) {
        BL_TRY(split_file(env->binary, env->arena, &file, &evaluation, err));
        own.binary = &file;
    }
    BL_TRY(bl_json_allow(doc, names, err));
    BL_TRY(bl_json_need(doc, "steps", &at, err));
    BL_TRY(bl_decode_steps(d, doc, program->entries, program->nentries, &out->run, err));
    BL_TRY(decode_checkpoint(doc, &out->checkpoint, err));
    BL_TRY(decode_evaluation(d, doc, evaluator, own.binary != NULL ? &evaluation : NULL, out, err));
    BL_TRY(decode_early_stop(doc, &out->stop, err));
    return decode_training(doc, out, err);
}
