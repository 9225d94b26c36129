/* SPDX-License-Identifier: MIT */
/* Decisions and caches of the Vulkan back end without a driver: choice of devices, memory types, error codes, and checks of
 * cache files. */
#include "vulkan/vk_cache.h"
#include "vulkan/vk_choose.h"
#include "vulkan/vk_loader.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void none_has_a_reason(void **state)
{
    (void)state;
    bl_vk_instance *in = NULL;
    bl_text why = {0};
    bl_err err = {0};
    assert_int_equal(bl_vk_instance_create("libno-such-vulkan.so.1", &in, &why, &err), BL_OK);
    assert_null(in);
    assert_non_null(why.data);
    assert_non_null(strstr(why.data, "not installed"));
    bl_text_fini(&why);
}

static void results_have_meanings(void **state)
{
    static const struct {
        VkResult result;
        bl_status status;
        const char *text;
    } rows[] = {
        {VK_SUCCESS, BL_OK, "success"},
        {VK_NOT_READY, BL_OK, "not ready"},
        {VK_ERROR_DEVICE_LOST, BL_EDEVICE, "lost"},
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, BL_ENODEVMEM, "out of device memory"},
        {VK_ERROR_OUT_OF_HOST_MEMORY, BL_ENODEVMEM, "host memory"},
        {VK_ERROR_TOO_MANY_OBJECTS, BL_ENODEVMEM, "too many"},
        {VK_ERROR_INITIALIZATION_FAILED, BL_EDEVICE, "initialization"},
        {(VkResult)-987654, BL_EDEVICE, "without a name"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (bl_vk_result_status(rows[i].result) != rows[i].status)
            fail_msg("row %zu: status %s", i, bl_status_name(bl_vk_result_status(rows[i].result)));
        if (strstr(bl_vk_result_text(rows[i].result), rows[i].text) == NULL)
            fail_msg("row %zu: text \"%s\"", i, bl_vk_result_text(rows[i].result));
    }
}

static bl_vk_facts good_facts(void)
{
    bl_vk_facts f = {.nfamilies = 1, .max_alloc = 1 << 20};
    f.props.apiVersion = VK_API_VERSION_1_2;
    f.props.limits.maxPerStageDescriptorStorageBuffers = f.props.limits.maxDescriptorSetStorageBuffers = 64;
    f.props.limits.maxPerStageResources = 128;
    f.v12.timelineSemaphore = VK_TRUE;
    f.families[0] = (VkQueueFamilyProperties){.queueFlags = VK_QUEUE_COMPUTE_BIT, .queueCount = 1};
    return f;
}

static void unusable_devices_have_reasons(void **state)
{
    (void)state;
    bl_vk_facts good = good_facts(), old = good, drawing = good, plain = good, few = good;
    old.props.apiVersion = VK_API_VERSION_1_1;
    drawing.families[0].queueFlags = VK_QUEUE_GRAPHICS_BIT;
    plain.v12.timelineSemaphore = VK_FALSE;
    assert_null(bl_vk_judge(&good));
    assert_non_null(strstr(bl_vk_judge(&old), "1.2"));
    assert_non_null(strstr(bl_vk_judge(&drawing), "compute"));
    assert_non_null(strstr(bl_vk_judge(&plain), "timeline"));
    assert_int_equal(bl_vk_most_bindings(&good), 32);
    few.props.limits.maxDescriptorSetStorageBuffers = 24; /* Vulkan's minimum */
    assert_int_equal(bl_vk_most_bindings(&few), 24);
    few.props.limits.maxPerStageDescriptorStorageBuffers = 4;
    assert_int_equal(bl_vk_most_bindings(&few), 4);
    assert_non_null(strstr(bl_vk_judge(&few), "buffers"));
}

static void queue_families_are_ranked(void **state)
{
    const VkQueueFlags both = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    const VkQueueFamilyProperties families[] = {
        {.queueFlags = VK_QUEUE_TRANSFER_BIT, .queueCount = 2, .timestampValidBits = 64},
        {.queueFlags = VK_QUEUE_COMPUTE_BIT, .queueCount = 0, .timestampValidBits = 64},
        {.queueFlags = VK_QUEUE_COMPUTE_BIT, .queueCount = 1},
        {.queueFlags = both, .queueCount = 1, .timestampValidBits = 64},
        {.queueFlags = VK_QUEUE_COMPUTE_BIT, .queueCount = 8, .timestampValidBits = 32},
    };
    static const int best[] = {-1, -1, -1, 2, 3, 4}; /* of the first n devices */
    (void)state;
    for (uint32_t n = 0; n < 6; n++)
        assert_int_equal(bl_vk_choose_family(families, n), best[n]);
}

static void copies_get_a_queue(void **state)
{
    enum {
        ALL = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT,
        VIDEO = 0x20,
        SPARSE = VK_QUEUE_SPARSE_BINDING_BIT
    };
    static const VkQueueFamilyProperties graphics = {.queueFlags = ALL, .queueCount = 16},
                                         only = {.queueFlags = ALL, .queueCount = 1},
                                         compute = {.queueFlags = VK_QUEUE_COMPUTE_BIT, .queueCount = 4},
                                         engines = {.queueFlags = VK_QUEUE_TRANSFER_BIT | SPARSE, .queueCount = 2},
                                         guarded = {.queueFlags = VK_QUEUE_TRANSFER_BIT | SPARSE | VK_QUEUE_PROTECTED_BIT,
                                                    .queueCount = 1},
                                         none = {.queueFlags = VK_QUEUE_TRANSFER_BIT, .queueCount = 0},
                                         decoder = {.queueFlags = VK_QUEUE_TRANSFER_BIT | VIDEO, .queueCount = 1};
    const struct {
        const char *name;
        VkQueueFamilyProperties families[3];
        uint32_t n, compute;
        bool own;
        uint32_t family, index;
    } rows[] = {
        {"one queue", {only}, 1, 0, false, 0, 0},
        {"copy engines", {graphics, engines, compute}, 3, 2, true, 1, 0},
        {"copy engines that may be protected", {graphics, guarded, compute}, 3, 2, true, 1, 0},
        {"copy engines without a queue", {only, none}, 2, 0, false, 0, 0},
        {"a second queue", {only, compute}, 2, 1, true, 1, 1},
        {"a decoder that copies", {only, decoder}, 2, 0, false, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t family = 7, index = 7;
        bool own = bl_vk_choose_transfer(rows[i].families, rows[i].n, rows[i].compute, &family, &index);
        if (own != rows[i].own || family != rows[i].family || index != rows[i].index)
            fail_msg("%s: own %d, family %u, index %u", rows[i].name, own, family, index);
    }
}

enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    COHERENT = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    LAZY = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT,
};

static void memory_is_chosen(void **state)
{
    const VkPhysicalDeviceMemoryProperties card = {.memoryHeapCount = 3,
                                                   .memoryHeaps = {{.size = 8 << 20}, {.size = 64 << 20}, {.size = 1 << 20}},
                                                   .memoryTypeCount = 6,
                                                   .memoryTypes = {{VISIBLE | COHERENT, 1},
                                                                   {VISIBLE | COHERENT | CACHED, 1},
                                                                   {LOCAL | VISIBLE | COHERENT, 2},
                                                                   {LOCAL | LAZY, 0},
                                                                   {LOCAL, 0},
                                                                   {LOCAL | VISIBLE | COHERENT | CACHED, 2}}};
    const VkPhysicalDeviceMemoryProperties shared = {
        .memoryHeapCount = 1,
        .memoryHeaps = {{.size = 64 << 20}},
        .memoryTypeCount = 3,
        .memoryTypes = {{LOCAL, 0}, {LOCAL | VISIBLE | COHERENT, 0}, {LOCAL | VISIBLE | COHERENT | CACHED, 0}}};
    const struct {
        const VkPhysicalDeviceMemoryProperties *memory;
        VkPhysicalDeviceType type;
        uint32_t bits;
        bool staged, fits, host;
        uint32_t buffers, staging;
    } rows[] = {
        {&card, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 63, false, true, false, 4, 1},
        {&card, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 61, false, true, false, 4, 5},
        {&card, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 17, false, true, false, 4, 0},
        {&card, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 16, false, false, false, 0, 0},
        {&card, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 8, false, false, false, 0, 0},
        {&shared, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 7, false, true, true, 2, 2},
        {&shared, VK_PHYSICAL_DEVICE_TYPE_CPU, 3, false, true, true, 1, 1},
        {&shared, VK_PHYSICAL_DEVICE_TYPE_CPU, 7, true, true, false, 0, 2},
        {&shared, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 7, false, true, false, 0, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_vk_places p = {0};
        bool fits = bl_vk_choose_places(rows[i].memory, rows[i].type, rows[i].bits, rows[i].staged, &p);
        if (fits != rows[i].fits)
            fail_msg("row %zu: fits %d", i, fits);
        if (fits && (p.buffers != rows[i].buffers || p.staging != rows[i].staging || p.host_memory != rows[i].host))
            fail_msg("row %zu: buffers %u, staging %u, host %d", i, p.buffers, p.staging, p.host_memory);
    }
}

static void features_need_all_their_parts(void **state)
{
    bl_vk_facts f = good_facts();
    bl_vk_places places = {0};
    bl_device_info info;
    (void)state;
    f.memory.memoryHeaps[0].size = 1 << 30;
    f.props.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    bl_vk_describe(&f, &places, 3, &info);
    assert_int_equal(info.features, 0);
    assert_string_equal(info.id, "vulkan:3");
    assert_int_equal(info.max_alloc, 1 << 20);
    f.v12.storageBuffer8BitAccess = f.v11.storageBuffer16BitAccess = f.core.shaderFloat64 = VK_TRUE;
    bl_vk_describe(&f, &places, 0, &info);
    assert_int_equal(info.features, BL_FEATURE_F64);
    f.v12.shaderInt8 = f.core.shaderInt16 = f.core.shaderInt64 = VK_TRUE;
    bl_vk_describe(&f, &places, 0, &info);
    assert_int_equal(info.features, BL_FEATURE_F64 | BL_FEATURE_I64 | BL_FEATURE_STORE8 | BL_FEATURE_STORE16);
    assert_int_equal(info.vector_bits, 0);
    assert_int_equal(info.type, BL_DEVICE_GPU);
    f.subgroup = 1; /* as if the driver reported nothing; the compiler takes such a device for a CPU */
    bl_vk_describe(&f, &places, 0, &info);
    assert_int_equal(info.subgroup, 32);
    f.props.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    bl_vk_describe(&f, &places, 0, &info);
    assert_int_equal(info.subgroup, 1);
}

static size_t count_files(const char *folder, const char *prefix)
{
    size_t n = 0;
    char path[128];
    snprintf(path, sizeof path, "%s/vulkan", folder);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            n++;
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

static void flip_byte(const char *path, off_t at)
{
    unsigned char c = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c ^= 1;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static void cache_trusts_only_itself(void **state)
{
    const char *folder = *state;
    char path[192];
    void *data = NULL;
    size_t len = 0;
    assert_false(bl_vk_cache_load("spirv-test", "key", 3, &data, &len));
    bl_vk_cache_store("spirv-test", "key", 3, "value", 5);
    assert_true(bl_vk_cache_load("spirv-test", "key", 3, &data, &len));
    assert_int_equal(len, 5);
    assert_memory_equal(data, "value", 5);
    free(data);
    assert_false(bl_vk_cache_load("spirv-test", "kez", 3, &data, &len));
    assert_false(bl_vk_cache_load("spirv-test", "keyy", 4, &data, &len));
    snprintf(path, sizeof path, "%s/vulkan/spirv-test", folder);
    for (off_t at = 0; at < 32 + 3 + 5; at++) { /* a change of any byte of the header, the key or the value is detected */
        flip_byte(path, at);
        if (bl_vk_cache_load("spirv-test", "key", 3, &data, &len))
            fail_msg("byte %d was changed and the entry taken", (int)at);
        flip_byte(path, at);
    }
    assert_true(bl_vk_cache_load("spirv-test", "key", 3, &data, &len));
    free(data);
    assert_int_equal(truncate(path, 38), 0);
    assert_false(bl_vk_cache_load("spirv-test", "key", 3, &data, &len));
    assert_int_equal(count_files(folder, "spirv-test."), 0); /* no temporary file remains */
    unlink(path);
}

/* The driver's cache may grow over the size that can be loaded: the earlier file stays. */
static void cache_keeps_what_it_can_load(void **state)
{
    enum { LARGE = 64 << 20 };
    const char *folder = *state;
    char path[192];
    void *data = NULL, *large = calloc(1, LARGE);
    size_t len = 0;
    assert_non_null(large);
    bl_vk_cache_store("large-test", "key", 3, "value", 5);
    bl_vk_cache_store("large-test", "key", 3, large, LARGE);
    assert_true(bl_vk_cache_load("large-test", "key", 3, &data, &len));
    assert_int_equal(len, 5);
    free(data);
    free(large);
    snprintf(path, sizeof path, "%s/vulkan/large-test", folder);
    unlink(path);
}

/* Shapes of matrices that subgroups multiply with a supported accumulator, the larger first; none if subgroups have no fixed
 * size. */
static void matrices_are_chosen(void **state)
{
    enum { F16 = BL_VK_MATRIX_FLOAT16, F32 = BL_VK_MATRIX_FLOAT32, I8 = BL_VK_MATRIX_SINT8, I32 = BL_VK_MATRIX_SINT32 };
    static const struct {
        uint32_t m, n, k;
        int32_t from, to;
        bool saturating;
        int32_t scope;
    } shapes[] = {
        {8, 8, 8, F16, F32, false, BL_VK_MATRIX_SUBGROUP},
        {16, 16, 16, F16, F16, false, BL_VK_MATRIX_SUBGROUP}, /* float16 accumulator */
        {16, 16, 16, F16, F32, false, BL_VK_MATRIX_SUBGROUP},
        {16, 16, 32, I8, I32, true, BL_VK_MATRIX_SUBGROUP}, /* saturating */
        {16, 16, 32, I8, I32, false, BL_VK_MATRIX_SUBGROUP},
        {16, 16, 16, BL_VK_MATRIX_BFLOAT16, F32, false, BL_VK_MATRIX_SUBGROUP}, /* the feature is missing */
        {32, 32, 16, F16, F32, false, 2},                                       /* of work-group scope */
        {128, 8, 16, F16, F32, false, BL_VK_MATRIX_SUBGROUP},                   /* larger than the largest fragment */
    };
    bl_vk_facts f = good_facts();
    bl_vk_places places = {.host_memory = false};
    bl_device_info info;

    (void)state;
    f.subgroup = 32;
    f.matrix.matrix = f.matrix.fixed_subgroup = true;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        f.matrix.shapes[f.matrix.count++] = (bl_vk_matrix_properties){.m = shapes[i].m,
                                                                      .n = shapes[i].n,
                                                                      .k = shapes[i].k,
                                                                      .a_type = shapes[i].from,
                                                                      .b_type = shapes[i].from,
                                                                      .c_type = shapes[i].to,
                                                                      .result_type = shapes[i].to,
                                                                      .saturating = shapes[i].saturating,
                                                                      .scope = shapes[i].scope};
    bl_vk_describe(&f, &places, 0, &info);
    assert_int_equal(info.nmatrix, 3);
    assert_int_equal(info.matrix[0].k, 32);
    assert_int_equal(info.matrix[0].dtype, BL_UNIT_I8);
    assert_int_equal(info.matrix[1].m, 16);
    assert_int_equal(info.matrix[1].dtype, BL_UNIT_F16);
    assert_int_equal(info.matrix[1].scope, 32);
    assert_int_equal(info.matrix[2].m, 8);
    f.matrix.bfloat16 = true;
    bl_vk_describe(&f, &places, 0, &info);
    assert_int_equal(info.nmatrix, 4);
    f.matrix.fixed_subgroup = false;
    bl_vk_describe(&f, &places, 0, &info);
    assert_int_equal(info.nmatrix, 0);
    f.matrix.asked_subgroup = true;
    bl_vk_describe(&f, &places, 0, &info);
    assert_int_equal(info.nmatrix, 4);
}

/* A device may run kernels in subgroups of several sizes; a kernel that needs a certain size requests it. */
static void subgroups_are_asked_for(void **state)
{
    const VkPhysicalDeviceSubgroupSizeControlFeatures all = {.subgroupSizeControl = VK_TRUE, .computeFullSubgroups = VK_TRUE},
                                                      half = {.subgroupSizeControl = VK_TRUE};
    const VkShaderStageFlags compute = VK_SHADER_STAGE_COMPUTE_BIT | VK_SHADER_STAGE_FRAGMENT_BIT;
    const struct {
        const char *name;
        VkDriverId driver;
        const VkPhysicalDeviceSubgroupSizeControlFeatures *features;
        uint32_t least, most;
        VkShaderStageFlags stages;
        bool may;
    } rows[] = {
        {"two sizes", VK_DRIVER_ID_MESA_RADV, &all, 32, 64, compute, true},
        {"subgroups that need not be whole", VK_DRIVER_ID_MESA_RADV, &half, 32, 64, compute, false},
        {"other shaders only", VK_DRIVER_ID_MESA_RADV, &all, 32, 64, VK_SHADER_STAGE_FRAGMENT_BIT, false},
        {"a size of its own that is none of them", VK_DRIVER_ID_MESA_RADV, &all, 8, 32, compute, false},
        {"units of fewer work-items", VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, &all, 8, 64, compute, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_vk_facts f = {.subgroup = 64, .driver.driverID = rows[i].driver};
        VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
            .minSubgroupSize = rows[i].least, .maxSubgroupSize = rows[i].most, .requiredSubgroupSizeStages = rows[i].stages};
        if (bl_vk_may_ask_subgroup(&f, rows[i].features, &sizes) != rows[i].may)
            fail_msg("%s", rows[i].name);
    }
}

static int set_up(void **state)
{
    static char folder[] = "/tmp/bl_test_vulkan_XXXXXX";
    *state = mkdtemp(folder);
    return *state != NULL ? setenv("BEAMLINE_CACHE", folder, 1) : -1;
}

static int tear_down(void **state)
{
    char path[64];
    snprintf(path, sizeof path, "%s/vulkan", (const char *)*state);
    return rmdir(path) == 0 && rmdir(*state) == 0 ? 0 : -1; /* succeeds on empty folders: the tests removed their files */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_has_a_reason),
        cmocka_unit_test(results_have_meanings),
        cmocka_unit_test(unusable_devices_have_reasons),
        cmocka_unit_test(queue_families_are_ranked),
        cmocka_unit_test(copies_get_a_queue),
        cmocka_unit_test(memory_is_chosen),
        cmocka_unit_test(features_need_all_their_parts),
        cmocka_unit_test(matrices_are_chosen),
        cmocka_unit_test(cache_trusts_only_itself),
        cmocka_unit_test(cache_keeps_what_it_can_load),
        cmocka_unit_test(subgroups_are_asked_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
