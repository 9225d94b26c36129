/* A model that takes tokens but is given strings: a classifier, or an embedding model.  The tokenizer beside its program makes
 * the rows of its inputs, all of one length, while the request arrives.  After this step they are ordinary inputs. */
#ifndef BL_SERVER_MODELS_TEXT_INPUT_H
#define BL_SERVER_MODELS_TEXT_INPUT_H

#include "proto/tokenizer.h"
#include "server/models/text_model.h"

struct bl_text_input {
    bl_tokenizer *tokenizer;
    bl_text_about about;     /* of a model that is made of a language model's files (load_llm.c); else zeroed */
    bool whole;              /* of such a model: strings are not truncated, and rows are as long as the longest string */
    int tokens, mask, types; /* input indices of the program; -1: the program has no such input */
    int64_t least, most;     /* the range of the number of tokens of a row */
    int64_t step;            /* the number of tokens of a row is a multiple of |step| */
};

/* Make the version tokenize its inputs, with the tokenizer in |file|. */
BL_NODISCARD bl_status bl_text_input_read(bl_model_version *version, bl_span file, bl_err *err);
/* Do the tokens of the model have a dimension of rows? */
bool bl_text_input_has_rows(const bl_model_version *version, const bl_wire_graph *graph);
/* The inputs of the program are known: fill the inputs that clients see. */
BL_NODISCARD bl_status bl_text_input_describe(bl_model_version *version, bl_err *err);
void bl_text_input_fini(bl_model_version *version);
/* Replace the strings in in->wire by the inputs of the program. */
BL_NODISCARD bl_status bl_text_input_take(bl_infer *in);

/* The tokens of a row of the program's input.  Owned by the caller. */
typedef struct bl_text_row {
    const int32_t *id;
    size_t count;
} bl_text_row;
/* The maximum number of rows of a run. */
int64_t bl_text_input_most(const bl_model_version *version);
/* Tokenize |text| into |row|, replacing its tokens, in the form of the version's rows.  Fails if the text is too long, or
 * takes too long. */
BL_NODISCARD bl_status bl_text_input_encode(const bl_infer *in, bl_span text, bl_tokens *row, bl_err *err);
/* Fill the inputs of the program from these rows.  |out| has at least 3 elements, of which *count are set.  In memory of the
 * request. */
BL_NODISCARD bl_status bl_text_input_fill(const bl_infer *in, const bl_text_row *rows, size_t nrows, bl_infer_input *out,
                                          int *count);
/* The tokenizer of a version that generates text or tokenizes its inputs.  NULL: the version does neither. */
static inline const bl_tokenizer *bl_model_tokenizer(const bl_model_version *version)
{
    return version->text != NULL ? version->text->tokenizer : version->words != NULL ? version->words->tokenizer : NULL;
}

#endif
