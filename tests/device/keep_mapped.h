/* Drivers and layers stay mapped when their instance goes, so that what they leak can be told from what we leak. */
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

/* Whatever is mapped now. */
static inline void keep_mapped(void)
{
    dl_iterate_phdr(keep_one_mapped, NULL);
}

#endif
