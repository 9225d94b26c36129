/* SPDX-License-Identifier: MIT */
#include "tests/lower/read_linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Parses |text| from a buffer of the exact size, so that ASan detects a read past the end. */
static bl_status parse(bl_arena *arena, const char *text, size_t len, bl_linear **out, bl_err *err)
{
    char *exact = malloc(len ? len : 1);
    bl_status st;

    assert_non_null(exact);
    memcpy(exact, text, len);
    st = read_linear(arena, exact, len, out, err);
    free(exact);
    return st;
}

/* ---- texts that survive a round trip */

#define LINE(n, rest) #n " " rest "\n"
static const char *const whole[] = {
    "linear empty buffers= writes=0 scalars=0 local=1,1,1 localbytes=0\n",
    "linear r_4_8 buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n" LINE(0, "group_id int32 arg=0")
        LINE(1, "buffer float32 arg=0") LINE(2, "load float32x16 %1 %0") LINE(3, "const float32 2.5")
            LINE(4, "mul float32x16 %2 %3") LINE(5, "fold float32 %4 sub=add") LINE(6, "buffer float32 arg=1")
                LINE(7, "store %6 %0 %5"),
    "linear all buffers=bool,int8,uint64,bfloat16 writes=12 scalars=2 local=4,2,1 localbytes=64\n" LINE(0, "group_id int64 arg=2")
        LINE(1, "local_id int64 arg=0") LINE(2, "var int64 arg=1") LINE(3, "buffer bool arg=0") LINE(4, "buffer bfloat16 arg=3")
            LINE(5, "buffer float32 sub=local arg=16") LINE(6, "add int64 %0 %1") LINE(7, "load bool %3 %6")
                LINE(8, "loop int64 %2") LINE(9, "lane int64x4") LINE(10, "add int64x4 %9 %8") LINE(11, "const bfloat16 -0.5")
                    LINE(12, "acc bfloat16x4 %11") LINE(13, "load bfloat16x4 %4 %10 %7") LINE(14, "add bfloat16x4 %12 %13")
                        LINE(15, "set %12 %14") LINE(16, "loop int64 %2") LINE(17, "barrier") LINE(18, "end")
                            LINE(19, "store bfloat16x4 %4 %8 %12 %7") LINE(20, "stack bfloat16x2 %11 %11") LINE(21, "end")
                                LINE(22, "buffer uint64 arg=2") LINE(23, "const uint64 18446744073709551615")
                                    LINE(24, "store %22 %6 %23"),
    "linear shared buffers=float32 writes=0 scalars=1 local=4,1,1 localbytes=64\n" LINE(0, "group_id int32 arg=0")
        LINE(1, "var int32 arg=0") LINE(2, "min int32 %0 %1") LINE(3, "loop int32 %2") LINE(4, "loop int32 %3") LINE(5, "barrier")
            LINE(6, "end") LINE(7, "end") LINE(8, "local_id int32 arg=0") LINE(9, "loop int32 %8") LINE(10, "end")
                LINE(11, "barrier") LINE(12, "buffer float32 arg=0") LINE(13, "load float32x4 %12 %8")
                    LINE(14, "extract float32 %13 arg=3"),
    "linear alu buffers= writes=0 scalars=0 local=1,1,1 localbytes=0\n" LINE(0, "const int32 -2147483648") LINE(1, "const bool 1")
        LINE(2, "cast float64 %0") LINE(3, "bitcast uint32 %0") LINE(4, "where float64 %1 %2 %2") LINE(5, "fma float64 %2 %2 %2")
            LINE(6, "cmplt bool %0 %0") LINE(7, "and bool %1 %6") LINE(8, "not bool %7") LINE(9, "shr uint32 %3 %3")
                LINE(10, "idiv int32 %0 %0"),
    "linear matrix buffers=float16,float16,float32 writes=4 scalars=0 local=8,1,1 localbytes=256\n" LINE(
        0, "buffer float16 arg=0") LINE(1, "buffer float16 arg=1") LINE(2, "const int32 0") LINE(3, "const int32 8")
        LINE(4, "loop int32 %3") LINE(5, "fragment float32 shape=8x8x8 8,1,15 float16 float32")
            LINE(6, "fragment_load float16 %0 %2 %3 layout=0 shape=8x8x8 8,1,15 float16 float32")
                LINE(7, "fragment_load float16 %1 %4 %3 layout=3 shape=8x8x8 8,1,15 float16 float32")
                    LINE(8, "matrix_add %5 %6 %7 shape=8x8x8 8,1,15 float16 float32") LINE(9, "buffer float32 sub=local arg=64")
                        LINE(10, "fragment_store %9 %2 %5 shape=8x8x8 8,1,15 float16 float32") LINE(11, "barrier")
                            LINE(12, "load float32 %9 %4") LINE(13, "buffer float32 arg=2") LINE(14, "store %13 %4 %12")
                                LINE(15, "end"),
    "linear consts buffers= writes=0 scalars=0 local=1,1,1 localbytes=0\n" LINE(0, "const float32 0.10000000149011612")
        LINE(1, "const float64 0.10000000000000001") LINE(2, "const float64 4.9406564584124654e-324") LINE(3, "const float32 inf")
            LINE(4, "const float16 -inf") LINE(5, "const float32 -0") LINE(6, "const float64 nan")
                LINE(7, "const float64 0x7ff800000000beef") LINE(8, "const int64 -9223372036854775808") LINE(9, "const uint8 255")
                    LINE(10, "const bool 0"),
};

static void round_trips(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_text text = {0};
        bl_linear *linear = NULL;
        bl_err err = {0};

        if (parse(arena, whole[i], strlen(whole[i]), &linear, &err) != BL_OK)
            fail_msg("%s\n%s", whole[i], err.text);
        bl_linear_print(linear, &text);
        assert_string_equal(whole[i], text.data);
        bl_text_fini(&text);
        bl_arena_destroy(arena);
    }
}

/* Every field survives a round trip, not only the text. */
static void fields(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    bl_linear *linear = NULL;
    bl_err err = {0};

    (void)state;
    assert_int_equal(BL_OK, parse(arena, whole[2], strlen(whole[2]), &linear, &err));
    assert_string_equal("all", linear->name);
    assert_int_equal(25, linear->ninst);
    assert_int_equal(4, linear->nbuffers);
    assert_int_equal(BL_U64, linear->buffer_dtype[2]);
    assert_int_equal(12, linear->writes);
    assert_int_equal(2, linear->nscalars);
    assert_int_equal(4, linear->local[0]);
    assert_int_equal(2, linear->local[1]);
    assert_int_equal(64, linear->local_bytes);
    assert_int_equal(BL_OP_STORE, linear->inst[19].op);
    assert_int_equal(4, linear->inst[19].lanes); /* the lanes of its value */
    assert_int_equal(BL_BF16, linear->inst[19].dtype);
    assert_int_equal(4, linear->inst[19].nargs);
    assert_int_equal(7, linear->inst[19].args[3]);
    assert_int_equal(4, linear->inst[15].lanes); /* SET: the lanes of its variable */
    assert_int_equal(1, linear->inst[5].sub);
    assert_int_equal(16, linear->inst[5].arg);
    bl_arena_destroy(arena);
}

/* ---- invalid texts; all but the first few follow a valid first line and prologue */

#define HEAD "linear k buffers=float32,int32 writes=1 scalars=1 local=2,2,1 localbytes=32\n"
#define PRE                                                                                                                      \
    HEAD LINE(0, "buffer float32 arg=0") LINE(1, "buffer int32 arg=1") LINE(2, "const int32 3") LINE(3, "const float32 1")       \
        LINE(4, "lane int32x4") LINE(5, "store %0 %2 %3") LINE(6, "const bool 1") LINE(7, "stack float32x2 %3 %3")
#define UNIT "8x8x8 8,1,15 float16 float32"
#define MATRIX                                                                                                                   \
    "linear k buffers=float16 writes=0 scalars=0 local=8,1,1 localbytes=256\n" LINE(0, "buffer float16 arg=0")                   \
        LINE(1, "fragment float32 shape=" UNIT) LINE(2, "const int32 8") LINE(3, "local_id int32 arg=0")                         \
            LINE(4, "fragment_load float16 %0 %2 %2 layout=0 shape=" UNIT)                                                       \
                LINE(5, "fragment_load float16 %0 %2 %2 layout=2 shape=" UNIT) LINE(6, "buffer float32 sub=local arg=64")
static const struct {
    const char *text, *why;
} refused[] = {
    {"", "line 1: expected \"linear \""},
    {"linear K buffers= writes=0 scalars=0 local=1,1,1 localbytes=0\n", "a kernel's name"},
    {"linear k buffers=float31 writes=0 scalars=0 local=1,1,1 localbytes=0\n", "no dtype \"float31\""},
    {"linear k buffers=index writes=0 scalars=0 local=1,1,1 localbytes=0\n", "no dtype \"index\""},
    {"linear k buffers=bool, writes=0 scalars=0 local=1,1,1 localbytes=0\n", "no dtype \"\""},
    {"linear k buffers=bool writes=2 scalars=0 local=1,1,1 localbytes=0\n", "writes=2, but the stores give 0"},
    {"linear k buffers=bool writes=1 scalars=0 local=1,1,1 localbytes=0\n", "writes=1, but the stores give 0"},
    {"linear k buffers= writes=-1 scalars=0 local=1,1,1 localbytes=0\n", "expected a number"},
    {"linear k buffers= writes=0 scalars=33 local=1,1,1 localbytes=0\n", "the number 33 is over 32"},
    {"linear k buffers= writes=0 scalars=0 local=0,1,1 localbytes=0\n", "a group has 1 to"},
    {"linear k buffers= writes=0 scalars=0 local=65536,65536,1 localbytes=0\n", "a group has 1 to"},
    {"linear k buffers= writes=0 scalars=0 local=1,1,1 localbytes=4294967296\n", "over 4294967295"},
    {"linear k buffers= writes=0 scalars=0 local=1,1,1 localbytes=99999999999999999999\n", "does not fit 64 bits"},
    {"linear k buffers= writes=0 scalars=0 local=1,1,1 localbytes=0", "more fields"},
    {"linear k buffers= writes=0 scalars=0 local=1,1,1 localbytes=0 \n", "more fields"},
    {HEAD "0 buffer float32 arg=0", "no newline at the end"},
    {HEAD LINE(1, "barrier"), "instruction 0 is numbered 1"},
    {HEAD LINE(0, "barriers"), "no instruction \"barriers\""},
    {HEAD LINE(0, "input float32"), "input of 1 lanes is not allowed in a kernel"},
    {HEAD LINE(0, "range int32"), "range of 1 lanes is not allowed in a kernel"},
    {HEAD LINE(0, "poison float32"), "poison of 1 lanes is not allowed in a kernel"},
    {HEAD "\n", "expected a number"},
    {PRE LINE(8, "add float32 %3"), "add has 1 operands"},
    {PRE LINE(8, "add float32 %3 %3 %3"), "add has 3 operands"},
    {PRE LINE(8, "add float32 %3 %8"), "%8 is not defined before"},
    {PRE LINE(8, "add float32 %3 %4294967295"), "is not defined before"},
    {PRE LINE(8, "add float32 %3 %0"), "%0 is a buffer"},
    {PRE LINE(8, "add float32 %3 %5"), "%5, a store, has no value"},
    {PRE LINE(8, "add float32 %3 %2"), "dtypes differ"},
    {PRE LINE(8, "add int32 %3 %3"), "add: dtype of the result"},
    {PRE LINE(8, "add float32x4 %3 %7"), "add of 4 lanes has an operand of 2"},
    {PRE LINE(8, "add float32 %7 %7"), "add of 1 lanes has an operand of 2"},
    {PRE LINE(8, "add float32x17 %3 %3"), "over 16"},
    {PRE LINE(8, "add float32x0 %3 %3"), "no dtype \"float32x0\""},
    {PRE LINE(8, "add float32 %3 %3 arg=1"), "more fields"},
    {PRE LINE(8, "add index %2 %2"), "no dtype \"index\""},
    {PRE LINE(8, "cmplt float32 %3 %3"), "cmplt: dtype of the result"},
    {PRE LINE(8, "where float32 %2 %3 %3"), "where: the condition is not a bool"},
    {PRE LINE(8, "where float32 %6 %3 %2"), "dtypes differ"},
    {PRE LINE(8, "and float32 %3 %3"), "and: takes integers"},
    {PRE LINE(8, "not float32 %3"), "not: takes integers"},
    {PRE LINE(8, "sqrt int32 %2"), "sqrt: takes floats"},
    {PRE LINE(8, "idiv bool %6 %6"), "idiv: takes integers"},
    {PRE LINE(8, "bitcast int64 %3"), "bitcast: sizes differ"},
    {PRE LINE(8, "cast float32 %7"), "cast of 1 lanes has an operand of 2"},
    {PRE LINE(8, "const float32"), "expected \" \""},
    {PRE LINE(8, "const float32 "), "expected a value"},
    {PRE LINE(8, "const float32 one"), "expected a value"},
    {PRE LINE(8, "const float32 0.1"), "float32 cannot hold the value"},
    {PRE LINE(8, "const float16 65536"), "float16 cannot hold the value"},
    {PRE LINE(8, "const int8 128"), "int8 cannot hold the value"},
    {PRE LINE(8, "const uint8 -1"), "expected a number"},
    {PRE LINE(8, "const bool 2"), "bool cannot hold the value"},
    {PRE LINE(8, "const int64 9223372036854775808"), "is over"},
    {PRE LINE(8, "const float32x2 1"), "const has 2 lanes, not 1"},
    {PRE LINE(8, "const float32 1 "), "more fields"},
    {PRE LINE(8, "var int32 arg=1"), "var number 1 is not below 1"},
    {PRE LINE(8, "var float32 arg=0"), "var is float32, not int32 or int64"},
    {PRE LINE(8, "var int32x2 arg=0"), "var has 2 lanes"},
    {PRE LINE(8, "group_id int32 arg=3"), "group_id number 3 is not below 3"},
    {PRE LINE(8, "local_id int32 arg=-1"), "local_id number -1 is not below 3"},
    {PRE LINE(8, "local_id int32"), "expected \" arg=\""},
    {PRE LINE(8, "buffer float32 arg=2"), "buffer number 2 is not below 2"},
    {PRE LINE(8, "buffer float32 arg=1"), "buffer 1 is int32 in the first line"},
    {PRE LINE(8, "buffer float32x2 arg=0"), "buffer has 2 lanes"},
    {PRE LINE(8, "buffer float32 sub=local arg=0"), "local memory of 0 elements"},
    {PRE LINE(8, "buffer float32 sub=local arg=9"), "local memory of 9 elements"},
    {PRE LINE(8, "buffer float32 sub=local arg=8") LINE(9, "buffer bool sub=local arg=1"), "local memory of 1 elements"},
    {PRE LINE(8, "buffer float64 sub=local arg=2305843009213693952"), "local memory of 2305843009213693952 elements"},
    {PRE LINE(8, "load float32 %3 %2"), "%3 is not a buffer"},
    {PRE LINE(8, "load float32 %0 %3"), "the index is float32"},
    {PRE LINE(8, "load float32 %0 %6"), "the index is bool"},
    {PRE LINE(8, "load int32 %0 %2"), "the value and the buffer differ in dtype"},
    {PRE LINE(8, "load float32x2 %0 %4"), "4 indices for 2 lanes"},
    {PRE LINE(8, "load float32 %0 %2 %2"), "the gate is not a bool"},
    {PRE LINE(8, "load float32 %0"), "load has 1 operands"},
    {PRE LINE(8, "load float32 %0 %1"), "%1 is a buffer"},
    {PRE LINE(8, "store %1 %2 %3"), "the value and the buffer differ in dtype"},
    {PRE LINE(8, "store float32x2 %0 %4 %7"), "4 indices for 2 lanes"},
    {PRE LINE(8, "store %0 %2 %3 %3"), "the gate is not a bool"},
    {PRE LINE(8, "store %1 %2 %2"), "writes=1, but the stores give 3"},
    {PRE LINE(8, "store float32 %0 %2"), "store has 2 operands"},
    {PRE LINE(8, "lane float32x4"), "lane is float32"},
    {PRE LINE(8, "stack float32x4 %3 %3"), "a stack of 4 lanes has 2 operands"},
    {PRE LINE(8, "stack float32x2 %3 %7"), "operand 1 of stack is not a single float32"},
    {PRE LINE(8, "stack float32x2 %3 %2"), "operand 1 of stack is not a single float32"},
    {PRE LINE(8, "fold float32 %7 sub=sub"), "no fold by sub"},
    {PRE LINE(8, "fold float32 %7 sub=what"), "no op to fold by"},
    {PRE LINE(8, "fold float32 %7"), "expected \" sub=\""},
    {PRE LINE(8, "fold float32x2 %7 sub=add"), "fold has 2 lanes, not 1"},
    {PRE LINE(8, "fold int32 %7 sub=add"), "fold gives a single float32 here"},
    {PRE LINE(8, "loop int32 %2"), "1 loops are not closed"},
    {PRE LINE(8, "loop int64 %2") LINE(9, "end"), "the end of the loop is not a single int64"},
    {PRE LINE(8, "loop int32 %4") LINE(9, "end"), "the end of the loop is not a single int32"},
    {PRE LINE(8, "loop float32 %3") LINE(9, "end"), "loop is float32"},
    {PRE LINE(8, "loop int32x2 %2") LINE(9, "end"), "loop has 2 lanes"},
    {PRE LINE(8, "end"), "end without loop"},
    {PRE LINE(8, "loop int32 %2") LINE(9, "end") LINE(10, "neg int32 %8"), "%8 was defined in a loop that has ended"},
    {PRE LINE(8, "loop int32 %2") LINE(9, "neg int32 %8") LINE(10, "end") LINE(11, "loop int32 %2") LINE(12, "neg int32 %9")
         LINE(13, "end"),
     "%9 was defined in a loop that has ended"},
    {PRE LINE(8, "acc float32 %2"), "the variable and its value"},
    {PRE LINE(8, "acc float32 %7"), "the variable and its value"},
    {PRE LINE(8, "set %3 %3"), "set of a value that is not an acc"},
    {PRE LINE(8, "acc float32 %3") LINE(9, "set %8 %2"), "the variable and its value"},
    {PRE LINE(8, "acc float32 %3") LINE(9, "set %8 %7"), "the variable and its value"},
    {PRE LINE(8, "barrier int32"), "more fields"},
    {PRE LINE(8, "local_id int32 arg=0") LINE(9, "loop int32 %8") LINE(10, "barrier") LINE(11, "end"), "a barrier in loop 9"},
    {PRE LINE(8, "local_id int32 arg=0") LINE(9, "min int32 %8 %2") LINE(10, "loop int32 %9") LINE(11, "loop int32 %2")
         LINE(12, "barrier") LINE(13, "end") LINE(14, "end"),
     "a barrier in loop 10"},
    {PRE LINE(8, "load int32 %1 %2") LINE(9, "loop int32 %8") LINE(10, "barrier") LINE(11, "end"), "a barrier in loop 9"},
    {PRE LINE(8, "acc int32 %2") LINE(9, "loop int32 %8") LINE(10, "barrier") LINE(11, "end"), "a barrier in loop 9"},
    {PRE LINE(8, "extract float32 %7 arg=2"), "lane 2 of 2 is extracted"},
    {PRE LINE(8, "extract float32 %7 arg=-1"), "lane -1 of 2 is extracted"},
    {PRE LINE(8, "extract int32 %7 arg=0"), "extract gives a single float32 here"},
    {PRE LINE(8, "extract float32x2 %7 arg=0"), "extract has 2 lanes"},
    {PRE LINE(8, "extract float32 %7"), "expected \" arg=\""},
    {MATRIX LINE(7, "fragment float32 shape=8x8x8 4,1,15 float16 float32"), "8 work-items share a fragment of 4"},
    {MATRIX LINE(7, "fragment float32 shape=8x8x8 8,3,15 float16 float32"), "not a shape of a matrix unit"},
    {MATRIX LINE(7, "fragment float32 shape=0x8x8 8,1,15 float16 float32"), "not a shape of a matrix unit"},
    {MATRIX LINE(7, "fragment float16 shape=" UNIT), "float16 is not the unit's"},
    {MATRIX LINE(7, "fragment_load float16 %0 %2 %2 layout=4 shape=" UNIT), "layout 4 is none of the unit's"},
    {MATRIX LINE(7, "fragment_load float16 %6 %2 %2 layout=0 shape=" UNIT), "loaded from a buffer where its dtype is stored"},
    {MATRIX LINE(7, "fragment_load float16 %2 %2 %2 layout=0 shape=" UNIT), "%2 is not a buffer"},
    {MATRIX LINE(7, "fragment_load float16 %0 %2 %3 layout=0 shape=" UNIT), "the stride is not a constant"},
    {MATRIX LINE(7, "matrix_add %1 %5 %4 shape=" UNIT), "takes a fragment, an a and a b of one shape"},
    {MATRIX LINE(7, "matrix_add %1 %4 %4 shape=" UNIT), "takes a fragment, an a and a b of one shape"},
    {MATRIX LINE(7, "matrix_add %4 %4 %5 shape=" UNIT), "takes a fragment, an a and a b of one shape"},
    {MATRIX LINE(7, "matrix_add %1 %2 %5 shape=" UNIT), "%2 is not a fragment"},
    {MATRIX LINE(7, "add float32 %1 %1"), "%1 is a fragment"},
    {MATRIX LINE(7, "fragment_store %0 %2 %1 shape=" UNIT), "goes to local memory"},
    {MATRIX LINE(7, "fragment_store %6 %2 %4 shape=" UNIT), "stores no fragment of the shape"},
};

static void refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_linear other, *linear = &other; /* a failure must set it to NULL */
        bl_err err = {0};
        bl_status st = parse(arena, refused[i].text, strlen(refused[i].text), &linear, &err);

        if ((st != BL_EINVAL && st != BL_EBUG) || strstr(err.text, refused[i].why) == NULL)
            fail_msg("%s\nwanted: %s\ngot: %s: %s", refused[i].text, refused[i].why, bl_status_name(st), err.text);
        assert_null(linear);
        bl_arena_destroy(arena);
    }
}

static void prologue_is_good(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    bl_linear *linear = NULL;
    bl_err err = {0};

    (void)state;
    if (parse(arena, PRE, sizeof PRE - 1, &linear, &err) != BL_OK)
        fail_msg("%s", err.text); /* otherwise the table above proves nothing */
    bl_arena_destroy(arena);
}

static void nesting_is_bounded(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    bl_text text = {0};
    bl_linear *linear = NULL;
    bl_err err = {0};

    (void)state;
    bl_text_puts(&text, "linear k buffers= writes=0 scalars=0 local=1,1,1 localbytes=0\n0 const int32 1\n");
    for (int i = 1; i <= BL_LINEAR_MAX_DEPTH + 1; i++)
        bl_text_printf(&text, "%d loop int32 %%0\n", i);
    assert_int_equal(BL_EBUG, parse(arena, text.data, text.len, &linear, &err));
    assert_non_null(strstr(err.text, "loops are nested more than"));
    bl_text_fini(&text);
    bl_arena_destroy(arena);
}

/* Every prefix and every changed byte of a valid text is accepted or refused, without a read out of bounds. */
static void damage(void **state)
{
    size_t len = strlen(whole[2]);
    char copy[2048];

    (void)state;
    assert_true(len < sizeof copy);
    for (size_t i = 0; i < len; i++) {
        static const char odd[] = {'\0', '\n', ' ', '9', 'x', '%', '-', '\xff'};

        for (size_t k = 0; k <= sizeof odd; k++) {
            bl_arena *arena = bl_arena_create(0);
            bl_linear *linear = NULL;
            bl_err err = {0};
            bl_status st;

            memcpy(copy, whole[2], len);
            if (k < sizeof odd)
                copy[i] = odd[k];
            st = parse(arena, copy, k < sizeof odd ? len : i, &linear, &err);
            if (k == sizeof odd) /* no prefix is complete: its last line or its stores are missing */
                assert_true(st == BL_EINVAL || st == BL_EBUG);
            assert_int_equal(st == BL_OK, linear != NULL);
            bl_arena_destroy(arena);
        }
    }
}

static void arena_limit(void **state)
{
    (void)state;
    for (size_t limit = 1; limit < 8192; limit += 64) {
        bl_arena *arena = bl_arena_create(limit);
        bl_linear *linear = NULL;
        bl_err err = {0};
        bl_status st = parse(arena, whole[2], strlen(whole[2]), &linear, &err);

        assert_int_equal(st == BL_OK ? BL_OK : BL_ELIMIT, st);
        assert_true(limit > 1 || st == BL_ELIMIT);
        bl_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips), cmocka_unit_test(fields), cmocka_unit_test(prologue_is_good),
        cmocka_unit_test(refusals),    cmocka_unit_test(damage), cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(arena_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
