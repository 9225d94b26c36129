/* SPDX-License-Identifier: MIT */
#include "tests/proto/documents.h"

#include <math.h>
#include <stdio.h>

static void print_ref(bl_text *out, const bl_wire_ref *ref)
{
    static const char kinds[] = "lisn";

    if (ref->kind == BL_REF_LITERAL)
        bl_text_printf(out, "%g", ref->literal.value);
    else
        bl_text_printf(out, "%c%d.%d", kinds[ref->kind], ref->index, ref->result);
}

/* Prints the graph as text, for comparison. */
static char *print_graph(const bl_wire_graph *g)
{
    bl_text t = {0};

    for (int i = 0; i < g->ninputs; i++) {
        bl_text_printf(&t, "%s:%s[", g->inputs[i].name, bl_dtype_name(g->inputs[i].type.dtype));
        for (int k = 0; k < g->inputs[i].type.ndim; k++) {
            const bl_wire_dim *d = &g->inputs[i].type.dim[k];
            if (d->var >= 0)
                bl_text_printf(&t, "%s,", g->vars[d->var].name);
            else
                bl_text_printf(&t, "%d,", (int)d->size);
        }
        bl_text_puts(&t, "] ");
    }
    for (int i = 0; i < g->nnodes; i++) {
        bl_text_printf(&t, "%s*%d=%s(", g->nodes[i].ids[0], g->nodes[i].nids, g->nodes[i].op);
        for (int k = 0; k < g->nodes[i].nrefs; k++) {
            print_ref(&t, &g->nodes[i].refs[k]);
            bl_text_putc(&t, ' ');
        }
        for (int k = 0; k < g->nodes[i].nattrs; k++)
            bl_text_printf(&t, "%s:%d ", g->nodes[i].attrs[k].name, (int)g->nodes[i].attrs[k].kind);
        bl_text_puts(&t, ") ");
    }
    for (int i = 0; i < g->noutputs; i++) {
        bl_text_printf(&t, ">%s=", g->outputs[i].name);
        print_ref(&t, &g->outputs[i].ref);
    }
    for (int i = 0; i < g->nupdates; i++) {
        bl_text_printf(&t, " !%s=", g->updates[i].name);
        print_ref(&t, &g->updates[i].ref);
    }
    return bl_text_take(&t);
}

static void expect_graph(const bl_wire_graph *g, const char *want)
{
    char *got = print_graph(g);

    assert_string_equal(got, want);
    free(got);
}

/* ---- the examples of docs/api.md */

static const char example_program_run[] = "{\n  \"inputs\": {\"x\": [0, 1, 2, 3], \"t\": [1, 3, 5, 7]}, \"steps\": 500}";

static void api_examples(void **state)
{
    fixture f;
    float x[6];

    (void)state;
    decode_good(&f, RUN, example_run);
    expect_graph(&f.run.graph, "x:float32[2,3,] y*1=mul(i0.0 2 ) s*1=sum(n0.0 axis:0 ) >s=n1.0");
    assert_int_equal(f.run.nsent, 1);
    assert_int_equal(bl_tensor_scan(&f.run.values[0], x, &f.err), BL_OK);
    assert_true(x[0] == 1 && x[5] == 6);
    assert_true(f.run.graph.nodes[0].refs[1].literal.whole);
    bl_arena_destroy(f.arena);

    decode_good(&f, RUN, example_grad);
    expect_graph(&f.run.graph, "a:float32[3,] b:float32[3,] ab*1=mul(i0.0 i1.0 ) c*1=add(n0.0 i0.0 ) d*1=sum(n1.0 ) "
                               "da*2=grad(n2.0 i0.0 i1.0 ) >c=n1.0>da=n3.0>db=n3.1");
    bl_arena_destroy(f.arena);

    decode_good(&f, PROGRAM, example_program);
    assert_int_equal(f.program.nstates, 2);
    assert_int_equal(f.program.nentries, 1);
    assert_string_equal(f.program.entries[0].name, "main");
    expect_graph(&f.program.entries[0].graph,
                 "x:float32[4,] t:float32[4,] wx*1=mul(i0.0 s0.0 ) p*1=add(n0.0 s1.0 ) e*1=sub(n1.0 i1.0 ) e2*1=mul(n2.0 n2.0 ) "
                 "loss*1=mean(n3.0 ) w1*2=sgd(n4.0 s0.0 s1.0 lr:0 ) >loss=n4.0 !w=n5.0 !b=n5.1");
    assert_int_equal(f.program.values[1].kind, BL_VALUE_LIST);

    bl_json_doc doc;
    bl_program_run run;
    bl_decode_env env = make_env(f.arena);
    assert_int_equal(bl_json_parse(&doc, f.arena, BL_S(example_program_run), NULL, &f.err), BL_OK);
    bl_json root = bl_json_root(&doc);
    assert_int_equal(bl_decode_program_run(&env, &root, f.program.entries, f.program.nentries, &run, &f.err), BL_OK);
    assert_true(run.steps == 500 && run.every == 0);
    assert_int_equal(bl_tensor_scan(&run.values[1], x, &f.err), BL_OK);
    assert_true(x[0] == 1 && x[3] == 7);
    bl_json_fini(&doc);
    bl_arena_destroy(f.arena);
}

/* ---- runs */

static void runs(void **state)
{
    static const struct {
        const char *text, *graph;
    } rows[] = {
        /* nodes in any order; nodes in topological order keep their order */
        {"{\"nodes\":[{\"id\":\"c\",\"op\":\"neg\",\"in\":[\"b\"]},{\"id\":\"b\",\"op\":\"neg\",\"in\":[\"a\"]},"
         "{\"id\":\"a\",\"op\":\"ones\",\"attrs\":{\"shape\":[2]}}],\"outputs\":[\"c\",\"a\"]}",
         "a*1=ones(shape:4 ) b*1=neg(n0.0 ) c*1=neg(n1.0 ) >c=n2.0>a=n0.0"},
        {"{\"nodes\":[{\"id\":\"z\",\"op\":\"f\"},{\"id\":\"y\",\"op\":\"f\"},{\"id\":\"x\",\"op\":\"g\",\"in\":[\"y\",\"z\"]}],"
         "\"outputs\":[\"x\"]}",
         "z*1=f() y*1=f() x*1=g(n1.0 n0.0 ) >x=n2.0"},
        /* literals: integer, fraction, non-finite; a list of literals alone */
        {"{\"nodes\":[{\"id\":\"a\",\"op\":\"f\",\"in\":[1,-2.5,\"Infinity\"]},{\"id\":\"b\",\"op\":\"f\",\"in\":[\"NaN\",\"a\"]}"
         "],\"outputs\":[\"b\"]}",
         "a*1=f(1 -2.5 inf ) b*1=f(nan n0.0 ) >b=n1.0"},
        /* attributes are sorted; keep, a retained input, outputs that are inputs */
        {"{\"inputs\":{\"w\":{\"tensor\":\"held\"}},\"nodes\":[{\"id\":\"a\",\"op\":\"f\",\"in\":[\"w\"],\"attrs\":{\"z\":null,"
         "\"b\":true,"
         "\"m\":\"mean\",\"k\":[1,[2,\"NaN\"]],\"n\":\"NaN\"}}],\"outputs\":[\"w\"],\"keep\":{\"copy\":\"a\",\"again\":\"a\"}}",
         "w:float16[2,3,] a*1=f(i0.0 b:1 k:4 m:2 n:0 z:3 ) >w=i0.0>copy=n0.0>again=n0.0"},
        {"{\"lease\":\"ab\",\"inputs\":{\"w\":{\"tensor\":\"leased\"}},\"nodes\":[],\"outputs\":[\"w\"]}",
         "w:float16[2,3,] >w=i0.0"},
        /* an attribute that names a later node is a source of the node, but forms no cycle */
        {"{\"nodes\":[{\"id\":\"s\",\"op\":\"sgd\",\"attrs\":{\"lr\":\"rate\"}},{\"id\":\"rate\",\"op\":\"f\"}],\"outputs\":["
         "\"s\"]}",
         "rate*1=f() s*1=sgd(lr:2 ) >s=n1.0"},
        {"{\"nodes\":[{\"id\":\"l\",\"op\":\"loss\",\"attrs\":{\"reduction\":\"mean\"}},{\"id\":\"mean\",\"op\":\"f\",\"in\":["
         "\"l\"]}],\"outputs\":[\"mean\"]}",
         "l*1=loss(reduction:2 ) mean*1=f(n0.0 ) >mean=n1.0"},
        /* an id in list form, and a run with an input and no node */
        {"{\"nodes\":[{\"id\":[\"a\"],\"op\":\"f\"}],\"outputs\":[\"a\"]}", "a*1=f() >a=n0.0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        decode_good(&f, RUN, rows[i].text);
        expect_graph(&f.run.graph, rows[i].graph);
        bl_arena_destroy(f.arena);
    }
}

#define NAMED "\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\"],\"attrs\":{\"shape\":[\"2 * (n + 1)\"]}}],\"outputs\":[\"y\"]"
#define NODE  "\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[\"x\"]}]"
#define X     "\"inputs\":{\"x\":[1]},"

static const struct {
    document kind;
    const char *text;
    bl_status status;
    const char *says, *node;
} refusals[] = {
    {RUN, "[]", BL_EINVAL, "expected an object, got an array", ""},
    {RUN, "{}", BL_EINVAL, "\"nodes\" is missing", ""},
    {RUN, "{\"nodes\":{}}", BL_EINVAL, "nodes: expected an array, got an object", ""},
    {RUN, "{\"nodes\":[],\"outputs\":[]}", BL_EGRAPH, "the graph asks for nothing", ""},
    {RUN, "{\"nodes\":[1],\"outputs\":[]}", BL_EINVAL, "nodes[0]: expected an object, got a number", ""},
    {RUN, "{\"nodes\":[],\"outputs\":[],\"ouputs\":[]}", BL_EINVAL, "unknown member \"ouputs\"", ""},
    {RUN, "{\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"input\":[]}],\"outputs\":[\"y\"]}", BL_EINVAL,
     "nodes[0]: unknown member \"input\"", ""},
    {RUN, "{\"nodes\":[{\"id\":\"y\"}],\"outputs\":[\"y\"]}", BL_EINVAL, "nodes[0]: the member \"op\" is missing", "y"},
    {RUN, "{\"nodes\":[{\"op\":\"f\"}],\"outputs\":[]}", BL_EINVAL, "nodes[0]: the member \"id\" is missing", ""},
    {RUN, "{\"nodes\":[{\"id\":7,\"op\":\"f\"}],\"outputs\":[]}", BL_EINVAL, "nodes[0].id: expected a string", ""},
    {RUN, "{\"nodes\":[{\"id\":[],\"op\":\"f\"}],\"outputs\":[]}", BL_EGRAPH, "the node has no id", ""},
    {RUN, "{\"nodes\":[{\"id\":[1],\"op\":\"f\"}],\"outputs\":[]}", BL_EINVAL, "nodes[0].id[0]: expected a string", ""},
    {RUN, "{\"nodes\":[{\"id\":\"\",\"op\":\"f\"}],\"outputs\":[]}", BL_EGRAPH, "\"\" is not a valid name", ""},
    {RUN, "{\"nodes\":[{\"id\":\"1a\",\"op\":\"f\"}],\"outputs\":[]}", BL_EGRAPH, "\"1a\" is not a valid name", ""},
    {RUN, "{\"nodes\":[{\"id\":\"a b\",\"op\":\"f\"}],\"outputs\":[]}", BL_EGRAPH, "is not a valid name", ""},
    {RUN, "{\"nodes\":[{\"id\":\"NaN\",\"op\":\"f\"}],\"outputs\":[]}", BL_EGRAPH, "is not a valid name", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"z\"]}", BL_EGRAPH, "outputs[0]: nothing is named \"z\"", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\",\"y\"]}", BL_EGRAPH, "outputs: \"y\" is given twice", ""},
    {RUN, "{" X NODE ",\"outputs\":[1]}", BL_EINVAL, "outputs[0]: expected a string, got a number", ""},
    {RUN, "{" X NODE ",\"outputs\":\"y\"}", BL_EINVAL, "outputs: expected an array", ""},
    {RUN, "{" NODE ",\"outputs\":[\"y\"]}", BL_EGRAPH, "nodes[0].in[0]: nothing is named \"x\"", "y"},
    {RUN, "{" X "\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":\"x\"}],\"outputs\":[\"y\"]}", BL_EINVAL,
     "nodes[0].in: expected an array", "y"},
    {RUN, "{" X "\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[true]}],\"outputs\":[\"y\"]}", BL_EINVAL,
     "expected a name or a number", "y"},
    {RUN, "{" X "\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[[1]]}],\"outputs\":[\"y\"]}", BL_EINVAL,
     "expected a name or a number", "y"},
    {RUN, "{" X "\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"in\":[1e400]}],\"outputs\":[\"y\"]}", BL_EGRAPH, "beyond the range",
     "y"},
    {RUN, "{" X "\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":[]}],\"outputs\":[\"y\"]}", BL_EINVAL,
     "nodes[0].attrs: expected an object", "y"},
    {RUN, "{" X "\"nodes\":[{\"id\":\"y\",\"op\":\"f\",\"attrs\":{\"a\":[{}]}}],\"outputs\":[\"y\"]}", BL_EINVAL,
     "nodes[0].attrs.a[0]: the member", "y"},
    {RUN, "{" X "\"nodes\":[{\"id\":\"x\",\"op\":\"f\"}],\"outputs\":[\"x\"]}", BL_EGRAPH, "\"x\" is used twice, by a", "x"},
    {RUN, "{\"nodes\":[{\"id\":[\"a\",\"a\"],\"op\":\"f\"}],\"outputs\":[\"a\"]}", BL_EGRAPH,
     "\"a\" is used twice, by a node and by another one", "a"},
    {RUN, "{\"nodes\":[{\"id\":\"a\",\"op\":\"f\",\"in\":[\"a\"]}],\"outputs\":[\"a\"]}", BL_EGRAPH,
     "the node \"a\" needs its own result", "a"},
    {RUN,
     "{\"nodes\":[{\"id\":\"z\",\"op\":\"f\"},{\"id\":\"a\",\"op\":\"f\",\"in\":[\"b\"]},{\"id\":\"b\",\"op\":\"f\",\"in\":["
     "\"c\"]},"
     "{\"id\":\"c\",\"op\":\"f\",\"in\":[\"b\",\"z\"]}],\"outputs\":[\"a\"]}",
     BL_EGRAPH, "cycle", "b"},
    {RUN, "{\"inputs\":[1]," NODE "}", BL_EINVAL, "inputs: expected an object, got an array", ""},
    {RUN, "{\"inputs\":{\"x\":[[1],[2,3]]}," NODE "}", BL_EGRAPH, "inputs.x: the list is ragged", ""},
    {RUN, "{\"inputs\":{\"x\":{\"tensor\":\"gone\"}}," NODE "}", BL_ENOTFOUND, "\"gone\"", ""},
    {RUN, "{\"inputs\":{\"x\":{\"tensor\":\"leased\"}}," NODE "}", BL_ENOTFOUND, "\"leased\"", ""},
    {RUN, "{\"inputs\":{\"x\":{\"tensor\":\"held\",\"share\":true}}," NODE "}", BL_EINVAL, "unknown member \"share\"", ""},
    {RUN, "{\"inputs\":{\"x\":{\"op\":\"zeros\"}}," NODE "}", BL_EINVAL, "unknown member \"op\"", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"debug\":8}", BL_EGRAPH, "debug: 8 is not between 0 and 7", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"debug\":\"1\"}", BL_EINVAL, "debug: expected an integer, got a string", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"seed\":-1}", BL_EGRAPH, "seed: -1", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"timeout_ms\":0}", BL_EGRAPH, "timeout_ms", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"device\":0}", BL_EINVAL, "device: expected a string", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"keep\":{\"a b\":\"y\"}}", BL_EGRAPH, "is not a valid name", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"keep\":{\"k\":\"nix\"}}", BL_EGRAPH, "keep.k: nothing is named \"nix\"", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"shapes\":{\"q\":[1]}}", BL_EGRAPH, "shapes: no input is named \"q\"", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"shapes\":{\"x\":[2]}}", BL_EGRAPH, "inputs.x: declared float32[2], got float32[1]",
     ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"shapes\":{\"x\":[\"n\",\"n\"]}}", BL_EGRAPH,
     "declared float32[n, n], got float32[1]", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"shapes\":{\"x\":[\"n\"]},\"dims\":{\"n\":[2,4]}}", BL_EGRAPH,
     "\"n\" is 1, outside its range 2 to 4", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"dims\":{\"n\":[2,4]}}", BL_EGRAPH, "dims.n: no shape", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"sizes\":{\"n\":2}}", BL_EGRAPH, "unknown dimension \"n\"", ""},
    {RUN, "{" X NAMED ",\"dims\":{\"n\":[2,4]}}", BL_EGRAPH, "sizes: \"n\" is missing", ""},
    {RUN, "{" X NAMED ",\"dims\":{\"n\":[2,4]},\"sizes\":{\"n\":5}}", BL_EGRAPH,
     "sizes.n: the dimension \"n\" is 5, outside its range 2 to 4", ""},
    {RUN, "{" X NAMED ",\"dims\":{\"n\":[2,4]},\"sizes\":{\"n\":-1}}", BL_EGRAPH, "sizes.n: -1", ""},
    {RUN, "{" X NAMED ",\"dims\":{\"n\":[2,4]},\"sizes\":[2]}", BL_EINVAL, "sizes: expected an object", ""},
    {RUN, "{" X NAMED ",\"dims\":{\"n\":[1,4]},\"shapes\":{\"x\":[\"n\"]},\"sizes\":{\"n\":2}}", BL_EGRAPH,
     "sizes.n: the dimension \"n\" is 2 here and 1 elsewhere", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"dims\":{\"n\":[4,2]}}", BL_EGRAPH, "dims.n: the range 4 to 2 is empty", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"dims\":{\"n\":[4]}}", BL_EINVAL, "dims.n: expected [smallest, largest]", ""},
    {RUN, "{\"inputs\":{\"x\":[[1,2]]}," NODE ",\"outputs\":[\"y\"],\"shapes\":{\"x\":[\"n\",\"n\"]}}", BL_EGRAPH,
     "\"n\" is 2 here and 1 elsewhere", ""},
    {RUN, "{" X NODE ",\"outputs\":[\"y\"],\"updates\":{}}", BL_EINVAL, "unknown member \"updates\"", ""},
    {PROGRAM, "{\"inputs\":{\"x\":[1]}," NODE "}", BL_EINVAL, "inputs.x: expected an object", ""},
    {PROGRAM, "{\"inputs\":{\"x\":{\"shape\":[1]}}," NODE "}", BL_EINVAL, "inputs.x: the member \"dtype\" is missing", ""},
    {PROGRAM, "{\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[\"n\"]}}," NODE ",\"outputs\":[\"y\"]}", BL_EGRAPH,
     "\"n\" has no range", ""},
    {PROGRAM,
     "{\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[\"n\",\"n\"]}},\"dims\":{\"n\":[1,1048576]}," NODE
     ",\"outputs\":[\"y\"]}",
     BL_ELIMIT, "x: 4398046511104 bytes", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]},\"nodes\":[{\"id\":\"x\",\"op\":\"f\"}],\"outputs\":[\"x\"]}", BL_EGRAPH,
     "\"x\" is used twice", "x"},
    {PROGRAM, "{\"state\":{\"rng\":[1]},\"nodes\":[],\"outputs\":[\"rng\"]}", BL_EGRAPH, "\"rng\"", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]}," NODE ",\"updates\":{\"y\":\"y\"}}", BL_EGRAPH, "updates: no state is named \"y\"", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]}," NODE ",\"updates\":{\"x\":\"q\"}}", BL_EGRAPH, "updates.x: nothing is named \"q\"", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]}," NODE ",\"updates\":{\"x\":\"y\",\"x\":\"y\"}}", BL_EINVAL,
     "updates: the member \"x\" is given twice", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]}," NODE ",\"entries\":{}}", BL_EINVAL, "\"nodes\" is given beside \"entries\"", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]},\"entries\":{}}", BL_EGRAPH, "has no entry", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]},\"entries\":{\"t\":{" NODE ",\"output\":[]}}}", BL_EINVAL,
     "entries.t: unknown member \"output\"", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]},\"entries\":{\"t\":{" NODE "}}}", BL_EGRAPH, "entries.t: the graph asks for nothing", ""},
    {PROGRAM, "{\"state\":{\"x\":{\"op\":\"exec\"}}," NODE ",\"outputs\":[\"y\"]}", BL_EGRAPH, "exec: no such op", ""},
    {PROGRAM, "{\"state\":{\"x\":{\"op\":\"zeros\",\"in\":[]}}," NODE "}", BL_EINVAL, "state.x: unknown member \"in\"", ""},
    {PROGRAM, "{\"state\":{\"x\":{\"dtype\":\"float32\"}}," NODE "}", BL_EINVAL, "state.x: the member \"shape\" is missing", ""},
    {PROGRAM, "{\"state\":{\"x\":[1]}," NODE ",\"keep\":{}}", BL_EINVAL, "unknown member \"keep\"", ""},
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        fixture f;
        bl_status st = decode(&f, refusals[i].kind, refusals[i].text, strlen(refusals[i].text));
        if (st != refusals[i].status || strstr(f.err.text, refusals[i].says) == NULL || strcmp(f.err.node, refusals[i].node) != 0)
            fail_msg("%s:\nstatus %d, \"%s\", node \"%s\";\nwanted %d, \"%s\", \"%s\"", refusals[i].text, (int)st, f.err.text,
                     f.err.node, (int)refusals[i].status, refusals[i].says, refusals[i].node);
        bl_arena_destroy(f.arena);
    }
}

static void named_dimensions(void **state)
{
    static const struct {
        const char *x, *dims;
        int64_t size, lo, hi;
    } rows[] = {{"[[1,2],[3,4],[5,6]]", "", 3, 1, 4},
                {"[[1,2]]", "", 1, 1, 1},
                {"{\"dtype\":\"float32\",\"shape\":[0,2],\"data\":[]}", "", 0, 0, 1},
                {"[[1,2],[3,4],[5,6]]", ",\"dims\":{\"n\":[2,100]}", 3, 2, 100}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        fixture f;
        (void)snprintf(text, sizeof text,
                       "{\"inputs\":{\"x\":%s},\"shapes\":{\"x\":[\"n\",2]},\"nodes\":[],\"outputs\":[\"x\"]%s}", rows[i].x,
                       rows[i].dims);
        decode_good(&f, RUN, text);
        expect_graph(&f.run.graph, "x:float32[n,2,] >x=i0.0");
        assert_int_equal(f.run.graph.nvars, 1);
        assert_int_equal(f.run.vars[0], rows[i].size);
        assert_int_equal(f.run.graph.vars[0].lo, rows[i].lo);
        assert_int_equal(f.run.graph.vars[0].hi, rows[i].hi);
        bl_arena_destroy(f.arena);
    }
}

static void options(void **state)
{
    fixture f;

    (void)state;
    decode_good(&f, RUN,
                "{\"nodes\":[{\"id\":\"a\",\"op\":\"f\"}],\"keep\":{\"k\":\"a\"},\"device\":\"vulkan:0\",\"debug\":3,\"beam\":4,"
                "\"seed\":18446744073709551615,\"timeout_ms\":250,\"lease\":\"00ff\",\"float32_matmul_precision\":\"high\","
                "\"check_indices\":true}");
    const bl_run_options *o = &f.run.options;
    assert_string_equal(o->device, "vulkan:0");
    assert_string_equal(o->lease, "00ff");
    assert_true(o->debug == 3 && o->beam == 4 && o->seeded && o->seed == UINT64_MAX && o->timeout_ms == 250 &&
                o->precision == BL_PRECISION_HIGH && o->check_indices && f.run.graph.check_indices);
    assert_true(f.run.nsent == 0 && f.run.graph.noutputs == 1);
    bl_arena_destroy(f.arena);
    decode_good(&f, RUN, "{\"nodes\":[{\"id\":\"a\",\"op\":\"f\"}],\"outputs\":[\"a\"]}");
    o = &f.run.options;
    assert_true(o->device == NULL && o->lease == NULL && o->debug == -1 && o->beam == -1 && o->precision == -1 && !o->seeded &&
                o->timeout_ms == 0 && !o->check_indices && !f.run.graph.check_indices);
    bl_arena_destroy(f.arena);
}

static void programs(void **state)
{
    fixture f;

    (void)state;
    decode_good(&f, PROGRAM,
                "{\"state\":{\"w\":{\"op\":\"zeros\",\"attrs\":{\"shape\":[7,2]}},\"v\":{\"dtype\":\"int64\",\"shape\":[3]},"
                "\"h\":{\"tensor\":\"held\",\"share\":true},\"s\":{\"dtype\":\"int32\",\"data\":[[5]]}},"
                "\"dims\":{\"batch\":[1,64],\"n\":[2,2]},"
                "\"entries\":{\"train\":{\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[\"batch\",7]}},"
                "\"nodes\":[{\"id\":\"y\",\"op\":\"matmul\",\"in\":[\"x\",\"w\"]}],\"updates\":{\"w\":\"y\"}},"
                "\"test\":{\"inputs\":{\"q\":{\"dtype\":\"int8\",\"shape\":[\"n\",\"batch\"]}},\"nodes\":[],\"outputs\":[\"q\","
                "\"v\"]}}}");
    const bl_program_doc *p = &f.program;
    assert_int_equal(p->nstates, 4);
    assert_true(p->values[0].kind == BL_VALUE_MADE && p->values[0].dim[0] == 7 && p->values[0].bytes == 56);
    assert_true(p->values[1].kind == BL_VALUE_ZEROS && p->values[1].dtype == BL_I64 && p->values[1].bytes == 24);
    assert_true(p->values[2].kind == BL_VALUE_HELD && p->values[2].share && p->values[2].dtype == BL_F16);
    assert_true(p->values[3].kind == BL_VALUE_LIST && p->values[3].ndim == 2 && p->states[3].type.dtype == BL_I32);
    assert_int_equal(p->nentries, 2);
    expect_graph(&p->entries[0].graph, "x:float32[batch,7,] y*1=matmul(i0.0 s0.0 )  !w=n0.0");
    expect_graph(&p->entries[1].graph, "q:int8[n,batch,] >q=i0.0>v=s1.0");
    assert_int_equal(p->entries[0].graph.nvars, 1);
    assert_int_equal(p->entries[1].graph.nvars, 2);
    assert_true(p->entries[1].graph.program && p->entries[1].graph.states == p->states);

    static const struct {
        const char *text;
        bl_status status;
        const char *says;
    } rows[] = {
        {"{\"entry\":\"train\",\"inputs\":{\"x\":[[1,2,3,4,5,6,7]]}}", BL_OK, ""},
        {"{\"inputs\":{\"x\":[[1,2,3,4,5,6,7]]}}", BL_EGRAPH, "no entry \"main\""},
        {"{\"entry\":\"nix\"}", BL_EGRAPH, "no entry \"nix\"; its entries are: train, test"},
        {"{\"entry\":\"train\"}", BL_EGRAPH, "inputs: \"x\" is missing"},
        {"{\"entry\":\"train\",\"inputs\":{\"x\":[[1,2,3,4,5,6,7]],\"z\":[1]}}", BL_EGRAPH,
         "inputs: the entry has nothing named \"z\""},
        {"{\"entry\":\"train\",\"inputs\":{\"x\":[[1,2]]}}", BL_EGRAPH,
         "inputs.x: declared float32[batch, 7], got float32[1, 2]"},
        {"{\"entry\":\"train\",\"inputs\":{\"x\":{\"dtype\":\"float16\",\"shape\":[1,7],\"data\":[1,2,3,4,5,6,7]}}}", BL_EGRAPH,
         "got float16[1, 7]"},
        {"{\"entry\":\"train\",\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[65,0],\"data\":[]}}}", BL_EGRAPH,
         "outside its range 1 to 64"},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"steps\":10,\"collect\":{\"every\":5,\"outputs\":[\"v\"]},\"seq\":9}",
         BL_OK, ""},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2],[3]]}}", BL_EGRAPH, "\"n\" is 3, outside its range 2 to 2"},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"steps\":0}", BL_EGRAPH, "steps: 0"},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"steps\":-3}", BL_EGRAPH, "steps: -3"},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"steps\":1.5}", BL_EINVAL, "steps: expected an integer"},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"collect\":{\"every\":0,\"outputs\":[]}}", BL_EGRAPH,
         "collect.every: 0"},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"steps\":2000000,\"collect\":{\"every\":1,\"outputs\":[]}}",
         BL_ELIMIT, "2000000 reports; the limit is 1000000"},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"collect\":{\"every\":1,\"outputs\":[\"w\"]}}", BL_EGRAPH,
         "collect.outputs[0]: the entry has no output \"w\""},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"collect\":{\"every\":1,\"outputs\":[\"v\",\"v\"]}}", BL_EGRAPH,
         "\"v\" is given twice"},
        {"{\"entry\":\"test\",\"inputs\":{\"q\":[[1],[2]]},\"stepz\":2}", BL_EINVAL, "unknown member \"stepz\""},
    };
    bl_decode_env env = make_env(f.arena);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_json_doc doc;
        bl_program_run run;
        bl_err err = {0};
        assert_int_equal(bl_json_parse(&doc, f.arena, (bl_span){rows[i].text, strlen(rows[i].text)}, NULL, &err), BL_OK);
        bl_json root = bl_json_root(&doc);
        bl_status st = bl_decode_program_run(&env, &root, p->entries, p->nentries, &run, &err);
        if (st != rows[i].status || strstr(err.text, rows[i].says) == NULL)
            fail_msg("%s: status %d, \"%s\"; wanted %d, \"%s\"", rows[i].text, (int)st, err.text, (int)rows[i].status,
                     rows[i].says);
        if (st == BL_OK && run.entry == 1) {
            assert_true(run.steps == 10 && run.every == 5 && run.ncollect == 1 && run.collect[0] == 1 && run.sequenced &&
                        run.seq == 9);
            assert_true(run.vars[0] == 2 && run.vars[1] == 1 && run.values[0].dtype == BL_I8);
        }
        bl_json_fini(&doc);
    }
    bl_arena_destroy(f.arena);
}

static void state_documents(void **state)
{
    static const bl_wire_tensor states[] = {{"w", {.dtype = BL_F32, .ndim = 1, .dim = {{2, -1}}}},
                                            {"a", {.dtype = BL_I64, .ndim = 0}}};
    static const struct {
        const char *text;
        bl_status status;
        const char *says;
    } rows[] = {{"{\"state\":{\"a\":7,\"w\":[1,2]}}", BL_OK, ""},
                {"{\"state\":{\"w\":[1,2]}}", BL_EGRAPH, "state: \"a\" is missing"},
                {"{\"state\":{\"a\":7,\"w\":[1,2],\"q\":1}}", BL_EGRAPH, "the entry has nothing named \"q\""},
                {"{\"state\":{\"a\":7,\"w\":[1]}}", BL_EGRAPH, "state.w: declared float32[2], got float32[1]"},
                {"{\"a\":7}", BL_EINVAL, "unknown member"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_decode_env env = make_env(arena);
        bl_tensor_value *values;
        bl_json_doc doc;
        bl_err err = {0};
        int64_t a = 0;
        assert_int_equal(bl_json_parse(&doc, arena, (bl_span){rows[i].text, strlen(rows[i].text)}, NULL, &err), BL_OK);
        bl_json root = bl_json_root(&doc);
        bl_status st = bl_decode_state(&env, &root, states, 2, &values, &err);
        if (st != rows[i].status || strstr(err.text, rows[i].says) == NULL)
            fail_msg("%s: status %d, \"%s\"; wanted %d, \"%s\"", rows[i].text, (int)st, err.text, (int)rows[i].status,
                     rows[i].says);
        if (st == BL_OK) {
            assert_int_equal(bl_tensor_scan(&values[1], &a, &err), BL_OK);
            assert_int_equal(a, 7);
        }
        bl_json_fini(&doc);
        bl_arena_destroy(arena);
    }
}

static void small_documents(void **state)
{
    static const struct {
        const char *text;
        bl_status status;
    } leases[] = {{"{\"ttl\":60}", BL_OK},
                  {"{\"ttl\":0.5}", BL_OK},
                  {"{\"ttl\":0}", BL_EGRAPH},
                  {"{\"ttl\":-1}", BL_EGRAPH},
                  {"{\"ttl\":1e9}", BL_EGRAPH},
                  {"{\"ttl\":\"NaN\"}", BL_EGRAPH},
                  {"{}", BL_OK},
                  {"{\"ttl\":\"60\"}", BL_EINVAL},
                  {"{\"ttl\":1,\"a\":1}", BL_EINVAL}};
    bl_arena *arena = bl_arena_create(0);
    bl_decode_env env = make_env(arena);
    bl_json_doc doc;
    bl_err err = {0};
    double ttl;

    (void)state;
    for (size_t i = 0; i < sizeof leases / sizeof *leases; i++) {
        err = (bl_err){0};
        assert_int_equal(bl_json_parse(&doc, arena, (bl_span){leases[i].text, strlen(leases[i].text)}, NULL, &err), BL_OK);
        bl_json root = bl_json_root(&doc);
        bl_status st = bl_decode_lease(&root, &ttl, &err);
        if (st != leases[i].status)
            fail_msg("%s: status %d (%s)", leases[i].text, (int)st, err.text);
        bl_json_fini(&doc);
    }
    const char **names, *lease;
    size_t count;
    err = (bl_err){0};
    assert_int_equal(bl_json_parse(&doc, arena, BL_S("{\"names\":[\"a\",\"b/c\"]}"), NULL, &err), BL_OK);
    bl_json root = bl_json_root(&doc);
    assert_int_equal(bl_decode_names(&env, &root, &names, &count, &lease, &err), BL_OK);
    assert_true(count == 2 && strcmp(names[0], "a") == 0 && strcmp(names[1], "b/c") == 0 && lease == NULL);
    bl_json_fini(&doc);
    assert_int_equal(bl_json_parse(&doc, arena, BL_S("{\"names\":[\"a\",\"NaN\"]}"), NULL, &err), BL_OK);
    root = bl_json_root(&doc);
    assert_int_equal(bl_decode_names(&env, &root, &names, &count, &lease, &err), BL_EGRAPH);
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
}

static void limits(void **state)
{
    bl_text text = {0};
    fixture f;

    (void)state;
    bl_text_puts(&text, "{\"nodes\":[");
    for (int i = 0; i < 2001; i++)
        bl_text_printf(&text, "%s{\"id\":\"n%d\",\"op\":\"f\"}", i > 0 ? "," : "", i);
    bl_text_puts(&text, "],\"outputs\":[\"n0\"]}");
    assert_int_equal(decode(&f, RUN, text.data, text.len), BL_ELIMIT);
    assert_string_equal(f.err.text, "nodes: 2001 nodes; the limit is 2000");
    bl_arena_destroy(f.arena);

    bl_text_clear(&text);
    bl_text_puts(&text, "{\"nodes\":[{\"id\":\"a\",\"op\":\"f\",\"in\":[0");
    for (int i = 0; i < 1000000; i++)
        bl_text_puts(&text, ",0");
    bl_text_puts(&text, "]}],\"outputs\":[\"a\"]}");
    assert_int_equal(decode(&f, RUN, text.data, text.len), BL_ELIMIT);
    assert_string_equal(f.err.text, "nodes[0].in: 1000001 operands; the limit is 500");
    bl_arena_destroy(f.arena);

    bl_text_clear(&text);
    bl_text_puts(&text, "{\"nodes\":[{\"id\":\"a\",\"op\":\"f\",\"attrs\":{\"k\":[[0");
    for (int i = 0; i < 65536; i++)
        bl_text_puts(&text, ",0");
    bl_text_puts(&text, "]]}}],\"outputs\":[\"a\"]}");
    assert_int_equal(decode(&f, RUN, text.data, text.len), BL_ELIMIT);
    assert_non_null(strstr(f.err.text, "65536 items"));
    bl_arena_destroy(f.arena);

    bl_text_clear(&text);
    bl_text_puts(&text, "{\"nodes\":[{\"id\":\"a\",\"op\":\"f\"}],\"outputs\":[\"a\"");
    for (int i = 0; i < 100000; i++)
        bl_text_puts(&text, ",\"a\"");
    bl_text_puts(&text, "]}");
    assert_int_equal(decode(&f, RUN, text.data, text.len), BL_ELIMIT);
    bl_arena_destroy(f.arena);

    bl_text_clear(&text);
    bl_text_puts(&text, "{\"inputs\":{\"a\":1");
    for (int i = 0; i < 500; i++)
        bl_text_printf(&text, ",\"i%d\":1", i);
    bl_text_puts(&text, "},\"nodes\":[],\"outputs\":[\"a\"]}");
    assert_int_equal(decode(&f, RUN, text.data, text.len), BL_ELIMIT);
    assert_non_null(strstr(f.err.text, "inputs: 501 tensors; the limit is 500"));
    bl_arena_destroy(f.arena);
    bl_text_fini(&text);
}

/* A chain of nodes in reverse order, as deep as the limit allows. */
static void deep_graph(void **state)
{
    bl_text text = {0};
    fixture f;

    (void)state;
    bl_text_puts(&text, "{\"inputs\":{\"n0\":[1]},\"nodes\":[");
    for (int i = 2000; i > 0; i--)
        bl_text_printf(&text, "{\"id\":\"n%d\",\"op\":\"f\",\"in\":[\"n%d\"]}%s", i, i - 1, i > 1 ? "," : "");
    bl_text_puts(&text, "],\"outputs\":[\"n2000\"]}");
    decode_good(&f, RUN, text.data);
    for (int i = 1; i < 2000; i++)
        assert_int_equal(f.run.graph.nodes[i].refs[0].index, i - 1);
    assert_int_equal(f.run.graph.outputs[0].ref.index, 1999);
    bl_arena_destroy(f.arena);
    bl_text_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(api_examples),    cmocka_unit_test(runs),
                                       cmocka_unit_test(refused),         cmocka_unit_test(named_dimensions),
                                       cmocka_unit_test(options),         cmocka_unit_test(programs),
                                       cmocka_unit_test(state_documents), cmocka_unit_test(small_documents),
                                       cmocka_unit_test(limits),          cmocka_unit_test(deep_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
