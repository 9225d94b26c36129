/* SPDX-License-Identifier: MIT */
/* Accesses at a sum that may be negative share one pointer, which is the address of one of them: see engine/render/anchor.h. */
#include "engine/render/render.h"
#include "tests/lower/read_linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* For i below 8: y[i] = x[107 - i] + x[100 - i], read in this order; the second access may be behind a gate. */
#define HEAD                                                                                                                     \
    "linear back buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0\n0 buffer float32 arg=0\n"                  \
    "1 buffer float32 arg=1\n2 const int32 8\n3 const int32 -1\n4 const int32 107\n5 const int32 100\n6 const bool 1\n"          \
    "7 loop int32 %2\n8 mul int32 %7 %3\n9 add int32 %8 %4\n10 load float32 %0 %9\n11 add int32 %8 %5\n"
#define TAIL "13 add float32 %10 %12\n14 store %1 %7 %13\n15 end\n"

static void render(const char *list, bl_text *source)
{
    static const bl_device_info info = {.id = "cpu", .dialect = BL_DIALECT_OPENCL, .subgroup = 1, .calls_kernels = true};
    bl_arena *arena = bl_arena_create(0);
    bl_linear *linear = NULL;
    bl_err err = {0};

    if (read_linear(arena, list, strlen(list), &linear, &err) != BL_OK)
        fail_msg("%s", err.text);
    for (uint32_t i = 8; i < 12; i++) /* the text form has no flag for arithmetic without overflow */
        linear->inst[i].sub = linear->inst[i].op == BL_OP_MUL || linear->inst[i].op == BL_OP_ADD;
    if (bl_render(linear, &info, source, &err) != BL_OK)
        fail_msg("%s", err.text);
    bl_arena_destroy(arena);
}

static void the_first_place_is_the_pointer(void **state)
{
    bl_text source = {0};

    (void)state;
    render(HEAD "12 load float32 %0 %11\n" TAIL, &source);
    if (strstr(source.data, "+ 100))[7]") == NULL || strstr(source.data, "+ 100))[0]") == NULL)
        fail_msg("%s", source.data);
    bl_text_fini(&source);
}

static void a_gated_place_is_no_pointer(void **state)
{
    bl_text source = {0};

    (void)state;
    render(HEAD "12 load float32 %0 %11 %6\n" TAIL, &source);
    if (strstr(source.data, "+ 100))[") != NULL)
        fail_msg("%s", source.data);
    bl_text_fini(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_place_is_the_pointer),
        cmocka_unit_test(a_gated_place_is_no_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
