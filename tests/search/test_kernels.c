/* SPDX-License-Identifier: MIT */
/* The kernel database: stored and found records, and damaged, foreign and inconsistent files. */
#include "engine/search/kernel_store.h"
#include "engine/search/tuner.h"
#include "tests/search/subjects.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SUM(n)                                                                                                                   \
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [" #n ", 40]}}, 'nodes': [{'id': 'y', 'op': 'sum', 'in': ['x'], 'attrs': "   \
    "{'axis': 1}}], 'outputs': ['y']}"

static const bl_device_info device = {.id = "test:0", .name = "a device", .driver = "a driver 1", .units = 2};
static const bl_device_info newer = {.id = "test:0", .name = "a device", .driver = "a driver 2", .units = 2};
static const bl_device_info fewer = {.id = "test:0", .name = "a device", .driver = "a driver 1", .units = 1};

typedef struct bench {
    char path[64];
    test_graph graph;
    const bl_node *sink;
    bl_ir *ir;
} bench;

static void open_bench(bench *b, const char *document)
{
    static int number;
    const bl_schedule *schedule = NULL;
    *b = (bench){0};
    snprintf(b->path, sizeof b->path, "/tmp/beamline-kernels-%d-%d.db", (int)getpid(), number++);
    test_graph_open(document, &b->graph);
    schedule = test_graph_schedule(&b->graph, 2);
    b->sink = schedule->nests[0].sink;
    b->ir = b->graph.graph->ir;
}

static void close_bench(bench *b)
{
    static const char *const parts[] = {"", "-wal", "-shm", ".damaged", ".damaged-wal", ".damaged-shm"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s%s", b->path, parts[i]);
        (void)unlink(path);
    }
    test_graph_close(&b->graph);
}

static bl_kernels *open_kernels(const char *path)
{
    bl_kernels *kernels = NULL;
    assert_int_equal(bl_kernels_open(path, &kernels, NULL), BL_OK);
    return kernels;
}

static bool finds(bl_kernels *kernels, const bl_device_info *info, const bench *b, bl_kernel_record *out)
{
    return bl_kernels_find(kernels, info, b->ir, b->sink, out);
}

static bl_kernel_record record_of(const char *moves, int width)
{
    bl_kernel_record record = {.width = width, .tried = 30, .heuristic_ns = 2000, .best_ns = 1500};
    assert_true(bl_moves_parse(moves, record.moves, &record.nmoves));
    return record;
}

static bool count_rows(void *arg, const bl_kernel_row *row)
{
    (void)row;
    ++*(int *)arg;
    return true;
}

static int rows_of(bl_kernels *kernels, const char *key)
{
    int n = 0;
    assert_int_equal(bl_kernels_list(kernels, key, count_rows, &n, NULL), BL_OK);
    return n;
}

/* ---- */

static void test_kept(void **state)
{
    bench b, other;
    bl_kernels *kernels = NULL, *beside = NULL;
    bl_kernel_record out, record = record_of("split(1, vector, 16), split(0, unroll, 6)", 2);

    (void)state;
    open_bench(&b, SUM(6));
    open_bench(&other, SUM(7));
    kernels = open_kernels(b.path);
    assert_false(finds(kernels, &device, &b, &out));
    bl_kernels_store(kernels, &device, b.ir, b.sink, "r_6_40", &record);
    beside = open_kernels(b.path); /* another server at the same time */
    for (int i = 0; i < 2; i++) {
        bl_kernels *k = i == 0 ? kernels : beside;
        assert_true(finds(k, &device, &b, &out));
        assert_int_equal(out.nmoves, 2);
        assert_memory_equal(out.moves, record.moves, 2 * sizeof *out.moves);
        assert_int_equal(out.width, 2);
        assert_int_equal(out.best_ns, 1500);
        assert_false(finds(k, &newer, &b, &out));
        assert_false(finds(k, &fewer, &b, &out));
        assert_false(finds(k, &device, &other, &out));
        assert_int_equal(rows_of(k, NULL), 1);
        assert_int_equal(rows_of(k, "0123456789abcdef"), 0);
    }
    record = record_of("", 4); /* no moves are a valid choice too */
    bl_kernels_store(beside, &device, b.ir, b.sink, "r_6_40", &record);
    assert_true(finds(beside, &device, &b, &out));
    assert_int_equal(out.nmoves, 0);
    assert_int_equal(rows_of(kernels, NULL), 1);
    bl_kernels_close(kernels);
    bl_kernels_close(beside);
    close_bench(&b);
    close_bench(&other);
}

/* A server that looked up a kernel before another server found it, or before an import, finds it afterwards. */
static void test_found_by_others(void **state)
{
    bench b, other;
    bl_kernels *kernels = NULL, *beside = NULL;
    bl_kernel_record out, record = record_of("split(1, vector, 16)", 2);

    (void)state;
    open_bench(&b, SUM(6));
    open_bench(&other, SUM(7));
    kernels = open_kernels(b.path);
    beside = open_kernels(b.path);
    for (int i = 0; i < 2; i++) { /* the second look-up is cached */
        assert_false(finds(beside, &device, &b, &out));
        assert_false(finds(beside, &device, &other, &out));
    }
    bl_kernels_store(kernels, &device, b.ir, b.sink, "r_6_40", &record);
    assert_true(finds(beside, &device, &b, &out));
    assert_int_equal(out.nmoves, 1);
    assert_int_equal(out.width, 2);
    assert_false(finds(beside, &device, &other, &out));
    bl_kernels_store(kernels, &device, other.ir, other.sink, "r_7_40", &record);
    assert_true(finds(beside, &device, &other, &out));
    bl_kernels_close(kernels);
    bl_kernels_close(beside);
    close_bench(&b);
    close_bench(&other);
}

/* Whether the nest of the graph that writes |name| is known; also the parameters that its operands read, in order of their
 * numbers. */
static bool operands_of(const char *document, const char *name, bl_kernels *kernels, bool store, int *n, int64_t *param)
{
    const bl_node *load[8];
    const bl_nest *nest = NULL;
    test_graph graph;
    bl_tune tune;
    bl_kernel_record record = record_of("split(1, vector, 16)", 1);
    bool found = false;

    test_graph_open(document, &graph);
    const bl_schedule *schedule = test_graph_schedule(&graph, 2);
    for (int i = 0; i < schedule->nnests; i++)
        nest = strcmp(schedule->nests[i].name, name) == 0 ? &schedule->nests[i] : nest;
    assert_non_null(nest);
    if (store)
        bl_kernels_store(kernels, &device, graph.graph->ir, nest->sink, nest->name, &record);
    found = bl_kernels_find(kernels, &device, graph.graph->ir, nest->sink, &record);
    bl_tune_init(&tune, graph.graph->ir, nest->sink, nest->nparams);
    *n = bl_tune_operands(&tune, 8, load);
    for (int i = 0; i < *n; i++)
        param[i] = load[i]->src[0]->arg;
    test_graph_close(&graph);
    return found;
}

/* The same nest in other graphs, in which its nodes and buffers were made in other orders: the key is the same, and "pack 0"
 * means the same operand. */
static void test_structure(void **state)
{
    static const char inputs[] = "{'inputs': {'a': {'dtype': 'float32', 'shape': [6, 8]}, 'b': {'dtype': 'float32', 'shape': [8, "
                                 "5]}, 'c': {'dtype': 'float32', 'shape': [7, 8]}}, 'nodes': [";
    static const char *const before[] = {
        "", "{'id': 'e', 'op': 'exp', 'in': ['b']}, ",     /* the loop over the columns is made before the loop over the rows */
        "{'id': 'e', 'op': 'matmul', 'in': ['c', 'b']}, ", /* the load of the second operand is made before that of the first */
    };
    bl_kernels *kernels = open_kernels(NULL);
    int64_t param[3][8];
    int n[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        char document[700];
        snprintf(document, sizeof document, "%s%s{'id': 'y', 'op': 'matmul', 'in': ['a', 'b']}], 'outputs': [%s'y']}", inputs,
                 before[i], i == 0 ? "" : "'e', ");
        if (!operands_of(document, "r_6_5_8", kernels, i == 0, &n[i], param[i]))
            fail_msg("graph %d: not known", i);
        assert_int_equal(n[i], 2);
        assert_memory_equal(param[i], param[0], 2 * sizeof param[0][0]);
    }
    bl_kernels_close(kernels);
}

static void write_file(const char *path, const char *text, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    fclose(file);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* A file that is no database, and a database with an overwritten middle: the file is set aside, and a new database works. */
static void test_damaged(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        bench b;
        char aside[96], noise[4096];
        bl_kernels *kernels = NULL;
        bl_kernel_record out, record = record_of("split(1, vector, 16)", 1);

        open_bench(&b, SUM(6));
        snprintf(aside, sizeof aside, "%s.damaged", b.path);
        memset(noise, 'x', sizeof noise);
        if (how == 0) {
            write_file(b.path, noise, sizeof noise);
        } else {
            FILE *file = NULL;
            kernels = open_kernels(b.path);
            bl_kernels_store(kernels, &device, b.ir, b.sink, "r_6_40", &record);
            bl_kernels_close(kernels);
            file = fopen(b.path, "r+b");
            assert_non_null(file);
            fseek(file, 4096, SEEK_SET); /* after the header's page */
            fwrite(noise, 1, sizeof noise, file);
            fclose(file);
        }
        kernels = open_kernels(b.path);
        assert_true(exists(aside));
        assert_false(finds(kernels, &device, &b, &out));
        bl_kernels_store(kernels, &device, b.ir, b.sink, "r_6_40", &record);
        bl_kernels_close(kernels);
        kernels = open_kernels(b.path);
        assert_true(finds(kernels, &device, &b, &out));
        bl_kernels_close(kernels);
        close_bench(&b);
    }
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* The file of another program, and a file of a later version, stay unchanged. */
static void test_foreign(void **state)
{
    static const char *const foreign[] = {"CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')",
                                          "PRAGMA application_id = 77; CREATE TABLE t (a)",
                                          "PRAGMA application_id = 1651272548; PRAGMA user_version = 1000; CREATE TABLE t (a)"};
    (void)state;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        bench b;
        char aside[96];
        bl_kernels *kernels = NULL;
        bl_kernel_record out, record = record_of("split(1, vector, 16)", 1);
        open_bench(&b, SUM(6));
        snprintf(aside, sizeof aside, "%s.damaged", b.path);
        run_sql(b.path, foreign[i]);
        kernels = open_kernels(b.path);
        assert_false(finds(kernels, &device, &b, &out));
        bl_kernels_store(kernels, &device, b.ir, b.sink, "r_6_40", &record);
        assert_true(finds(kernels, &device, &b, &out)); /* for the lifetime of this process */
        assert_int_equal(rows_of(kernels, NULL), 0);
        bl_kernels_close(kernels);
        assert_false(exists(aside));
        run_sql(b.path, i == 0 ? "DELETE FROM notes" : "DELETE FROM t");
        close_bench(&b);
    }
}

/* Inconsistent rows are ignored. */
static void test_nonsense(void **state)
{
    static const char *const updates[] = {
        "UPDATE kernels SET moves = 'fly 1 2'", "UPDATE kernels SET moves = 'tile'", "UPDATE kernels SET version = 100000",
        "UPDATE kernels SET moves = 'split(1, unroll, 2),'", "UPDATE kernels SET moves = x'fe'"};
    (void)state;
    for (size_t i = 0; i < sizeof updates / sizeof updates[0]; i++) {
        bench b;
        bl_kernels *kernels = NULL;
        bl_kernel_record out, record = record_of("split(1, vector, 16)", 1);
        open_bench(&b, SUM(6));
        kernels = open_kernels(b.path);
        bl_kernels_store(kernels, &device, b.ir, b.sink, "r_6_40", &record);
        bl_kernels_close(kernels);
        run_sql(b.path, updates[i]);
        kernels = open_kernels(b.path);
        if (finds(kernels, &device, &b, &out))
            fail_msg("%s: found", updates[i]);
        bl_kernels_close(kernels);
        close_bench(&b);
    }
}

/* Imported records are checked, and do not replace better records. */
static void test_put(void **state)
{
    bl_kernels *kernels = open_kernels(NULL);
    bl_kernel_row row = {.key = "0123456789abcdef",
                         .device = "d",
                         .driver = "1",
                         .name = "r_6_40",
                         .nest = "",
                         .moves = "split(0, unroll, 2)",
                         .version = BL_MOVES_VERSION,
                         .width = 2,
                         .tried = 9,
                         .heuristic_ns = 20,
                         .best_ns = 10};
    bl_kernel_row bad = row;
    bl_err err = {0};

    (void)state;
    assert_int_equal(bl_kernels_put(kernels, &row, &err), BL_OK);
    row.best_ns = 15;
    row.moves = "";
    assert_int_equal(bl_kernels_put(kernels, &row, &err), BL_OK);
    assert_int_equal(rows_of(kernels, "0123456789abcdef"), 1);
    bad.key = "0123456789ABCDEF";
    assert_int_equal(bl_kernels_put(kernels, &bad, &err), BL_EINVAL);
    bad = row;
    bad.moves = "tile 0";
    err = (bl_err){0};
    assert_int_equal(bl_kernels_put(kernels, &bad, &err), BL_EINVAL);
    bad = row;
    bad.best_ns = -1;
    err = (bl_err){0};
    assert_int_equal(bl_kernels_put(kernels, &bad, &err), BL_EINVAL);
    assert_int_equal(rows_of(kernels, NULL), 1);
    bl_kernels_close(kernels);
}

static bool note_oldest(void *arg, const bl_kernel_row *row)
{
    int64_t *oldest = arg;
    *oldest = row->searched < *oldest ? row->searched : *oldest;
    return true;
}

/* A file over the limit of rows loses the oldest searches, at its opening and during writes. */
static void test_bounded(void **state)
{
    enum { MOST = 50000, OVER = 1000, EVERY = 256 };
    static const char fill[] =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 51000) INSERT INTO kernels "
        "SELECT printf('%016x', i), 'd', 'v', 1, 'k', '', '', 1, 1, 1, 1, i FROM n";
    bl_kernel_row row = {.device = "d", .driver = "v", .name = "k", .nest = "", .moves = "", .version = 1, .searched = 1 << 30};
    bench b;
    sqlite3 *db = NULL;
    bl_kernels *kernels = NULL;
    int64_t oldest = INT64_MAX;

    (void)state;
    open_bench(&b, SUM(6));
    bl_kernels_close(open_kernels(b.path));
    assert_int_equal(sqlite3_open(b.path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, fill, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    kernels = open_kernels(b.path);
    assert_int_equal(rows_of(kernels, NULL), MOST);
    assert_int_equal(bl_kernels_list(kernels, NULL, note_oldest, &oldest, NULL), BL_OK);
    assert_int_equal(oldest, OVER + 1);
    for (int i = 0; i < EVERY; i++) {
        char key[17];
        snprintf(key, sizeof key, "f%015x", i);
        row.key = key;
        assert_int_equal(bl_kernels_put(kernels, &row, NULL), BL_OK);
    }
    assert_int_equal(rows_of(kernels, NULL), MOST);
    assert_int_equal(rows_of(kernels, "f0000000000000ff"), 1);
    bl_kernels_close(kernels);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept),
                                       cmocka_unit_test(test_structure),
                                       cmocka_unit_test(test_damaged),
                                       cmocka_unit_test(test_foreign),
                                       cmocka_unit_test(test_nonsense),
                                       cmocka_unit_test(test_put),
                                       cmocka_unit_test(test_found_by_others),
                                       cmocka_unit_test(test_bounded)};
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
