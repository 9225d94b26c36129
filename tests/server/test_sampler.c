/* SPDX-License-Identifier: MIT */
/* Samplers against llama.cpp's choices, token by token, and the top-k selection against a sort. */
#include "server/models/sampler_parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROMPT = 40, WRITTEN = 32 };

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ x >> 16;
}

/* A token that earlier followed the last token is likely, so that texts repeat themselves. */
static float make_logit(uint32_t step, uint32_t id, const int32_t *text, size_t ntext)
{
    uint32_t h = mix(step * 65536U + id + 1);
    float value = (float)(h >> 8) / 2097152.0F - 4.0F + ((h & 63) == 0 ? 6.0F : 0.0F);
    for (size_t i = 0; i + 1 < ntext; i++)
        if (text[i] == text[ntext - 1] && text[i + 1] == (int32_t)id)
            return value + 3;
    return value;
}

static void check_case(const char *name, size_t count, const bl_sampling *sampling, const int *want)
{
    float *logits = calloc(count, sizeof *logits);
    int32_t text[PROMPT + WRITTEN];
    bl_sampler *sampler = NULL;
    bl_err err = {0};
    assert_non_null(logits);
    assert_int_equal(bl_sampler_create(sampling, count, &sampler, &err), BL_OK);
    for (int i = 0; i < PROMPT; i++)
        text[i] = i % 13 * 5 % (int)count;
    for (size_t n = PROMPT; n < PROMPT + WRITTEN; n++) {
        for (uint32_t id = 0; id < count; id++)
            logits[id] = make_logit((uint32_t)n - PROMPT, id, text, n);
        assert_int_equal(bl_sampler_choose(sampler, logits, text, n, &text[n], &err), BL_OK);
        if (text[n] != want[n - PROMPT])
            fail_msg("%s: token %zu is %d, and llama.cpp's is %d", name, n - PROMPT, text[n], want[n - PROMPT]);
    }
    bl_sampler_destroy(sampler);
    free(logits);
}

static void test_chooses_as_llama_cpp(void **state)
{
    static const int32_t tails[] = {10, 11, 12};
    static const bl_dry_breaker breakers[] = {{5, 0, NULL}, {9, 1, tails}, {9, 2, tails + 1}};
    (void)state;
#define SAMPLER_CASE(name, count, settings, ...)                                                                                 \
    {                                                                                                                            \
        static const int want[] = {__VA_ARGS__};                                                                                 \
        bl_sampling sampling, *o = &sampling;                                                                                    \
        assert_int_equal(sizeof want / sizeof want[0], WRITTEN);                                                                 \
        bl_sampling_init_usual(o);                                                                                               \
        o->seed = 42;                                                                                                            \
        o->breakers = breakers;                                                                                                  \
        o->nbreakers = 3;                                                                                                        \
        settings;                                                                                                                \
        check_case(#name, count, o, want);                                                                                       \
    }
#include "sampler_cases.def"
#undef SAMPLER_CASE
}

/* The 10,000th number of the default seed (ISO C++, [rand.predef]). */
static void test_draws_as_mt19937(void **state)
{
    bl_twister twister;
    uint32_t last = 0;
    (void)state;
    bl_twister_seed(&twister, 5489);
    for (int i = 0; i < 10000; i++)
        last = bl_twister_next(&twister);
    assert_int_equal(last, 4123659995U);
}

static void test_takes_the_largest(void **state)
{
    enum { COUNT = 5000 };
    static float values[COUNT];
    static uint64_t keys[COUNT], spare[COUNT];
    (void)state;
    for (int round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            values[i] = (float)(mix(i + 7) % (round == 0 ? 50 : 1000000)) - 500; /* with many equal values too */
            if (round == 2)
                values[i] = (float)i; /* each larger than all before */
            if (round == 3)
                values[i] = i % 3 == 0 ? NAN : -INFINITY;
        }
        bl_sort_positions(values, COUNT, true, keys, spare);
        for (size_t k = 1; k <= BL_SMALL_TOP; k += 51) {
            uint32_t at[BL_SMALL_TOP];
            assert_int_equal(bl_find_top(values, COUNT, k, at), k);
            for (size_t i = 0; i < k; i++)
                if (at[i] != (uint32_t)keys[i])
                    fail_msg("round %d, top %zu: place %zu has %u, a sort %u", round, k, i, at[i], (uint32_t)keys[i]);
        }
    }
}

static void test_tells_probabilities(void **state)
{
    const float logits[] = {1, 3, -INFINITY, 2};
    bl_token_chance likeliest[4];
    double sum = bl_logits_log_sum(logits, 4);
    (void)state;
    assert_true(fabs(sum - log(exp(1) + exp(2) + exp(3))) < 1e-6);
    assert_int_equal(bl_logits_likeliest(logits, 4, sum, likeliest, 2), 2);
    assert_int_equal(likeliest[0].id, 1);
    assert_int_equal(likeliest[1].id, 3);
    assert_true(fabs((double)likeliest[1].value - (2 - sum)) < 1e-6);
}

/* A NaN logit is never chosen, and logits that are all NaN give no choice. */
static void test_logits_that_are_no_numbers(void **state)
{
    float logits[] = {NAN, 2, NAN, 1};
    bl_sampling sampling;
    bl_sampler *sampler = NULL;
    int32_t id = 0;
    bl_err err = {0};
    (void)state;
    bl_sampling_init_greedy(&sampling);
    assert_int_equal(bl_sampler_create(&sampling, 4, &sampler, &err), BL_OK);
    assert_int_equal(bl_sampler_choose(sampler, logits, NULL, 0, &id, &err), BL_OK);
    assert_int_equal(id, 1);
    logits[3] = INFINITY;
    assert_int_equal(bl_sampler_choose(sampler, logits, NULL, 0, &id, &err), BL_OK);
    assert_int_equal(id, 3);
    logits[1] = logits[3] = NAN;
    assert_int_equal(bl_sampler_choose(sampler, logits, NULL, 0, &id, &err), BL_OK);
    assert_int_equal(id, -1);
    bl_sampler_destroy(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chooses_as_llama_cpp),       cmocka_unit_test(test_draws_as_mt19937),
        cmocka_unit_test(test_takes_the_largest),          cmocka_unit_test(test_tells_probabilities),
        cmocka_unit_test(test_logits_that_are_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
