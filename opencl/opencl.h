/* Private declarations of the OpenCL back end: the loaded entry points, the device, its buffers and kernels.  Uses OpenCL
 * 1.2 only, so that every driver works.  Thread: as engine/device/device.h says. */
#ifndef BL_OPENCL_H
#define BL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120

#include "engine/base/text.h"
#include "engine/device/device.h"
#include "opencl/cl_slabs.h"
#include "opencl/cl_team.h"

#include <CL/cl.h>
#include <pthread.h>

/* The entry points: clCreateBuffer is api->CreateBuffer. */
typedef struct bl_cl_api {
#define BL_CL_ENTRY(name) __typeof__(cl##name) *name;
#include "opencl/entries.def"
#undef BL_CL_ENTRY
} bl_cl_api;

/* A timed submission; the next wait reads its event times. */
typedef struct bl_cl_timing {
    struct bl_cl_timing *next;
    uint64_t *nanoseconds;
    uint32_t n;
    cl_event events[]; /* one event per launch; NULL for an empty launch */
} bl_cl_timing;

/* In-order queues. The index of a queue is a bit mask of its properties.  All queues except the plain queue are created on
 * first use. */
enum { BL_CL_PLAIN = 0, BL_CL_TIMED = 1, BL_CL_QUEUES = 2 };

/* The objects that a device creates anew after a loss. */
typedef struct bl_cl_session {
    cl_context context;
    cl_command_queue queues[BL_CL_QUEUES];
} bl_cl_session;

typedef struct bl_cl_device {
    bl_device base; /* must be first: bl_device * converts to bl_cl_device * */
    bl_cl_api cl;
    cl_platform_id platform;
    cl_device_id id;
    /* the worker writes the session under |lock| and reads it without the lock; other threads hold |lock| */
    bl_cl_session session;
    pthread_mutex_t lock;
    int current;                  /* queue of the last submission */
    bool pending;                 /* a submission has not been waited for; worker thread only */
    bl_cl_timing *timings;        /* list of timed submissions that have not been waited for */
    atomic_uint_fast64_t serials; /* serial number of the last buffer */
    bl_cl_slabs slabs;            /* memory of buffers smaller than a huge page, if the host can address them */
    bl_cl_team *team;             /* runs the machine code of functions; NULL: launches go through the queue */
    bool coherent;                /* the host sees buffers without mapping them (PoCL) */
    bool fuses;                   /* fma() is one instruction instead of a library function */
    char *identity;               /* full names of device, driver and versions: part of a cached program's key */
    char *cache;                  /* folder of compiled programs, or NULL */
    struct bl_cl_program *shared; /* programs of several kernels in use; guarded by |lock| */
} bl_cl_device;

typedef struct bl_cl_buffer {
    bl_buffer base;
    cl_mem mem;
    uint64_t serial; /* unique number, since the address of a cl_mem can be reused */
    void *storage;   /* host memory that the buffer owns, or NULL */
    bool mapped;
} bl_cl_buffer;

/* A program of several kernels in the disk cache. */
typedef struct bl_cl_batch {
    uint64_t hash[2], checksum;
} bl_cl_batch;

/* The place in the cache of a kernel that was compiled together with others. */
typedef struct bl_cl_member {
    bl_cl_batch batch;
    uint64_t number; /* index of the kernel among the kernels of the batch */
} bl_cl_member;

/* Reference-counted.  The kernels of a batch share one program while any of them exists. */
typedef struct bl_cl_program {
    cl_program handle;
    int refs;                   /* guarded by the device's lock */
    bl_cl_batch batch;          /* the batch; all fields 0 for a program of one kernel */
    bl_cl_function **functions; /* by number, the machine code of the functions; NULL: they run by the calling kernel only */
    void *pin;                  /* the library of the machine code, which dlclose releases */
    cl_context context;         /* context of the program's session; a program of an earlier session is not shared */
    struct bl_cl_program *next; /* link of the device's list; guarded by the device's lock */
} bl_cl_program;

/* How a program contains a kernel source: as a kernel, or as a function that the program's calling kernel calls by number. */
typedef struct bl_cl_entry {
    char *name; /* name of the kernel to launch; freed by bl_cl_entry_fini */
    int number; /* value of the kernel's first argument; -1: the kernel has no such argument and contains this source only */
} bl_cl_entry;

/* The argument order of a kernel that calls functions: the number, all scalars, the buffers. */
enum { BL_CL_CALL_NUMBER, BL_CL_CALL_SCALARS, BL_CL_CALL_BUFFERS = BL_CL_CALL_SCALARS + BL_CALL_SCALARS };

typedef struct bl_cl_kernel {
    bl_kernel base;
    bl_cl_program *program;
    bl_cl_entry entry;
    bl_cl_function *function; /* the machine code, or NULL */
    size_t local_bytes;
} bl_cl_kernel;

/* ---- cl_loader.c */
/* Fills |api| from the system's OpenCL loader; false with a reason in |why|. */
bool bl_cl_load(bl_cl_api *api, bl_text *why);

/* ---- cl_error.c */
const char *bl_cl_code_name(cl_int code); /* for instance "CL_OUT_OF_RESOURCES" */
/* Reports that a call named |what| failed outside of the queues. */
bl_status bl_cl_fail(cl_int code, const char *what, bl_err *err);
/* Reports that a call on a queue failed; the device may be lost. */
bl_status bl_cl_fail_queue(bl_cl_device *dev, cl_int code, const char *what, bl_err *err);

/* ---- cl_describe.c */
/* Fills base.info (except the id), identity and coherent from platform and id; false with a reason in |why|. */
bool bl_cl_describe(bl_cl_device *dev, bl_text *why);

/* ---- cl_units.c */
/* Requests permission to use the processor's tiles for this process and for threads that a driver creates.  Call before the
 * first OpenCL call. */
void bl_cl_ask_for_tiles(void);
/* Fills base.info.matrix.  The session must be open and the device idle. */
void bl_cl_find_units(bl_cl_device *dev);

/* ---- cl_memory.c: rows of bl_device_ops */
bl_status bl_cl_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err);
bl_status bl_cl_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
void bl_cl_dealloc(bl_buffer *buffer);
bl_status bl_cl_write(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err);
bl_status bl_cl_read(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err);
bl_status bl_cl_copy(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err);

/* ---- cl_program.c.  Thread: any. */
/* Gets the program of |source| from the cache, or compiles and stores it.  |*entry| says how the program contains |source|; the
 * caller calls bl_cl_entry_fini. */
BL_NODISCARD bl_status bl_cl_program_get(bl_cl_device *dev, const bl_kernel_source *source, bl_cl_program **out,
                                         bl_cl_entry *entry, bl_err *err);
void bl_cl_entry_fini(bl_cl_entry *entry);
bl_cl_program *bl_cl_program_retain(bl_cl_device *dev, bl_cl_program *program);
void bl_cl_program_release(bl_cl_device *dev, bl_cl_program *program); /* accepts NULL */
/* The device's binary of |program|, which the caller frees, or NULL.  PoCL generates machine code in this call. */
unsigned char *bl_cl_program_binary(const bl_cl_device *dev, cl_program program, size_t *len);
/* Compiles all sources as one program into the cache. All sources must be for the same of the two devices.  False: the
 * driver can compile the sources only one by one, if at all. */
bool bl_cl_batch_compile(bl_cl_device *dev, uint32_t n, const bl_kernel_source *sources);
bool bl_cl_is_compiled(bl_device *dev, const bl_kernel_source *source); /* row of bl_device_ops */

/* ---- cl_kernel.c: rows of bl_device_ops */
bl_status bl_cl_kernel_create(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err);
void bl_cl_kernel_destroy(bl_kernel *kernel);
void bl_cl_compile(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes);
char *bl_cl_disassemble(bl_kernel *kernel);
/* Checks that the driver's kernel has the properties that |source| states and that the device can run it. */
BL_NODISCARD bl_status bl_cl_kernel_check(const bl_cl_device *dev, cl_kernel kernel, const bl_kernel_source *source, bl_err *err);

/* ---- cl_buildlog.c */
/* Appends the error lines of a compiler's |log| to |out|, as one sentence without paths. */
void bl_cl_log_summary(const char *log, size_t len, bl_text *out);

/* ---- cl_driver_folder.c */
/* Gives PoCL a folder for its files that no other process uses.  Call before the driver is loaded. */
void bl_cl_own_folder(void);

/* ---- cl_cache.c: compiled programs on disk.  Thread: any; other processes may use the same folder. */
/* The folder, created if necessary; the caller frees the path.  NULL: no program is cached. */
char *bl_cl_cache_folder(void);
/* The program stored under exactly |key|, which the caller frees, or NULL. */
void *bl_cl_cache_load(const char *folder, bl_span key, size_t *len);
/* Stores a program.  A failure only makes the next start slower. */
bool bl_cl_cache_store(const char *folder, bl_span key, const void *program, size_t len);
/* Store a program of many kernels.  *out names the program by key and content, so that another process that compiles the
 * same kernels at the same time gets another program, which does not replace this program. */
bool bl_cl_cache_store_batch(const char *folder, bl_span key, const void *program, size_t len, bl_cl_batch *out);
/* Load and store the place of a kernel that is part of a stored batch. */
bool bl_cl_cache_load_member(const char *folder, bl_span key, bl_cl_member *out);
bool bl_cl_cache_store_member(const char *folder, bl_span key, const bl_cl_member *member);
/* bl_cl_cache_load_batch loads a batch; bl_cl_cache_has_batch reads only its header. */
bool bl_cl_cache_has_batch(const char *folder, const bl_cl_batch *batch);
void *bl_cl_cache_load_batch(const char *folder, const bl_cl_batch *batch, size_t *len);

/* ---- cl_direct.c */
/* Largest number of kernels of one program.  PoCL 3.1 needs 200 ms for a program of any size. 16 kernels save most of this
 * time, and larger programs would only keep other processes waiting for work. */
enum { BL_CL_BATCH = 16 };
/* Whether new kernels are called directly: the team exists, and the host sees all buffers. */
static inline bool bl_cl_is_direct(const bl_cl_device *dev)
{
    return dev->team != NULL && dev->base.info.host_memory && dev->coherent;
}
/* Create dev->team if functions can be called directly. The session must be open and the device idle. */
void bl_cl_direct_begin(bl_cl_device *dev);
/* Write a function of the type bl_cl_function for each source that is a function. */
void bl_cl_direct_wrap(uint32_t n, const bl_kernel_source *sources, bl_text *text);
/* Write the statement of the calling kernel that stores the addresses of these functions. */
void bl_cl_direct_tell(uint32_t n, const bl_kernel_source *sources, bl_text *text);
/* Fill program->functions. |caller| is the name of the program's calling kernel. If this fails, the functions stay NULL, and the
 * driver's queue runs the launches of the program. */
void bl_cl_direct_find(bl_cl_device *dev, const bl_cl_session *session, const char *caller, bl_cl_program *program);
void bl_cl_direct_drop(bl_cl_program *program);

/* ---- cl_queue.c: rows of bl_device_ops */
/* Set the arguments that are equal at each launch of a calling kernel: the number of the function, and the arguments of other
 * functions. */
cl_int bl_cl_set_call(bl_cl_device *dev, cl_kernel kernel, int number);
bl_status bl_cl_record(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars, bl_recording **out,
                       bl_err *err);
void bl_cl_recording_destroy(bl_recording *recording);
bl_status bl_cl_submit(bl_recording *recording, const bl_submission *submission, bl_err *err);
bl_status bl_cl_wait(bl_device *dev, bl_err *err);
void bl_cl_forget_timings(bl_cl_device *dev); /* releases the events without reading their times */

/* ---- cl_session.c */
/* Creates the worker's session, or creates the objects of the device anew after a loss.  After a failure the device has no
 * session. */
bl_status bl_cl_session_open(bl_cl_device *dev, bl_err *err);
/* Adds the queue to the session if it is missing. */
bl_status bl_cl_session_add_queue(bl_cl_device *dev, int which, bl_err *err);
/* Finishes running commands, ignoring errors, and releases queues and context; accepts a session that was not opened. */
void bl_cl_session_close(bl_cl_device *dev);
/* Retains context and queues for a thread other than the worker. Both are NULL while the device has no session. */
void bl_cl_session_hold(bl_cl_device *dev, bl_cl_session *out);
void bl_cl_session_drop(bl_cl_device *dev, bl_cl_session *held);
/* Finishes running commands, ignoring errors.  Thread: any. */
void bl_cl_quiesce(bl_cl_device *dev);

#endif
