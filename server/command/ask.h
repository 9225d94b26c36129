/* SPDX-License-Identifier: MIT */
/* Requests of a `beamline` command to a running server. The server is --url or $BEAMLINE_URL, the key is in --key-file or
 * $BEAMLINE_KEY, and $SSL_CERT_FILE has the trusted certificates.  The connection is kept between requests.  Thread: one. */
#ifndef BL_SERVER_COMMAND_ASK_H
#define BL_SERVER_COMMAND_ASK_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <cjson/cJSON.h>

typedef struct bl_ask {
    void *curl;
    char *url, *key; /* owned; |key| may be NULL */
    bl_text body;    /* body of the last answer, without the bytes that |take| of a stream got */
    long status;     /* HTTP status of the last answer; 0: no answer */
    bool silent;     /* no server answered the last request */
    bool stopped;    /* Ctrl-C ended the last request */
} bl_ask;

typedef struct bl_ask_request {
    const char *method; /* NULL: GET, or POST if there is a body */
    const char *path;
    const char *media, *accept; /* media types of the body and of the answer; NULL: application/json, any */
    const char *header;         /* an additional header, "Name: value"; or NULL */
    bl_span body;               /* body of the request; data NULL: no body */
    int fd;                     /* if |bytes| is over 0, the body is |bytes| bytes of this file, from offset |from| */
    int64_t from, bytes;
    long seconds; /* timeout of the request; 0: none */
    /* Gets the bytes of a 2xx answer when they arrive; false ends the request.  NULL: the bytes are collected in
     * bl_ask.body. */
    bool (*take)(void *arg, const char *data, size_t len);
    void (*sent)(void *arg, int64_t bytes); /* gets the number of body bytes sent so far; may be NULL */
    void *arg;
    int interrupts; /* a descriptor that becomes readable after Ctrl-C; Ctrl-C ends the request; 0: none */
} bl_ask_request;

enum { BL_ASK_SECONDS = 30 /* timeout of answers that need no work on a device */ };

/* Prepare requests to |url|. NULL arguments are read from the environment.  Call bl_ask_close after a failure too. */
BL_NODISCARD bl_status bl_ask_open(bl_ask *ask, const char *url, const char *key_file, bl_err *err);
/* Send a request. BL_OK if the status is 2xx, or if Ctrl-C ended the request.  Otherwise ask->status has the status, and
 * |err| the text of the problem document. */
BL_NODISCARD bl_status bl_ask_send(bl_ask *ask, const bl_ask_request *request, bl_err *err);
void bl_ask_close(bl_ask *ask);

/* A header of the last answer, or NULL; valid until the next request. */
const char *bl_ask_header(const bl_ask *ask, const char *name);
/* Parse the last answer; the caller deletes the document.  The functions below read members of the document. They return ""
 * or |usual| if a member is not a text or not a number. */
BL_NODISCARD bl_status bl_ask_document(const bl_ask *ask, cJSON **out, bl_err *err);
const char *bl_answer_text(const cJSON *object, const char *name);
double bl_answer_number(const cJSON *object, const char *name, double usual);
const cJSON *bl_answer_at(const cJSON *object, const char *name);
const cJSON *bl_answer_first(const cJSON *list); /* the first element or member; ->next is the next element; NULL: no element */

/* Print "/v2/models/" + |name|, percent-encoded, + |end|. */
void bl_ask_path(bl_text *out, const char *begin, const char *name, const char *end);

#endif
