/* SPDX-License-Identifier: MIT */
/* tokenize FILE: a tokenizer.json, and lines to answer, each with a line: "encode HEX" with ids, "decode ID..." with bytes in
 * hexadecimal; "error: TEXT" where it cannot be.  For test_tokenizers.py. */
#include "proto/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long size = 0;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
        exit(2);
    rewind(file);
    data = calloc(1, (size_t)size + 1);
    if (data == NULL)
        exit(2);
    *len = fread(data, 1, (size_t)size, file);
    fclose(file);
    return data;
}

static void encode(const bl_tokenizer *tokenizer, const char *hex)
{
    bl_text text = {0};
    bl_tokens tokens = {0};
    bl_err err = {0};
    unsigned byte = 0;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
        bl_text_putc(&text, (char)byte);
    if (bl_tokenizer_encode(tokenizer, (bl_span){bl_text_get(&text), text.len}, 1 << 20, &tokens, &err) != BL_OK)
        printf("error: %s", err.text);
    else
        for (size_t i = 0; i < tokens.count; i++)
            printf(i > 0 ? " %d" : "%d", tokens.id[i]);
    printf("\n");
    free(tokens.id);
    bl_text_fini(&text);
}

static void decode(const bl_tokenizer *tokenizer, char *ids)
{
    bool first = true;
    char *end = NULL;
    for (long id = strtol(ids, &end, 10); end != ids; id = strtol(ids = end, &end, 10)) {
        bl_span bytes = bl_tokenizer_bytes(tokenizer, (int32_t)id, first);
        for (size_t i = 0; i < bytes.len; i++)
            printf("%02x", (unsigned char)bytes.data[i]);
        first = first && bl_tokenizer_is_special(tokenizer, (int32_t)id);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    bl_tokenizer *tokenizer = NULL;
    bl_err err = {0};
    size_t len = 0, cap = 0;
    char *file = argc == 2 ? read_file(argv[1], &len) : NULL, *line = NULL;
    if (file == NULL)
        return 2;
    if (bl_tokenizer_read((bl_span){file, len}, &tokenizer, &err) != BL_OK) {
        printf("error: %s\n", err.text);
        return 1;
    }
    while (getline(&line, &cap, stdin) > 0) {
        if (strncmp(line, "encode ", 7) == 0)
            encode(tokenizer, line + 7);
        else if (strncmp(line, "decode ", 7) == 0)
            decode(tokenizer, line + 7);
    }
    free(line);
    free(file);
    bl_tokenizer_destroy(tokenizer);
    return 0;
}
