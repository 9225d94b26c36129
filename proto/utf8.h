/* UTF-8 validation (RFC 3629).  Thread: any. */
#ifndef BL_PROTO_UTF8_H
#define BL_PROTO_UTF8_H

#include <stddef.h>

/* The length of the UTF-8 sequence at |text|, or 0 if it is invalid (overlong, a surrogate, past U+10FFFF, or truncated by
 * |room|). */
static inline size_t bl_utf8_length(const char *text, size_t room)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
               : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
               : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                             : 0;

    if (n == 0 || n > room)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] >= 0x90))
        return 0;
    return n;
}

#endif
