/* Where things are kept that may vanish at any time: $BEAMLINE_CACHE, $XDG_CACHE_HOME/beamline or ~/.cache/beamline. */
#ifndef BL_BASE_FOLDER_H
#define BL_BASE_FOLDER_H

/* The folder |part| there ("": that itself), made if need be; freed by the caller.  NULL: there is none, and nothing is kept. */
char *bl_cache_folder(const char *part);

#endif
