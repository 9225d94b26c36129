/* SPDX-License-Identifier: MIT */
/* The certificate and its private key (--tls-cert and --tls-key).  Both are checked when they are loaded, before a handshake
 * uses them. */
#ifndef BL_SERVER_HTTP_TLS_H
#define BL_SERVER_HTTP_TLS_H

#include "server/ops/settings.h"

typedef struct bl_server bl_server;

/* Holds every pair that was ever loaded, because a running handshake may use an earlier pair.  Reloads are rare, so the pairs
 * are few.  A zeroed object is valid.  |now| NULL: no TLS. */
typedef struct bl_tls {
    struct bl_tls_pair *now;
} bl_tls;

/* Load the pair.  BL_EINVAL if only one of the two files is given, if a file cannot be read, or if certificate and key do not
 * match. */
BL_NODISCARD bl_status bl_tls_load(bl_tls *tls, const bl_settings *settings, bl_err *err);
/* A row of the table in reload.c: later handshakes use the pair that is now in the files.  Open connections keep their pair. */
BL_NODISCARD bl_status bl_tls_reload(bl_server *server, const bl_settings *fresh, bl_err *err);
void bl_tls_fini(bl_tls *tls); /* call when no handshake is running */
/* The priority string of GnuTLS: the protocols and algorithms that the server offers. */
const char *bl_tls_priorities(void);
/* A gnutls_certificate_retrieve_function2 for MHD_OPTION_HTTPS_CERT_CALLBACK of libmicrohttpd. */
void *bl_tls_callback(void);

#endif
