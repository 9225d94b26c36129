/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is a tokenizer, then a NUL and a text, which is encoded and decoded. */
#include "proto/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile unsigned char sink;
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    bl_span file = {(const char *)data, nul != NULL ? (size_t)(nul - data) : size};
    bl_span text = {(const char *)data + file.len + (nul != NULL), size - file.len - (nul != NULL)};
    bl_tokenizer *tokenizer = NULL;
    bl_tokens tokens = {0};
    bl_err err = {0};

    if (bl_tokenizer_read(file, &tokenizer, &err) != BL_OK)
        return 0;
    if (bl_tokenizer_encode(tokenizer, text, 1000, &tokens, &err) == BL_OK) {
        for (size_t i = 0; i < tokens.count; i++) {
            bl_span bytes = bl_tokenizer_bytes(tokenizer, tokens.id[i], i == 0);
            for (size_t k = 0; k < bytes.len; k++)
                sink = (unsigned char)(sink ^ (unsigned char)bytes.data[k]);
        }
    }
    free(tokens.id);
    bl_tokenizer_destroy(tokenizer);
    return 0;
}
