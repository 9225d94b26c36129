/* The safetensors format: 8 bytes of header length, a JSON header, the tensors.  The reader is strict: tensors may not overlap,
 * leave a gap or pass the end of the file, and each range must match its shape and dtype.  Thread: any. */
#ifndef BL_PROTO_SAFETENSORS_H
#define BL_PROTO_SAFETENSORS_H

#include "proto/json.h"

enum { BL_SAFETENSORS_MAX_HEADER = 100000000 }; /* the format's own limit */

typedef struct bl_file_tensor {
    const char *name; /* any text; not checked against the API's name pattern */
    bl_dtype dtype;
    int ndim;
    int64_t dim[16];
    size_t count, bytes;
    size_t offset;    /* from the end of the header */
    const char *data; /* in the body; NULL if only the header is present */
} bl_file_tensor;

typedef struct bl_file_text {
    const char *key, *value;
} bl_file_text;

typedef struct bl_tensor_file {
    size_t ntensors;
    bl_file_tensor *tensors; /* in the order of the header; in the arena */
    size_t ntexts;
    bl_file_text *texts; /* the entries of __metadata__ */
    size_t data_offset;  /* offset of the first tensor's bytes in the file */
} bl_tensor_file;

/* For a streamed body: reads the length of the JSON header from the file's first 8 bytes.  bl_safetensors_parse then reads the
 * header; |data_bytes| is the number of bytes after the header. */
BL_NODISCARD bl_status bl_safetensors_header_size(const void *first8, size_t *bytes, bl_err *err);
BL_NODISCARD bl_status bl_safetensors_parse(bl_arena *arena, bl_span header, size_t data_bytes, const bl_wire_limits *limits,
                                            bl_tensor_file *out, bl_err *err);
/* Reads a whole file in memory; the file must outlive |out|. */
BL_NODISCARD bl_status bl_safetensors_open(bl_arena *arena, bl_span body, const bl_wire_limits *limits, bl_tensor_file *out,
                                           bl_err *err);
/* The value of a key of __metadata__, or NULL. */
const char *bl_safetensors_text(const bl_tensor_file *file, const char *key);

/* Appends the header length and the header, padded with spaces to a multiple of 8 bytes.  Uses name, dtype, ndim and dim of the
 * tensors; the caller writes their bytes in the same order without padding.  Check |out|'s status for failures. */
void bl_safetensors_write(bl_text *out, const bl_file_tensor *tensors, size_t ntensors, const bl_file_text *texts, size_t ntexts);

#endif
