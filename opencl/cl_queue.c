/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

/* A parameter of a launch: its source, and the value that was set last. */
typedef struct parameter {
    uint64_t current; /* the value set last: the serial of a buffer, or a scalar with SCALAR_SET; 0: not set */
    uint16_t from;    /* slot or variable number */
} parameter;

static const uint64_t SCALAR_SET = (uint64_t)1 << 32;

/* A launch of a recording. Each launch has its own cl_kernel, so that the arguments of the kernel stay set between
 * submissions. */
typedef struct launch {
    cl_kernel kernel;
    parameter *parameters; /* buffers first, then scalars */
    uint32_t nbuffers, nscalars;
    cl_uint first_buffer, first_scalar; /* positions of the first buffer and of the first scalar among the arguments */
    size_t local[3];
} launch;

typedef struct recording {
    bl_recording base;
    launch *launches;
    parameter *parameters;
    /* One call per launch, if dev->team runs the recording; else this and the next three fields are NULL. */
    bl_cl_call *calls;
    uint64_t *addresses;      /* by parameter */
    int32_t *scalars;         /* by parameter */
    bl_cl_program **programs; /* by launch, retained: they keep the machine code loaded */
} recording;

cl_int bl_cl_set_call(bl_cl_device *dev, cl_kernel kernel, int number)
{
    const cl_int zero = 0;
    cl_uint arguments = 0;
    cl_int rc = dev->cl.GetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL);

    if (rc == CL_SUCCESS)
        rc = dev->cl.SetKernelArg(kernel, BL_CL_CALL_NUMBER, sizeof number, &number);
    for (cl_uint i = BL_CL_CALL_SCALARS; i < BL_CL_CALL_BUFFERS && rc == CL_SUCCESS; i++)
        rc = dev->cl.SetKernelArg(kernel, i, sizeof zero, &zero);
    for (cl_uint i = BL_CL_CALL_BUFFERS; i < arguments && rc == CL_SUCCESS; i++)
        rc = dev->cl.SetKernelArg(kernel, i, sizeof(cl_mem), NULL);
    return rc;
}

/* The parameters of a launch. */
static void take_parameters(const bl_launch *from, parameter *parameters, launch *to)
{
    to->parameters = parameters;
    to->nbuffers = from->kernel->nbuffers;
    to->nscalars = from->kernel->nscalars;
    for (uint32_t i = 0; i < to->nbuffers; i++)
        parameters[i].from = from->slot[i];
    for (uint32_t i = 0; i < to->nscalars; i++)
        parameters[to->nbuffers + i].from = from->var[i];
}

static bl_status cl_queue_prepare(bl_cl_device *dev, const bl_launch *from, launch *to, bl_err *err)
{
    bl_cl_kernel *kernel = (bl_cl_kernel *)from->kernel;
    cl_int rc = CL_SUCCESS;

    to->kernel = dev->cl.CreateKernel(kernel->program->handle, kernel->entry.name, &rc);
    if (rc != CL_SUCCESS) {
        to->kernel = NULL;
        return bl_cl_fail(rc, "clCreateKernel", err);
    }
    to->first_scalar = to->nbuffers;
    if (kernel->entry.number >= 0) {
        to->first_buffer = BL_CL_CALL_BUFFERS;
        to->first_scalar = BL_CL_CALL_SCALARS;
        rc = bl_cl_set_call(dev, to->kernel, kernel->entry.number);
        if (rc != CL_SUCCESS)
            return bl_cl_fail(rc, "setting a kernel's argument", err);
    }
    for (int d = 0; d < 3; d++)
        to->local[d] = kernel->base.local[d];
    return BL_OK;
}

/* Whether the team can call the kernels of all launches. */
static bool is_direct(const bl_cl_device *dev, uint32_t n, const bl_launch *launches)
{
    bool direct = dev->team != NULL && n > 0;

    for (uint32_t i = 0; i < n && direct; i++)
        direct = ((const bl_cl_kernel *)launches[i].kernel)->function != NULL;
    return direct;
}

/* The calls of a direct recording; their arguments are set when it is submitted. */
static bl_status make_calls(recording *r, size_t parameters, const bl_launch *launches, bl_err *err)
{
    size_t at = 0;

    r->calls = bl_calloc(r->base.nlaunches, sizeof *r->calls);
    r->addresses = bl_calloc(parameters + 1, sizeof *r->addresses);
    r->scalars = bl_calloc(parameters + 1, sizeof *r->scalars);
    r->programs = bl_calloc(r->base.nlaunches, sizeof *r->programs);
    if (r->calls == NULL || r->addresses == NULL || r->scalars == NULL || r->programs == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a recording of %u launches", r->base.nlaunches);
    for (uint32_t i = 0; i < r->base.nlaunches; i++) {
        const bl_cl_kernel *kernel = (const bl_cl_kernel *)launches[i].kernel;
        r->calls[i] = (bl_cl_call){kernel->function, r->addresses + at, r->scalars + at, kernel->local_bytes, {0, 0, 0}};
        r->programs[i] = bl_cl_program_retain((bl_cl_device *)r->base.dev, kernel->program);
        at += kernel->base.nbuffers + kernel->base.nscalars;
    }
    return BL_OK;
}

bl_status bl_cl_record(bl_device *base, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                       bl_recording **out, bl_err *err)
{
    recording *r = bl_calloc(1, sizeof *r);
    size_t parameters = 0;
    bl_status st = BL_OK;

    (void)nslots; /* the wrapper has checked every slot and variable of the launches against the counts */
    (void)nvars;
    if (r == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a recording");
    for (uint32_t i = 0; i < n; i++)
        parameters += launches[i].kernel->nbuffers + launches[i].kernel->nscalars;
    r->base.dev = base;
    r->base.nlaunches = n;
    r->launches = bl_calloc(n > 0 ? n : 1, sizeof *r->launches);
    r->parameters = bl_calloc(parameters > 0 ? parameters : 1, sizeof *r->parameters);
    if (r->launches == NULL || r->parameters == NULL)
        st = bl_fail(err, BL_ENOMEM, "out of host memory for a recording of %u launches", n);
    bool direct = st == BL_OK && is_direct((const bl_cl_device *)base, n, launches);
    if (direct)
        st = make_calls(r, parameters, launches, err);
    parameters = 0;
    for (uint32_t i = 0; i < n && st == BL_OK; i++) {
        take_parameters(&launches[i], r->parameters + parameters, &r->launches[i]);
        if (!direct)
            st = cl_queue_prepare((bl_cl_device *)base, &launches[i], &r->launches[i], err);
        parameters += launches[i].kernel->nbuffers + launches[i].kernel->nscalars;
    }
    if (st != BL_OK) {
        bl_cl_recording_destroy(&r->base);
        return st;
    }
    *out = &r->base;
    return BL_OK;
}

void bl_cl_recording_destroy(bl_recording *base)
{
    recording *r = (recording *)base;
    bl_cl_device *dev = (bl_cl_device *)base->dev;

    for (uint32_t i = 0; r->launches != NULL && i < base->nlaunches; i++) {
        if (r->launches[i].kernel != NULL)
            (void)dev->cl.ReleaseKernel(r->launches[i].kernel);
    }
    for (uint32_t i = 0; r->programs != NULL && i < base->nlaunches; i++)
        bl_cl_program_release(dev, r->programs[i]);
    free(r->programs);
    free(r->launches);
    free(r->parameters);
    free(r->calls);
    free(r->addresses);
    free(r->scalars);
    free(r);
}

static cl_int set_buffer(bl_cl_device *dev, launch *l, uint32_t i, const bl_submission *s)
{
    parameter *p = &l->parameters[i];
    const bl_cl_buffer *buffer = (const bl_cl_buffer *)s->slots[p->from];
    cl_int rc;

    if (p->current == buffer->serial)
        return CL_SUCCESS;
    rc = dev->cl.SetKernelArg(l->kernel, l->first_buffer + i, sizeof buffer->mem, &buffer->mem);
    p->current = rc == CL_SUCCESS ? buffer->serial : 0;
    return rc;
}

static cl_int set_scalar(bl_cl_device *dev, launch *l, uint32_t i, const bl_submission *s)
{
    parameter *p = &l->parameters[l->nbuffers + i];
    cl_int value = s->vars[p->from];
    uint64_t wanted = SCALAR_SET | (uint32_t)value;
    cl_int rc;

    if (p->current == wanted)
        return CL_SUCCESS;
    rc = dev->cl.SetKernelArg(l->kernel, l->first_scalar + i, sizeof value, &value);
    p->current = rc == CL_SUCCESS ? wanted : 0;
    return rc;
}

static bl_status enqueue(recording *r, uint32_t number, const bl_submission *s, cl_event *event, bl_err *err)
{
    bl_cl_device *dev = (bl_cl_device *)r->base.dev;
    launch *l = &r->launches[number];
    cl_command_queue queue = dev->session.queues[dev->current];
    const uint32_t *groups = s->groups[number];
    size_t global[3];
    cl_int rc = CL_SUCCESS;

    if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0)
        return BL_OK;
    for (int d = 0; d < 3; d++)
        global[d] = groups[d] * l->local[d];
    for (uint32_t i = 0; i < l->nbuffers && rc == CL_SUCCESS; i++)
        rc = set_buffer(dev, l, i, s);
    for (uint32_t i = 0; i < l->nscalars && rc == CL_SUCCESS; i++)
        rc = set_scalar(dev, l, i, s);
    if (rc != CL_SUCCESS)
        return bl_cl_fail_queue(dev, rc, "setting a kernel's argument", err);
    if (bl_fault_hit(BL_FAULT_LAUNCH)) /* some drivers allocate the memory of a buffer only at the launch */
        rc = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    else
        rc = dev->cl.EnqueueNDRangeKernel(queue, l->kernel, 3, NULL, global, l->local, 0, NULL, event);
    if (rc != CL_SUCCESS)
        return bl_cl_fail_queue(dev, rc, "launching a kernel", err);
    r->base.begun = true;
    return BL_OK;
}

/* Makes |which| the queue of the following commands, ordered after the commands of the previous queue. */
static bl_status choose_queue(bl_cl_device *dev, int which, bl_err *err)
{
    if (dev->current == which)
        return BL_OK;
    BL_TRY(bl_cl_session_add_queue(dev, which, err));
    if (dev->pending)
        BL_TRY(bl_cl_wait(&dev->base, err));
    dev->current = which;
    return BL_OK;
}

static void destroy_timing(bl_cl_device *dev, bl_cl_timing *timing)
{
    for (uint32_t i = 0; timing != NULL && i < timing->n; i++) {
        if (timing->events[i] != NULL)
            (void)dev->cl.ReleaseEvent(timing->events[i]);
    }
    free(timing);
}

static bl_cl_timing *create_timing(uint32_t n, uint64_t *nanoseconds)
{
    bl_cl_timing *timing = bl_calloc(1, sizeof *timing + n * sizeof timing->events[0]);

    if (timing != NULL) {
        timing->n = n;
        timing->nanoseconds = nanoseconds;
    }
    return timing;
}

/* Set the arguments of all calls. */
static void set_arguments(recording *r, const bl_submission *s)
{
    size_t at = 0;

    for (uint32_t i = 0; i < r->base.nlaunches; i++) {
        const launch *l = &r->launches[i];
        for (uint32_t k = 0; k < l->nbuffers; k++)
            r->addresses[at + k] = (uint64_t)(uintptr_t)s->slots[l->parameters[k].from]->host;
        for (uint32_t k = 0; k < l->nscalars; k++)
            r->scalars[at + k] = s->vars[l->parameters[l->nbuffers + k].from];
        memcpy(r->calls[i].groups, s->groups[i], sizeof r->calls[i].groups);
        at += l->nbuffers + l->nscalars;
    }
}

/* Run a direct recording to its end. */
static bl_status submit_calls(recording *r, const bl_submission *s, bl_err *err)
{
    bl_cl_device *dev = (bl_cl_device *)r->base.dev;
    uint32_t n = 0; /* the launches before the first one that fails, for the tests */

    if (dev->pending)
        BL_TRY(bl_cl_wait(&dev->base, err));
    while (n < r->base.nlaunches && !bl_fault_hit(BL_FAULT_LAUNCH))
        n++;
    set_arguments(r, s);
    BL_TRY(bl_cl_team_run(dev->team, s->brief, n, r->calls, s->nanoseconds, err));
    r->base.begun = n > 0;
    return n == r->base.nlaunches ? BL_OK : bl_cl_fail_queue(dev, CL_MEM_OBJECT_ALLOCATION_FAILURE, "launching a kernel", err);
}

bl_status bl_cl_submit(bl_recording *base, const bl_submission *s, bl_err *err)
{
    recording *r = (recording *)base;
    bl_cl_device *dev = (bl_cl_device *)base->dev;
    if (r->calls != NULL)
        return submit_calls(r, s, err);
    bl_cl_timing *timing = NULL;
    bl_status st = choose_queue(dev, s->nanoseconds != NULL ? BL_CL_TIMED : BL_CL_PLAIN, err);
    cl_int rc;

    if (st != BL_OK)
        return st;
    if (s->nanoseconds != NULL) {
        timing = create_timing(base->nlaunches, s->nanoseconds);
        if (timing == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for the times of %u launches", base->nlaunches);
    }
    dev->pending = true;
    for (uint32_t i = 0; i < base->nlaunches && st == BL_OK; i++)
        st = enqueue(r, i, s, timing != NULL ? &timing->events[i] : NULL, err);
    rc = dev->cl.Flush(dev->session.queues[dev->current]);
    if (st == BL_OK && rc != CL_SUCCESS)
        st = bl_cl_fail_queue(dev, rc, "clFlush", err);
    if (st != BL_OK) { /* the caller does not wait for a failed submission and may free its buffers, so wait here */
        (void)dev->cl.Finish(dev->session.queues[dev->current]);
        destroy_timing(dev, timing);
        return st;
    }
    if (timing != NULL) {
        timing->next = dev->timings;
        dev->timings = timing;
    }
    return BL_OK;
}

static bl_status read_times(bl_cl_device *dev, const bl_cl_timing *timing, bl_err *err)
{
    for (uint32_t i = 0; i < timing->n; i++) {
        cl_ulong start = 0, end = 0;
        cl_int rc = CL_SUCCESS;

        timing->nanoseconds[i] = 0;
        if (timing->events[i] == NULL)
            continue;
        rc = dev->cl.GetEventProfilingInfo(timing->events[i], CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
        if (rc == CL_SUCCESS)
            rc = dev->cl.GetEventProfilingInfo(timing->events[i], CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        if (rc != CL_SUCCESS)
            return bl_cl_fail_queue(dev, rc, "reading a kernel's time", err);
        timing->nanoseconds[i] = end > start ? end - start : 0;
    }
    return BL_OK;
}

bl_status bl_cl_wait(bl_device *base, bl_err *err)
{
    bl_cl_device *dev = (bl_cl_device *)base;
    bl_status st = BL_OK;
    cl_int rc;

    if (!dev->pending)
        return BL_OK;
    rc = dev->cl.Finish(dev->session.queues[dev->current]);

    if (rc == CL_SUCCESS) {
        dev->pending = false;
    } else {
        st = bl_cl_fail_queue(dev, rc, "waiting for the device", err);
        atomic_store(&base->lost, true); /* the submitted commands may still run; only a new session ends them */
    }
    for (bl_cl_timing *timing = dev->timings; timing != NULL && st == BL_OK; timing = timing->next)
        st = read_times(dev, timing, err);
    bl_cl_forget_timings(dev);
    return st;
}

void bl_cl_forget_timings(bl_cl_device *dev)
{
    for (bl_cl_timing *timing = dev->timings, *next; timing != NULL; timing = next) {
        next = timing->next;
        destroy_timing(dev, timing);
    }
    dev->timings = NULL;
}
