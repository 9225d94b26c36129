/* SPDX-License-Identifier: MIT */
/* Strings.  The program has no string tensors: each text of the model has a number, and a tensor of strings becomes an int64
 * tensor of these numbers.  So operators that move elements also move strings, and a table of texts is a table of numbers.  A
 * text that is unknown to the model has a number from bl_onnx_model.texts.count on. */
#include "proto/onnx/import.h"

#include <string.h>

/* Operators that accept tensors of strings.  |gives|: their results are strings too; otherwise the operator marks its results
 * itself. */
static const struct {
    const char *domain, *name;
    bool gives;
} movers[] = {
    {"", "Compress", true},
    {"", "Concat", true},
    {"", "Equal", false},
    {"", "Expand", true},
    {"", "Flatten", true},
    {"", "Gather", true},
    {"", "GatherElements", true},
    {"", "GatherND", true},
    {"", "Identity", true},
    {"", "Reshape", true},
    {"", "Shape", false},
    {"", "Size", false},
    {"", "Slice", true},
    {"", "Split", true},
    {"", "Squeeze", true},
    {"", "Tile", true},
    {"", "Transpose", true},
    {"", "Unsqueeze", true},
    {"", "Where", true},
    {"ai.onnx.ml", "ArrayFeatureExtractor", true},
    {"ai.onnx.ml", "CategoryMapper", false},
    {"ai.onnx.ml", "LabelEncoder", false},
    {"ai.onnx.ml", "OneHotEncoder", false},
};

int64_t bl_onnx_text_number(bl_onnx_importer *m, bl_span text)
{
    bl_texts *texts = &m->model->texts;
    int number = m->failed ? 0 : bl_texts_find(texts, text);
    char *kept;

    if (number >= 0)
        return number;
    kept = bl_arena_strndup(m->arena, text.len > 0 ? text.data : "", text.len);
    number = kept != NULL ? bl_texts_add(texts, m->arena, (bl_span){kept, text.len}) : -1;
    if (number < 0)
        bl_onnx_stop(m, BL_ELIMIT, "no room for more than %d texts", texts->count);
    return number < 0 ? 0 : number;
}

static int find_mover(const bl_onnx_call *c)
{
    const char *domain = c->node->domain == NULL || strcmp(c->node->domain, "ai.onnx") == 0 ? "" : c->node->domain;

    for (int i = 0; i < (int)(sizeof movers / sizeof movers[0]); i++) {
        if (strcmp(movers[i].name, c->node->op_type) == 0 && strcmp(movers[i].domain, domain) == 0)
            return i;
    }
    return -1;
}

static bool takes_texts(const bl_onnx_call *c)
{
    bool texts = false;

    for (int i = 0; i < c->nin; i++)
        texts = texts || (c->in[i] != NULL && c->in[i]->texts);
    return texts;
}

bool bl_onnx_check_texts(bl_onnx_call *c)
{
    return !takes_texts(c) || find_mover(c) >= 0 ||
           bl_onnx_fail(
               c, "an operand is a tensor of strings; only operators that move, compare or look up elements take strings") !=
               NULL;
}

void bl_onnx_mark_texts(bl_onnx_call *c)
{
    int mover = takes_texts(c) ? find_mover(c) : -1;

    for (int i = 0; i < c->nout && mover >= 0 && movers[mover].gives; i++) {
        if (c->out[i] != NULL)
            c->out[i]->texts = true;
    }
}
