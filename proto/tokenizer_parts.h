/* SPDX-License-Identifier: MIT */
/* What tokenizer_read.c makes of a file, and tokenizer.c works with. */
#ifndef BL_PROTO_TOKENIZER_PARTS_H
#define BL_PROTO_TOKENIZER_PARTS_H

#include "proto/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* What becomes of the matches of a split, and of what lies between them. */
typedef enum bl_split_behavior {
    BL_SPLIT_ISOLATED,
    BL_SPLIT_REMOVED,
    BL_SPLIT_WITH_PREVIOUS,
    BL_SPLIT_WITH_NEXT,
    BL_SPLIT_CONTIGUOUS
} bl_split_behavior;

/* One after the other, normalisation first: each changes a text, or cuts it into several. */
typedef struct bl_token_step {
    enum { BL_STEP_PREFIX, BL_STEP_REPLACE, BL_STEP_SPLIT, BL_STEP_BYTES } kind;
    bl_span from, to;  /* REPLACE; PREFIX: |to| */
    bool unless_there; /* PREFIX: where the text does not begin with it */
    bool at_start;     /* PREFIX: of the first part of the text alone */
    pcre2_code *code;  /* SPLIT */
    bl_split_behavior behavior;
    bool invert; /* SPLIT: what lies between counts as the matches */
} bl_token_step;

typedef struct bl_token {
    bl_span text;  /* as the file has it; data NULL: there is no such id */
    bl_span bytes; /* within a text */
    bool special;
} bl_token;

/* Two tokens that become one; the least rank first. */
typedef struct bl_token_pair {
    int32_t left, right; /* left -1: free */
    int32_t rank, joined;
} bl_token_pair;

typedef struct bl_added_token {
    bl_span text;
    int32_t id;
    bool eats_left, eats_right; /* the blanks beside it */
} bl_added_token;

enum { BL_TOKEN_STEPS = 32, BL_TOKEN_AROUND = 16 };

struct bl_tokenizer {
    bl_arena *arena;
    size_t size; /* of |tokens|, by id */
    bl_token *tokens;
    size_t slots; /* a power of two, of |by_text|: ids, -1 is free */
    int32_t *by_text;
    size_t pair_slots;
    bl_token_pair *pairs;
    size_t longest; /* bytes of a token's text */
    size_t nadded;
    bl_added_token *added; /* by their first bytes, the longest first */
    uint32_t added_from[257];
    int nsteps;
    bl_token_step steps[BL_TOKEN_STEPS];
    pcre2_general_context *memory;
    pcre2_compile_context *rules;
    pcre2_match_context *limits;
    bool byte_fallback, fuse_unknown, whole_words;
    int32_t unknown;   /* or -1 */
    int32_t byte[256]; /* tokens "<0x00>" and so on, or -1 */
    int nbefore, nafter;
    int32_t before[BL_TOKEN_AROUND], after[BL_TOKEN_AROUND];
    bool strip_blank; /* the first blank of a text is the tokenizer's */
};

/* The code points that stand for bytes where a tokenizer works on bytes, as GPT-2 chose them: |value|'s in UTF-8, at most two
 * bytes; and back, -1 where a code point stands for none. */
size_t bl_token_byte_put(unsigned char value, char *to);
int bl_token_byte_get(uint32_t point);
/* The code point of the sequence at |text|, whose length is |len|. */
uint32_t bl_token_point(const char *text, size_t len);
const bl_token_pair *bl_tokenizer_pair(const bl_tokenizer *tokenizer, int32_t left, int32_t right); /* NULL: they stay */

#endif
