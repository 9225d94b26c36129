/* SPDX-License-Identifier: MIT */
#include "tests/proto/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

static void put_tensor(bl_text *file, const char *name, int ndim, const uint64_t *dim, unsigned type, uint64_t offset)
{
    put_text(file, name);
    put(file, (uint64_t)ndim, 4);
    for (int i = 0; i < ndim; i++)
        put(file, dim[i], 8);
    put(file, type, 4);
    put(file, offset, 8);
}

static void align(bl_text *file, size_t to)
{
    while (file->len % to != 0)
        bl_text_putc(file, '\0');
}

/* A copy in memory of the exact size, so that a read past its end is detected. */
typedef struct opened {
    char *data;
    bl_arena *arena;
    bl_gguf *gguf;
    bl_status status;
    bl_err err;
} opened;

static opened open_file(bl_text *file)
{
    opened o = {.data = malloc(file->len > 0 ? file->len : 1), .arena = bl_arena_create(0)};
    assert_non_null(o.data);
    assert_non_null(o.arena);
    memcpy(o.data, bl_text_get(file), file->len);
    o.status = bl_gguf_open(o.arena, &(bl_span){o.data, file->len}, 1, &o.gguf, &o.err);
    assert_int_equal(o.status == BL_OK, o.gguf != NULL);
    return o;
}

static void close_file(opened *o)
{
    bl_arena_destroy(o->arena);
    free(o->data);
}

/* Writes every kind of value, and two tensors. */
static void put_whole(bl_text *file, unsigned version)
{
    put_header(file, version, 2, 16);
    put_key(file, "u8", BL_GGUF_U8, 200, 1);
    put_key(file, "i8", BL_GGUF_I8, (uint64_t)-3, 1);
    put_key(file, "u16", BL_GGUF_U16, 60000, 2);
    put_key(file, "i16", BL_GGUF_I16, (uint64_t)-300, 2);
    put_key(file, "u32", BL_GGUF_U32, 4000000000, 4);
    put_key(file, "i32", BL_GGUF_I32, (uint64_t)-7, 4);
    put_key(file, "u64", BL_GGUF_U64, UINT64_MAX, 8);
    put_key(file, "i64", BL_GGUF_I64, 1ULL << 63, 8);
    put_key(file, "f32", BL_GGUF_F32, 0x3fc00000, 4);
    put_key(file, "f64", BL_GGUF_F64, 0xbff8000000000000, 8);
    put_key(file, "yes", BL_GGUF_BOOL, 1, 1);
    put_text_key(file, "text", "hello");
    put_text_key(file, "empty", "");
    put_array(file, "words", BL_GGUF_TEXT, 3);
    put_text(file, "a");
    put_text(file, "");
    put_text(file, "bc");
    put_array(file, "numbers", BL_GGUF_I16, 2);
    put(file, 5, 2);
    put(file, (uint64_t)-6, 2);
    put_key(file, "general.alignment", BL_GGUF_U32, 64, 4);
    put_tensor(file, "a.weight", 1, (uint64_t[]){3}, 0, 0);
    put_tensor(file, "b.weight", 2, (uint64_t[]){64, 2}, 2, 64);
    align(file, 64);
    for (int i = 0; i < 64 + 2 * 2 * 18; i++)
        put(file, (uint64_t)i, 1);
}

/* ---- valid files */

static void values(void **state)
{
    (void)state;
    for (unsigned version = 2; version <= 3; version++) {
        bl_text file = {0};
        uint64_t u = 0;
        int64_t i = 0;
        double f = 0;
        bool yes = false;
        bl_span text = {0};
        bl_gguf_values all;
        size_t place = 0;
        put_whole(&file, version);
        opened o = open_file(&file);
        assert_string_equal(o.err.text, "");
        const bl_gguf *g = o.gguf;
        assert_int_equal(bl_gguf_key_count(g), 16);
        assert_true(bl_span_is(bl_gguf_key(g, 13, &all), "words"));
        assert_true(bl_gguf_u64(g, "u8", &u) && u == 200);
        assert_true(bl_gguf_u64(g, "u16", &u) && u == 60000);
        assert_true(bl_gguf_u64(g, "u32", &u) && u == 4000000000);
        assert_true(bl_gguf_u64(g, "u64", &u) && u == UINT64_MAX);
        assert_true(bl_gguf_i64(g, "i8", &i) && i == -3);
        assert_true(bl_gguf_i64(g, "i16", &i) && i == -300);
        assert_true(bl_gguf_i64(g, "i32", &i) && i == -7);
        assert_true(bl_gguf_i64(g, "i64", &i) && i == INT64_MIN);
        assert_true(bl_gguf_f64(g, "f32", &f) && f == 1.5);
        assert_true(bl_gguf_f64(g, "f64", &f) && f == -1.5);
        assert_true(bl_gguf_f64(g, "i32", &f) && f == -7);
        assert_true(bl_gguf_f64(g, "u64", &f) && f == 0x1p64);
        assert_true(bl_gguf_bool(g, "yes", &yes) && yes);
        assert_true(bl_gguf_text(g, "text", &text) && bl_span_is(text, "hello"));
        assert_true(bl_gguf_text(g, "empty", &text) && text.len == 0);
        /* a failed look-up leaves the value unchanged */
        u = 1, i = 2;
        assert_false(bl_gguf_u64(g, "i8", &u) || bl_gguf_u64(g, "f32", &u) || bl_gguf_u64(g, "no", &u) ||
                     bl_gguf_u64(g, "yes", &u));
        assert_false(bl_gguf_i64(g, "u64", &i) || bl_gguf_i64(g, "numbers", &i) || bl_gguf_i64(g, "text", &i));
        assert_false(bl_gguf_text(g, "words", &text) || bl_gguf_bool(g, "u8", &yes) || bl_gguf_f64(g, "text", &f));
        assert_true(u == 1 && i == 2);
        /* arrays */
        assert_false(bl_gguf_array(g, "words", false, &all) || bl_gguf_array(g, "text", true, &all));
        assert_true(bl_gguf_array(g, "words", true, &all));
        assert_int_equal(all.count, 3);
        assert_true(bl_gguf_next_text(&all, &place, &text) && bl_span_is(text, "a"));
        assert_true(bl_gguf_next_text(&all, &place, &text) && text.len == 0);
        assert_true(bl_gguf_next_text(&all, &place, &text) && bl_span_is(text, "bc"));
        assert_false(bl_gguf_next_text(&all, &place, &text));
        assert_true(bl_gguf_array(g, "numbers", false, &all));
        assert_true(bl_gguf_i64_at(&all, 1, &i) && i == -6);
        assert_true(bl_gguf_f64_at(&all, 0, &f) && f == 5);
        close_file(&o);
        bl_text_fini(&file);
    }
}

static void tensors(void **state)
{
    bl_text file = {0};
    size_t count = 0;
    (void)state;
    put_whole(&file, 3);
    opened o = open_file(&file);
    const bl_gguf_tensor *t = bl_gguf_tensors(o.gguf, &count);
    assert_int_equal(count, 2);
    assert_true(bl_gguf_find_tensor(o.gguf, BL_S("b.weight")) == &t[1]);
    assert_null(bl_gguf_find_tensor(o.gguf, BL_S("b")));
    assert_int_equal(t[0].type->id, BL_GGML_F32);
    assert_int_equal(t[0].ndim, 1);
    assert_int_equal(t[0].dim[0], 3);
    assert_int_equal(t[0].dim[1], 1);
    assert_int_equal(t[0].data.len, 12);
    assert_string_equal(t[1].type->name, "Q4_0");
    assert_int_equal(t[1].dim[1], 2);
    assert_int_equal(t[1].data.len, 2 * 2 * 18);
    assert_int_equal(t[0].data.data[0], 0);
    assert_int_equal(t[1].data.data[0], 64); /* its offset, since the bytes count up */
    assert_ptr_equal(t[1].data.data + t[1].data.len, o.data + file.len);
    close_file(&o);
    bl_text_fini(&file);
}

/* A truncated file is refused, and nothing past its end is read. */
static void cut(void **state)
{
    bl_text file = {0};
    (void)state;
    put_whole(&file, 3);
    for (size_t len = 0; len < file.len; len++) {
        bl_text part = {.data = file.data, .len = len};
        opened o = open_file(&part);
        assert_int_equal(o.status, BL_EINVAL);
        assert_memory_equal(o.err.text, "GGUF: ", 6);
        close_file(&o);
    }
    bl_text_fini(&file);
}

static void needs(void **state)
{
    bl_text file = {0};
    bl_err err = {0};
    uint64_t u = 0;
    double f = 0;
    bl_span text = {0};
    (void)state;
    put_whole(&file, 3);
    opened o = open_file(&file);
    assert_int_equal(bl_gguf_need_u64(o.gguf, "u8", &u, &err), BL_OK);
    assert_int_equal(bl_gguf_need_u64(o.gguf, "no", &u, &err), BL_EINVAL);
    assert_string_equal(err.text, "GGUF: the key \"no\" is missing");
    err = (bl_err){0};
    assert_int_equal(bl_gguf_need_f64(o.gguf, "words", &f, &err), BL_EINVAL);
    assert_string_equal(err.text, "GGUF: the key \"words\" is an array of string; it must be a number");
    err = (bl_err){0};
    assert_int_equal(bl_gguf_need_text(o.gguf, "u8", &text, &err), BL_EINVAL);
    assert_string_equal(err.text, "GGUF: the key \"u8\" is uint8; it must be a string");
    close_file(&o);
    bl_text_fini(&file);
}

/* ---- invalid files */

static void put_refused_keys(bl_text *file, int row)
{
    switch (row) {
    case 0:
        bl_text_puts(file, "GGML");
        put(file, 3, 20);
        break;
    case 1:
        bl_text_puts(file, "GGUF");
        bl_text_append(file, "\0\0\0\3", 4);
        put(file, 0, 16);
        break;
    case 2:
    case 3:
        put_header(file, row == 2 ? 1 : 4, 0, 0);
        break;
    case 4:
        put_header(file, 3, 1ULL << 40, 0);
        break;
    case 5:
        put_header(file, 3, 0, UINT64_MAX);
        break;
    case 6:
        put_header(file, 3, 0, 2);
        put_key(file, "twice", BL_GGUF_U8, 1, 1);
        put_key(file, "twice", BL_GGUF_U8, 2, 1);
        break;
    case 7:
        put_header(file, 3, 0, 1);
        put_key(file, "odd", 13, 1, 1);
        break;
    case 8:
        put_header(file, 3, 0, 1);
        put_array(file, "nested", BL_GGUF_ARRAY, 1);
        put(file, 0, 12);
        break;
    case 9:
        put_header(file, 3, 0, 1);
        put_array(file, "long", BL_GGUF_U64, 1ULL << 61);
        put(file, 0, 8);
        break;
    case 10:
        put_header(file, 3, 0, 1);
        put_array(file, "long", BL_GGUF_TEXT, UINT64_MAX);
        put(file, 0, 64);
        break;
    case 11:
    case 12:
        put_header(file, 3, 0, 1);
        put_key(file, "general.alignment", BL_GGUF_U32, row == 11 ? 48 : 1 << 20, 4);
        break;
    case 13:
        put_header(file, 3, 0, 1);
        put_text_key(file, "general.alignment", "32");
        break;
    case 14:
        put_header(file, 3, 0, 1);
        put_key(file, "bad\xff", BL_GGUF_U8, 1, 1);
        break;
    case 15:
        put_header(file, 3, 0, 1);
        put_key(file, "split.count", BL_GGUF_U16, 3, 2);
        break;
    default:
        fail();
    }
}

static void put_refused_tensors(bl_text *file, int row)
{
    const uint64_t two[] = {2, 2}, blocks[] = {33}, none[] = {0}, huge[] = {1ULL << 62, 4};
    switch (row) {
    case 16:
    case 17:
        put_header(file, 3, 1, 0);
        put_tensor(file, "x", 2, two, row == 16 ? 16 : 99, 0);
        break;
    case 18:
        put_header(file, 3, 1, 0);
        put_tensor(file, "x", 1, blocks, 2, 0);
        break;
    case 19:
        put_header(file, 3, 1, 0);
        put_tensor(file, "x", 1, none, 0, 0);
        break;
    case 20:
        put_header(file, 3, 1, 0);
        put_tensor(file, "x", 2, huge, 0, 0);
        break;
    case 21:
        put_header(file, 3, 1, 0);
        put_tensor(file, "x", 2, (uint64_t[]){1ULL << 61, 2}, 27, 0);
        break;
    case 22:
        put_header(file, 3, 1, 0);
        put(file, 1, 8);
        bl_text_puts(file, "x");
        put(file, 5, 4);
        put(file, 1, 64);
        break;
    case 23:
        put_header(file, 3, 2, 0);
        put_tensor(file, "x", 2, two, 0, 0);
        put_tensor(file, "x", 2, two, 0, 32);
        align(file, 32);
        put(file, 0, 48);
        break;
    case 24:
        put_header(file, 3, 2, 0);
        put_tensor(file, "x", 2, two, 0, 0);
        put_tensor(file, "y", 2, two, 0, 16);
        align(file, 32);
        put(file, 0, 48);
        break;
    case 25:
        put_header(file, 3, 1, 0);
        put_tensor(file, "x", 2, two, 0, 0);
        align(file, 32);
        put(file, 0, 15);
        break;
    default:
        fail();
    }
}

static void refused(void **state)
{
    static const struct {
        bl_status status;
        const char *says;
    } rows[] = {
        {BL_EINVAL, "does not begin with \"GGUF\""},
        {BL_EUNSUPPORTED, "the file is big-endian"},
        {BL_EUNSUPPORTED, "the file has version 1; versions 2 to 3"},
        {BL_EUNSUPPORTED, "the file has version 4; versions 2 to 3"},
        {BL_EINVAL, "1099511627776 tensors in a file of 24 bytes"},
        {BL_EINVAL, "18446744073709551615 keys in a file of 24 bytes"},
        {BL_EINVAL, "the file has the key \"twice\" twice"},
        {BL_EINVAL, "the key \"odd\" has the type 13"},
        {BL_EUNSUPPORTED, "the key \"nested\" is an array of arrays"},
        {BL_EINVAL, "takes 18446744073709551615 bytes"},
        {BL_EINVAL, "but the file ends"},
        {BL_EINVAL, "general.alignment is 48; it must be a power of two"},
        {BL_EINVAL, "general.alignment is 1048576"},
        {BL_EINVAL, "general.alignment is not an unsigned integer"},
        {BL_EINVAL, "the name of a key before byte 36 is not printable UTF-8"},
        {BL_EINVAL, "split.count is 3, but there are 1 files"},
        {BL_EUNSUPPORTED, "the tensor \"x\" has the type IQ2_XXS, which is not supported"},
        {BL_EUNSUPPORTED, "the tensor \"x\" has the unknown type 99"},
        {BL_EINVAL, "the tensor \"x\" has rows of 33 elements; Q4_0 has blocks of 32"},
        {BL_EINVAL, "the tensor \"x\" has the dimension 0"},
        {BL_EINVAL, "the tensor \"x\" has the dimension 4"},
        {BL_EINVAL, "the size of the tensor \"x\""},
        {BL_EUNSUPPORTED, "the tensor \"x\" has 5 dimensions"},
        {BL_EINVAL, "there are two tensors \"x\""},
        {BL_EINVAL, "the tensor \"y\" has the offset 16; behind the tensor before it, aligned to 32, it must be 32"},
        {BL_EINVAL, "the tensor \"x\" takes 16 bytes at byte 96, but the file ends at byte 111"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_text file = {0};
        (i < 16 ? put_refused_keys : put_refused_tensors)(&file, (int)i);
        opened o = open_file(&file);
        if (o.status != rows[i].status || strstr(o.err.text, rows[i].says) == NULL)
            fail_msg("row %zu: status %d, \"%s\"; expected %d, \"%s\"", i, (int)o.status, o.err.text, (int)rows[i].status,
                     rows[i].says);
        close_file(&o);
        bl_text_fini(&file);
    }
}

/* ---- split files */

static void put_part(bl_text *file, unsigned no, unsigned count, unsigned all, const char *tensor)
{
    put_header(file, 3, tensor != NULL, no == 0 ? 4 : 3);
    put_key(file, "split.no", BL_GGUF_U16, no, 2);
    put_key(file, "split.count", BL_GGUF_U16, count, 2);
    put_key(file, "split.tensors.count", BL_GGUF_I32, all, 4);
    if (no == 0)
        put_text_key(file, "general.name", "split");
    if (tensor == NULL)
        return;
    put_tensor(file, tensor, 1, (uint64_t[]){8}, BL_GGML_I8, 0);
    align(file, 32);
    for (int i = 0; i < 8; i++)
        bl_text_putc(file, tensor[0]);
}

static void splits(void **state)
{
    static const struct {
        unsigned no[3], count, all;
        const char *tensors[3], *says;
    } rows[] = {
        {{0, 1, 2}, 3, 2, {NULL, "a", "b"}, ""},
        {{0, 1, 2}, 3, 3, {"a", "b", "c"}, ""},
        {{0, 2, 1}, 3, 2, {NULL, "a", "b"}, "split.no is 2 in the file in place 1"},
        {{0, 1, 2}, 4, 2, {NULL, "a", "b"}, "split.count is 4, but there are 3 files"},
        {{0, 1, 2}, 3, 4, {"a", "b", "c"}, "split.tensors.count is 4, but the files have 3 tensors"},
        {{0, 1, 2}, 3, 3, {"a", "b", "a"}, "there are two tensors \"a\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_text text[3] = {{0}};
        bl_span files[3], name = {0};
        bl_arena *arena = bl_arena_create(0);
        bl_gguf *g = NULL;
        bl_err err = {0};
        for (int k = 0; k < 3; k++) {
            put_part(&text[k], rows[i].no[k], rows[i].count, rows[i].all, rows[i].tensors[k]);
            files[k] = (bl_span){text[k].data, text[k].len};
        }
        bl_status st = bl_gguf_open(arena, files, 3, &g, &err);
        if (strstr(err.text, rows[i].says) == NULL || (st == BL_OK) != (rows[i].says[0] == '\0'))
            fail_msg("row %zu: \"%s\"; expected \"%s\"", i, err.text, rows[i].says);
        for (int k = 0; st == BL_OK && k < 3; k++)
            if (rows[i].tensors[k] != NULL) {
                const bl_gguf_tensor *t = bl_gguf_find_tensor(g, (bl_span){rows[i].tensors[k], 1});
                assert_non_null(t);
                assert_ptr_equal(t->data.data + 8, files[k].data + files[k].len);
                assert_int_equal(t->data.data[7], rows[i].tensors[k][0]);
            }
        assert_true(st != BL_OK || (bl_gguf_text(g, "general.name", &name) && bl_span_is(name, "split")));
        bl_arena_destroy(arena);
        for (int k = 0; k < 3; k++)
            bl_text_fini(&text[k]);
    }
}

static void part_names(void **state)
{
    static const struct {
        const char *name;
        size_t stem;
        int no, count;
    } rows[] = {{"m-00002-of-00004.gguf", 1, 2, 4},  {"a-b-00001-of-00001.gguf", 3, 1, 1},     {"-00001-of-00001.gguf", 0, 0, 0},
                {"m-00005-of-00004.gguf", 0, 0, 0},  {"m-00000-of-00004.gguf", 0, 0, 0},       {"m-0001-of-00004.gguf", 0, 0, 0},
                {"m-00001-of-00004.ggu", 0, 0, 0},   {"m-00001-fo-00004.gguf", 0, 0, 0},       {"m.gguf", 0, 0, 0},
                {"m-00001-of-00004.gguf2", 0, 0, 0}, {"a-name-of-over-20-bytes.gguf", 0, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t stem = 0;
        int no = 0, count = 0;
        bool is_part = bl_gguf_part_name((bl_span){rows[i].name, strlen(rows[i].name)}, &stem, &no, &count);
        if (is_part != (rows[i].count > 0) || stem != rows[i].stem || no != rows[i].no || count != rows[i].count)
            fail_msg("%s: %d, %zu, %d, %d", rows[i].name, is_part, stem, no, count);
    }
}

static void types(void **state)
{
    (void)state;
    assert_string_equal(bl_ggml_type_find(39)->name, "MXFP4");
    assert_int_equal(bl_ggml_type_find(14)->bytes, 210);
    assert_null(bl_ggml_type_find(43));
    assert_null(bl_ggml_type_find(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),  cmocka_unit_test(tensors), cmocka_unit_test(cut),        cmocka_unit_test(needs),
        cmocka_unit_test(refused), cmocka_unit_test(splits),  cmocka_unit_test(part_names), cmocka_unit_test(types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
