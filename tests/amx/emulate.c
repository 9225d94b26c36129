/* SPDX-License-Identifier: MIT */
#include "tests/amx/emulate.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/platform/x86.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    TILES = 8,
    ROWS = 16,
    ROW_BYTES = 64,              /* palette 1 */
    REQUEST_PERMISSION = 0x1023, /* arch_prctl: ARCH_REQ_XCOMP_PERM */
    TILE_DATA = 18,
    EDX = 3,
    TILE_FEATURES = 1 << 22 | 1 << 24 | 1 << 25, /* AMX-BF16, AMX-TILE, AMX-INT8 of leaf 7's edx */
    FLUSH_TO_ZERO = 0x9fc0                       /* value of MXCSR: subnormals are zero, rounding to nearest, no exceptions */
};

/* ---- counters */

typedef union count_page {
    amx_counts at;
    char bytes[4096 - AMX_NAMES];
} count_page;

static count_page here;
static amx_counts *counts = &here.at;

#define COUNT(name, n) __atomic_add_fetch(&counts->name, (uint64_t)(n), __ATOMIC_RELAXED)

/* The lines of a set-associative cache; each set has its most recently used line first. */
typedef struct caches {
    uint64_t first[64][12], second[2048][16];
} caches;

static bool has_line(uint64_t *set, int ways, uint64_t line)
{
    int at = 0;

    while (at < ways - 1 && set[at] != line)
        at++;
    bool has = set[at] == line;
    memmove(set + 1, set, (size_t)at * sizeof *set);
    set[0] = line;
    return has;
}

static void touch(caches *c, const uint8_t *from, unsigned bytes)
{
    uint64_t line = (uintptr_t)from / 64, last = ((uintptr_t)from + bytes - 1) / 64;

    for (; line <= last; line++) {
        COUNT(lines, 1);
        if (has_line(c->first[line % 64], 12, line))
            continue;
        COUNT(missed_first, 1);
        if (!has_line(c->second[line % 2048], 16, line))
            COUNT(missed_second, 1);
    }
}

/* ---- the state of a thread */

typedef struct tiles {
    bool configured;
    uint8_t config[64]; /* as loaded by ldtilecfg */
    uint8_t rows[TILES];
    uint16_t row_bytes[TILES];
    uint8_t data[TILES][ROWS][ROW_BYTES] __attribute__((aligned(64)));
    caches *caches; /* on separate pages, since thread-local variables lie on the stack of a thread, and the stack may be
                     * small */
} tiles;

static _Thread_local tiles own;
static bool permitted; /* the process has requested permission */

static caches *own_caches(void)
{
    if (own.caches == NULL) {
        void *pages = mmap(NULL, sizeof *own.caches, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        own.caches = pages == MAP_FAILED ? NULL : pages;
    }
    return own.caches;
}

/* ---- decoding of instructions */

typedef struct operation {
    const uint8_t *next; /* address of the next instruction */
    uint8_t prefix;      /* pp of VEX: 0 none, 1 is 66, 2 f3, 3 f2 */
    uint8_t opcode;
    uint8_t reg, rm, third; /* tiles; |rm| has no meaning if an operand is in memory */
    bool memory;
    bool tiled;    /* the operand's address has an index register: the stride */
    uint8_t *base; /* the address without the index */
    int64_t stride;
} operation;

/* A fault of the manual with its signal and reason; NULL: no fault. */
typedef struct fault {
    int number;
    const char *why;
} fault;

static const fault fine = {0, NULL};

static fault undefined(const char *why)
{
    return (fault){SIGILL, why}; /* #UD */
}

static fault protection(const char *why)
{
    return (fault){SIGSEGV, why}; /* #GP */
}

static int64_t register_of(const ucontext_t *at, unsigned number)
{
    static const int of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                               REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return at->uc_mcontext.gregs[of[number]];
}

static int32_t read_i32(const uint8_t *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Decodes ModR/M, SIB and displacement in 64-bit mode.  |x|, |b|: offsets that VEX adds to the numbers of registers. */
static void decode_memory(const ucontext_t *at, const uint8_t *p, unsigned x, unsigned b, operation *out)
{
    unsigned mod = p[0] >> 6, rm = p[0] & 7;
    int64_t base = 0;
    bool from_next = false;

    p++;
    if (rm == 4) {
        unsigned index = (*p >> 3 & 7) | x, low = *p & 7;
        out->tiled = true;
        out->stride = index == 4 ? 0 : register_of(at, index) * (1 << (*p >> 6));
        p++;
        if (low == 5 && mod == 0) {
            base = read_i32(p);
            p += 4;
        } else {
            base = register_of(at, low | b);
        }
    } else if (rm == 5 && mod == 0) {
        base = read_i32(p);
        p += 4;
        from_next = true;
    } else {
        base = register_of(at, rm | b);
    }
    if (mod == 1)
        base += (int8_t)*p++;
    if (mod == 2) {
        base += read_i32(p);
        p += 4;
    }
    out->next = p;
    base += from_next ? (int64_t)(intptr_t)p : 0;
    out->base = (uint8_t *)(intptr_t)base; // NOLINT(performance-no-int-to-ptr): so an address is computed
}

/* Decodes an AMX instruction: VEX of three bytes, map 0f38, W0, 128 bits, opcodes 49, 4b, 5c and 5e.  False: another
 * instruction. */
static bool decode(const ucontext_t *at, operation *out)
{
    const uint8_t *p = (const uint8_t *)(intptr_t)at->uc_mcontext.gregs[REG_RIP]; // NOLINT(performance-no-int-to-ptr)
    unsigned high = 0, x = 0, b = 0;

    *out = (operation){0};
    if (p[0] != 0xc4 || (p[1] & 31) != 2 || (p[2] & 0x84) != 0 || (p[3] != 0x49 && p[3] != 0x4b && p[3] != 0x5c && p[3] != 0x5e))
        return false;
    high = (p[1] & 0x80) != 0 ? 0 : 8; /* VEX inverts these bits */
    x = (p[1] & 0x40) != 0 ? 0 : 8;
    b = (p[1] & 0x20) != 0 ? 0 : 8;
    out->prefix = p[2] & 3;
    out->opcode = p[3];
    out->third = (uint8_t)(~p[2] >> 3 & 15);
    out->reg = (uint8_t)((p[4] >> 3 & 7) | high);
    out->memory = p[4] >> 6 != 3;
    if (out->memory) {
        decode_memory(at, p + 4, x, b, out);
    } else {
        out->rm = (uint8_t)((p[4] & 7) | b);
        out->next = p + 5;
    }
    return true;
}

/* ---- execution of instructions */

static void clear(void)
{
    if (own.configured)
        COUNT(live, -1);
    own.configured = false;
    memset(own.config, 0, sizeof own.config);
    memset(own.rows, 0, sizeof own.rows);
    memset(own.row_bytes, 0, sizeof own.row_bytes);
    memset(own.data, 0, sizeof own.data);
}

static bool is_zero(const uint8_t *p, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

static fault load_config(const uint8_t *from)
{
    uint8_t config[64];

    memcpy(config, from, sizeof config);
    if (config[0] > 1)
        return protection("ldtilecfg: there is palette 1 and no other");
    if (config[0] == 0) {
        clear();
        return fine;
    }
    if (!is_zero(config, 2, 16) || !is_zero(config, 32, 48) || !is_zero(config, 56, 64))
        return protection("ldtilecfg: reserved bytes are not zero");
    if (config[1] != 0)
        return undefined("ldtilecfg: a row to go on from is not emulated");
    for (int t = 0; t < TILES; t++) {
        unsigned bytes = config[16 + 2 * t] | (unsigned)config[17 + 2 * t] << 8, rows = config[48 + t];
        if (bytes > ROW_BYTES || rows > ROWS)
            return protection("ldtilecfg: a tile has at most 16 rows of 64 bytes");
        if ((bytes == 0) != (rows == 0))
            return protection("ldtilecfg: a tile has rows and no bytes in them, or bytes and no rows");
    }
    if (own.configured)
        COUNT(configured_again, 1);
    clear();
    own.configured = true;
    memcpy(own.config, config, sizeof config);
    for (int t = 0; t < TILES; t++) {
        own.rows[t] = config[48 + t];
        own.row_bytes[t] = config[16 + 2 * t];
    }
    COUNT(configured, 1);
    COUNT(live, 1);
    return fine;
}

static fault configure(const operation *o)
{
    if (o->third != 0)
        return undefined("vvvv is not 1111");
    if (!o->memory) {
        if (o->prefix == 0 && o->reg == 0 && o->rm == 0) {
            if (own.configured)
                COUNT(released, 1);
            clear();
            return fine;
        }
        if (o->prefix != 3 || o->rm != 0)
            return undefined("no such instruction");
        if (!own.configured || o->reg >= TILES || own.rows[o->reg] == 0)
            return undefined("tilezero: the tile is not configured");
        memset(own.data[o->reg], 0, sizeof own.data[0]);
        COUNT(zeroed, 1);
        return fine;
    }
    if ((o->reg & 7) != 0 || o->prefix > 1)
        return undefined("no such instruction");
    if (o->prefix == 0)
        return load_config(o->base);
    memcpy(o->base, own.config, sizeof own.config); /* sttilecfg: zeros if no tiles are configured */
    return fine;
}

static fault move(const operation *o)
{
    const bool stores = o->prefix == 2;
    caches *c = own_caches();

    if (!o->memory || !o->tiled || o->prefix == 0)
        return undefined("tileloadd, tilestored: the operand has no SIB byte");
    if (o->third != 0)
        return undefined("vvvv is not 1111");
    if (!own.configured || o->reg >= TILES || own.rows[o->reg] == 0)
        return undefined("tileloadd, tilestored: the tile is not configured");
    for (int r = 0; r < own.rows[o->reg]; r++) {
        uint8_t *row = own.data[o->reg][r], *at = o->base + r * o->stride;
        if (stores) {
            memcpy(at, row, own.row_bytes[o->reg]);
            continue;
        }
        memset(row, 0, ROW_BYTES);
        memcpy(row, at, own.row_bytes[o->reg]);
        if (c != NULL)
            touch(c, at, own.row_bytes[o->reg]);
    }
    if (stores) {
        COUNT(stored, 1);
        return fine;
    }
    for (int r = own.rows[o->reg]; r < ROWS; r++)
        memset(own.data[o->reg][r], 0, ROW_BYTES);
    COUNT(loaded, 1);
    COUNT(rows, own.rows[o->reg]);
    COUNT(dense, o->stride == own.row_bytes[o->reg]);
    return fine;
}

/* Computes a row of sums: two sums of products of pairs, each rounded after each product, which are then added to the row. */
__attribute__((noinline, target("avx2,fma"))) static void add_bf16(float *sums, const uint8_t *a, const uint8_t (*b)[ROW_BYTES],
                                                                   int depth)
{
    float even[ROWS] = {0}, odd[ROWS] = {0}, left[2];
    uint32_t x[ROWS], y[ROWS];

    memcpy(x, a, sizeof x);
    for (int k = 0; k < depth; k++) {
        uint32_t low = x[k] << 16, high = x[k] & 0xffff0000U;
        float ones[ROWS], others[ROWS];
        memcpy(&left[0], &low, sizeof left[0]);
        memcpy(&left[1], &high, sizeof left[1]);
        memcpy(y, b[k], sizeof y);
        for (int n = 0; n < ROWS; n++) {
            uint32_t one = y[n] << 16, other = y[n] & 0xffff0000U;
            memcpy(&ones[n], &one, sizeof one);
            memcpy(&others[n], &other, sizeof other);
        }
        for (int n = 0; n < ROWS; n++) {
            even[n] = __builtin_fmaf(left[0], ones[n], even[n]);
            odd[n] = __builtin_fmaf(left[1], others[n], odd[n]);
        }
    }
    for (int n = 0; n < ROWS; n++)
        sums[n] += even[n] + odd[n];
}

/* |kind|: pp of VEX.  0 is unsigned by unsigned, 1 unsigned by signed, 2 signed by unsigned, 3 signed by signed. */
static void add_bytes(uint32_t *sums, const uint8_t *a, const uint8_t (*b)[ROW_BYTES], int depth, int kind)
{
    for (int k = 0; k < 4 * depth; k++) {
        int left = kind >= 2 ? (int8_t)a[k] : a[k];
        for (int n = 0; n < ROWS; n++) {
            int right = b[k / 4][4 * n + k % 4];
            sums[n] += (uint32_t)(left * (kind % 2 == 0 ? right : (int8_t)right));
        }
    }
}

static fault check_product(const operation *o)
{
    const unsigned c = o->reg, a = o->rm, b = o->third;

    if (!own.configured || c >= TILES || a >= TILES || b >= TILES || own.rows[c] == 0 || own.rows[a] == 0 || own.rows[b] == 0)
        return undefined("a product: a tile is not configured");
    if (c == a || a == b || c == b)
        return undefined("a product: two of its tiles are one");
    if (own.row_bytes[c] % 4 != 0 || own.row_bytes[a] % 4 != 0 || own.row_bytes[b] % 4 != 0)
        return undefined("a product: rows are not of whole elements");
    if (own.rows[c] != own.rows[a] || own.row_bytes[c] != own.row_bytes[b] || own.row_bytes[a] / 4 != own.rows[b])
        return undefined("a product: the shapes do not fit");
    return fine;
}

static fault multiply(const operation *o)
{
    const fault wrong = check_product(o);
    const int depth = own.row_bytes[o->rm] / 4;

    if (wrong.why != NULL || o->memory)
        return o->memory ? undefined("no such instruction") : wrong;
    if (o->opcode == 0x5c && o->prefix != 2)
        return undefined("tdpfp16ps: the processor has AMX-BF16 and AMX-INT8");
    for (int m = 0; m < own.rows[o->reg]; m++) {
        uint8_t *row = own.data[o->reg][m];
        uint8_t sums[ROW_BYTES] __attribute__((aligned(64)));
        memcpy(sums, row, sizeof sums);
        if (o->opcode == 0x5c)
            add_bf16((float *)(void *)sums, own.data[o->rm][m], (const uint8_t(*)[ROW_BYTES])own.data[o->third], depth);
        else
            add_bytes((uint32_t *)(void *)sums, own.data[o->rm][m], (const uint8_t(*)[ROW_BYTES])own.data[o->third], depth,
                      o->prefix);
        memset(row, 0, ROW_BYTES);
        memcpy(row, sums, own.row_bytes[o->reg]);
    }
    if (o->opcode == 0x5c)
        COUNT(multiplied_bf16, 1);
    else
        COUNT(multiplied_bytes, 1);
    return fine;
}

/* ---- the signal handler */

typedef int (*action_setter)(int number, const struct sigaction *action, struct sigaction *before);

static action_setter set_action; /* the C library's sigaction */
static const struct sigaction by_default = {.sa_handler = SIG_DFL};

static void tell(const char *text)
{
    ssize_t written = write(2, text, strlen(text));
    (void)written;
}

static void on_illegal(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
    operation o;
    fault wrong = fine;

    (void)info;
    if (!decode(at, &o)) {
        set_action(number, &by_default, NULL); /* the instruction raises the signal again, which then ends the process */
        return;
    }
    __builtin_ia32_ldmxcsr(FLUSH_TO_ZERO); /* the return from the handler restores the MXCSR of the interrupted code */
    if (!permitted)
        wrong = undefined("the process has no leave to use tiles");
    else
        wrong = o.opcode == 0x49 ? configure(&o) : o.opcode == 0x4b ? move(&o) : multiply(&o);
    if (wrong.why != NULL) {
        tell("AMX: ");
        tell(wrong.why);
        tell("\n");
        set_action(wrong.number, &by_default, NULL);
        raise(wrong.number);
    }
    at->uc_mcontext.gregs[REG_RIP] = (greg_t)(intptr_t)o.next;
}

/* ---- the features of the processor and the system */

typedef const struct cpuid_feature *(*feature_reader)(unsigned leaf);
typedef long (*system_caller)(long number, ...);

static struct cpuid_feature with_tiles;
static bool emulated;

static void *next(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol == NULL)
        abort();
    return symbol;
}

const struct cpuid_feature *__x86_get_cpuid_feature_leaf(unsigned leaf)
{
    feature_reader real;

    if (leaf == CPUID_INDEX_7 && emulated)
        return &with_tiles;
    *(void **)&real = next("__x86_get_cpuid_feature_leaf");
    return real(leaf);
}

long syscall(long number, ...)
{
    system_caller real;
    long args[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    if (emulated && number == SYS_arch_prctl && args[0] == REQUEST_PERMISSION) {
        permitted = permitted || args[1] == TILE_DATA;
        errno = EINVAL;
        return args[1] == TILE_DATA ? 0 : -1;
    }
    *(void **)&real = next("syscall");
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* LLVM installs handlers for all fatal signals while it compiles, and restores the old handlers later; cmocka does so during
 * tests.  This function ignores changes of the handler of SIGILL. */
int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    *(void **)&set_action = next("sigaction");
    return set_action(number, emulated && number == SIGILL ? NULL : action, before);
}

__sighandler_t signal(int number, __sighandler_t handler)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before = {.sa_handler = SIG_DFL};

    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

/* ---- the interface of the program */

bool amx_is_emulated(void)
{
    return emulated;
}

amx_counts amx_get_counts(void)
{
    return *counts;
}

void amx_clear_counts(void)
{
    const uint64_t live = counts->live;
    memset(counts, 0, sizeof *counts);
    counts->live = live;
}

/* Maps the counters to the file $AMX_COUNTS; several processes may share the file. */
static void share_counts(const char *path)
{
#define NAME(name) #name " "
    static const char names[] = AMX_COUNTS(NAME);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *page = MAP_FAILED;

    if (file >= 0 && ftruncate(file, AMX_NAMES + (off_t)sizeof here) == 0)
        page = mmap(NULL, AMX_NAMES + sizeof here, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        abort();
    memcpy(page, names, sizeof names);
    counts = (amx_counts *)(void *)((char *)page + AMX_NAMES);
    close(file);
}

__attribute__((constructor)) static void start(void)
{
    struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO | SA_NODEFER};
    const char *path = getenv("AMX_COUNTS");
    feature_reader real;

    *(void **)&real = next("__x86_get_cpuid_feature_leaf");
    with_tiles = *real(CPUID_INDEX_7);
    emulated = (with_tiles.cpuid_array[EDX] & 1 << 24) == 0;
    if (!emulated)
        return;
    with_tiles.cpuid_array[EDX] |= TILE_FEATURES;
    with_tiles.active_array[EDX] |= TILE_FEATURES;
    if (path != NULL)
        share_counts(path);
    *(void **)&set_action = next("sigaction");
    set_action(SIGILL, &action, NULL);
}
