/* SPDX-License-Identifier: MIT */
#include "engine/interp/interp_kernel.h"

#include "engine/base/size.h"
#include "engine/ir/eval.h"
#include "engine/ir/matrix_unit.h"

#include <math.h>
#include <string.h>

enum {
    MAX_WIDTH = 64,            /* number of bits of a mask */
    SCRATCH_WANTED = 256 << 10 /* bytes that fit a core's second-level cache */
};
#define SCRATCH_LIMIT ((size_t)256 << 20)

/* A register: |lanes| values for each group, starting at |at| values (times the width) in the register file. */
typedef struct operand {
    uint32_t at, lanes;
} operand;

typedef struct step {
    bl_op op;       /* SINK stands for the end of the kernel */
    bl_op fold;     /* FOLD: the op */
    bl_dtype dtype; /* dtype of the result */
    bl_dtype from;  /* dtype of the operands; of the second operand for WHERE */
    operand out;
    uint32_t inst; /* number of the instruction in the linear kernel, for error texts */
    uint32_t nargs;
    const operand *args; /* LOAD, STORE: without the buffer */
    uint32_t memory;     /* number of the parameter, or offset in local memory */
    uint32_t elements;   /* elements of local memory; 0: a parameter */
    uint32_t dimension;  /* of GROUP_ID and LOCAL_ID; for EXTRACT the lane */
    uint32_t jump;       /* LOOP: the step after its END. END: its LOOP */
    bl_matrix matrix;    /* shape of the matrix unit */
    bl_matrix_layout layout;
} step;

/* A register that keeps one value during a run: CONST, VAR or LANE. */
typedef struct fill {
    operand out;
    bl_op op;
    int64_t arg;
} fill;

struct bl_interp_code {
    const char *name;
    uint32_t local[3];
    step *steps;
    fill *fills;
    uint32_t nsteps, nfills;
    uint32_t lanes; /* size of the register file for one group, in values */
    uint32_t width; /* number of groups that run in lockstep */
    uint32_t items; /* number of work-items whose state is kept: all of a group if the kernel has a barrier, else 1 */
    uint32_t depth;
    uint32_t local_bytes;
    size_t scratch;
};

/* One loop of a work-item, for all groups in lockstep. */
typedef struct level {
    int64_t count, limit; /* the largest limit of all groups */
    uint64_t mask;        /* groups that take part in this iteration */
    bool even;            /* all groups have the same limit */
} level;

/* A work-item, which can be suspended at a barrier and resumed. */
typedef struct item {
    bl_scalar *regs;
    level *levels;
    uint32_t pc, depth;
    uint32_t id[3];
} item;

typedef struct runner {
    const bl_interp_code *code;
    const bl_interp_launch *launch;
    item *items;
    unsigned char *local; /* local_bytes for each group */
    bl_scalar *repeat[3]; /* broadcast operands: one lane repeated */
    uint64_t first;       /* number of the first group */
    uint32_t n;           /* number of groups in this chunk */
    bl_err *err;
} runner;

/* ---- translation */

typedef struct translator {
    bl_arena *arena;
    const bl_linear *linear;
    bl_interp_code *code;
    operand *of; /* the operand of each instruction */
    uint32_t loop[BL_LINEAR_MAX_DEPTH];
    uint32_t depth;
    uint32_t local_at;
    bool barrier;
} translator;

static operand take_register(translator *t, uint32_t lanes)
{
    operand out = {t->code->lanes, lanes};

    t->code->lanes += lanes; /* at most 17 values for each of BL_LINEAR_MAX_INST */
    return out;
}

static bool is_fragment_op(bl_op op)
{
    return op == BL_OP_FRAGMENT || op == BL_OP_FRAGMENT_LOAD || op == BL_OP_MATRIX_ADD || op == BL_OP_FRAGMENT_STORE;
}

/* The number of values of an instruction. A work-item holds a whole fragment. */
static uint32_t interp_kernel_values_of(const bl_inst *in)
{
    bl_matrix x = bl_matrix_unpack(in->arg);
    int64_t rows = x.m, columns = x.n;

    if (in->op == BL_OP_STORE || !is_fragment_op((bl_op)in->op))
        return in->lanes;
    if (in->op == BL_OP_FRAGMENT_LOAD)
        bl_matrix_cells(x, (bl_matrix_layout)in->sub, &rows, &columns);
    return in->op == BL_OP_FRAGMENT || in->op == BL_OP_FRAGMENT_LOAD ? (uint32_t)(rows * columns) : 0;
}

static void link_loop(translator *t, step *s)
{
    uint32_t here = t->code->nsteps;

    if (s->op == BL_OP_LOOP) {
        take_register(t, 1); /* the groups' own limits, next to the counter */
        t->loop[t->depth++] = here;
        if (t->depth > t->code->depth)
            t->code->depth = t->depth;
    } else {
        s->jump = t->loop[--t->depth];
        t->code->steps[s->jump].jump = here + 1;
    }
}

static void interp_kernel_add_step(translator *t, uint32_t number)
{
    const bl_inst *all = t->linear->inst, *in = &all[number];
    step *s = &t->code->steps[t->code->nsteps];
    operand *args = bl_arena_array(t->arena, in->nargs, sizeof *args);
    uint32_t skip = 0;

    if (args == NULL)
        return; /* the arena records the failure */
    s->inst = number;
    s->out = t->of[number];
    s->op = (bl_op)in->op;
    s->fold = (bl_op)in->sub;
    s->dtype = (bl_dtype)in->dtype;
    s->dimension = (uint32_t)in->arg;
    if (is_fragment_op(s->op)) {
        s->matrix = bl_matrix_unpack(in->arg);
        s->layout = (bl_matrix_layout)in->sub;
    }
    if (s->op == BL_OP_LOAD || s->op == BL_OP_STORE || s->op == BL_OP_FRAGMENT_LOAD || s->op == BL_OP_FRAGMENT_STORE) {
        const bl_inst *buffer = &all[in->args[0]];

        s->memory = buffer->sub ? t->of[in->args[0]].at : (uint32_t)buffer->arg;
        s->elements = buffer->sub ? (uint32_t)buffer->arg : 0;
        skip = 1;
    }
    if (in->op == BL_OP_SET) {
        s->out = t->of[in->args[0]];
        skip = 1;
    }
    for (uint32_t i = skip; i < in->nargs; i++)
        args[s->nargs++] = t->of[in->args[i]];
    s->args = args;
    if (bl_op_get_class(s->op) == BL_CLASS_ALU)
        s->from = (bl_dtype)all[in->args[in->op == BL_OP_WHERE]].dtype;
    if (s->op == BL_OP_LOOP || s->op == BL_OP_END)
        link_loop(t, s);
    t->barrier |= s->op == BL_OP_BARRIER;
    t->code->nsteps++;
}

static void add_inst(translator *t, uint32_t number)
{
    const bl_inst *in = &t->linear->inst[number];

    if (in->op == BL_OP_BUFFER) {
        t->of[number].at = t->local_at;
        if (in->sub)
            t->local_at += (uint32_t)in->arg * (uint32_t)bl_dtype_bytes((bl_dtype)in->dtype);
        return;
    }
    t->of[number] = in->op == BL_OP_STORE ? (operand){0, in->lanes} : take_register(t, interp_kernel_values_of(in));
    if (in->op == BL_OP_CONST || in->op == BL_OP_VAR || in->op == BL_OP_LANE)
        t->code->fills[t->code->nfills++] = (fill){t->of[number], (bl_op)in->op, in->arg};
    else
        interp_kernel_add_step(t, number);
}

/* The scratch memory that |width| groups in lockstep need. */
static size_t scratch_of(const bl_interp_code *code, size_t width)
{
    size_t regs = code->lanes * sizeof(bl_scalar) * width;
    size_t item_bytes = sizeof(item) + (code->depth + 1) * sizeof(level) + regs;

    return code->items * item_bytes + 3 * BL_MAX_LANES * sizeof(bl_scalar) * width + code->local_bytes * width;
}

/* Choose the number of groups in lockstep so that their scratch memory fits the cache. */
static bl_status choose_width(bl_interp_code *code, bl_err *err)
{
    code->width = MAX_WIDTH;
    while (code->width > 1 && scratch_of(code, code->width) > SCRATCH_WANTED)
        code->width /= 2;
    code->scratch = scratch_of(code, code->width);
    if (code->scratch > SCRATCH_LIMIT)
        return bl_fail(err, BL_ELIMIT, "it needs %zu bytes of registers to be interpreted, limit %zu", code->scratch,
                       SCRATCH_LIMIT);
    return BL_OK;
}

bl_status bl_interp_compile(bl_arena *arena, const bl_linear *linear, bl_interp_code **out, bl_err *err)
{
    bl_interp_code *code = bl_arena_alloc(arena, sizeof *code);
    translator t = {.arena = arena, .linear = linear, .code = code};

    *out = NULL;
    BL_TRY(bl_linear_check(arena, linear, err));
    t.of = bl_arena_array(arena, linear->ninst, sizeof *t.of);
    BL_TRY(bl_arena_status(arena, err));
    code->name = bl_arena_strdup(arena, linear->name);
    memcpy(code->local, linear->local, sizeof code->local);
    code->steps = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *code->steps);
    code->fills = bl_arena_array(arena, linear->ninst, sizeof *code->fills);
    BL_TRY(bl_arena_status(arena, err));
    for (uint32_t i = 0; i < linear->ninst; i++)
        add_inst(&t, i);
    BL_TRY(bl_arena_status(arena, err));
    code->steps[code->nsteps++].op = BL_OP_SINK;
    code->items = t.barrier ? linear->local[0] * linear->local[1] * linear->local[2] : 1;
    code->local_bytes = t.local_at;
    BL_TRY(choose_width(code, err));
    *out = code;
    return BL_OK;
}

size_t bl_interp_scratch(const bl_interp_code *code)
{
    return code->scratch;
}

/* ---- steps */

static bool active(uint64_t mask, uint32_t group)
{
    return mask >> group & 1;
}

static bl_scalar *at(const runner *r, const item *it, operand o)
{
    return it->regs + (size_t)o.at * r->code->width;
}

/* Operand |o| with |lanes| lanes; a single lane is repeated into |room|. */
static const bl_scalar *repeated(const runner *r, const item *it, operand o, uint32_t lanes, bl_scalar *room)
{
    const bl_scalar *value = at(r, it, o);

    if (o.lanes == lanes)
        return value;
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t l = 0; l < lanes; l++)
            room[i * lanes + l] = value[i];
    return room;
}

static void run_alu(const runner *r, const item *it, const step *s)
{
    const bl_scalar *in[3] = {NULL, NULL, NULL};

    for (uint32_t i = 0; i < s->nargs; i++)
        in[i] = repeated(r, it, s->args[i], s->out.lanes, r->repeat[i]);
    bl_eval_many(s->op, s->dtype, s->from, (size_t)r->n * s->out.lanes, at(r, it, s->out), in);
}

static void run_id(const runner *r, const item *it, const step *s)
{
    bl_scalar *out = at(r, it, s->out);
    const uint32_t *groups = r->launch->groups;
    uint64_t below = s->dimension == 0 ? 1 : s->dimension == 1 ? groups[0] : (uint64_t)groups[0] * groups[1];

    for (uint32_t i = 0; i < r->n; i++)
        out[i].u = s->op == BL_OP_LOCAL_ID ? it->id[s->dimension] : (r->first + i) / below % groups[s->dimension];
}

static void run_stack(const runner *r, const item *it, const step *s)
{
    bl_scalar *out = at(r, it, s->out);

    for (uint32_t l = 0; l < s->nargs; l++)
        for (uint32_t i = 0; i < r->n; i++)
            out[i * s->nargs + l] = at(r, it, s->args[l])[i];
}

static void run_extract(const runner *r, const item *it, const step *s)
{
    bl_scalar *out = at(r, it, s->out);
    const bl_scalar *in = at(r, it, s->args[0]);

    for (uint32_t i = 0; i < r->n; i++)
        out[i] = in[i * s->args[0].lanes + s->dimension];
}

static void run_fold(const runner *r, const item *it, const step *s)
{
    bl_scalar *out = at(r, it, s->out);
    const bl_scalar *in = at(r, it, s->args[0]);
    uint32_t lanes = s->args[0].lanes;

    for (uint32_t i = 0; i < r->n; i++) {
        bl_scalar part[BL_MAX_LANES];

        for (uint32_t l = 0; l < lanes; l++)
            part[l] = in[i * lanes + l];
        for (uint32_t n = lanes, half = 0; n > 1; n = half) { /* pairwise, in the renderers' order */
            half = (n + 1) / 2;
            for (uint32_t l = 0; l + half < n; l++) {
                bl_scalar pair[2] = {part[l], part[l + half]};
                part[l] = bl_eval(s->fold, s->dtype, pair);
            }
        }
        out[i] = part[0];
    }
}

static void run_copy(const runner *r, const item *it, const step *s)
{
    uint32_t lanes = s->out.lanes;
    uint64_t mask = it->levels[it->depth].mask;
    bl_scalar *out = at(r, it, s->out);
    const bl_scalar *in = at(r, it, s->args[0]);
    bool one = s->args[0].lanes == 1;

    if (mask == UINT64_MAX && s->args[0].lanes == lanes) {
        memcpy(out, in, (size_t)r->n * lanes * sizeof *out);
        return;
    }
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t l = 0; active(mask, i) && l < lanes; l++)
            out[i * lanes + l] = in[one ? i : i * lanes + l];
}

/* ---- memory */

static inline bl_scalar read_element(bl_dtype dtype, const unsigned char *data, uint64_t index)
{
    if (dtype == BL_F32) {
        float f;

        memcpy(&f, data + index * sizeof f, sizeof f);
        if (f == f) /* converting a NaN could change its bits */
            return (bl_scalar){.f = (double)f};
    }
    return bl_scalar_read(dtype, data + index * bl_dtype_bytes(dtype));
}

static inline void write_element(bl_dtype dtype, bl_scalar value, unsigned char *data, uint64_t index)
{
    if (dtype == BL_F32 && value.f == value.f) {
        float f = (float)value.f;

        memcpy(data + index * sizeof f, &f, sizeof f);
        return;
    }
    bl_scalar_write(dtype, value, data + index * bl_dtype_bytes(dtype));
}

static bl_status outside(const runner *r, const step *s, int64_t index, uint64_t elements)
{
    const char *name = r->code->name;
    const char *verb = s->op == BL_OP_LOAD ? "reads" : "writes";

    if (s->elements)
        return bl_fail(r->err, BL_EDEVICE, "kernel %s, instruction %u %s element %lld of local memory that has %llu", name,
                       s->inst, verb, (long long)index, (unsigned long long)elements);
    return bl_fail(r->err, BL_EDEVICE, "kernel %s, instruction %u %s element %lld of buffer %u that has %llu", name, s->inst,
                   verb, (long long)index, s->memory, (unsigned long long)elements);
}

/* A LOAD or STORE of one group. An access outside the memory is not made. */
static bl_status access_group(const runner *r, const item *it, const step *s, uint32_t group)
{
    bool load = s->op == BL_OP_LOAD;
    uint32_t lanes = s->out.lanes, gate_arg = load ? 1 : 2;
    operand index = s->args[0], value = load ? s->out : s->args[1];
    const bl_scalar *gate = s->nargs > gate_arg ? at(r, it, s->args[gate_arg]) : NULL;
    bool gates = gate && s->args[gate_arg].lanes > 1;
    const bl_interp_memory *buffer = &r->launch->buffers[s->memory];
    unsigned char *data = s->elements ? r->local + (size_t)group * r->code->local_bytes + s->memory : buffer->data;
    uint64_t elements = s->elements ? s->elements : buffer->bytes / bl_dtype_bytes(s->dtype);

    for (uint32_t l = 0; l < lanes; l++) {
        bl_scalar *v = &at(r, it, value)[value.lanes > 1 ? group * lanes + l : group];
        const bl_scalar *i = &at(r, it, index)[index.lanes > 1 ? group * lanes + l : group];
        uint64_t element = i->u + (index.lanes > 1 ? 0 : l); /* modulo 2^64: a negative index is out of range */

        if (gate && !gate[gates ? group * lanes + l : group].u) {
            if (load)
                v->u = 0;
            continue;
        }
        if (element >= elements)
            return outside(r, s, (int64_t)element, elements);
        if (load)
            *v = read_element(s->dtype, data, element);
        else
            write_element(s->dtype, *v, data, element);
    }
    return BL_OK;
}

/* A fast path for the most frequent access: one float32 of a parameter per group, without a gate, for all groups. */
static bl_status load_f32(const runner *r, const item *it, const step *s)
{
    const bl_interp_memory *buffer = &r->launch->buffers[s->memory];
    const bl_scalar *index = at(r, it, s->args[0]);
    bl_scalar *out = at(r, it, s->out);
    uint64_t elements = buffer->bytes / sizeof(float);

    for (uint32_t i = 0; i < r->n; i++) {
        if (index[i].u >= elements)
            return outside(r, s, index[i].i, elements);
        out[i] = read_element(BL_F32, buffer->data, index[i].u);
    }
    return BL_OK;
}

static bl_status run_access(const runner *r, const item *it, const step *s)
{
    uint64_t mask = it->levels[it->depth].mask;

    if (s->op == BL_OP_LOAD && s->dtype == BL_F32 && s->out.lanes == 1 && s->nargs == 1 && !s->elements && mask == UINT64_MAX)
        return load_f32(r, it, s);
    for (uint32_t i = 0; i < r->n; i++)
        if (active(mask, i))
            BL_TRY(access_group(r, it, s, i));
    return BL_OK;
}

/* ---- fragments: each work-item of a unit's scope has all of them, and does all of the work */

static void clear_fragment(const runner *r, const item *it, const step *s)
{
    bl_scalar *out = at(r, it, s->out);
    uint64_t mask = it->levels[it->depth].mask;

    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t l = 0; active(mask, i) && l < s->out.lanes; l++)
            out[i * s->out.lanes + l].u = 0;
}

/* Load or store the elements of a group's fragment, row by row. */
static bl_status move_fragment(const runner *r, const item *it, const step *s, uint32_t group)
{
    bool load = s->op == BL_OP_FRAGMENT_LOAD;
    operand cells = load ? s->out : s->args[1];
    const bl_interp_memory *buffer = &r->launch->buffers[s->memory];
    unsigned char *data = s->elements ? r->local + (size_t)group * r->code->local_bytes + s->memory : buffer->data;
    uint64_t elements = s->elements ? s->elements : buffer->bytes / bl_dtype_bytes(s->dtype);
    uint64_t start = at(r, it, s->args[0])[group].u;
    int64_t stride = load ? at(r, it, s->args[1])[group].i : s->matrix.n, rows = s->matrix.m, columns = s->matrix.n;

    if (load)
        bl_matrix_cells(s->matrix, s->layout, &rows, &columns);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < columns; k++) {
            bl_scalar *v = &at(r, it, cells)[group * cells.lanes + (uint32_t)(i * columns + k)];
            uint64_t element = start + (uint64_t)(load ? bl_matrix_cell(s->matrix, s->layout, stride, i, k) : i * stride + k);
            if (element >= elements)
                return outside(r, s, (int64_t)element, elements);
            if (load)
                *v = read_element(s->dtype, data, element);
            else
                write_element(s->dtype, *v, data, element);
        }
    }
    return BL_OK;
}

/* One element of c: the products are exact in float32 and are added in order. */
static bl_scalar interp_kernel_add_products(const step *s, bl_scalar sum, const bl_scalar *a, const bl_scalar *b)
{
    for (uint32_t k = 0; k < s->matrix.k; k++) {
        const bl_scalar *y = &b[k * s->matrix.n];
        if (s->matrix.to == BL_F32)
            sum.f = (double)fmaf((float)a[k].f, (float)y->f, (float)sum.f);
        else
            sum = (bl_scalar){.i = (int32_t)(uint32_t)(sum.u + a[k].u * y->u)};
    }
    return sum;
}

static void add_matrix(const runner *r, const item *it, const step *s)
{
    uint64_t mask = it->levels[it->depth].mask;
    uint32_t m = s->matrix.m, n = s->matrix.n, k = s->matrix.k;

    for (uint32_t g = 0; g < r->n; g++) {
        bl_scalar *c = at(r, it, s->args[0]) + (size_t)g * m * n;
        const bl_scalar *a = at(r, it, s->args[1]) + (size_t)g * m * k, *b = at(r, it, s->args[2]) + (size_t)g * k * n;
        for (uint32_t i = 0; active(mask, g) && i < m * n; i++)
            c[i] = interp_kernel_add_products(s, c[i], a + (size_t)(i / n) * k, b + i % n);
    }
}

static bl_status run_fragment(const runner *r, const item *it, const step *s)
{
    uint64_t mask = it->levels[it->depth].mask;

    if (s->op == BL_OP_FRAGMENT)
        clear_fragment(r, it, s);
    else if (s->op == BL_OP_MATRIX_ADD)
        add_matrix(r, it, s);
    else
        for (uint32_t i = 0; i < r->n; i++)
            if (active(mask, i))
                BL_TRY(move_fragment(r, it, s, i));
    return BL_OK;
}

/* ---- control */

static void start_round(const runner *r, item *it, const step *loop)
{
    level *in = &it->levels[it->depth];
    uint64_t outer = in[-1].mask;
    bl_scalar *counter = at(r, it, loop->out), *limit = counter + r->code->width;

    for (uint32_t i = 0; i < r->n; i++)
        counter[i].i = in->count;
    in->mask = outer;
    for (uint32_t i = 0; !in->even && i < r->n; i++)
        if (in->count >= limit[i].i)
            in->mask &= ~((uint64_t)1 << i);
}

static void interp_kernel_run_loop(const runner *r, item *it, const step *s)
{
    const bl_scalar *end = at(r, it, s->args[0]);
    bl_scalar *limit = at(r, it, s->out) + r->code->width;
    uint64_t outer = it->levels[it->depth].mask;
    level in = {.even = true};

    for (uint32_t i = 0; i < r->n; i++)
        if (active(outer, i) && end[i].i > in.limit)
            in.limit = end[i].i;
    for (uint32_t i = 0; i < r->n; i++) {
        limit[i] = end[i];
        in.even &= !active(outer, i) || end[i].i == in.limit;
    }
    if (in.limit == 0) {
        it->pc = s->jump;
        return;
    }
    it->levels[++it->depth] = in;
    start_round(r, it, s);
}

static void run_end(const runner *r, item *it, const step *s)
{
    level *in = &it->levels[it->depth];

    if (++in->count < in->limit) {
        it->pc = s->jump + 1;
        start_round(r, it, &r->code->steps[s->jump]);
    } else {
        it->depth--;
    }
}

/* Run a work-item to its next barrier or to its end; *done tells which. */
static bl_status run_item(const runner *r, item *it, bool *done)
{
    *done = false;
    for (;;) {
        const step *s = &r->code->steps[it->pc++];

        switch ((int)s->op) {
        case BL_OP_GROUP_ID:
        case BL_OP_LOCAL_ID:
            run_id(r, it, s);
            break;
        case BL_OP_LOAD:
        case BL_OP_STORE:
            BL_TRY(run_access(r, it, s));
            break;
        case BL_OP_FRAGMENT:
        case BL_OP_FRAGMENT_LOAD:
        case BL_OP_MATRIX_ADD:
        case BL_OP_FRAGMENT_STORE:
            BL_TRY(run_fragment(r, it, s));
            break;
        case BL_OP_STACK:
            run_stack(r, it, s);
            break;
        case BL_OP_EXTRACT:
            run_extract(r, it, s);
            break;
        case BL_OP_FOLD:
            run_fold(r, it, s);
            break;
        case BL_OP_LOOP:
            interp_kernel_run_loop(r, it, s);
            break;
        case BL_OP_END:
            run_end(r, it, s);
            break;
        case BL_OP_ACC:
        case BL_OP_SET:
            run_copy(r, it, s);
            break;
        case BL_OP_BARRIER:
        case BL_OP_SINK:
            *done = s->op == BL_OP_SINK;
            return BL_OK;
        default:
            run_alu(r, it, s);
            break;
        }
    }
}

/* ---- launches */

static void start_item(const runner *r, item *it, uint32_t number)
{
    const uint32_t *local = r->code->local;

    it->pc = 0;
    it->depth = 0;
    it->levels[0].mask = UINT64_MAX;
    it->id[0] = number % local[0];
    it->id[1] = number / local[0] % local[1];
    it->id[2] = number / local[0] / local[1];
}

static bl_status run_chunk(const runner *r)
{
    const bl_interp_code *code = r->code;
    const uint32_t *local = code->local;
    uint32_t all = local[0] * local[1] * local[2];
    bool done = false;

    /* the contents are undefined: a NaN shows an error sooner than a zero */
    memset(r->local, 0xff, (size_t)code->local_bytes * r->n);
    for (uint32_t i = 0; code->items < all && i < all; i++) {
        start_item(r, &r->items[0], i);
        BL_TRY(run_item(r, &r->items[0], &done)); /* without a barrier it runs to the end */
    }
    if (code->items < all)
        return BL_OK;
    for (uint32_t i = 0; i < all; i++)
        start_item(r, &r->items[i], i);
    while (!done) { /* all work-items reach the same barriers (bl_linear_check) */
        for (uint32_t i = 0; i < all; i++)
            BL_TRY(run_item(r, &r->items[i], &done));
    }
    return BL_OK;
}

/* Divide |scratch| as scratch_of counts it. */
static void bind_scratch(runner *r, const bl_interp_code *code, void *scratch)
{
    size_t width = code->width;
    level *levels;
    bl_scalar *regs;

    r->items = scratch;
    levels = (level *)(void *)(r->items + code->items);
    regs = (bl_scalar *)(void *)(levels + (size_t)code->items * (code->depth + 1));
    for (uint32_t i = 0; i < code->items; i++) {
        r->items[i].levels = levels + (size_t)i * (code->depth + 1);
        r->items[i].regs = regs;
        regs += code->lanes * width;
    }
    for (int i = 0; i < 3; i++) {
        r->repeat[i] = regs;
        regs += BL_MAX_LANES * width;
    }
    r->local = (unsigned char *)regs;
}

static void fill_registers(const runner *r, const item *it)
{
    const bl_interp_code *code = r->code;

    for (uint32_t k = 0; k < code->nfills; k++) {
        const fill *f = &code->fills[k];
        bl_scalar *out = at(r, it, f->out);

        for (uint32_t i = 0; i < code->width * f->out.lanes; i++) {
            if (f->op == BL_OP_CONST)
                out[i].i = f->arg;
            else if (f->op == BL_OP_VAR)
                out[i].i = r->launch->scalars[f->arg];
            else
                out[i].u = i % f->out.lanes;
        }
    }
}

bl_status bl_interp_run(const bl_interp_code *code, const bl_interp_launch *launch, bl_err *err)
{
    uint64_t total = (uint64_t)launch->groups[0] * launch->groups[1] * launch->groups[2];
    runner r = {.code = code, .launch = launch, .err = err};

    bind_scratch(&r, code, launch->scratch);
    for (uint32_t i = 0; i < code->items; i++)
        fill_registers(&r, &r.items[i]);
    for (; r.first < total; r.first += r.n) {
        r.n = total - r.first < code->width ? (uint32_t)(total - r.first) : code->width;
        BL_TRY(run_chunk(&r));
    }
    return BL_OK;
}
