/* SPDX-License-Identifier: MIT */
#include "server/http/tls.h"

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "server/ops/server.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1024 * 1024, MOST_CERTS = 32 }; /* limits of the files; a chain of certificates has a few kilobytes */

typedef struct bl_tls_pair bl_tls_pair;
struct bl_tls_pair {
    bl_tls_pair *before;
    char *cert, *key; /* PEM */
    unsigned ncerts;
    gnutls_pcert_st certs[MOST_CERTS];
    gnutls_privkey_t secret;
};

/* The pair that new handshakes use.  This is a file-scope variable because libmicrohttpd passes no user pointer to the
 * callback. */
static _Atomic(bl_tls_pair *) current;

const char *bl_tls_priorities(void)
{
    return "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"; /* RFC 8996 deprecates earlier versions */
}

static bl_status tls_read_file(const char *flag, const char *path, char **out, bl_err *err)
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
        return bl_fail(err, BL_ENOMEM, "out of host memory for --%s", flag);
    if (len == 0 || len > MOST_BYTES) {
        free(text);
        return bl_fail(err, BL_EINVAL, "--%s %.200s: %s", flag, path, len == 0 ? "it is empty" : "it is too large to be PEM");
    }
    text[len] = '\0';
    *out = text;
    return BL_OK;
}

static bl_status tls_say(int code, bl_err *err)
{
    return code >= 0 ? BL_OK : bl_fail(err, BL_EINVAL, "--tls-cert and --tls-key: %s", gnutls_strerror(code));
}

/* Check that certificate and key belong together. */
static bl_status check_pair(const gnutls_datum_t *cert, const gnutls_datum_t *key, bl_err *err)
{
    gnutls_certificate_credentials_t both = NULL;
    int code = gnutls_certificate_allocate_credentials(&both);
    if (code >= 0)
        code = gnutls_certificate_set_x509_key_mem(both, cert, key, GNUTLS_X509_FMT_PEM);
    if (both != NULL)
        gnutls_certificate_free_credentials(both);
    return tls_say(code, err);
}

static bl_status fill_pair(bl_tls_pair *pair, bl_err *err)
{
    gnutls_datum_t cert = {(unsigned char *)pair->cert, (unsigned)strlen(pair->cert)};
    gnutls_datum_t key = {(unsigned char *)pair->key, (unsigned)strlen(pair->key)};
    unsigned n = MOST_CERTS;
    int code = 0;
    BL_TRY(check_pair(&cert, &key, err));
    code = gnutls_pcert_list_import_x509_raw(pair->certs, &n, &cert, GNUTLS_X509_FMT_PEM, 0);
    if (code >= 0)
        pair->ncerts = n;
    if (code >= 0)
        code = gnutls_privkey_init(&pair->secret);
    if (code >= 0)
        code = gnutls_privkey_import_x509_raw(pair->secret, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
    return tls_say(code, err);
}

static void free_pair(bl_tls_pair *pair)
{
    for (unsigned i = 0; i < pair->ncerts; i++)
        gnutls_pcert_deinit(&pair->certs[i]);
    if (pair->secret != NULL)
        gnutls_privkey_deinit(pair->secret);
    if (pair->key != NULL)
        gnutls_memset(pair->key, 0, strlen(pair->key));
    free(pair->cert);
    free(pair->key);
    free(pair);
}

static bl_status read_pair(const bl_settings *settings, bl_tls_pair **out, bl_err *err)
{
    bl_tls_pair *pair = bl_calloc(1, sizeof *pair);
    bl_status st = BL_OK;
    *out = NULL;
    if (pair == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a certificate");
    st = tls_read_file("tls-cert", settings->tls_cert, &pair->cert, err);
    if (st == BL_OK)
        st = tls_read_file("tls-key", settings->tls_key, &pair->key, err);
    if (st == BL_OK)
        st = fill_pair(pair, err);
    if (st == BL_OK)
        *out = pair;
    else
        free_pair(pair);
    return st;
}

static void use(bl_tls *tls, bl_tls_pair *pair)
{
    pair->before = tls->now;
    tls->now = pair;
    atomic_store(&current, pair);
}

static bl_status check_settings(const bl_settings *settings, bool *wanted, bl_err *err)
{
    bool cert = settings->tls_cert[0] != '\0', key = settings->tls_key[0] != '\0';
    *wanted = cert && key;
    if (cert != key)
        return bl_fail(err, BL_EINVAL, "--tls-cert and --tls-key go together: one of them is missing");
    return BL_OK;
}

bl_status bl_tls_load(bl_tls *tls, const bl_settings *settings, bl_err *err)
{
    bl_tls_pair *pair = NULL;
    bool wanted = false;
    BL_TRY(check_settings(settings, &wanted, err));
    if (!wanted)
        return BL_OK;
    BL_TRY(read_pair(settings, &pair, err));
    use(tls, pair);
    return BL_OK;
}

bl_status bl_tls_reload(bl_server *server, const bl_settings *fresh, bl_err *err)
{
    bl_tls *tls = &server->http.tls;
    bl_tls_pair *pair = NULL;
    bool wanted = false;
    BL_TRY(check_settings(fresh, &wanted, err));
    if (wanted != (tls->now != NULL))
        return bl_fail(err, BL_EINVAL, "--tls-cert and --tls-key: to %s TLS, restart the server", wanted ? "begin with" : "end");
    if (!wanted)
        return BL_OK;
    BL_TRY(read_pair(fresh, &pair, err));
    if (strcmp(pair->cert, tls->now->cert) == 0 && strcmp(pair->key, tls->now->key) == 0) {
        free_pair(pair);
        return BL_OK;
    }
    use(tls, pair);
    bl_log(BL_LOG_INFO, "reload: new connections use the new certificate");
    return BL_OK;
}

void bl_tls_fini(bl_tls *tls)
{
    atomic_store(&current, NULL);
    while (tls->now != NULL) {
        bl_tls_pair *pair = tls->now;
        tls->now = pair->before;
        free_pair(pair);
    }
}

static int retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int nauthorities,
                    const gnutls_pk_algorithm_t *algorithms, int nalgorithms, gnutls_pcert_st **certs, unsigned *ncerts,
                    gnutls_privkey_t *key)
{
    bl_tls_pair *pair = atomic_load(&current);
    (void)session;
    (void)authorities;
    (void)nauthorities;
    (void)algorithms;
    (void)nalgorithms;
    if (pair == NULL)
        return -1;
    *certs = pair->certs;
    *ncerts = pair->ncerts;
    *key = pair->secret;
    return 0;
}

void *bl_tls_callback(void)
{
    gnutls_certificate_retrieve_function2 *function = retrieve;
    void *data = NULL;
    memcpy(&data, &function, sizeof data); /* POSIX allows this conversion of a function pointer; dlsym needs it too */
    return data;
}
