/* SPDX-License-Identifier: MIT */
/* The devices of the groups in instance_group. */
#include "server/models/model_infer.h"

#include <string.h>

static bl_status place_add(bl_worker *worker, bl_worker **out, int *count, bl_err *err)
{
    for (int i = 0; i < *count; i++)
        if (out[i] == worker)
            return bl_fail(err, BL_EINVAL, "instance_group: %s is given twice; a device runs one instance of a model",
                           worker != NULL ? worker->dev->info.id : "the best one");
    if (*count == BL_MOST_INSTANCES)
        return bl_fail(err, BL_ELIMIT, "instance_group: over %d instances", BL_MOST_INSTANCES);
    out[(*count)++] = worker;
    return BL_OK;
}

static bool place_is_of(const bl_worker *worker, bl_config_kind kind)
{
    bl_device_type type = worker->dev->info.type;
    return kind == BL_INSTANCE_AUTO || (kind == BL_INSTANCE_GPU ? type == BL_DEVICE_GPU : type == BL_DEVICE_CPU);
}

/* The |number|-th device of the kind in the first backend that has one, so that a GPU that two backends open counts once. */
static bl_worker *place_find(bl_server *server, bl_config_kind kind, int64_t number)
{
    const bl_worker *first = NULL;
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_worker *worker = &server->workers[i];
        if (!place_is_of(worker, kind) || (first != NULL && first->dev->ops != worker->dev->ops))
            continue;
        first = worker;
        if (number-- == 0)
            return worker;
    }
    return NULL;
}

static bl_status place_device(bl_server *server, const bl_config_instance *group, bl_worker **out, int *count, bl_err *err)
{
    bl_worker *worker = NULL;
    if (group->device == NULL)
        return place_add(NULL, out, count, err);
    BL_TRY(bl_worker_find(server, group->device, &worker, err));
    if (!place_is_of(worker, group->kind))
        return bl_fail(err, BL_EINVAL, "instance_group: %s is not a device of the kind in \"kind\"", worker->dev->info.id);
    return place_add(worker, out, count, err);
}

static bl_status place_gpus(bl_server *server, const bl_config_instance *group, bl_worker **out, int *count, bl_err *err)
{
    for (int i = 0; i < group->ngpus; i++) {
        bl_worker *worker = place_find(server, BL_INSTANCE_GPU, group->gpus[i]);
        if (worker == NULL)
            return bl_fail(err, BL_EINVAL, "instance_group: gpus has %lld, but the server has no such GPU",
                           (long long)group->gpus[i]);
        BL_TRY(place_add(worker, out, count, err));
    }
    for (int64_t i = 0; group->ngpus == 0; i++) {
        bl_worker *worker = place_find(server, BL_INSTANCE_GPU, i);
        if (worker == NULL)
            return i > 0 ? BL_OK : bl_fail(err, BL_EINVAL, "instance_group: kind is KIND_GPU, but the server has no GPU");
        BL_TRY(place_add(worker, out, count, err));
    }
    return BL_OK;
}

static bl_status place_cpu(bl_server *server, bl_worker **out, int *count, bl_err *err)
{
    bl_worker *worker = place_find(server, BL_INSTANCE_CPU, 0);
    if (worker == NULL)
        return bl_fail(err, BL_EINVAL, "instance_group: kind is KIND_CPU, but the server has no CPU device");
    return place_add(worker, out, count, err);
}

static bl_status place_groups(bl_server *server, const bl_model_config *config, bl_worker **out, int *count, bl_err *err)
{
    static const bl_config_instance best = {.device = NULL};
    *count = 0;
    if (config->ninstances == 0)
        return place_device(server, &best, out, count, err);
    for (int i = 0; i < config->ninstances; i++) {
        const bl_config_instance *group = &config->instances[i];
        if (group->device != NULL || group->kind == BL_INSTANCE_AUTO)
            BL_TRY(place_device(server, group, out, count, err));
        else if (group->kind == BL_INSTANCE_GPU)
            BL_TRY(place_gpus(server, group, out, count, err));
        else
            BL_TRY(place_cpu(server, out, count, err));
    }
    return BL_OK;
}

/* Leave out drained devices.  If all chosen devices are drained, choose the best other device. */
bl_status bl_model_place(bl_server *server, const bl_model_config *config, bl_worker **out, int *count, bl_err *err)
{
    int left = 0;
    BL_TRY(place_groups(server, config, out, count, err));
    for (int i = 0; i < *count; i++)
        if (out[i] == NULL || !atomic_load(&out[i]->drained))
            out[left++] = out[i];
    if (left == 0)
        out[left++] = NULL;
    *count = left;
    return BL_OK;
}

static bool has(bl_worker *const *workers, int count, const bl_worker *worker)
{
    for (int i = 0; i < count; i++)
        if (workers[i] == worker)
            return true;
    return false;
}

bool bl_model_version_is_misplaced(const bl_model_version *version)
{
    bl_server *server = version->models->server;
    const char *said = version->instances[0].slot.program->doc.options.device;
    bl_worker *workers[BL_MOST_INSTANCES];
    bl_err none = {0};
    int count = 0;
    if (bl_model_place(server, &version->config, workers, &count, &none) != BL_OK)
        return false;
    for (int i = 0; i < count; i++)
        if (workers[i] == NULL && bl_worker_place(server, said, true, &workers[i], &none) != BL_OK)
            return false;
    for (int i = 0; i < count; i++)
        if (!bl_model_version_is_on(version, workers[i]))
            return true;
    for (int i = 0; i < version->ninstances; i++)
        if (!has(workers, count, version->instances[i].slot.program->worker))
            return true;
    return false;
}
