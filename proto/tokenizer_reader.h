/* SPDX-License-Identifier: MIT */
/* Private declarations of the files that read tokenizer.json: tokenizer_read.c reads the model and the added tokens,
 * tokenizer_read_steps.c the normaliser and the splits, tokenizer_read_around.c the tokens around a text,
 * tokenizer_read_decoder.c the decoder. */
#ifndef BL_PROTO_TOKENIZER_READER_H
#define BL_PROTO_TOKENIZER_READER_H

#include "proto/json.h"
#include "proto/tokenizer_build.h"

typedef struct bl_token_reader {
    bl_tokenizer *t;
    bl_err *err;
} bl_token_reader;

/* A supported "type" of an object in the file, with its reader. */
typedef struct bl_token_row {
    const char *type;
    bl_status (*read)(bl_token_reader *r, const bl_json *at);
} bl_token_row;

/* ---- tokenizer_read.c */
bl_status bl_token_read_without_memory(bl_token_reader *r); /* returns the arena's error */
BL_NODISCARD bl_status bl_token_read_text(bl_token_reader *r, const bl_json *at, bl_span *out);
/* Finds a member; false if it is missing or null. */
bool bl_token_find(const bl_json *object, const char *name, bl_json *out);
BL_NODISCARD bl_status bl_token_find_flag(bl_token_reader *r, const bl_json *object, const char *name, bool *out);
BL_NODISCARD bl_status bl_token_find_text(bl_token_reader *r, const bl_json *object, const char *name, bl_span *out);
BL_NODISCARD bl_status bl_token_need_text(bl_token_reader *r, const bl_json *object, const char *name, bl_span *out);
BL_NODISCARD bl_status bl_token_read_id(bl_token_reader *r, const bl_json *at, int64_t *out);
/* Adds the place in the file to the error |problem| of tokenizer_build.c; returns |st|. */
bl_status bl_token_place(bl_token_reader *r, const bl_json *at, bl_status st, const bl_err *problem);
bl_status bl_token_not_known(bl_token_reader *r, const bl_json *at, const char *what, bl_span type);
/* Reads one of the rows, or a Sequence of them in |list|.  {NULL} ends |rows|. */
BL_NODISCARD bl_status bl_token_read_rows(bl_token_reader *r, const bl_json *at, const bl_token_row *rows, const char *list);

/* ---- tokenizer_read_steps.c */
BL_NODISCARD bl_status bl_token_read_steps(bl_token_reader *r, const bl_json *root);

/* ---- tokenizer_read_around.c */
BL_NODISCARD bl_status bl_token_read_around(bl_token_reader *r, const bl_json *root);

/* ---- tokenizer_read_decoder.c */
/* Computes the bytes of each token. */
BL_NODISCARD bl_status bl_token_read_decoder(bl_token_reader *r, const bl_json *root);

#endif
