/* SPDX-License-Identifier: MIT */
#include "server/http/coding.h"
#include "server/http/embedded.h"
#include "server/http/handlers.h"
#include "server/ops/server.h"

#include <string.h>
#include <zlib.h>

static const bl_embedded *find_embedded(const char *name)
{
    for (size_t i = 0; i < bl_embedded_count; i++)
        if (strcmp(bl_embedded_files[i].name, name) == 0)
            return &bl_embedded_files[i];
    return NULL;
}

static bl_status inflate_embedded(bl_request *rq, const bl_embedded *file, bl_piece *piece)
{
    z_stream z = {.next_in = (z_const Bytef *)(uintptr_t)file->gzip, .avail_in = (uInt)file->gzip_bytes};
    char *data = bl_request_alloc(rq, file->plain_bytes, file->name);
    int code = Z_OK;
    if (data == NULL)
        return rq->err.status;
    z.next_out = (Bytef *)data;
    z.avail_out = (uInt)file->plain_bytes;
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory to decompress %s", file->name);
    code = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    if (code != Z_STREAM_END)
        return bl_fail(&rq->err, BL_EBUG, "%s does not decompress", file->name);
    *piece = (bl_piece){data, file->plain_bytes};
    return BL_OK;
}

/* Answer with an embedded file.  A browser caches the file and revalidates its ETag at each visit, so the files of a new server
 * show at the next visit. */
static bl_status reply_embedded(bl_request *rq, const bl_embedded *file)
{
    enum { HEADERS = 7 };
    static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
                                 "connect-src 'self'; base-uri 'none'; "
                                 "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
    const bl_header headers[HEADERS] = {{"etag", file->etag},
                                        {"cache-control", "no-cache"},
                                        {"vary", "accept-encoding, accept"},
                                        {"content-security-policy", policy},
                                        {"x-content-type-options", "nosniff"},
                                        {"referrer-policy", "no-referrer"}};
    bl_header *kept = bl_arena_array(rq->arena, HEADERS, sizeof *kept);
    bl_piece *piece = bl_arena_array(rq->arena, 1, sizeof *piece);
    if (kept == NULL || piece == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    memcpy(kept, headers, sizeof headers);
    if (rq->head.if_none_match != NULL && strstr(rq->head.if_none_match, file->etag) != NULL) {
        rq->reply.headers = kept;
        bl_request_reply(rq, 304, NULL);
        return BL_OK;
    }
    *piece = (bl_piece){file->gzip, file->gzip_bytes};
    rq->reply.coding = bl_coding_weigh(rq->head.accept_coding, "gzip") > 0 ? BL_REPLY_GZIP : BL_REPLY_PLAIN;
    if (rq->reply.coding == BL_REPLY_PLAIN)
        BL_TRY(inflate_embedded(rq, file, piece));
    rq->reply.headers = kept;
    rq->reply.pieces = piece;
    rq->reply.npieces = 1;
    bl_request_reply(rq, 200, file->type);
    return BL_OK;
}

bl_status bl_handle_openapi(bl_request *rq)
{
    const bl_embedded *file = find_embedded("openapi.json");
    return file != NULL ? reply_embedded(rq, file) : bl_fail(&rq->err, BL_EBUG, "openapi.json is not in the program");
}

bl_status bl_handle_page_file(bl_request *rq)
{
    const bl_embedded *file = find_embedded(rq->head.param[0]);
    if (file == NULL)
        return bl_fail(&rq->err, BL_ENOTFOUND, "the page has no file \"%.100s\"", rq->head.param[0]);
    return reply_embedded(rq, file);
}

/* Answer with the web page if the client accepts HTML.  Other clients, and clients of a server that was built without the page,
 * get a page of links. */
bl_status bl_handle_page(bl_request *rq)
{
    const bl_embedded *file = bl_request_accepts(rq, "text/html") ? find_embedded("index.html") : NULL;
    if (file != NULL)
        return reply_embedded(rq, file);
    bl_text_printf(&rq->reply.out,
                   "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>beamline</title>\n"
                   "<h1>beamline %s</h1>\n"
                   "<p>POST a tensor graph, get tensors back. This server speaks JSON and safetensors.</p>\n<ul>\n"
                   "<li><a href=\"/openapi.json\">the API, as OpenAPI 3.1</a></li>\n"
                   "<li><a href=\"/api/v1/devices\">devices</a>, <a href=\"/api/v1/tensors\">tensors</a>,\n"
                   "    <a href=\"/api/v1/programs\">programs</a>, <a href=\"/api/v1/jobs\">jobs</a></li>\n"
                   "<li><a href=\"/metrics\">metrics</a>, <a href=\"/v2/health/ready\">health</a></li>\n</ul>\n</html>\n",
                   BL_VERSION);
    bl_request_reply(rq, 200, "text/html; charset=utf-8");
    return BL_OK;
}
