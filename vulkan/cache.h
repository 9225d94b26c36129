/* SPDX-License-Identifier: MIT */
/* Small files that may vanish at any time: $BEAMLINE_CACHE, $XDG_CACHE_HOME/beamline or ~/.cache/beamline, then vulkan/.
 * An entry that is torn, foreign or of another key is as good as none, and failures to write are silent: it is only a cache.
 * BEAMLINE_CACHE set to nothing turns it off.  Thread: any; processes may share it.
 * Whoever runs a server trims the folder (engine/base/folder.h). */
#ifndef BL_VULKAN_CACHE_H
#define BL_VULKAN_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* True if |name| holds an entry for exactly this key; *data is then the caller's to free. */
bool bl_vk_cache_load(const char *name, const void *key, size_t key_len, void **data, size_t *len);
void bl_vk_cache_store(const char *name, const void *key, size_t key_len, const void *data, size_t len);

#endif
