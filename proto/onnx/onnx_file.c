/* SPDX-License-Identifier: MIT */
#include "proto/onnx/onnx_file.h"

#include "engine/base/fault.h"
#include "proto/onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

enum { RAW_DATA = 9, TAG_BITS = 3, MAX_VARINT = 10 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 };

/* Two walks over the file: the first measures the kept part of each message, the second writes it.  Both visit the messages in
 * the same order. */
typedef struct thinner {
    bl_span file;
    bool places;   /* replace raw_data by a bl_onnx_place; else empty raw_data over BL_ONNX_THIN_BYTES */
    size_t *sizes; /* of the messages, in the order of their starts; on the heap */
    size_t nsizes, cap, next;
    char *out; /* NULL while measuring */
    size_t len;
    bl_err *err;
} thinner;

static bl_status malformed(const thinner *t, size_t at, const char *what)
{
    return bl_fail(t->err, BL_EINVAL, "not an ONNX model: %s at byte %zu", what, at);
}

static bl_status read_varint(const thinner *t, size_t *at, size_t end, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < MAX_VARINT; i++) {
        if (*at == end)
            return malformed(t, *at, "a number ends too early");
        uint64_t byte = (unsigned char)t->file.data[(*at)++];
        *out |= (byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            return BL_OK;
    }
    return malformed(t, *at, "a number is too long");
}

static void onnx_file_put(thinner *t, const void *data, size_t len)
{
    if (t->out != NULL)
        memcpy(t->out + t->len, data, len);
    t->len += len;
}

static void put_varint(thinner *t, uint64_t value)
{
    char bytes[MAX_VARINT];
    size_t n = 0;

    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value != 0);
    onnx_file_put(t, bytes, n);
}

static bl_status add_size(thinner *t, size_t *index)
{
    if (t->nsizes == t->cap) {
        size_t more = t->cap * 2 + 64;
        size_t *grown = bl_realloc(t->sizes, more * sizeof *grown);
        if (grown == NULL)
            return bl_fail(t->err, BL_ENOMEM, "out of host memory for the messages of an ONNX model");
        t->sizes = grown;
        t->cap = more;
    }
    *index = t->nsizes++;
    return BL_OK;
}

static bl_status thin(thinner *t, const ProtobufCMessageDescriptor *message, size_t at, size_t end, int depth);

/* Thins a nested message: its length, then its kept part. */
static bl_status thin_field(thinner *t, const ProtobufCMessageDescriptor *message, size_t at, size_t end, int depth)
{
    size_t before = t->len, index = 0;

    if (t->out != NULL) {
        put_varint(t, t->sizes[t->next++]);
        return thin(t, message, at, end, depth);
    }
    BL_TRY(add_size(t, &index));
    BL_TRY(thin(t, message, at, end, depth));
    t->sizes[index] = t->len - before;
    put_varint(t, t->sizes[index]);
    return BL_OK;
}

static bl_status thin_bytes(thinner *t, const ProtobufCMessageDescriptor *message, unsigned tag, size_t *at, size_t end,
                            int depth)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(message, tag);
    uint64_t len = 0;

    BL_TRY(read_varint(t, at, end, &len));
    if (len > end - *at)
        return malformed(t, *at, "a field goes past the end");
    size_t from = *at;
    *at += (size_t)len;
    bool raw = message == &onnx__tensor_proto__descriptor && tag == RAW_DATA;
    if (raw && t->places) {
        bl_onnx_place place = {from, len};
        put_varint(t, sizeof place);
        onnx_file_put(t, &place, sizeof place);
    } else if (raw && len > BL_ONNX_THIN_BYTES) {
        put_varint(t, 0);
    } else if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return thin_field(t, field->descriptor, from, *at, depth + 1);
    } else {
        put_varint(t, len);
        onnx_file_put(t, t->file.data + from, (size_t)len);
    }
    return BL_OK;
}

/* Recurses to a depth of BL_ONNX_MAX_DEPTH at most. */
static bl_status thin(thinner *t, const ProtobufCMessageDescriptor *message, size_t at, size_t end, int depth)
{
    if (depth > BL_ONNX_MAX_DEPTH)
        return bl_fail(t->err, BL_ELIMIT, "an ONNX model whose messages are nested more than %d deep", BL_ONNX_MAX_DEPTH);
    while (at < end) {
        uint64_t key = 0, value = 0;
        BL_TRY(read_varint(t, &at, end, &key));
        size_t from = at;
        put_varint(t, key);
        if (key >> TAG_BITS == 0 || key >> TAG_BITS > INT32_MAX)
            return malformed(t, at, "a field without a number");
        switch (key & 7) {
        case WIRE_VARINT:
            BL_TRY(read_varint(t, &at, end, &value));
            put_varint(t, value);
            break;
        case WIRE_64:
        case WIRE_32:
            at += (key & 7) == WIRE_64 ? 8 : 4;
            if (at > end)
                return malformed(t, from, "a field goes past the end");
            onnx_file_put(t, t->file.data + from, at - from);
            break;
        case WIRE_LENGTH:
            BL_TRY(thin_bytes(t, message, (unsigned)(key >> TAG_BITS), &at, end, depth));
            break;
        default:
            return malformed(t, from, "a field of an unknown kind");
        }
    }
    return BL_OK;
}

static void *arena_alloc(void *arena, size_t size)
{
    return bl_arena_alloc(arena, size);
}

static void arena_free(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

static bl_status thin_file(bl_span file, bool places, bl_arena *arena, bl_span *out, bl_err *err)
{
    thinner t = {.file = file, .places = places, .err = err};
    bl_status st = thin(&t, &onnx__model_proto__descriptor, 0, file.len, 0);
    size_t len = t.len;

    if (st != BL_OK)
        goto out;
    t.out = bl_arena_alloc(arena, len);
    t.len = 0;
    if (t.out == NULL) {
        st = bl_arena_status(arena, err);
        goto out;
    }
    st = thin(&t, &onnx__model_proto__descriptor, 0, file.len, 0);
    BL_ASSERT(st != BL_OK || t.len == len);
    *out = (bl_span){t.out, len};
out:
    free(t.sizes);
    return st;
}

bl_status bl_onnx_thin(bl_span file, bl_arena *arena, bl_span *out, bl_err *err)
{
    return thin_file(file, false, arena, out, err);
}

bl_status bl_onnx_open(bl_span file, bl_arena *arena, Onnx__ModelProto **out, bl_err *err)
{
    ProtobufCAllocator allocator = {.alloc = arena_alloc, .free = arena_free, .allocator_data = arena};
    bl_span bytes = {0};
    bl_status st = thin_file(file, true, arena, &bytes, err);

    *out = NULL;
    if (st != BL_OK)
        return st;
    *out = onnx__model_proto__unpack(&allocator, bytes.len, (const uint8_t *)bytes.data);
    if (*out == NULL) {
        st = bl_arena_status(arena, err);
        st = st != BL_OK ? st : bl_fail(err, BL_EINVAL, "not an ONNX model: its fields are not those of the schema");
    }
    return st;
}

bool bl_onnx_raw(bl_span file, const Onnx__TensorProto *tensor, bl_span *out)
{
    bl_onnx_place place;

    if (!tensor->has_raw_data || tensor->raw_data.len != sizeof place)
        return false;
    memcpy(&place, tensor->raw_data.data, sizeof place);
    if (place.offset > file.len || place.len > file.len - place.offset)
        return false;
    *out = (bl_span){file.data + place.offset, (size_t)place.len};
    return true;
}
