/* SPDX-License-Identifier: MIT */
/* Direct calls: the addresses of a program's functions, so that a team of threads calls them without the driver's queue.
 *
 * A CPU driver (PoCL) compiles a program to machine code that it loads into this process. OpenCL C has no pointers to functions,
 * but an instruction can compute the address of one. The calling kernel of a program stores the addresses of its functions if
 * its number is negative. A probe calls a function at the start, and every driver for which this does not work keeps its queue.
 */
#include "opencl/opencl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { PROBE_GROUPS = 3 };

/* A function with the parameters of bl_cl_function for source |number|. "used" keeps its name and its parameters. */
static void add_wrapper(uint32_t number, const bl_kernel_source *source, bl_text *text)
{
    bl_text_printf(
        text,
        "__attribute__((noinline, used))\nvoid d%u(const __global ulong *b, const __global int *n, __local uchar *memory, "
        "int g0, int g1, int g2) {\n  k%u_%s(",
        (unsigned)number, (unsigned)number, source->entry);
    for (uint32_t i = 0; i < source->nbuffers; i++)
        bl_text_printf(text, "(__global void *)b[%u], ", (unsigned)i);
    for (uint32_t i = 0; i < source->nscalars; i++)
        bl_text_printf(text, "n[%u], ", (unsigned)i);
    bl_text_printf(text, "%sg0, g1, g2);\n}\n", source->local_bytes > 0 ? "memory, " : "");
}

void bl_cl_direct_wrap(uint32_t n, const bl_kernel_source *sources, bl_text *text)
{
    for (uint32_t i = 0; i < n; i++) {
        if (sources[i].function)
            add_wrapper(i, &sources[i], text);
    }
}

void bl_cl_direct_tell(uint32_t n, const bl_kernel_source *sources, bl_text *text)
{
    bl_text_puts(text, "  if (number < 0) {\n    __global ulong *out = (__global ulong *)b0;\n    ulong at;\n");
    for (uint32_t i = 0; i < n; i++) {
        if (sources[i].function)
            bl_text_printf(
                text,
                "#if defined(__x86_64__)\n    __asm__ volatile(\"leaq d%u(%%%%rip), %%0\" : \"=r\"(at));\n    out[%u] = at;\n"
                "#elif defined(__aarch64__)\n    __asm__ volatile(\"adrp %%0, d%u\\n add %%0, %%0, :lo12:d%u\" : \"=r\"(at));\n"
                "    out[%u] = at;\n#endif\n",
                (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i);
    }
    bl_text_puts(text, "    if (number < -1) { /* never: PoCL drops functions without a call */\n");
    for (uint32_t i = 0; i < n; i++) {
        if (sources[i].function)
            bl_text_printf(text, "      d%u(out, (const __global int *)out, (__local uchar *)0, 0, 0, 0);\n", (unsigned)i);
    }
    bl_text_puts(text, "    }\n");
    bl_text_puts(text, "    return;\n  }\n");
}

/* Run the calling kernel with a negative number: it writes BL_CL_BATCH addresses, 0 for a source that is no function. */
static bool ask(bl_cl_device *dev, const bl_cl_session *session, cl_kernel kernel, bl_cl_buffer *out)
{
    const size_t one[3] = {1, 1, 1};
    cl_command_queue queue = session->queues[BL_CL_PLAIN];

    return bl_cl_set_call(dev, kernel, -1) == CL_SUCCESS &&
           dev->cl.SetKernelArg(kernel, BL_CL_CALL_BUFFERS, sizeof out->mem, &out->mem) == CL_SUCCESS &&
           dev->cl.EnqueueNDRangeKernel(queue, kernel, 3, NULL, one, one, 0, NULL, NULL) == CL_SUCCESS &&
           dev->cl.Finish(queue) == CL_SUCCESS;
}

/* Keep the machine code loaded while the program exists: the driver may drop code that it has not run for long. */
static void *pin(const void *code)
{
    Dl_info info;
    return dladdr(code, &info) != 0 && info.dli_fname != NULL ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
}

void bl_cl_direct_find(bl_cl_device *dev, const bl_cl_session *session, const char *caller, bl_cl_program *program)
{
    const size_t bytes = BL_CL_BATCH * sizeof(uint64_t);
    bl_buffer *out = NULL;
    bl_err ignored = {0}; /* without addresses, launches go through the queue */
    cl_int rc = CL_SUCCESS;
    cl_kernel kernel;

    if (!bl_cl_is_direct(dev) || session->queues[BL_CL_PLAIN] == NULL)
        return;
    kernel = dev->cl.CreateKernel(program->handle, caller, &rc);
    if (rc != CL_SUCCESS)
        return;
    if (bl_cl_alloc(&dev->base, bytes, &out, &ignored) == BL_OK) {
        const uint64_t *at = memset(out->host, 0, bytes);
        const void *first = NULL;
        bool found = ask(dev, session, kernel, (bl_cl_buffer *)out);
        for (int i = 0; found && i < BL_CL_BATCH && first == NULL; i++)
            first = (const void *)(uintptr_t)at[i];
        program->pin = first != NULL ? pin(first) : NULL;
        program->functions = program->pin != NULL ? malloc(bytes) : NULL;
        if (program->functions != NULL)
            memcpy(program->functions, at, bytes);
        bl_cl_dealloc(out);
    }
    (void)dev->cl.ReleaseKernel(kernel);
}

void bl_cl_direct_drop(bl_cl_program *program)
{
    free(program->functions);
    if (program->pin != NULL)
        (void)dlclose(program->pin);
}

/* Does a function that is called directly compute what it should? */
static bool direct_works(bl_cl_device *dev)
{
    static const char text[] =
        "__attribute__((noinline))\nvoid probe(__global int *restrict b0, const int n0, const int g0, const "
        "int g1, const int g2) {\n  b0[g0] = n0 * (g0 + 1) + g1 + g2;\n}\n";
    const bl_kernel_source source = {.entry = "probe",
                                     .text = text,
                                     .len = sizeof text - 1,
                                     .nbuffers = 1,
                                     .nscalars = 1,
                                     .writes = 1,
                                     .local = {1, 1, 1},
                                     .function = true};
    bl_kernel *kernel = NULL;
    bl_err ignored = {0};
    int32_t out[PROBE_GROUPS] = {0}, scalar = 7;
    const uint64_t buffer = (uint64_t)(uintptr_t)out;
    bool works = bl_kernel_create(&dev->base, &source, &kernel, &ignored) == BL_OK && ((bl_cl_kernel *)kernel)->function != NULL;

    if (works) {
        bl_cl_call call = {((bl_cl_kernel *)kernel)->function, &buffer, &scalar, 0, {PROBE_GROUPS, 1, 1}};
        works = bl_cl_team_run(dev->team, false, 1, &call, NULL, &ignored) == BL_OK;
        for (int i = 0; i < PROBE_GROUPS; i++)
            works = works && out[i] == scalar * (i + 1);
    }
    bl_kernel_destroy(kernel);
    return works;
}

void bl_cl_direct_begin(bl_cl_device *dev)
{
    bl_err ignored = {0}; /* the queue serves as well */

    if (dev->base.info.type != BL_DEVICE_CPU || !dev->coherent || !dev->base.info.calls_kernels ||
        bl_cl_team_create(dev->base.info.units, &dev->team, &ignored) != BL_OK)
        return;
    if (direct_works(dev))
        return;
    bl_cl_team_destroy(dev->team);
    dev->team = NULL;
}
