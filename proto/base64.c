/* SPDX-License-Identifier: MIT */
#include "proto/base64.h"

/* The six bits of a digit; 64 for a byte outside the alphabet. */
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

void bl_base64_encode(bl_text *out, const void *data, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = data;
    char *to = bl_text_reserve(out, (bytes + 2) / 3 * 4);
    if (to == NULL)
        return;
    for (size_t i = 0; i < bytes; i += 3, to += 4) {
        size_t n = bytes - i < 3 ? bytes - i : 3;
        uint32_t word = (uint32_t)from[i] << 16 | (n > 1 ? (uint32_t)from[i + 1] << 8 : 0) | (n > 2 ? from[i + 2] : 0U);
        to[0] = digits[word >> 18];
        to[1] = digits[word >> 12 & 63];
        to[2] = n > 1 ? digits[word >> 6 & 63] : '=';
        to[3] = n > 2 ? digits[word & 63] : '=';
    }
    out->len += (bytes + 2) / 3 * 4;
    out->data[out->len] = '\0';
}
