/* The safetensors format: 8 bytes of header length, a JSON header, the tensors.  Read strictly: no overlap, no gap, nothing past
 * the end, every range as long as its shape and dtype say.  Thread: any. */
#ifndef BL_PROTO_SAFETENSORS_H
#define BL_PROTO_SAFETENSORS_H

#include "proto/json.h"

enum { BL_SAFETENSORS_MAX_HEADER = 100000000 }; /* the format's own limit */

typedef struct bl_file_tensor {
    const char *name; /* any text; not yet checked against the API's pattern */
    bl_dtype dtype;
    int ndim;
    int64_t dim[16];
    size_t count, bytes;
    size_t offset;    /* from the end of the header */
    const char *data; /* in the body; NULL where only the header was given */
} bl_file_tensor;

typedef struct bl_file_text {
    const char *key, *value;
} bl_file_text;

typedef struct bl_tensor_file {
    size_t ntensors;
    bl_file_tensor *tensors; /* in the order of the header; arena */
    size_t ntexts;
    bl_file_text *texts; /* __metadata__ */
    size_t data_offset;  /* of the first tensor's bytes in the file */
} bl_tensor_file;

/* For a body that streams in: the length of the JSON header from the file's first 8 bytes, then the header itself with the number
 * of bytes that will follow it. */
BL_NODISCARD bl_status bl_safetensors_header_size(const void *first8, size_t *bytes, bl_err *err);
BL_NODISCARD bl_status bl_safetensors_parse(bl_arena *arena, bl_span header, size_t data_bytes, const bl_wire_limits *limits,
                                            bl_tensor_file *out, bl_err *err);
/* A whole file in memory, which must outlive |out|. */
BL_NODISCARD bl_status bl_safetensors_open(bl_arena *arena, bl_span body, const bl_wire_limits *limits, bl_tensor_file *out,
                                           bl_err *err);
/* The value of a key of __metadata__, or NULL. */
const char *bl_safetensors_text(const bl_tensor_file *file, const char *key);

/* Append what stands before the tensors: length and header, padded with spaces to a multiple of 8 bytes.  Uses name, dtype, ndim
 * and dim; the tensors' bytes follow in the same order without padding.  Fails only by |out|'s status. */
void bl_safetensors_write(bl_text *out, const bl_file_tensor *tensors, size_t ntensors, const bl_file_text *texts, size_t ntexts);

#endif
