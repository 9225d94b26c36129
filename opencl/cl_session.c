/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include <string.h>

static bl_status make_queue(bl_cl_device *dev, cl_context context, int which, cl_command_queue *out, bl_err *err)
{
    cl_command_queue_properties properties = (which & BL_CL_TIMED) != 0 ? CL_QUEUE_PROFILING_ENABLE : 0;
    cl_int rc = CL_SUCCESS;
    cl_command_queue queue = dev->cl.CreateCommandQueue(context, dev->id, properties, &rc);

    if (rc != CL_SUCCESS)
        return bl_cl_fail(rc, "clCreateCommandQueue", err);
    *out = queue;
    return BL_OK;
}

bl_status bl_cl_session_open(bl_cl_device *dev, bl_err *err)
{
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)dev->platform, 0};
    bl_cl_session fresh = {0};
    cl_int rc = CL_SUCCESS;
    bl_status st;

    fresh.context = dev->cl.CreateContext(properties, 1, &dev->id, NULL, NULL, &rc);
    if (rc != CL_SUCCESS)
        return bl_cl_fail(rc, "clCreateContext", err);
    st = make_queue(dev, fresh.context, BL_CL_PLAIN, &fresh.queues[BL_CL_PLAIN], err);
    if (st != BL_OK) {
        (void)dev->cl.ReleaseContext(fresh.context);
        return st;
    }
    pthread_mutex_lock(&dev->lock);
    dev->session = fresh;
    pthread_mutex_unlock(&dev->lock);
    dev->current = BL_CL_PLAIN;
    dev->pending = false;
    return BL_OK;
}

bl_status bl_cl_session_add_queue(bl_cl_device *dev, int which, bl_err *err)
{
    cl_command_queue queue = NULL;

    if (dev->session.queues[which] != NULL)
        return BL_OK;
    BL_TRY(make_queue(dev, dev->session.context, which, &queue, err));
    pthread_mutex_lock(&dev->lock);
    dev->session.queues[which] = queue;
    pthread_mutex_unlock(&dev->lock);
    return BL_OK;
}

void bl_cl_session_close(bl_cl_device *dev)
{
    bl_cl_session old;

    bl_cl_quiesce(dev);
    bl_cl_forget_timings(dev);
    pthread_mutex_lock(&dev->lock);
    old = dev->session;
    memset(&dev->session, 0, sizeof dev->session);
    pthread_mutex_unlock(&dev->lock);
    bl_cl_session_drop(dev, &old); /* releases the references of the old session; other holders keep their references */
}

void bl_cl_session_hold(bl_cl_device *dev, bl_cl_session *out)
{
    pthread_mutex_lock(&dev->lock);
    *out = dev->session;
    if (out->context != NULL)
        (void)dev->cl.RetainContext(out->context);
    for (int i = 0; i < BL_CL_QUEUES; i++) {
        if (out->queues[i] != NULL)
            (void)dev->cl.RetainCommandQueue(out->queues[i]);
    }
    pthread_mutex_unlock(&dev->lock);
}

void bl_cl_session_drop(bl_cl_device *dev, bl_cl_session *held)
{
    for (int i = 0; i < BL_CL_QUEUES; i++) {
        if (held->queues[i] != NULL)
            (void)dev->cl.ReleaseCommandQueue(held->queues[i]);
    }
    if (held->context != NULL)
        (void)dev->cl.ReleaseContext(held->context);
    memset(held, 0, sizeof *held);
}

void bl_cl_quiesce(bl_cl_device *dev)
{
    bl_cl_session session;

    bl_cl_session_hold(dev, &session);
    for (int i = 0; i < BL_CL_QUEUES; i++) {
        if (session.queues[i] != NULL)
            (void)dev->cl.Finish(session.queues[i]);
    }
    bl_cl_session_drop(dev, &session);
}
