/* What quantised operators share: whole numbers that stand for (number - zero point) * scale. */
#ifndef BL_ONNX_QUANT_H
#define BL_ONNX_QUANT_H

#include "proto/onnx/import.h"

/* round(x / scale) + zero, held to what |dtype| holds; |zero| may be NULL. */
bl_onnx_value *bl_onnx_quantize(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *scale, bl_onnx_value *zero, bl_dtype dtype);
/* (x - zero) * scale, in the scale's dtype; |zero| may be NULL. */
bl_onnx_value *bl_onnx_dequantize(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *scale, bl_onnx_value *zero);
/* x - zero as int32; |zero| may be NULL. */
bl_onnx_value *bl_onnx_without_zero(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *zero);
/* One number for each place along an axis of x (or for each block of places), as it broadcasts; what is one number, as it is. */
bl_onnx_value *bl_onnx_spread(bl_onnx_call *c, bl_onnx_value *v, const bl_onnx_value *x, int64_t axis);
/* The scale and the zero point of uint8 that hold the range of |x|, 0 in it. */
void bl_onnx_measure(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value **scale, bl_onnx_value **zero);
/* |x| as the whole numbers of its own range say it. */
bl_onnx_value *bl_onnx_round_to_range(bl_onnx_call *c, bl_onnx_value *x);
/* QLinearConv's |x| with the channels behind the batch. */
bl_onnx_value *bl_onnx_convolve_quantized(bl_onnx_call *c, bl_onnx_value *x);

#endif
