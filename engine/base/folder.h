/* The server's folders. The cache folder ($BEAMLINE_CACHE, $XDG_CACHE_HOME/beamline or ~/.cache/beamline) holds files that may
 * be deleted at any time. The state folder ($STATE_DIRECTORY, which systemd sets, $XDG_STATE_HOME/beamline or
 * ~/.local/state/beamline) holds files that must last. */
#ifndef BL_BASE_FOLDER_H
#define BL_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Make the folder |path| and its missing parents, with access for the owner only. |path| may be relative. False on failure. */
bool bl_folder_make(char *path);

/* The path of the folder |part| in the cache folder ("" is the cache folder itself). The folder is made if it is missing. The
 * caller frees the path. NULL: there is no cache folder, and nothing is cached. */
char *bl_cache_folder(const char *part);
/* The path of the state folder, which is made if it is missing. The caller frees the path. NULL: there is no state folder. */
char *bl_state_folder(void);
/* The folder for temporary files: $TMPDIR, or /tmp. */
const char *bl_passing_folder(void);
/* If the cached kernels take more than |most| bytes, delete the least recently used files (by modification time) until a
 * quarter of |most| is free. Also delete abandoned unfinished files. Returns the bytes that are left. Other processes may use
 * and trim the folder at the same time: a process that misses a file compiles the kernel again. Thread: any. */
size_t bl_cache_trim(size_t most);

#endif
