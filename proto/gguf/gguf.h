/* SPDX-License-Identifier: MIT */
/* The GGUF format, versions 2 and 3: metadata keys with typed values, then tensors.  A large model is split into several files,
 * of which the first one has the metadata.
 *
 * Metadata and the list of tensors are copied; tensors are views into the files' bytes, which are usually mapped and must outlive
 * the bl_gguf.  Each count, length, offset and size is checked against the file before it is used, so that every view is
 * readable; what is not well-formed is BL_EINVAL, a big-endian file, another version or another type of tensor BL_EUNSUPPORTED,
 * both with the name of the key or tensor.  A bl_gguf lives in its arena and is constant: any thread. */
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
    int elements, bytes; /* of a block; 0: no tensor of this type is read */
} bl_ggml_type;
const bl_ggml_type *bl_ggml_type_find(int64_t number); /* NULL: ggml has no such type */

enum { BL_GGUF_DIMS = 4 };

typedef struct bl_gguf_tensor {
    bl_span name;
    const bl_ggml_type *type;
    int ndim;
    int64_t dim[BL_GGUF_DIMS]; /* in the order of the file: dim[0] is contiguous and whole blocks; 1 from |ndim| on */
    bl_span data;
} bl_gguf_tensor;

/* The types of values, with the file's numbers. */
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

/* |count| elements of one kind, which is never ARRAY.  A value that is no array is an array of one here. */
typedef struct bl_gguf_values {
    bl_gguf_kind kind;
    bool is_array;
    size_t count;
    bl_span data; /* as the file has them: not aligned; a text is its length in 8 bytes, then its bytes */
} bl_gguf_values;

typedef struct bl_gguf bl_gguf;

/* |files|: a file, or all parts of a split one in their order.  They and |arena| must outlive *out. */
BL_NODISCARD bl_status bl_gguf_open(bl_arena *arena, const bl_span *files, int nfiles, bl_gguf **out, bl_err *err);
/* Is |name| that of a part of a split file, such as "model-00002-of-00004.gguf"?  |*stem|: the length of "model"; *no: 2.
 * The outputs of another name stay as they are. */
bool bl_gguf_part_name(bl_span name, size_t *stem, int *no, int *count);

const bl_gguf_tensor *bl_gguf_tensors(const bl_gguf *gguf, size_t *count);
const bl_gguf_tensor *bl_gguf_find_tensor(const bl_gguf *gguf, bl_span name); /* NULL: there is none */

size_t bl_gguf_key_count(const bl_gguf *gguf);
bl_span bl_gguf_key(const bl_gguf *gguf, size_t at, bl_gguf_values *out); /* |at| below the count */
bool bl_gguf_find(const bl_gguf *gguf, const char *key, bl_gguf_values *out);

/* The value of a key: false, and *out as it was, where the key is missing, an array or of a kind that does not fit: a number with
 * a fraction or out of range for an integer, anything but a number for a float. */
bool bl_gguf_u64(const bl_gguf *gguf, const char *key, uint64_t *out);
bool bl_gguf_i64(const bl_gguf *gguf, const char *key, int64_t *out);
bool bl_gguf_f64(const bl_gguf *gguf, const char *key, double *out);
bool bl_gguf_bool(const bl_gguf *gguf, const char *key, bool *out);
bool bl_gguf_text(const bl_gguf *gguf, const char *key, bl_span *out);
/* An array of texts, or of numbers. */
bool bl_gguf_array(const bl_gguf *gguf, const char *key, bool texts, bl_gguf_values *out);

/* Element |at|, which is below the count, of values that are no texts; the rules are those of the keys above. */
bool bl_gguf_i64_at(const bl_gguf_values *values, size_t at, int64_t *out);
bool bl_gguf_f64_at(const bl_gguf_values *values, size_t at, double *out);
bool bl_gguf_bool_at(const bl_gguf_values *values, size_t at, bool *out);
/* Texts come one after the other: |*place| is 0 at first, and false says that there are no more. */
bool bl_gguf_next_text(const bl_gguf_values *values, size_t *place, bl_span *out);

/* For an importer that cannot do without: BL_EINVAL says whether the key is missing, or of which kind it is. */
BL_NODISCARD bl_status bl_gguf_need_u64(const bl_gguf *gguf, const char *key, uint64_t *out, bl_err *err);
BL_NODISCARD bl_status bl_gguf_need_f64(const bl_gguf *gguf, const char *key, double *out, bl_err *err);
BL_NODISCARD bl_status bl_gguf_need_text(const bl_gguf *gguf, const char *key, bl_span *out, bl_err *err);

#endif
