/* SPDX-License-Identifier: MIT */
/* libFuzzer: the first byte selects a method, the rest is an address.  Decodes and matches the path and parses the query.  No
 * handler is called, so none is linked. */
#include "server/http/routes.h"
#include "server/ops/server.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Replaces the function of server/http/request.c, which is not linked. */
const char *bl_request_query(const bl_request *rq, const char *name)
{
    for (int i = 0; i < rq->head.nquery; i++)
        if (strcmp(rq->head.query[i].name, name) == 0)
            return rq->head.query[i].value;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "PUT", "POST", "DELETE", "HEAD"};
    static bl_server server;
    bl_arena *arena = bl_arena_create(16 << 20);
    char *uri = malloc(size + 1);
    if (arena != NULL && uri != NULL && size > 0) {
        bl_request rq = {.server = &server, .arena = arena, .head.uri = uri, .head.method = methods[data[0] % 5]};
        memcpy(uri, data + 1, size - 1);
        uri[size - 1] = '\0';
        if (bl_route_find(&rq) == BL_OK)
            for (int i = 0; i < BL_MAX_PARAMS; i++)
                if (rq.head.param[i] != NULL && strlen(rq.head.param[i]) > size)
                    abort();
    }
    free(uri);
    bl_arena_destroy(arena);
    return 0;
}
