/* SPDX-License-Identifier: MIT */
/* Small graphs given as text, built by the front and run by the interpreter. */
#ifndef BL_TESTS_FRONT_BENCH_H
#define BL_TESTS_FRONT_BENCH_H

#include "engine/base/text.h"

#include <stdint.h>

enum { BENCH_KEPT = 16 };

/* Zeroed to begin with; bench_fini at the end. */
typedef struct bench {
    bool program; /* an optimiser may remember */
    uint32_t seed;
    bl_err err;
    bl_text text; /* of the last run: "float32[2] 1 2; int64[] 7", one for each output */
    size_t nodes; /* reachable in the last graph */
    int nkept;    /* hidden state, which the next run finds again by name */
    struct {
        char name[140];
        void *data;
    } kept[BENCH_KEPT];
} bench;

/* Run the document of POST /api/v1/run, written with ' for ". */
bl_status bench_run(bench *b, const char *document);
/* Only build it, in |max_bytes| (0: no limit) and with the |nth| allocation failing (0: none).  Fails the test unless the status
 * is BL_OK, BL_ELIMIT or BL_ENOMEM. */
bl_status bench_build(const char *document, size_t max_bytes, long nth);
void bench_fini(bench *b);
/* Do two such texts say the same, numbers up to |tolerance| times (1 + their size)? */
bool bench_same(const char *got, const char *want, double tolerance);
/* The |i|-th number of a text; NAN if there is none. */
double bench_number(const char *text, int i);

#endif
