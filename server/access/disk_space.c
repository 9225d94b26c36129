/* SPDX-License-Identifier: MIT */
/* Disk space by key: the bytes of each key in the folder of --state. */
#include "server/access/access_internal.h"
#include "server/store/storage.h"

static bl_status disk_space_charge(bl_access *access, uint32_t id, uint64_t bytes, uint64_t replaces, bl_err *err)
{
    double quota = -1;
    uint64_t has = 0;
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    if (o != NULL) {
        quota = o->row.quota[BL_QUOTA_DISK];
        has = o->disk;
        if (quota < 0 || bytes <= replaces || (double)has + (double)(bytes - replaces) <= quota) {
            o->disk += bytes;
            quota = -1;
        }
    }
    pthread_mutex_unlock(&access->lock);
    if (quota < 0)
        return BL_OK;
    return bl_fail(
        err, BL_EQUOTA,
        "the key has %llu bytes on the disk and would get %llu more; its quota is %.0f: delete blobs, durable tensors and "
        "programs, models or jobs",
        (unsigned long long)has, (unsigned long long)(bytes - replaces), quota);
}

bl_status bl_access_take_disk(bl_access *access, uint32_t id, uint64_t bytes, uint64_t replaces, bl_err *err)
{
    const bl_server *server = access->server;
    uint64_t grows = bytes > replaces ? bytes - replaces : 0;
    if (grows > 0)
        BL_TRY(bl_storage_check_room(server->storage, grows, server->settings.min_free, err));
    return disk_space_charge(access, id, bytes, replaces, err);
}

void bl_access_count_disk(bl_access *access, uint32_t id, int64_t bytes)
{
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    if (o != NULL)
        o->disk = bytes < 0 && (uint64_t)-bytes > o->disk ? 0 : o->disk + (uint64_t)bytes;
    pthread_mutex_unlock(&access->lock);
}

uint64_t bl_access_disk_bytes(bl_access *access, uint32_t id)
{
    const owner *o = NULL;
    uint64_t bytes = 0;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    bytes = o != NULL ? o->disk : 0;
    pthread_mutex_unlock(&access->lock);
    return bytes;
}
