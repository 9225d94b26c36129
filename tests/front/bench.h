/* SPDX-License-Identifier: MIT */
/* Builds small graphs from JSON text with the front end, and runs them with the interpreter. */
#ifndef BL_TESTS_FRONT_BENCH_H
#define BL_TESTS_FRONT_BENCH_H

#include "engine/base/text.h"

#include <stdint.h>

enum { BENCH_KEPT = 16 };

/* Zero-initialise; call bench_fini at the end. */
typedef struct bench {
    bool program; /* a program, so that optimisers may keep state */
    uint32_t seed;
    bl_err err;
    bl_text text; /* results of the last run: "float32[2] 1 2; int64[] 7", one part per output */
    size_t nodes; /* number of reachable nodes of the last graph */
    int nkept;    /* hidden states, which the next run finds by name */
    struct {
        char name[140];
        void *data;
    } kept[BENCH_KEPT];
} bench;

/* Runs the document of POST /api/v1/run; the text has ' in place of ". */
bl_status bench_run(bench *b, const char *document);
/* Builds the graph only, within |max_bytes| (0: no limit) and with a failure of the |nth| allocation (0: none).  Fails the test
 * unless the status is BL_OK, BL_ELIMIT or BL_ENOMEM. */
bl_status bench_build(const char *document, size_t max_bytes, long nth);
void bench_fini(bench *b);
/* Whether two result texts are equal; numbers may differ by |tolerance| * (1 + magnitude). */
bool bench_same(const char *got, const char *want, double tolerance);
/* The |i|-th number of a text; NAN if there is none. */
double bench_number(const char *text, int i);

#endif
