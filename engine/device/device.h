/* The interface of a back end, and the wrappers through which all other code calls a back end. A back end implements
 * buffers, kernels, recordings and timings. A back end knows no tensor op, and includes engine/base and engine/device only.
 * Threads: any thread may call bl_buffer_alloc, retain, release and the functions of kernels (a back end locks its own
 * data). Only the device's worker thread may record, submit, write, read and wait. No lock is held across a driver call that
 * waits. A lost device fails every call with BL_EDEVICE until bl_device_reopen succeeds. Buffers and kernels that were made
 * before the loss may only be released: each object carries the generation of the device, and the wrappers reject objects of
 * an earlier generation. */
#ifndef BL_DEVICE_H
#define BL_DEVICE_H

#include "engine/base/text.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    BL_MAX_BINDINGS = 32,
    BL_MAX_SCALARS = 32, /* most scalars of a kernel: 128 bytes, the size of the push constants that every Vulkan device has */
    /* scalars of a function: the kernel that calls the functions is always launched with this number of scalars */
    BL_CALL_SCALARS = 8
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
    BL_FEATURE_EXACT = 16,
    BL_FEATURE_EXACT_EXP = 32 /* exp of 4, 8 or 16 float32 has the bits of its expansion in lower/elementary.c */
};

/* The kind of a matrix unit. A matrix unit multiplies small matrices in one instruction (c += a * b); the kind says how a
 * kernel uses the unit. */
typedef enum bl_unit_kind {
    BL_UNIT_COOPERATIVE, /* GLSL with GL_NV_cooperative_matrix, which the back end translates to the KHR extension */
    BL_UNIT_MMA,         /* OpenCL C with inline PTX: mma.sync */
    BL_UNIT_AMX,         /* OpenCL C with inline x86 assembly: AMX tiles */
    BL_UNIT_DOT          /* OpenCL C with inline x86 assembly: AVX512-BF16, a vector of sums of two products */
} bl_unit_kind;
/* dtype of a and b; sums are float32 or int32 */
typedef enum bl_unit_dtype { BL_UNIT_F16, BL_UNIT_BF16, BL_UNIT_I8, BL_UNIT_U8 } bl_unit_dtype;

/* One instruction of a unit: a is m by k, b is k by n. */
typedef struct bl_matrix_unit {
    bl_unit_kind kind;
    bl_unit_dtype dtype; /* dtype of a and b */
    uint8_t m, n, k;
    /* number of consecutive work-items of a group that execute the instruction together; 1: each work-item alone */
    uint8_t scope;
    /* over 1: b is read with this number of rows interleaved, and a by rows; 1: each of a and b is read by rows or by
     * columns */
    uint8_t group;
    /* multiply-adds of the unit in the time of one float32 multiply-add of a core's vector units, both at peak rate; 0:
     * unknown */
    uint8_t rate;
} bl_matrix_unit;

enum { BL_MAX_MATRIX_UNITS = 8 };

/* The instruction of DOT4 (alu.def) that kernels use. Without one, OpenCL kernels use AVX2 where the compiler has its builtins,
 * and others use plain arithmetic. */
typedef enum bl_dot4 {
    BL_DOT4_NONE,
    BL_DOT4_VNNI, /* vpdpbusd of AVX512-VNNI, for 4, 8 and 16 lanes */
    BL_DOT4_DP4A, /* dp4a of PTX, for scalars */
    BL_DOT4_SPIRV /* OpSUDot of SPV_KHR_integer_dot_product (dotPacked4x8 of GLSL), for scalars */
} bl_dot4;

/* The properties of a device. All choices of the compiler follow from these numbers; the compiler knows no device names. */
typedef struct bl_device_info {
    char id[32];      /* for instance "opencl:0" */
    char name[128];   /* name that the driver reports */
    char driver[128]; /* name and version of the driver: a part of the key of every entry of a disk cache */
    bl_device_type type;
    bl_dialect dialect;
    unsigned features;
    uint64_t memory;           /* bytes of device memory */
    uint64_t max_alloc;        /* largest size of a buffer in bytes */
    uint64_t max_binding;      /* largest size in bytes of a buffer that a kernel can access (lavapipe: 128 MiB) */
    uint32_t alignment;        /* required alignment in bytes of a view's offset in its buffer */
    uint32_t units;            /* number of cores or multiprocessors */
    uint32_t vector_bits;      /* native vector width in bits; 0: each work-item should use scalars */
    uint32_t max_lanes;        /* most lanes of a vector in the kernel language; 0: no limit */
    uint32_t registers;        /* vector registers of a work-item (16, 32, ...), as far as known */
    uint32_t cache_bytes;      /* cache of one core or multiprocessor in bytes (L2 of a core); 0: unknown */
    uint32_t last_cache_bytes; /* last-level cache in bytes, shared by all units; 0: unknown, or stores cannot bypass it */
    uint32_t subgroup;         /* work-items that execute in lockstep; 1 on a CPU device whose group is one work-item */
    uint32_t max_local;        /* most work-items of a group */
    uint32_t local_bytes;      /* local memory of a group in bytes */
    uint32_t max_groups[3];
    uint32_t max_bindings; /* most buffers of a kernel; 0: BL_MAX_BINDINGS */
    /* limit on the loop iterations of a work-item, summed over all loops, after which the driver ends the loops; 0: no limit */
    uint32_t max_turns;
    uint32_t nmatrix; /* number of entries of |matrix|; among units of one dtype the best unit comes first */
    bl_matrix_unit matrix[BL_MAX_MATRIX_UNITS];
    bl_dot4 dot4;
    bool host_memory; /* buffers can be mapped: host and device share memory */
    /* one core runs all work-items of a group, one after the other or in the lanes of its vectors: a barrier costs a pass
     * over all work-items, and local memory is no faster than a cache */
    bool serial_groups;
    bool converts_half; /* one instruction converts float16 to float32 exactly, subnormals included */
    bool masks;         /* vectors of 32-bit elements are loaded and stored under a mask of their lanes by one instruction */
    bool calls_kernels; /* a kernel whose groups are single work-items may be a function that a kernel of the back end calls */
    /* number of fragments for which a matrix unit has registers; 0: fragments use the registers of the work-items */
    uint32_t fragments;
    uint32_t mega_ops;   /* rough estimate: 10^6 arithmetic operations per second */
    uint32_t mega_bytes; /* rough estimate: 10^6 bytes of memory per second */
    uint32_t launch_ns;  /* nanoseconds of the submitting thread per launch of a recording, besides the work of the kernel */
    /* The limit for brief submissions: work that takes a core at most this number of nanoseconds would end before another
     * thread could be woken for it. 0: no submission is brief. */
    uint32_t brief_ns;
} bl_device_info;

typedef struct bl_device bl_device;

/* Device memory, reference-counted. |host| is the host address of the memory if the host can access it, else NULL. Host
 * writes are visible to work that is submitted later. Results are visible to the host after the host has waited for the
 * work. */
typedef struct bl_buffer {
    bl_device *dev;
    struct bl_buffer *parent; /* the buffer of which this buffer is a view; retained; NULL: not a view */
    size_t bytes;
    size_t offset; /* offset of a view in the parent */
    void *host;
    unsigned generation;
    uint64_t version; /* version of the contents, which changes whenever the contents change: see bl_buffer_change */
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
    const char *entry; /* name of the function: [a-z0-9_], made by the compiler, never taken from the wire */
    const char *text;  /* source text in the device's dialect */
    size_t len;
    const struct bl_linear *linear; /* the same kernel for the interpreter, since the interpreter does not read text */
    uint32_t nbuffers;              /* number of buffer parameters, which come first */
    uint32_t nscalars;              /* number of int32 parameters, which follow the buffers: values of named dimensions */
    uint32_t writes;                /* bit i: the kernel writes buffer i */
    uint32_t local[3];              /* work-items of a group, fixed at compile time */
    uint32_t local_bytes;           /* bytes of local memory; checked against the device's limit before any driver call */
    bool function; /* OpenCL C: the text is a function for the back end to call, not a kernel: see bl_render_source */
} bl_kernel_source;

/* One kernel launch in a recording. |slot| and |var| are indices into the slots and variables given at submission. */
typedef struct bl_launch {
    bl_kernel *kernel;
    uint16_t slot[BL_MAX_BINDINGS];
    uint16_t var[BL_MAX_SCALARS];
} bl_launch;

/* A sequence of launches, prepared once. Each launch reads the results of earlier launches. */
typedef struct bl_recording {
    bl_device *dev;
    uint32_t nlaunches, nslots, nvars;
    unsigned generation;
    /* if the last submission failed: true if some launches may have run, so that the buffers they write are undefined */
    bool begun;
} bl_recording;

/* The buffers and sizes of a submission. The buffers must live until the caller has waited for the submission. */
typedef struct bl_submission {
    bl_buffer *const *slots;     /* nslots buffers */
    const int32_t *vars;         /* nvars values */
    const uint32_t (*groups)[3]; /* number of work-groups of each launch; a launch with a 0 does nothing */
    /* NULL, or one entry per launch: device time, written when the caller waits for the submission (slower) */
    uint64_t *nanoseconds;
    bool brief; /* the submitting thread alone runs the launches, if info.brief_ns > 0 */
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
    /* in order with submissions; waits until the data is complete */
    bl_status (*read)(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err);
    /* Copy between two buffers, at least one of which the host cannot access. In order with submissions; complete on return.
     * NULL: the wrapper copies through host memory. */
    bl_status (*copy)(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err);
    bl_status (*kernel)(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err);
    void (*kernel_destroy)(bl_kernel *kernel);
    /* Optional, both or neither. |compile|: compile kernels into the cache on disk from which |kernel| loads them, in this
     * process or in another; several kernels at once if that is cheaper. outcomes[i] is a failure to compile source i.
     * |is_compiled|: does the cache have the kernel? |is_compiled| does not call the driver. */
    void (*compile)(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes);
    bool (*is_compiled)(bl_device *dev, const bl_kernel_source *source);
    bl_status (*record)(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                        bl_recording **out, bl_err *err);
    void (*recording_destroy)(bl_recording *recording);
    /* Does not wait, except for a brief submission and on a device that calls functions directly (opencl/cl_team.h). On failure
     * no work is in flight, and recording->begun tells whether a launch had begun. */
    bl_status (*submit)(bl_recording *recording, const bl_submission *submission, bl_err *err);
    bl_status (*wait)(bl_device *dev, bl_err *err); /* wait for all submitted work */
    /* Optional. The driver's assembly of a kernel, for DEBUG=7. The caller frees the text. */
    char *(*disassemble)(bl_kernel *kernel);
} bl_device_ops;

struct bl_device {
    const bl_device_ops *ops;
    bl_device_info info;
    atomic_bool lost;         /* the back end sets the flag when the driver reports the loss of the device */
    atomic_uint generation;   /* number of times the device was reopened */
    atomic_ullong versions;   /* number of buffer versions handed out */
    atomic_size_t bytes_used; /* bytes of live buffers; the wrappers count them */
    atomic_size_t bytes_peak;
    /* the budget of host memory, for a device that uses host memory; the owner of the device sets it before the first
     * buffer. NULL: none */
    bl_budget *host;
    /* A device that runs kernels on the buffers of this device until the driver has compiled the kernels
     * (engine/interp/interp_device.h). The host must be able to access these buffers. The owner sets the stand-in before the
     * first kernel, destroys it, and reopens both devices together. NULL: none. Before a submission to one of the two
     * devices, the caller waits for the other device. */
    bl_device *stand_in;
};

/* ---- the wrappers.  Wrappers check sizes, count memory, pass fault points and set their outputs to NULL on failure.
 * Wrappers fill in the public fields of new objects (only the back end sets |host| of a bl_buffer), and make a view of a
 * view a view of the buffer. */
void bl_device_destroy(bl_device *dev);
BL_NODISCARD bl_status bl_device_reopen(bl_device *dev, bl_err *err);
/* Allocate |bytes|; 0 counts as 1. BL_ENODEVMEM if |bytes| exceeds max_alloc or the free memory. The contents are undefined:
 * the caller must write all bytes. */
BL_NODISCARD bl_status bl_buffer_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err);
/* A view of a part of |parent|; the view retains |parent|. |offset| must be a multiple of info.alignment. */
BL_NODISCARD bl_status bl_buffer_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
bl_buffer *bl_buffer_retain(bl_buffer *buffer);
void bl_buffer_release(bl_buffer *buffer); /* accepts NULL */
/* Give the buffer a new version, because its contents change. Allocation and bl_buffer_write give a new version themselves.
 * A caller that lets a kernel or the host write into a buffer that was read before must call this function. */
void bl_buffer_change(bl_buffer *buffer);
/* Mark the contents as lost, because a submission that was writing the buffer failed. The buffer may then only be released,
 * as after a loss of the device. Thread: worker only, also for bl_buffer_is_lost. */
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
/* Compile |n| kernels into the disk cache, together if the driver is faster so. outcomes[i] is cleared, and set if kernel i
 * does not compile. A kernel that cannot be written to the cache is no failure: bl_kernel_create compiles that kernel. */
void bl_kernels_compile(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes);
BL_NODISCARD bl_status bl_recording_create(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                                           bl_recording **out, bl_err *err);
void bl_recording_destroy(bl_recording *recording);
BL_NODISCARD bl_status bl_recording_submit(bl_recording *recording, const bl_submission *submission, bl_err *err);
BL_NODISCARD bl_status bl_device_wait(bl_device *dev, bl_err *err);

/* ---- the registry: one row per back end. main lists the rows, since this folder depends on no back end */
typedef struct bl_backend {
    const char *name; /* for instance "opencl" */
    /* Open every usable device, at most |max| devices. Each device that is not opened adds a line "name: reason
     * " to |why|. If there is no device, the result is BL_OK with *count 0. */
    bl_status (*open)(uint32_t max, bl_device **out, uint32_t *count, bl_text *why, bl_err *err);
} bl_backend;

extern const bl_backend bl_backend_opencl;
extern const bl_backend bl_backend_vulkan;
extern const bl_backend bl_backend_interp;
/* The null back end compiles and runs nothing. Tests of the code above the device use it, and a new back end can start from
 * it. */
extern const bl_backend bl_backend_null;

#endif
