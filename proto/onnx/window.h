/* Helpers of convolutions and pools: windows with strides, dilations and pads.  Thread: the import's thread. */
#ifndef BL_ONNX_WINDOW_H
#define BL_ONNX_WINDOW_H

#include "proto/onnx/import.h"

/* Windows that slide along the last |n| axes. */
typedef struct bl_onnx_window {
    int n;
    int64_t kernel[BL_MAX_DIMS], stride[BL_MAX_DIMS], dilation[BL_MAX_DIMS];
    int64_t pads[2 * BL_MAX_DIMS];         /* before each axis, then after each axis */
    const bl_node *named[2 * BL_MAX_DIMS]; /* pads that contain named dimensions (auto_pad); else NULL */
    const bl_node *hang[BL_MAX_DIMS];      /* padding after each axis for windows past the end (ceil_mode); or NULL */
    bool ceil;
} bl_onnx_window;

/* Reads strides, dilations, pads, auto_pad and ceil_mode of the node, for windows of |kernel| on |x|.  False after a failure. */
bool bl_onnx_take_window(bl_onnx_call *c, const bl_onnx_value *x, int n, const int64_t *kernel, bl_onnx_window *w);
/* conv with the node's attributes; |bias| may be NULL. */
bl_onnx_value *bl_onnx_convolve(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *weight, bl_onnx_value *bias);

#endif
