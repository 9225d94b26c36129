/* SPDX-License-Identifier: MIT */
/* Tensors in files of other programs: raw bytes, NumPy's .npy, IDX (as MNIST has it), safetensors and CSV.
 *
 * A source says what to look for; |find| gives its dtype and shape from the bytes, which stay where they are, and |read| writes
 * the elements where they are wanted.  Formats: numpy.org/doc/stable/reference/generated/numpy.lib.format.html (1.0 to 3.0); IDX,
 * yann.lecun.com/exdb/mnist; CSV, RFC 4180.  Thread: any. */
#ifndef BL_PROTO_DATA_H
#define BL_PROTO_DATA_H

#include "proto/decode.h"

typedef enum bl_data_format {
    BL_DATA_RAW,
    BL_DATA_NPY,
    BL_DATA_IDX,
    BL_DATA_SAFETENSORS,
    BL_DATA_CSV,
    BL_DATA_IMAGES, /* a folder of pictures, which is not found in bytes: server/data/ */
    BL_DATA_FORMATS
} bl_data_format;
extern const char *const bl_data_format_names[BL_DATA_FORMATS];

typedef struct bl_data_source {
    const char *blob, *file; /* one of them: a digest, or a path below the data folder */
    bl_data_format format;   /* BL_DATA_FORMATS: by the file's name */
    bl_dtype dtype;          /* RAW, CSV; BL_DTYPE_COUNT where not given */
    int ndim;                /* RAW; -1: not given, one dimension with all there is */
    int64_t dim[16];
    uint64_t offset;      /* RAW: bytes before the first element */
    const char *name;     /* SAFETENSORS: of the tensor */
    bool header;          /* CSV: the first line has names; true where not given */
    int ncolumns;         /* CSV: -1: all */
    const char **columns; /* CSV: names, or numbers from 0 as text */
    int ncategories;      /* CSV: columns of words, which become numbers */
    const char **categories;
    int64_t height, width; /* IMAGES: what all are scaled to; 0: they have one size */
    bool labels;           /* IMAGES: the number of each one's folder, in place of the pixels */
} bl_data_source;

/* {"blob": DIGEST} or {"file": PATH} with "format", "dtype", "shape", "offset", "name", "header", "columns", "categories",
 * "size", "part", as far as the format knows them. */
BL_NODISCARD bl_status bl_decode_source(const bl_decode_env *env, const bl_json *doc, bl_data_source *out, bl_err *err);
/* The format that the end of a name tells, ".gz" aside; BL_DATA_FORMATS where none. */
bl_data_format bl_data_format_of(const char *path);

/* A tensor in bytes, which must outlive it. */
typedef struct bl_data {
    bl_data_format format;
    bl_dtype dtype;
    int ndim;
    int64_t dim[16];
    size_t count, bytes; /* elements; of them as a tensor */
    bl_span body;        /* the elements as they lie there, or the lines */
    bool swapped;        /* big-endian */
    bool fortran;        /* the first index runs fastest */
    size_t line;         /* CSV: the number of the body's first */
    int nfields;         /* CSV: of a line */
    const int *columns;  /* CSV: which field is column i; ncolumns of them */
    int ncolumns;
    const struct bl_words *const *words; /* CSV: of column i, or NULL: numbers */
} bl_data;

BL_NODISCARD bl_status bl_data_find(bl_arena *arena, const bl_data_source *source, bl_span bytes, const bl_wire_limits *limits,
                                    bl_data *out, bl_err *err);
/* |out| has room for data->bytes. */
BL_NODISCARD bl_status bl_data_read(const bl_data *data, void *out, bl_err *err);

/* ---- csv.c */
BL_NODISCARD bl_status bl_csv_find(bl_arena *arena, const bl_data_source *source, bl_span bytes, bl_data *out, bl_err *err);
BL_NODISCARD bl_status bl_csv_read(const bl_data *data, void *out, bl_err *err);

#endif
