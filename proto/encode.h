/* What the server answers, as JSON text.  Every function appends to |out| and fails only by bl_text_status.  Thread: any. */
#ifndef BL_PROTO_ENCODE_H
#define BL_PROTO_ENCODE_H

#include "engine/base/text.h"
#include "engine/ir/dtype.h"

/* In quotes, escaped; what is not UTF-8 becomes U+FFFD, so that the answer always is. */
void bl_encode_string(bl_text *out, const char *text);
void bl_encode_span(bl_text *out, bl_span text);
/* ,"name": with the comma where something stands before it in the object or array. */
void bl_encode_key(bl_text *out, const char *name);
/* Finite or not; whole numbers without a fraction. */
void bl_encode_number(bl_text *out, double value);
void bl_encode_u64(bl_text *out, uint64_t value);
/* ,"name":value for a measured or estimated value: rounded to thousandths, or to four digits if it is below one. */
void bl_encode_measured(bl_text *out, const char *name, double value);

/* A result in host memory. */
typedef struct bl_result {
    const char *name;
    bl_dtype dtype;
    int ndim;
    int64_t dim[16];
    size_t count;
    const void *data; /* NULL: only dtype and shape are written */
} bl_result;

/* {"dtype":"float32","shape":[2],"data":[12,30]} */
void bl_encode_tensor(bl_text *out, const bl_result *result);
/* {"s":{...},...}; |data|: with the numbers. */
void bl_encode_results(bl_text *out, const bl_result *results, size_t count, bool data);

typedef struct bl_run_stats {
    const char *device;
    bool cached; /* the plan */
    uint64_t kernels, helpers, interpreted, peak_bytes;
    uint64_t ops, bytes; /* of a run, or of one step: arithmetic and memory traffic, as counted in the kernels */
    double queue_ms, compile_ms, compute_ms, copy_ms, time_ms;
    const char *debug; /* lines, or NULL */
} bl_run_stats;

/* {"device":...,"kernels":...,"plan":"compiled",...} */
void bl_encode_stats(bl_text *out, const bl_run_stats *stats);

#endif
