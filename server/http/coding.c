/* SPDX-License-Identifier: MIT */
#include "server/http/coding.h"

#include "server/ops/server.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum {
    SHORT_BYTES = 512, /* compression of a shorter answer saves no packet */
    FAST_LEVEL = 1     /* a higher level takes longer and makes tensors hardly smaller */
};

double bl_coding_weigh(const char *list, const char *coding)
{
    size_t len = strlen(coding);
    while (list != NULL && *list != '\0') {
        size_t n = strcspn(list, ","), skip = strspn(list, " \t");
        const char *at = list + skip, *weight = NULL;
        size_t name = strcspn(at, ",; \t");
        if (name == len && strncasecmp(at, coding, len) == 0) {
            weight = memmem(at, n - skip, "q=", 2);
            return weight != NULL ? strtod(weight + 2, NULL) : 1;
        }
        list += n + (list[n] == ',');
    }
    return 0;
}

/* Compress the whole reply into |to|, which has room for |room| bytes.  Returns the bytes written, or 0. */
static size_t deflate_all(const bl_request *rq, bool gzip, char *to, size_t room)
{
    z_stream z = {.next_out = (Bytef *)to, .avail_out = (uInt)room};
    int code = deflateInit2(&z, FAST_LEVEL, Z_DEFLATED, gzip ? 16 + MAX_WBITS : MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    if (code != Z_OK)
        return 0;
    for (unsigned i = 0; i <= rq->reply.npieces && code == Z_OK; i++) {
        bl_piece piece = i == 0 ? (bl_piece){rq->reply.out.data, rq->reply.out.len} : rq->reply.pieces[i - 1];
        z.next_in = (z_const Bytef *)(uintptr_t)piece.data;
        z.avail_in = (uInt)piece.bytes;
        code = deflate(&z, i == rq->reply.npieces ? Z_FINISH : Z_NO_FLUSH);
    }
    deflateEnd(&z);
    return code == Z_STREAM_END ? room - z.avail_out : 0;
}

void bl_reply_code(bl_request *rq)
{
    const char *list = rq->head.accept_coding;
    double zipped = bl_coding_weigh(list, "gzip"), deflated = bl_coding_weigh(list, "deflate"),
           plain = bl_coding_weigh(list, "identity");
    bool gzip = zipped >= deflated, coded = zipped + deflated > 0 && (gzip ? zipped : deflated) >= plain;
    size_t bytes = rq->reply.out.len, room = 0;
    bl_err before = rq->err;
    char *data = NULL;
    rq->reply.coding = BL_REPLY_PLAIN;
    for (unsigned i = 0; i < rq->reply.npieces; i++)
        bytes += rq->reply.pieces[i].bytes;
    if (!coded || bytes < SHORT_BYTES || bytes > UINT_MAX / 2)
        return;
    room = compressBound((uLong)bytes) + 64; /* 64 more bytes hold the gzip header */
    data = bl_request_alloc(rq, room, "a coded answer");
    rq->err = before;
    bytes = data != NULL ? deflate_all(rq, gzip, data, room) : 0;
    if (bytes == 0)
        return;
    rq->reply.coded = (bl_piece){data, bytes};
    rq->reply.pieces = &rq->reply.coded;
    rq->reply.npieces = 1;
    bl_text_clear(&rq->reply.out);
    rq->reply.coding = gzip ? BL_REPLY_GZIP : BL_REPLY_DEFLATE;
}
