/* SPDX-License-Identifier: MIT */
/* Copies on a separate transfer queue: for any execution order that the semaphores allow, results equal those of one queue.
 * The test simulates a second queue on the device's only queue (BEAMLINE_VULKAN_STAGING=2).  Submissions are held back until
 * the host waits; then they go to the driver in a random order.  Without a device all tests are skipped. */
#include "vulkan/vk_internal.h"

#include "tests/device/keep_mapped.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DEVICES = 8, N = 64, SETS = 3, MOST_HELD = 4096, ROUNDS = 1000 };

/* y[i] = x[i] * k + j */
static const char scale_text[] = "#version 450\n"
                                 "layout(local_size_x = 64) in;\n"
                                 "layout(std430, set = 0, binding = 0) readonly buffer B0 { int x[]; };\n"
                                 "layout(std430, set = 0, binding = 1) writeonly buffer B1 { int y[]; };\n"
                                 "layout(push_constant) uniform P { int k; int j; };\n"
                                 "void main() { uint i = gl_GlobalInvocationID.x; y[i] = x[i] * k + j; }\n";

#define MUST(call)                                                                                                               \
    do {                                                                                                                         \
        if ((call) != BL_OK)                                                                                                     \
            fail_msg("line %d: %s", __LINE__, err.text);                                                                         \
    } while (0)

typedef struct held {
    VkQueue queue;
    VkCommandBuffer commands;
    VkSemaphore own, other;
    uint64_t value, after; /* the value to signal; the value to wait for, or 0 */
} held;

/* ---- a driver that delays submissions.  The state is static, since Vulkan's functions have no user argument. */
static struct {
    bl_vk_context *ctx;
    bl_vk_device_calls vk; /* the functions of the driver */
    held held[2][MOST_HELD];
    int first[2], end[2];
    uint64_t done[2]; /* submissions passed to the driver */
    int prefer;       /* the queue to prefer if both can proceed, or -1 */
    unsigned seed;
} driver;

static unsigned draw(unsigned below)
{
    driver.seed = driver.seed * 1103515245 + 12345;
    return (driver.seed >> 16) % below;
}

static VKAPI_ATTR VkResult VKAPI_CALL hold(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    const VkTimelineSemaphoreSubmitInfo *timeline = info->pNext;
    int which = info->pSignalSemaphores[0] == driver.ctx->transfer.timeline;
    held *h = &driver.held[which][driver.end[which]++];

    assert_int_equal(n, 1);
    assert_true(fence == VK_NULL_HANDLE && info->waitSemaphoreCount <= 1 && driver.end[which] < MOST_HELD);
    *h = (held){.queue = queue,
                .commands = info->pCommandBuffers[0],
                .own = info->pSignalSemaphores[0],
                .value = timeline->pSignalSemaphoreValues[0]};
    if (info->waitSemaphoreCount == 1) {
        h->other = info->pWaitSemaphores[0];
        h->after = timeline->pWaitSemaphoreValues[0];
    }
    return VK_SUCCESS;
}

static bool may_go(int which)
{
    return driver.first[which] < driver.end[which] && driver.held[which][driver.first[which]].after <= driver.done[1 - which];
}

/* Passes the next submission of one queue to the driver. */
static void let_go(void)
{
    int which = driver.prefer >= 0 ? driver.prefer : (int)draw(2);
    const held *h = NULL;

    which = may_go(which) ? which : 1 - which;
    if (!may_go(which))
        fail_msg("the queues wait for each other");
    h = &driver.held[which][driver.first[which]++];
    VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .waitSemaphoreValueCount = h->after > 0,
                                              .pWaitSemaphoreValues = &h->after,
                                              .signalSemaphoreValueCount = 1,
                                              .pSignalSemaphoreValues = &h->value};
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .pNext = &timeline,
                         .waitSemaphoreCount = h->after > 0,
                         .pWaitSemaphores = &h->other,
                         .pWaitDstStageMask = &stages,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &h->commands,
                         .signalSemaphoreCount = 1,
                         .pSignalSemaphores = &h->own};
    assert_int_equal(driver.vk.QueueSubmit(h->queue, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
    driver.done[which] = h->value;
    if (driver.first[which] == driver.end[which])
        driver.first[which] = driver.end[which] = 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    int which = info->pSemaphores[0] == driver.ctx->transfer.timeline;

    while (driver.done[which] < info->pValues[0])
        let_go();
    return driver.vk.WaitSemaphores(device, info, timeout);
}

/* ---- the tests */

typedef struct bench {
    bl_device *dev;
    bl_kernel *kernel;
    bl_recording *recording;
    bl_buffer *x[SETS], *y[SETS];
    int x_holds[SETS][N], y_holds[SETS][N]; /* expected contents after all submissions */
} bench;

static void open_bench(bl_device *dev, bench *b)
{
    bl_kernel_source source = {.entry = "scale",
                               .text = scale_text,
                               .len = strlen(scale_text),
                               .nbuffers = 2,
                               .nscalars = 2,
                               .writes = 2,
                               .local = {N, 1, 1}};
    bl_launch launch = {.slot = {0, 1}, .var = {0, 1}};
    bl_err err = {0};

    memset(b, 0, sizeof *b);
    b->dev = dev;
    MUST(bl_kernel_create(dev, &source, &b->kernel, &err));
    launch.kernel = b->kernel;
    MUST(bl_recording_create(dev, 1, &launch, 2, 2, &b->recording, &err));
    for (int i = 0; i < SETS; i++) {
        MUST(bl_buffer_alloc(dev, sizeof b->x_holds[i], &b->x[i], &err));
        MUST(bl_buffer_alloc(dev, sizeof b->y_holds[i], &b->y[i], &err));
        MUST(bl_buffer_write(b->x[i], 0, b->x_holds[i], sizeof b->x_holds[i], &err));
        MUST(bl_buffer_write(b->y[i], 0, b->y_holds[i], sizeof b->y_holds[i], &err));
    }
    MUST(bl_device_wait(dev, &err));
    driver.ctx = bl_vk_context_get(dev);
    driver.vk = driver.ctx->vk;
    driver.done[0] = atomic_load(&driver.ctx->compute.submitted);
    driver.done[1] = atomic_load(&driver.ctx->transfer.submitted);
    driver.prefer = -1;
    driver.seed = 1;
    driver.ctx->vk.QueueSubmit = hold;
    driver.ctx->vk.WaitSemaphores = wait_for;
}

static void close_bench(bench *b)
{
    bl_err err = {0};

    MUST(bl_device_wait(b->dev, &err));
    driver.ctx->vk = driver.vk;
    bl_vk_context_release(driver.ctx);
    for (int i = 0; i < SETS; i++) {
        bl_buffer_release(b->x[i]);
        bl_buffer_release(b->y[i]);
    }
    bl_recording_destroy(b->recording);
    bl_kernel_destroy(b->kernel);
}

static void run(bench *b, int from, int to, int k, int j)
{
    bl_buffer *slots[] = {b->x[from], b->y[to]};
    const int32_t vars[] = {k, j};
    const uint32_t groups[1][3] = {{1, 1, 1}};
    bl_submission s = {.slots = slots, .vars = vars, .groups = groups};
    bl_err err = {0};

    MUST(bl_recording_submit(b->recording, &s, &err));
    for (int i = 0; i < N; i++)
        b->y_holds[to][i] = b->x_holds[from][i] * k + j;
}

static void check(bench *b, int which, int round)
{
    int got[N];
    bl_err err = {0};

    MUST(bl_buffer_read(b->y[which], 0, got, sizeof got, &err));
    for (int i = 0; i < N; i++) {
        if (got[i] != b->y_holds[which][i])
            fail_msg("round %d: y%d[%d] is %d, not %d", round, which, i, got[i], b->y_holds[which][i]);
    }
}

static void numbers_are_those_of_one_queue(bl_device *dev)
{
    bench b;
    bl_err err = {0};

    open_bench(dev, &b);
    for (int round = 0; round < ROUNDS; round++) {
        int which = (int)draw(SETS), value = (int)draw(1000);
        switch (draw(4)) {
        case 0:
            for (int i = 0; i < N; i++)
                b.x_holds[which][i] = value + i;
            MUST(bl_buffer_write(b.x[which], 0, b.x_holds[which], sizeof b.x_holds[which], &err));
            break;
        case 1:
        case 2:
            run(&b, which, (int)draw(SETS), value, round);
            break;
        default:
            check(&b, which, round);
        }
    }
    close_bench(&b);
}

/* Buffers that no kernel in flight uses can be written and read while those kernels wait. */
static void copies_wait_for_no_other_kernel(bl_device *dev)
{
    static const int given[N] = {5, 6, 7};
    int got[N] = {0};
    bench b;
    bl_err err = {0};

    open_bench(dev, &b);
    driver.prefer = 1;
    run(&b, 0, 0, 2, 3);
    MUST(bl_buffer_write(b.x[1], 0, given, sizeof given, &err));
    MUST(bl_buffer_read(b.x[1], 0, got, sizeof got, &err));
    assert_memory_equal(got, given, sizeof given);
    assert_int_equal(driver.end[0] - driver.first[0], 1);
    check(&b, 0, 0);
    assert_int_equal(driver.end[0] - driver.first[0], 0);
    close_bench(&b);
}

static void on_each(void (*test)(bl_device *dev))
{
    bl_device *devices[MOST_DEVICES];
    uint32_t n = 0;
    bl_text why = {0};
    bl_err err = {0};

    setenv("BEAMLINE_VULKAN_VALIDATION", "1", 1);
    setenv("BEAMLINE_VULKAN_STAGING", "2", 1);
    MUST(bl_backend_vulkan.open(MOST_DEVICES, devices, &n, &why, &err));
    keep_mapped();
    if (n == 0)
        print_message("no Vulkan device: %s", why.data != NULL ? why.data : "none found\n");
    bl_text_fini(&why);
    for (uint32_t i = 0; i < n; i++) {
        unsigned messages = 0;
        test(devices[i]);
        messages = atomic_load(&bl_vk_instance_of(devices[i])->messages);
        if (messages > 0)
            fail_msg("%s: %u messages of the validation layer", devices[i]->info.name, messages);
        bl_device_destroy(devices[i]);
    }
    if (n == 0)
        skip();
}

static void test_numbers(void **state)
{
    (void)state;
    on_each(numbers_are_those_of_one_queue);
}

static void test_overlap(void **state)
{
    (void)state;
    on_each(copies_wait_for_no_other_kernel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_overlap)};
    return cmocka_run_group_tests_name("vulkan queues", tests, NULL, NULL);
}
