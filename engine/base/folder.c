/* SPDX-License-Identifier: MIT */
#include "engine/base/folder.h"

#include "engine/base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* mkdir -p */
static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            *slash = '/';
            return false;
        }
        *slash = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

char *bl_cache_folder(const char *part)
{
    const char *own = getenv("BEAMLINE_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bl_text path = {0};

    if (own != NULL && own[0] != '\0')
        bl_text_printf(&path, "%s", own);
    else if (cache != NULL && cache[0] == '/') /* the XDG specification ignores a relative one */
        bl_text_printf(&path, "%s/beamline", cache);
    else if (home != NULL && home[0] != '\0')
        bl_text_printf(&path, "%s/.cache/beamline", home);
    if (path.len > 0 && part[0] != '\0')
        bl_text_printf(&path, "/%s", part);
    if (path.failed || path.len == 0 || !make_folders(path.data)) {
        bl_text_fini(&path);
        return NULL;
    }
    return bl_text_take(&path);
}
