/* SPDX-License-Identifier: MIT */
/* Between the files that read tokenizer.json: tokenizer_read.c the model and added tokens, tokenizer_read_steps.c what is
 * done to a text, tokenizer_read_around.c what stands around it, tokenizer_read_decoder.c the way back. */
#ifndef BL_PROTO_TOKENIZER_READER_H
#define BL_PROTO_TOKENIZER_READER_H

#include "proto/json.h"
#include "proto/tokenizer_build.h"

typedef struct bl_token_reader {
    bl_tokenizer *t;
    bl_err *err;
} bl_token_reader;

/* A row of what can stand in a place of the file, by its "type". */
typedef struct bl_token_row {
    const char *type;
    bl_status (*read)(bl_token_reader *r, const bl_json *at);
} bl_token_row;

/* ---- tokenizer_read.c */
bl_status bl_token_read_without_memory(bl_token_reader *r); /* what the arena says */
BL_NODISCARD bl_status bl_token_read_text(bl_token_reader *r, const bl_json *at, bl_span *out);
/* A member that may be missing, or null. */
bool bl_token_find(const bl_json *object, const char *name, bl_json *out);
BL_NODISCARD bl_status bl_token_find_flag(bl_token_reader *r, const bl_json *object, const char *name, bool *out);
BL_NODISCARD bl_status bl_token_find_text(bl_token_reader *r, const bl_json *object, const char *name, bl_span *out);
BL_NODISCARD bl_status bl_token_need_text(bl_token_reader *r, const bl_json *object, const char *name, bl_span *out);
BL_NODISCARD bl_status bl_token_read_id(bl_token_reader *r, const bl_json *at, int64_t *out);
/* What tokenizer_build.c says of |st|, with the place in the file. */
bl_status bl_token_place(bl_token_reader *r, const bl_json *at, bl_status st, const bl_err *problem);
bl_status bl_token_not_known(bl_token_reader *r, const bl_json *at, const char *what, bl_span type);
/* One of the rows, which {NULL} ends, or a Sequence of them in |list|. */
BL_NODISCARD bl_status bl_token_read_rows(bl_token_reader *r, const bl_json *at, const bl_token_row *rows, const char *list);

/* ---- tokenizer_read_steps.c */
BL_NODISCARD bl_status bl_token_read_steps(bl_token_reader *r, const bl_json *root);

/* ---- tokenizer_read_around.c */
BL_NODISCARD bl_status bl_token_read_around(bl_token_reader *r, const bl_json *root);

/* ---- tokenizer_read_decoder.c */
/* The bytes of each token. */
BL_NODISCARD bl_status bl_token_read_decoder(bl_token_reader *r, const bl_json *root);

#endif
