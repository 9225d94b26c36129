/* SPDX-License-Identifier: MIT */
#include "server/data/file_hash.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

static bl_status hash_pieces(int fd, gnutls_hash_hd_t hash, char *piece, bl_err *err)
{
    ssize_t n = 0;
    for (off_t at = 0; (n = pread(fd, piece, PIECE, at)) != 0; at += n > 0 ? n : 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || gnutls_hash(hash, piece, (size_t)n) != 0)
            return bl_fail(err, BL_ESTORAGE, "the file cannot be read: %s", n < 0 ? strerror(errno) : "no hash");
    }
    return BL_OK;
}

bl_status bl_file_hash(int fd, gnutls_digest_algorithm_t algorithm, bl_span head, char *hex, bl_err *err)
{
    gnutls_hash_hd_t hash = NULL;
    unsigned char digest[BL_FILE_HASH_HEX / 2];
    char *piece = malloc(PIECE);
    bl_status st = BL_OK;
    if (piece == NULL || gnutls_hash_init(&hash, algorithm) != 0) {
        free(piece);
        return bl_fail(err, BL_ENOMEM, "out of host memory for the hash of a file");
    }
    if (head.len > 0 && gnutls_hash(hash, head.data, head.len) != 0)
        st = bl_fail(err, BL_ENOMEM, "out of host memory for the hash of a file");
    if (st == BL_OK)
        st = hash_pieces(fd, hash, piece, err);
    gnutls_hash_deinit(hash, digest);
    free(piece);
    for (int i = 0; i < (int)gnutls_hash_get_len(algorithm); i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", digest[i]);
    return st;
}
