/* SPDX-License-Identifier: MIT */
#include "server/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1024 * 1024 }; /* a chain of certificates has some kilobytes */

const char *bl_tls_priorities(void)
{
    return "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"; /* RFC 8996 retires those before */
}

static bl_status read_file(const char *flag, const char *path, char **out, bl_err *err)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t len = 0;
    *out = NULL;
    if (file == NULL)
        return bl_fail(err, BL_EINVAL, "--%s %.200s: %s", flag, path, strerror(errno));
    text = malloc(MOST_BYTES + 1);
    if (text != NULL)
        len = fread(text, 1, MOST_BYTES + 1, file);
    fclose(file);
    if (text == NULL)
        return bl_fail(err, BL_ENOMEM, "--%s", flag);
    if (len == 0 || len > MOST_BYTES) {
        free(text);
        return bl_fail(err, BL_EINVAL, "--%s %.200s: %s", flag, path, len == 0 ? "it is empty" : "it is too large to be PEM");
    }
    text[len] = '\0';
    *out = text;
    return BL_OK;
}

static bl_status check_pair(const bl_tls *tls, bl_err *err)
{
    gnutls_datum_t cert = {(unsigned char *)tls->cert, (unsigned)strlen(tls->cert)};
    gnutls_datum_t key = {(unsigned char *)tls->key, (unsigned)strlen(tls->key)};
    gnutls_certificate_credentials_t both = NULL;
    int code = gnutls_certificate_allocate_credentials(&both);
    if (code >= 0)
        code = gnutls_certificate_set_x509_key_mem(both, &cert, &key, GNUTLS_X509_FMT_PEM);
    if (both != NULL)
        gnutls_certificate_free_credentials(both);
    return code >= 0 ? BL_OK : bl_fail(err, BL_EINVAL, "--tls-cert and --tls-key: %s", gnutls_strerror(code));
}

bl_status bl_tls_load(bl_tls *tls, const bl_settings *settings, bl_err *err)
{
    bool cert = settings->tls_cert[0] != '\0', key = settings->tls_key[0] != '\0';
    if (!cert && !key)
        return BL_OK;
    if (cert != key)
        return bl_fail(err, BL_EINVAL, "--tls-cert and --tls-key go together: one of them is missing");
    BL_TRY(read_file("tls-cert", settings->tls_cert, &tls->cert, err));
    BL_TRY(read_file("tls-key", settings->tls_key, &tls->key, err));
    return check_pair(tls, err);
}

void bl_tls_fini(bl_tls *tls)
{
    if (tls->key != NULL)
        gnutls_memset(tls->key, 0, strlen(tls->key));
    free(tls->cert);
    free(tls->key);
    *tls = (bl_tls){0};
}
