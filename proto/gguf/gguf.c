/* SPDX-License-Identifier: MIT */
#include "proto/gguf/gguf.h"

#include "engine/base/map.h"
#include "engine/base/size.h"
#include "proto/utf8.h"

#include <endian.h>
#include <math.h>
#include <string.h>

enum {
    MAGIC_BYTES = 4,
    OLDEST_VERSION = 2,
    NEWEST_VERSION = 3,
    ALIGNMENT = 32,         /* the default of general.alignment */
    MOST_ALIGNMENT = 65536, /* the largest page size of any processor */
    LONGEST_KEY = 65535,    /* the format's limit */
    LONGEST_NAME = 64,      /* of the name of a tensor; the format's limit */
    MOST_FILES = 65535,     /* split.count has 16 bits */
    KEY_BYTES = 8 + 4 + 1,  /* least bytes of a key: length, kind and value; bounds the number of keys before allocation */
    TENSOR_BYTES = 8 + 4 + 4 + 8
};

typedef struct key {
    bl_span name;
    bl_gguf_values values;
} key;

/* A hash table from names to positions in a list. */
typedef struct index {
    size_t slots;   /* a power of two */
    uint32_t *slot; /* a position + 1; 0: free */
} name_index;

struct bl_gguf {
    size_t nkeys, ntensors;
    key *keys;
    bl_gguf_tensor *tensors;
    name_index by_key, by_tensor;
};

/* ---- types */

const bl_ggml_type *bl_ggml_type_find(int64_t number)
{
    static const bl_ggml_type types[] = {
#define BL_GGML(id, number, name, elements, bytes) {BL_GGML_##id, name, elements, bytes},
#include "proto/gguf/types.def"
#undef BL_GGML
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if ((int64_t)types[i].id == number)
            return &types[i];
    return NULL;
}

static const struct {
    const char *name;
    size_t bytes; /* 0: the value has its own length */
} kinds[BL_GGUF_KIND_COUNT] = {
    [BL_GGUF_U8] = {"uint8", 1},    [BL_GGUF_I8] = {"int8", 1},     [BL_GGUF_U16] = {"uint16", 2},  [BL_GGUF_I16] = {"int16", 2},
    [BL_GGUF_U32] = {"uint32", 4},  [BL_GGUF_I32] = {"int32", 4},   [BL_GGUF_F32] = {"float32", 4}, [BL_GGUF_BOOL] = {"bool", 1},
    [BL_GGUF_TEXT] = {"string", 0}, [BL_GGUF_ARRAY] = {"array", 0}, [BL_GGUF_U64] = {"uint64", 8},  [BL_GGUF_I64] = {"int64", 8},
    [BL_GGUF_F64] = {"float64", 8}};

/* ---- names */

static bool gguf_make_index(bl_arena *arena, size_t count, name_index *out)
{
    for (out->slots = 16; out->slots < count * 2; out->slots *= 2)
        ;
    out->slot = bl_arena_array(arena, out->slots, sizeof *out->slot);
    return out->slot != NULL;
}

static bl_span name_at(const void *list, size_t stride, uint32_t at)
{
    bl_span name;
    memcpy(&name, (const char *)list + stride * at, sizeof name); /* |name| is the first member of key and bl_gguf_tensor */
    return name;
}

/* Returns the slot of |name|; the slot is free if no item of the list has the name. */
static uint32_t *gguf_find_slot(const name_index *index, const void *list, size_t stride, bl_span name)
{
    size_t mask = index->slots - 1, at = bl_hash_bytes(name.data, name.len, 1) & mask;
    while (index->slot[at] != 0 && !bl_span_eq(name_at(list, stride, index->slot[at] - 1), name))
        at = (at + 1) & mask;
    return &index->slot[at];
}

/* ---- reading one file */

/* printf arguments for "%.*s" that truncate a long name. */
#define SHOWN(name) (int)((name).len < 100 ? (name).len : 100), (name).data

typedef struct reader {
    bl_gguf *gguf;
    bl_arena *arena;
    bl_err *err;
    bl_span file;
    bl_span head; /* the part before the data of tensors, from which the metadata are read */
    size_t at;    /* read position in |head| */
    int part, nparts;
    size_t keys, tensors; /* numbers of keys and tensors of this file */
    uint64_t alignment;
    size_t first_tensor; /* position of the file's first tensor in the list of all tensors */
} reader;

static bl_status fail_short(const reader *r, const char *what, uint64_t bytes)
{
    return bl_fail(r->err, BL_EINVAL, "GGUF: %s takes %llu bytes at byte %zu, but the file ends at byte %zu", what,
                   (unsigned long long)bytes, r->at, r->head.len);
}

static bl_status take_bytes(reader *r, const char *what, uint64_t bytes, bl_span *out)
{
    if (bytes > r->head.len - r->at)
        return fail_short(r, what, bytes);
    *out = (bl_span){r->head.data + r->at, (size_t)bytes};
    r->at += (size_t)bytes;
    return BL_OK;
}

static uint32_t get_u32(const char *data)
{
    uint32_t value;
    memcpy(&value, data, sizeof value);
    return le32toh(value);
}

static uint64_t get_u64(const char *data)
{
    uint64_t value;
    memcpy(&value, data, sizeof value);
    return le64toh(value);
}

static bl_status take_u32(reader *r, const char *what, uint32_t *out)
{
    bl_span bytes = {0};
    BL_TRY(take_bytes(r, what, sizeof *out, &bytes));
    *out = get_u32(bytes.data);
    return BL_OK;
}

static bl_status take_u64(reader *r, const char *what, uint64_t *out)
{
    bl_span bytes = {0};
    BL_TRY(take_bytes(r, what, sizeof *out, &bytes));
    *out = get_u64(bytes.data);
    return BL_OK;
}

static bl_status gguf_take_text(reader *r, const char *what, bl_span *out)
{
    uint64_t len = 0;
    BL_TRY(take_u64(r, what, &len));
    return take_bytes(r, what, len, out);
}

/* Reads a name.  Errors show names and requests have names, so a name must be printable UTF-8. */
static bl_status gguf_take_name(reader *r, const char *what, size_t longest, bl_span *out)
{
    BL_TRY(gguf_take_text(r, what, out));
    if (out->len == 0 || out->len > longest)
        return bl_fail(r->err, BL_EINVAL, "GGUF: %s before byte %zu has a length of %zu; it must be 1 to %zu", what, r->at,
                       out->len, longest);
    for (size_t i = 0, n = 0; i < out->len; i += n) {
        n = bl_utf8_length(out->data + i, out->len - i);
        if (n == 0 || (unsigned char)out->data[i] < ' ')
            return bl_fail(r->err, BL_EINVAL, "GGUF: %s before byte %zu is not printable UTF-8", what, r->at);
    }
    return BL_OK;
}

/* ---- keys */

static bl_status gguf_take_texts(reader *r, uint64_t count)
{
    bl_span text = {0};
    for (uint64_t i = 0; i < count; i++)
        BL_TRY(gguf_take_text(r, "a string", &text));
    return BL_OK;
}

static bl_status gguf_check_kind(const reader *r, bl_span name, uint32_t kind, const char *what)
{
    return kind < BL_GGUF_KIND_COUNT ? BL_OK
                                     : bl_fail(r->err, BL_EINVAL, "GGUF: the key \"%.*s\" has the %s %u; it must be below %d",
                                               SHOWN(name), what, kind, BL_GGUF_KIND_COUNT);
}

static bl_status take_values(reader *r, bl_span name, bl_gguf_values *out)
{
    uint32_t kind = 0;
    uint64_t count = 1, bytes = 0;
    size_t begin = 0;
    BL_TRY(take_u32(r, "the type of a key's value", &kind));
    BL_TRY(gguf_check_kind(r, name, kind, "type"));
    if (kind == BL_GGUF_ARRAY) {
        BL_TRY(take_u32(r, "the type of an array's elements", &kind));
        BL_TRY(take_u64(r, "the length of an array", &count));
        BL_TRY(gguf_check_kind(r, name, kind, "element type"));
        if (kind == BL_GGUF_ARRAY)
            return bl_fail(r->err, BL_EUNSUPPORTED, "GGUF: the key \"%.*s\" is an array of arrays, which is not supported",
                           SHOWN(name));
        out->is_array = true;
    }
    out->kind = (bl_gguf_kind)kind;
    begin = r->at;
    if (kind == BL_GGUF_TEXT) {
        BL_TRY(gguf_take_texts(r, count));
    } else {
        bl_span values = {0};
        if (__builtin_mul_overflow(count, (uint64_t)kinds[kind].bytes, &bytes))
            bytes = UINT64_MAX;
        BL_TRY(take_bytes(r, "a key's value", bytes, &values));
    }
    out->count = (size_t)count; /* cannot truncate: the file has at least |count| bytes of values */
    out->data = (bl_span){r->head.data + begin, r->at - begin};
    return BL_OK;
}

static bl_status gguf_take_keys(reader *r)
{
    bl_gguf *g = r->gguf;
    g->keys = bl_arena_array(r->arena, r->keys, sizeof *g->keys);
    if (g->keys == NULL || !gguf_make_index(r->arena, r->keys, &g->by_key))
        return bl_arena_status(r->arena, r->err);
    g->nkeys = 0;
    for (size_t i = 0; i < r->keys; i++) {
        key *k = &g->keys[g->nkeys];
        uint32_t *slot = NULL;
        BL_TRY(gguf_take_name(r, "the name of a key", LONGEST_KEY, &k->name));
        slot = gguf_find_slot(&g->by_key, g->keys, sizeof *k, k->name);
        if (*slot != 0)
            return bl_fail(r->err, BL_EINVAL, "GGUF: the file has the key \"%.*s\" twice", SHOWN(k->name));
        BL_TRY(take_values(r, k->name, &k->values));
        *slot = (uint32_t)++g->nkeys;
    }
    return BL_OK;
}

static bl_status read_alignment(reader *r)
{
    bl_gguf_values found;
    r->alignment = ALIGNMENT;
    if (bl_gguf_find(r->gguf, "general.alignment", &found) && !bl_gguf_u64(r->gguf, "general.alignment", &r->alignment))
        return bl_fail(r->err, BL_EINVAL, "GGUF: general.alignment is not an unsigned integer");
    if (r->alignment == 0 || r->alignment > MOST_ALIGNMENT || (r->alignment & (r->alignment - 1)) != 0)
        return bl_fail(r->err, BL_EINVAL, "GGUF: general.alignment is %llu; it must be a power of two up to %d",
                       (unsigned long long)r->alignment, MOST_ALIGNMENT);
    return BL_OK;
}

/* Checks split.count and split.no of a part against the number of files and the position of the part. */
static bl_status check_part(const reader *r)
{
    uint64_t count = 0, number = 0;
    (void)bl_gguf_u64(r->gguf, "split.count", &count);
    (void)bl_gguf_u64(r->gguf, "split.no", &number);
    if (count <= 1 && r->nparts == 1)
        return BL_OK;
    if (count != (uint64_t)r->nparts)
        return bl_fail(r->err, BL_EINVAL, "GGUF: split.count is %llu, but there are %d files; all parts must be given",
                       (unsigned long long)count, r->nparts);
    if (number != (uint64_t)r->part)
        return bl_fail(r->err, BL_EINVAL, "GGUF: split.no is %llu in the file in place %d; the parts must be in their order",
                       (unsigned long long)number, r->part);
    return BL_OK;
}

/* ---- tensors */

static bl_status take_dims(reader *r, bl_gguf_tensor *t, uint64_t *bytes)
{
    uint32_t ndim = 0, number = 0;
    int64_t elements = 1;
    BL_TRY(take_u32(r, "the number of a tensor's dimensions", &ndim));
    if (ndim > BL_GGUF_DIMS)
        return bl_fail(r->err, BL_EUNSUPPORTED, "GGUF: the tensor \"%.*s\" has %u dimensions; the most is %d", SHOWN(t->name),
                       ndim, BL_GGUF_DIMS);
    t->ndim = (int)ndim;
    for (int i = 0; i < BL_GGUF_DIMS; i++) {
        uint64_t dim = 1;
        if (i < t->ndim)
            BL_TRY(take_u64(r, "a dimension of a tensor", &dim));
        if (dim < 1 || dim > INT64_MAX || !bl_i64_mul(elements, (int64_t)dim, &elements))
            return bl_fail(r->err, BL_EINVAL,
                           "GGUF: the tensor \"%.*s\" has the dimension %llu; dimensions are at least 1, and "
                           "their product has 63 bits",
                           SHOWN(t->name), (unsigned long long)dim);
        t->dim[i] = (int64_t)dim;
    }
    BL_TRY(take_u32(r, "the type of a tensor", &number));
    t->type = bl_ggml_type_find(number);
    if (t->type == NULL)
        return bl_fail(r->err, BL_EUNSUPPORTED, "GGUF: the tensor \"%.*s\" has the unknown type %u", SHOWN(t->name), number);
    if (t->type->bytes == 0)
        return bl_fail(r->err, BL_EUNSUPPORTED, "GGUF: the tensor \"%.*s\" has the type %s, which is not supported",
                       SHOWN(t->name), t->type->name);
    if (t->dim[0] % t->type->elements != 0)
        return bl_fail(r->err, BL_EINVAL, "GGUF: the tensor \"%.*s\" has rows of %lld elements; %s has blocks of %d",
                       SHOWN(t->name), (long long)t->dim[0], t->type->name, t->type->elements);
    if (!bl_i64_mul(elements / t->type->elements, t->type->bytes, &elements))
        return bl_fail(r->err, BL_EINVAL, "GGUF: the size of the tensor \"%.*s\" does not fit in 63 bits", SHOWN(t->name));
    *bytes = (uint64_t)elements;
    return BL_OK;
}

/* Reads the entry of a tensor.  |*end|: offset of the end of the previous tensor's data, relative to the start of all data.
 * Tensors must have the order of the list, each at the next multiple of the alignment, so that no two tensors share bytes. */
static bl_status take_tensor(reader *r, bl_gguf_tensor *t, uint64_t *end)
{
    uint64_t offset = 0, bytes = 0, expected = (*end + r->alignment - 1) & ~(r->alignment - 1);
    BL_TRY(take_dims(r, t, &bytes));
    BL_TRY(take_u64(r, "the offset of a tensor", &offset));
    if (offset != expected)
        return bl_fail(r->err, BL_EINVAL,
                       "GGUF: the tensor \"%.*s\" has the offset %llu; behind the tensor before it, aligned to %llu, "
                       "it must be %llu",
                       SHOWN(t->name), (unsigned long long)offset, (unsigned long long)r->alignment,
                       (unsigned long long)expected);
    if (bytes > r->file.len || offset > r->file.len - bytes)
        return bl_fail(r->err, BL_EINVAL, "GGUF: the tensor \"%.*s\" takes %llu bytes at the offset %llu, but the file has %zu",
                       SHOWN(t->name), (unsigned long long)bytes, (unsigned long long)offset, r->file.len);
    t->data = (bl_span){NULL, (size_t)bytes};
    *end = offset + bytes;
    return BL_OK;
}

/* Sets the data of the file's tensors.  The data start at the next multiple of the alignment after the list of tensors. */
static bl_status place_tensors(reader *r)
{
    bl_gguf *g = r->gguf;
    size_t begin = 0, at = 0;
    if (r->first_tensor == g->ntensors)
        return BL_OK;
    if (!bl_size_align(r->at, (size_t)r->alignment, &begin) || begin > r->file.len)
        return bl_fail(r->err, BL_EINVAL, "GGUF: the file ends before the data of its tensors");
    for (size_t i = r->first_tensor; i < g->ntensors; i++) {
        bl_gguf_tensor *t = &g->tensors[i];
        at = (at + (size_t)r->alignment - 1) & ~((size_t)r->alignment - 1);
        if (t->data.len > r->file.len - begin || at > r->file.len - begin - t->data.len)
            return bl_fail(r->err, BL_EINVAL,
                           "GGUF: the tensor \"%.*s\" takes %zu bytes at byte %zu, but the file ends at byte %zu", SHOWN(t->name),
                           t->data.len, begin + at, r->file.len);
        t->data.data = r->file.data + begin + at;
        at += t->data.len;
    }
    return BL_OK;
}

static bl_status take_tensors(reader *r)
{
    bl_gguf *g = r->gguf;
    uint64_t end = 0;
    r->first_tensor = g->ntensors;
    for (size_t i = 0; i < r->tensors; i++) {
        bl_gguf_tensor *t = &g->tensors[g->ntensors];
        uint32_t *slot = NULL;
        BL_TRY(gguf_take_name(r, "the name of a tensor", LONGEST_NAME, &t->name));
        slot = gguf_find_slot(&g->by_tensor, g->tensors, sizeof *t, t->name);
        if (*slot != 0)
            return bl_fail(r->err, BL_EINVAL, "GGUF: there are two tensors \"%.*s\"", SHOWN(t->name));
        BL_TRY(take_tensor(r, t, &end));
        *slot = (uint32_t)++g->ntensors;
    }
    return place_tensors(r);
}

/* ---- files */

static bl_status take_header(reader *r)
{
    uint32_t version = 0;
    uint64_t tensors = 0, keys = 0;
    bl_span magic = {0};
    BL_TRY(take_bytes(r, "the header", MAGIC_BYTES, &magic));
    if (!bl_span_is(magic, "GGUF"))
        return bl_fail(r->err, BL_EINVAL, "GGUF: the file does not begin with \"GGUF\"");
    BL_TRY(take_u32(r, "the header", &version));
    if (version != 0 && (version & 0xffff) == 0)
        return bl_fail(r->err, BL_EUNSUPPORTED, "GGUF: the file is big-endian; only little-endian files are supported");
    if (version < OLDEST_VERSION || version > NEWEST_VERSION)
        return bl_fail(r->err, BL_EUNSUPPORTED, "GGUF: the file has version %u; versions %d to %d are supported", version,
                       OLDEST_VERSION, NEWEST_VERSION);
    BL_TRY(take_u64(r, "the header", &tensors));
    BL_TRY(take_u64(r, "the header", &keys));
    if (tensors > r->file.len / TENSOR_BYTES || tensors > UINT32_MAX / 2)
        return bl_fail(r->err, BL_EINVAL, "GGUF: %llu tensors in a file of %zu bytes", (unsigned long long)tensors, r->file.len);
    if (keys > r->file.len / KEY_BYTES || keys > UINT32_MAX / 2)
        return bl_fail(r->err, BL_EINVAL, "GGUF: %llu keys in a file of %zu bytes", (unsigned long long)keys, r->file.len);
    r->tensors = (size_t)tensors;
    r->keys = (size_t)keys;
    return BL_OK;
}

static void start_file(reader *r, const bl_span *files, int part)
{
    r->file = r->head = files[part];
    r->part = part;
    r->at = 0;
}

/* Allocates one list and one index for the tensors of all files. */
static bl_status make_tensor_room(reader *r, const bl_span *files)
{
    size_t all = 0;
    for (int i = 0; i < r->nparts; i++) {
        start_file(r, files, i);
        BL_TRY(take_header(r));
        if (!bl_size_add(all, r->tensors, &all) || all > UINT32_MAX / 2)
            return bl_fail(r->err, BL_EINVAL, "GGUF: the files have more than %u tensors", UINT32_MAX / 2);
    }
    r->gguf->tensors = bl_arena_array(r->arena, all, sizeof *r->gguf->tensors);
    if (r->gguf->tensors == NULL || !gguf_make_index(r->arena, all, &r->gguf->by_tensor))
        return bl_arena_status(r->arena, r->err);
    return BL_OK;
}

/* Copies the metadata and the list of tensors, since another process may change a mapped file after a check.  The reader then
 * checks and uses the copy only. */
static bl_status copy_head(reader *r)
{
    bl_span name = {0}, rest = {0};
    uint32_t ndim = 0;
    char *copy = NULL;
    BL_TRY(take_header(r));
    for (size_t i = 0; i < r->keys; i++) {
        bl_gguf_values values = {0};
        BL_TRY(gguf_take_name(r, "the name of a key", LONGEST_KEY, &name));
        BL_TRY(take_values(r, name, &values));
    }
    for (size_t i = 0; i < r->tensors; i++) {
        BL_TRY(gguf_take_name(r, "the name of a tensor", LONGEST_NAME, &name));
        BL_TRY(take_u32(r, "the number of a tensor's dimensions", &ndim));
        BL_TRY(take_bytes(r, "a tensor", (uint64_t)ndim * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint64_t), &rest));
    }
    copy = bl_arena_alloc(r->arena, r->at + 1);
    if (copy == NULL)
        return bl_arena_status(r->arena, r->err);
    memcpy(copy, r->file.data, r->at);
    r->head = (bl_span){copy, r->at};
    r->at = 0;
    return BL_OK;
}

static bl_status gguf_read_file(reader *r)
{
    BL_TRY(copy_head(r));
    BL_TRY(take_header(r));
    BL_TRY(gguf_take_keys(r));
    BL_TRY(read_alignment(r));
    BL_TRY(check_part(r));
    return take_tensors(r);
}

/* Reads all files; the keys of the first file are the keys of the model. */
static bl_status read_files(reader *r, const bl_span *files)
{
    bl_gguf *g = r->gguf, first = {0};
    uint64_t tensors = 0;
    BL_TRY(make_tensor_room(r, files));
    for (int i = 0; i < r->nparts; i++) {
        start_file(r, files, i);
        BL_TRY(gguf_read_file(r));
        if (i == 0)
            first = *g;
    }
    g->nkeys = first.nkeys;
    g->keys = first.keys;
    g->by_key = first.by_key;
    if (r->nparts > 1 && bl_gguf_u64(g, "split.tensors.count", &tensors) && tensors != g->ntensors)
        return bl_fail(r->err, BL_EINVAL, "GGUF: split.tensors.count is %llu, but the files have %zu tensors",
                       (unsigned long long)tensors, g->ntensors);
    return BL_OK;
}

bl_status bl_gguf_open(bl_arena *arena, const bl_span *files, int nfiles, bl_gguf **out, bl_err *err)
{
    reader r = {.arena = arena, .err = err, .nparts = nfiles, .gguf = bl_arena_alloc(arena, sizeof *r.gguf)};
    *out = NULL;
    if (r.gguf == NULL)
        return bl_arena_status(arena, err);
    if (nfiles < 1 || nfiles > MOST_FILES)
        return bl_fail(err, BL_EINVAL, "GGUF: %d files; a model has 1 to %d", nfiles, MOST_FILES);
    BL_TRY(read_files(&r, files));
    *out = r.gguf;
    return BL_OK;
}

static bool gguf_take_number(bl_span name, size_t at, int *out)
{
    enum { DIGITS = 5 };
    *out = 0;
    for (size_t i = at; i < at + DIGITS; i++) {
        if (name.data[i] < '0' || name.data[i] > '9')
            return false;
        *out = *out * 10 + (name.data[i] - '0');
    }
    return true;
}

bool bl_gguf_part_name(bl_span name, size_t *stem, int *no, int *count)
{
    static const char shape[] = "-00001-of-00001.gguf";
    enum { NO = 1, OF = 6, COUNT = 10, END = 15 };
    const size_t len = sizeof shape - 1;
    int part = 0, parts = 0;
    if (name.len <= len)
        return false;
    const bl_span end = {name.data + name.len - len, len};
    if (end.data[0] != '-' || !gguf_take_number(end, NO, &part) || memcmp(end.data + OF, shape + OF, COUNT - OF) != 0 ||
        !gguf_take_number(end, COUNT, &parts) || memcmp(end.data + END, shape + END, len - END) != 0 || part < 1 || part > parts)
        return false;
    *stem = name.len - len;
    *no = part;
    *count = parts;
    return true;
}

/* ---- look-up */

const bl_gguf_tensor *bl_gguf_tensors(const bl_gguf *gguf, size_t *count)
{
    *count = gguf->ntensors;
    return gguf->tensors;
}

const bl_gguf_tensor *bl_gguf_find_tensor(const bl_gguf *gguf, bl_span name)
{
    uint32_t found = *gguf_find_slot(&gguf->by_tensor, gguf->tensors, sizeof *gguf->tensors, name);
    return found != 0 ? &gguf->tensors[found - 1] : NULL;
}

size_t bl_gguf_key_count(const bl_gguf *gguf)
{
    return gguf->nkeys;
}

bl_span bl_gguf_key(const bl_gguf *gguf, size_t at, bl_gguf_values *out)
{
    *out = gguf->keys[at].values;
    return gguf->keys[at].name;
}

bool bl_gguf_find(const bl_gguf *gguf, const char *name, bl_gguf_values *out)
{
    uint32_t found = *gguf_find_slot(&gguf->by_key, gguf->keys, sizeof *gguf->keys, (bl_span){name, strlen(name)});
    if (found != 0)
        *out = gguf->keys[found - 1].values;
    return found != 0;
}

static bool gguf_find_one(const bl_gguf *gguf, const char *name, bl_gguf_values *out)
{
    return bl_gguf_find(gguf, name, out) && !out->is_array;
}

/* ---- values */

/* Reads an integer.  |*is_signed|: |*out| has the bits of a signed integer. */
static bool integer_at(const bl_gguf_values *values, size_t at, uint64_t *out, bool *is_signed)
{
    const char *data = values->data.data + at * kinds[values->kind].bytes;
    uint16_t half = 0;
    *is_signed =
        values->kind == BL_GGUF_I8 || values->kind == BL_GGUF_I16 || values->kind == BL_GGUF_I32 || values->kind == BL_GGUF_I64;
    switch (values->kind) {
    case BL_GGUF_U8:
        *out = (unsigned char)*data;
        return true;
    case BL_GGUF_I8:
        *out = (uint64_t)(int64_t)(signed char)*data;
        return true;
    case BL_GGUF_U16:
    case BL_GGUF_I16:
        memcpy(&half, data, sizeof half);
        half = le16toh(half);
        *out = *is_signed ? (uint64_t)(int64_t)(int16_t)half : half;
        return true;
    case BL_GGUF_U32:
    case BL_GGUF_I32:
        *out = *is_signed ? (uint64_t)(int64_t)(int32_t)get_u32(data) : get_u32(data);
        return true;
    case BL_GGUF_U64:
    case BL_GGUF_I64:
        *out = get_u64(data);
        return true;
    case BL_GGUF_F32:
    case BL_GGUF_F64:
    case BL_GGUF_BOOL:
    case BL_GGUF_TEXT:
    case BL_GGUF_ARRAY:
    case BL_GGUF_KIND_COUNT:
        break;
    }
    return false;
}

bool bl_gguf_i64_at(const bl_gguf_values *values, size_t at, int64_t *out)
{
    uint64_t value = 0;
    bool is_signed = false;
    if (!integer_at(values, at, &value, &is_signed) || (!is_signed && value > INT64_MAX))
        return false;
    *out = (int64_t)value;
    return true;
}

bool bl_gguf_f64_at(const bl_gguf_values *values, size_t at, double *out)
{
    uint64_t value = 0;
    bool is_signed = false;
    if (values->kind == BL_GGUF_F32) {
        uint32_t bits = get_u32(values->data.data + at * sizeof bits);
        float number;
        memcpy(&number, &bits, sizeof number);
        *out = (double)number;
        return true;
    }
    if (values->kind == BL_GGUF_F64) {
        value = get_u64(values->data.data + at * sizeof value);
        memcpy(out, &value, sizeof *out);
        return true;
    }
    if (!integer_at(values, at, &value, &is_signed))
        return false;
    *out = is_signed ? (double)(int64_t)value : (double)value;
    return true;
}

bool bl_gguf_bool_at(const bl_gguf_values *values, size_t at, bool *out)
{
    if (values->kind != BL_GGUF_BOOL)
        return false;
    *out = values->data.data[at] != 0;
    return true;
}

bool bl_gguf_next_text(const bl_gguf_values *values, size_t *place, bl_span *out)
{
    if (values->kind != BL_GGUF_TEXT || *place == values->data.len)
        return false;
    out->len = (size_t)get_u64(values->data.data + *place);
    out->data = values->data.data + *place + sizeof(uint64_t);
    *place += sizeof(uint64_t) + out->len;
    return true;
}

bool bl_gguf_u64(const bl_gguf *gguf, const char *name, uint64_t *out)
{
    bl_gguf_values values;
    uint64_t value = 0;
    bool is_signed = false;
    if (!gguf_find_one(gguf, name, &values) || !integer_at(&values, 0, &value, &is_signed) || (is_signed && (int64_t)value < 0))
        return false;
    *out = value;
    return true;
}

bool bl_gguf_i64(const bl_gguf *gguf, const char *name, int64_t *out)
{
    bl_gguf_values values;
    return gguf_find_one(gguf, name, &values) && bl_gguf_i64_at(&values, 0, out);
}

bool bl_gguf_f64(const bl_gguf *gguf, const char *name, double *out)
{
    bl_gguf_values values;
    return gguf_find_one(gguf, name, &values) && bl_gguf_f64_at(&values, 0, out);
}

bool bl_gguf_bool(const bl_gguf *gguf, const char *name, bool *out)
{
    bl_gguf_values values;
    return gguf_find_one(gguf, name, &values) && bl_gguf_bool_at(&values, 0, out);
}

bool bl_gguf_text(const bl_gguf *gguf, const char *name, bl_span *out)
{
    bl_gguf_values values;
    size_t place = 0;
    return gguf_find_one(gguf, name, &values) && bl_gguf_next_text(&values, &place, out);
}

bool bl_gguf_array(const bl_gguf *gguf, const char *name, bool texts, bl_gguf_values *out)
{
    bl_gguf_values values;
    if (!bl_gguf_find(gguf, name, &values) || !values.is_array || (values.kind == BL_GGUF_TEXT) != texts)
        return false;
    *out = values;
    return true;
}

/* ---- required keys */

static bl_status fail_need(const bl_gguf *gguf, const char *name, const char *what, bl_err *err)
{
    bl_gguf_values values;
    if (!bl_gguf_find(gguf, name, &values))
        return bl_fail(err, BL_EINVAL, "GGUF: the key \"%s\" is missing", name);
    return bl_fail(err, BL_EINVAL, "GGUF: the key \"%s\" is %s%s; it must be %s", name, values.is_array ? "an array of " : "",
                   kinds[values.kind].name, what);
}

bl_status bl_gguf_need_u64(const bl_gguf *gguf, const char *name, uint64_t *out, bl_err *err)
{
    return bl_gguf_u64(gguf, name, out) ? BL_OK : fail_need(gguf, name, "an integer of at least 0", err);
}

bl_status bl_gguf_need_f64(const bl_gguf *gguf, const char *name, double *out, bl_err *err)
{
    return bl_gguf_f64(gguf, name, out) ? BL_OK : fail_need(gguf, name, "a number", err);
}

bl_status bl_gguf_need_text(const bl_gguf *gguf, const char *name, bl_span *out, bl_err *err)
{
    return bl_gguf_text(gguf, name, out) ? BL_OK : fail_need(gguf, name, "a string", err);
}
