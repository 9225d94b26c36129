/* A model that takes tokens and is given texts: a classifier, or one that makes vectors of texts.  The tokenizer beside its
 * program makes the rows of its inputs, all of one length, on the request's way in; from there on they are inputs like others. */
#ifndef BL_SERVER_MODELS_TEXT_INPUT_H
#define BL_SERVER_MODELS_TEXT_INPUT_H

#include "proto/tokenizer.h"
#include "server/models/infer.h"

struct bl_text_input {
    bl_tokenizer *tokenizer;
    int tokens, mask, types; /* inputs of the program; -1: it has none */
    int64_t least, most;     /* tokens of a row ... */
    int64_t step;            /* ... and a number of which they are a multiple */
};

/* The version takes texts, with the tokenizer in |file|. */
BL_NODISCARD bl_status bl_text_input_read(bl_model_version *version, bl_span file, bl_err *err);
/* Do its tokens have a dimension for texts? */
bool bl_text_input_has_rows(const bl_model_version *version, const bl_wire_graph *graph);
/* The inputs of its program are known: what clients are shown in place of some of them. */
BL_NODISCARD bl_status bl_text_input_describe(bl_model_version *version, bl_err *err);
void bl_text_input_fini(bl_model_version *version);
/* In in->wire what the program takes stands in place of the texts. */
BL_NODISCARD bl_status bl_text_input_take(bl_infer *in);

#endif
