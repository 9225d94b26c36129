/* Keeps drivers and layers mapped after their instance is destroyed, so that leak reports distinguish their leaks from ours. */
#ifndef BL_TESTS_DEVICE_KEEP_MAPPED_H
#define BL_TESTS_DEVICE_KEEP_MAPPED_H

#include <dlfcn.h>
#include <link.h>

static inline int keep_one_mapped(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (info->dlpi_name[0] == '/')
        dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    return 0;
}

/* Keeps all libraries that are mapped now. */
static inline void keep_mapped(void)
{
    dl_iterate_phdr(keep_one_mapped, NULL);
}

#endif
