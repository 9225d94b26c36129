/* SPDX-License-Identifier: MIT */
#include "engine/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_MESSAGE = 2048, MAX_ESCAPED = 6 /* bytes that one byte becomes at the most: \u001b */ };

static atomic_int threshold = BL_LOG_INFO;
static atomic_bool as_json;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void bl_log_configure(bl_log_level level, bool json)
{
    atomic_store(&threshold, (int)level);
    atomic_store(&as_json, json);
}

/* Bytes of the UTF-8 character at |text| if it is well formed and no control character, else 0. */
static size_t printable(const unsigned char *text)
{
    if (text[0] >= 0x20 && text[0] < 0x7f)
        return 1;
    if (text[0] >= 0xc2 && text[0] <= 0xdf && (text[1] & 0xc0) == 0x80)
        return text[0] == 0xc2 && text[1] < 0xa0 ? 0 : 2; /* U+0080 to U+009F are controls too: CSI, next line */
    if ((text[0] & 0xf0) == 0xe0 && (text[1] & 0xc0) == 0x80 && (text[2] & 0xc0) == 0x80) {
        if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0))
            return 0; /* longer than need be, or half of a surrogate pair */
        if (text[0] == 0xe2 && text[1] == 0x80 && (text[2] == 0xa8 || text[2] == 0xa9))
            return 0; /* line and paragraph separator */
        return 3;
    }
    if (text[0] >= 0xf0 && text[0] <= 0xf4 && (text[1] & 0xc0) == 0x80 && (text[2] & 0xc0) == 0x80 && (text[3] & 0xc0) == 0x80)
        return (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f) ? 0 : 4;
    return 0;
}

/* |out| has room for MAX_ESCAPED times |text|.  Returns the bytes written. */
static size_t escape(const char *text, bool json, char *out)
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
        } else { /* in JSON the byte's number stands for itself, as if it were Latin-1: it must not be lost, nor be invalid */
            n += (size_t)sprintf(out + n, json ? "\\u00%02x" : "\\x%02x", (unsigned)*at);
            at++;
        }
    }
    return n;
}

static void write_all(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t done = write(STDERR_FILENO, data, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return; /* nobody to tell */
        data += done;
        len -= (size_t)done;
    }
}

void bl_log(bl_log_level level, const char *fmt, ...)
{
    char message[MAX_MESSAGE];
    char line[MAX_MESSAGE * MAX_ESCAPED + 128];
    bool json = atomic_load(&as_json);
    int saved_errno = errno;
    struct timespec now;
    struct tm utc;
    char stamp[32];
    size_t n;
    va_list args;
    int len;

    if ((int)level > atomic_load(&threshold))
        return;
    va_start(args, fmt);
    len = vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (len < 0)
        message[0] = '\0';
    else if ((size_t)len >= sizeof message)
        memcpy(message + sizeof message - 4, "...", 4);

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    n = (size_t)snprintf(line, 128, json ? "{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"message\":\"" : "%s.%03dZ %-5s ", stamp,
                         (int)(now.tv_nsec / 1000000), level_names[level]);
    n += escape(message, json, line + n);
    if (json) {
        line[n++] = '"';
        line[n++] = '}';
    }
    line[n++] = '\n';
    write_all(line, n); /* one write, so that lines of several threads do not mix */
    errno = saved_errno;
}
