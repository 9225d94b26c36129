/* SPDX-License-Identifier: MIT */
/* proto/openapi.yaml as JSON, made by server/embed.py when the project is built. */
#ifndef BL_SERVER_OPENAPI_H
#define BL_SERVER_OPENAPI_H

#include <stddef.h>

extern const char bl_openapi_json[];
extern const size_t bl_openapi_size;

#endif
