/* SPDX-License-Identifier: MIT */
/* Blobs: byte strings that clients store by their SHA-256, so that a data set is uploaded once.
 *
 * Uploads can be resumed; a complete file never changes.  Equal bytes of two keys share one file, but each key sees only its
 * own blobs: the digest of another key's blob is 404.  The files are in the folder of --state, or, without such a folder, in
 * a temporary folder that the server removes.  Thread: any.  An upload belongs to its HTTP thread, and to a compile thread
 * while its digest is computed. */
#ifndef BL_SERVER_DATA_BLOBS_H
#define BL_SERVER_DATA_BLOBS_H

#include "server/http/intake.h"
#include "server/ops/server.h"

typedef struct bl_blobs bl_blobs;

BL_NODISCARD bl_status bl_blobs_create(bl_server *server, bl_blobs **out, bl_err *err);
void bl_blobs_destroy(bl_blobs *blobs); /* accepts NULL */

/* For PUT of a blob: call after the head, before the body.  |coded|: the body has a content coding, so Content-Length is not
 * the blob's size. */
BL_NODISCARD bl_status bl_blobs_begin(bl_request *rq, bool coded);

/* Open a blob.  |digest| is "sha256:" and 64 hexadecimal digits.  The caller closes *fd.  BL_ENOTFOUND if |owner| has no such
 * blob. */
BL_NODISCARD bl_status bl_blobs_open(bl_blobs *blobs, uint32_t owner, const char *digest, int *fd, uint64_t *bytes, bl_err *err);

/* Take room for other files of clients, which count like blobs against --max-blobs: BL_ESTORAGE if there is no room. */
BL_NODISCARD bl_status bl_blobs_take(bl_blobs *blobs, uint64_t bytes, bl_err *err);
void bl_blobs_count(bl_blobs *blobs, uint64_t bytes); /* bl_blobs_take for files that exist already, without a check */
void bl_blobs_give(bl_blobs *blobs, uint64_t bytes);

/* Remove all blobs of |owner|, including unfinished uploads. */
BL_NODISCARD bl_status bl_blobs_purge(bl_blobs *blobs, uint32_t owner, bl_err *err);

#endif
