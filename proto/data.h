/* SPDX-License-Identifier: MIT */
/* Tensors in files of other programs: raw bytes, NumPy's .npy, IDX (the format of MNIST), safetensors and CSV.
 *
 * A source says which tensor to find.  bl_data_find gives its dtype and shape and copies no element; bl_data_read writes the
 * elements to the caller's buffer.  Formats: numpy.org/doc/stable/reference/generated/numpy.lib.format.html (1.0 to 3.0); IDX,
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
    BL_DATA_IMAGES, /* a folder of pictures; server/data/ reads the folder, bl_data_find does not */
    BL_DATA_FORMATS
} bl_data_format;
extern const char *const bl_data_format_names[BL_DATA_FORMATS];

typedef struct bl_data_source {
    const char *blob, *file; /* exactly one is set: a digest, or a path below the data folder */
    bl_data_format format;   /* BL_DATA_FORMATS: determined by the file's name */
    bl_dtype dtype;          /* RAW, CSV; BL_DTYPE_COUNT if not given */
    int ndim;                /* RAW; -1: not given, one dimension with all elements */
    int64_t dim[16];
    uint64_t offset;      /* RAW: number of bytes before the first element */
    const char *name;     /* SAFETENSORS: name of the tensor */
    bool header;          /* CSV: the first line has names; true if not given */
    int ncolumns;         /* CSV: -1: all columns */
    const char **columns; /* CSV: names, or numbers from 0 as text */
    int ncategories;      /* CSV: columns of words, which the reader maps to numbers */
    const char **categories;
    int64_t height, width; /* IMAGES: size that every picture is scaled to; 0: all pictures have the same size */
    bool labels;           /* IMAGES: read the number of each picture's folder instead of its pixels */
} bl_data_source;

/* {"blob": DIGEST} or {"file": PATH}, with "format", "dtype", "shape", "offset", "name", "header", "columns", "categories",
 * "size" and "part"; a format accepts only its own members. */
BL_NODISCARD bl_status bl_decode_source(const bl_decode_env *env, const bl_json *doc, bl_data_source *out, bl_err *err);
/* The format that the extension of |path| implies; ".gz" is ignored.  BL_DATA_FORMATS if there is none. */
bl_data_format bl_data_format_of(const char *path);

/* A tensor within the bytes of a file; the bytes must outlive it. */
typedef struct bl_data {
    bl_data_format format;
    bl_dtype dtype;
    int ndim;
    int64_t dim[16];
    size_t count, bytes; /* number of elements; size of the tensor in bytes */
    bl_span body;        /* the elements as stored in the file, or the CSV lines */
    bool swapped;        /* elements are big-endian */
    bool fortran;        /* column-major order: the first index varies fastest */
    size_t line;         /* CSV: line number of the body's first line */
    int nfields;         /* CSV: fields per line */
    const int *columns;  /* CSV: field number of each column; ncolumns items */
    int ncolumns;
    const struct bl_words *const *words; /* CSV: words of column i, or NULL for numbers */
} bl_data;

BL_NODISCARD bl_status bl_data_find(bl_arena *arena, const bl_data_source *source, bl_span bytes, const bl_wire_limits *limits,
                                    bl_data *out, bl_err *err);
/* |out| has room for data->bytes. */
BL_NODISCARD bl_status bl_data_read(const bl_data *data, void *out, bl_err *err);

/* ---- csv.c */
BL_NODISCARD bl_status bl_csv_find(bl_arena *arena, const bl_data_source *source, bl_span bytes, bl_data *out, bl_err *err);
BL_NODISCARD bl_status bl_csv_read(const bl_data *data, void *out, bl_err *err);

#endif
