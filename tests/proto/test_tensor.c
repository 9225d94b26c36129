/* SPDX-License-Identifier: MIT */
#include "proto/base64.h"
#include "proto/decode.h"
#include "proto/encode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

static const bl_wire_limits limits = {.max_nodes = 100, .max_inputs = 100, .max_dims = 16, .max_tensor_bytes = 1 << 20};

typedef struct fixture {
    bl_arena *arena;
    bl_json_doc doc;
    bl_tensor_value value;
    bl_err err;
} fixture;

/* Decodes |text| as a tensor and reads it into a buffer of the exact size, which the caller frees. */
static bl_status read_tensor(fixture *f, const char *text, void **data)
{
    bl_decode_env env = {.limits = limits};
    bl_status st;

    *f = (fixture){.arena = bl_arena_create(0)};
    *data = NULL;
    env.arena = f->arena;
    st = bl_json_parse(&f->doc, f->arena, (bl_span){text, strlen(text)}, NULL, &f->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&f->doc);
        st = bl_decode_tensor(&env, &root, &f->value, &f->err);
    }
    bl_json_fini(&f->doc);
    if (st == BL_OK) {
        *data = malloc(f->value.bytes == 0 ? 1 : f->value.bytes);
        assert_non_null(*data);
        st = bl_tensor_scan(&f->value, *data, &f->err);
    }
    return st;
}

static void finish(fixture *f, void *data)
{
    bl_arena_destroy(f->arena);
    free(data);
}

/* Values survive reading and printing: dtype, shape and data. */
static void good(void **state)
{
    static const struct {
        const char *text, *printed;
    } rows[] = {
        {"[[1, 2, 3], [4, 5, 6]]", "float32[2,3][1,2,3,4,5,6]"},
        {"[1.5, \"NaN\", \"-Infinity\", -0]", "float32[4][1.5,\"NaN\",\"-Infinity\",-0.0]"},
        {"[true, false]", "bool[2][true,false]"},
        {"[]", "float32[0][]"},
        {"[[],[]]", "float32[2,0][]"},
        {"3", "float32[][3]"},
        {"true", "bool[][true]"},
        {"\"Infinity\"", "float32[][\"Infinity\"]"},
        {"[ [ 1e2 ] ]", "float32[1,1][100]"},
        {"{\"dtype\":\"int32\",\"shape\":[2,3],\"data\":[1,2,3,4,5,6]}", "int32[2,3][1,2,3,4,5,6]"},
        {"{\"dtype\":\"int32\",\"shape\":[2,3],\"data\":[[1,2,3],[4,5,6]]}", "int32[2,3][1,2,3,4,5,6]"},
        {"{\"dtype\":\"int8\",\"data\":[[-128],[127]]}", "int8[2,1][-128,127]"},
        {"{\"data\":[[1],[2]]}", "float32[2,1][1,2]"},
        {"{\"dtype\":\"float64\",\"shape\":[],\"data\":[0.1]}", "float64[][0.1]"},
        {"{\"dtype\":\"float64\",\"shape\":[],\"data\":0.1}", "float64[][0.1]"},
        {"{\"dtype\":\"float32\",\"shape\":[0,3],\"data\":[]}", "float32[0,3][]"},
        {"{\"dtype\":\"float32\",\"shape\":[2,0],\"data\":[[],[]]}", "float32[2,0][]"},
        {"{\"dtype\":\"int64\",\"shape\":[3],\"data\":[9007199254740993,-9223372036854775808,9223372036854775807]}",
         "int64[3][9007199254740993,-9223372036854775808,9223372036854775807]"},
        {"{\"dtype\":\"uint64\",\"data\":[18446744073709551615,-0]}", "uint64[2][18446744073709551615,0]"},
        {"{\"dtype\":\"int16\",\"data\":[1.0,1e3,12.50e1]}", "int16[3][1,1000,125]"},
        {"{\"dtype\":\"uint8\",\"data\":[255]}", "uint8[1][255]"},
        {"{\"dtype\":\"uint16\",\"data\":[65535]}", "uint16[1][65535]"},
        {"{\"dtype\":\"uint32\",\"data\":[4294967295]}", "uint32[1][4294967295]"},
        {"{\"dtype\":\"bool\",\"data\":[0,1,true,false]}", "bool[4][false,true,true,false]"},
        {"{\"dtype\":\"float16\",\"data\":[0.1,65504,\"NaN\",6e-8]}", "float16[4][0.1,65504,\"NaN\",6e-8]"},
        {"{\"dtype\":\"bfloat16\",\"data\":[0.1,1e30,\"-Infinity\"]}", "bfloat16[3][0.1,1e30,\"-Infinity\"]"},
        {"{\"dtype\":\"float16\",\"shape\":[2],\"base64\":\"ADwAwA==\"}", "float16[2][1,-2]"},
        {"{\"dtype\":\"bool\",\"shape\":[3],\"base64\":\"AAEB\"}", "bool[3][false,true,true]"},
        {"{\"dtype\":\"uint8\",\"shape\":[0],\"base64\":\"\"}", "uint8[0][]"},
        {"[0.1,1e-45,3.4028235e38,16777217]", "float32[4][0.1,1e-45,3.4028235e38,16777216]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        void *data;
        bl_text text = {0};
        if (read_tensor(&f, rows[i].text, &data) != BL_OK)
            fail_msg("%s: %s", rows[i].text, f.err.text);
        bl_text_puts(&text, bl_dtype_name(f.value.dtype));
        bl_shape_print(&text, f.value.ndim, f.value.dim);
        bl_tensor_print(&text, f.value.dtype, data, f.value.count);
        assert_string_equal(text.data, rows[i].printed);
        bl_text_fini(&text);
        finish(&f, data);
    }
}

static void bad(void **state)
{
    static const struct {
        const char *text;
        bl_status status;
        const char *says;
    } rows[] = {
        {"[[1,2],[3]]", BL_EGRAPH, "ragged: at line 1, column 10"},
        {"[1,[2]]", BL_EGRAPH, "ragged"},
        {"[true,1]", BL_EGRAPH, "booleans and numbers"},
        {"[1,\"x\"]", BL_EINVAL, "[1]: expected a number"},
        {"[1,null]", BL_EINVAL, "[1]: expected a number"},
        {"[\"nan\"]", BL_EINVAL, "[0]: expected a number"},
        {"null", BL_EINVAL, "expected a tensor"},
        {"\"x\"", BL_EINVAL, "expected a tensor"},
        {"{}", BL_EINVAL, "one of"},
        {"{\"dtype\":\"float32\",\"shape\":[2]}", BL_EINVAL, "one of"},
        {"[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", BL_ELIMIT, "17 dimensions"},
        {"[1e39]", BL_EGRAPH, "element 0, 1e39, does not fit: the dtype is float32"},
        {"[1,-1e400]", BL_EGRAPH, "element 1"},
        {"{\"dtype\":\"float64\",\"data\":[1e400]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"float16\",\"data\":[65520]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"bfloat16\",\"data\":[3.4e38]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"int8\",\"data\":[1,2,128]}", BL_EGRAPH, "element 2, 128, does not fit: the dtype is int8"},
        {"{\"dtype\":\"int8\",\"data\":[-129]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"uint8\",\"data\":[-1]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"uint32\",\"data\":[4294967296]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"int64\",\"data\":[9223372036854775808]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"int64\",\"data\":[18446744073709551615]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"uint64\",\"data\":[18446744073709551616]}", BL_EGRAPH, "does not fit"},
        {"{\"dtype\":\"int32\",\"data\":[1.5]}", BL_EGRAPH, "has a fraction"},
        {"{\"dtype\":\"int32\",\"data\":[\"NaN\"]}", BL_EGRAPH, "not finite"},
        {"{\"dtype\":\"int32\",\"data\":[true]}", BL_EGRAPH, "is not a number"},
        {"{\"dtype\":\"float32\",\"data\":[false]}", BL_EGRAPH, "is not a number"},
        {"{\"dtype\":\"bool\",\"data\":[2]}", BL_EGRAPH, "neither true"},
        {"{\"dtype\":\"bool\",\"data\":[\"NaN\"]}", BL_EGRAPH, "neither true"},
        {"{\"dtype\":\"float31\",\"data\":[1]}", BL_EGRAPH, "\"float31\""},
        {"{\"dtype\":\"index\",\"data\":[1]}", BL_EGRAPH, "\"index\""},
        {"{\"dtype\":7,\"data\":[1]}", BL_EINVAL, "dtype: expected a string, got a number"},
        {"{\"dtype\":\"int32\",\"shape\":[2],\"data\":[1,2,3]}", BL_EGRAPH, "3 elements, but the shape has 2"},
        {"{\"dtype\":\"int32\",\"shape\":[6],\"data\":[[1,2,3],[4,5,6]]}", BL_EGRAPH, "nesting"},
        {"{\"dtype\":\"int32\",\"shape\":[3,2],\"data\":[[1,2,3],[4,5,6]]}", BL_EGRAPH, "nesting"},
        {"{\"dtype\":\"int32\",\"shape\":[2],\"data\":[1,2],\"x\":1}", BL_EINVAL, "unknown member \"x\""},
        {"{\"dtype\":\"int32\",\"shape\":[2],\"data\":[1,2],\"base64\":\"\"}", BL_EINVAL, "unknown member \"data\""},
        {"{\"tensor\":\"w\"}", BL_EGRAPH, "is not allowed here"},
        {"{\"tensor\":\"../w\"}", BL_EGRAPH, "is not a valid name"},
        {"{\"dtype\":\"float32\",\"shape\":[4611686018427387904,4],\"data\":[]}", BL_EGRAPH, "shape[0]"},
        {"{\"dtype\":\"float32\",\"shape\":[1099511627776,1099511627776],\"data\":[]}", BL_ELIMIT, "63 bits"},
        {"{\"dtype\":\"float32\",\"shape\":[0,1099511627776,1099511627776],\"data\":[]}", BL_ELIMIT, "63 bits"},
        {"{\"dtype\":\"uint8\",\"shape\":[1048577],\"data\":[]}", BL_ELIMIT, "1048577 bytes; the limit of one tensor is 1048576"},
        {"{\"dtype\":\"uint8\",\"shape\":[-5],\"data\":[]}", BL_EGRAPH, "-5 is not between"},
        {"{\"dtype\":\"uint8\",\"shape\":[9223372036854775808],\"data\":[]}", BL_EGRAPH, "not between"},
        {"{\"dtype\":\"uint8\",\"shape\":[1e3],\"data\":[]}", BL_EINVAL, "expected an integer, got 1e3"},
        {"{\"dtype\":\"uint8\",\"shape\":[1.5],\"data\":[]}", BL_EINVAL, "expected an integer"},
        {"{\"dtype\":\"uint8\",\"shape\":[[1]],\"data\":[]}", BL_EINVAL, "expected an integer, got an array"},
        {"{\"dtype\":\"uint8\",\"shape\":[true],\"data\":[]}", BL_EINVAL, "got a boolean"},
        {"{\"dtype\":\"uint8\",\"shape\":3,\"data\":[1,2,3]}", BL_EINVAL, "expected an array"},
        {"{\"dtype\":\"uint8\",\"shape\":[\"n\"],\"data\":[1]}", BL_EINVAL, "expected an integer, got a string"},
        {"{\"dtype\":\"float16\",\"shape\":[2],\"base64\":\"ADwAwA=\"}", BL_EINVAL, "multiple of 4"},
        {"{\"dtype\":\"float16\",\"shape\":[2],\"base64\":\"ADwA*A==\"}", BL_EINVAL, "malformed"},
        {"{\"dtype\":\"float16\",\"shape\":[2],\"base64\":\"ADwAwB==\"}", BL_EINVAL, "malformed"},
        {"{\"dtype\":\"float16\",\"shape\":[3],\"base64\":\"ADwAwA==\"}", BL_EGRAPH, "4 bytes, but shape and dtype take 6"},
        {"{\"dtype\":\"bool\",\"shape\":[1],\"base64\":\"Ag==\"}", BL_EGRAPH, "neither 0 nor 1"},
        {"{\"shape\":[2],\"base64\":\"ADwAwA==\"}", BL_EINVAL, "\"dtype\" is missing"},
        {"{\"dtype\":\"float16\",\"base64\":\"ADwAwA==\"}", BL_EINVAL, "\"shape\" is missing"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        void *data;
        bl_status st = read_tensor(&f, rows[i].text, &data);
        if (st != rows[i].status || strstr(f.err.text, rows[i].says) == NULL)
            fail_msg("%s: status %d, \"%s\"; wanted %d, \"%s\"", rows[i].text, (int)st, f.err.text, (int)rows[i].status,
                     rows[i].says);
        finish(&f, data);
    }
}

static void ten_thousand_dimensions(void **state)
{
    bl_text text = {0};
    fixture f;
    void *data;

    (void)state;
    bl_text_puts(&text, "{\"dtype\":\"int8\",\"shape\":[1");
    for (int i = 1; i < 10000; i++)
        bl_text_puts(&text, ",1");
    bl_text_puts(&text, "],\"data\":[1]}");
    assert_int_equal(read_tensor(&f, text.data, &data), BL_ELIMIT);
    assert_non_null(strstr(f.err.text, "10000 dimensions; the limit is 16"));
    finish(&f, data);
    bl_text_fini(&text);
}

/* Random bits of every dtype survive printing and reading (NaNs as any NaN). */
static void round_trips(void **state)
{
    uint64_t seed = 88172645463325252ULL;

    (void)state;
    for (int dtype = 0; dtype < (int)BL_DTYPE_WIRE; dtype++) {
        enum { COUNT = 5000 };
        size_t size = bl_dtype_bytes((bl_dtype)dtype);
        unsigned char *data = malloc(COUNT * size);
        bl_text text = {0};
        fixture f;
        void *again;
        assert_non_null(data);
        for (size_t i = 0; i < COUNT * size; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            data[i] = (unsigned char)(dtype == BL_BOOL ? seed & 1 : seed >> 24);
        }
        bl_text_printf(&text, "{\"dtype\":\"%s\",\"data\":", bl_dtype_name((bl_dtype)dtype));
        bl_tensor_print(&text, (bl_dtype)dtype, data, COUNT);
        bl_text_putc(&text, '}');
        if (read_tensor(&f, text.data, &again) != BL_OK)
            fail_msg("%s: %s", bl_dtype_name((bl_dtype)dtype), f.err.text);
        assert_int_equal(f.value.count, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            const unsigned char *a = data + i * size, *b = (unsigned char *)again + i * size;
            bl_scalar x = bl_scalar_read((bl_dtype)dtype, a), y = bl_scalar_read((bl_dtype)dtype, b);
            bool nan = bl_dtype_is_float((bl_dtype)dtype) && isnan(x.f) && isnan(y.f);
            if (!nan && memcmp(a, b, size) != 0)
                fail_msg("%s: element %zu is %g, came back as %g", bl_dtype_name((bl_dtype)dtype), i, x.f, y.f);
        }
        bl_text_fini(&text);
        finish(&f, again);
        free(data);
    }
}

static void base64(void **state)
{
    static const struct {
        const char *bytes, *text;
    } rows[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"},
                {"\xfb\xff\xfe", "+//+"}};
    static const char *const wrong[] = {
        "Zg=", "Zg", "Z===", "====", "Zg==Zg==", "Zm9=", "Zh==", "Zm9v\n", "Zm 9v", "Zm9-", "Zm_v", "=m9v", "Zg=a"};
    char out[16];
    size_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(bl_base64_size((bl_span){rows[i].text, strlen(rows[i].text)}, &bytes));
        assert_int_equal(bytes, strlen(rows[i].bytes));
        assert_true(bl_base64_decode((bl_span){rows[i].text, strlen(rows[i].text)}, out));
        assert_memory_equal(out, rows[i].bytes, bytes);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (bl_base64_decode((bl_span){wrong[i], strlen(wrong[i])}, out))
            fail_msg("taken for base64: %s", wrong[i]);
    }
}

static void raw(void **state)
{
    static const struct {
        const char *dtype, *shape;
        size_t bytes;
        bl_status status;
    } rows[] = {{"float32", "2,3", 24, BL_OK},
                {"float32", "", 4, BL_OK},
                {"uint8", "0", 0, BL_OK},
                {"float32", "2,3", 23, BL_EGRAPH},
                {"float32", "2,3,", 24, BL_EINVAL},
                {"float32", ",2", 8, BL_EINVAL},
                {"float32", "-2", 8, BL_EINVAL},
                {"float32", "2x", 8, BL_EINVAL},
                {"float32", "1e3", 4000, BL_EINVAL},
                {"float32", " 2", 8, BL_EINVAL},
                {"float99", "2", 8, BL_EGRAPH},
                {"float32", "99999999999999999999999", 8, BL_EGRAPH},
                {"uint8", "1099511627776,1099511627776", 8, BL_ELIMIT},
                {"uint8", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 1, BL_ELIMIT}};
    static const char zeros[4096];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_tensor_value value;
        bl_err err = {0};
        bl_status st = bl_decode_raw(&limits, rows[i].dtype, rows[i].shape, (bl_span){zeros, rows[i].bytes}, &value, &err);
        if (st != rows[i].status)
            fail_msg("%s %s: status %d (%s), wanted %d", rows[i].dtype, rows[i].shape, (int)st, err.text, (int)rows[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),        cmocka_unit_test(bad),    cmocka_unit_test(ten_thousand_dimensions),
        cmocka_unit_test(round_trips), cmocka_unit_test(base64), cmocka_unit_test(raw)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
