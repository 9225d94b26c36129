/* SPDX-License-Identifier: MIT */
/* Compares AMX instructions with the formulas of the manual, bit for bit, and checks the faults of invalid instructions.  On a
 * processor with AMX the test checks the processor, and thereby the formulas on which the emulation is based. */
#include "tests/amx/emulate.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROW_BYTES = 64, ROWS = 16, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

typedef struct config {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} config;

typedef uint8_t tile[ROWS][ROW_BYTES];

static void load_config(const config *c)
{
    __asm__ volatile("ldtilecfg %0" ::"m"(*c));
}

static void release(void)
{
    __asm__ volatile("tilerelease" ::);
}

/* Tile 0 is c, tile 1 is a, tile 2 is b. */
static config make_config(int m, int n, int depth)
{
    config c = {.palette = 1};
    c.rows[0] = c.rows[1] = (uint8_t)m;
    c.row_bytes[0] = c.row_bytes[2] = (uint16_t)(4 * n);
    c.row_bytes[1] = (uint16_t)(4 * depth);
    c.rows[2] = (uint8_t)depth;
    return c;
}

static uint32_t draw(void)
{
    static uint64_t state = 7;
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(state >> 32);
}

/* ---- products */

static float of_bf16(const uint8_t *at)
{
    uint16_t half;
    uint32_t bits;
    float x;

    memcpy(&half, at, sizeof half);
    bits = (uint32_t)half << 16;
    memcpy(&x, &bits, sizeof x);
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

static float flushed(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

/* Computes an element of c: the even products in one sum, the odd products in another, each rounded once; then both sums and
 * the old value are added. */
static void bf16_cell(uint8_t *at, tile a, tile b, int m, int n, int depth)
{
    float even = 0, odd = 0, before;

    for (int k = 0; k < depth; k++) {
        even = flushed(fmaf(of_bf16(&a[m][4 * k]), of_bf16(&b[k][4 * n]), even));
        odd = flushed(fmaf(of_bf16(&a[m][4 * k + 2]), of_bf16(&b[k][4 * n + 2]), odd));
    }
    memcpy(&before, at, sizeof before);
    before = flushed(flushed(before) + flushed(even + odd));
    memcpy(at, &before, sizeof before);
}

static void bytes_cell(uint8_t *at, tile a, tile b, int m, int n, int depth, int a_signed, int b_signed)
{
    uint32_t sum;

    memcpy(&sum, at, sizeof sum);
    for (int k = 0; k < 4 * depth; k++) {
        int x = a[m][k], y = b[k / 4][4 * n + k % 4];
        x -= a_signed && x > 127 ? 256 : 0;
        y -= b_signed && y > 127 ? 256 : 0;
        sum += (uint32_t)(x * y);
    }
    memcpy(at, &sum, sizeof sum);
}

#define PRODUCT(name)                                                                                                            \
    static void name(void)                                                                                                       \
    {                                                                                                                            \
        __asm__ volatile(#name " %%tmm2, %%tmm1, %%tmm0" ::);                                                                    \
    }
PRODUCT(tdpbf16ps)
PRODUCT(tdpbssd)
PRODUCT(tdpbsud)
PRODUCT(tdpbusd)
PRODUCT(tdpbuud)

static const struct {
    const char *name;
    void (*run)(void);
    int bf16, a_signed, b_signed;
} products[] = {{"tdpbf16ps", tdpbf16ps, 1, 0, 0},
                {"tdpbssd", tdpbssd, 0, 1, 1},
                {"tdpbsud", tdpbsud, 0, 1, 0},
                {"tdpbusd", tdpbusd, 0, 0, 1},
                {"tdpbuud", tdpbuud, 0, 0, 0}};

/* Fills a tile with random bytes.  For bfloat16 the exponents are near 1, except for every 16th number, which may also be
 * subnormal. */
static void fill(tile t, int bf16)
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < ROW_BYTES; k += 2) {
            uint32_t bits = draw();
            if (bf16 && bits >> 28 != 0)
                bits = (bits & 0x807f) | (120 + (bits >> 16 & 7)) << 7;
            else if (bf16 && (bits & 0x7f80) == 0x7f80)
                bits &= 0x807f; /* no infinities, since their sums give NaN, whose bits are not defined */
            t[i][k] = (uint8_t)bits;
            t[i][k + 1] = (uint8_t)(bits >> 8);
        }
    }
}

static void test_products(void **state)
{
    static tile a, b, c, got, want;

    (void)state;
    for (int round = 0; round < 200; round++) {
        const int m = 1 + (int)(draw() % ROWS), n = 1 + (int)(draw() % 16), depth = 1 + (int)(draw() % ROWS);
        const int kind = round % 5, bf16 = products[kind].bf16;
        const config shape = make_config(m, n, depth);
        const long stride = ROW_BYTES;

        fill(a, bf16);
        fill(b, bf16);
        fill(c, bf16);
        memset(got, 0x5a, sizeof got);
        memcpy(want, got, sizeof want);
        for (int i = 0; i < m; i++) {
            memcpy(want[i], c[i], 4 * (size_t)n);
            for (int k = 0; k < n; k++) {
                if (bf16)
                    bf16_cell(&want[i][4 * k], a, b, i, k, depth);
                else
                    bytes_cell(&want[i][4 * k], a, b, i, k, depth, products[kind].a_signed, products[kind].b_signed);
            }
        }
        load_config(&shape);
        __asm__ volatile("tileloadd (%0,%3,1), %%tmm0\n tileloadd (%1,%3,1), %%tmm1\n tileloaddt1 (%2,%3,1), %%tmm2" ::"r"(c),
                         "r"(a), "r"(b), "r"(stride)
                         : "memory");
        products[kind].run();
        __asm__ volatile("tilestored %%tmm0, (%0,%1,1)" ::"r"(got), "r"(stride) : "memory");
        release();
        for (int i = 0; i < ROWS * ROW_BYTES; i++) {
            if (got[i / ROW_BYTES][i % ROW_BYTES] != want[i / ROW_BYTES][i % ROW_BYTES])
                fail_msg("%s of %d x %d x %d: byte %d of row %d is %02x, not %02x", products[kind].name, m, n, depth,
                         i % ROW_BYTES, i / ROW_BYTES, got[i / ROW_BYTES][i % ROW_BYTES], want[i / ROW_BYTES][i % ROW_BYTES]);
        }
    }
}

/* ---- addresses, registers, unused parts of tiles */

static void test_addresses(void **state)
{
    static uint8_t from[4096], got[ROWS * ROW_BYTES];
    const config whole = {.palette = 1,
                          .row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES},
                          .rows = {ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS}};
    const struct {
        long offset, stride;
    } where[] = {{0, 64}, {32, 128}, {-7, 100}, {500, 200}, {3000, -100}, {0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)draw();
    for (int form = 0; form < 6; form++) {
        const uint8_t *base = from + 64;
        long step = where[form].stride;

        load_config(&whole);
        switch (form) {
        case 0:
            __asm__ volatile("tileloadd (%0,%1,1), %%tmm7" ::"r"(base), "r"(step) : "memory");
            break;
        case 1: /* an 8-bit displacement and a scale */
            step /= 4;
            __asm__ volatile("tileloadd 32(%0,%1,4), %%tmm7" ::"r"(base), "r"(step) : "memory");
            break;
        case 2:
            __asm__ volatile("mov %0, %%r12\n mov %1, %%r13\n tileloadd -7(%%r12,%%r13,1), %%tmm7" ::"r"(base), "r"(step)
                             : "r12", "r13", "memory");
            break;
        case 3: /* a 32-bit displacement, and registers whose low bits have a special meaning in the encoding */
            step /= 8;
            __asm__ volatile("mov %0, %%r13\n mov %1, %%r12\n tileloadd 500(%%r13,%%r12,8), %%tmm7" ::"r"(base), "r"(step)
                             : "r12", "r13", "memory");
            break;
        case 4:
            __asm__ volatile("tileloadd 3000(%0,%1,1), %%tmm7" ::"r"(base), "r"(step) : "memory");
            break;
        default: /* no index: all rows are equal */
            __asm__ volatile("tileloadd (%0), %%tmm7" ::"r"(base) : "memory");
        }
        __asm__ volatile("tilestored %%tmm7, (%0,%1,1)\n tilezero %%tmm7" ::"r"(got), "r"((long)ROW_BYTES) : "memory");
        release();
        for (int r = 0; r < ROWS; r++) {
            const uint8_t *row = base + where[form].offset + r * where[form].stride;
            if (memcmp(got + (ptrdiff_t)r * ROW_BYTES, row, ROW_BYTES) != 0)
                fail_msg("form %d: row %d is another", form, r);
        }
    }
}

static void test_config(void **state)
{
    config c = make_config(3, 5, 7), none = {.palette = 0}, got;

    (void)state;
    load_config(&c);
    __asm__ volatile("sttilecfg %0" : "=m"(got)::"memory");
    assert_memory_equal(&got, &c, sizeof c);
    load_config(&none);
    memset(&got, 1, sizeof got);
    __asm__ volatile("sttilecfg %0" : "=m"(got)::"memory");
    assert_memory_equal(&got, &none, sizeof none);
    load_config(&c);
    release();
    __asm__ volatile("sttilecfg %0" : "=m"(got)::"memory");
    assert_memory_equal(&got, &none, sizeof none);
}

/* The bytes of a tile after the loaded part are zeros. */
static void test_zeros(void **state)
{
    static uint8_t ones[ROWS * ROW_BYTES], got[ROWS * ROW_BYTES];
    config c = {.palette = 1, .row_bytes = {ROW_BYTES}, .rows = {ROWS}};

    (void)state;
    memset(ones, 1, sizeof ones);
    load_config(&c);
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm0\n tilezero %%tmm0\n tilestored %%tmm0, (%2,%1,1)" ::"r"(ones),
                     "r"((long)ROW_BYTES), "r"(got)
                     : "memory");
    release();
    for (size_t i = 0; i < sizeof got; i++)
        assert_int_equal(got[i], 0);
}

/* ---- invalid instructions */

static void use_unconfigured(void)
{
    __asm__ volatile("tilezero %%tmm0" ::);
}

static void use_released(void)
{
    config c = make_config(16, 16, 16);
    load_config(&c);
    release();
    tdpbf16ps();
}

static void use_another(void)
{
    config c = make_config(16, 16, 16);
    load_config(&c);
    __asm__ volatile("tilezero %%tmm3" ::);
}

static void multiply_twice_the_same(void)
{
    config c = make_config(16, 16, 16);
    load_config(&c);
    __asm__ volatile(".byte 0xc4, 0xe2, 0x72, 0x5c, 0xc1" ::); /* tdpbf16ps %tmm1, %tmm1, %tmm0: assemblers reject it */
}

static void multiply_other_shapes(void)
{
    config c = make_config(16, 16, 16);
    c.rows[2] = 15;
    load_config(&c);
    tdpbf16ps();
}

static void multiply_parts_of_elements(void)
{
    config c = make_config(16, 16, 16);
    c.row_bytes[0] = c.row_bytes[2] = 62;
    load_config(&c);
    tdpbssd();
}

static void load_without_index(void)
{
    config c = make_config(16, 16, 16);
    load_config(&c);
    __asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x00" ::); /* tileloadd (%rax), %tmm0 without a SIB byte */
}

static void configure_palette(void)
{
    config c = make_config(16, 16, 16);
    c.palette = 2;
    load_config(&c);
}

static void configure_rows(void)
{
    config c = make_config(17, 16, 16);
    load_config(&c);
}

static void configure_long_rows(void)
{
    config c = make_config(16, 17, 16);
    load_config(&c);
}

static void configure_no_bytes(void)
{
    config c = make_config(16, 16, 16);
    c.row_bytes[1] = 0;
    load_config(&c);
}

static void configure_reserved(void)
{
    config c = make_config(16, 16, 16);
    c.reserved[3] = 1;
    load_config(&c);
}

static void test_forbidden(void **state)
{
    static const struct {
        const char *what;
        void (*run)(void);
        int signal;
    } rows[] = {
        {"a tile that is not configured", use_unconfigured, SIGILL},
        {"... any more", use_released, SIGILL},
        {"... by this configuration", use_another, SIGILL},
        {"a product of a tile with itself", multiply_twice_the_same, SIGILL},
        {"a product of shapes that do not fit", multiply_other_shapes, SIGILL},
        {"a product of parts of elements", multiply_parts_of_elements, SIGILL},
        {"an operand without SIB", load_without_index, SIGILL},
        {"another palette", configure_palette, SIGSEGV},
        {"17 rows", configure_rows, SIGSEGV},
        {"68 bytes in a row", configure_long_rows, SIGSEGV},
        {"rows of nothing", configure_no_bytes, SIGSEGV},
        {"reserved bytes", configure_reserved, SIGSEGV},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL); /* removes the handlers of sanitizers and of cmocka */
            signal(SIGILL, SIG_DFL);
            rows[i].run();
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != rows[i].signal)
            fail_msg("%s: status %x, not signal %d", rows[i].what, (unsigned)status, rows[i].signal);
    }
}

/* Instructions before the process has requested permission. */
static void test_leave(void **state)
{
    int status = 0;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        config c = make_config(16, 16, 16);
        signal(SIGILL, SIG_DFL);
        load_config(&c);
        use_unconfigured();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGILL);
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) != 0)
        fail_msg("the system gives no leave to use tiles");
}

static void test_counts(void **state)
{
    config c = make_config(16, 16, 16);
    static uint8_t from[32 * ROW_BYTES] __attribute__((aligned(64)));
    amx_counts n;

    (void)state;
    if (!amx_is_emulated())
        skip();
    amx_clear_counts();
    load_config(&c);
    assert_int_equal(amx_get_counts().live, 1);
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm0\n tileloadd 32(%0,%1,2), %%tmm1\n tileloadd (%0,%1,1), %%tmm2" ::"r"(from),
                     "r"((long)ROW_BYTES)
                     : "memory");
    tdpbf16ps();
    load_config(&c);
    release();
    n = amx_get_counts();
    assert_int_equal(n.configured, 2);
    assert_int_equal(n.configured_again, 1);
    assert_int_equal(n.released, 1);
    assert_int_equal(n.live, 0);
    assert_int_equal(n.loaded, 3);
    assert_int_equal(n.dense, 2);
    assert_int_equal(n.rows, 48);
    assert_int_equal(n.lines, 64); /* each row of the second load crosses a cache line */
    assert_int_equal(n.multiplied_bf16, 1);
    assert_int_equal(n.missed_first, 32); /* each line misses once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_leave),    cmocka_unit_test(test_config),
                                       cmocka_unit_test(test_zeros),    cmocka_unit_test(test_addresses),
                                       cmocka_unit_test(test_products), cmocka_unit_test(test_forbidden),
                                       cmocka_unit_test(test_counts)};
    return cmocka_run_group_tests_name("AMX", tests, NULL, NULL);
}
