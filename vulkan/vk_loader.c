/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_loader.h"

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "vulkan/vk_shader.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Vulkan results, classified by the possible reaction of the caller: a caller can remedy only lack of memory. All other
 * results are a failure of the device. */
static const struct result_row {
    VkResult result;
    bl_status status;
    const char *text;
} result_rows[] = {
    {VK_SUCCESS, BL_OK, "success"},
    {VK_NOT_READY, BL_OK, "not ready"},
    {VK_TIMEOUT, BL_OK, "timeout"},
    {VK_INCOMPLETE, BL_OK, "incomplete"},
    {VK_ERROR_OUT_OF_HOST_MEMORY, BL_ENODEVMEM, "the driver is out of host memory"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, BL_ENODEVMEM, "out of device memory"},
    {VK_ERROR_TOO_MANY_OBJECTS, BL_ENODEVMEM, "too many allocations"},
    {VK_ERROR_MEMORY_MAP_FAILED, BL_ENODEVMEM, "memory map failed"},
    {VK_ERROR_OUT_OF_POOL_MEMORY, BL_ENODEVMEM, "out of pool memory"},
    {VK_ERROR_FRAGMENTED_POOL, BL_ENODEVMEM, "fragmented pool"},
    {VK_ERROR_DEVICE_LOST, BL_EDEVICE, "the device is lost"},
    {VK_ERROR_INITIALIZATION_FAILED, BL_EDEVICE, "initialization failed"},
    {VK_ERROR_LAYER_NOT_PRESENT, BL_EDEVICE, "layer not present"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, BL_EDEVICE, "extension not present"},
    {VK_ERROR_FEATURE_NOT_PRESENT, BL_EDEVICE, "feature not present"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, BL_EDEVICE, "no compatible driver"},
    {VK_ERROR_INVALID_SHADER_NV, BL_EDEVICE, "invalid shader"},
    {VK_ERROR_UNKNOWN, BL_EDEVICE, "unknown error"},
};

static const struct result_row *find_result(VkResult result)
{
    static const struct result_row nameless = {VK_ERROR_UNKNOWN, BL_EDEVICE, "an error without a name"};
    for (size_t i = 0; i < sizeof result_rows / sizeof *result_rows; i++)
        if (result_rows[i].result == result)
            return &result_rows[i];
    return &nameless;
}

const char *bl_vk_result_text(VkResult result)
{
    return find_result(result)->text;
}

bl_status bl_vk_result_status(VkResult result)
{
    return result > 0 ? BL_OK : find_result(result)->status;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    bl_vk_instance *instance = user;
    (void)types;
    atomic_fetch_add(&instance->messages, 1);
    bl_log(severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT ? BL_LOG_ERROR : BL_LOG_WARN, "vulkan validation: %s",
           data->pMessage);
    return VK_FALSE;
}

static const char *load_globals(bl_vk_instance *in)
{
#define BL_VK_GLOBAL(name)                                                                                                       \
    in->global.name = (PFN_vk##name)in->get_proc(NULL, "vk" #name);                                                              \
    if (in->global.name == NULL)                                                                                                 \
        return #name;
#include "vulkan/entry.def"
#undef BL_VK_GLOBAL
    return NULL;
}

static const char *load_instance_calls(bl_vk_instance *in)
{
#define BL_VK_INSTANCE(name)                                                                                                     \
    in->vk.name = (PFN_vk##name)in->get_proc(in->handle, "vk" #name);                                                            \
    if (in->vk.name == NULL)                                                                                                     \
        return #name;
#include "vulkan/entry.def"
#undef BL_VK_INSTANCE
    return NULL;
}

const char *bl_vk_load_device_calls(bl_vk_instance *in, VkDevice device, bl_vk_device_calls *out)
{
#define BL_VK_DEVICE(name)                                                                                                       \
    out->name = (PFN_vk##name)in->vk.GetDeviceProcAddr(device, "vk" #name);                                                      \
    if (out->name == NULL)                                                                                                       \
        return #name;
#include "vulkan/entry.def"
#undef BL_VK_DEVICE
    return NULL;
}

static void create_messenger(bl_vk_instance *in, const VkDebugUtilsMessengerCreateInfoEXT *info)
{
    PFN_vkCreateDebugUtilsMessengerEXT create =
        (PFN_vkCreateDebugUtilsMessengerEXT)in->get_proc(in->handle, "vkCreateDebugUtilsMessengerEXT");
    if (create == NULL || create(in->handle, info, NULL, &in->messenger) != VK_SUCCESS)
        bl_log(BL_LOG_WARN, "vulkan: the messages of the validation layer cannot be received");
}

/* BEAMLINE_VULKAN_VALIDATION=1 enables the validation layer; BEAMLINE_VULKAN_VALIDATION=sync adds the layer's
 * synchronisation checks. */
static VkResult vk_loader_create_handle(bl_vk_instance *in)
{
    const char *wish = getenv("BEAMLINE_VULKAN_VALIDATION");
    bool validate = wish != NULL && *wish != '\0' && strcmp(wish, "0") != 0;
    const char *layer = "VK_LAYER_KHRONOS_validation", *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    VkValidationFeatureEnableEXT sync = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pApplicationName = "beamline",
                             .pEngineName = "beamline",
                             .apiVersion = in->version};
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = in};
    VkValidationFeaturesEXT features = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                        .pNext = &messenger,
                                        .enabledValidationFeatureCount = 1,
                                        .pEnabledValidationFeatures = &sync};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    if (validate) {
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = &extension;
        info.pNext = strcmp(wish, "sync") == 0 ? (const void *)&features : &messenger;
    }
    VkResult r = in->global.CreateInstance(&info, NULL, &in->handle);
    if (r == VK_ERROR_LAYER_NOT_PRESENT && validate) {
        bl_log(BL_LOG_WARN, "vulkan: BEAMLINE_VULKAN_VALIDATION is set but %s is not installed", layer);
        validate = false;
        info = (VkInstanceCreateInfo){.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
        r = in->global.CreateInstance(&info, NULL, &in->handle);
    }
    if (r == VK_SUCCESS && validate)
        create_messenger(in, &messenger);
    return r;
}

/* Returns NULL if the machine supports Vulkan 1.2, else the reason why it does not. */
static const char *vk_loader_start(bl_vk_instance *in, void *library)
{
    void *symbol = dlsym(library, "vkGetInstanceProcAddr");
    if (symbol == NULL)
        return "vkGetInstanceProcAddr is missing";
    memcpy(&in->get_proc, &symbol, sizeof symbol); /* ISO C has no cast from object to function pointers */
    uint32_t version = 0;
    if (load_globals(in) != NULL || in->global.EnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2)
        return "the loader is older than Vulkan 1.2";
    in->version = version >= VK_API_VERSION_1_3 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_2;
    VkResult r = vk_loader_create_handle(in);
    if (r != VK_SUCCESS) {
        in->handle = NULL;
        return bl_vk_result_text(r);
    }
    return load_instance_calls(in) != NULL ? "the loader lacks an entry point of Vulkan 1.2" : NULL;
}

bl_status bl_vk_instance_create(const char *library, bl_vk_instance **out, bl_text *why, bl_err *err)
{
    *out = NULL;
    /* The library is never closed: drivers leave threads and exit handlers, which would run unmapped code. */
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        bl_text_printf(why, "vulkan: %s is not installed\n", library);
        return BL_OK;
    }
    bl_vk_instance *in = bl_calloc(1, sizeof *in);
    if (in == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a Vulkan instance");
    atomic_init(&in->refs, 1);
    pthread_mutex_init(&in->compiler_lock, NULL);
    const char *reason = vk_loader_start(in, handle);
    if (reason != NULL) {
        bl_text_printf(why, "vulkan: %s\n", reason);
        bl_vk_instance_release(in);
        return BL_OK;
    }
    *out = in;
    return BL_OK;
}

bl_vk_instance *bl_vk_instance_retain(bl_vk_instance *in)
{
    atomic_fetch_add(&in->refs, 1);
    return in;
}

void bl_vk_instance_release(bl_vk_instance *in)
{
    if (in == NULL || atomic_fetch_sub(&in->refs, 1) != 1)
        return;
    if (in->messenger != VK_NULL_HANDLE) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy =
            (PFN_vkDestroyDebugUtilsMessengerEXT)in->get_proc(in->handle, "vkDestroyDebugUtilsMessengerEXT");
        if (destroy != NULL)
            destroy(in->handle, in->messenger, NULL);
    }
    if (in->handle != NULL && in->vk.DestroyInstance != NULL)
        in->vk.DestroyInstance(in->handle, NULL);
    bl_vk_shader_fini(in);
    pthread_mutex_destroy(&in->compiler_lock);
    free(in);
}
