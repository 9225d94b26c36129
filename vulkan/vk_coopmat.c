/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_coopmat.h"

#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

/* Numbers of the SPIR-V specification and of SPV_NV_cooperative_matrix, SPV_KHR_cooperative_matrix and SPV_KHR_bfloat16. */
enum {
    HEAD_WORDS = 5,
    HEAD_BOUND = 3,
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT = 43,
    OP_CONSTANT_COMPOSITE = 44,
    OP_VARIABLE = 59,
    OP_LOAD = 61,
    OP_STORE = 62,
    OP_COMPOSITE_CONSTRUCT = 80,
    OP_TYPE_MATRIX_NV = 5358,
    OP_MATRIX_LOAD_NV = 5359,
    OP_MATRIX_STORE_NV = 5360,
    OP_MATRIX_ADD_NV = 5361,
    OP_MATRIX_LENGTH_NV = 5362,
    OP_TYPE_MATRIX_KHR = 4456,
    OP_MATRIX_LOAD_KHR = 4457,
    OP_MATRIX_STORE_KHR = 4458,
    OP_MATRIX_ADD_KHR = 4459,
    CAPABILITY_MATRIX_NV = 5357,
    CAPABILITY_MATRIX_KHR = 6022,
    CAPABILITY_BFLOAT16_TYPE = 5116,
    CAPABILITY_BFLOAT16_MATRIX = 5118,
    ENCODING_BFLOAT16 = 0,
    MOST_IDS = 1 << 22 /* limits the allocation for a broken module; valid kernels have far fewer ids */
};

/* The uses of a matrix, with the numbers of the KHR extension. */
enum { USE_A, USE_B, USE_SUM, USES, UNKNOWN = USES };

/* The properties of an id. */
typedef struct fact {
    uint8_t use;         /* use of a value or variable that holds a matrix; or UNKNOWN */
    uint32_t type;       /* the matrix type of a value, or the pointer type of a variable that holds a matrix; 0: no matrix */
    uint32_t pointee;    /* for a type of pointers to matrices: the matrix type */
    bool is_matrix;      /* the id is a matrix type */
    bool is_true;        /* the id is the constant true */
    uint32_t made[USES]; /* for a matrix type, or a type of pointers to matrices: its new id for each use */
} fact;

typedef struct rewriter {
    const uint32_t *words;
    size_t count;
    bool bfloat16;
    uint32_t bound, first_bound;
    fact *facts; /* indexed by id */
    uint32_t uint_type, half_type;
    uint32_t number[USES]; /* ids of the constants 0, 1, 2 */
    uint32_t bfloat16_type;
    uint32_t *out;
    size_t nout, cap;
    bl_err *err;
} rewriter;

/* ---- reading */

static uint32_t op_of(const uint32_t *at)
{
    return at[0] & 0xffff;
}

static uint32_t words_of(const uint32_t *at)
{
    return at[0] >> 16;
}

/* The minimum length in words of each instruction whose operands are read. */
static uint32_t fewest_words(uint32_t op)
{
    switch (op) {
    case OP_CAPABILITY:
    case OP_EXTENSION:
        return 2;
    case OP_STORE:
    case OP_TYPE_FLOAT:
    case OP_CONSTANT_TRUE:
        return 3;
    case OP_TYPE_INT:
    case OP_TYPE_POINTER:
    case OP_CONSTANT:
    case OP_CONSTANT_COMPOSITE:
    case OP_COMPOSITE_CONSTRUCT:
    case OP_VARIABLE:
    case OP_LOAD:
        return 4;
    case OP_MATRIX_STORE_NV:
        return 5;
    case OP_TYPE_MATRIX_NV:
    case OP_MATRIX_LOAD_NV:
    case OP_MATRIX_ADD_NV:
        return 6;
    default:
        return 1;
    }
}

/* Whether the words after the instruction's own operands are ids. */
static bool has_ids(uint32_t op)
{
    return fewest_words(op) > 2;
}

static bl_status check_module(const rewriter *r)
{
    for (size_t i = HEAD_WORDS; i < r->count; i += words_of(&r->words[i])) {
        const uint32_t *at = &r->words[i];
        uint32_t n = words_of(at), op = op_of(at), ids = fewest_words(op);
        if (n == 0 || n > r->count - i || n < fewest_words(op))
            return bl_fail(r->err, BL_EBUG, "a SPIR-V instruction of %u words where there are %zu", n, r->count - i);
        if (op == OP_MATRIX_LENGTH_NV)
            return bl_fail(r->err, BL_EBUG, "the length of a cooperative matrix is asked for");
        ids = op == OP_CONSTANT_COMPOSITE || op == OP_COMPOSITE_CONSTRUCT ? n : ids;
        for (uint32_t k = 1; has_ids(op) && k < ids; k++) {
            bool literal = (op == OP_TYPE_INT || op == OP_TYPE_FLOAT) ? k > 1
                           : op == OP_TYPE_POINTER                    ? k == 2
                           : op == OP_VARIABLE || op == OP_CONSTANT   ? k == 3
                                                                      : false;
            if (!literal && at[k] >= r->first_bound)
                return bl_fail(r->err, BL_EBUG, "SPIR-V id %u is not below %u", at[k], r->first_bound);
        }
    }
    return BL_OK;
}

/* Records types, constants, and the ids that hold matrices. */
static void note_facts(rewriter *r)
{
    for (size_t i = HEAD_WORDS; i < r->count; i += words_of(&r->words[i])) {
        const uint32_t *at = &r->words[i];
        uint32_t n = words_of(at);
        switch (op_of(at)) {
        case OP_TYPE_INT:
            if (at[2] == 32 && at[3] == 0)
                r->uint_type = at[1];
            break;
        case OP_TYPE_FLOAT:
            if (at[2] == 16 && n == 3)
                r->half_type = at[1];
            break;
        case OP_CONSTANT_TRUE:
            r->facts[at[2]].is_true = true;
            break;
        case OP_TYPE_MATRIX_NV:
            r->facts[at[1]].is_matrix = true;
            break;
        case OP_TYPE_POINTER:
            if (r->facts[at[3]].is_matrix)
                r->facts[at[1]].pointee = at[3];
            break;
        case OP_VARIABLE:
            if (r->facts[at[1]].pointee != 0)
                r->facts[at[2]].type = at[1];
            break;
        case OP_LOAD:
        case OP_CONSTANT_COMPOSITE:
        case OP_COMPOSITE_CONSTRUCT:
        case OP_MATRIX_LOAD_NV:
        case OP_MATRIX_ADD_NV:
            if (r->facts[at[1]].is_matrix)
                r->facts[at[2]].type = at[1];
            break;
        default:
            break;
        }
    }
}

/* ---- uses */

static bl_status set_use(rewriter *r, uint32_t id, uint8_t use, bool *changed)
{
    fact *f = &r->facts[id];

    if (f->type == 0 || use == UNKNOWN || f->use == use)
        return BL_OK;
    if (f->use != UNKNOWN)
        return bl_fail(r->err, BL_EBUG, "a cooperative matrix has two uses");
    f->use = use;
    *changed = true;
    return BL_OK;
}

/* Gives both ids the same use, since both ids hold the same matrix. */
static bl_status vk_coopmat_join(rewriter *r, uint32_t x, uint32_t y, bool *changed)
{
    BL_TRY(set_use(r, x, r->facts[y].use, changed));
    return set_use(r, y, r->facts[x].use, changed);
}

static bl_status follow(rewriter *r, const uint32_t *at, bool *changed)
{
    switch (op_of(at)) {
    case OP_MATRIX_ADD_NV:
        BL_TRY(set_use(r, at[2], USE_SUM, changed));
        BL_TRY(set_use(r, at[3], USE_A, changed));
        BL_TRY(set_use(r, at[4], USE_B, changed));
        return set_use(r, at[5], USE_SUM, changed);
    case OP_LOAD:
        return vk_coopmat_join(r, at[2], at[3], changed);
    case OP_STORE:
        return vk_coopmat_join(r, at[1], at[2], changed);
    default:
        return BL_OK;
    }
}

static bl_status find_uses(rewriter *r)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = HEAD_WORDS; i < r->count; i += words_of(&r->words[i]))
            BL_TRY(follow(r, &r->words[i], &changed));
    }
    return BL_OK;
}

/* ---- writing */

static void vk_coopmat_put(rewriter *r, uint32_t word)
{
    if (r->nout < r->cap)
        r->out[r->nout] = word;
    r->nout++; /* nout also counts words that do not fit */
}

static void vk_coopmat_put_inst(rewriter *r, uint32_t op, uint32_t n, const uint32_t *operands)
{
    vk_coopmat_put(r, (n + 1) << 16 | op);
    for (uint32_t i = 0; i < n; i++)
        vk_coopmat_put(r, operands[i]);
}
#define PUT(r, op, ...)                                                                                                          \
    vk_coopmat_put_inst(r, op, (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)),                           \
                        (const uint32_t[]){__VA_ARGS__})

static void put_extension(rewriter *r, const char *name)
{
    uint32_t text[16] = {0};
    size_t n = strlen(name) / 4 + 1; /* number of words of the string, including the terminating 0 and padding */
    memcpy(text, name, strlen(name));
    vk_coopmat_put_inst(r, OP_EXTENSION, (uint32_t)n, text);
}

/* The new id of |type|, a matrix type or a type of pointers to matrices, for a use.  A matrix that is in no product is an
 * accumulator. */
static uint32_t type_for(const rewriter *r, uint32_t type, uint8_t use)
{
    return r->facts[type].made[use == UNKNOWN ? USE_SUM : use];
}

/* Assigns an id to each use of each type that occurs.  The last use of a type keeps the id of the NV type, so that names of
 * the id remain valid. */
static void name_types(rewriter *r)
{
    for (uint32_t id = 0; id < r->first_bound; id++) {
        const fact *f = &r->facts[id];
        uint8_t use = f->use == UNKNOWN ? USE_SUM : f->use;
        if (f->type == 0)
            continue;
        r->facts[f->type].made[use] = f->type;
        if (r->facts[f->type].pointee != 0)
            r->facts[r->facts[f->type].pointee].made[use] = r->facts[f->type].pointee;
    }
    for (uint32_t id = 0; id < r->first_bound; id++) {
        bool kept = false;
        for (int use = USES - 1; use >= 0; use--) {
            if (r->facts[id].made[use] == 0)
                continue;
            if (kept)
                r->facts[id].made[use] = r->bound++;
            kept = true;
        }
    }
}

/* Writes the constants and types that the new types need, after the module's own 32-bit integer type. */
static void put_constants(rewriter *r)
{
    for (uint32_t i = 0; i < USES; i++)
        PUT(r, OP_CONSTANT, r->uint_type, r->number[i], i);
    if (r->bfloat16)
        PUT(r, OP_TYPE_FLOAT, r->bfloat16_type, 16, ENCODING_BFLOAT16);
}

static void put_types(rewriter *r, const uint32_t *at)
{
    const fact *f = &r->facts[at[1]];

    for (uint8_t use = 0; use < USES; use++) {
        if (f->made[use] == 0)
            continue;
        if (op_of(at) == OP_TYPE_POINTER)
            PUT(r, OP_TYPE_POINTER, f->made[use], at[2], type_for(r, at[3], use));
        else
            PUT(r, OP_TYPE_MATRIX_KHR, f->made[use], r->bfloat16 && at[2] == r->half_type ? r->bfloat16_type : at[2], at[3],
                at[4], at[5], r->number[use]);
    }
}

static bool is_extension(const uint32_t *at, const char *name)
{
    size_t bytes = ((size_t)words_of(at) - 1) * 4;
    return strlen(name) < bytes && strncmp((const char *)&at[1], name, bytes) == 0;
}

/* The layout operand of KHR, rows (0) or columns (1), from the bool of NV. */
static uint32_t layout_of(const rewriter *r, uint32_t is_columns)
{
    return r->number[r->facts[is_columns].is_true ? 1 : 0];
}

static void put_capability(rewriter *r, const uint32_t *at)
{
    if (at[1] != CAPABILITY_MATRIX_NV) {
        vk_coopmat_put_inst(r, OP_CAPABILITY, 1, &at[1]);
        return;
    }
    PUT(r, OP_CAPABILITY, CAPABILITY_MATRIX_KHR);
    if (r->bfloat16) {
        PUT(r, OP_CAPABILITY, CAPABILITY_BFLOAT16_TYPE);
        PUT(r, OP_CAPABILITY, CAPABILITY_BFLOAT16_MATRIX);
    }
}

/* Writes an instruction that makes a matrix, or a variable that holds a matrix, with the type of the matrix's use. */
static void put_typed(rewriter *r, const uint32_t *at)
{
    uint32_t n = words_of(at);
    const fact *f = &r->facts[at[2]];

    vk_coopmat_put(r, at[0]);
    vk_coopmat_put(r, type_for(r, at[1], f->use));
    for (uint32_t i = 2; i < n; i++)
        vk_coopmat_put(r, at[i]);
}

static bool is_typed(const rewriter *r, const uint32_t *at)
{
    uint32_t op = op_of(at);
    return (op == OP_VARIABLE || op == OP_LOAD || op == OP_CONSTANT_COMPOSITE || op == OP_COMPOSITE_CONSTRUCT) &&
           r->facts[at[2]].type != 0;
}

static void put_rewritten(rewriter *r, const uint32_t *at)
{
    uint32_t op = op_of(at), n = words_of(at);

    if (op == OP_CAPABILITY) {
        put_capability(r, at);
    } else if (op == OP_EXTENSION && is_extension(at, "SPV_NV_cooperative_matrix")) {
        put_extension(r, "SPV_KHR_cooperative_matrix");
        if (r->bfloat16)
            put_extension(r, "SPV_KHR_bfloat16");
    } else if (op == OP_TYPE_MATRIX_NV || (op == OP_TYPE_POINTER && r->facts[at[1]].pointee != 0)) {
        put_types(r, at);
    } else if (op == OP_MATRIX_LOAD_NV) { /* operands: type, result, pointer, stride, is columns; memory operands */
        vk_coopmat_put(r, n << 16 | OP_MATRIX_LOAD_KHR);
        vk_coopmat_put(r, type_for(r, at[1], r->facts[at[2]].use));
        vk_coopmat_put(r, at[2]);
        vk_coopmat_put(r, at[3]);
        vk_coopmat_put(r, layout_of(r, at[5]));
        vk_coopmat_put(r, at[4]);
        for (uint32_t i = 6; i < n; i++)
            vk_coopmat_put(r, at[i]);
    } else if (op == OP_MATRIX_STORE_NV) { /* operands: pointer, matrix, stride, is columns; memory operands */
        vk_coopmat_put(r, n << 16 | OP_MATRIX_STORE_KHR);
        vk_coopmat_put(r, at[1]);
        vk_coopmat_put(r, at[2]);
        vk_coopmat_put(r, layout_of(r, at[4]));
        vk_coopmat_put(r, at[3]);
        for (uint32_t i = 5; i < n; i++)
            vk_coopmat_put(r, at[i]);
    } else if (op == OP_MATRIX_ADD_NV) {
        PUT(r, OP_MATRIX_ADD_KHR, type_for(r, at[1], USE_SUM), at[2], at[3], at[4], at[5]);
    } else if (is_typed(r, at)) {
        put_typed(r, at);
    } else {
        vk_coopmat_put_inst(r, op, n - 1, at + 1);
    }
    if (op == OP_TYPE_INT && at[1] == r->uint_type)
        put_constants(r);
}

static void put_module(rewriter *r)
{
    r->nout = 0;
    for (size_t i = 0; i < HEAD_WORDS; i++)
        vk_coopmat_put(r, r->words[i]);
    for (size_t i = HEAD_WORDS; i < r->count; i += words_of(&r->words[i]))
        put_rewritten(r, &r->words[i]);
    if (r->cap > HEAD_BOUND)
        r->out[HEAD_BOUND] = r->bound;
}

static bl_status vk_coopmat_rewrite(rewriter *r)
{
    BL_TRY(check_module(r));
    note_facts(r);
    if (r->uint_type == 0 || (r->bfloat16 && r->half_type == 0))
        return bl_fail(r->err, BL_EBUG, "no type of numbers in a SPIR-V module");
    BL_TRY(find_uses(r));
    name_types(r);
    for (int i = 0; i < USES; i++)
        r->number[i] = r->bound++;
    r->bfloat16_type = r->bound++;
    put_module(r); /* the first pass only counts the words */
    r->cap = r->nout;
    r->out = bl_calloc(r->cap, sizeof *r->out);
    if (r->out == NULL)
        return bl_fail(r->err, BL_ENOMEM, "out of host memory for a kernel of %zu words", r->cap);
    put_module(r);
    return BL_OK;
}

bl_status bl_vk_coopmat_rewrite(const uint32_t *words, size_t count, bool bfloat16, uint32_t **out, size_t *out_count,
                                bl_err *err)
{
    rewriter r = {.words = words, .count = count, .bfloat16 = bfloat16, .err = err};
    bl_status st = BL_OK;

    *out = NULL;
    *out_count = 0;
    if (count < HEAD_WORDS || words[HEAD_BOUND] < 1 || words[HEAD_BOUND] > MOST_IDS)
        return bl_fail(err, BL_EBUG, "a SPIR-V module of %zu words", count);
    r.bound = r.first_bound = words[HEAD_BOUND];
    r.facts = bl_calloc(r.bound, sizeof *r.facts);
    if (r.facts == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a kernel of %u ids", r.bound);
    for (uint32_t i = 0; i < r.bound; i++)
        r.facts[i].use = UNKNOWN;
    st = vk_coopmat_rewrite(&r);
    free(r.facts);
    if (st != BL_OK)
        return st;
    *out = r.out;
    *out_count = r.nout;
    return BL_OK;
}
