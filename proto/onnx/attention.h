/* Helpers of the attention operators: scaled dot-product attention with bias, softcap and sink logits, and rotary embeddings.
 * Each function returns NULL after a failure (proto/onnx/import.h).  Thread: the import's thread. */
#ifndef BL_ONNX_ATTENTION_H
#define BL_ONNX_ATTENTION_H

#include "proto/onnx/import.h"

/* Queries, keys and values as [batch, heads, length, size]; keys and values may have fewer heads, each shared by several query
 * heads. */
typedef struct bl_onnx_heads {
    bl_onnx_value *q, *k, *v;
    bl_onnx_value *bias;  /* added to the scores, or NULL */
    bool forbids;         /* a row of the bias may be -infinity throughout; the result of this row is 0 */
    bl_onnx_value *sink;  /* sink logits: one additional score in each row, which belongs to no key, broadcast; or NULL */
    bl_onnx_value *shown; /* output: the scores at stage |shows| */
    int shows;            /* 1 scores, 2 after the softcap, 3 after the bias, 4 probabilities; 0 none */
} bl_onnx_heads;

/* Converts [batch, length, heads * size] to [batch, heads, length, size], and back. */
bl_onnx_value *bl_onnx_split_heads(bl_onnx_call *c, bl_onnx_value *x, int64_t heads);
bl_onnx_value *bl_onnx_merge_heads(bl_onnx_call *c, bl_onnx_value *x);
/* 0 where |allowed| is true, else -infinity. */
bl_onnx_value *bl_onnx_as_bias(bl_onnx_call *c, bl_onnx_value *allowed, bl_dtype dtype);
/* The sum of both; |bias| may be NULL. */
bl_onnx_value *bl_onnx_add_bias(bl_onnx_call *c, bl_onnx_value *bias, bl_onnx_value *more);
/* i + offset - j for query i of |rows| and key j of |keys|: [rows, keys], with a leading batch axis if the offset has one.
 * |offset| NULL: 0. */
bl_onnx_value *bl_onnx_places_apart(bl_onnx_call *c, const bl_node *rows, const bl_node *keys, bl_onnx_value *offset);
/* Scaled dot-product attention with the node's attributes scale, softcap and softmax_precision. */
bl_onnx_value *bl_onnx_attend(bl_onnx_call *c, bl_onnx_heads *h);
/* Rotary embedding of x [batch, length, heads, size] with caches [batch or none, length, half of the rotated size]; uses the
 * node's attribute rotary_embedding_dim. */
bl_onnx_value *bl_onnx_rotate(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *cos, bl_onnx_value *sin, bool interleaved);

#endif
