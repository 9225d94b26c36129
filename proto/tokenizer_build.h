/* SPDX-License-Identifier: MIT */
/* Builds a tokenizer from either source: tokenizer.json (tokenizer_read*.c), or the metadata of a GGUF file
 * (proto/gguf/vocab.c).  Call in this order: room, tokens, the model's parts, added tokens, steps, decoder.  Errors say what
 * is wrong but not where; the reader adds the place in its file. */
#ifndef BL_PROTO_TOKENIZER_BUILD_H
#define BL_PROTO_TOKENIZER_BUILD_H

#include "proto/tokenizer_parts.h"

#define BL_TOKEN_BLANK "\xe2\x96\x81" /* U+2581, which SentencePiece writes for a blank */

/* The split pattern of GPT-2; the default of byte-level tokenizers. */
#define BL_TOKEN_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { BL_TOKEN_IDS = 1024 * 1024, BL_TOKEN_ADDED = 65536 }; /* limits of one file */

bl_tokenizer *bl_token_create(void); /* NULL if out of memory */
/* |size|: all ids are below it; |texts|: the number of tokens to come. */
BL_NODISCARD bl_status bl_token_make_room(bl_tokenizer *t, size_t size, size_t texts, bl_err *err);
/* Adds the token |id|, which must be free.  |text| must outlive |t|.  Returns |id|, or the id of the earlier token with the
 * same text. */
int32_t bl_token_add(bl_tokenizer *t, int32_t id, bl_span text);

/* Merges of BPE, added in batches: a batch overlaps the cache misses of its table look-ups.  All zero is empty. */
enum { BL_TOKEN_MERGES = BL_TOKEN_BATCH / 3 };
typedef struct bl_token_merges {
    int count;
    bl_span part[BL_TOKEN_MERGES][3]; /* left, right, and the joined text, which is stored in |room| */
    bl_text room[BL_TOKEN_MERGES];
} bl_token_merges;
BL_NODISCARD bl_status bl_token_make_pairs(bl_tokenizer *t, size_t count, bl_err *err);
/* The batch must have room for one more.  |left| and |right| must live until the batch is added. */
BL_NODISCARD bl_status bl_token_put_merge(bl_token_merges *merges, bl_span left, bl_span right, bl_err *err);
/* Adds the batch; its first merge has the rank |rank|.  |again|: a pair that is already present gets the new rank.  Returns -1,
 * or the index of the first merge with a text that is no token; |*missing| is that text. */
int bl_token_add_merges(bl_tokenizer *t, bl_token_merges *merges, int32_t rank, bool again, bl_span *missing);
void bl_token_fini_merges(bl_token_merges *merges);
/* Unigram: builds the trie of the tokens with in[id], or of all if |in| is NULL. */
BL_NODISCARD bl_status bl_token_make_trie(bl_tokenizer *t, const bool *in, bl_err *err);
/* Finds the tokens "<0x00>" to "<0xFF>". */
void bl_token_find_byte_tokens(bl_tokenizer *t);

/* ---- marks: tokenizer_marks.c */
void bl_token_clear_marks(bl_tokenizer *t); /* marks all special tokens as unknown */
/* Finds the special tokens that the file did not name, and the tokens that end a model's output.  |doubts|: recognises a
 * special token by its text even if the file calls it ordinary, since converters to GGUF set wrong types. */
void bl_token_find_marks(bl_tokenizer *t, bool doubts);

/* Makes room for |count| tokens.  The caller fills among->token and among->count, then calls bl_token_sort_added. */
BL_NODISCARD bl_status bl_token_make_added(bl_tokenizer *t, bl_added_tokens *among, size_t count, bl_err *err);
void bl_token_sort_added(bl_added_tokens *among);

/* ---- steps */
typedef enum bl_token_pattern {
    BL_PATTERN_TEXT,      /* literal text */
    BL_PATTERN_ONIGURUMA, /* Oniguruma syntax, as in tokenizer.json */
    BL_PATTERN_PCRE
} bl_token_pattern;

BL_NODISCARD bl_status bl_token_compile(bl_tokenizer *t, bl_span pattern, bl_token_pattern kind, pcre2_code **out, bl_err *err);
/* Adds a copy of |step|, which must have no code. */
BL_NODISCARD bl_status bl_token_add_step(bl_tokenizer *t, bl_token_step step, bl_token_step **out, bl_err *err);
BL_NODISCARD bl_status bl_token_add_map(bl_tokenizer *t, bl_token_map map, bl_err *err);
BL_NODISCARD bl_status bl_token_add_replace(bl_tokenizer *t, bl_span from, bl_span to, bl_err *err);
BL_NODISCARD bl_status bl_token_add_split(bl_tokenizer *t, bl_span pattern, bl_token_pattern kind, bl_split_behavior behavior,
                                          bool invert, bl_err *err);
BL_NODISCARD bl_status bl_token_add_form(bl_tokenizer *t, bool compat, bool joins, bl_err *err);
/* SentencePiece's precompiled character map; |map| must outlive |t|. */
BL_NODISCARD bl_status bl_token_add_chars(bl_tokenizer *t, bl_span map, bl_err *err);
/* BERT's normaliser and its split into words. */
typedef struct bl_bert_options {
    bool cleans, chinese, strips, lowers;
} bl_bert_options;
BL_NODISCARD bl_status bl_token_add_bert(bl_tokenizer *t, bl_bert_options options, bl_err *err);
BL_NODISCARD bl_status bl_token_add_blanks(bl_tokenizer *t, bl_err *err); /* splits at blanks and removes them */
BL_NODISCARD bl_status bl_token_add_punctuation(bl_tokenizer *t, bl_split_behavior behavior, bl_err *err);

/* ---- decoding: tokenizer_decode.c */
enum { BL_TOKEN_DECODES = 16 };

typedef enum bl_decode_kind {
    BL_DECODE_REPLACE,    /* replaces |from| by |to| */
    BL_DECODE_BYTES,      /* converts the code points that stand for bytes */
    BL_DECODE_BYTE_TOKEN, /* converts "<0x41>" to its byte */
    BL_DECODE_BLANKS,     /* converts |from| to a blank; |flag|: removes it at the beginning of a text */
    BL_DECODE_WORDS,      /* joins a token that begins with |from| to the one before it, else puts a blank; |flag|: closes up
                           * English punctuation */
    BL_DECODE_STRIP,      /* strips |from| at most |start| times at the beginning and |stop| times at the end */
    BL_DECODE_APART       /* puts a blank before each token */
} bl_decode_kind;

typedef struct bl_token_decode {
    bl_decode_kind kind;
    bl_span from, to;
    bool flag;
    size_t start, stop; /* largest number of |from| to strip */
    bool whole;         /* applies to the whole text instead of to each token */
    bool model;         /* leaves added tokens unchanged */
} bl_token_decode;

typedef struct bl_token_decoder {
    int count;
    bl_token_decode op[BL_TOKEN_DECODES];
} bl_token_decoder;

/* Computes the bytes of each token within a text and at its beginning.  An added token whose bytes are already known starts
 * from those. */
BL_NODISCARD bl_status bl_token_fill_bytes(bl_tokenizer *t, const bl_token_decoder *decoder, bl_err *err);

#endif
