/* The interface of a back end, and the wrappers through which all other code calls it. A back end implements buffers, kernels,
 * recordings and timings; it knows no tensor op, and includes engine/base and engine/device only.
 * Threads: any thread may call bl_buffer_alloc, retain, release and the functions of kernels (a back end locks what it must).
 * Only the device's worker thread may record, submit, write, read and wait. No lock is held across a driver call that waits.
 * A lost device fails every call with BL_EDEVICE until bl_device_reopen succeeds. Buffers and kernels from before that may only
 * be released: each carries the device's generation, and the wrappers reject those of an earlier generation. */
#ifndef BL_DEVICE_H
#define BL_DEVICE_H

#include "engine/base/text.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    BL_MAX_BINDINGS = 32,
    BL_MAX_SCALARS = 32, /* scalars of a kernel: 128 bytes, the size of the push constants that every Vulkan device has */
    BL_CALL_SCALARS = 8  /* scalars of a function, since the kernel that calls the functions is always launched with this many */
};

enum { BL_FEWEST_BINDINGS = 12 }; /* the fewest bindings with which the scheduler can split any graph into kernels */

typedef enum bl_device_type { BL_DEVICE_CPU, BL_DEVICE_GPU, BL_DEVICE_ACCELERATOR, BL_DEVICE_NONE } bl_device_type;

/* The language of a device's kernels: a dialect of engine/render. */
typedef enum bl_dialect { BL_DIALECT_OPENCL, BL_DIALECT_GLSL, BL_DIALECT_LINEAR } bl_dialect;

/* Optional features. A kernel may use a feature if its bit is set; otherwise lowering emulates the feature or refuses the
 * kernel. */
enum {
    BL_FEATURE_F64 = 1,
    BL_FEATURE_I64 = 2,
    BL_FEATURE_STORE8 = 4,  /* 8-bit elements in buffers */
    BL_FEATURE_STORE16 = 8, /* 16-bit elements in buffers */
    /* Float addition, multiplication, division, fma, square root and conversion round once, as in IEEE 754, denormals included,
     * and the compiler does not contract operations. Results then have the same bits as the interpreter's. */
    BL_FEATURE_EXACT = 16
};

/* A matrix unit, which multiplies small matrices in one instruction (c += a * b), and the way in which a kernel uses it. */
typedef enum bl_unit_kind {
    BL_UNIT_COOPERATIVE, /* GLSL with GL_NV_cooperative_matrix, which the back end translates to the KHR extension */
    BL_UNIT_MMA,         /* OpenCL C with inline PTX: mma.sync */
    BL_UNIT_AMX,         /* OpenCL C with inline x86 assembly: AMX tiles */
    BL_UNIT_DOT          /* OpenCL C with inline x86 assembly: AVX512-BF16, a vector of sums of two products */
} bl_unit_kind;
typedef enum bl_unit_dtype { BL_UNIT_F16, BL_UNIT_BF16, BL_UNIT_I8, BL_UNIT_U8 } bl_unit_dtype; /* sums are float32 or int32 */

/* One instruction of a unit: a is m by k, b is k by n. */
typedef struct bl_matrix_unit {
    bl_unit_kind kind;
    bl_unit_dtype dtype; /* dtype of a and b */
    uint8_t m, n, k;
    uint8_t scope; /* number of consecutive work-items of a group that execute it together; 1: each work-item alone */
    uint8_t group; /* over 1: b is read with this many rows interleaved, and a by rows; 1: each by rows or by columns */
    /* multiply-adds in the time of one float32 multiply-add of a core's vector units, both at their peak; 0: unknown */
    uint8_t rate;
} bl_matrix_unit;

enum { BL_MAX_MATRIX_UNITS = 8 };

/* The properties of a device. All choices of the compiler follow from these numbers; the compiler knows no device names. */
typedef struct bl_device_info {
    char id[32];      /* "opencl:0" */
    char name[128];   /* as the driver reports it */
    char driver[128]; /* name and version of the driver: part of the key of everything that is cached on disk */
    bl_device_type type;
    bl_dialect dialect;
    unsigned features;
    uint64_t memory;           /* bytes */
    uint64_t max_alloc;        /* bytes of one buffer */
    uint64_t max_binding;      /* bytes of one buffer that a kernel can access (lavapipe: 128 MiB) */
    uint32_t alignment;        /* required alignment in bytes of a view's offset in its buffer */
    uint32_t units;            /* number of cores or multiprocessors */
    uint32_t vector_bits;      /* native vector width in bits; 0: kernels should be scalar per work-item */
    uint32_t max_lanes;        /* most lanes of a vector in the kernel language; 0: no limit */
    uint32_t registers;        /* vector registers of a work-item, as far as known: 16, 32, ... */
    uint32_t cache_bytes;      /* cache of one unit in bytes (L2 of a core); 0: unknown */
    uint32_t last_cache_bytes; /* last-level cache in bytes, shared by all units; 0: unknown, or stores cannot bypass it */
    uint32_t subgroup;         /* work-items that execute in lockstep; 1 on a CPU device whose group is one work-item */
    uint32_t max_local;        /* most work-items of a group */
    uint32_t local_bytes;      /* local memory of a group in bytes */
    uint32_t max_groups[3];
    uint32_t max_bindings; /* most buffers of a kernel; 0: BL_MAX_BINDINGS */
    uint32_t max_turns;    /* most loop iterations of a work-item in all, after which the driver ends its loops; 0: no limit */
    uint32_t nmatrix;      /* number of matrix units; among units of one dtype the best comes first */
    bl_matrix_unit matrix[BL_MAX_MATRIX_UNITS];
    bool host_memory; /* buffers can be mapped: host and device share memory */
    /* one core runs all work-items of a group, one after the other or in the lanes of its vectors: a barrier costs a pass over
     * all of them, and local memory is no nearer than a cache */
    bool serial_groups;
    bool converts_half;  /* one instruction converts float16 to float32 exactly, subnormals included */
    bool calls_kernels;  /* a kernel whose groups are single work-items may be a function that the back end calls */
    uint32_t fragments;  /* number of fragments for which a matrix unit has registers; 0: it uses those of the work-items */
    uint32_t mega_ops;   /* rough estimates: 10^6 arithmetic operations per second, ... */
    uint32_t mega_bytes; /* ... and 10^6 bytes per second of memory */
    uint32_t launch_ns;  /* nanoseconds that a recording takes the submitting thread per launch, besides the kernel's work */
    /* A recording that takes a core at most this many nanoseconds would end before another thread could be woken for it. Such a
     * recording runs in the thread that submits it, and its kernels are compiled as |brief|. 0: no recording. */
    uint32_t brief_ns;
} bl_device_info;

typedef struct bl_device bl_device;

/* Device memory, reference-counted. |host| is its host address if the host can access it, else NULL. Host writes are visible to
 * work that is submitted later. Results are visible to the host after it has waited for the work. */
typedef struct bl_buffer {
    bl_device *dev;
    struct bl_buffer *parent; /* of a view, which retains its parent */
    size_t bytes;
    size_t offset; /* in the parent */
    void *host;
    unsigned generation;
    uint64_t version; /* changes whenever the contents change: see bl_buffer_change */
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
    const char *entry; /* name of the function: [a-z0-9_], made by the compiler, never from the wire */
    const char *text;  /* in the device's dialect */
    size_t len;
    const struct bl_linear *linear; /* the same kernel for the interpreter, which does not read text */
    uint32_t nbuffers;              /* number of buffer parameters, which come first */
    uint32_t nscalars;              /* number of int32 parameters, which follow: values of named dimensions */
    uint32_t writes;                /* bit i: the kernel writes buffer i */
    uint32_t local[3];              /* work-items of a group, fixed at compile time */
    uint32_t local_bytes;           /* bytes of local memory; checked against the device's limit before any driver call */
    bool function; /* OpenCL C: the text is a function for the back end to call, not a kernel: see bl_render_source */
    bool brief;    /* the kernel runs in brief recordings only (info.brief_ns); a back end may compile it for that */
} bl_kernel_source;

/* One kernel launch in a recording. |slot| and |var| are indices into the slots and variables given at submission. */
typedef struct bl_launch {
    bl_kernel *kernel;
    uint16_t slot[BL_MAX_BINDINGS];
    uint16_t var[BL_MAX_SCALARS];
} bl_launch;

/* A sequence of launches, prepared once. Each launch sees what earlier launches wrote. */
typedef struct bl_recording {
    bl_device *dev;
    uint32_t nlaunches, nslots, nvars;
    unsigned generation;
    /* if the last submission failed: true if some launches may have run, so that the buffers they write are undefined */
    bool begun;
} bl_recording;

/* The buffers and sizes of a submission. The buffers must live until the submission has been waited for. */
typedef struct bl_submission {
    bl_buffer *const *slots;     /* nslots buffers */
    const int32_t *vars;         /* nvars values */
    const uint32_t (*groups)[3]; /* number of work-groups of each launch; a launch with a 0 does nothing */
    /* NULL, or one entry per launch: device time, filled when the submission is waited for (slower) */
    uint64_t *nanoseconds;
} bl_submission;

typedef struct bl_device_ops {
    const char *name;
    void (*destroy)(bl_device *dev);
    bl_status (*reopen)(bl_device *dev, bl_err *err);
    bl_status (*alloc)(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err);
    bl_status (*view)(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
    void (*dealloc)(bl_buffer *buffer);
    bl_status (*write)(bl_buffer *buffer, size_t offset, const void *data, size_t bytes,
                       /* in order with submissions; complete on return */
                       bl_err *err);
    /* in order with submissions; waits */
    bl_status (*read)(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err);
    /* Copy between two buffers that the host cannot both access; in order, complete on return. NULL: copy through the host. */
    bl_status (*copy)(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err);
    bl_status (*kernel)(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err);
    void (*kernel_destroy)(bl_kernel *kernel);
    /* (optional, both or neither) |compile|: compile kernels into the cache on disk from which |kernel| loads them, in this
     * process or another, several at once if that is cheaper. outcomes[i] is a failure to compile. |is_compiled|: does the
     * cache have the kernel? Does not call the driver. */
    void (*compile)(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes);
    bool (*is_compiled)(bl_device *dev, const bl_kernel_source *source);
    bl_status (*record)(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                        bl_recording **out, bl_err *err);
    void (*recording_destroy)(bl_recording *recording);
    /* Does not wait, except for a brief recording (info.brief_ns). On failure nothing is in flight, and recording->begun tells
     * whether a launch had begun. */
    bl_status (*submit)(bl_recording *recording, const bl_submission *submission, bl_err *err);
    bl_status (*wait)(bl_device *dev, bl_err *err); /* wait for all submitted work */
    /* (optional) The driver's assembly of a kernel, for DEBUG=7. The caller frees the text. */
    char *(*disassemble)(bl_kernel *kernel);
} bl_device_ops;

struct bl_device {
    const bl_device_ops *ops;
    bl_device_info info;
    atomic_bool lost;         /* set by the back end when the driver reports the loss */
    atomic_uint generation;   /* number of times the device was reopened */
    atomic_ullong versions;   /* number of buffer versions handed out */
    atomic_size_t bytes_used; /* bytes of live buffers, counted by the wrappers */
    atomic_size_t bytes_peak;
    /* the budget of host memory, for a device that uses host memory; its owner sets it before the first buffer. NULL: none */
    bl_budget *host;
    /* A device that runs kernels on this device's buffers until the driver has compiled them (engine/interp/interp_device.h). The
     * host must be able to access these buffers. The owner sets it before the first kernel, destroys it, and reopens both devices
     * together. NULL: none. Before a submission to one of the two devices, the caller waits for the other. */
    bl_device *stand_in;
};

/* ---- the wrappers: they check sizes, count memory, pass fault points and set their outputs to NULL on failure. They fill in the
 * public fields of new objects (only the back end sets |host| of a bl_buffer), and make a view of a view a view of the buffer. */
void bl_device_destroy(bl_device *dev);
BL_NODISCARD bl_status bl_device_reopen(bl_device *dev, bl_err *err);
/* Allocate |bytes|; 0 counts as 1. BL_ENODEVMEM if |bytes| exceeds max_alloc or the free memory. The contents are undefined:
 * the caller must write all of them. */
BL_NODISCARD bl_status bl_buffer_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err);
/* A part of |parent|, which the view retains. |offset| must be a multiple of info.alignment. */
BL_NODISCARD bl_status bl_buffer_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
bl_buffer *bl_buffer_retain(bl_buffer *buffer);
void bl_buffer_release(bl_buffer *buffer); /* accepts NULL */
/* Give the buffer a new version, because its contents change. Allocation and bl_buffer_write do so themselves. A caller that
 * lets a kernel or the host write into a buffer that was read before must call this. */
void bl_buffer_change(bl_buffer *buffer);
/* Mark the contents as lost: a submission that was writing the buffer failed. The buffer may then only be released, as after a
 * loss of the device. Worker thread only, also for bl_buffer_is_lost. */
void bl_buffer_lose(bl_buffer *buffer);
bool bl_buffer_is_lost(const bl_buffer *buffer);
BL_NODISCARD bl_status bl_buffer_write(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err);
BL_NODISCARD bl_status bl_buffer_read(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err);
/* Copy between two buffers of one device. No other thread may write either buffer meanwhile. */
BL_NODISCARD bl_status bl_buffer_copy(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err);
/* Write |bytes| zeros. */
BL_NODISCARD bl_status bl_buffer_clear(bl_buffer *to, size_t at, size_t bytes, bl_err *err);
BL_NODISCARD bl_status bl_kernel_create(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err);
void bl_kernel_destroy(bl_kernel *kernel);
/* Should |source| be compiled before bl_kernel_create: does the device have a cache on disk that lacks this kernel? */
bool bl_kernel_wants_compiling(bl_device *dev, const bl_kernel_source *source);
/* Compile |n| kernels into that cache, together if the driver is faster so. outcomes[i] is cleared, and set if kernel i does
 * not compile. A kernel that cannot be written to the cache is no failure: bl_kernel_create compiles it. */
void bl_kernels_compile(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes);
BL_NODISCARD bl_status bl_recording_create(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                                           bl_recording **out, bl_err *err);
void bl_recording_destroy(bl_recording *recording);
BL_NODISCARD bl_status bl_recording_submit(bl_recording *recording, const bl_submission *submission, bl_err *err);
BL_NODISCARD bl_status bl_device_wait(bl_device *dev, bl_err *err);

/* ---- the registry: one row per back end (main lists the rows; this folder depends on no back end) */
typedef struct bl_backend {
    const char *name; /* "opencl" */
    /* Open every usable device, at most |max|. Each device that is left out adds a line "name: reason\n" to |why|. If there is no
     * device, the result is BL_OK with *count 0. */
    bl_status (*open)(uint32_t max, bl_device **out, uint32_t *count, bl_text *why, bl_err *err);
} bl_backend;

extern const bl_backend bl_backend_opencl;
extern const bl_backend bl_backend_vulkan;
extern const bl_backend bl_backend_interp;
/* compiles and runs nothing: for tests of the code above the device, and as a template for a new back end */
extern const bl_backend bl_backend_null;

#endif
