/* SPDX-License-Identifier: MIT */
/* A parser that splits the bytes of a stream into server-sent events. */
#ifndef BL_SERVER_COMMAND_EVENTS_H
#define BL_SERVER_COMMAND_EVENTS_H

#include "engine/base/text.h"

typedef struct bl_events {
    /* Called for each event. |name| and |id| are "" if the event has none.  False ends the stream. */
    bool (*event)(void *arg, const char *name, const char *id, const char *data, size_t len);
    void *arg;
    bl_text unread, name, id, data;
} bl_events;

bool bl_events_take(void *events, const char *data, size_t len); /* usable as bl_ask_request.take */
void bl_events_fini(bl_events *events);

#endif
