/* What the files of the OpenCL back end share: the loaded entry points, the device, its buffers and kernels.
 * OpenCL 1.2 and nothing newer, so that every driver will do.  Thread: as engine/device/device.h says. */
#ifndef BL_OPENCL_OPENCL_H
#define BL_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120

#include "engine/base/text.h"
#include "engine/device/device.h"

#include <CL/cl.h>
#include <pthread.h>

/* clCreateBuffer is api->CreateBuffer. */
typedef struct bl_cl_api {
#define BL_CL_ENTRY(name) __typeof__(cl##name) *name;
#include "opencl/entries.def"
#undef BL_CL_ENTRY
} bl_cl_api;

/* A timed submission whose figures the next wait reads. */
typedef struct bl_cl_timing {
    struct bl_cl_timing *next;
    uint64_t *nanoseconds;
    uint32_t n;
    cl_event events[]; /* NULL where a launch was empty */
} bl_cl_timing;

/* In-order queues, numbered by what they are; all but the plain one are made when first asked for. */
enum { BL_CL_PLAIN = 0, BL_CL_TIMED = 1, BL_CL_HERE = 2, BL_CL_QUEUES = 4 };

/* What a device that was lost gets anew. */
typedef struct bl_cl_session {
    cl_context context;
    cl_command_queue queues[BL_CL_QUEUES];
} bl_cl_session;

typedef struct bl_cl_device {
    bl_device base; /* first: bl_device * converts */
    bl_cl_api cl;
    cl_platform_id platform;
    cl_device_id id;
    cl_device_id here;     /* the same cores and memory, used by the thread that puts something into a queue; or NULL */
    bl_cl_session session; /* the worker writes it under |lock| and reads it without; others hold it */
    pthread_mutex_t lock;
    int current;                  /* the queue that took the last submission */
    bool pending;                 /* something submitted was not yet waited for; the worker's */
    bl_cl_timing *timings;        /* of submissions not yet waited for */
    atomic_uint_fast64_t serials; /* the last number given to a buffer */
    bool coherent;                /* the host sees buffers without mapping them (PoCL) */
    bool fuses;                   /* fma() is an instruction, not a function of many */
    char *identity;               /* device, driver and versions in full: part of a cached program's key */
    char *cache;                  /* folder of compiled programs, or NULL */
    struct bl_cl_program *shared; /* programs of several kernels that are in use, under |lock| */
} bl_cl_device;

typedef struct bl_cl_buffer {
    bl_buffer base;
    cl_mem mem;
    uint64_t serial; /* never given twice, where the address of a cl_mem may be */
    void *storage;   /* host memory that the buffer owns, or NULL */
    bool mapped;
} bl_cl_buffer;

/* A program of several kernels in the cache on disk. */
typedef struct bl_cl_batch {
    uint64_t hash[2], checksum;
} bl_cl_batch;

/* Where in the cache a kernel is that was compiled together with others. */
typedef struct bl_cl_member {
    bl_cl_batch batch;
    uint64_t number; /* among the batch's kernels */
} bl_cl_member;

/* Counted.  Kernels of one batch share a program while any of them lives. */
typedef struct bl_cl_program {
    cl_program handle;
    int refs;                   /* under the device's lock */
    bl_cl_batch batch;          /* all 0 where it has one kernel */
    cl_context context;         /* that of its session: one of an earlier session is not shared */
    struct bl_cl_program *next; /* in the device's list, under its lock */
} bl_cl_program;

/* What a kernel of ours is in a program: a kernel, or a function that the program's one calls for a number. */
typedef struct bl_cl_entry {
    char *name; /* of the kernel to launch; freed by bl_cl_entry_fini */
    int number; /* its first argument; -1: it has none, and the kernel is ours alone */
} bl_cl_entry;

/* Where the arguments of the kernel that calls functions stand: the number, each scalar there may be, the buffers. */
enum { BL_CL_CALL_NUMBER, BL_CL_CALL_SCALARS, BL_CL_CALL_BUFFERS = BL_CL_CALL_SCALARS + BL_CALL_SCALARS };

typedef struct bl_cl_kernel {
    bl_kernel base;
    bl_cl_program *program;
    bl_cl_entry entry;
    bool here; /* it was compiled for dev->here */
} bl_cl_kernel;

/* For which of both a kernel is compiled. */
static inline bool bl_cl_is_here(const bl_cl_device *dev, const bl_kernel_source *source)
{
    return source->brief && dev->here != NULL;
}

static inline cl_device_id bl_cl_which(const bl_cl_device *dev, bool here)
{
    return here ? dev->here : dev->id;
}

/* ---- loader.c */
/* Fill |api| from the system's OpenCL loader; false with a reason in |why|. */
bool bl_cl_load(bl_cl_api *api, bl_text *why);

/* ---- error.c */
const char *bl_cl_code_name(cl_int code); /* "CL_OUT_OF_RESOURCES" */
/* A call named |what| failed outside of the queues. */
bl_status bl_cl_fail(cl_int code, const char *what, bl_err *err);
/* A call on a queue failed: the device may be lost. */
bl_status bl_cl_fail_queue(bl_cl_device *dev, cl_int code, const char *what, bl_err *err);

/* ---- describe.c */
/* Fill base.info (all but the id), identity and coherent from platform and id; false with a reason in |why|. */
bool bl_cl_describe(bl_cl_device *dev, bl_text *why);

/* ---- units.c */
/* Before the first OpenCL call: leave for this process, and the threads that a driver makes, to use the processor's tiles. */
void bl_cl_ask_for_tiles(void);
/* Fill base.info.matrix; the session is open, and nothing else runs yet. */
void bl_cl_find_units(bl_cl_device *dev);

/* ---- memory.c: rows of bl_device_ops */
bl_status bl_cl_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err);
bl_status bl_cl_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
void bl_cl_dealloc(bl_buffer *buffer);
bl_status bl_cl_write(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err);
bl_status bl_cl_read(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err);
bl_status bl_cl_copy(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err);

/* ---- program.c.  Thread: any. */
/* The program of |source|: from the cache, or compiled now and put there.  *entry is what it is in it, for the caller to end. */
BL_NODISCARD bl_status bl_cl_program_get(bl_cl_device *dev, const bl_kernel_source *source, bl_cl_program **out,
                                         bl_cl_entry *entry, bl_err *err);
void bl_cl_entry_fini(bl_cl_entry *entry);
void bl_cl_program_release(bl_cl_device *dev, bl_cl_program *program); /* accepts NULL */
/* The device's compiled form of |program|, freed by the caller, or NULL.  PoCL compiles to machine code here. */
unsigned char *bl_cl_program_binary(const bl_cl_device *dev, cl_program program, size_t *len);
/* Compile all, which are for the same of both devices, as one program into the cache.  False: the driver takes them only one by
 * one, if at all. */
bool bl_cl_batch_compile(bl_cl_device *dev, uint32_t n, const bl_kernel_source *sources);
bool bl_cl_is_compiled(bl_device *dev, const bl_kernel_source *source); /* a row of bl_device_ops */

/* ---- kernel.c: rows of bl_device_ops */
bl_status bl_cl_kernel_create(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err);
void bl_cl_kernel_destroy(bl_kernel *kernel);
void bl_cl_compile(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes);
char *bl_cl_disassemble(bl_kernel *kernel);
/* That what the driver made of |source| is what it says and what the device can run. */
BL_NODISCARD bl_status bl_cl_kernel_check(const bl_cl_device *dev, cl_kernel kernel, const bl_kernel_source *source, bl_err *err);

/* ---- buildlog.c */
/* Add the lines of a compiler's |log| that say what was wrong to |out|, as one sentence without paths. */
void bl_cl_log_summary(const char *log, size_t len, bl_text *out);

/* ---- driver_folder.c */
/* Give PoCL a folder for its files that no other process uses.  Call before the driver is loaded. */
void bl_cl_own_folder(void);

/* ---- cache.c: compiled programs on disk.  Thread: any; other processes may use the same folder. */
/* The folder, made if need be; freed by the caller.  NULL: there is none, and nothing is kept. */
char *bl_cl_cache_folder(void);
/* The program stored under exactly |key|, freed by the caller, or NULL. */
void *bl_cl_cache_load(const char *folder, bl_span key, size_t *len);
/* Store; a failure only costs the next start some time. */
bool bl_cl_cache_store(const char *folder, bl_span key, const void *program, size_t len);
/* Store a program of many kernels.  *out names the program by key and content: another process that compiles the same kernels at
 * the same time gets another program, which does not replace this program. */
bool bl_cl_cache_store_batch(const char *folder, bl_span key, const void *program, size_t len, bl_cl_batch *out);
/* The same for a kernel that is part of a stored program ... */
bool bl_cl_cache_load_member(const char *folder, bl_span key, bl_cl_member *out);
bool bl_cl_cache_store_member(const char *folder, bl_span key, const bl_cl_member *member);
/* ... and that program; the first looks at its header only. */
bool bl_cl_cache_has_batch(const char *folder, const bl_cl_batch *batch);
void *bl_cl_cache_load_batch(const char *folder, const bl_cl_batch *batch, size_t *len);

/* ---- queue.c: rows of bl_device_ops */
bl_status bl_cl_record(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars, bl_recording **out,
                       bl_err *err);
void bl_cl_recording_destroy(bl_recording *recording);
bl_status bl_cl_submit(bl_recording *recording, const bl_submission *submission, bl_err *err);
bl_status bl_cl_wait(bl_device *dev, bl_err *err);
void bl_cl_forget_timings(bl_cl_device *dev); /* events released, figures not written */

/* ---- session.c */
/* Make what the worker needs, or the device's parts anew after a loss; on failure the device has none. */
bl_status bl_cl_session_open(bl_cl_device *dev, bl_err *err);
/* Give the session that queue, unless it has it. */
bl_status bl_cl_session_add_queue(bl_cl_device *dev, int which, bl_err *err);
/* End what is running, whatever its outcome, and give up queues and context; accepts a session that was not opened. */
void bl_cl_session_close(bl_cl_device *dev);
/* Hold context and queues for a thread that is not the worker; each is NULL while the device has none. */
void bl_cl_session_hold(bl_cl_device *dev, bl_cl_session *out);
void bl_cl_session_drop(bl_cl_device *dev, bl_cl_session *held);
/* End what is running, whatever its outcome.  Thread: any. */
void bl_cl_quiesce(bl_cl_device *dev);

#endif
