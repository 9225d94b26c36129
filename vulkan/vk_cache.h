/* SPDX-License-Identifier: MIT */
/* A cache of small files that may vanish at any time: $BEAMLINE_CACHE, $XDG_CACHE_HOME/beamline or ~/.cache/beamline, then
 * vulkan/. A damaged or foreign entry, or an entry of another key, counts as absent. Write failures are ignored.  An empty
 * BEAMLINE_CACHE turns the cache off.  Thread: any; processes may share the cache.  The server trims the folder
 * (engine/base/folder.h). */
#ifndef BL_VULKAN_VK_CACHE_H
#define BL_VULKAN_VK_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* True if |name| holds an entry for exactly this key; the caller then frees |*data|. */
bool bl_vk_cache_load(const char *name, const void *key, size_t key_len, void **data, size_t *len);
void bl_vk_cache_store(const char *name, const void *key, size_t key_len, const void *data, size_t len);

#endif
