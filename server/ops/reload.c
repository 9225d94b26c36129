/* SPDX-License-Identifier: MIT */
#include "server/ops/server.h"

#include "engine/base/log.h"
#include "server/access/access.h"
#include "server/models/models.h"

#include <string.h>

enum { MAX_FLAGS = 4 };

/* A part of the configuration that SIGHUP reads again.  |reload| applies the new state of |fresh|, the settings as they are
 * now. |reload| either succeeds wholly or fails and changes nothing.  NULL: the part consists of the settings in |flags|.
 * The values of |flags| then move to server->settings, so no other thread may read these settings there. */
typedef struct reload_row {
    const char *what;
    bl_status (*reload)(bl_server *server, const bl_settings *fresh, bl_err *err);
    const char *flags[MAX_FLAGS];
} reload_row;

static bl_status reload_models(bl_server *server, const bl_settings *fresh, bl_err *err)
{
    (void)fresh;
    (void)err;
    bl_models_reload(server->models); /* logs the result for each model */
    return BL_OK;
}

static const reload_row rows[] = {
    {"the log", bl_reload_log, {"log-level", "log-json"}},
    {"the keys", bl_access_reload, {NULL}},
    {"the certificate", bl_tls_reload, {"tls-cert", "tls-key"}},
    {"the models", reload_models, {NULL}},
    {"how to end", NULL, {"grace", "drain-delay"}},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

bl_status bl_reload_log(bl_server *server, const bl_settings *fresh, bl_err *err)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    (void)server;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(fresh->log_level, names[i]) == 0) {
            bl_log_configure((bl_log_level)i, fresh->log_json);
            return BL_OK;
        }
    return bl_fail(err, BL_EINVAL, "--log-level must be error, warn, info or debug, not \"%s\"", fresh->log_level);
}

static bool reload_row_now(bl_server *server, const reload_row *row, bl_settings *fresh)
{
    bl_err err = {0};
    if (row->reload != NULL && row->reload(server, fresh, &err) != BL_OK) {
        bl_log(BL_LOG_ERROR, "reload: %s: %s; the old value stays", row->what, err.text);
        return false;
    }
    for (int i = 0; i < MAX_FLAGS && row->flags[i] != NULL; i++)
        bl_settings_exchange(&server->settings, fresh, row->flags[i]);
    return true;
}

static bool is_reloaded(const char *flag)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        for (int k = 0; k < MAX_FLAGS && rows[i].flags[k] != NULL; k++)
            if (strcmp(rows[i].flags[k], flag) == 0)
                return true;
    return false;
}

/* Warn about a changed setting that is read only at the start, so that the operator does not expect the new value to be in
 * force. */
static void tell_ignored(const bl_settings *now, const bl_settings *fresh)
{
    const char *flag = NULL;
    int at = 0;
    while ((flag = bl_settings_difference(now, fresh, &at)) != NULL)
        if (!is_reloaded(flag))
            bl_log(BL_LOG_WARN, "reload: %s has changed; restart the server to apply the new value", flag);
}

bool bl_server_reload(bl_server *server)
{
    bl_settings fresh;
    bl_err err = {0};
    bool whole = bl_settings_load(&fresh, server->start.argc, server->start.argv, &err) == BL_OK;
    if (whole) {
        for (size_t i = 0; i < ROW_COUNT; i++)
            whole = reload_row_now(server, &rows[i], &fresh) && whole;
        tell_ignored(&server->settings, &fresh); /* logged at the new log level */
    } else {
        bl_log(BL_LOG_ERROR, "reload: %s; all old values stay", err.text);
    }
    bl_settings_fini(&fresh);
    bl_metrics_add(&server->metrics, whole ? BL_COUNT_RELOADS : BL_COUNT_RELOADS_FAILED, 1);
    if (whole)
        bl_log(BL_LOG_INFO, "reloaded");
    return whole;
}
