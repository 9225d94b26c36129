/* SPDX-License-Identifier: MIT */
/* Dry runs: report the estimated cost of a graph from its plan, with its schedule and its kernels. */
#include "proto/encode.h"
#include "server/run/exec.h"

#include <stdlib.h>

enum { MOST_KERNELS = 1000 };

static size_t bytes_of(const bl_plan_tensor *tensor, const int64_t *vars)
{
    int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
    size_t bytes = bl_dtype_bytes(tensor->dtype);
    bl_plan_sizes(tensor, vars, dim);
    for (int i = 0; i < tensor->ndim; i++)
        bytes *= (size_t)dim[i]; /* no overflow: bl_exec_admit or the program has checked the size */
    return bytes;
}

static void dry_run_put_count(bl_text *out, const char *name, uint64_t count)
{
    bl_encode_key(out, name);
    bl_encode_u64(out, count);
}

/* Write the memory of a run.  An updated state counts twice: its value before the step and its value after the step. */
static void put_memory(const bl_exec *x, const bl_plan_info *info, bl_text *out)
{
    size_t inputs = 0, outputs = 0, states = 0;
    for (int i = 0; i < x->in.n; i++)
        inputs += x->in.values[i].bytes;
    for (int i = 0; i < info->noutputs; i++)
        outputs += bytes_of(&info->outputs[i], x->vars);
    for (int i = 0; i < info->nstates + info->nhidden; i++) {
        const bl_plan_tensor *tensor = i < info->nstates ? &info->states[i] : &info->hidden[i - info->nstates];
        states += bytes_of(tensor, x->vars) * (info->updated[i] ? 2 : 1);
    }
    dry_run_put_count(out, "input_bytes", inputs);
    dry_run_put_count(out, "output_bytes", outputs);
    dry_run_put_count(out, "state_bytes", states);
    dry_run_put_count(out, "peak_bytes", info->peak_bytes);
    dry_run_put_count(out, "memory_bytes", inputs + outputs + states + info->peak_bytes);
}

static void dry_run_put_kernels(const bl_plan *plan, bl_text *out)
{
    bl_kernel_use *use = calloc(MOST_KERNELS, sizeof *use);
    int n = use != NULL ? bl_plan_list_kernels(plan, MOST_KERNELS, use) : 0;
    bl_encode_key(out, "launched");
    bl_text_puts(out, "[");
    for (int i = 0; i < n; i++) {
        bl_text_puts(out, i > 0 ? ",{" : "{");
        bl_encode_key(out, "kernel");
        bl_encode_string(out, use[i].name);
        bl_encode_key(out, "moves");
        bl_encode_string(out, use[i].moves);
        bl_encode_key(out, "helper");
        bl_text_puts(out, use[i].helper ? "true" : "false");
        dry_run_put_count(out, "launches", (uint64_t)use[i].launches);
        dry_run_put_count(out, "ops", (uint64_t)use[i].ops);
        dry_run_put_count(out, "bytes", (uint64_t)use[i].bytes);
        bl_text_puts(out, "}");
    }
    bl_text_puts(out, "]");
    free(use);
}

/* The measured time of a step, or the estimate of the compiler if no step was measured. */
static double step_seconds(const bl_plan *plan)
{
    bl_plan_service service = bl_plan_get_service(plan);
    return service.wall_seconds > 0 ? service.wall_seconds : bl_plan_get_info(plan)->estimate_s;
}

bl_status bl_exec_reply_cost(bl_request *rq)
{
    const bl_exec *x = rq->data;
    const bl_plan_info *info = bl_plan_get_info(x->plan);
    bl_text *out = &rq->reply.out;
    bl_text_puts(out, "{");
    bl_encode_key(out, "dry_run");
    bl_text_puts(out, "true");
    bl_encode_key(out, "device");
    bl_encode_string(out, info->device);
    bl_encode_key(out, "plan");
    bl_encode_string(out, x->hit ? "cached" : "compiled");
    dry_run_put_count(out, "steps", x->steps);
    dry_run_put_count(out, "ops", (uint64_t)info->ops); /* number of operations of one step; all figures below are for one
                                                         * step */
    dry_run_put_count(out, "bytes", (uint64_t)info->bytes);
    bl_encode_measured(out, "seconds", step_seconds(x->plan));
    put_memory(x, info, out);
    dry_run_put_count(out, "kernels", info->kernels);
    dry_run_put_count(out, "helpers", info->helpers);
    dry_run_put_kernels(x->plan, out);
    bl_encode_key(out, "schedule");
    bl_encode_string(out, info->debug);
    bl_exec_put_explained(x, out);
    bl_text_puts(out, "}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_exec_dry_run(bl_exec *x)
{
    if (x->compile == NULL)
        return bl_exec_reply_cost(x->rq);
    x->rq->then = bl_exec_reply_cost;
    return bl_exec_advance(x);
}
