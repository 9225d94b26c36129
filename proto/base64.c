/* SPDX-License-Identifier: MIT */
#include "proto/base64.h"

/* Six bits, or 64 and more for a byte outside the alphabet. */
static inline unsigned six_bits(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

bool bl_base64_size(bl_span text, size_t *bytes)
{
    if (text.len % 4 != 0)
        return false;
    *bytes = text.len / 4 * 3;
    if (text.len > 0 && text.data[text.len - 1] == '=')
        *bytes -= text.data[text.len - 2] == '=' ? 2 : 1;
    return true;
}

bool bl_base64_decode(bl_span text, void *out)
{
    unsigned char *to = out;
    size_t bytes, done = 0;

    if (!bl_base64_size(text, &bytes))
        return false;
    for (const char *p = text.data; done + 3 <= bytes; p += 4, done += 3) {
        unsigned a = six_bits(p[0]), b = six_bits(p[1]), c = six_bits(p[2]), d = six_bits(p[3]);
        if ((a | b | c | d) >= 64)
            return false;
        *to++ = (unsigned char)(a << 2 | b >> 4);
        *to++ = (unsigned char)(b << 4 | c >> 2);
        *to++ = (unsigned char)(c << 6 | d);
    }
    if (done == bytes)
        return true;
    const char *last = text.data + text.len - 4;
    unsigned a = six_bits(last[0]), b = six_bits(last[1]), c = bytes - done == 2 ? six_bits(last[2]) : 0;
    if ((a | b | c) >= 64 || (bytes - done == 2 ? (c & 3) : (b & 15)) != 0)
        return false;
    *to++ = (unsigned char)(a << 2 | b >> 4);
    if (bytes - done == 2)
        *to = (unsigned char)(b << 4 | c >> 2);
    return true;
}
