/* Element types: names, sizes, and the exact meaning of a value as bits. */
#ifndef BL_IR_DTYPE_H
#define BL_IR_DTYPE_H

#include "engine/base/near.h"
#include "engine/base/status.h"

#include <stdint.h>

typedef enum bl_dtype {
#define BL_DTYPE(id, name, bytes, kind, code, cl, glsl) BL_##id,
#include "engine/ir/dtypes.def"
#undef BL_DTYPE
    BL_DTYPE_COUNT,
    BL_DTYPE_WIRE = BL_INDEX /* those below it may stand on the wire */
} bl_dtype;

typedef enum bl_dtype_kind { BL_KIND_BOOL, BL_KIND_INT, BL_KIND_UINT, BL_KIND_FLOAT } bl_dtype_kind;

/* What a sum of products of float32 may be computed of: PyTorch's torch.set_float32_matmul_precision, and its words. */
typedef enum bl_precision {
    BL_PRECISION_HIGHEST, /* of them */
    BL_PRECISION_HIGH     /* or of products of bfloat16, three for each, where units for these are faster (matrix.h) */
} bl_precision;

/* "highest" or "high"; false where it is another word. */
bool bl_precision_from_name(const char *name, bl_precision *out);

const char *bl_dtype_name(bl_dtype dtype); /* "float32" */
const char *bl_dtype_code(bl_dtype dtype); /* safetensors: "F32" */
size_t bl_dtype_bytes(bl_dtype dtype);
/* Bytes of an element in local memory, at the most: narrow ones stand there as they are computed. */
size_t bl_dtype_local_bytes(bl_dtype dtype);
bl_dtype_kind bl_dtype_get_kind(bl_dtype dtype);
bool bl_dtype_is_float(bl_dtype dtype);
bool bl_dtype_is_int(bl_dtype dtype); /* signed or unsigned, not bool */
bool bl_dtype_is_float8(bl_dtype dtype);
bool bl_dtype_is_narrow(bl_dtype dtype); /* a float of 8 or 16 bits: computed in float32 */
/* BL_DTYPE_COUNT where no such name or code stands on the wire. */
bl_dtype bl_dtype_from_name(const char *name, size_t len);
bl_dtype bl_dtype_from_code(const char *code, size_t len);
/* The dtype of the wire whose name is nearest to the unknown |name|. */
void bl_dtype_near(bl_near *near, bl_span name);

/* One value.  Floats of every width are held as the double they equal exactly; signed integers and INDEX in i,
 * unsigned ones and bool (0 or 1) in u. */
typedef union bl_scalar {
    double f;
    int64_t i;
    uint64_t u;
} bl_scalar;

/* Round or wrap a value so that |dtype| can hold it: floats to nearest even (NaN stays NaN, overflow is infinite, or NaN in
 * float8_e4m3), integers modulo 2^bits, bool to 0 or 1. */
bl_scalar bl_scalar_fit(bl_dtype dtype, bl_scalar value);
/* C's conversion made total: float to integer truncates, saturates at the bounds and takes NaN to 0;
 * anything to bool is "not zero"; integers wrap; integer to float rounds to nearest even. */
bl_scalar bl_scalar_cast(bl_dtype to, bl_dtype from, bl_scalar value);
/* Little-endian bytes of an element, bl_dtype_bytes long. */
bl_scalar bl_scalar_read(bl_dtype dtype, const void *bytes);
void bl_scalar_write(bl_dtype dtype, bl_scalar value, void *bytes);
/* |count| elements of a float dtype, each rounded to float. */
void bl_floats_read(bl_dtype dtype, const void *bytes, size_t count, float *out);
/* Smallest and largest value (for floats -inf and +inf, but -448 and 448 for float8_e4m3): the identities of max and min. */
bl_scalar bl_scalar_lowest(bl_dtype dtype);
bl_scalar bl_scalar_highest(bl_dtype dtype);

uint16_t bl_f16_from_f64(double value); /* nearest even, directly from double */
uint16_t bl_bf16_from_f64(double value);

#endif
