/* Element types: names, sizes, and the exact value of each bit pattern. */
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
    BL_DTYPE_WIRE = BL_INDEX /* dtypes below this one are allowed on the wire */
} bl_dtype;

typedef enum bl_dtype_kind { BL_KIND_BOOL, BL_KIND_INT, BL_KIND_UINT, BL_KIND_FLOAT } bl_dtype_kind;

/* How a sum of products of float32 may be computed. The values and their names are those of PyTorch's
 * torch.set_float32_matmul_precision. */
typedef enum bl_precision {
    BL_PRECISION_HIGHEST, /* products of float32 */
    BL_PRECISION_HIGH /* or three products of bfloat16 for each, on devices whose matrix units make that faster (matrix_unit.h) */
} bl_precision;

/* |name| is "highest" or "high". False if it is another word. */
bool bl_precision_from_name(const char *name, bl_precision *out);

const char *bl_dtype_name(bl_dtype dtype); /* "float32" */
const char *bl_dtype_code(bl_dtype dtype); /* the name in safetensors files, for instance "F32" */
size_t bl_dtype_bytes(bl_dtype dtype);
/* Largest size in bytes of an element in local memory: narrow floats are held there in the type in which they are computed. */
size_t bl_dtype_local_bytes(bl_dtype dtype);
bl_dtype_kind bl_dtype_get_kind(bl_dtype dtype);
bool bl_dtype_is_float(bl_dtype dtype);
bool bl_dtype_is_int(bl_dtype dtype); /* signed or unsigned, not bool */
bool bl_dtype_is_float8(bl_dtype dtype);
bool bl_dtype_is_narrow(bl_dtype dtype); /* a float of 8 or 16 bits: computed in float32 */
/* The dtype of a name or of a safetensors code. BL_DTYPE_COUNT if no dtype of the wire has that name. */
bl_dtype bl_dtype_from_name(const char *name, size_t len);
bl_dtype bl_dtype_from_code(const char *code, size_t len);
/* Offer the names of the wire's dtypes to |near|, to find the one nearest to the unknown |name|. */
void bl_dtype_near(bl_near *near, bl_span name);

/* One value. |f| holds a float of any width, exactly, as a double. |i| holds a signed integer or an INDEX. |u| holds an
 * unsigned integer or a bool (0 or 1). */
typedef union bl_scalar {
    double f;
    int64_t i;
    uint64_t u;
} bl_scalar;

/* Round or wrap a value so that |dtype| can hold it. Floats round to nearest even; NaN stays NaN; overflow gives infinity, or
 * NaN in float8_e4m3. Integers wrap modulo 2^bits. A bool becomes 0 or 1. */
bl_scalar bl_scalar_fit(bl_dtype dtype, bl_scalar value);
/* Convert as C does, but with every case defined. Float to integer truncates, saturates at the bounds, and maps NaN to 0. Any
 * value to bool tests for "not zero". Integers wrap. Integer to float rounds to nearest even. */
bl_scalar bl_scalar_cast(bl_dtype to, bl_dtype from, bl_scalar value);
/* Read or write one element: bl_dtype_bytes(dtype) bytes, little-endian. */
bl_scalar bl_scalar_read(bl_dtype dtype, const void *bytes);
void bl_scalar_write(bl_dtype dtype, bl_scalar value, void *bytes);
/* Read |count| elements of a float dtype; round each to float32. */
void bl_floats_read(bl_dtype dtype, const void *bytes, size_t count, float *out);
/* The smallest and the largest value, which are the identities of max and min: -inf and +inf for floats, but -448 and 448 for
 * float8_e4m3. */
bl_scalar bl_scalar_lowest(bl_dtype dtype);
bl_scalar bl_scalar_highest(bl_dtype dtype);

uint16_t bl_f16_from_f64(double value); /* rounds once, to nearest even */
uint16_t bl_bf16_from_f64(double value);

#endif
