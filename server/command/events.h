/* SPDX-License-Identifier: MIT */
/* A stream of server-sent events, cut into events as its bytes come. */
#ifndef BL_SERVER_COMMAND_EVENTS_H
#define BL_SERVER_COMMAND_EVENTS_H

#include "engine/base/text.h"

typedef struct bl_events {
    /* |name| and |id| are "" where the event has none.  False ends the stream. */
    bool (*event)(void *arg, const char *name, const char *id, const char *data, size_t len);
    void *arg;
    bl_text unread, name, id, data;
} bl_events;

bool bl_events_take(void *events, const char *data, size_t len); /* a bl_ask_request.take */
void bl_events_fini(bl_events *events);

#endif
