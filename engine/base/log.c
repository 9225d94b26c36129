/* SPDX-License-Identifier: MIT */
#include "engine/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_MESSAGE = 2048,
    MAX_ESCAPED = 6, /* one byte becomes at most 6: \u001b */
    MAX_STAMP = 128,
    MAX_FIELDS = 16,
    MAX_NAME = 32,
    MAX_TEXT = 256,
    MAX_FIELD = 2 * MAX_NAME + MAX_TEXT * MAX_ESCAPED + 2
};

static atomic_int threshold = BL_LOG_INFO;
static atomic_bool as_json;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void bl_log_configure(bl_log_level level, bool json)
{
    atomic_store(&threshold, (int)level);
    atomic_store(&as_json, json);
}

void bl_log_set_level(bl_log_level level)
{
    atomic_store(&threshold, (int)level);
}

/* The length in bytes of the UTF-8 character at |text|; 0 if the character is malformed or a control character. */
static size_t printable(const unsigned char *text)
{
    if (text[0] >= 0x20 && text[0] < 0x7f)
        return 1;
    if (text[0] >= 0xc2 && text[0] <= 0xdf && (text[1] & 0xc0) == 0x80)
        return text[0] == 0xc2 && text[1] < 0xa0 ? 0 : 2; /* U+0080 to U+009F are controls too: CSI, next line */
    if ((text[0] & 0xf0) == 0xe0 && (text[1] & 0xc0) == 0x80 && (text[2] & 0xc0) == 0x80) {
        if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0))
            return 0; /* an overlong encoding, or one half of a surrogate pair */
        if (text[0] == 0xe2 && text[1] == 0x80 && (text[2] == 0xa8 || text[2] == 0xa9))
            return 0; /* line separator and paragraph separator */
        return 3;
    }
    if (text[0] >= 0xf0 && text[0] <= 0xf4 && (text[1] & 0xc0) == 0x80 && (text[2] & 0xc0) == 0x80 && (text[3] & 0xc0) == 0x80)
        return (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f) ? 0 : 4;
    return 0;
}

/* |out| has room for MAX_ESCAPED times |text|.  Returns the bytes written. */
static size_t log_escape(const char *text, bool json, char *out)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t n = 0;

    while (*at != '\0') {
        size_t len = printable(at);

        if (len == 1 && json && (*at == '"' || *at == '\\'))
            out[n++] = '\\';
        if (len > 0) {
            memcpy(out + n, at, len);
            n += len;
            at += len;
        } else { /* in JSON an invalid byte is written as the Latin-1 character of the same number: the JSON stays valid, the byte
                    is not lost */
            n += (size_t)sprintf(out + n, json ? "\\u00%02x" : "\\x%02x", (unsigned)*at);
            at++;
        }
    }
    return n;
}

static void log_write_all(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t done = write(STDERR_FILENO, data, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return; /* an error of stderr cannot be reported */
        data += done;
        len -= (size_t)done;
    }
}

bool bl_log_is_on(bl_log_level level)
{
    return (int)level <= atomic_load(&threshold);
}

/* Write the time and the level. Returns the bytes written, at most MAX_STAMP. */
static size_t put_stamp(bl_log_level level, bool json, char *line)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    return (size_t)snprintf(line, MAX_STAMP, json ? "{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"message\":\"" : "%s.%03dZ %-5s ",
                            stamp, (int)(now.tv_nsec / 1000000), level_names[level]);
}

void bl_log(bl_log_level level, const char *fmt, ...)
{
    char message[MAX_MESSAGE];
    char line[MAX_MESSAGE * MAX_ESCAPED + MAX_STAMP];
    bool json = atomic_load(&as_json);
    int saved_errno = errno;
    size_t n;
    va_list args;
    int len;

    if (!bl_log_is_on(level))
        return;
    va_start(args, fmt);
    len = vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (len < 0)
        message[0] = '\0';
    else if ((size_t)len >= sizeof message)
        memcpy(message + sizeof message - 4, "...", 4);
    n = put_stamp(level, json, line);
    n += log_escape(message, json, line + n);
    if (json) {
        line[n++] = '"';
        line[n++] = '}';
    }
    line[n++] = '\n';
    log_write_all(line, n); /* one write, so that lines of several threads do not mix */
    errno = saved_errno;
}

/* A word that needs no quotes: no blank, quote, backslash or equals sign. */
static bool is_plain(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~' || *at == '"' || *at == '\\' || *at == '=')
            return false;
    return *text != '\0';
}

/* |out| has room for MAX_FIELD bytes. */
static size_t log_put_field(const bl_log_field *field, bool json, char *out)
{
    char value[MAX_TEXT];
    bool quoted = field->text != NULL && (json || !is_plain(field->text));
    size_t n = (size_t)snprintf(out, MAX_NAME, json ? ",\"%.24s\":" : " %.24s=", field->name);

    if (field->text == NULL)
        return n + (size_t)snprintf(out + n, MAX_NAME, "%.15g", field->number);
    snprintf(value, sizeof value, "%s", field->text);
    if (quoted)
        out[n++] = '"';
    n += log_escape(value, quoted, out + n);
    if (quoted)
        out[n++] = '"';
    return n;
}

void bl_log_fields(bl_log_level level, const char *event, const bl_log_field *fields, int count)
{
    char line[MAX_STAMP + MAX_NAME + MAX_FIELDS * MAX_FIELD + 4];
    bool json = atomic_load(&as_json);
    int saved_errno = errno;
    size_t n;

    if (!bl_log_is_on(level))
        return;
    n = put_stamp(level, json, line);
    n += (size_t)snprintf(line + n, MAX_NAME, json ? "%.24s\"" : "%.24s", event);
    for (int i = 0; i < count && i < MAX_FIELDS; i++)
        n += log_put_field(&fields[i], json, line + n);
    if (json)
        line[n++] = '}';
    line[n++] = '\n';
    log_write_all(line, n);
    errno = saved_errno;
}
