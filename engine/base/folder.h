/* Folders: where things are kept that may vanish at any time ($BEAMLINE_CACHE, $XDG_CACHE_HOME/beamline or ~/.cache/beamline),
 * and where those that must not ($STATE_DIRECTORY, as systemd has it, $XDG_STATE_HOME/beamline or ~/.local/state/beamline). */
#ifndef BL_BASE_FOLDER_H
#define BL_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* |path|, an absolute or relative one, and what is missing above it; for the owner alone.  False where that cannot be. */
bool bl_folder_make(char *path);

/* The folder |part| there ("": that itself), made if need be; freed by the caller.  NULL: there is none, and nothing is kept. */
char *bl_cache_folder(const char *part);
/* The folder of what must last, made if need be; freed by the caller.  NULL: there is none. */
char *bl_state_folder(void);
/* Of what ends with the process: $TMPDIR, or /tmp. */
const char *bl_passing_folder(void);
/* Bring what the back ends keep there to |most| bytes, by deleting what was used (its time of modification) longest ago until a
 * quarter of that is free; and unfinished files that nobody writes any more.  Returns the bytes that are left.  Other processes
 * may use the folder, and trim it, at the same time: whoever misses a file makes it again.  Any thread. */
size_t bl_cache_trim(size_t most);

#endif
