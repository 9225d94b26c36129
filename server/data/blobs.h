/* SPDX-License-Identifier: MIT */
/* Bytes that clients keep here by their SHA-256, so that a data set is sent once: uploads that may be resumed, into files that
 * are never changed afterwards.
 *
 * The same bytes from two keys are one file, but each knows only of its own: a digest that somebody else put is 404.  The files
 * lie in the folder of --state, or, where nothing is kept, in one that goes with the server.  Thread: any; a request that
 * uploads is its HTTP thread's, and a compile thread's while its digest is computed. */
#ifndef BL_SERVER_DATA_BLOBS_H
#define BL_SERVER_DATA_BLOBS_H

#include "server/intake.h"
#include "server/server.h"

typedef struct bl_blobs bl_blobs;

BL_NODISCARD bl_status bl_blobs_create(bl_server *server, bl_blobs **out, bl_err *err);
void bl_blobs_destroy(bl_blobs *blobs); /* accepts NULL */

/* For PUT of a blob: after the head, before the body.  |coded|: Content-Length is not the blob's. */
BL_NODISCARD bl_status bl_blobs_begin(bl_request *rq, bool coded);

/* |digest| is "sha256:" and 64 hexadecimal digits.  The caller closes *fd.  BL_ENOTFOUND where |owner| put no such blob. */
BL_NODISCARD bl_status bl_blobs_open(bl_blobs *blobs, uint32_t owner, const char *digest, int *fd, uint64_t *bytes, bl_err *err);

/* Take room for other files of clients, which count like blobs against --max-blobs: BL_ESTORAGE if there is no room. */
BL_NODISCARD bl_status bl_blobs_take(bl_blobs *blobs, uint64_t bytes, bl_err *err);
void bl_blobs_count(bl_blobs *blobs, uint64_t bytes); /* the same of files that are there already */
void bl_blobs_give(bl_blobs *blobs, uint64_t bytes);

/* Remove all of |owner|'s, what was sent in part included. */
BL_NODISCARD bl_status bl_blobs_purge(bl_blobs *blobs, uint32_t owner, bl_err *err);

#endif
