/* SPDX-License-Identifier: MIT */
/* Reads the GGUF format, versions 2 and 3 (ggml's docs/gguf.md): metadata keys with typed values, then tensors.  A large
 * model is split into several files; the first file has the metadata.
 *
 * The reader copies the metadata and the list of tensors.  The data of tensors are views into the files' bytes, which are
 * usually mapped and must outlive the bl_gguf.  The reader checks each count, length, offset and size against the file
 * before it uses the number, so every view is readable.  A malformed file is BL_EINVAL; a big-endian file, another version
 * and an unsupported type of tensor are BL_EUNSUPPORTED.  Errors name the key or the tensor.  A bl_gguf lives in its arena
 * and is immutable.  Thread: any. */
#ifndef BL_PROTO_GGUF_H
#define BL_PROTO_GGUF_H

#include "engine/base/arena.h"
#include "engine/base/text.h"

typedef enum bl_ggml_id {
#define BL_GGML(id, number, name, elements, bytes) BL_GGML_##id = (number),
#include "proto/gguf/types.def"
#undef BL_GGML
} bl_ggml_id;

/* A row of types.def. */
typedef struct bl_ggml_type {
    bl_ggml_id id;
    const char *name;
    int elements, bytes; /* size of a block; bytes 0: the type is unsupported */
} bl_ggml_type;
const bl_ggml_type *bl_ggml_type_find(int64_t number); /* by ggml's number; NULL: no such type */

enum { BL_GGUF_DIMS = 4 };

typedef struct bl_gguf_tensor {
    bl_span name;
    const bl_ggml_type *type;
    int ndim;
    int64_t dim[BL_GGUF_DIMS]; /* order of the file: dim[0] is contiguous and a multiple of a block; 1 from |ndim| on */
    bl_span data;
} bl_gguf_tensor;

/* The types of values; the numbers are those of the format. */
typedef enum bl_gguf_kind {
    BL_GGUF_U8,
    BL_GGUF_I8,
    BL_GGUF_U16,
    BL_GGUF_I16,
    BL_GGUF_U32,
    BL_GGUF_I32,
    BL_GGUF_F32,
    BL_GGUF_BOOL,
    BL_GGUF_TEXT,
    BL_GGUF_ARRAY,
    BL_GGUF_U64,
    BL_GGUF_I64,
    BL_GGUF_F64,
    BL_GGUF_KIND_COUNT
} bl_gguf_kind;

/* |count| elements of one kind; |kind| is never ARRAY.  A single value has |count| 1 and is_array false. */
typedef struct bl_gguf_values {
    bl_gguf_kind kind;
    bool is_array;
    size_t count;
    bl_span data; /* as stored in the file, unaligned, little-endian; a text is its length in 8 bytes, then its bytes */
} bl_gguf_values;

typedef struct bl_gguf bl_gguf;

/* |files|: one file, or all parts of a split file in order.  |files| and |arena| must outlive *out. */
BL_NODISCARD bl_status bl_gguf_open(bl_arena *arena, const bl_span *files, int nfiles, bl_gguf **out, bl_err *err);
/* Whether |name| is the name of a part of a split file, such as "model-00002-of-00004.gguf".  For this name |*stem| is the
 * length of "model", |*no| is 2 and |*count| is 4.  If false, the outputs are unchanged. */
bool bl_gguf_part_name(bl_span name, size_t *stem, int *no, int *count);

const bl_gguf_tensor *bl_gguf_tensors(const bl_gguf *gguf, size_t *count);
const bl_gguf_tensor *bl_gguf_find_tensor(const bl_gguf *gguf, bl_span name); /* NULL: no such tensor */

size_t bl_gguf_key_count(const bl_gguf *gguf);
bl_span bl_gguf_key(const bl_gguf *gguf, size_t at, bl_gguf_values *out);     /* |at| is below the count */
bool bl_gguf_find(const bl_gguf *gguf, const char *key, bl_gguf_values *out); /* false: no such key; *out is unchanged */

/* Reads the single value of a key.  False, with *out unchanged, if the key is missing, is an array, or has another kind.
 * bl_gguf_u64 and bl_gguf_i64 read integers of any size within the range of the result; bl_gguf_f64 reads floats and
 * integers. */
bool bl_gguf_u64(const bl_gguf *gguf, const char *key, uint64_t *out);
bool bl_gguf_i64(const bl_gguf *gguf, const char *key, int64_t *out);
bool bl_gguf_f64(const bl_gguf *gguf, const char *key, double *out);
bool bl_gguf_bool(const bl_gguf *gguf, const char *key, bool *out);
bool bl_gguf_text(const bl_gguf *gguf, const char *key, bl_span *out);
/* Finds an array of texts if |texts|, else an array of numbers or bools. */
bool bl_gguf_array(const bl_gguf *gguf, const char *key, bool texts, bl_gguf_values *out);

/* Reads element |at| of values that are no texts, with the rules above; |at| is below the count. */
bool bl_gguf_i64_at(const bl_gguf_values *values, size_t at, int64_t *out);
bool bl_gguf_f64_at(const bl_gguf_values *values, size_t at, double *out);
bool bl_gguf_bool_at(const bl_gguf_values *values, size_t at, bool *out);
/* Reads the next text; start with |*place| 0.  False at the end, and if the values are no texts. */
bool bl_gguf_next_text(const bl_gguf_values *values, size_t *place, bl_span *out);

/* Reads a required key.  The error BL_EINVAL says that the key is missing, or which kind the key has. */
BL_NODISCARD bl_status bl_gguf_need_u64(const bl_gguf *gguf, const char *key, uint64_t *out, bl_err *err);
BL_NODISCARD bl_status bl_gguf_need_f64(const bl_gguf *gguf, const char *key, double *out, bl_err *err);
BL_NODISCARD bl_status bl_gguf_need_text(const bl_gguf *gguf, const char *key, bl_span *out, bl_err *err);

#endif
