/* SPDX-License-Identifier: MIT */
/* Builds the tokenizer of a GGUF file from its metadata ("tokenizer.ggml.*"): byte-pair encoding (gpt2, gemma4), SentencePiece
 * with merges by score (llama), WordPiece (bert) and Unigram (t5).  A text gets the same tokens as with the model's own
 * tokenizer.json.  Where the metadata do not determine these tokens, a text gets the tokens of llama.cpp.  Thread: any. */
#ifndef BL_PROTO_GGUF_VOCAB_H
#define BL_PROTO_GGUF_VOCAB_H

#include "proto/gguf/gguf.h"
#include "proto/tokenizer.h"

/* *out does not refer to |gguf|; the caller destroys *out.  BL_EINVAL and BL_EUNSUPPORTED name the key and the token. */
BL_NODISCARD bl_status bl_gguf_tokenizer(const bl_gguf *gguf, bl_tokenizer **out, bl_err *err);

#endif
