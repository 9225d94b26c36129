/* SPDX-License-Identifier: MIT */
/* tokenize FILE: loads a tokenizer.json or a GGUF file and answers each input line with a line: "encode HEX" with ids, "decode
 * ID..." with bytes in hexadecimal, "piece ID" with its bytes within a text, "marks" with the special tokens; "error: TEXT"
 * after a failure.  "options ADD PARSE" sets the options of later lines and has no answer: whether tokens are added around
 * texts, and whether the texts of special tokens become tokens.  For test_tokenizers.py. */
#include "engine/base/clock.h"
#include "proto/gguf/vocab.h"

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

enum { LONG = 100000 }; /* bytes; the time of a longer text goes to stderr */

static bl_encode_options options = {.add_special = true, .parse_special = true};

static void encode(const bl_tokenizer *tokenizer, const char *hex)
{
    bl_text text = {0};
    bl_tokens tokens = {0};
    bl_err err = {0};
    static const char digits[] = "0123456789abcdef";
    const char *high = NULL, *low = NULL;
    int64_t begin = 0;
    bl_status st = BL_OK;
    for (; hex[0] != '\0' && (high = strchr(digits, hex[0])) != NULL && (low = strchr(digits, hex[1])) != NULL; hex += 2)
        bl_text_putc(&text, (char)((high - digits) << 4 | (low - digits)));
    begin = bl_clock_ns();
    st = bl_tokenizer_encode_as(tokenizer, (bl_span){bl_text_get(&text), text.len}, options, 1 << 22, &tokens, &err);
    if (text.len >= LONG)
        fprintf(stderr, "%zu bytes: %.1f ms\n", text.len, bl_clock_ms(begin, bl_clock_ns()));
    if (st != BL_OK)
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

static void tell_marks(const bl_tokenizer *tokenizer)
{
    const bl_token_marks *m = bl_tokenizer_marks(tokenizer);
    printf("bos=%d eos=%d eot=%d eom=%d unknown=%d separator=%d pad=%d adds=%d%d ends=", m->bos, m->eos, m->eot, m->eom,
           m->unknown, m->separator, m->pad, m->adds_bos, m->adds_eos);
    for (size_t i = 0; i < bl_tokenizer_size(tokenizer); i++)
        if (bl_tokenizer_is_end(tokenizer, (int32_t)i))
            printf("%zu,", i);
    printf("\n");
}

static void tell_piece(const bl_tokenizer *tokenizer, int32_t id)
{
    bl_span bytes = bl_tokenizer_bytes(tokenizer, id, false);
    for (size_t i = 0; i < bytes.len; i++)
        printf("%02x", (unsigned char)bytes.data[i]);
    printf("\n");
}

/* Reads a tokenizer and prints the time to stderr. */
static bl_status read_tokenizer(bl_span file, bl_tokenizer **out, bl_err *err)
{
    int64_t begin = bl_clock_ns();
    bl_arena *arena = bl_arena_create(0);
    bl_gguf *gguf = NULL;
    bl_status st = BL_ENOMEM;
    if (arena == NULL)
        return bl_fail(err, st, "a file");
    if (file.len >= 4 && memcmp(file.data, "GGUF", 4) == 0) {
        st = bl_gguf_open(arena, &file, 1, &gguf, err);
        if (st == BL_OK)
            st = bl_gguf_tokenizer(gguf, out, err);
    } else {
        st = bl_tokenizer_read(file, out, err);
    }
    bl_arena_destroy(arena);
    fprintf(stderr, "%.1f ms\n", bl_clock_ms(begin, bl_clock_ns()));
    return st;
}

int main(int argc, char **argv)
{
    bl_tokenizer *tokenizer = NULL;
    bl_err err = {0};
    size_t len = 0, cap = 0;
    char *file = argc == 2 ? read_file(argv[1], &len) : NULL, *line = NULL;
    if (file == NULL)
        return 2;
    if (read_tokenizer((bl_span){file, len}, &tokenizer, &err) != BL_OK) {
        printf("error: %s\n", err.text);
        return 1;
    }
    while (getline(&line, &cap, stdin) > 0) {
        if (strncmp(line, "encode ", 7) == 0)
            encode(tokenizer, line + 7);
        else if (strncmp(line, "decode ", 7) == 0)
            decode(tokenizer, line + 7);
        else if (strncmp(line, "options ", 8) == 0)
            options = (bl_encode_options){line[8] == '1', line[10] == '1'};
        else if (strncmp(line, "piece ", 6) == 0)
            tell_piece(tokenizer, (int32_t)strtol(line + 6, NULL, 10));
        else if (strncmp(line, "marks", 5) == 0)
            tell_marks(tokenizer);
    }
    free(line);
    free(file);
    bl_tokenizer_destroy(tokenizer);
    return 0;
}
