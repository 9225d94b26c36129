/* SPDX-License-Identifier: MIT */
/* Measures memory bandwidth for bench/native_worker.py, which compiles this file as a shared library: non-temporal writes of
 * one long array, and reads of two or three; each thread works on a contiguous part. */
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#if defined __AVX512F__ || defined __AVX__
#include <immintrin.h>
#endif

enum { ARRAYS = 4, ALIGNMENT = 4096 };

static float *array[ARRAYS];

/* Allocates arrays of |n| floats; the thread that uses a page writes the page first.  Returns 0, or -1 if out of memory. */
int stream_init(int64_t n)
{
    for (int i = 0; i < ARRAYS; i++) {
        array[i] = aligned_alloc(ALIGNMENT, (size_t)n * sizeof(float));
        if (array[i] == NULL)
            return -1;
#pragma omp parallel for schedule(static)
        for (int64_t k = 0; k < n; k++)
            array[i][k] = (float)(k & 255);
    }
    return 0;
}

/* d = a * b + c, or d = a * b if |reads| is 2.  |n| is a multiple of 16. */
void stream_run(int64_t n, int reads)
{
    const float *a = array[0], *b = array[1], *c = array[2];
    float *d = array[3];
#if defined __AVX512F__
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += 16) {
        __m512 last = reads > 2 ? _mm512_load_ps(c + i) : _mm512_setzero_ps();
        _mm512_stream_ps(d + i, _mm512_fmadd_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i), last));
    }
#elif defined __AVX__
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += 8) {
        __m256 last = reads > 2 ? _mm256_load_ps(c + i) : _mm256_setzero_ps();
        _mm256_stream_ps(d + i, _mm256_add_ps(_mm256_mul_ps(_mm256_load_ps(a + i), _mm256_load_ps(b + i)), last));
    }
#else
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        d[i] = a[i] * b[i] + (reads > 2 ? c[i] : 0);
#endif
}
