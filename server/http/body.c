/* SPDX-License-Identifier: MIT */
#include "server/http/body.h"

#include "server/http/intake.h"
#include "server/http/offload.h"
#include "server/ops/server.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    FIRST_BYTES = 16 * 1024,
    TRUSTED_BYTES = 1024 * 1024,
    INPUT_BYTES = 128 * 1024,      /* compressed bytes that are inflated at a time: libmicrohttpd delivers no more at once */
    INLINE_BYTES = 64 * 1024,      /* output that an HTTP thread inflates, in 0.2 ms or so; an offload thread inflates the
                                    * rest */
    SLICE_BYTES = 16 * 1024 * 1024 /* output in one turn of an offload thread */
};

struct bl_inflate {
    z_stream stream;
    char *input;  /* arena, INPUT_BYTES long: the input of |stream| */
    bool ended;   /* the stream has reached the end of the compressed data */
    bool pending; /* the output buffer was full: inflate may produce more output without more input */
};

/* Find room for at least one byte, at *at.  *room 0: the caller must flush the intake first. */
static bl_status body_find_room(bl_request *rq, char **at, size_t *room)
{
    uint64_t limit = rq->server->settings.max_body;
    size_t want = 0;
    char *grown = NULL;
    if (rq->body.intake != NULL)
        return rq->body.intake->room(rq->body.intake, at, room, &rq->err);
    if (rq->body.len == rq->body.cap) {
        if (rq->body.len >= limit)
            return bl_fail(&rq->err, BL_ETOOBIG, "the body has more than %llu bytes", (unsigned long long)limit);
        /* Content-Length is trusted only up to a limit, so that a false length allocates little memory. */
        want = rq->body.cap == 0 ? FIRST_BYTES : rq->body.cap * 2;
        if (rq->head.content_length > want)
            want = rq->head.content_length < TRUSTED_BYTES ? (size_t)rq->head.content_length
                   : want > TRUSTED_BYTES                  ? want
                                                           : TRUSTED_BYTES;
        if (want > limit)
            want = (size_t)limit;
        BL_TRY(bl_budget_borrow(&rq->server->memory, want - rq->body.cap, BL_ENOMEM, "a body", &rq->err));
        grown = realloc(rq->body.data, want);
        if (grown == NULL) {
            bl_budget_give(&rq->server->memory, want - rq->body.cap);
            return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a body of %zu bytes", rq->body.len);
        }
        rq->body.data = grown;
        rq->body.cap = want;
    }
    *at = rq->body.data + rq->body.len;
    *room = rq->body.cap - rq->body.len;
    if (*room > limit - rq->body.len)
        *room = (size_t)(limit - rq->body.len);
    if (*room == 0)
        return bl_fail(&rq->err, BL_ETOOBIG, "the body has more than %llu bytes", (unsigned long long)limit);
    return BL_OK;
}

static void body_commit(bl_request *rq, size_t bytes)
{
    rq->body.len += bytes;
    if (rq->body.intake != NULL)
        rq->body.intake->commit(rq->body.intake, bytes);
}

static bl_status feed_plain(bl_request *rq, const char *data, size_t *size)
{
    while (*size > 0) {
        char *at = NULL;
        size_t room = 0;
        BL_TRY(body_find_room(rq, &at, &room));
        if (room == 0)
            return rq->body.intake->flush(rq);
        if (room > *size)
            room = *size;
        memcpy(at, data, room);
        body_commit(rq, room);
        data += room;
        *size -= room;
    }
    return BL_OK;
}

/* Translate a failure of zlib: out of memory, or invalid data from the client. */
static bl_status inflate_status(bl_request *rq, int code)
{
    if (code == Z_MEM_ERROR)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for inflating the body");
    return bl_fail(&rq->err, BL_EINVAL, "the body does not have the content-encoding that its header names");
}

/* Call zlib once, for at most |most| bytes of output.  *stuck: zlib needs more input.  *full: the caller must flush the intake
 * first. */
static bl_status inflate_some(bl_request *rq, size_t most, bool *stuck, bool *full)
{
    bl_inflate *z = rq->body.inflate;
    char extra = 0, *at = NULL;
    size_t room = 0, before = z->stream.avail_in;
    int code = Z_OK;
    *full = false;
    if (rq->body.intake != NULL &&
        rq->body.intake->is_whole(rq->body.intake)) { /* only the trailer of the compressed data may follow */
        at = &extra;
        room = 1;
    } else {
        BL_TRY(body_find_room(rq, &at, &room));
    }
    if (room == 0) {
        *full = true;
        return BL_OK;
    }
    room = room < most ? room : most;
    z->stream.next_out = (Bytef *)at;
    z->stream.avail_out = (uInt)room;
    code = inflate(&z->stream, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return inflate_status(rq, code);
    if (at == &extra && z->stream.avail_out == 0)
        return rq->body.intake->room(rq->body.intake, &at, &room, &rq->err); /* fails: there is too much data */
    body_commit(rq, at == &extra ? 0 : room - z->stream.avail_out);
    z->ended = code == Z_STREAM_END;
    z->pending = z->stream.avail_out == 0;
    *stuck = z->ended || (!z->pending && z->stream.avail_in == before && z->stream.avail_out == room) ||
             (!z->pending && z->stream.avail_in == 0);
    return BL_OK;
}

/* Does the stream have input to inflate, or does zlib hold more output? */
static bool has_more(const bl_inflate *z)
{
    return !z->ended && (z->stream.avail_in > 0 || z->pending);
}

/* Inflate until |most| bytes of output are produced or the input ends.  *full: the caller must flush the intake first. */
static bl_status inflate_slice(bl_request *rq, size_t most, bool *full)
{
    bl_inflate *z = rq->body.inflate;
    uint64_t end = z->stream.total_out + most;
    bool stuck = false;
    *full = false;
    while (!stuck && !*full && !z->ended && z->stream.total_out < end)
        BL_TRY(inflate_some(rq, (size_t)(end - z->stream.total_out), &stuck, full));
    if (z->ended && z->stream.avail_in > 0)
        return bl_fail(&rq->err, BL_EINVAL, "bytes follow the end of the compressed body");
    return BL_OK;
}

static bl_step inflate_apart(bl_request *rq)
{
    bool full = false;
    if (inflate_slice(rq, SLICE_BYTES, &full) != BL_OK)
        return BL_STEP_DONE;
    if (full)
        return rq->body.intake->flush(rq) == BL_OK ? BL_STEP_MOVED : BL_STEP_DONE;
    return has_more(rq->body.inflate) ? BL_STEP_AGAIN : BL_STEP_DONE;
}

/* Inflate the pending input, or some bytes of |data| if there is no pending input.  This thread inflates INLINE_BYTES; an
 * offload thread inflates the rest. */
static bl_status feed_coded(bl_request *rq, const char *data, size_t *size)
{
    bl_inflate *z = rq->body.inflate;
    size_t taken = *size < INPUT_BYTES ? *size : INPUT_BYTES;
    bool full = false;
    if (!has_more(z)) {
        if (z->ended && taken > 0)
            return bl_fail(&rq->err, BL_EINVAL, "bytes follow the end of the compressed body");
        memcpy(z->input, data, taken);
        z->stream.next_in = (z_const Bytef *)z->input;
        z->stream.avail_in = (uInt)taken;
        *size -= taken;
    }
    BL_TRY(inflate_slice(rq, INLINE_BYTES, &full));
    if (full)
        return rq->body.intake->flush(rq);
    return has_more(z) ? bl_offload_work(rq, inflate_apart) : BL_OK;
}

bl_status bl_body_begin(bl_request *rq, bl_coding coding)
{
    int window = coding == BL_CODING_GZIP ? 16 + MAX_WBITS : MAX_WBITS;
    if (coding == BL_CODING_NONE)
        return BL_OK;
    rq->body.inflate = bl_arena_alloc(rq->arena, sizeof *rq->body.inflate);
    if (rq->body.inflate == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    rq->body.inflate->input = bl_arena_alloc(rq->arena, INPUT_BYTES);
    if (rq->body.inflate->input == NULL) {
        rq->body.inflate = NULL;
        return bl_arena_status(rq->arena, &rq->err);
    }
    if (inflateInit2(&rq->body.inflate->stream, window) != Z_OK) {
        rq->body.inflate = NULL;
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for inflating the body");
    }
    return BL_OK;
}

bl_status bl_body_feed(bl_request *rq, const char *data, size_t *size, const bool *moved)
{
    if (rq->body.inflate == NULL)
        return feed_plain(rq, data, size);
    while (*size > 0 && !*moved) {
        size_t before = *size;
        BL_TRY(feed_coded(rq, data, size));
        data += before - *size;
    }
    return BL_OK;
}

bl_status bl_body_end(bl_request *rq, const bool *moved)
{
    size_t none = 0;
    while (rq->body.inflate != NULL && has_more(rq->body.inflate)) {
        BL_TRY(feed_coded(rq, "", &none));
        if (*moved)
            return BL_OK;
    }
    if (rq->body.inflate != NULL && !rq->body.inflate->ended)
        return bl_fail(&rq->err, BL_EINVAL, "the compressed body is incomplete");
    return BL_OK;
}

void bl_body_fini(bl_request *rq)
{
    if (rq->body.inflate != NULL)
        inflateEnd(&rq->body.inflate->stream);
    rq->body.inflate = NULL;
}
