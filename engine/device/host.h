/* Buffers in host memory, for devices that are the host itself. The functions are rows of bl_device_ops. */
#ifndef BL_DEVICE_HOST_H
#define BL_DEVICE_HOST_H

#include "engine/device/device.h"

/* Allocate a buffer whose bytes are all |fill|. */
bl_status bl_host_alloc(bl_device *dev, size_t bytes, unsigned char fill, bl_buffer **out, bl_err *err);
bl_status bl_host_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
void bl_host_dealloc(bl_buffer *buffer);
bl_status bl_host_write(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err);
bl_status bl_host_read(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err);
/* reopen and wait for a device that has no driver to reopen and no work in flight. */
bl_status bl_host_nothing(bl_device *dev, bl_err *err);

#endif
