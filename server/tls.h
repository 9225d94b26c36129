/* SPDX-License-Identifier: MIT */
/* The certificate and its key, --tls-cert and --tls-key, checked before the first handshake would fail of them. */
#ifndef BL_SERVER_TLS_H
#define BL_SERVER_TLS_H

#include "server/settings.h"

/* Both as PEM, for libmicrohttpd, which borrows them for as long as its daemon lives; NULL: no TLS.  Zeroed is ready. */
typedef struct bl_tls {
    char *cert, *key;
} bl_tls;

/* BL_EINVAL where only one was given, or they cannot be read or do not belong together. */
BL_NODISCARD bl_status bl_tls_load(bl_tls *tls, const bl_settings *settings, bl_err *err);
void bl_tls_fini(bl_tls *tls);
/* What of GnuTLS' algorithms is spoken. */
const char *bl_tls_priorities(void);

#endif
