/* SPDX-License-Identifier: MIT */
/* The files inside the executable: the API description and the web page.  server/http/embed.py compresses them at build time.
 * All files are constant. */
#ifndef BL_SERVER_HTTP_EMBEDDED_H
#define BL_SERVER_HTTP_EMBEDDED_H

#include <stddef.h>

typedef struct bl_embedded {
    const char *name; /* "page.js" */
    const char *type; /* content-type */
    const char *etag; /* with quotes */
    const void *gzip;
    size_t gzip_bytes, plain_bytes;
} bl_embedded;

extern const bl_embedded bl_embedded_files[];
extern const size_t bl_embedded_count;

#endif
