/* SPDX-License-Identifier: MIT */
/* The certificate and its key, --tls-cert and --tls-key, checked before the first handshake would fail of them. */
#ifndef BL_SERVER_TLS_H
#define BL_SERVER_TLS_H

#include "server/settings.h"

typedef struct bl_server bl_server;

/* Every pair that was ever used: a handshake may have the one before, and they are few.  Zeroed is ready; NULL: no TLS. */
typedef struct bl_tls {
    struct bl_tls_pair *now;
} bl_tls;

/* BL_EINVAL where only one was given, or they cannot be read or do not belong together. */
BL_NODISCARD bl_status bl_tls_load(bl_tls *tls, const bl_settings *settings, bl_err *err);
/* A row of the table in reload.c: handshakes from now on have the pair that the files are now; connections go on with theirs. */
BL_NODISCARD bl_status bl_tls_reload(bl_server *server, const bl_settings *fresh, bl_err *err);
void bl_tls_fini(bl_tls *tls); /* when no handshake is under way any more */
/* What of GnuTLS' algorithms is spoken. */
const char *bl_tls_priorities(void);
/* A gnutls_certificate_retrieve_function2, as libmicrohttpd's MHD_OPTION_HTTPS_CERT_CALLBACK takes it. */
void *bl_tls_callback(void);

#endif
