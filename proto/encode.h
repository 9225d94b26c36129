/* Writes the server's answers as JSON text.  Every function appends to |out|; check bl_text_status for failures.  Thread: any. */
#ifndef BL_PROTO_ENCODE_H
#define BL_PROTO_ENCODE_H

#include "engine/base/text.h"
#include "engine/ir/dtype.h"

/* Appends an escaped string with its quotes.  Replaces invalid UTF-8 by U+FFFD, so that the answer is always valid UTF-8. */
void bl_encode_string(bl_text *out, const char *text);
void bl_encode_span(bl_text *out, bl_span text);
/* Appends "name":, after a comma unless it is the first member of its object or array. */
void bl_encode_key(bl_text *out, const char *name);
/* |value| may be non-finite; whole numbers have no fraction. */
void bl_encode_number(bl_text *out, double value);
void bl_encode_u64(bl_text *out, uint64_t value);
/* Appends ,"name":value for a measurement or an estimate, rounded to thousandths, or to four significant digits below one. */
void bl_encode_measured(bl_text *out, const char *name, double value);

/* A result in host memory. */
typedef struct bl_result {
    const char *name;
    bl_dtype dtype;
    int ndim;
    int64_t dim[16];
    size_t count;
    const void *data; /* NULL: write only dtype and shape */
} bl_result;

/* {"dtype":"float32","shape":[2],"data":[12,30]} */
void bl_encode_tensor(bl_text *out, const bl_result *result);
/* {"s":{...},...}; |data|: include the elements. */
void bl_encode_results(bl_text *out, const bl_result *results, size_t count, bool data);

typedef struct bl_run_stats {
    const char *device;
    bool cached; /* the plan came from the cache */
    uint64_t kernels, helpers, interpreted, peak_bytes;
    uint64_t ops, bytes; /* arithmetic operations and memory traffic of a run or of one step, counted in the kernels */
    double queue_ms, compile_ms, compute_ms, copy_ms, time_ms;
    const char *debug; /* debug lines, or NULL */
} bl_run_stats;

/* {"device":...,"kernels":...,"plan":"compiled",...} */
void bl_encode_stats(bl_text *out, const bl_run_stats *stats);

#endif
