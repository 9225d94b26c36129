/* SPDX-License-Identifier: MIT */
/* DictVectorizer, CastMap and ZipMap.  A map is a row of a tensor with a column for each key, so DictVectorizer and ZipMap pass
 * their tensor through; the model's ports tell the caller the keys. */
#include "proto/onnx/ml.h"

#include <string.h>

static bool is_ml(const Onnx__NodeProto *node, const char *op)
{
    return node->op_type != NULL && node->domain != NULL && strcmp(node->domain, "ai.onnx.ml") == 0 &&
           (op == NULL || strcmp(node->op_type, op) == 0);
}

bool bl_onnx_is_tabular(const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        if (is_ml(graph->node[i], NULL))
            return true;
    }
    return false;
}

static const Onnx__AttributeProto *ops_ml_map_find_attribute(const Onnx__NodeProto *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (node->attribute[i]->name != NULL && strcmp(node->attribute[i]->name, name) == 0)
            return node->attribute[i];
    }
    return NULL;
}

int64_t bl_onnx_count_keys(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; name != NULL && i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        if (node->n_input < 1 || strcmp(node->input[0], name) != 0)
            continue;
        if (is_ml(node, "DictVectorizer")) {
            const Onnx__AttributeProto *text = ops_ml_map_find_attribute(node, "string_vocabulary");
            const Onnx__AttributeProto *whole = ops_ml_map_find_attribute(node, "int64_vocabulary");
            return text != NULL && text->n_strings > 0 ? (int64_t)text->n_strings : whole != NULL ? (int64_t)whole->n_ints : -1;
        }
        if (is_ml(node, "CastMap")) {
            const Onnx__AttributeProto *form = ops_ml_map_find_attribute(node, "map_form"),
                                       *most = ops_ml_map_find_attribute(node, "max_map");
            bool sparse = form != NULL && form->s.len == 6 && memcmp(form->s.data, "SPARSE", 6) == 0;
            return sparse ? (most != NULL && most->i > 0 ? most->i : -1) : 0;
        }
    }
    return -1;
}

/* |x| as a separate value. */
static bl_onnx_value *same_value(bl_onnx_call *c, const bl_onnx_value *x)
{
    bl_onnx_value *y = x != NULL ? bl_onnx_new_value(c->import, NULL, NULL) : NULL;

    if (y != NULL) {
        *y = *x;
        y->name = NULL;
    }
    return y;
}

/* The known keys: strings of one attribute, or integers of another. */
static bl_onnx_value *read_keys(bl_onnx_call *c, const char *text, const char *whole)
{
    const Onnx__AttributeProto *strings = bl_ml_strings(c, text), *ints = bl_ml_ints(c, whole);

    if (strings != NULL && strings->n_strings > 0)
        return bl_ml_texts(c, strings);
    if (ints == NULL || ints->n_ints == 0 || ints->n_ints > BL_ONNX_MAX_KNOWN)
        return bl_onnx_fail(c, "needs %s or %s, at most %d", text, whole, BL_ONNX_MAX_KNOWN);
    return bl_onnx_known_ints(c->import, (int)ints->n_ints, ints->ints);
}

/* The input is a model input, or ZipMap's result with the keys in the order of the vocabulary. */
bl_onnx_value *bl_onnx_write_dict_vectorizer(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *keys = read_keys(c, "string_vocabulary", "int64_vocabulary");
    const bl_onnx_graph *main = c->import->main;

    if (x == NULL || keys == NULL || bl_onnx_rank(x) != 2)
        return bl_onnx_fail(c, "needs a map");
    if (x->graph == main && x->ref.kind == BL_REF_INPUT)
        bl_onnx_take_keys(c->import, keys, &c->import->model->inputs[x->ref.index]);
    return same_value(c, x);
}

bl_onnx_value *bl_onnx_write_cast_map(bl_onnx_call *c)
{
    const char *to = bl_onnx_text(c, "cast_to", "TO_FLOAT");

    if (strcmp(to, "TO_FLOAT") == 0)
        return bl_onnx_make(c, "cast(a, dtype=float32)", NULL);
    if (strcmp(to, "TO_INT64") == 0)
        return bl_onnx_make(c, "cast(a, dtype=int64)", NULL);
    return bl_onnx_fail(c, "cast_to is \"%.40s\"; it must be TO_FLOAT or TO_INT64", bl_onnx_clean(c->import, to));
}

bl_onnx_value *bl_onnx_write_zip_map(bl_onnx_call *c)
{
    bl_onnx_value *keys = read_keys(c, "classlabels_strings", "classlabels_int64s");
    bl_onnx_value *x = bl_onnx_in(c, 0),
                  *y = bl_onnx_rank(x) == 1 ? bl_onnx_make(c, "unsqueeze(a, axis=0)", NULL) : same_value(c, x);

    if (y != NULL)
        y->keys = keys;
    return y;
}
