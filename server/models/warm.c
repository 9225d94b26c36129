/* SPDX-License-Identifier: MIT */
/* Warm-up: requests that run before a version is published.  The first run prepares caches, and a model that cannot run is not
 * published. */
#include "server/models/model_infer.h"

#include <string.h>

static const bl_config_warmup_input *warm_find_input(const bl_config_warmup *warmup, const char *name)
{
    for (int i = 0; i < warmup->ninputs; i++)
        if (strcmp(warmup->inputs[i].name, name) == 0)
            return &warmup->inputs[i];
    return NULL;
}

/* Choose the shape of an input from the configuration, with the batch size of the warm-up. */
static bl_status warm_choose_shape(const bl_model_version *version, const bl_config_warmup *warmup, int at, int64_t *vars,
                                   int64_t *dim, bl_err *err)
{
    const bl_model_tensor *tensor = &version->inputs[at];
    const bl_config_warmup_input *said = warm_find_input(warmup, tensor->name);
    bool picture = tensor->coding == BL_MODEL_PICTURE;
    int skip = version->batcher.max_rows > 0 ? 1 : 0, ndim = picture ? tensor->ndim : bl_model_tensor_rank(tensor);
    int datatype = picture ? BL_U8 : tensor->datatype; /* a picture input takes pixels in a warm-up */
    if (said == NULL)
        return bl_fail(err, BL_EGRAPH, "model_warmup \"%s\" has no input \"%s\"", warmup->name, tensor->name);
    if (said->datatype != datatype || (said->ndim != ndim - skip && datatype != BL_INFER_BYTES))
        return bl_fail(err, BL_EGRAPH,
                       "model_warmup \"%s\": input \"%s\" has another data type or rank than the input of the model",
                       warmup->name, tensor->name);
    for (int d = 0; d < tensor->ndim; d++) {
        int64_t size = d < skip ? warmup->batch_size : d - skip < said->ndim && d < ndim ? said->dim[d - skip] : tensor->dim[d];
        int var = tensor->var[d];
        const bl_wire_var *range = var >= 0 ? &version->instances[0].slot.graph->vars[var] : NULL;
        bool good = range == NULL ? size == tensor->dim[d] : bl_wire_var_has(range, size) && (vars[var] < 0 || vars[var] == size);
        if (!good)
            return bl_fail(err, BL_EGRAPH, "model_warmup \"%s\": input \"%s\": the size %lld is outside the range of the model",
                           warmup->name, tensor->name, (long long)size);
        if (var >= 0)
            vars[var] = size;
        dim[d] = size;
    }
    return BL_OK;
}

/* Fill with zeros, or with pseudo-random numbers from 0 to 1 that are the same each time. */
static void warm_fill(const bl_device_tensor *held, char *to, bool random)
{
    size_t each = bl_dtype_bytes(held->dtype);
    uint32_t seed = 1;
    memset(to, 0, held->bytes);
    for (size_t at = 0; random && at < held->bytes; at += each) {
        bl_scalar value;
        seed = seed * 1664525U + 1013904223U; /* constants of Numerical Recipes */
        value =
            bl_scalar_cast(held->dtype, BL_F64, (bl_scalar){.f = bl_dtype_is_float(held->dtype) ? seed * 0x1p-32 : seed >> 31});
        bl_scalar_write(held->dtype, value, to + at);
    }
}

bl_status bl_model_warm(bl_request *rq, bl_model_version *version, bl_model_instance *instance, const bl_config_warmup *warmup)
{
    int64_t *vars = bl_arena_array(rq->arena, (size_t)version->batcher.nvars + 1, sizeof *vars);
    int64_t(*dim)[16] = bl_arena_array(rq->arena, (size_t)version->batcher.ninputs + 1, sizeof *dim);
    bl_exec *x = NULL;
    if (vars == NULL || dim == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (int i = 0; i < version->batcher.nvars; i++)
        vars[i] = -1;
    for (int i = 0; i < version->batcher.ninputs; i++)
        BL_TRY(warm_choose_shape(version, warmup, i, vars, dim[i], &rq->err));
    for (int i = 0; i < version->batcher.nvars; i++)
        vars[i] = vars[i] < 0 ? instance->slot.graph->vars[i].lo : vars[i];
    BL_TRY(bl_infer_prepare(rq, version, instance, vars, &x));
    x->in.tensors = bl_arena_array(rq->arena, (size_t)version->batcher.ninputs + 1, sizeof *x->in.tensors);
    if (x->in.tensors == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (int i = 0; i < version->batcher.ninputs; i++) {
        const bl_model_tensor *tensor = &version->inputs[i];
        const bl_config_warmup_input *said = warm_find_input(warmup, tensor->name);
        char *to = NULL;
        BL_TRY(bl_device_tensor_create(x->worker, tensor->dtype, tensor->ndim, dim[i], &x->in.tensors[i], &rq->err));
        x->in.n++;
        to = bl_device_tensor_host(x->in.tensors[i]);
        if (to == NULL)
            return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a warm-up of %zu bytes", x->in.tensors[i]->bytes);
        warm_fill(x->in.tensors[i], to, said->random);
    }
    return bl_request_submit(rq, x->worker->queue, x->work, NULL);
}
