/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is a GGUF file.  Reads each byte of its names, texts and tensors, and makes and uses its tokenizer.  If
 * the first four bytes are the length of a first part, the input has two parts of a split file. */
#include "proto/gguf/vocab.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink;

static void touch(bl_span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        sink = (unsigned char)(sink ^ (unsigned char)bytes.data[i]);
}

static void touch_values(const bl_gguf_values *values)
{
    bl_span text;
    double number = 0;
    int64_t integer = 0;
    bool flag = false;
    for (size_t place = 0; bl_gguf_next_text(values, &place, &text);)
        touch(text);
    for (size_t i = 0; values->kind != BL_GGUF_TEXT && i < values->count; i++)
        sink = (unsigned char)(sink ^ (bl_gguf_f64_at(values, i, &number) + bl_gguf_i64_at(values, i, &integer) +
                                       bl_gguf_bool_at(values, i, &flag)));
}

static void use_tokenizer(const bl_gguf *gguf)
{
    static const char text[] = "ab abc, 1234 <s>\xc3\xa9\xe2\x96\x81 \n\n a<|im_end|>\xe6\xbc\xa2 bb";
    bl_tokenizer *tokenizer = NULL;
    bl_tokens tokens = {0};
    bl_text back = {0};
    bl_err err = {0};
    if (bl_gguf_tokenizer(gguf, &tokenizer, &err) != BL_OK)
        return;
    for (int i = 0; i < 4; i++) {
        bl_encode_options options = {.add_special = (i & 1) != 0, .parse_special = (i & 2) != 0};
        if (bl_tokenizer_encode_as(tokenizer, BL_S(text), options, 1000, &tokens, &err) == BL_OK)
            bl_tokenizer_decode(tokenizer, tokens.id, tokens.count, i > 1, &back);
    }
    touch((bl_span){bl_text_get(&back), back.len});
    bl_text_fini(&back);
    free(tokens.id);
    bl_tokenizer_destroy(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bl_span files[2] = {{(const char *)data, size}};
    bl_arena *arena = bl_arena_create(64 << 20);
    bl_gguf *gguf = NULL;
    bl_err err = {0};
    uint32_t first = 0;
    size_t count = 0;
    int nfiles = 1;
    if (arena == NULL)
        return 0;
    if (size >= sizeof first)
        memcpy(&first, data, sizeof first);
    if (size >= sizeof first && first <= size - sizeof first) {
        nfiles = 2;
        files[0] = (bl_span){(const char *)data + sizeof first, first};
        files[1] = (bl_span){files[0].data + first, size - sizeof first - first};
    }
    if (bl_gguf_open(arena, files, nfiles, &gguf, &err) == BL_OK) {
        const bl_gguf_tensor *tensors = bl_gguf_tensors(gguf, &count);
        for (size_t i = 0; i < count; i++) {
            touch(tensors[i].name);
            touch(tensors[i].data);
        }
        for (size_t i = 0; i < bl_gguf_key_count(gguf); i++) {
            bl_gguf_values values;
            touch(bl_gguf_key(gguf, i, &values));
            touch_values(&values);
        }
        use_tokenizer(gguf);
    }
    bl_arena_destroy(arena);
    return 0;
}
