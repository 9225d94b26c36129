/* SPDX-License-Identifier: MIT */
/* The tokenizer of a GGUF file, from its metadata ("tokenizer.ggml.*"): byte pairs (gpt2, gemma4), SentencePiece by scores
 * (llama), WordPiece (bert) and Unigram (t5).  The same texts give the same tokens as the model's own tokenizer.json would; where
 * that cannot be told from the metadata, as llama.cpp does. */
#ifndef BL_PROTO_GGUF_VOCAB_H
#define BL_PROTO_GGUF_VOCAB_H

#include "proto/gguf/gguf.h"
#include "proto/tokenizer.h"

/* *out has nothing of the file, and the caller destroys it.  BL_EINVAL and BL_EUNSUPPORTED name the key and the token. */
BL_NODISCARD bl_status bl_gguf_tokenizer(const bl_gguf *gguf, bl_tokenizer **out, bl_err *err);

#endif
