/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include "engine/base/fault.h"
#include "engine/base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -w suppresses warnings: the compiler must not write to the server's stderr, where clang reports the number of warnings
 * about wide vectors.  The compiler may contract a*b+c by default. */
static const char options[] = "-cl-std=CL1.2 -w";
/* Options for BL_FEATURE_EXACT.  The kernel compiler writes most fma() itself. */
static const char options_exact[] = "-cl-std=CL1.2 -w -cl-fp32-correctly-rounded-divide-sqrt";
static const char contract_nothing[] = "#pragma OPENCL FP_CONTRACT OFF\n";
/* Options for devices without an fma instruction: a software fma() takes 70 times as long (llvmpipe), and sums are as
 * accurate with two roundings. */
static const char options_without_fma[] = "-cl-std=CL1.2 -w -Dfma=mad";
static const char caller[] = "run"; /* name of the kernel that calls functions; all other kernels have longer names */

unsigned char *bl_cl_program_binary(const bl_cl_device *dev, cl_program program, size_t *len)
{
    unsigned char *binary;

    *len = 0;
    if (dev->cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *len, len, NULL) != CL_SUCCESS || *len == 0)
        return NULL;
    binary = malloc(*len);
    if (binary != NULL && dev->cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) != CL_SUCCESS) {
        free(binary);
        return NULL;
    }
    return binary;
}

/* ---- building */

static bool cl_program_is_exact(const bl_cl_device *dev)
{
    return (dev->base.info.features & BL_FEATURE_EXACT) != 0;
}

static const char *cl_program_options_for(const bl_cl_device *dev)
{
    if (cl_program_is_exact(dev))
        return options_exact;
    return dev->fuses ? options : options_without_fma;
}

static bl_status build_failed(const bl_cl_device *dev, cl_program program, cl_int rc, const char *entry, bl_err *err)
{
    bl_text summary = {0};
    size_t len = 0;
    char *log = NULL;
    bl_status st;

    if (rc != CL_BUILD_PROGRAM_FAILURE)
        return bl_cl_fail(rc, "clBuildProgram", err);
    if (dev->cl.GetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &len) == CL_SUCCESS && len > 0)
        log = calloc(1, len + 1);
    if (log != NULL && dev->cl.GetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, len, log, NULL) != CL_SUCCESS)
        len = 0;
    bl_cl_log_summary(log != NULL ? log : "", log != NULL ? len : 0, &summary);
    st = bl_fail(err, BL_EBUG, "kernel %s does not compile: %s", entry, summary.data != NULL ? summary.data : "");
    bl_text_fini(&summary);
    free(log);
    return st;
}

static bl_status cl_program_build(const bl_cl_device *dev, cl_context context, const char *text, size_t len, const char *entry,
                                  cl_program *out, bl_err *err)
{
    cl_int rc = CL_SUCCESS;
    cl_program program = dev->cl.CreateProgramWithSource(context, 1, &text, &len, &rc);
    bl_status st;

    if (rc != CL_SUCCESS)
        return bl_cl_fail(rc, "clCreateProgramWithSource", err);
    rc = dev->cl.BuildProgram(program, 1, &dev->id, cl_program_options_for(dev), NULL, NULL);
    if (rc != CL_SUCCESS) {
        st = build_failed(dev, program, rc, entry, err);
        (void)dev->cl.ReleaseProgram(program);
        return st;
    }
    *out = program;
    return BL_OK;
}

/* Whether the program has a kernel with the name |entry|.  PoCL aborts when a missing kernel of a binary is created. */
static bool has_kernel(const bl_cl_device *dev, cl_program program, const char *entry)
{
    size_t len = 0, wanted = strlen(entry);
    char *names = NULL;
    bool found = false;

    if (dev->cl.GetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &len) == CL_SUCCESS && len > 0)
        names = calloc(1, len + 1);
    if (names != NULL && dev->cl.GetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, len, names, NULL) == CL_SUCCESS) {
        for (const char *at = names; *at != '\0' && !found; at += strcspn(at, ";"), at += *at == ';')
            found = strcspn(at, ";") == wanted && strncmp(at, entry, wanted) == 0;
    }
    free(names);
    return found;
}

/* Creates a program with kernel |entry| from the cached |binary|, which it frees.  NULL if that fails: a driver may reject
 * its own binary, for example after an update. */
static cl_program cl_program_load(const bl_cl_device *dev, cl_context context, unsigned char *binary, size_t len,
                                  const char *entry)
{
    const unsigned char *const_binary = binary;
    cl_int rc = CL_SUCCESS, loaded = CL_SUCCESS;
    cl_program program;

    if (binary == NULL)
        return NULL;
    program = dev->cl.CreateProgramWithBinary(context, 1, &dev->id, &len, &const_binary, &loaded, &rc);
    free(binary);
    if (program == NULL || rc != CL_SUCCESS)
        return NULL;
    if (loaded == CL_SUCCESS &&
        dev->cl.BuildProgram(program, 1, &dev->id, cl_program_options_for(dev), NULL, NULL) == CL_SUCCESS &&
        has_kernel(dev, program, entry))
        return program;
    (void)dev->cl.ReleaseProgram(program);
    return NULL;
}

/* Makes the cache key of |text|. The key names the device, since a driver rejects binaries of other devices. */
static bl_status cl_program_make_key(const bl_cl_device *dev, const char *text, size_t len, bl_text *key, bl_err *err)
{
    bl_text_printf(key, "%s%s%s %s\n", dev->identity, dev->team != NULL ? "direct " : "", cl_program_options_for(dev), caller);
    bl_text_append(key, text, len);
    return bl_text_status(key, err);
}

/* ---- programs that several kernels share */

/* Makes a bl_cl_program that owns |handle|. */
static bl_status cl_program_make_program(bl_cl_device *dev, const bl_cl_session *session, cl_program handle, bl_cl_program **out,
                                         bl_err *err)
{
    bl_cl_program *program = bl_calloc(1, sizeof *program);

    if (program == NULL) {
        (void)dev->cl.ReleaseProgram(handle);
        return bl_fail(err, BL_ENOMEM, "out of host memory for a program");
    }
    program->handle = handle;
    program->refs = 1;
    if (has_kernel(dev, handle, caller))
        bl_cl_direct_find(dev, session, caller, program);
    *out = program;
    return BL_OK;
}

/* The program of the batch with a new reference, or NULL. The caller holds the lock. */
static bl_cl_program *find_shared(bl_cl_device *dev, cl_context context, const bl_cl_batch *batch)
{
    bl_cl_program *program = dev->shared;

    while (program != NULL && (program->context != context || memcmp(&program->batch, batch, sizeof *batch) != 0))
        program = program->next;
    if (program != NULL)
        program->refs++;
    return program;
}

static bl_cl_program *cl_program_get_shared(bl_cl_device *dev, cl_context context, const bl_cl_batch *batch)
{
    bl_cl_program *program;

    pthread_mutex_lock(&dev->lock);
    program = find_shared(dev, context, batch);
    pthread_mutex_unlock(&dev->lock);
    return program;
}

/* Adds |fresh| to the list; if another thread has added the same batch, returns that program instead. */
static bl_cl_program *cl_program_share(bl_cl_device *dev, cl_context context, const bl_cl_batch *batch, bl_cl_program *fresh)
{
    bl_cl_program *found;

    pthread_mutex_lock(&dev->lock);
    found = find_shared(dev, context, batch);
    if (found == NULL) {
        fresh->batch = *batch;
        fresh->context = context;
        fresh->next = dev->shared;
        dev->shared = fresh;
    }
    pthread_mutex_unlock(&dev->lock);
    if (found == NULL)
        return fresh;
    bl_cl_program_release(dev, fresh);
    return found;
}

bl_cl_program *bl_cl_program_retain(bl_cl_device *dev, bl_cl_program *program)
{
    pthread_mutex_lock(&dev->lock);
    program->refs++;
    pthread_mutex_unlock(&dev->lock);
    return program;
}

void bl_cl_program_release(bl_cl_device *dev, bl_cl_program *program)
{
    bool last;

    if (program == NULL)
        return;
    pthread_mutex_lock(&dev->lock);
    last = --program->refs == 0;
    for (bl_cl_program **at = &dev->shared; last && *at != NULL; at = &(*at)->next) {
        if (*at == program) {
            *at = program->next;
            break;
        }
    }
    pthread_mutex_unlock(&dev->lock);
    if (!last)
        return;
    bl_cl_direct_drop(program);
    (void)dev->cl.ReleaseProgram(program->handle);
    free(program);
}

/* ---- joining several sources into one text */

/* Finds how the program contains source |number| of a joined text. */
static bl_status cl_program_find_entry(const bl_kernel_source *source, uint64_t number, bl_cl_entry *entry, bl_err *err)
{
    bl_text name = {0};

    if (source->function)
        bl_text_puts(&name, caller);
    else
        bl_text_printf(&name, "k%u_%s", (unsigned)number, source->entry);
    *entry = (bl_cl_entry){.name = bl_text_take(&name), .number = source->function ? (int)number : -1};
    return entry->name != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a kernel");
}

void bl_cl_entry_fini(bl_cl_entry *entry)
{
    free(entry->name);
    *entry = (bl_cl_entry){0};
}

static void cl_program_call(uint32_t number, const bl_kernel_source *source, bl_text *text)
{
    bl_text_printf(text, "  case %u: k%u_%s(", (unsigned)number, (unsigned)number, source->entry);
    for (uint32_t i = 0; i < source->nbuffers; i++)
        bl_text_printf(text, "b%u, ", (unsigned)i);
    for (uint32_t i = 0; i < source->nscalars; i++)
        bl_text_printf(text, "n%u, ", (unsigned)i);
    bl_text_printf(text, "%sg0, g1, g2); break;\n", source->local_bytes > 0 ? "(__local uchar *)memory, " : "");
}

/* Adds a kernel that calls the functions among |sources|, if there are any.  A driver has a fixed cost per kernel: PoCL
 * compiles each kernel in two forms with loops around it, and links it. One kernel for all functions pays the cost once: 42
 * kernels of a training step take 6 s of a core instead of 17 s. */
static void add_caller(const bl_cl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_text *text)
{
    uint32_t functions = 0, buffers = 0, local_bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        const bl_kernel_source *source = &sources[i];

        if (!source->function)
            continue;
        functions++;
        buffers = source->nbuffers > buffers ? source->nbuffers : buffers;
        local_bytes = source->local_bytes > local_bytes ? source->local_bytes : local_bytes;
    }
    if (functions == 0)
        return;
    if (dev->team != NULL)
        bl_cl_direct_wrap(n, sources, text);
    bl_text_printf(text, "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\nvoid %s(const int number", caller);
    for (uint32_t i = 0; i < BL_CALL_SCALARS; i++)
        bl_text_printf(text, ", const int n%u", (unsigned)i);
    for (uint32_t i = 0; i < buffers; i++)
        bl_text_printf(text, ", __global void *b%u", (unsigned)i);
    bl_text_puts(text, ") {\n");
    if (local_bytes > 0)
        bl_text_printf(text, "  __local ulong16 memory[%u];\n", (unsigned)((local_bytes + 127) / 128));
    if (dev->team != NULL)
        bl_cl_direct_tell(n, sources, text);
    bl_text_puts(text, "  int g0 = (int)get_group_id(0), g1 = (int)get_group_id(1), g2 = (int)get_group_id(2);\n"
                       "  switch (number) {\n");
    for (uint32_t i = 0; i < n; i++) {
        if (sources[i].function)
            cl_program_call(i, &sources[i], text);
    }
    bl_text_puts(text, "  }\n}\n");
}

/* Joins the sources into one text, with a unique name for each function. */
static bl_status cl_program_join(const bl_cl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_text *text, bl_err *err)
{
    bl_text_puts(text, cl_program_is_exact(dev) ? contract_nothing : "");
    for (uint32_t i = 0; i < n; i++) {
        const char *entry = sources[i].entry;

        bl_text_printf(text, "#define %s k%u_%s\n", entry, (unsigned)i, entry);
        bl_text_append(text, sources[i].text, sources[i].len);
        bl_text_printf(text, "\n#undef %s\n", entry);
    }
    add_caller(dev, n, sources, text);
    return bl_text_status(text, err);
}

/* ---- getting a program */

/* Gets the kernel from the batch that contains it; |*out| stays NULL if the batch is not available. */
static bl_status get_member(bl_cl_device *dev, const bl_cl_session *session, bl_span key, const bl_kernel_source *source,
                            bl_cl_program **out, bl_cl_entry *entry, bl_err *err)
{
    bl_cl_member member;
    cl_program handle;
    size_t len = 0;

    if (!bl_cl_cache_load_member(dev->cache, key, &member))
        return BL_OK;
    BL_TRY(cl_program_find_entry(source, member.number, entry, err));
    *out = cl_program_get_shared(dev, session->context, &member.batch);
    if (*out == NULL) {
        unsigned char *binary = bl_cl_cache_load_batch(dev->cache, &member.batch, &len);

        handle = cl_program_load(dev, session->context, binary, len, entry->name);
        if (handle == NULL) {
            bl_cl_entry_fini(entry);
            return BL_OK;
        }
        BL_TRY(cl_program_make_program(dev, session, handle, out, err));
        *out = cl_program_share(dev, session->context, &member.batch, *out);
    }
    return BL_OK;
}

/* Requesting the binary also makes PoCL compile on this thread, instead of on the worker at the first launch. */
static void cl_program_finish(const bl_cl_device *dev, bl_span key, cl_program program)
{
    size_t len = 0;
    unsigned char *binary = bl_cl_program_binary(dev, program, &len);

    if (binary != NULL && dev->cache != NULL)
        (void)bl_cl_cache_store(dev->cache, key, binary, len);
    free(binary);
}

static bl_status get_single(bl_cl_device *dev, const bl_cl_session *session, bl_span key, const bl_kernel_source *source,
                            bl_cl_program **out, bl_cl_entry *entry, bl_err *err)
{
    cl_program handle = NULL;
    bl_text text = {0};
    bl_status st;

    BL_TRY(cl_program_find_entry(source, 0, entry, err));
    if (dev->cache != NULL) {
        size_t len = 0;
        unsigned char *binary = bl_cl_cache_load(dev->cache, key, &len);

        handle = cl_program_load(dev, session->context, binary, len, entry->name);
    }
    if (handle == NULL) {
        st = cl_program_join(dev, 1, source, &text, err);
        if (st == BL_OK)
            st = cl_program_build(dev, session->context, text.data, text.len, source->entry, &handle, err);
        bl_text_fini(&text);
        BL_TRY(st);
        cl_program_finish(dev, key, handle);
    }
    return cl_program_make_program(dev, session, handle, out, err);
}

bl_status bl_cl_program_get(bl_cl_device *dev, const bl_kernel_source *source, bl_cl_program **out, bl_cl_entry *entry,
                            bl_err *err)
{
    bl_cl_session session;
    bl_text text = {0};
    bl_status st = cl_program_make_key(dev, source->text, source->len, &text, err);
    bl_span key = {text.data, text.len};

    *out = NULL;
    *entry = (bl_cl_entry){0};
    bl_cl_session_hold(dev, &session);
    if (st == BL_OK && dev->cache != NULL)
        st = get_member(dev, &session, key, source, out, entry, err);
    if (st == BL_OK && *out == NULL)
        st = get_single(dev, &session, key, source, out, entry, err);
    bl_cl_session_drop(dev, &session);
    bl_text_fini(&text);
    return st;
}

/* ---- compiling several kernels at once */

/* Checks that the driver's kernels have the properties that their sources state. */
static bool check_all(bl_cl_device *dev, cl_program program, uint32_t n, const bl_kernel_source *sources)
{
    bool good = true;

    for (uint32_t i = 0; i < n && good; i++) {
        bl_cl_entry entry = {0};
        bl_err ignored = {0};
        cl_int rc = CL_SUCCESS;
        cl_kernel kernel = cl_program_find_entry(&sources[i], i, &entry, &ignored) == BL_OK
                               ? dev->cl.CreateKernel(program, entry.name, &rc)
                               : NULL;

        good = kernel != NULL && rc == CL_SUCCESS && bl_cl_kernel_check(dev, kernel, &sources[i], &ignored) == BL_OK;
        if (kernel != NULL)
            (void)dev->cl.ReleaseKernel(kernel);
        bl_cl_entry_fini(&entry);
    }
    return good;
}

/* Stores the program under |key|, and the place of each kernel in it. */
static bool store_all(const bl_cl_device *dev, bl_span key, cl_program program, uint32_t n, const bl_kernel_source *sources)
{
    bl_cl_member member = {0};
    size_t len = 0;
    unsigned char *binary = bl_cl_program_binary(dev, program, &len);
    bool stored = binary != NULL && bl_cl_cache_store_batch(dev->cache, key, binary, len, &member.batch);

    free(binary);
    for (uint32_t i = 0; i < n && stored; i++) {
        bl_text own = {0};
        bl_err ignored = {0};

        member.number = i;
        stored = cl_program_make_key(dev, sources[i].text, sources[i].len, &own, &ignored) == BL_OK &&
                 bl_cl_cache_store_member(dev->cache, (bl_span){own.data, own.len}, &member);
        bl_text_fini(&own);
    }
    return stored;
}

/* Members find their batch by its checksum, so the key of the batch only needs a hash of the text. */
static bl_status make_batch_key(const bl_cl_device *dev, const bl_text *text, bl_text *key, bl_err *err)
{
    char hash[48];
    int len = snprintf(hash, sizeof hash, "batch %016llx%016llx", (unsigned long long)bl_hash_bytes(text->data, text->len, 3),
                       (unsigned long long)bl_hash_bytes(text->data, text->len, 4));

    return cl_program_make_key(dev, hash, (size_t)len, key, err);
}

bool bl_cl_batch_compile(bl_cl_device *dev, uint32_t n, const bl_kernel_source *sources)
{
    bl_cl_session session;
    bl_text text = {0}, key = {0};
    bl_err ignored = {0}; /* ignored: a kernel that is compiled separately reports its own error */
    cl_program program = NULL;
    bool good = false;

    bl_cl_session_hold(dev, &session);
    if (cl_program_join(dev, n, sources, &text, &ignored) == BL_OK && make_batch_key(dev, &text, &key, &ignored) == BL_OK &&
        cl_program_build(dev, session.context, text.data, text.len, "of many", &program, &ignored) == BL_OK)
        good = check_all(dev, program, n, sources) && store_all(dev, (bl_span){key.data, key.len}, program, n, sources);
    if (program != NULL)
        (void)dev->cl.ReleaseProgram(program);
    bl_cl_session_drop(dev, &session);
    bl_text_fini(&text);
    bl_text_fini(&key);
    return good;
}

bool bl_cl_is_compiled(bl_device *base, const bl_kernel_source *source)
{
    const bl_cl_device *dev = (const bl_cl_device *)base;
    bl_text text = {0};
    bl_err ignored = {0};
    bl_cl_member member;
    bool found = false;

    if (dev->cache != NULL && cl_program_make_key(dev, source->text, source->len, &text, &ignored) == BL_OK) {
        bl_span key = {text.data, text.len};
        void *program = NULL;
        size_t len = 0;

        if (bl_cl_cache_load_member(dev->cache, key, &member))
            found = bl_cl_cache_has_batch(dev->cache, &member.batch);
        else
            program = bl_cl_cache_load(dev->cache, key, &len);
        found = found || program != NULL;
        free(program);
    }
    bl_text_fini(&text);
    return found;
}
