/* SPDX-License-Identifier: MIT */
/* A Vulkan layer that executes nothing: submissions complete at once, and times are zero.  Some drivers make a device without
 * hardware, to compile for it; under this layer such a device answers all calls, but computes no results.  If IDLE_STATISTICS
 * names a file, the layer writes the driver's statistics of each compute pipeline there
 * (VK_KHR_pipeline_executable_properties), one JSON object per line. */
#define VK_NO_PROTOTYPES
#include <vulkan/vk_layer.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, MOST_EXTENSIONS = 512 };

typedef struct layer_instance {
    void *key; /* the loader's dispatch table, to which all handles of an instance point */
    PFN_vkGetInstanceProcAddr next;
    VkInstance handle;
    PFN_vkDestroyInstance destroy; /* looked up at once: later the loader would give the layer's own functions */
    PFN_vkGetPhysicalDeviceMemoryProperties memory;
} layer_instance;

typedef struct layer_device {
    void *key;
    VkDevice handle;
    PFN_vkGetDeviceProcAddr next;
    bool statistics;
} layer_device;

static layer_instance instances[MOST];
static layer_device devices[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *key_of(const void *handle)
{
    return *(void *const *)handle;
}

/* The record of |key|, or an unused record for NULL; never NULL for a handle of the loader. */
static layer_instance *find_instance(void *key)
{
    layer_instance *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST && found == NULL; i++)
        found = instances[i].key == key ? &instances[i] : NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

static layer_device *find_device(void *key)
{
    layer_device *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST && found == NULL; i++)
        found = devices[i].key == key ? &devices[i] : NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- instances and devices */

/* Finds the loader's link for this layer in a chain of structures. */
static void *link_of(const void *chain, VkStructureType type)
{
    for (const VkBaseInStructure *at = chain; at != NULL; at = at->pNext) {
        if (at->sType == type && ((const VkLayerInstanceCreateInfo *)at)->function == VK_LAYER_LINK_INFO)
            return (void *)(uintptr_t)at;
    }
    return NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *calls,
                                                      VkInstance *out)
{
    VkLayerInstanceCreateInfo *link = link_of(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    layer_instance *mine = find_instance(NULL);
    VkResult r;

    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    r = ((PFN_vkCreateInstance)next(NULL, "vkCreateInstance"))(info, calls, out);
    if (r == VK_SUCCESS && mine != NULL)
        *mine = (layer_instance){.key = key_of(*out),
                                 .next = next,
                                 .handle = *out,
                                 .destroy = (PFN_vkDestroyInstance)next(*out, "vkDestroyInstance"),
                                 .memory =
                                     (PFN_vkGetPhysicalDeviceMemoryProperties)next(*out, "vkGetPhysicalDeviceMemoryProperties")};
    return mine == NULL ? VK_ERROR_OUT_OF_HOST_MEMORY : r;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *calls)
{
    layer_instance *mine = find_instance(key_of(instance));

    mine->key = NULL;
    mine->destroy(instance, calls);
}

static bool tells_statistics(const layer_instance *mine, VkPhysicalDevice physical)
{
    static VkExtensionProperties list[MOST_EXTENSIONS];
    PFN_vkEnumerateDeviceExtensionProperties ask =
        (PFN_vkEnumerateDeviceExtensionProperties)mine->next(mine->handle, "vkEnumerateDeviceExtensionProperties");
    uint32_t n = MOST_EXTENSIONS;

    ask(physical, NULL, &n, list);
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(list[i].extensionName, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME) == 0)
            return true;
    }
    return false;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *calls, VkDevice *out)
{
    VkLayerDeviceCreateInfo *link = link_of(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    PFN_vkGetInstanceProcAddr next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    const layer_instance *owner = find_instance(key_of(physical));
    layer_device *mine = find_device(NULL);
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = (void *)(uintptr_t)info->pNext,
        .pipelineExecutableInfo = VK_TRUE};
    VkDeviceCreateInfo more = *info;
    const char *names[MOST];
    bool statistics =
        info->enabledExtensionCount < MOST && getenv("IDLE_STATISTICS") != NULL && tells_statistics(owner, physical);
    VkResult r;

    for (uint32_t i = 0; statistics && i < info->enabledExtensionCount; i++)
        names[i] = info->ppEnabledExtensionNames[i];
    if (statistics) {
        names[more.enabledExtensionCount++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
        more.ppEnabledExtensionNames = names;
        more.pNext = &feature;
    }
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    r = ((PFN_vkCreateDevice)next_instance(owner->handle, "vkCreateDevice"))(physical, &more, calls, out);
    if (r == VK_SUCCESS && mine != NULL)
        *mine = (layer_device){key_of(*out), *out, next, statistics};
    return mine == NULL ? VK_ERROR_OUT_OF_HOST_MEMORY : r;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks *calls)
{
    layer_device *mine;
    PFN_vkDestroyDevice next;

    if (device == VK_NULL_HANDLE)
        return;
    mine = find_device(key_of(device));
    next = (PFN_vkDestroyDevice)mine->next(device, "vkDestroyDevice");
    mine->key = NULL;
    next(device, calls);
}

/* ---- memory and other objects of the layer: an object is its backing memory, or nothing */

static VkResult create_object(void **out, size_t bytes)
{
    *out = calloc(1, bytes > 0 ? bytes : 1);
    return *out != NULL ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* Creates an object of any kind from its create info. */
static VKAPI_ATTR VkResult VKAPI_CALL create_any(VkDevice device, const void *info, const VkAllocationCallbacks *calls,
                                                 void **out)
{
    (void)device, (void)info, (void)calls;
    return create_object(out, 0);
}

static VKAPI_ATTR void VKAPI_CALL destroy_any(VkDevice device, void *object, const VkAllocationCallbacks *calls)
{
    (void)device, (void)calls;
    free(object);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                                    const VkAllocationCallbacks *calls, VkDeviceSize **out)
{
    void *object = NULL;
    VkResult r = create_object(&object, sizeof **out);

    (void)device, (void)calls;
    *out = object;
    if (r == VK_SUCCESS)
        **out = info->size;
    return r;
}

static VKAPI_ATTR void VKAPI_CALL get_requirements(VkDevice device, const VkDeviceSize *buffer, VkMemoryRequirements *out)
{
    (void)device;
    *out = (VkMemoryRequirements){.size = *buffer, .alignment = 256, .memoryTypeBits = UINT32_MAX};
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo *info,
                                                      const VkAllocationCallbacks *calls, void **out)
{
    (void)device, (void)calls;
    return create_object(out, info->allocationSize);
}

static VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice device, void *memory, VkDeviceSize offset, VkDeviceSize bytes,
                                                 VkMemoryMapFlags flags, void **out)
{
    (void)device, (void)bytes, (void)flags;
    *out = (char *)memory + offset;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL bind_memory(VkDevice device, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset)
{
    (void)device, (void)buffer, (void)memory, (void)offset;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_commands(VkDevice device, const VkCommandBufferAllocateInfo *info, void **out)
{
    (void)device;
    for (uint32_t i = 0; i < info->commandBufferCount; i++)
        out[i] = &lock; /* the pool owns the descriptor set, so there is nothing to free */
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_sets(VkDevice device, const VkDescriptorSetAllocateInfo *info, void **out)
{
    (void)device;
    for (uint32_t i = 0; i < info->descriptorSetCount; i++)
        out[i] = &lock;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL get_query_results(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count,
                                                        size_t bytes, void *data, VkDeviceSize stride, VkQueryResultFlags flags)
{
    (void)device, (void)pool, (void)first, (void)count, (void)stride, (void)flags;
    memset(data, 0, bytes);
    return VK_SUCCESS;
}

/* Accepts any arguments. */
static VKAPI_ATTR VkResult VKAPI_CALL do_nothing(void)
{
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *out)
{
    enum {
        LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
        COHERENT = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
    };
    const layer_instance *mine = find_instance(key_of(physical));

    mine->memory(physical, out);
    if (out->memoryTypeCount == 0)
        *out = (VkPhysicalDeviceMemoryProperties){
            .memoryTypeCount = 4,
            .memoryTypes = {{LOCAL, 0}, {COHERENT, 1}, {LOCAL | COHERENT, 2}, {COHERENT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1}},
            .memoryHeapCount = 3,
            .memoryHeaps = {{(VkDeviceSize)16 << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT},
                            {(VkDeviceSize)16 << 30, 0},
                            {256 << 20, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}}};
}

/* ---- pipelines */

static double number_of(const VkPipelineExecutableStatisticKHR *s)
{
    if (s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR)
        return s->value.b32;
    if (s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR)
        return s->value.f64;
    return s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR ? (double)s->value.i64 : (double)s->value.u64;
}

static void tell_statistics(const layer_device *mine, VkPipeline pipeline, FILE *out)
{
    PFN_vkGetPipelineExecutablePropertiesKHR executables =
        (PFN_vkGetPipelineExecutablePropertiesKHR)mine->next(mine->handle, "vkGetPipelineExecutablePropertiesKHR");
    PFN_vkGetPipelineExecutableStatisticsKHR statistics =
        (PFN_vkGetPipelineExecutableStatisticsKHR)mine->next(mine->handle, "vkGetPipelineExecutableStatisticsKHR");
    VkPipelineInfoKHR which = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    VkPipelineExecutablePropertiesKHR properties[MOST] = {{0}};
    VkPipelineExecutableStatisticKHR list[MOST] = {{0}};
    uint32_t nproperties = MOST;

    for (int i = 0; i < MOST; i++) {
        properties[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
        list[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    }
    executables(mine->handle, &which, &nproperties, properties);
    for (uint32_t i = 0; i < nproperties; i++) {
        VkPipelineExecutableInfoKHR executable = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = i};
        uint32_t n = MOST;
        statistics(mine->handle, &executable, &n, list);
        fprintf(out, "{\"subgroup\": %u", properties[i].subgroupSize);
        for (uint32_t k = 0; k < n; k++)
            fprintf(out, ", \"%s\": %.17g", list[k].name, number_of(&list[k]));
        fprintf(out, "}\n");
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *calls, VkPipeline *out)
{
    const layer_device *mine = find_device(key_of(device));
    PFN_vkCreateComputePipelines next = (PFN_vkCreateComputePipelines)mine->next(device, "vkCreateComputePipelines");
    VkComputePipelineCreateInfo asked = infos[0];
    VkResult r;
    FILE *file;

    if (!mine->statistics || n != 1)
        return next(device, cache, n, infos, calls, out);
    asked.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    r = next(device, VK_NULL_HANDLE, 1, &asked, calls, out); /* compiled without the pipeline cache, since a cached pipeline may
                                                              * have no statistics */
    if (r != VK_SUCCESS)
        return r;
    pthread_mutex_lock(&lock);
    file = fopen(getenv("IDLE_STATISTICS"), "a");
    if (file != NULL) {
        tell_statistics(mine, *out, file);
        fclose(file);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- functions that the loader looks up */

static PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char *name);
static PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char *name);

static const struct {
    const char *name;
    PFN_vkVoidFunction function;
    bool of_device;
} functions[] = {
    {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)get_instance_proc, false},
    {"vkCreateInstance", (PFN_vkVoidFunction)create_instance, false},
    {"vkDestroyInstance", (PFN_vkVoidFunction)destroy_instance, false},
    {"vkCreateDevice", (PFN_vkVoidFunction)create_device, false},
    {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)get_memory, false},
    {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)get_device_proc, true},
    {"vkDestroyDevice", (PFN_vkVoidFunction)destroy_device, true},
    {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines, true},
    {"vkQueueSubmit", (PFN_vkVoidFunction)do_nothing, true},
    {"vkDeviceWaitIdle", (PFN_vkVoidFunction)do_nothing, true},
    {"vkWaitSemaphores", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCreateSemaphore", (PFN_vkVoidFunction)create_any, true},
    {"vkDestroySemaphore", (PFN_vkVoidFunction)destroy_any, true},
    {"vkCreateQueryPool", (PFN_vkVoidFunction)create_any, true},
    {"vkDestroyQueryPool", (PFN_vkVoidFunction)destroy_any, true},
    {"vkGetQueryPoolResults", (PFN_vkVoidFunction)get_query_results, true},
    {"vkCreateBuffer", (PFN_vkVoidFunction)create_buffer, true},
    {"vkDestroyBuffer", (PFN_vkVoidFunction)destroy_any, true},
    {"vkGetBufferMemoryRequirements", (PFN_vkVoidFunction)get_requirements, true},
    {"vkAllocateMemory", (PFN_vkVoidFunction)allocate_memory, true},
    {"vkFreeMemory", (PFN_vkVoidFunction)destroy_any, true},
    {"vkMapMemory", (PFN_vkVoidFunction)map_memory, true},
    {"vkBindBufferMemory", (PFN_vkVoidFunction)bind_memory, true},
    {"vkCreateDescriptorPool", (PFN_vkVoidFunction)create_any, true},
    {"vkDestroyDescriptorPool", (PFN_vkVoidFunction)destroy_any, true},
    {"vkAllocateDescriptorSets", (PFN_vkVoidFunction)allocate_sets, true},
    {"vkUpdateDescriptorSets", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCreateCommandPool", (PFN_vkVoidFunction)create_any, true},
    {"vkDestroyCommandPool", (PFN_vkVoidFunction)destroy_any, true},
    {"vkAllocateCommandBuffers", (PFN_vkVoidFunction)allocate_commands, true},
    {"vkBeginCommandBuffer", (PFN_vkVoidFunction)do_nothing, true},
    {"vkEndCommandBuffer", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCmdBindPipeline", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCmdBindDescriptorSets", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCmdPushConstants", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCmdDispatch", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCmdPipelineBarrier", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCmdCopyBuffer", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCmdResetQueryPool", (PFN_vkVoidFunction)do_nothing, true},
    {"vkCmdWriteTimestamp", (PFN_vkVoidFunction)do_nothing, true},
};

static PFN_vkVoidFunction find_function(const char *name, bool of_device)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if ((functions[i].of_device || !of_device) && strcmp(functions[i].name, name) == 0)
            return functions[i].function;
    }
    return NULL;
}

static PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char *name)
{
    PFN_vkVoidFunction mine = find_function(name, false);

    if (mine != NULL || instance == VK_NULL_HANDLE)
        return mine;
    return find_instance(key_of(instance))->next(instance, name);
}

static PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char *name)
{
    PFN_vkVoidFunction mine = find_function(name, true);

    return mine != NULL ? mine : find_device(key_of(device))->next(device, name);
}

VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *offer);
VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *offer)
{
    offer->loaderLayerInterfaceVersion = 2;
    offer->pfnGetInstanceProcAddr = get_instance_proc;
    offer->pfnGetDeviceProcAddr = get_device_proc;
    offer->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
