/* A model that takes tokens and is given texts: a classifier, or one that makes vectors of texts.  The tokenizer beside its
 * program makes the rows of its inputs, all of one length, on the request's way in; from there on they are inputs like others. */
#ifndef BL_SERVER_MODELS_TEXT_INPUT_H
#define BL_SERVER_MODELS_TEXT_INPUT_H

#include "proto/tokenizer.h"
#include "server/models/text_model.h"

struct bl_text_input {
    bl_tokenizer *tokenizer;
    bl_text_about about;     /* of a model that is made of its own files (load_llm.c); else zeroed */
    bool whole;              /* likewise: no text is cut, and rows are as long as the longest of them */
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

/* The tokens of a row of the program's input; the caller's. */
typedef struct bl_text_row {
    const int32_t *id;
    size_t count;
} bl_text_row;
/* The rows of a run at the most. */
int64_t bl_text_input_most(const bl_model_version *version);
/* The tokens of |text| in place of those in |row|, as the version's rows have them.  A text that is too long, or takes too long,
 * fails. */
BL_NODISCARD bl_status bl_text_input_encode(const bl_infer *in, bl_span text, bl_tokens *row, bl_err *err);
/* The inputs that the program has for these rows, |out| of at least 3; *count of them.  The request's. */
BL_NODISCARD bl_status bl_text_input_fill(const bl_infer *in, const bl_text_row *rows, size_t nrows, bl_infer_input *out,
                                          int *count);
/* The tokenizer of a version that writes texts or takes them; NULL: it does neither. */
static inline const bl_tokenizer *bl_model_tokenizer(const bl_model_version *version)
{
    return version->text != NULL ? version->text->tokenizer : version->words != NULL ? version->words->tokenizer : NULL;
}

#endif
