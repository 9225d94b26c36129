/* SPDX-License-Identifier: MIT */
/* Encodes text as tokens of a language model and decodes tokens to text, as Hugging Face's tokenizer.json or the metadata of a
 * GGUF file (proto/gguf/vocab.h) specifies.
 *
 * Encoding first finds added tokens, such as "<s>", in the text.  The parts between them are normalised and split, and the model
 * turns each piece into tokens.  BPE starts from characters and joins pairs in the order of the file's merges.  SPM joins pairs
 * in the order of the scores of the joined tokens.  Unigram chooses the tokens with the largest sum of scores.  WordPiece takes
 * the longest token first.  Text without a token becomes its bytes, the unknown token, or nothing.  The file also says which
 * tokens to put before and after the whole.
 *
 * The file is untrusted: an unsupported feature fails with its place in the file, and the file's regular expressions (PCRE2, with
 * Unicode properties) run under a limit.  Thread: any; a tokenizer is immutable after bl_tokenizer_read. */
#ifndef BL_PROTO_TOKENIZER_H
#define BL_PROTO_TOKENIZER_H

#include "engine/base/arena.h"
#include "engine/base/text.h"

typedef struct bl_tokenizer bl_tokenizer;

/* BL_EINVAL and BL_EUNSUPPORTED give the place in the file and the rule; BL_ELIMIT says what is too large. */
BL_NODISCARD bl_status bl_tokenizer_read(bl_span file, bl_tokenizer **out, bl_err *err);
void bl_tokenizer_destroy(bl_tokenizer *tokenizer); /* accepts NULL */

/* A growable list; all zero is empty, and the caller frees |id|. */
typedef struct bl_tokens {
    int32_t *id;
    size_t count, cap;
} bl_tokens;

/* One more than the largest id. */
size_t bl_tokenizer_size(const bl_tokenizer *tokenizer);
int32_t bl_tokenizer_find(const bl_tokenizer *tokenizer, bl_span text); /* -1: no such token */
bl_span bl_tokenizer_text(const bl_tokenizer *tokenizer, int32_t id);   /* text as stored in the file; data NULL: no such id */
/* Whether the token is a control token, such as the end of a text, instead of a part of a text. */
bool bl_tokenizer_is_special(const bl_tokenizer *tokenizer, int32_t id);
/* Whether the token ends a model's output.  Such tokens are recognised by their texts (token_marks.def) and, for a GGUF file,
 * also by its keys. */
bool bl_tokenizer_is_end(const bl_tokenizer *tokenizer, int32_t id);

/* The special tokens by purpose; -1 if there is none.  tokenizer.json does not list them, so its tokenizers have only |unknown|
 * and the tokens recognised by their texts. */
typedef struct bl_token_marks {
    int32_t bos, eos, eot, eom, unknown, separator, pad, mask;  /* beginning of text; end of text, of a turn, of a message */
    int32_t prefix, suffix, middle, fill_pad, repository, file; /* fill-in-the-middle tokens */
    bool adds_bos, adds_eos;                                    /* added before and after a text */
} bl_token_marks;
const bl_token_marks *bl_tokenizer_marks(const bl_tokenizer *tokenizer);

typedef struct bl_encode_options {
    bool add_special;   /* add the tokens that the file puts around a text */
    bool parse_special; /* convert the text of a special token to that token instead of to the tokens of its characters */
} bl_encode_options;
/* Appends the tokens of |text|, which is UTF-8.  BL_EINVAL for more than |most| tokens; BL_ELIMIT if the text takes too much time
 * or memory. */
BL_NODISCARD bl_status bl_tokenizer_encode_as(const bl_tokenizer *tokenizer, bl_span text, bl_encode_options options, size_t most,
                                              bl_tokens *out, bl_err *err);
/* bl_tokenizer_encode_as with both options. */
BL_NODISCARD bl_status bl_tokenizer_encode(const bl_tokenizer *tokenizer, bl_span text, size_t most, bl_tokens *out, bl_err *err);
/* How the file truncates and pads texts that become rows of one tensor. */
typedef struct bl_token_layout {
    bool cuts, cuts_left; /* truncate to |longest| tokens, unless that is 0; remove tokens from the end, or from the beginning */
    int64_t longest;
    int64_t padded;        /* minimum length of a padded row; 0: the length of the longest text */
    int64_t multiple;      /* round the padded length up to a multiple of this, unless it is 0 */
    bool pads_left, typed; /* |typed|: some tokens have a type other than 0 */
    int32_t pad;
} bl_token_layout;
const bl_token_layout *bl_tokenizer_layout(const bl_tokenizer *tokenizer);
/* Replaces the tokens in |out| by those of |text|; truncates to |most| tokens if the file allows truncation. */
BL_NODISCARD bl_status bl_tokenizer_encode_row(const bl_tokenizer *tokenizer, bl_span text, size_t most, bl_tokens *out,
                                               bl_err *err);
/* The bytes of a token within a text; they need not be whole characters.  Empty for special tokens and unknown ids.
 *
 * |first|: only special tokens precede it, so the bytes omit a blank that the tokenizer added. */
bl_span bl_tokenizer_bytes(const bl_tokenizer *tokenizer, int32_t id, bool first);
/* Like bl_tokenizer_bytes, but gives the text of a special token, such as "</s>". */
bl_span bl_tokenizer_piece(const bl_tokenizer *tokenizer, int32_t id);
/* Appends the bytes of |count| tokens; the first token begins a text.  |special|: includes the texts of special tokens. */
void bl_tokenizer_decode(const bl_tokenizer *tokenizer, const int32_t *ids, size_t count, bool special, bl_text *out);

#endif
