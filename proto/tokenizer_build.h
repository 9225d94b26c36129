/* SPDX-License-Identifier: MIT */
/* How a tokenizer is put together, whatever the file says it in: tokenizer.json (tokenizer_read.c and its like), or the metadata
 * of a GGUF file (proto/gguf/vocab.c).  The order is: room, tokens, the model's parts, added tokens, steps, decoder.  Errors say
 * what is wrong, and not where: a reader knows the place in its file. */
#ifndef BL_PROTO_TOKENIZER_BUILD_H
#define BL_PROTO_TOKENIZER_BUILD_H

#include "proto/tokenizer_parts.h"

#define BL_TOKEN_BLANK "\xe2\x96\x81" /* U+2581, as SentencePiece writes a blank */

/* As GPT-2 splits, and every tokenizer of bytes that says nothing else. */
#define BL_TOKEN_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { BL_TOKEN_IDS = 1024 * 1024, BL_TOKEN_ADDED = 65536 }; /* the most of a file */

bl_tokenizer *bl_token_create(void); /* NULL without memory */
/* |size|: ids are below it; |texts|: how many tokens there will be. */
BL_NODISCARD bl_status bl_token_make_room(bl_tokenizer *t, size_t size, size_t texts, bl_err *err);
/* |id| has no token yet.  |text| lives as long as |t|.  Which id the text is found as: another one, where that has it already. */
int32_t bl_token_add(bl_tokenizer *t, int32_t id, bl_span text);

/* BPE: merges are added some at a time, so that memory is waited for once and not for each of their texts.  Zeroed is empty. */
enum { BL_TOKEN_MERGES = BL_TOKEN_BATCH / 3 };
typedef struct bl_token_merges {
    int count;
    bl_span part[BL_TOKEN_MERGES][3]; /* left, right, and what they become, which is in |room| */
    bl_text room[BL_TOKEN_MERGES];
} bl_token_merges;
BL_NODISCARD bl_status bl_token_make_pairs(bl_tokenizer *t, size_t count, bl_err *err);
/* There is room for one more.  |left| and |right| live until they are added. */
BL_NODISCARD bl_status bl_token_put_merge(bl_token_merges *merges, bl_span left, bl_span right, bl_err *err);
/* The first of them has the rank |rank|; |again|: a pair that is there already gets the new one.  -1, or the place of the first
 * merge of which a text is no token, |*missing|. */
int bl_token_add_merges(bl_tokenizer *t, bl_token_merges *merges, int32_t rank, bool again, bl_span *missing);
void bl_token_fini_merges(bl_token_merges *merges);
/* Unigram: of those tokens that |in| says, or of all. */
BL_NODISCARD bl_status bl_token_make_trie(bl_tokenizer *t, const bool *in, bl_err *err);
/* The tokens "<0x00>" and so on. */
void bl_token_find_byte_tokens(bl_tokenizer *t);

/* ---- marks: tokenizer_marks.c */
void bl_token_clear_marks(bl_tokenizer *t); /* none is known */
/* Those that the file did not name, and the ends of what a model writes.  |doubts|: a text that is a mark elsewhere is one here,
 * whatever the file says of it, as converters to GGUF were not careful. */
void bl_token_find_marks(bl_tokenizer *t, bool doubts);

/* Room for so many; the caller fills |among->token| and counts, then sorts. */
BL_NODISCARD bl_status bl_token_make_added(bl_tokenizer *t, bl_added_tokens *among, size_t count, bl_err *err);
void bl_token_sort_added(bl_added_tokens *among);

/* ---- steps */
typedef enum bl_token_pattern {
    BL_PATTERN_TEXT,      /* as it is */
    BL_PATTERN_ONIGURUMA, /* as files have expressions */
    BL_PATTERN_PCRE
} bl_token_pattern;

BL_NODISCARD bl_status bl_token_compile(bl_tokenizer *t, bl_span pattern, bl_token_pattern kind, pcre2_code **out, bl_err *err);
/* A copy of |step|, which has no code. */
BL_NODISCARD bl_status bl_token_add_step(bl_tokenizer *t, bl_token_step step, bl_token_step **out, bl_err *err);
BL_NODISCARD bl_status bl_token_add_map(bl_tokenizer *t, bl_token_map map, bl_err *err);
BL_NODISCARD bl_status bl_token_add_replace(bl_tokenizer *t, bl_span from, bl_span to, bl_err *err);
BL_NODISCARD bl_status bl_token_add_split(bl_tokenizer *t, bl_span pattern, bl_token_pattern kind, bl_split_behavior behavior,
                                          bool invert, bl_err *err);
BL_NODISCARD bl_status bl_token_add_form(bl_tokenizer *t, bool compat, bool joins, bl_err *err);
/* SentencePiece's precompiled map of characters, which lives as long as |t|. */
BL_NODISCARD bl_status bl_token_add_chars(bl_tokenizer *t, bl_span map, bl_err *err);
/* As BERT normalises, and as it splits into words. */
typedef struct bl_bert_options {
    bool cleans, chinese, strips, lowers;
} bl_bert_options;
BL_NODISCARD bl_status bl_token_add_bert(bl_tokenizer *t, bl_bert_options options, bl_err *err);
BL_NODISCARD bl_status bl_token_add_blanks(bl_tokenizer *t, bl_err *err); /* split at blanks, which are removed */
BL_NODISCARD bl_status bl_token_add_punctuation(bl_tokenizer *t, bl_split_behavior behavior, bl_err *err);

/* ---- the way back: tokenizer_decode.c */
enum { BL_TOKEN_DECODES = 16 };

typedef enum bl_decode_kind {
    BL_DECODE_REPLACE,    /* |from| by |to| */
    BL_DECODE_BYTES,      /* code points that stand for bytes */
    BL_DECODE_BYTE_TOKEN, /* "<0x41>" */
    BL_DECODE_BLANKS,     /* |from| is a blank; |flag|: none where it begins a text */
    BL_DECODE_WORDS,      /* a blank in front of what does not begin with |from|; |flag|: what stands apart is drawn together */
    BL_DECODE_STRIP,      /* |start| and |stop| times |from| at the ends */
    BL_DECODE_APART       /* a blank in front */
} bl_decode_kind;

typedef struct bl_token_decode {
    bl_decode_kind kind;
    bl_span from, to;
    bool flag;
    size_t start, stop; /* so many of |from| are stripped there at the most */
    bool whole;         /* of the whole text, and not of each token */
    bool model;         /* an added token stays as it is */
} bl_token_decode;

typedef struct bl_token_decoder {
    int count;
    bl_token_decode op[BL_TOKEN_DECODES];
} bl_token_decoder;

/* What each token is within a text, and where it begins one.  An added token whose bytes are known begins with those. */
BL_NODISCARD bl_status bl_token_fill_bytes(bl_tokenizer *t, const bl_token_decoder *decoder, bl_err *err);

#endif
