/* SPDX-License-Identifier: MIT */
#include "tests/device/run_kernel.h"

#include "engine/render/render.h"

bl_status test_run_kernel(bl_device *dev, const bl_linear *linear, const uint32_t groups[3], bl_buffer *const *buffers,
                          const int32_t *scalars, bl_err *err)
{
    const uint32_t all[1][3] = {{groups[0], groups[1], groups[2]}};
    bl_submission submission = {.slots = buffers, .vars = scalars, .groups = all};
    bl_launch launch = {0};
    bl_recording *recording = NULL;
    bl_text text = {0};
    bl_status st = bl_render(linear, &dev->info, &text, err);

    for (uint16_t i = 0; i < linear->nbuffers; i++)
        launch.slot[i] = i;
    for (uint16_t i = 0; i < linear->nscalars; i++)
        launch.var[i] = i;
    if (st == BL_OK) {
        bl_kernel_source source = bl_render_source(linear, &dev->info, text.data, text.len);
        st = bl_kernel_create(dev, &source, &launch.kernel, err);
    }
    if (st == BL_OK)
        st = bl_recording_create(dev, 1, &launch, linear->nbuffers, linear->nscalars, &recording, err);
    if (st == BL_OK)
        st = bl_recording_submit(recording, &submission, err);
    if (st == BL_OK)
        st = bl_device_wait(dev, err);
    bl_recording_destroy(recording);
    bl_kernel_destroy(launch.kernel);
    bl_text_fini(&text);
    return st;
}
