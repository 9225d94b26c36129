/* SPDX-License-Identifier: MIT */
/* Cooperative matrices: SPIR-V with the NV extension, as shaderc compiles a kernel, is rewritten to the KHR extension.  The
 * test checks single instructions; an installed spirv-val that knows KHR (2024 and later) must accept the module. */
#include "engine/render/unit.h"
#include "vulkan/vk_coopmat.h"

#include <setjmp.h>
#include <shaderc/shaderc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Two accumulators, an operand a that both use, and two operands b, one of them from shared memory, in a loop. */
static const char body[] =
    "layout(local_size_x = 8) in;\n"
    "layout(set = 0, binding = 0) readonly buffer A { %s at[]; } b0;\nlayout(set = 0, binding = 1) readonly buffer B { %s at[]; "
    "} b1;\n"
    "layout(set = 0, binding = 2) buffer C { %s at[]; } b2;\nshared %s l0[64];\nshared %s l1[1024];\n"
    "void main() {\n  l1[int(gl_LocalInvocationID.x)] = b1.at[int(gl_LocalInvocationID.x)];\n  barrier();\n  MATRIX_C c = "
    "MATRIX_C(0), d = MATRIX_C(0);\n  for (int i = 0; i < 4; i++) {\n"
    "    MATRIX_A x; MATRIX_LOAD(x, b0.at, (i * 8), 32u, 0);\n    MATRIX_B y; MATRIX_LOAD(y, b1.at, (i * 8), 32u, 1);\n"
    "    MATRIX_ADD(c, x, y);\n    MATRIX_B z; MATRIX_LOAD(z, l1, (i * 8 + 256), 32u, 0);\n    MATRIX_ADD(d, x, z);\n  }\n"
    "  MATRIX_STORE(c, l0, 0, 8);\n  barrier();\n  b2.at[int(gl_LocalInvocationID.x)] = l0[int(gl_LocalInvocationID.x)];\n"
    "  barrier();\n  MATRIX_STORE(d, l0, 0, 8);\n  barrier();\n"
    "  b2.at[int(gl_LocalInvocationID.x) + 8] = l0[int(gl_LocalInvocationID.x)];\n}\n";

static const struct {
    const char *name, *element, *sum;
    bl_unit_dtype dtype;
} kinds[] = {
    {"float16", "uint16_t", "float", BL_UNIT_F16},
    {"bfloat16", "uint16_t", "float", BL_UNIT_BF16},
    {"int8", "int8_t", "int", BL_UNIT_I8},
};
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

/* Compiles the NV module of a kind to words, which the caller frees. */
static uint32_t *compile(int kind, size_t *count)
{
    bl_matrix_unit unit = {BL_UNIT_COOPERATIVE, kinds[kind].dtype, 8, 8, 8, 8, 1, 0};
    shaderc_compiler_t compiler = shaderc_compiler_initialize();
    shaderc_compile_options_t options = shaderc_compile_options_initialize();
    shaderc_compilation_result_t result = NULL;
    bl_text text = {0};
    uint32_t *words = NULL;

    bl_text_puts(
        &text,
        "#version 450\n#extension GL_EXT_shader_8bit_storage : require\n#extension GL_EXT_shader_16bit_storage : require\n");
    unit_glsl_prelude(&unit, &text);
    bl_text_printf(&text, body, kinds[kind].element, kinds[kind].element, kinds[kind].sum, kinds[kind].sum, kinds[kind].element);
    shaderc_compile_options_set_target_env(options, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
    shaderc_compile_options_set_target_spirv(options, shaderc_spirv_version_1_5);
    shaderc_compile_options_set_optimization_level(options, shaderc_optimization_level_zero);
    result = shaderc_compile_into_spv(compiler, bl_text_get(&text), text.len, shaderc_compute_shader, "test", "main", options);
    if (shaderc_result_get_compilation_status(result) != shaderc_compilation_status_success)
        fail_msg("%s", shaderc_result_get_error_message(result));
    *count = shaderc_result_get_length(result) / 4;
    words = malloc(*count * 4);
    memcpy(words, shaderc_result_get_bytes(result), *count * 4);
    shaderc_result_release(result);
    shaderc_compile_options_release(options);
    shaderc_compiler_release(compiler);
    bl_text_fini(&text);
    return words;
}

/* The first instruction |op| after |from| (NULL: from the start), or NULL. */
static const uint32_t *find(const uint32_t *words, size_t count, const uint32_t *from, uint32_t op)
{
    const uint32_t *at = from == NULL ? words + 5 : from + (from[0] >> 16);
    while (at < words + count && (at[0] & 0xffff) != op)
        at += at[0] >> 16;
    return at < words + count ? at : NULL;
}

static int count_of(const uint32_t *words, size_t count, uint32_t op)
{
    int n = 0;
    for (const uint32_t *at = find(words, count, NULL, op); at != NULL; at = find(words, count, at, op))
        n++;
    return n;
}

/* The value of the 32-bit constant |id|. */
static uint32_t constant(const uint32_t *words, size_t count, uint32_t id)
{
    for (const uint32_t *at = find(words, count, NULL, 43); at != NULL; at = find(words, count, at, 43)) {
        if (at[2] == id)
            return at[3];
    }
    fail_msg("id %u is no constant", id);
    return 0;
}

/* The use operand of the matrix type |id|. */
static uint32_t use_of(const uint32_t *words, size_t count, uint32_t id)
{
    for (const uint32_t *at = find(words, count, NULL, 4456); at != NULL; at = find(words, count, at, 4456)) {
        if (at[1] == id)
            return constant(words, count, at[6]);
    }
    fail_msg("id %u is no matrix type", id);
    return 0;
}

static void look_at(const uint32_t *words, size_t count, bool bfloat16)
{
    static const uint32_t layouts[3] = {0, 1, 0}, uses[3] = {0, 1, 1};
    const uint32_t *at = NULL;

    for (uint32_t op = 5358; op <= 5362; op++)
        assert_int_equal(0, count_of(words, count, op));
    assert_int_equal(3, count_of(words, count, 4456)); /* types of a, b and the accumulator */
    assert_int_equal(2, count_of(words, count, 4459));
    for (int i = 0; i < 3; i++) { /* type, result, pointer, layout, stride */
        at = find(words, count, at, 4457);
        assert_non_null(at);
        assert_int_equal(uses[i], use_of(words, count, at[1]));
        assert_int_equal(layouts[i], constant(words, count, at[4]));
        assert_int_equal(32, constant(words, count, at[5]));
    }
    at = NULL;
    for (int i = 0; i < 2; i++) { /* pointer, matrix, layout, stride */
        at = find(words, count, at, 4458);
        assert_non_null(at);
        assert_int_equal(0, constant(words, count, at[3]));
        assert_int_equal(8, constant(words, count, at[4]));
    }
    at = find(words, count, NULL, 4459);
    assert_int_equal(2, use_of(words, count, at[1]));
    for (at = find(words, count, NULL, 4456); at != NULL && bfloat16; at = find(words, count, at, 4456)) {
        bool sum = constant(words, count, at[6]) == 2;
        const uint32_t *type = find(words, count, NULL, 22);
        while (type != NULL && type[1] != at[2])
            type = find(words, count, type, 22);
        assert_non_null(type);
        assert_int_equal(sum ? 3 : 4, type[0] >> 16); /* bfloat16 is a 16-bit float type with an encoding operand */
        assert_int_equal(sum ? 32 : 16, type[2]);
    }
}

/* Returns 1: valid, 0: invalid, -1: no validator that knows the extension. */
static int validate(const uint32_t *words, size_t count)
{
    char path[] = "/tmp/coopmat-XXXXXX", command[128], line[256] = "";
    int fd = mkstemp(path), status = 0;
    FILE *pipe = NULL;

    if (fd < 0 || write(fd, words, count * 4) != (ssize_t)(count * 4))
        fail_msg("cannot write %s", path);
    close(fd);
    snprintf(command, sizeof command, "spirv-val --target-env vulkan1.3 %s 2>&1", path);
    pipe = popen(command, "r");
    if (pipe == NULL || fgets(line, sizeof line, pipe) == NULL)
        line[0] = '\0';
    status = pipe == NULL ? -1 : pclose(pipe);
    unlink(path);
    if (status == 0)
        return 1;
    if (strstr(line, "not found") != NULL || strstr(line, "Invalid capability operand") != NULL)
        return -1;
    print_error("%s", line);
    return 0;
}

static void test_rewrite(void **state)
{
    int kind = (int)(intptr_t)*state;
    size_t count = 0, made = 0;
    uint32_t *words = compile(kind, &count), *out = NULL;
    bl_err err = {0};
    int valid = 0;

    if (bl_vk_coopmat_rewrite(words, count, kinds[kind].dtype == BL_UNIT_BF16, &out, &made, &err) != BL_OK)
        fail_msg("%s", err.text);
    look_at(out, made, kinds[kind].dtype == BL_UNIT_BF16);
    valid = validate(out, made);
    if (valid < 0)
        print_message("%s: no spirv-val here knows its extensions\n", kinds[kind].name);
    assert_int_not_equal(0, valid);
    free(out);
    free(words);
}

/* Damaged modules are refused or rewritten; the rewriter reads and writes only within them (ASan checks this). */
static void test_damage(void **state)
{
    size_t count = 0;
    uint32_t *words = compile(0, &count);
    uint64_t seed = 5;

    (void)state;
    for (int round = 0; round < 4000; round++) {
        size_t part = round % 4 == 0 ? (size_t)round % count : count, made = 0;
        uint32_t *copy = malloc(part * 4 + 1), *out = NULL;
        memcpy(copy, words, part * 4);
        for (int i = 0; i < 3 && part > 0; i++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            copy[(seed >> 33) % part] = round % 2 == 0 ? (uint32_t)(seed >> 20) : (uint32_t)(seed >> 40) % 64;
        }
        if (bl_vk_coopmat_rewrite(copy, part, round % 3 == 0, &out, &made, NULL) == BL_OK)
            assert_true(made >= 5);
        free(out);
        free(copy);
    }
    free(words);
}

int main(void)
{
    static struct CMUnitTest tests[NKINDS + 1];

    for (int i = 0; i < NKINDS; i++)
        tests[i] = (struct CMUnitTest){.name = kinds[i].name, .test_func = test_rewrite, .initial_state = (void *)(intptr_t)i};
    tests[NKINDS] = (struct CMUnitTest)cmocka_unit_test(test_damage);
    return cmocka_run_group_tests_name("cooperative matrices", tests, NULL, NULL);
}
