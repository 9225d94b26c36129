/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "proto/encode_program.h"
#include "tests/proto/documents.h"

static bl_wire_key key_of(fixture *f, const char *text, const char *salt)
{
    bl_wire_key key;

    decode_good(f, strstr(text, "\"state\"") != NULL ? PROGRAM : RUN, text);
    const bl_wire_graph *g = f->program.nentries > 0 ? &f->program.entries[0].graph : &f->run.graph;
    assert_int_equal(bl_wire_make_key(f->arena, g, salt, &key, &f->err), BL_OK);
    return key;
}

static void keys(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {
        /* names and values do not count, the order does */
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\",2]}],\"outputs\":[\"y\"]}",
         "{\"inputs\":{\"q\":[7]},\"nodes\":[{\"id\":\"z\",\"in\":[\"q\",2],\"op\":\"f\",\"attrs\":{}}],\"keep\":{\"k\":\"z\"}}",
         true},
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\",2]}],\"outputs\":[\"y\"]}",
         "{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\",2.0]}],\"outputs\":[\"y\"]}", false},
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\",2]}],\"outputs\":[\"y\"]}",
         "{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\",-2]}],\"outputs\":[\"y\"]}", false},
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\",0]}],\"outputs\":[\"y\"]}",
         "{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\",-0]}],\"outputs\":[\"y\"]}", false},
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\"]}],\"outputs\":[\"y\"]}",
         "{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\"]}],\"outputs\":[\"x\"]}", false},
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[],\"outputs\":[\"x\"]}",
         "{\"inputs\":{\"x\":[1,2]},\"nodes\":[],\"outputs\":[\"x\"]}", false},
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[],\"outputs\":[\"x\"]}",
         "{\"inputs\":{\"x\":[true]},\"nodes\":[],\"outputs\":[\"x\"]}", false},
        /* check_indices, which is false by default */
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[],\"outputs\":[\"x\"],\"check_indices\":false}",
         "{\"inputs\":{\"x\":[1]},\"nodes\":[],\"outputs\":[\"x\"]}", true},
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[],\"outputs\":[\"x\"],\"check_indices\":true}",
         "{\"inputs\":{\"x\":[1]},\"nodes\":[],\"outputs\":[\"x\"]}", false},
        /* with checks, ids of nodes count, since the plan's errors contain them; names of inputs do not count */
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\"]}],\"outputs\":[\"y\"],\"check_indices\":"
         "true}",
         "{\"inputs\":{\"q\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"q\"]}],\"outputs\":[\"y\"],\"check_indices\":"
         "true}",
         true},
        {"{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\"]}],\"outputs\":[\"y\"],\"check_indices\":"
         "true}",
         "{\"inputs\":{\"x\":[1]},\"nodes\":[{\"id\":\"z\",\"op\":\"f\",\"in\":[\"x\"]}],\"outputs\":[\"z\"],\"check_indices\":"
         "true}",
         false},
        {"{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":{\"inputs\":[\"h\"],\"nodes\":[{\"id\":\"n\",\"op\":\"g\","
         "\"in\":[\"h\"]}],"
         "\"outputs\":[\"n\"]}}}],\"outputs\":[\"y\"],\"check_indices\":true}",
         "{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":{\"inputs\":[\"h\"],\"nodes\":[{\"id\":\"m\",\"op\":\"g\","
         "\"in\":[\"h\"]}],"
         "\"outputs\":[\"m\"]}}}],\"outputs\":[\"y\"],\"check_indices\":true}",
         false},
        /* attributes in any order */
        {"{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"a\":1,\"b\":[1,[2]]}}],\"outputs\":[\"y\"]}",
         "{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":[ 1 , [2]],\"a\":1}}],\"outputs\":[\"y\"]}", true},
        {"{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":[1,[2]]}}],\"outputs\":[\"y\"]}",
         "{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":[[1],2]}}],\"outputs\":[\"y\"]}", false},
        {"{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":\"1\"}}],\"outputs\":[\"y\"]}",
         "{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":1}}],\"outputs\":[\"y\"]}", false},
        /* another size in the same range; another range */
        {"{\"inputs\":{\"x\":[1,2,3]},\"shapes\":{\"x\":[\"n\"]},\"nodes\":[],\"outputs\":[\"x\"]}",
         "{\"inputs\":{\"x\":[1,2,3,4]},\"shapes\":{\"x\":[\"n\"]},\"nodes\":[],\"outputs\":[\"x\"]}", true},
        {"{\"inputs\":{\"x\":[1,2,3]},\"shapes\":{\"x\":[\"n\"]},\"nodes\":[],\"outputs\":[\"x\"]}",
         "{\"inputs\":{\"x\":[1,2,3,4,5]},\"shapes\":{\"x\":[\"n\"]},\"nodes\":[],\"outputs\":[\"x\"]}", false},
        {"{\"inputs\":{\"x\":[1,2,3]},\"shapes\":{\"x\":[\"n\"]},\"nodes\":[],\"outputs\":[\"x\"]}",
         "{\"inputs\":{\"x\":[1,2,3,4]},\"nodes\":[],\"outputs\":[\"x\"]}", false},
        /* an attribute that names one or the other input */
        {"{\"inputs\":{\"lr\":1,\"x\":1},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"lr\":\"lr\"}}],\"outputs\":[\"y\"]}",
         "{\"inputs\":{\"x\":1,\"lr\":1},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"lr\":\"lr\"}}],\"outputs\":[\"y\"]}",
         false},
        /* bodies: names do not count, everything else does */
        {"{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":{\"inputs\":[\"h\"],\"nodes\":[{\"id\":\"n\",\"op\":\"g\","
         "\"in\":[\"h\"]}],"
         "\"outputs\":[\"n\",\"n\"]}}}],\"outputs\":[\"y\"]}",
         "{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":{\"inputs\":[\"y\"],\"nodes\":[{\"id\":\"m\",\"op\":\"g\","
         "\"in\":[\"y\"]}],"
         "\"outputs\":[\"m\",\"m\"]}}}],\"outputs\":[\"y\"]}",
         true},
        {"{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":{\"inputs\":[\"h\"],\"nodes\":[{\"id\":\"n\",\"op\":\"g\","
         "\"in\":[\"h\"]}],"
         "\"outputs\":[\"n\"]}}}],\"outputs\":[\"y\"]}",
         "{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"b\":{\"inputs\":[\"h\"],\"nodes\":[{\"id\":\"n\",\"op\":\"g\","
         "\"in\":[\"h\"]}],"
         "\"outputs\":[\"h\"]}}}],\"outputs\":[\"y\"]}",
         false},
        /* programs: ids count, since they name the state of optimisers */
        {"{\"state\":{\"w\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"w\"]}],\"updates\":{\"w\":\"y\"}}",
         "{\"state\":{\"w\":[2]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"w\"]}],\"updates\":{\"w\":\"y\"}}", true},
        {"{\"state\":{\"w\":[1]},\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"w\"]}],\"updates\":{\"w\":\"y\"}}",
         "{\"state\":{\"w\":[1]},\"nodes\":[{\"id\":\"z\",\"op\":\"f\",\"in\":[\"w\"]}],\"updates\":{\"w\":\"z\"}}", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f, g;
        bl_wire_key a = key_of(&f, rows[i].a, "s"), b = key_of(&g, rows[i].b, "s");
        bool same = a.hash == b.hash && a.len == b.len && memcmp(a.bytes, b.bytes, a.len) == 0;
        if (same != rows[i].same)
            fail_msg("%s\n%s\nare %s", rows[i].a, rows[i].b, same ? "the same" : "not the same");
        bl_arena_destroy(f.arena);
        bl_arena_destroy(g.arena);
    }
    fixture f, g;
    bl_wire_key a = key_of(&f, rows[0].a, "opencl:0"), b = key_of(&g, rows[0].a, "vulkan:0");
    assert_true(a.hash != b.hash);
    bl_arena_destroy(f.arena);
    bl_arena_destroy(g.arena);
}

/* A copy has the key of its original, and does not refer to the original's memory. */
static void copies(void **state)
{
    static const char *const texts[] = {example_run, example_grad, example_program,
                                        "{\"inputs\":{\"x\":[1,2,3]},\"shapes\":{\"x\":[\"n\"]},\"nodes\":[{\"id\":[\"p\",\"q\"],"
                                        "\"op\":\"f\",\"in\":[\"x\",-1.5e3],"
                                        "\"attrs\":{\"axis\":[0,[1,\"n\"]],\"lr\":\"x\",\"k\":null,\"b\":{\"inputs\":[\"h\"],"
                                        "\"nodes\":[{\"id\":\"m\",\"op\":\"g\",\"in\":[\"h\"]}],"
                                        "\"outputs\":[\"m\"]}}}],\"outputs\":[\"p\"],\"keep\":{\"k\":\"q\"}}"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fixture f;
        bl_wire_key a = key_of(&f, texts[i], "s"), b;
        bl_arena *arena = bl_arena_create(0), *keys = bl_arena_create(0);
        const bl_wire_graph *graph = f.program.nentries > 0 ? &f.program.entries[0].graph : &f.run.graph;
        const bl_wire_graph *made = bl_wire_copy(arena, graph);
        void *bytes = malloc(a.len);

        memcpy(bytes, a.bytes, a.len);
        assert_string_equal(made->nodes[0].ids[0], graph->nodes[0].ids[0]); /* the key of a run does not include the id */
        bl_arena_destroy(f.arena);
        assert_int_equal(bl_wire_make_key(keys, made, "s", &b, &f.err), BL_OK);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(bytes, b.bytes, a.len);
        assert_true(made->noutputs == 0 || made->outputs[0].name[0] != '\0');
        free(bytes);
        bl_arena_destroy(keys);
        bl_arena_destroy(arena);
    }
}

/* A program that was encoded again decodes to the same structure, entry by entry. */
static void written_again(void **state)
{
    static const char *const texts[] = {
        example_program,
        "{\"state\":{\"w\":[1,2]},\"dims\":{\"n\":[1,64],\"m\":[2,3]},\"float32_matmul_precision\":\"high\","
        "\"check_indices\":true,"
        "\"batching\":{\"max_rows\":8,\"delay_us\":5,\"preferred_rows\":[2,4],\"max_waiting\":9},\"entries\":{"
        "\"train\":{\"inputs\":{\"x\":{\"dtype\":\"int32\",\"shape\":[\"n\",2]},\"lr\":{\"dtype\":\"float32\",\"shape\":[]}},"
        "\"nodes\":[{\"id\":\"late\",\"op\":\"f\",\"in\":[\"a\",\"b\"]},{\"id\":[\"a\",\"b\"],\"op\":\"g\",\"in\":[\"x\",2,2.0,-"
        "0,0.1,"
        "1e300,18446744073709551615,-9223372036854775808,\"NaN\",\"-Infinity\",\"w\"],\"attrs\":{\"lr\":\"lr\",\"axis\":[0,[1,-1."
        "5]],"
        "\"k\":null,\"t\":true,\"text\":\"a \\\"b\\\" \\u00e9\\n\",\"size\":\"2 * "
        "n\",\"inf\":\"Infinity\",\"b\":{\"inputs\":[\"h\"],\"nodes\":["
        "{\"id\":\"q\",\"op\":\"g\",\"in\":[\"h\",3]}],\"outputs\":[\"q\",\"h\",\"q\"]}}}],"
        "\"updates\":{\"w\":\"a\"},\"outputs\":[\"late\",\"x\"]},"
        "\"test\":{\"inputs\":{\"y\":{\"dtype\":\"float32\",\"shape\":[\"m\",\"n\"]}},\"nodes\":[],\"outputs\":[\"y\",\"w\"]}}}"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fixture f, g;
        bl_text text = {0};
        decode_good(&f, PROGRAM, texts[i]);
        bl_encode_program(&text, &f.program, "interp:0");
        decode_good(&g, PROGRAM, bl_text_get(&text));
        assert_string_equal(g.program.options.device, "interp:0");
        assert_int_equal(f.program.options.precision, g.program.options.precision);
        assert_true(f.program.options.check_indices == (i == 1) && g.program.options.check_indices == (i == 1));
        assert_int_equal(f.program.nentries, g.program.nentries);
        assert_memory_equal(&f.program.batching, &g.program.batching, sizeof f.program.batching);
        for (int e = 0; e < f.program.nentries; e++) {
            bl_wire_key a, b;
            assert_string_equal(f.program.entries[e].name, g.program.entries[e].name);
            assert_int_equal(bl_wire_make_key(f.arena, &f.program.entries[e].graph, "s", &a, &f.err), BL_OK);
            assert_int_equal(bl_wire_make_key(g.arena, &g.program.entries[e].graph, "s", &b, &g.err), BL_OK);
            if (a.len != b.len || memcmp(a.bytes, b.bytes, a.len) != 0)
                fail_msg("%s\nbecame\n%s", texts[i], bl_text_get(&text));
        }
        bl_text_fini(&text);
        bl_arena_destroy(f.arena);
        bl_arena_destroy(g.arena);
    }
}

/* Every allocation fails once: the status is always BL_ENOMEM, without a leak. */
static void out_of_memory(void **state)
{
    bl_status st = BL_ENOMEM;

    (void)state;
    for (long n = 2; st != BL_OK; n++) {
        fixture f;
        bl_fault_arm(BL_FAULT_ALLOC, n);
        st = decode(&f, PROGRAM, example_program, strlen(example_program));
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        if (st != BL_OK && st != BL_ENOMEM)
            fail_msg("allocation %ld: status %d, %s", n, (int)st, f.err.text);
        assert_true(n < 200);
        bl_arena_destroy(f.arena);
    }
}

/* ---- 20,000 mutated documents: no crash, no leak, and each refusal has a message */

static const char *const seeds[] = {example_run, example_grad, example_program,
                                    "{\"inputs\":{\"x\":{\"dtype\":\"int64\",\"shape\":[2,2],\"data\":[[1,2],[3,-4]]},\"b\":{"
                                    "\"dtype\":\"bool\",\"shape\":[3],\"base64\":\"AAEB\"},"
                                    "\"h\":{\"tensor\":\"held\"}},\"shapes\":{\"x\":[\"n\",2]},\"dims\":{\"n\":[1,64]},"
                                    "\"nodes\":[{\"id\":[\"p\",\"q\"],\"op\":\"f\","
                                    "\"in\":[\"x\",-1.5e3,\"NaN\"],\"attrs\":{\"axis\":[0,[1,2]],\"mode\":\"p\",\"k\":null}}]"
                                    ",\"outputs\":[\"p\"],\"keep\":{\"k\":\"q\"}}"};
static const char *const bits[] = {"[",
                                   "]",
                                   "{",
                                   "}",
                                   ",",
                                   ":",
                                   "\"",
                                   "\\",
                                   "\\u0000",
                                   "\\ud800",
                                   "1e400",
                                   "-",
                                   "0",
                                   "\"NaN\"",
                                   "\xff",
                                   "\377l0",
                                   "null",
                                   "true",
                                   "18446744073709551616",
                                   "[[[[",
                                   "\"x\"",
                                   "\"shape\"",
                                   "\"n\"",
                                   " ",
                                   "\n"};

/* Changes |text|, of |len| bytes with room for |cap|, as |draw| says.  Returns the new length. */
static size_t mutate(char *text, size_t len, size_t cap, uint64_t draw)
{
    size_t at = (size_t)(draw >> 33) % len, other = (size_t)(draw >> 20) % len;
    const char *bit = bits[(draw >> 45) % (sizeof bits / sizeof *bits)];
    size_t n = strlen(bit), span = other % 12;
    switch (draw >> 61) {
    case 0:
        text[at] = (char)(draw >> 24);
        return len;
    case 1:
        text[at] = text[other];
        return len;
    case 2: /* removes a part */
        span = span < len - at ? span : len - at - 1;
        memmove(text + at, text + at + span, len - at - span);
        return len - span;
    case 3: /* repeats a part */
        span = span < len - at && len + span <= cap ? span : 0;
        memmove(text + at + span, text + at, len - at);
        return len + span;
    case 4: /* truncates */
        return at + 1;
    default:
        if (len + n > cap)
            return len;
        memmove(text + at + n, text + at, len - at);
        memcpy(text + at, bit, n);
        return len + n;
    }
}

/* Returns whether the document was accepted; reads the numbers of an accepted document. */
static bool try_text(const char *text, size_t len, document kind)
{
    char *exact = malloc(len); /* the exact size, so that the sanitizer detects an overflow of one byte */
    fixture f;
    assert_non_null(exact);
    memcpy(exact, text, len);
    bl_status st = decode(&f, kind, exact, len);
    assert_true(st == BL_OK || (st == f.err.status && f.err.text[0] != '\0'));
    for (int i = 0; st == BL_OK && i < f.run.graph.ninputs; i++) {
        void *data = malloc(f.run.values[i].bytes + 1);
        assert_non_null(data);
        if (f.run.values[i].kind != BL_VALUE_HELD && bl_tensor_scan(&f.run.values[i], data, &f.err) != BL_OK)
            assert_true(f.err.text[0] != '\0');
        free(data);
    }
    bl_arena_destroy(f.arena);
    free(exact);
    return st == BL_OK;
}

static void mutations(void **state)
{
    uint64_t seed = 4101842887655102017ULL;
    int fine = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        const char *from = seeds[round % 4];
        size_t len = strlen(from), cap = len + 200;
        char *text = malloc(cap);
        assert_non_null(text);
        memcpy(text, from, len);
        for (int k = 0; k <= round % 3; k++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            len = mutate(text, len, cap, seed);
        }
        fine += try_text(text, len, from == example_program ? PROGRAM : RUN);
        free(text);
    }
    assert_true(fine > 500); /* otherwise the mutations would rarely pass the syntax check */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys), cmocka_unit_test(copies), cmocka_unit_test(written_again),
                                       cmocka_unit_test(out_of_memory), cmocka_unit_test(mutations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
