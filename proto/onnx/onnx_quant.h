/* Helpers of the quantised operators: integers that represent (number - zero point) * scale.  Each function returns NULL after
 * a failure (proto/onnx/import.h).  Thread: the import's thread. */
#ifndef BL_PROTO_ONNX_QUANT_H
#define BL_PROTO_ONNX_QUANT_H

#include "proto/onnx/import.h"

/* round(x / scale) + zero, saturated to |dtype|; |zero| may be NULL. */
bl_onnx_value *bl_onnx_quantize(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *scale, bl_onnx_value *zero, bl_dtype dtype);
/* (x - zero) * scale, in the scale's dtype; |zero| may be NULL. */
bl_onnx_value *bl_onnx_dequantize(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *scale, bl_onnx_value *zero);
/* x - zero as int32; |zero| may be NULL. */
bl_onnx_value *bl_onnx_without_zero(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *zero);
/* Broadcasts one number for each index of an axis of |x| (or for each block of indices); a scalar is unchanged. */
bl_onnx_value *bl_onnx_spread(bl_onnx_call *c, bl_onnx_value *v, const bl_onnx_value *x, int64_t axis);
/* The scale and the uint8 zero point that cover the range of |x| and 0. */
void bl_onnx_measure(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value **scale, bl_onnx_value **zero);
/* |x| quantised to its own range and dequantised. */
bl_onnx_value *bl_onnx_round_to_range(bl_onnx_call *c, bl_onnx_value *x);
/* QLinearConv of |x|, which is [batch, channels, ...]. */
bl_onnx_value *bl_onnx_convolve_quantized(bl_onnx_call *c, bl_onnx_value *x);

#endif
