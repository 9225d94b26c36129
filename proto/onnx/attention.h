/* What the operators of attention share. */
#ifndef BL_ONNX_ATTENTION_H
#define BL_ONNX_ATTENTION_H

#include "proto/onnx/import.h"

/* Queries, keys and values as [batch, heads, length, size]; keys and values may have fewer heads, each for several of queries. */
typedef struct bl_onnx_heads {
    bl_onnx_value *q, *k, *v;
    bl_onnx_value *bias;  /* what is added to the scores, or NULL */
    bool forbids;         /* a row of the bias may be -infinity throughout; its result is 0 */
    bl_onnx_value *sink;  /* one more score of each row, which looks at no key, as it broadcasts; or NULL */
    bl_onnx_value *shown; /* set: the scores at the stage |shows| */
    int shows;            /* 1 scores, 2 with the cap, 3 with the bias, 4 probabilities; 0 none */
} bl_onnx_heads;

/* [batch, length, heads * size] as [batch, heads, length, size], and back. */
bl_onnx_value *bl_onnx_split_heads(bl_onnx_call *c, bl_onnx_value *x, int64_t heads);
bl_onnx_value *bl_onnx_merge_heads(bl_onnx_call *c, bl_onnx_value *x);
/* 0 where the bool holds, else -infinity. */
bl_onnx_value *bl_onnx_as_bias(bl_onnx_call *c, bl_onnx_value *allowed, bl_dtype dtype);
/* The sum; |bias| may be NULL. */
bl_onnx_value *bl_onnx_add_bias(bl_onnx_call *c, bl_onnx_value *bias, bl_onnx_value *more);
/* i + offset - j for query i of |rows| and key j of |keys|: [rows, keys], with axes for each batch where the offset is of each;
 * no offset where that is NULL. */
bl_onnx_value *bl_onnx_places_apart(bl_onnx_call *c, const bl_node *rows, const bl_node *keys, bl_onnx_value *offset);
/* Each row of values by how well its key fits the query, by the node's attributes scale, softcap and softmax_precision. */
bl_onnx_value *bl_onnx_attend(bl_onnx_call *c, bl_onnx_heads *h);
/* x [batch, length, heads, size] turned by caches [batch or none, length, half of what is turned], by the node's attribute
 * rotary_embedding_dim. */
bl_onnx_value *bl_onnx_rotate(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *cos, bl_onnx_value *sin, bool interleaved);

#endif
