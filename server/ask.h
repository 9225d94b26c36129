/* SPDX-License-Identifier: MIT */
/* A command of `beamline` asks a running server: at $BEAMLINE_URL, with the key of $BEAMLINE_KEY, trusting $SSL_CERT_FILE. */
#ifndef BL_SERVER_ASK_H
#define BL_SERVER_ASK_H

#include "engine/base/status.h"
#include "engine/base/text.h"

typedef struct bl_ask {
    void *curl;
    struct curl_slist *headers;
    bl_text body; /* of the last answer */
} bl_ask;

const char *bl_ask_url(const char *given); /* NULL: nothing was said on the command line */
/* GET, or POST of an empty body, of a path below |url|; close it in any case. */
BL_NODISCARD bl_status bl_ask_open(bl_ask *ask, const char *url, const char *path, bool post, bl_err *err);
/* As often as one likes: the body is there where the server says 200.  BL_EINVAL where it says something else, or nothing. */
BL_NODISCARD bl_status bl_ask_send(bl_ask *ask, bl_err *err);
void bl_ask_close(bl_ask *ask);

#endif
