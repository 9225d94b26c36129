/* SPDX-License-Identifier: MIT */
/* The tokenizer's data, which tokenizer_read*.c fill from a file, and its encoders: tokenizer.c for a whole text,
 * tokenizer_steps.c for the parts between added tokens, tokenizer_unicode.c for characters, tokenizer_words.c for one word. */
#ifndef BL_PROTO_TOKENIZER_PARTS_H
#define BL_PROTO_TOKENIZER_PARTS_H

#include "proto/tokenizer.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

typedef struct bl_token_encoder bl_token_encoder;
typedef struct bl_token_step bl_token_step;

/* Appends the changed |text| to |out|; the caller checks out's status. */
typedef bl_status (*bl_token_map)(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);

/* What a split does with its matches and with the text between them. */
typedef enum bl_split_behavior {
    BL_SPLIT_ISOLATED,
    BL_SPLIT_REMOVED,
    BL_SPLIT_WITH_PREVIOUS,
    BL_SPLIT_WITH_NEXT,
    BL_SPLIT_CONTIGUOUS
} bl_split_behavior;

/* Steps run in order, normalisation first.  Each changes a text or cuts it into several. */
struct bl_token_step {
    enum { BL_STEP_MAP, BL_STEP_PREFIX, BL_STEP_SPLIT } kind;
    bl_token_map map;           /* MAP; the fields below belong to one of the maps, or to PREFIX or SPLIT */
    bl_span from, to;           /* replacements; PREFIX uses |to| */
    pcre2_code *code;           /* SPLIT and replacements; NULL: search for the literal |from| */
    bool at_start;              /* PREFIX: only before the first part of the text */
    bool left, right;           /* which ends to strip */
    bool compat, joins;         /* Unicode normal form: compatibility decomposition; composition */
    const unsigned char *units; /* character map (bl_token_map_chars): units of four bytes, little-endian */
    size_t nunits;
    bl_split_behavior behavior;
    bool invert; /* SPLIT: treat the text between the matches as the matches */
};

/* A slot of the hash table of texts. */
typedef struct bl_token_slot {
    uint32_t hash; /* avoids most comparisons with other texts */
    int32_t id;    /* -1: free */
} bl_token_slot;

typedef struct bl_token {
    bl_span text;         /* as stored in the file; data NULL: no such id */
    bl_span bytes, first; /* its bytes within a text, and at the beginning of one */
    bool special, added;  /* |added|: not part of the model's vocabulary */
    bool end;             /* ends a model's output */
} bl_token;

/* A merge: two tokens that become one; the lowest rank is applied first. */
typedef struct bl_token_pair {
    int32_t left, right; /* left -1: free */
    int32_t rank, joined;
} bl_token_pair;

/* An edge of the trie of tokens; node 0 is the root. */
typedef struct bl_token_edge {
    uint64_t key; /* the node, with the byte in the lowest eight bits; all ones: free */
    uint32_t node;
    int32_t id; /* of the token that ends at |node|, or -1 */
} bl_token_edge;

typedef struct bl_added_token {
    bl_span text;
    int32_t id;
    bool eats_left, eats_right; /* strips the blanks beside the token */
    int32_t shorter;            /* index of the longest other added token that is a prefix of this text, or -1 */
} bl_added_token;

/* Added tokens sorted by text; |from|: index of the first token with each first byte. */
typedef struct bl_added_tokens {
    size_t count;
    bl_added_token *token;
    uint32_t from[257];
} bl_added_tokens;

typedef enum bl_token_model { BL_TOKENS_BPE, BL_TOKENS_UNIGRAM, BL_TOKENS_WORDPIECE, BL_TOKENS_SPM } bl_token_model;

enum {
    BL_TOKEN_STEPS = 32,
    BL_TOKEN_AROUND = 16,
    BL_TOKEN_MATCHES = 200000 /* PCRE2's match limit at one position; the patterns in use need a few hundred */
};

struct bl_tokenizer {
    bl_arena *arena;
    size_t size; /* of |tokens|, which is indexed by id */
    bl_token *tokens;
    size_t slots; /* of |by_text|, a power of two */
    bl_token_slot *by_text;
    size_t longest; /* longest token text in bytes */
    bl_token_model model;
    /* BPE */
    size_t pair_slots;
    bl_token_pair *pairs;
    bool fuse_unknown, whole_words;
    /* UNIGRAM */
    double *scores; /* indexed by id */
    double unknown_score;
    size_t edge_slots;
    bl_token_edge *edges; /* from bl_calloc */
    /* SPM */
    int32_t *ranks; /* indexed by id: the lowest rank is joined first */
    /* WORDPIECE */
    bl_span begins, continues; /* prefix of a token that begins a word, and of one that continues a word */
    size_t most_characters;

    bl_added_tokens as_written, normalised; /* added tokens to search before normalisation, and after it */
    int nnormal, nsteps;                    /* the first |nnormal| are MAPs, applied to a whole part between added tokens */
    bl_token_step steps[BL_TOKEN_STEPS];
    pcre2_general_context *memory;
    pcre2_compile_context *rules;
    pcre2_match_context *limits;
    bool byte_fallback;
    int32_t unknown;   /* -1: none */
    int32_t byte[256]; /* tokens "<0x00>" to "<0xFF>", or -1 */
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
/* Byte-level tokenizers write each byte as a code point, by GPT-2's table.  bl_token_byte_put writes the code point of |value| in
 * UTF-8, at most two bytes; bl_token_byte_get gives the byte, -1 if the code point stands for none. */
size_t bl_token_byte_put(unsigned char value, char *to);
int bl_token_byte_get(uint32_t point);
int32_t bl_token_find_in_model(const bl_tokenizer *tokenizer, bl_span text); /* like bl_tokenizer_find, without added tokens */

/* Looks up at most BL_TOKEN_BATCH texts as bl_tokenizer_find does; the batch overlaps their cache misses. */
enum { BL_TOKEN_BATCH = 96 }; /* three texts for each of BL_TOKEN_MERGES */
void bl_token_find_all(const bl_tokenizer *tokenizer, const bl_span *texts, int32_t *ids, int count);

/* The state of one encoding. */
struct bl_token_encoder {
    const bl_tokenizer *tokenizer;
    bl_tokens *out;
    size_t most;
    bool started; /* a part of the text was already encoded */
    bool full;    /* the failure is that |out| has |most| tokens */
    bool parse_special;
    int64_t begin_ns;
    unsigned looks;
    pcre2_match_data *found;
    pcre2_match_context *limits; /* set for a long text, else NULL */
    /* buffers of one word, reused for the next */
    struct bl_token_symbol *symbols;
    struct bl_token_candidate *heap;
    struct bl_token_path *path;
    size_t nsymbols, symbols_cap, heaped, heap_cap, path_cap;
    bl_text piece;
    int32_t *points; /* of normalisation forms */
    size_t points_cap;
    bl_err *err;
};
void bl_token_encoder_init(bl_token_encoder *e, const bl_tokenizer *tokenizer, bl_err *err);
void bl_token_encoder_fini(bl_token_encoder *e);
BL_NODISCARD bl_status bl_token_put(bl_token_encoder *e, int32_t id);
/* Call once for each repeated item; BL_ELIMIT when the text takes too long. */
BL_NODISCARD bl_status bl_token_look_at_clock(bl_token_encoder *e);
/* Checks the length |len| of a text: BL_ELIMIT if it is too large, as replacements can enlarge it. */
BL_NODISCARD bl_status bl_token_fits(bl_token_encoder *e, size_t len);
/* |array|: the address of a pointer to |*cap| items of |size| bytes; makes room for |need| items. */
BL_NODISCARD bl_status bl_token_grow(bl_token_encoder *e, void *array, size_t need, size_t *cap, size_t size);

/* ---- tokenizer_steps.c */
/* Normalises |*text|.  The result is stored in |room|, which is the caller's and zeroed. */
BL_NODISCARD bl_status bl_token_normalise(bl_token_encoder *e, bl_text room[2], bl_span *text);
/* Appends the tokens of the normalised |text|.  |first|: it begins the whole text. */
BL_NODISCARD bl_status bl_token_encode_part(bl_token_encoder *e, bl_span text, bool first);
/* Finds the next nonempty match of the step's expression from |at| on.  |*to| is 0 if there is none. */
BL_NODISCARD bl_status bl_token_match(bl_token_encoder *e, const bl_token_step *step, bl_span text, size_t at, size_t *from,
                                      size_t *to);
bl_status bl_token_map_prepend(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_replace(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_bytes(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);

/* ---- tokenizer_unicode.c */
bool bl_token_is_blank(uint32_t point); /* Unicode's White_Space */
/* The code point of the UTF-8 sequence of length |len| at |text|. */
uint32_t bl_token_point(const char *text, size_t len);
bl_status bl_token_map_form(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_lower(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_strip(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
/* Removes all combining marks; removes only the nonspacing marks. */
bl_status bl_token_map_without_marks(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_without_accents(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
/* BERT's clean-up: removes control characters and converts every blank to a space; puts blanks around Chinese characters. */
bl_status bl_token_map_clean(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
bl_status bl_token_map_chinese(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);
/* SentencePiece's character map: a trie of the sequences to replace, and |from| with the NUL-terminated replacements. */
bl_status bl_token_map_chars(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out);

/* ---- tokenizer_words.c */
BL_NODISCARD bl_status bl_token_encode_word(bl_token_encoder *e, bl_span word);
const bl_token_pair *bl_tokenizer_pair(const bl_tokenizer *tokenizer, int32_t left, int32_t right); /* NULL: no merge */

#endif
