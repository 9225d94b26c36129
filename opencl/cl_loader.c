/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include <dlfcn.h>
#include <string.h>

/* RTLD_NODELETE keeps the library loaded, since drivers start threads and register exit handlers. */
static void *open_library(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    return library != NULL ? library : dlopen("libOpenCL.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

bool bl_cl_load(bl_cl_api *api, bl_text *why)
{
    static const char *const names[] = {
#define BL_CL_ENTRY(name) "cl" #name,
#include "opencl/entries.def"
#undef BL_CL_ENTRY
    };
    enum { N = sizeof names / sizeof names[0] };
    void *entries[N];
    void *library = open_library();
    bool whole = true;

    _Static_assert(sizeof entries == sizeof *api, "an entry point is one pointer");
    if (library == NULL) {
        bl_text_puts(why, "opencl: libOpenCL.so.1 is not installed\n");
        return false;
    }
    for (size_t i = 0; i < N && whole; i++) {
        entries[i] = dlsym(library, names[i]);
        if (entries[i] == NULL) {
            bl_text_printf(why, "opencl: libOpenCL.so.1 has no %s\n", names[i]);
            whole = false;
        }
    }
    if (whole)
        memcpy(api, entries, sizeof *api); /* C has no cast from an object pointer to a function pointer */
    dlclose(library);
    return whole;
}
