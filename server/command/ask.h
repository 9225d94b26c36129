/* SPDX-License-Identifier: MIT */
/* A command of `beamline` asks a running server: at --url or $BEAMLINE_URL, with the key of --key-file or $BEAMLINE_KEY, trusting
 * $SSL_CERT_FILE.  One connection, kept from one request to the next.  Thread: one each. */
#ifndef BL_SERVER_COMMAND_ASK_H
#define BL_SERVER_COMMAND_ASK_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <cjson/cJSON.h>

typedef struct bl_ask {
    void *curl;
    char *url, *key; /* owned; |key| may be NULL */
    bl_text body;    /* of the last answer, but for what a stream's |take| was given */
    long status;     /* of the last answer; 0: there was none */
    bool silent;     /* no server answered the last request */
    bool stopped;    /* Ctrl-C ended the last request */
} bl_ask;

typedef struct bl_ask_request {
    const char *method; /* NULL: GET, or POST where there is a body */
    const char *path;
    const char *media, *accept; /* NULL: application/json, anything */
    const char *header;         /* one more, "Name: value", or NULL */
    bl_span body;               /* data NULL: none */
    int fd;                     /* with |bytes| over 0: the body is so many bytes of that file, from |from| on */
    int64_t from, bytes;
    long seconds; /* most that it may take; 0: as long as it takes */
    /* Bytes of an answer of 2xx as they come; false ends the request.  NULL: they are collected in bl_ask.body. */
    bool (*take)(void *arg, const char *data, size_t len);
    void (*sent)(void *arg, int64_t bytes); /* how many bytes of the body have been sent; may be NULL */
    void *arg;
    int interrupts; /* a descriptor that is readable after Ctrl-C, which ends the request; 0: none */
} bl_ask_request;

enum { BL_ASK_SECONDS = 30 /* that an answer may take which needs no work */ };

/* NULL: from the environment.  Close it in any case. */
BL_NODISCARD bl_status bl_ask_open(bl_ask *ask, const char *url, const char *key_file, bl_err *err);
/* BL_OK where the server says 2xx, or Ctrl-C ended it.  Else ask->status says what, and |err| has the problem document's words.
 */
BL_NODISCARD bl_status bl_ask_send(bl_ask *ask, const bl_ask_request *request, bl_err *err);
void bl_ask_close(bl_ask *ask);

/* A header of the last answer, or NULL; until the next request. */
const char *bl_ask_header(const bl_ask *ask, const char *name);
/* The last answer as a document, which the caller deletes; and members of one: "" or |usual| where it is no text or number. */
BL_NODISCARD bl_status bl_ask_document(const bl_ask *ask, cJSON **out, bl_err *err);
const char *bl_answer_text(const cJSON *object, const char *name);
double bl_answer_number(const cJSON *object, const char *name, double usual);
const cJSON *bl_answer_at(const cJSON *object, const char *name);
const cJSON *bl_answer_first(const cJSON *list); /* its element or member, and ->next the one behind it; NULL: none */

/* "/v2/models/" + |name| with what an address may not have escaped + |end|. */
void bl_ask_path(bl_text *out, const char *begin, const char *name, const char *end);

#endif
