/* SPDX-License-Identifier: MIT */
/* Texts as the tokens of a language model, and back, as the tokenizer.json of Hugging Face says, or the metadata of a GGUF file
 * (proto/gguf/vocab.h).
 *
 * A text goes this way: added tokens, such as "<s>", are found in it; what lies between them is normalised, split, and each piece
 * becomes tokens as the model has it.  BPE: its characters, of which pairs are joined in the order of the file's merges.  SPM:
 * the same, in the order of the scores of what they become.  Unigram: the tokens whose scores sum up to the most.  WordPiece: the
 * longest token first.  What has no token becomes its bytes, or the unknown token, or nothing.  The file says what stands around
 * the whole.
 *
 * The file is foreign: what it asks for and is not known here fails with its place in the file, and its regular expressions
 * (PCRE2, with Unicode's properties) run under a limit.  Constant once it is read: any thread. */
#ifndef BL_PROTO_TOKENIZER_H
#define BL_PROTO_TOKENIZER_H

#include "engine/base/arena.h"
#include "engine/base/text.h"

typedef struct bl_tokenizer bl_tokenizer;

/* BL_EINVAL and BL_EUNSUPPORTED name the place in the file and the rule, BL_ELIMIT what is too large. */
BL_NODISCARD bl_status bl_tokenizer_read(bl_span file, bl_tokenizer **out, bl_err *err);
void bl_tokenizer_destroy(bl_tokenizer *tokenizer); /* accepts NULL */

/* A growing list; zeroed is empty, and the caller frees |id|. */
typedef struct bl_tokens {
    int32_t *id;
    size_t count, cap;
} bl_tokens;

/* The ids are below this. */
size_t bl_tokenizer_size(const bl_tokenizer *tokenizer);
int32_t bl_tokenizer_find(const bl_tokenizer *tokenizer, bl_span text); /* -1: it is no token */
bl_span bl_tokenizer_text(const bl_tokenizer *tokenizer, int32_t id);   /* as the file has it; data NULL: there is no such id */
/* Is it a mark, such as the end of a text, and no part of one? */
bool bl_tokenizer_is_special(const bl_tokenizer *tokenizer, int32_t id);
/* Does a model that writes it say that it is done?  Such tokens are known by their texts (token_marks.def), and those of a GGUF
 * file by its keys besides. */
bool bl_tokenizer_is_end(const bl_tokenizer *tokenizer, int32_t id);

/* The tokens that have a meaning of their own; -1 where there is none.  tokenizer.json does not name them, so that of its
 * tokenizers only |unknown| and what the texts tell is known. */
typedef struct bl_token_marks {
    int32_t bos, eos, eot, eom, unknown, separator, pad, mask;  /* beginning, end of a text, of a turn, of a message */
    int32_t prefix, suffix, middle, fill_pad, repository, file; /* for texts with a gap */
    bool adds_bos, adds_eos;                                    /* around a text */
} bl_token_marks;
const bl_token_marks *bl_tokenizer_marks(const bl_tokenizer *tokenizer);

typedef struct bl_encode_options {
    bool add_special;   /* what the file puts around a text is put there */
    bool parse_special; /* marks that are written in the text are these tokens, and not the characters */
} bl_encode_options;
/* Append the tokens of |text|, which is UTF-8.  BL_EINVAL over |most| of them; BL_ELIMIT for one that takes too long or too much
 * room. */
BL_NODISCARD bl_status bl_tokenizer_encode_as(const bl_tokenizer *tokenizer, bl_span text, bl_encode_options options, size_t most,
                                              bl_tokens *out, bl_err *err);
/* The same with both options. */
BL_NODISCARD bl_status bl_tokenizer_encode(const bl_tokenizer *tokenizer, bl_span text, size_t most, bl_tokens *out, bl_err *err);
/* What the file says of texts that are rows of one tensor: how they come to one length. */
typedef struct bl_token_layout {
    bool cuts, cuts_left; /* to |longest| tokens, unless that is 0; at the end, or at the beginning */
    int64_t longest;
    int64_t padded;        /* to so many at least; 0: as many as the longest of them has */
    int64_t multiple;      /* and to a multiple of that, unless it is 0 */
    bool pads_left, typed; /* |typed|: tokens have other types than 0 */
    int32_t pad;
} bl_token_layout;
const bl_token_layout *bl_tokenizer_layout(const bl_tokenizer *tokenizer);
/* The tokens of |text| in place of those in |out|; what is over |most| is cut off, if the file says so. */
BL_NODISCARD bl_status bl_tokenizer_encode_row(const bl_tokenizer *tokenizer, bl_span text, size_t most, bl_tokens *out,
                                               bl_err *err);
/* The bytes of a token within a text, which need not be whole characters; nothing for marks and for ids that there are not.
 * |first|: nothing but marks is in front of it, so that a blank which the tokenizer put there is left out. */
bl_span bl_tokenizer_bytes(const bl_tokenizer *tokenizer, int32_t id, bool first);
/* The same, but of a mark its text, such as "</s>". */
bl_span bl_tokenizer_piece(const bl_tokenizer *tokenizer, int32_t id);
/* Append the bytes of |count| tokens, the first of which begins a text.  |special|: marks too, as their texts. */
void bl_tokenizer_decode(const bl_tokenizer *tokenizer, const int32_t *ids, size_t count, bool special, bl_text *out);

#endif
