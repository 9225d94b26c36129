/* What a back end implements, and the wrappers that everyone calls.  A back end knows buffers, kernels, recordings and timings;
 * it never knows a tensor op, and includes engine/base and engine/device only.
 *
 * Threads: bl_buffer_alloc, retain, release and those of kernels may be called from any thread (a back end locks what it must);
 * record, submit, write, read and wait only from the device's one worker thread.  No lock is held across a driver call that
 * waits.
 *
 * A device that is lost answers BL_EDEVICE to everything until bl_device_reopen succeeds; buffers and kernels made before
 * that may then only be released: each carries the device's generation, and the wrappers refuse those of an earlier one. */
#ifndef BL_DEVICE_DEVICE_H
#define BL_DEVICE_DEVICE_H

#include "engine/base/text.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    BL_MAX_BINDINGS = 32,
    BL_MAX_SCALARS = 32, /* of a kernel: 128 bytes, the push constants that every Vulkan device has */
    BL_CALL_SCALARS = 8  /* of a function, since the kernel that calls it is launched with so many whatever it needs */
};

enum { BL_FEWEST_BINDINGS = 12 }; /* with which a graph can be parted into kernels */

typedef enum bl_device_type { BL_DEVICE_CPU, BL_DEVICE_GPU, BL_DEVICE_ACCELERATOR, BL_DEVICE_NONE } bl_device_type;

/* Which text a device compiles: a dialect row of engine/render. */
typedef enum bl_dialect { BL_DIALECT_OPENCL, BL_DIALECT_GLSL, BL_DIALECT_LINEAR } bl_dialect;

/* Optional features a kernel may use where the bit is set; else lowering emulates or refuses. */
enum {
    BL_FEATURE_F64 = 1,
    BL_FEATURE_I64 = 2,
    BL_FEATURE_STORE8 = 4,  /* 8-bit elements in buffers */
    BL_FEATURE_STORE16 = 8, /* 16-bit elements in buffers */
    /* Float addition, multiplication, division, fma, square root and conversion each round once, as IEEE 754 says, denormals
     * included, and the compiler contracts nothing: the results have the bits of the interpreter's. */
    BL_FEATURE_EXACT = 16
};

/* What multiplies matrices in one instruction, c += a * b, and how a kernel says so. */
typedef enum bl_unit_kind {
    BL_UNIT_COOPERATIVE, /* GLSL: matrices of GL_NV_cooperative_matrix, which the back end turns into KHR's */
    BL_UNIT_MMA,         /* OpenCL C with inline PTX: mma.sync */
    BL_UNIT_AMX,         /* OpenCL C with inline x86: tiles */
    BL_UNIT_DOT          /* OpenCL C with inline x86: AVX512-BF16, a vector of sums of two products */
} bl_unit_kind;
typedef enum bl_unit_dtype { BL_UNIT_F16, BL_UNIT_BF16, BL_UNIT_I8, BL_UNIT_U8 } bl_unit_dtype; /* summed in float32 or int32 */

/* a is m by k, b is k by n. */
typedef struct bl_matrix_unit {
    bl_unit_kind kind;
    bl_unit_dtype dtype; /* of a and b */
    uint8_t m, n, k;
    uint8_t scope; /* work-items that execute it together, consecutive ones of a group; 1: each by itself */
    uint8_t group; /* over 1: so many rows of b are read interleaved, and a by rows; 1: either by rows or by columns */
    uint8_t rate;  /* multiply-adds that it does in the time of one of float32 in a core's vectors, at their best; 0: unknown */
} bl_matrix_unit;

enum { BL_MAX_MATRIX_UNITS = 8 };

/* A device describes itself, and the compiler's choices follow from this alone: no device name in the compiler. */
typedef struct bl_device_info {
    char id[32];      /* "opencl:0" */
    char name[128];   /* as the driver says */
    char driver[128]; /* driver and version: part of the key of anything cached on disk */
    bl_device_type type;
    bl_dialect dialect;
    unsigned features;
    uint64_t memory;           /* bytes */
    uint64_t max_alloc;        /* bytes of one buffer */
    uint64_t max_binding;      /* bytes that a kernel can see of one buffer (lavapipe: 128 MiB) */
    uint32_t alignment;        /* of a buffer's offset within its parent, bytes */
    uint32_t units;            /* cores or multiprocessors */
    uint32_t vector_bits;      /* native vector width; 0: let each work-item be scalar */
    uint32_t max_lanes;        /* of a vector in the kernels' language; 0: as many as the compiler makes */
    uint32_t registers;        /* vector registers of a work-item, as far as known: 16, 32, ... */
    uint32_t cache_bytes;      /* of one unit (L2 of a core); 0: unknown */
    uint32_t last_cache_bytes; /* of the cache in front of memory, shared by all units; 0: unknown, or stores cannot go past it */
    uint32_t subgroup;         /* work-items that run in step; 1 on a CPU device whose group is one work-item */
    uint32_t max_local;        /* work-items of a group */
    uint32_t local_bytes;      /* local memory of a group */
    uint32_t max_groups[3];
    uint32_t max_bindings; /* buffers of a kernel; 0: BL_MAX_BINDINGS */
    uint32_t max_turns;    /* of all loops of a work-item, after which the driver ends them by itself; 0: no such limit */
    uint32_t nmatrix;      /* matrix units: of those of one dtype the best first */
    bl_matrix_unit matrix[BL_MAX_MATRIX_UNITS];
    bool host_memory; /* buffers are mapped where the host and the device share memory */
    /* What a core does in so many nanoseconds is over before others were woken for it: kernels of such a recording are |brief|,
     * and it runs in the thread that submits it.  0: none does. */
    uint32_t brief_ns;
} bl_device_info;

typedef struct bl_device bl_device;

/* Counted device memory.  |host| is where the host sees it, or NULL; writes there are visible to work submitted later, and
 * results are there once that work was waited for. */
typedef struct bl_buffer {
    bl_device *dev;
    struct bl_buffer *parent; /* a view keeps its parent alive */
    size_t bytes;
    size_t offset; /* in the parent */
    void *host;
    unsigned generation;
    uint64_t version; /* another number whenever the contents are others: see bl_buffer_change */
    atomic_int refs;
} bl_buffer;

/* A compiled device function. */
typedef struct bl_kernel {
    bl_device *dev;
    uint32_t nbuffers, nscalars;
    uint32_t local[3];
    unsigned generation;
} bl_kernel;

typedef struct bl_kernel_source {
    const char *entry; /* name of the function; [a-z0-9_], made by the compiler, never from the wire */
    const char *text;  /* in the device's dialect */
    size_t len;
    const struct bl_linear *linear; /* what the text says, for the interpreter, which reads no text */
    uint32_t nbuffers;              /* buffer parameters, first */
    uint32_t nscalars;              /* int32 parameters, after them: values of named dimensions */
    uint32_t writes;                /* bit i: buffer i is written */
    uint32_t local[3];              /* work-items of a group, fixed at compile time */
    uint32_t local_bytes;           /* local memory that it uses; checked against the device's before any driver call */
    bool function; /* OpenCL C: the text is no kernel but a function, for the back end to call: see bl_render_source */
    bool brief; /* it is launched in recordings as info.brief_ns says, all of whose kernels are: a back end may compile it so */
} bl_kernel_source;

/* One kernel in a recording.  Buffers and scalars are numbers of the slots and variables given at submission. */
typedef struct bl_launch {
    bl_kernel *kernel;
    uint16_t slot[BL_MAX_BINDINGS];
    uint16_t var[BL_MAX_SCALARS];
} bl_launch;

/* Launches in order, prepared once: each sees what those before it wrote. */
typedef struct bl_recording {
    bl_device *dev;
    uint32_t nlaunches, nslots, nvars;
    unsigned generation;
    bool begun; /* of the last submission, where it failed: some of its launches may have run, and left who knows what */
} bl_recording;

/* What a submission binds.  Buffers must live until it was waited for. */
typedef struct bl_submission {
    bl_buffer *const *slots;     /* nslots of the recording */
    const int32_t *vars;         /* nvars */
    const uint32_t (*groups)[3]; /* work-groups of each launch; with a 0 among them it does nothing */
    uint64_t *nanoseconds;       /* NULL, or one per launch: device time, filled by the wait (slower) */
} bl_submission;

typedef struct bl_device_ops {
    const char *name;
    void (*destroy)(bl_device *dev);
    bl_status (*reopen)(bl_device *dev, bl_err *err);
    bl_status (*alloc)(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err);
    bl_status (*view)(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
    void (*dealloc)(bl_buffer *buffer);
    bl_status (*write)(bl_buffer *buffer, size_t offset, const void *data, size_t bytes,
                       bl_err *err);                                                            /* in order; done on return */
    bl_status (*read)(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err); /* in order; waits */
    /* From one buffer to another, of which the host does not see both; in order, done on return.  NULL: through the host. */
    bl_status (*copy)(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err);
    bl_status (*kernel)(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err);
    void (*kernel_destroy)(bl_kernel *kernel);
    /* (optional, both or none) Compile into a cache on disk where |kernel| finds them, in this process or another, many at once
     * where that is cheaper; an outcome is a failure to compile.  Whether |kernel| would find one there, without the driver. */
    void (*compile)(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes);
    bool (*is_compiled)(bl_device *dev, const bl_kernel_source *source);
    bl_status (*record)(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                        bl_recording **out, bl_err *err);
    void (*recording_destroy)(bl_recording *recording);
    /* Does not wait; see brief_ns.  Where it fails nothing is under way, and recording->begun says whether anything was. */
    bl_status (*submit)(bl_recording *recording, const bl_submission *submission, bl_err *err);
    bl_status (*wait)(bl_device *dev, bl_err *err); /* for all that was submitted */
    /* (optional) the driver's assembly of a kernel, for DEBUG=7; freed by the caller. */
    char *(*disassemble)(bl_kernel *kernel);
} bl_device_ops;

struct bl_device {
    const bl_device_ops *ops;
    bl_device_info info;
    atomic_bool lost;         /* set by the back end when the driver says so */
    atomic_uint generation;   /* how often it was reopened */
    atomic_ullong versions;   /* given to buffers so far */
    atomic_size_t bytes_used; /* by live buffers, kept by the wrappers */
    atomic_size_t bytes_peak;
    bl_budget
        *host; /* of what shares the host's memory, where the device does: set by its owner before the first buffer, or NULL */
    /* A device that runs kernels on this one's buffers before the driver has compiled them (engine/interp/device.h).  The host
     * sees these buffers.  The owner sets it before the first kernel, ends it, and reopens both together; NULL: there is none.
     * Who submits to one of the two has waited for the other. */
    bl_device *stand_in;
};

/* ---- the wrappers: they check sizes, count, pass fault points and NULL their outputs.  They fill the public fields of what a
 * back end makes (a bl_buffer's |host| is the back end's), and pass a view of a view on as a view of the whole buffer. */
void bl_device_destroy(bl_device *dev);
BL_NODISCARD bl_status bl_device_reopen(bl_device *dev, bl_err *err);
/* |bytes| 0 is taken as 1.  Over max_alloc or memory: BL_ENODEVMEM.  Contents are undefined: the caller writes them all. */
BL_NODISCARD bl_status bl_buffer_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err);
/* Part of |parent|, which it retains; |offset| is a multiple of info.alignment. */
BL_NODISCARD bl_status bl_buffer_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
bl_buffer *bl_buffer_retain(bl_buffer *buffer);
void bl_buffer_release(bl_buffer *buffer); /* accepts NULL */
/* Somebody writes into it.  Allocating and bl_buffer_write say so by themselves; who has a kernel or the host write into a buffer
 * that was read before must say it. */
void bl_buffer_change(bl_buffer *buffer);
/* Nobody knows what is in it, since it was being written when a submission failed: it may only be released, as if the device had
 * been lost, which all others were not.  Worker's thread, as the question whether it is. */
void bl_buffer_lose(bl_buffer *buffer);
bool bl_buffer_is_lost(const bl_buffer *buffer);
BL_NODISCARD bl_status bl_buffer_write(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err);
BL_NODISCARD bl_status bl_buffer_read(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err);
/* From one buffer of a device into another, which somebody else may not be writing. */
BL_NODISCARD bl_status bl_buffer_copy(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err);
/* So many zeros. */
BL_NODISCARD bl_status bl_buffer_clear(bl_buffer *to, size_t at, size_t bytes, bl_err *err);
BL_NODISCARD bl_status bl_kernel_create(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err);
void bl_kernel_destroy(bl_kernel *kernel);
/* Whether it pays to have |source| compiled before it is created: the device has a cache on disk, and not this one there. */
bool bl_kernel_wants_compiling(bl_device *dev, const bl_kernel_source *source);
/* Compile |n| kernels into that cache, together where the driver is faster so.  outcomes[i] is cleared, then why the i-th does
 * not compile; one that could not be kept is no failure: bl_kernel_create compiles it. */
void bl_kernels_compile(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes);
BL_NODISCARD bl_status bl_recording_create(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                                           bl_recording **out, bl_err *err);
void bl_recording_destroy(bl_recording *recording);
BL_NODISCARD bl_status bl_recording_submit(bl_recording *recording, const bl_submission *submission, bl_err *err);
BL_NODISCARD bl_status bl_device_wait(bl_device *dev, bl_err *err);

/* ---- the registry: one row a back end (main lists the rows, so that this folder knows none) */
typedef struct bl_backend {
    const char *name; /* "opencl" */
    /* Open every usable device, at most |max|; each that was left out gets a line in |why| ("name: reason\n").  Finding none is
     * BL_OK with *count 0. */
    bl_status (*open)(uint32_t max, bl_device **out, uint32_t *count, bl_text *why, bl_err *err);
} bl_backend;

extern const bl_backend bl_backend_opencl;
extern const bl_backend bl_backend_vulkan;
extern const bl_backend bl_backend_interp;
extern const bl_backend bl_backend_null; /* compiles and runs nothing: for tests of what is above, and the model for a new one */

#endif
