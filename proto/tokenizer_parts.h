/* SPDX-License-Identifier: MIT */
/* What is read from a file (tokenizer_read.c and its like), and what works with it: tokenizer.c on a whole text,
 * tokenizer_steps.c on what lies between added tokens, tokenizer_unicode.c on its characters, tokenizer_words.c on a word. */
#ifndef BL_PROTO_TOKENIZER_PARTS_H
#define BL_PROTO_TOKENIZER_PARTS_H

#include "proto/tokenizer.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

typedef struct bl_token_encoder bl_token_encoder;
typedef struct bl_token_step bl_token_step;

/* Append |text|, changed, to |out|; whether that has it all is the caller's affair. */
typedef bl_status (*bl_token_map)(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);

/* What becomes of the matches of a split, and of what lies between them. */
typedef enum bl_split_behavior {
    BL_SPLIT_ISOLATED,
    BL_SPLIT_REMOVED,
    BL_SPLIT_WITH_PREVIOUS,
    BL_SPLIT_WITH_NEXT,
    BL_SPLIT_CONTIGUOUS
} bl_split_behavior;

/* One after the other, normalisation first: each changes a text, or cuts it into several. */
struct bl_token_step {
    enum { BL_STEP_MAP, BL_STEP_PREFIX, BL_STEP_SPLIT } kind;
    bl_token_map map;           /* MAP; what follows belongs to one of them, or to PREFIX or SPLIT */
    bl_span from, to;           /* replacements; PREFIX: |to| */
    pcre2_code *code;           /* SPLIT; replacements: NULL for |from| as it is */
    bool at_start;              /* PREFIX: of the first part of the text alone */
    bool left, right;           /* which ends are stripped */
    bool compat, joins;         /* of a normal form: compatible characters too; composed again */
    const unsigned char *units; /* of a map of characters (bl_token_map_chars): four bytes each, the least first */
    size_t nunits;
    bl_split_behavior behavior;
    bool invert; /* SPLIT: what lies between counts as the matches */
};

/* Where a text was put by its hash. */
typedef struct bl_token_slot {
    uint32_t hash; /* spares the look at most texts that are others */
    int32_t id;    /* -1: free */
} bl_token_slot;

typedef struct bl_token {
    bl_span text;         /* as the file has it; data NULL: there is no such id */
    bl_span bytes, first; /* within a text, and where it begins one */
    bool special, added;  /* |added|: the model does not know it */
    bool end;             /* of what a model writes */
} bl_token;

/* Two tokens that become one; the least rank first. */
typedef struct bl_token_pair {
    int32_t left, right; /* left -1: free */
    int32_t rank, joined;
} bl_token_pair;

/* From a node of a trie of tokens to the next; node 0 is nothing. */
typedef struct bl_token_edge {
    uint64_t key; /* the node, and the byte in the lowest eight bits; all ones: free */
    uint32_t node;
    int32_t id; /* of the token that ends there, or -1 */
} bl_token_edge;

typedef struct bl_added_token {
    bl_span text;
    int32_t id;
    bool eats_left, eats_right; /* the blanks beside it */
    int32_t shorter;            /* the longest other one that its text begins with, by place; or -1 */
} bl_added_token;

/* By their texts; |from|: where those with a first byte begin. */
typedef struct bl_added_tokens {
    size_t count;
    bl_added_token *token;
    uint32_t from[257];
} bl_added_tokens;

typedef enum bl_token_model { BL_TOKENS_BPE, BL_TOKENS_UNIGRAM, BL_TOKENS_WORDPIECE, BL_TOKENS_SPM } bl_token_model;

enum {
    BL_TOKEN_STEPS = 32,
    BL_TOKEN_AROUND = 16,
    BL_TOKEN_MATCHES = 200000 /* steps of PCRE2 in one place of a text; the patterns that are in use need some hundreds */
};

struct bl_tokenizer {
    bl_arena *arena;
    size_t size; /* of |tokens|, by id */
    bl_token *tokens;
    size_t slots; /* a power of two, of |by_text| */
    bl_token_slot *by_text;
    size_t longest; /* bytes of a token's text */
    bl_token_model model;
    /* BPE */
    size_t pair_slots;
    bl_token_pair *pairs;
    bool fuse_unknown, whole_words;
    /* UNIGRAM */
    double *scores; /* by id */
    double unknown_score;
    size_t edge_slots;
    bl_token_edge *edges; /* bl_calloc */
    /* SPM */
    int32_t *ranks; /* by id: the least is made first */
    /* WORDPIECE */
    bl_span begins, continues; /* what a token begins with that begins a word, and that does not */
    size_t most_characters;

    bl_added_tokens as_written, normalised; /* where they are looked for: before the normalisation, or after it */
    int nnormal, nsteps;                    /* the first |nnormal| are MAPs, of the whole between added tokens */
    bl_token_step steps[BL_TOKEN_STEPS];
    pcre2_general_context *memory;
    pcre2_compile_context *rules;
    pcre2_match_context *limits;
    bool byte_fallback;
    int32_t unknown;   /* or -1 */
    int32_t byte[256]; /* tokens "<0x00>" and so on, or -1 */
    int nbefore, nafter;
    int32_t before[BL_TOKEN_AROUND], after[BL_TOKEN_AROUND];
    bl_token_layout layout;
    bl_token_marks marks;
};

static inline bool bl_token_begins(bl_span text, bl_span with)
{
    return text.len >= with.len && memcmp(text.data, with.data, with.len) == 0;
}

/* ---- tokenizer.c */
/* The code points that stand for bytes where a tokenizer works on bytes, as GPT-2 chose them: |value|'s in UTF-8, at most two
 * bytes; and back, -1 where a code point stands for none. */
size_t bl_token_byte_put(unsigned char value, char *to);
int bl_token_byte_get(uint32_t point);
int32_t bl_token_find_in_model(const bl_tokenizer *tokenizer, bl_span text); /* as bl_tokenizer_find, less added tokens */

/* bl_tokenizer_find of BL_TOKEN_BATCH texts at the most: memory is waited for once, and not for each of them. */
enum { BL_TOKEN_BATCH = 96 }; /* three for each of BL_TOKEN_MERGES */
void bl_token_find_all(const bl_tokenizer *tokenizer, const bl_span *texts, int32_t *ids, int count);

/* One call. */
struct bl_token_encoder {
    const bl_tokenizer *tokenizer;
    bl_tokens *out;
    size_t most;
    bool started; /* something of the text was there */
    bool full;    /* what failed is that there are |most| tokens */
    bool parse_special;
    int64_t begin_ns;
    unsigned looks;
    pcre2_match_data *found;
    pcre2_match_context *limits; /* for a long text; else NULL */
    /* of one word, kept for the next */
    struct bl_token_symbol *symbols;
    struct bl_token_candidate *heap;
    struct bl_token_path *path;
    size_t nsymbols, symbols_cap, heaped, heap_cap, path_cap;
    bl_text piece;
    int32_t *points; /* of a normal form */
    size_t points_cap;
    bl_err *err;
};
void bl_token_encoder_init(bl_token_encoder *e, const bl_tokenizer *tokenizer, bl_err *err);
void bl_token_encoder_fini(bl_token_encoder *e);
BL_NODISCARD bl_status bl_token_put(bl_token_encoder *e, int32_t id);
/* Once for each thing that may be many: BL_ELIMIT when the text takes too long. */
BL_NODISCARD bl_status bl_token_look_at_clock(bl_token_encoder *e);
/* A text of |len| bytes: BL_ELIMIT where it is too large, as replacements may make it. */
BL_NODISCARD bl_status bl_token_fits(bl_token_encoder *e, size_t len);
/* |array|: the address of a pointer to |*cap| items of |size|; room for |need| of them. */
BL_NODISCARD bl_status bl_token_grow(bl_token_encoder *e, void *array, size_t need, size_t *cap, size_t size);

/* ---- tokenizer_steps.c */
/* |*text| becomes what the normaliser makes of it, in |room|, which is the caller's and zeroed. */
BL_NODISCARD bl_status bl_token_normalise(bl_token_encoder *e, bl_text room[2], bl_span *text);
/* Its tokens, from what is normalised.  |first|: nothing of the whole text is in front of it. */
BL_NODISCARD bl_status bl_token_encode_part(bl_token_encoder *e, bl_span text, bool first);
/* Where the expression of |step| matches next, from |at| on: a match that is not empty.  |*to| 0: nowhere. */
BL_NODISCARD bl_status bl_token_match(bl_token_encoder *e, const bl_token_step *step, bl_span text, size_t at, size_t *from,
                                      size_t *to);
bl_status bl_token_map_prepend(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_replace(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_bytes(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);

/* ---- tokenizer_unicode.c */
bool bl_token_is_blank(uint32_t point); /* Unicode's White_Space */
/* The code point of the sequence at |text|, whose length is |len|. */
uint32_t bl_token_point(const char *text, size_t len);
bl_status bl_token_map_form(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_lower(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_strip(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
/* Without combining marks; without those alone that take no space. */
bl_status bl_token_map_without_marks(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_without_accents(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
/* As BERT: without control characters, and every blank is one; blanks around Chinese characters. */
bl_status bl_token_map_clean(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_chinese(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
/* As SentencePiece: a trie of what is replaced, and |from| what with, texts that end with a NUL. */
bl_status bl_token_map_chars(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);

/* ---- tokenizer_words.c */
BL_NODISCARD bl_status bl_token_encode_word(bl_token_encoder *e, bl_span word);
const bl_token_pair *bl_tokenizer_pair(const bl_tokenizer *tokenizer, int32_t left, int32_t right); /* NULL: they stay */

#endif
