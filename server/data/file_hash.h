/* SPDX-License-Identifier: MIT */
/* The hash of a file's contents.  Thread: any. */
#ifndef BL_SERVER_DATA_FILE_HASH_H
#define BL_SERVER_DATA_FILE_HASH_H

#include "engine/base/text.h"

#include <gnutls/gnutls.h>

enum {
    BL_SHA256_HEX = 64,       /* number of digits of a SHA-256 */
    BL_FILE_HASH_HEX = 2 * 64 /* number of digits of the longest hash */
};

/* Write the hash of |head| and all bytes of |fd|, in lower-case hexadecimal digits, to |hex|. |hex| has room for the digits
 * of |algorithm| and a NUL.  The offset of |fd| stays. */
BL_NODISCARD bl_status bl_file_hash(int fd, gnutls_digest_algorithm_t algorithm, bl_span head, char *hex, bl_err *err);

#endif
