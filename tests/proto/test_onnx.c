/* SPDX-License-Identifier: MIT */
/* The ONNX import without a server: positions of weights, external data, and invalid files.  tests/onnx compares the results of
 * models. */
#include "proto/onnx/onnx.h"

#include "engine/base/fault.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a writer of protobuf messages */

static void put_varint(bl_text *out, uint64_t value)
{
    for (; value > 127; value >>= 7)
        bl_text_putc(out, (char)((value & 127) | 128));
    bl_text_putc(out, (char)value);
}

static void put_number(bl_text *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_bytes(bl_text *out, unsigned field, const void *data, size_t len)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, len);
    bl_text_append(out, data, len);
}

static void put_string(bl_text *out, unsigned field, const char *text)
{
    put_bytes(out, field, text, strlen(text));
}

/* Writes |message| as a field of |out|, and frees |message|. */
static void put_message(bl_text *out, unsigned field, bl_text *message)
{
    put_bytes(out, field, bl_text_get(message), message->len);
    bl_text_fini(message);
}

static void put_value(bl_text *graph, unsigned field, const char *name, uint64_t size)
{
    bl_text dim = {0}, shape = {0}, tensor = {0}, type = {0}, value = {0};

    put_number(&dim, 1, size);
    put_message(&shape, 1, &dim);
    put_number(&tensor, 1, 1); /* float32 */
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_string(&value, 1, name);
    put_message(&value, 2, &type);
    put_message(graph, field, &value);
}

static void put_node(bl_text *graph, const char *op, const char *a, const char *b, const char *out)
{
    bl_text node = {0};

    put_string(&node, 1, a);
    if (b != NULL)
        put_string(&node, 1, b);
    put_string(&node, 2, out);
    put_string(&node, 4, op);
    put_message(graph, 1, &node);
}

static void put_pair(bl_text *tensor, const char *key, const char *value)
{
    bl_text pair = {0};

    put_string(&pair, 1, key);
    put_string(&pair, 2, value);
    put_message(tensor, 13, &pair);
}

static const float weights[3] = {1.5f, -2, 3};

/* Makes y = x + w, with w in the file as raw data or as external data. */
static bl_text make_model(const char *location, const char *offset, const char *length)
{
    bl_text model = {0}, graph = {0}, tensor = {0}, opset = {0};

    put_node(&graph, "Add", "x", "w", "y");
    put_number(&tensor, 1, 3);
    put_number(&tensor, 2, 1);
    put_string(&tensor, 8, "w");
    if (location == NULL) {
        put_bytes(&tensor, 9, weights, sizeof weights);
    } else {
        put_pair(&tensor, "location", location);
        if (offset != NULL)
            put_pair(&tensor, "offset", offset);
        if (length != NULL)
            put_pair(&tensor, "length", length);
        put_number(&tensor, 14, 1);
    }
    put_message(&graph, 5, &tensor);
    put_value(&graph, 11, "x", 3);
    put_value(&graph, 12, "y", 3);
    put_number(&model, 1, 8);
    put_message(&model, 7, &graph);
    put_number(&opset, 2, 17);
    put_message(&model, 8, &opset);
    return model;
}

/* ---- importing */

typedef struct import {
    bl_arena *arena;
    bl_onnx_model model;
    bl_err err;
    bl_status st;
    bl_mapped files;
} import;

static void run(import *i, bl_span file, const char *folder)
{
    bl_onnx_options options = {.limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 12, .max_tensor_bytes = 1 << 24},
                               .folder = folder,
                               .files = &i->files,
                               .max_bytes = 256 << 20,
                               .max_seconds = 20};

    *i = (import){.arena = bl_arena_create(64 << 20)};
    assert_non_null(i->arena);
    i->st = bl_onnx_import(file, &options, i->arena, &i->model, &i->err);
}

static void end(import *i)
{
    bl_mapped_fini(&i->files);
    bl_arena_destroy(i->arena);
}

static bl_span span_of(const bl_text *text)
{
    return (bl_span){text->data, text->len};
}

static void test_weights_stay_in_the_file(void **unused)
{
    bl_text file = make_model(NULL, NULL, NULL);
import i;

    (void)unused;
    run(&i, span_of(&file), NULL);
    assert_string_equal("", i.err.text);
    const bl_program_doc *doc = &i.model.program;
    assert_int_equal(1, doc->nstates);
    assert_string_equal("w", doc->states[0].name);
    assert_int_equal(sizeof weights, doc->values[0].span.len);
    assert_true(doc->values[0].span.data >= file.data && doc->values[0].span.data < file.data + file.len);
    assert_memory_equal(weights, doc->values[0].span.data, sizeof weights);
    assert_int_equal(1, doc->entries[0].graph.nnodes);
    assert_string_equal("add", doc->entries[0].graph.nodes[0].op);
    assert_string_equal("x", i.model.inputs[0].name);
    assert_string_equal("y", i.model.outputs[0].name);
    end(&i);
    bl_text_fini(&file);
}

/* ---- external data */

static void write_file(const char *folder, const char *name, const void *data, size_t len)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(len, fwrite(data, 1, len, file));
    assert_int_equal(0, fclose(file));
}

typedef struct external_case {
    const char *location, *offset, *length;
    const char *words; /* part of the error, or NULL: the weights are read */
} external_case;

static void test_external_data(void **unused)
{
    static const external_case cases[] = {
        {"w.bin", NULL, NULL, NULL},
        {"w.bin", "0", "12", NULL},
        {"long.bin", "4", "12", NULL},
        {"sub/w.bin", NULL, NULL, NULL},
        {"long.bin", NULL, NULL, "16 bytes of data, but its shape takes 12"},
        {"w.bin", "4", "12", "the file is too short"},
        {"w.bin", "18446744073709551615", NULL, "the file is too short"},
        {"w.bin", "-1", NULL, "\"offset\" of \"-1\""},
        {"w.bin", "1e3", NULL, "\"offset\" of \"1e3\""},
        {"none.bin", NULL, NULL, "cannot be read"},
        {"../inside/w.bin", NULL, NULL, "not a plain path"},
        {"sub/../w.bin", NULL, NULL, "not a plain path"},
        {"./w.bin", NULL, NULL, "not a plain path"},
        {"/etc/passwd", NULL, NULL, "not a plain path"},
        {"sub//w.bin", NULL, NULL, "not a plain path"},
        {"", NULL, NULL, "not a plain path"},
        {"link.bin", NULL, NULL, "a link or not a folder"},
        {"linked/w.bin", NULL, NULL, "a link or not a folder"},
        {"w.bin/w.bin", NULL, NULL, "a link or not a folder"},
        {"sub", NULL, NULL, "not a regular file"},
        {"pipe", NULL, NULL, "not a regular file"},
    };
    static const char *const made[] = {"inside/sub/w.bin", "inside/w.bin", "inside/long.bin", "inside/link.bin", "inside/linked",
                                       "inside/pipe",      "inside/sub",   "inside",          "outside.bin",     ""};
    char top[] = "/tmp/beamline-onnx-XXXXXX", folder[64], path[128], shifted[16] = {0};

    (void)unused;
    assert_non_null(mkdtemp(top));
    snprintf(folder, sizeof folder, "%s/inside", top);
    assert_int_equal(0, mkdir(folder, 0700));
    snprintf(path, sizeof path, "%s/sub", folder);
    assert_int_equal(0, mkdir(path, 0700));
    memcpy(shifted + 4, weights, sizeof weights);
    write_file(folder, "w.bin", weights, sizeof weights);
    write_file(folder, "sub/w.bin", weights, sizeof weights);
    write_file(folder, "long.bin", shifted, sizeof shifted);
    write_file(top, "outside.bin", weights, sizeof weights);
    snprintf(path, sizeof path, "%s/link.bin", folder);
    assert_int_equal(0, symlink("../outside.bin", path));
    snprintf(path, sizeof path, "%s/linked", folder);
    assert_int_equal(0, symlink("..", path));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(0, mkfifo(path, 0600));
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        bl_text file = make_model(cases[k].location, cases[k].offset, cases[k].length);
import i;
        run(&i, span_of(&file), folder);
        if (cases[k].words == NULL) {
            assert_string_equal("", i.err.text);
            assert_memory_equal(weights, i.model.program.values[0].span.data, sizeof weights);
        } else if (strstr(i.err.text, cases[k].words) == NULL) {
            fail_msg("\"%s\": \"%s\", not \"%s\"", cases[k].location, i.err.text, cases[k].words);
        }
        end(&i);
        bl_text_fini(&file);
    }
    for (size_t k = 0; k < sizeof made / sizeof made[0]; k++) {
        snprintf(path, sizeof path, "%s/%s", top, made[k]);
        assert_int_equal(0, remove(path));
    }
}

/* ---- files that are no models */

static void expect(bl_span file, bl_status status, const char *words)
{
import i;

    run(&i, file, NULL);
    if (i.st != status || strstr(i.err.text, words) == NULL)
        fail_msg("%s \"%s\", not %s \"%s\"", bl_status_name(i.st), i.err.text, bl_status_name(status), words);
    end(&i);
}

static void test_no_models(void **unused)
{
    bl_text deep = {0};

    (void)unused;
    expect(BL_S(""), BL_EINVAL, "the graph is missing");
    expect(BL_S("\x08"), BL_EINVAL, "a number ends too early at byte 1");
    expect(BL_S("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), BL_EINVAL, "a number is too long");
    expect(BL_S("\x3a\x7f"), BL_EINVAL, "a field goes past the end");
    expect(BL_S("\x09\x01"), BL_EINVAL, "a field goes past the end");
    expect(BL_S("\x0b"), BL_EINVAL, "a field of an unknown kind");
    expect(BL_S("\x02\x00"), BL_EINVAL, "a field without a number");
    expect(BL_S("\x3a\x02\x08\x01"), BL_EINVAL, "not those of the schema"); /* a graph whose node is a number */
    expect(BL_S("\x3a\x00"), BL_EGRAPH, "has no outputs");
    for (int k = 0; k < 200; k++) { /* nested graph, node, attribute, graph, ...; the outermost is written last */
        bl_text outer = {0};
        put_message(&outer, k % 3 == 0 ? 5 : k % 3 == 1 ? 1 : 6, &deep);
        deep = outer;
    }
    bl_text model = {0};
    put_message(&model, 7, &deep);
    expect(span_of(&model), BL_ELIMIT, "nested more than 64 deep");
    bl_text_fini(&model);
}

/* Imports every model of the fuzzer's corpus: complete, truncated, and with changed bytes.  Each gives a result; files
 * refused_* give an error. */
static void try_file(const char *path)
{
    char *data;
    FILE *file = fopen(path, "rb");
    long len;
    uint32_t random = 12345;
import i;

    assert_non_null(file);
    assert_int_equal(0, fseek(file, 0, SEEK_END));
    len = ftell(file);
    rewind(file);
    data = malloc((size_t)len);
    assert_non_null(data);
    assert_int_equal(len, fread(data, 1, (size_t)len, file));
    fclose(file);
    run(&i, (bl_span){data, (size_t)len}, NULL);
    if ((i.st != BL_OK) != (strstr(path, "/refused_") != NULL))
        fail_msg("%s: %s", path, i.err.text);
    end(&i);
    for (int k = 0; k < 60; k++) {
        random = random * 1664525 + 1013904223;
        size_t at = (random >> 8) % (size_t)len;
        char kept = data[at];
        data[at] = (char)(random >> 3);
        run(&i, (bl_span){data, k % 4 == 0 ? at : (size_t)len}, NULL);
        assert_true((i.st == BL_OK) == (i.err.text[0] == '\0'));
        assert_int_not_equal(BL_EBUG, i.st);
        end(&i);
        if (k % 2 == 0)
            data[at] = kept;
    }
    free(data);
}

static void test_corpus(void **unused)
{
    static const char folder[] = "tests/fuzz/corpus/onnx";
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char path[512];
    int count = 0;

    (void)unused;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        try_file(path);
        count++;
    }
    closedir(dir);
    assert_true(count > 10);
}

/* Each allocation fails once. */
static void test_no_memory(void **unused)
{
    bl_text file = make_model(NULL, NULL, NULL);
    bool passed = false;

    (void)unused;
    for (long n = 1; !passed && n < 1000; n++) {
import i = {.arena = bl_arena_create(64 << 20) };
        bl_onnx_options options = {.limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 12, .max_tensor_bytes = 1 << 24}};
        bl_fault_arm(BL_FAULT_ALLOC, n);
        i.st = bl_onnx_import(span_of(&file), &options, i.arena, &i.model, &i.err);
        passed = i.st == BL_OK;
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        assert_true(passed ? n > 5 : i.st == BL_ENOMEM);
        end(&i);
    }
    assert_true(passed);
    bl_text_fini(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_stay_in_the_file),
        cmocka_unit_test(test_external_data),
        cmocka_unit_test(test_no_models),
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
