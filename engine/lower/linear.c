/* SPDX-License-Identifier: MIT */
#include "engine/lower/linear.h"

#include "engine/base/size.h"
#include "engine/ir/ir_text.h"
#include "engine/ir/matrix_unit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Properties of an op's instructions. */
enum {
    VALUE = 1,      /* has a value: users may name it, and it is printed with its dtype and lanes */
    ONE_LANE = 2,   /* never a vector */
    INT_RESULT = 4, /* int32 or int64 */
    OF_MATRIX = 8   /* |arg| is a matrix shape */
};

typedef struct checker {
    const bl_linear *linear;
    uint32_t number; /* number of the current instruction */
    uint32_t *scope; /* for each instruction: 1 + the number of the innermost LOOP around it, or 0 */
    bool *open;      /* for each LOOP: has it not ended yet? */
    bool *uniform;   /* for each instruction: is its value the same in all work-items of a group? */
    uint32_t loop[BL_LINEAR_MAX_DEPTH];
    uint32_t depth;
    uint32_t stored; /* bit i: parameter i is stored to */
    uint64_t local_bytes;
    bl_err *err;
} checker;

/* The rules for an op. |check| is NULL for an op that is not allowed in a kernel; it may rely on operands that exist and are in
 * scope. */
typedef struct form {
    uint8_t min_args, max_args;
    uint8_t is;
    bl_status (*check)(checker *c, const bl_inst *in);
} form;

static form form_of(bl_op op);

/* ---- printing */

static void print_inst(uint32_t number, const bl_inst *in, bl_text *out)
{
    bl_text_printf(out, "%u %s", number, bl_op_name((bl_op)in->op));
    if ((form_of((bl_op)in->op).is & VALUE) || (in->op == BL_OP_STORE && in->lanes > 1))
        bl_text_printf(out, " %s", bl_dtype_name((bl_dtype)in->dtype));
    if (in->lanes != 1 && in->op != BL_OP_SET)
        bl_text_printf(out, "x%u", in->lanes);
    for (uint32_t i = 0; i < in->nargs; i++)
        bl_text_printf(out, " %%%u", in->args[i]);
    if (in->op == BL_OP_BUFFER && in->sub)
        bl_text_puts(out, in->sub == BL_LOCAL_NARROW ? " sub=narrow" : " sub=local");
    if (in->op == BL_OP_FOLD)
        bl_text_printf(out, " sub=%s", bl_op_name((bl_op)in->sub));
    if (in->op == BL_OP_VAR || in->op == BL_OP_BUFFER || in->op == BL_OP_GROUP_ID || in->op == BL_OP_LOCAL_ID ||
        in->op == BL_OP_EXTRACT || (in->op == BL_OP_STORE && in->arg != 0))
        bl_text_printf(out, " arg=%lld", (long long)in->arg);
    if (in->op == BL_OP_FRAGMENT_LOAD)
        bl_text_printf(out, " layout=%u", in->sub);
    if (form_of((bl_op)in->op).is & OF_MATRIX) {
        bl_text_puts(out, " shape=");
        bl_matrix_print(bl_matrix_unpack(in->arg), out);
    }
    if (in->op == BL_OP_CONST) {
        bl_text_putc(out, ' ');
        bl_scalar_print((bl_dtype)in->dtype, (bl_scalar){.i = in->arg}, out);
    }
    bl_text_putc(out, '\n');
}

int64_t bl_linear_split(const bl_linear *linear, uint32_t index, uint32_t *base)
{
    const bl_inst *sum = &linear->inst[index], *last = sum->nargs == 2 ? &linear->inst[sum->args[1]] : NULL;

    *base = index;
    if (sum->op != BL_OP_ADD || sum->sub != 1 || last->op != BL_OP_CONST)
        return 0;
    *base = sum->args[0];
    return last->arg;
}

bl_linear *bl_linear_copy(bl_arena *arena, const bl_linear *linear)
{
    bl_linear *copy = bl_arena_alloc(arena, sizeof *copy);
    bl_inst *inst = bl_arena_array(arena, linear->ninst, sizeof *inst);
    bl_dtype *dtypes = bl_arena_array(arena, linear->nbuffers, sizeof *dtypes);
    uint32_t *args = NULL;
    size_t nargs = 0;

    for (uint32_t i = 0; i < linear->ninst; i++)
        nargs += linear->inst[i].nargs;
    args = bl_arena_array(arena, nargs, sizeof *args);
    if (copy == NULL || inst == NULL || dtypes == NULL || args == NULL)
        return NULL;
    for (uint32_t i = 0; i < linear->ninst; i++) {
        inst[i] = linear->inst[i];
        inst[i].args = args;
        for (uint32_t k = 0; k < inst[i].nargs; k++)
            *args++ = linear->inst[i].args[k];
    }
    for (uint32_t i = 0; i < linear->nbuffers; i++)
        dtypes[i] = linear->buffer_dtype[i];
    *copy = *linear;
    copy->name = bl_arena_strdup(arena, linear->name);
    copy->inst = inst;
    copy->buffer_dtype = dtypes;
    return copy;
}

void bl_linear_print(const bl_linear *linear, bl_text *out)
{
    bl_text_printf(out, "linear %s buffers=", linear->name);
    for (uint32_t i = 0; i < linear->nbuffers; i++)
        bl_text_printf(out, "%s%s", i ? "," : "", bl_dtype_name(linear->buffer_dtype[i]));
    bl_text_printf(out, " writes=%u scalars=%u local=%u,%u,%u localbytes=%u\n", linear->writes, linear->nscalars,
                   linear->local[0], linear->local[1], linear->local[2], linear->local_bytes);
    for (uint32_t i = 0; i < linear->ninst; i++)
        print_inst(i, &linear->inst[i], out);
}

/* ---- what must hold, op by op */

static bl_status bad(const checker *c, const char *fmt, ...) BL_PRINTF(2, 3);
static bl_status bad(const checker *c, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return bl_fail(c->err, BL_EBUG, "linear kernel %s, instruction %u: %s", c->linear->name, c->number, text);
}

static const bl_inst *linear_operand(const checker *c, const bl_inst *in, uint32_t i)
{
    return &c->linear->inst[in->args[i]];
}

static const char *linear_dtype_of(const bl_inst *in)
{
    return bl_dtype_name((bl_dtype)in->dtype);
}

static bool is_index(const bl_inst *in)
{
    return in->dtype == BL_I32 || in->dtype == BL_I64;
}

static bool lanes_fit(const bl_inst *operand, const bl_inst *in)
{
    return operand->lanes == in->lanes || operand->lanes == 1;
}

static bl_status check_nothing(checker *c, const bl_inst *in)
{
    (void)c;
    (void)in;
    return BL_OK;
}

static bl_status linear_check_const(checker *c, const bl_inst *in)
{
    bl_scalar value = {.i = in->arg};
    bool is_nan = bl_dtype_is_float((bl_dtype)in->dtype) && isnan(value.f);

    return is_nan || bl_scalar_fit((bl_dtype)in->dtype, value).u == value.u
               ? BL_OK
               : bad(c, "%s cannot hold the value", linear_dtype_of(in));
}

/* VAR, GROUP_ID and LOCAL_ID: |arg| must be in range. */
static bl_status check_number(checker *c, const bl_inst *in)
{
    int64_t limit = in->op == BL_OP_VAR ? c->linear->nscalars : 3;

    return in->arg >= 0 && in->arg < limit
               ? BL_OK
               : bad(c, "%s number %lld is not below %lld", bl_op_name((bl_op)in->op), (long long)in->arg, (long long)limit);
}

static bl_status check_buffer(checker *c, const bl_inst *in)
{
    size_t bytes;

    if (!in->sub) {
        if (in->arg < 0 || in->arg >= c->linear->nbuffers)
            return bad(c, "buffer number %lld is not below %u", (long long)in->arg, c->linear->nbuffers);
        if (in->dtype != c->linear->buffer_dtype[in->arg])
            return bad(c, "buffer %lld is %s in the first line", (long long)in->arg,
                       bl_dtype_name(c->linear->buffer_dtype[in->arg]));
        return BL_OK;
    }
    if (in->arg < 1 || !bl_size_mul((size_t)in->arg, bl_dtype_bytes((bl_dtype)in->dtype), &bytes) ||
        bytes > c->linear->local_bytes - c->local_bytes)
        return bad(c, "local memory of %lld elements does not fit the %u bytes that the kernel declares", (long long)in->arg,
                   c->linear->local_bytes);
    c->local_bytes += bytes;
    if (in->sub > BL_LOCAL_NARROW || (in->sub == BL_LOCAL_NARROW && in->dtype != BL_F16 && in->dtype != BL_BF16))
        return bad(c, "local memory of %s has the unknown kind %u", linear_dtype_of(in), in->sub);
    return BL_OK;
}

static bl_status linear_check_alu(checker *c, const bl_inst *in)
{
    bl_op op = (bl_op)in->op;
    bl_dtype from[3] = {BL_BOOL, BL_BOOL, BL_BOOL};
    const char *wrong = NULL;

    for (uint32_t i = 0; i < in->nargs; i++) {
        from[i] = (bl_dtype)linear_operand(c, in, i)->dtype;
        if (!lanes_fit(linear_operand(c, in, i), in))
            return bad(c, "%s of %u lanes has an operand of %u", bl_op_name(op), in->lanes, linear_operand(c, in, i)->lanes);
    }
    wrong = bl_alu_wrong(op, (bl_dtype)in->dtype, from);
    return wrong == NULL ? BL_OK : bad(c, "%s: %s", bl_op_name(op), wrong);
}

/* Check the buffer, the index, and the gate behind the |values| operands that are always present. */
static bl_status linear_check_access(const checker *c, const bl_inst *in, uint32_t values)
{
    const bl_inst *index = linear_operand(c, in, 1);

    if (!is_index(index))
        return bad(c, "the index is %s, not int32 or int64", linear_dtype_of(index));
    if (!lanes_fit(index, in))
        return bad(c, "%u indices for %u lanes", index->lanes, in->lanes);
    if (in->dtype != linear_operand(c, in, 0)->dtype)
        return bad(c, "the value and the buffer differ in dtype");
    if (in->nargs > values && (linear_operand(c, in, values)->dtype != BL_BOOL || !lanes_fit(linear_operand(c, in, values), in)))
        return bad(c, "the gate is not a bool of 1 or %u lanes", in->lanes);
    return BL_OK;
}

static bl_status check_load(checker *c, const bl_inst *in)
{
    return linear_check_access(c, in, 2);
}

static bl_status check_store(checker *c, const bl_inst *in)
{
    const bl_inst *buffer = linear_operand(c, in, 0), *value = linear_operand(c, in, 2);

    if (value->dtype != in->dtype || !lanes_fit(value, in))
        return bad(c, "%s in %u lanes is stored as %s in %u", linear_dtype_of(value), value->lanes, linear_dtype_of(in),
                   in->lanes);
    if (!buffer->sub)
        c->stored |= 1u << buffer->arg;
    return linear_check_access(c, in, 3);
}

static bl_status check_extract(checker *c, const bl_inst *in)
{
    const bl_inst *from = linear_operand(c, in, 0);

    if (from->dtype != in->dtype)
        return bad(c, "extract gives a single %s here", linear_dtype_of(from));
    return in->arg >= 0 && in->arg < from->lanes ? BL_OK
                                                 : bad(c, "lane %lld of %u is extracted", (long long)in->arg, from->lanes);
}

static bl_status check_stack(checker *c, const bl_inst *in)
{
    if (in->nargs != in->lanes)
        return bad(c, "a stack of %u lanes has %u operands", in->lanes, in->nargs);
    for (uint32_t i = 0; i < in->nargs; i++) {
        if (linear_operand(c, in, i)->lanes != 1 || linear_operand(c, in, i)->dtype != in->dtype)
            return bad(c, "operand %u of stack is not a single %s", i, linear_dtype_of(in));
    }
    return BL_OK;
}

static bl_status check_fold(checker *c, const bl_inst *in)
{
    if (!bl_op_folds((bl_op)in->sub))
        return bad(c, "no fold by %s", bl_op_name((bl_op)in->sub));
    if (linear_operand(c, in, 0)->dtype != in->dtype)
        return bad(c, "fold gives a single %s here", linear_dtype_of(linear_operand(c, in, 0)));
    return BL_OK;
}

static bl_status check_loop(checker *c, const bl_inst *in)
{
    if (linear_operand(c, in, 0)->lanes != 1 || linear_operand(c, in, 0)->dtype != in->dtype)
        return bad(c, "the end of the loop is not a single %s", linear_dtype_of(in));
    if (c->depth == BL_LINEAR_MAX_DEPTH)
        return bad(c, "loops are nested more than %d deep", BL_LINEAR_MAX_DEPTH);
    c->loop[c->depth++] = c->number;
    c->open[c->number] = true;
    c->scope[c->number] = c->number + 1; /* the counter is in scope inside the loop only */
    return BL_OK;
}

static bl_status check_end(checker *c, const bl_inst *in)
{
    (void)in;
    if (c->depth == 0)
        return bad(c, "end without loop");
    c->open[c->loop[--c->depth]] = false;
    return BL_OK;
}

/* ACC and SET: the variable, and its value, which is the last operand. */
static bl_status check_variable(checker *c, const bl_inst *in)
{
    const bl_inst *variable = in->op == BL_OP_SET ? linear_operand(c, in, 0) : in, *value = linear_operand(c, in, in->nargs - 1);

    if (variable->op != BL_OP_ACC)
        return bad(c, "set of a value that is not an acc");
    if (value->dtype != variable->dtype || !lanes_fit(value, variable))
        return bad(c, "the variable and its value differ in dtype or lanes");
    return BL_OK;
}

/* The work-items of the unit's scope must be the whole first dimension of the group. */
static bl_status check_fragment(checker *c, const bl_inst *in)
{
    bl_matrix x = bl_matrix_unpack(in->arg);

    if (!bl_matrix_is_valid(x))
        return bad(c, "not a shape of a matrix unit");
    if (x.scope > 1 && c->linear->local[0] != x.scope)
        return bad(c, "%u work-items share a fragment of %u", c->linear->local[0], x.scope);
    return in->dtype == (in->op == BL_OP_FRAGMENT_LOAD ? x.from : x.to) ? BL_OK
                                                                        : bad(c, "%s is not the unit's", linear_dtype_of(in));
}

static bl_status check_fragment_load(checker *c, const bl_inst *in)
{
    bl_matrix x = bl_matrix_unpack(in->arg);

    BL_TRY(check_fragment(c, in));
    if (in->sub >= BL_MATRIX_LAYOUTS || (x.layouts >> in->sub & 1) == 0)
        return bad(c, "layout %u is none of the unit's", in->sub);
    if (linear_operand(c, in, 0)->dtype != in->dtype || linear_operand(c, in, 0)->sub == BL_LOCAL)
        return bad(c, "an operand is loaded from a buffer where its dtype is stored");
    if (linear_operand(c, in, 2)->op != BL_OP_CONST || linear_operand(c, in, 2)->arg < 1)
        return bad(c, "the stride is not a constant of 1 or more");
    return is_index(linear_operand(c, in, 1)) && is_index(linear_operand(c, in, 2)) ? BL_OK : bad(c, "index or stride");
}

static bool linear_is_operand(const checker *c, const bl_inst *in, uint32_t i, bool is_a)
{
    const bl_inst *x = linear_operand(c, in, i);
    return x->op == BL_OP_FRAGMENT_LOAD && x->arg == in->arg && bl_matrix_is_a((bl_matrix_layout)x->sub) == is_a;
}

static bl_status check_matrix_add(checker *c, const bl_inst *in)
{
    if (linear_operand(c, in, 0)->op != BL_OP_FRAGMENT || linear_operand(c, in, 0)->arg != in->arg ||
        !linear_is_operand(c, in, 1, true) || !linear_is_operand(c, in, 2, false))
        return bad(c, "takes a fragment, an a and a b of one shape");
    return BL_OK;
}

static bl_status check_fragment_store(checker *c, const bl_inst *in)
{
    const bl_inst *to = linear_operand(c, in, 0);

    if (linear_operand(c, in, 2)->op != BL_OP_FRAGMENT || linear_operand(c, in, 2)->arg != in->arg)
        return bad(c, "stores no fragment of the shape");
    if (!to->sub || to->dtype != linear_operand(c, in, 2)->dtype || !is_index(linear_operand(c, in, 1)))
        return bad(c, "a fragment goes to local memory of its dtype");
    return BL_OK;
}

/* All work-items must reach a barrier equally often. */
static bl_status check_barrier(checker *c, const bl_inst *in)
{
    (void)in;
    for (uint32_t i = 0; i < c->depth; i++) {
        if (!c->uniform[c->loop[i]])
            return bad(c, "a barrier in loop %u, which need not end for all work-items at once", c->loop[i]);
    }
    return BL_OK;
}

/* Is the value the same in all work-items of a group? Loaded values and variables count as different. */
static bool is_uniform(const checker *c, const bl_inst *in)
{
    if (in->op == BL_OP_CONST || in->op == BL_OP_VAR || in->op == BL_OP_GROUP_ID)
        return true;
    if (in->op != BL_OP_LOOP && bl_op_get_class((bl_op)in->op) != BL_CLASS_ALU)
        return false;
    for (uint32_t i = 0; i < in->nargs; i++) {
        if (!c->uniform[in->args[i]])
            return false;
    }
    return true;
}

static const form forms[BL_OP_COUNT] = {
    [BL_OP_CONST] = {0, 0, VALUE | ONE_LANE, linear_check_const},
    [BL_OP_VAR] = {0, 0, VALUE | ONE_LANE | INT_RESULT, check_number},
    [BL_OP_BUFFER] = {0, 0, VALUE | ONE_LANE, check_buffer},
    [BL_OP_GROUP_ID] = {0, 0, VALUE | ONE_LANE | INT_RESULT, check_number},
    [BL_OP_LOCAL_ID] = {0, 0, VALUE | ONE_LANE | INT_RESULT, check_number},
    [BL_OP_LOAD] = {2, 3, VALUE, check_load},
    [BL_OP_STORE] = {3, 4, 0, check_store},
    [BL_OP_LANE] = {0, 0, VALUE | INT_RESULT, check_nothing},
    [BL_OP_EXTRACT] = {1, 1, VALUE | ONE_LANE, check_extract},
    [BL_OP_STACK] = {1, BL_MAX_LANES, VALUE, check_stack},
    [BL_OP_FOLD] = {1, 1, VALUE | ONE_LANE, check_fold},
    [BL_OP_LOOP] = {1, 1, VALUE | ONE_LANE | INT_RESULT, check_loop},
    [BL_OP_END] = {0, 0, 0, check_end},
    [BL_OP_ACC] = {1, 1, VALUE, check_variable},
    [BL_OP_SET] = {2, 2, 0, check_variable},
    [BL_OP_FRAGMENT] = {0, 0, VALUE | ONE_LANE | OF_MATRIX, check_fragment},
    [BL_OP_FRAGMENT_LOAD] = {3, 3, VALUE | ONE_LANE | OF_MATRIX, check_fragment_load},
    [BL_OP_MATRIX_ADD] = {3, 3, OF_MATRIX, check_matrix_add},
    [BL_OP_FRAGMENT_STORE] = {3, 3, OF_MATRIX, check_fragment_store},
    [BL_OP_BARRIER] = {0, 0, 0, check_barrier},
};

static form form_of(bl_op op)
{
    uint8_t n = (uint8_t)bl_op_sources(op);

    return bl_op_get_class(op) == BL_CLASS_ALU ? (form){n, n, VALUE, linear_check_alu} : forms[op];
}

/* Operand |i| must precede the instruction, be in scope, and be of a kind that the instruction accepts. */
static bl_status check_operand(const checker *c, const bl_inst *in, uint32_t i)
{
    bool memory = i == 0 && (in->op == BL_OP_LOAD || in->op == BL_OP_STORE || in->op == BL_OP_FRAGMENT_LOAD ||
                             in->op == BL_OP_FRAGMENT_STORE);
    bool takes = in->op == BL_OP_MATRIX_ADD || (in->op == BL_OP_FRAGMENT_STORE && i == 2);
    uint32_t n = in->args[i];
    bl_op from = BL_OP_COUNT;

    if (n >= c->number)
        return bad(c, "operand %%%u is not defined before", n);
    from = (bl_op)c->linear->inst[n].op;
    if (!(form_of(from).is & VALUE))
        return bad(c, "operand %%%u, a %s, has no value", n, bl_op_name(from));
    if ((from == BL_OP_BUFFER) != memory)
        return bad(c, memory ? "operand %%%u is not a buffer" : "operand %%%u is a buffer", n);
    if ((from == BL_OP_FRAGMENT || from == BL_OP_FRAGMENT_LOAD) != takes)
        return bad(c, takes ? "operand %%%u is not a fragment" : "operand %%%u is a fragment", n);
    if (c->scope[n] && !c->open[c->scope[n] - 1])
        return bad(c, "operand %%%u was defined in a loop that has ended", n);
    return BL_OK;
}

static bl_status check_inst(checker *c, const bl_inst *in)
{
    form row = in->op < BL_OP_COUNT ? form_of((bl_op)in->op) : (form){0};
    const char *name = bl_op_name((bl_op)in->op);

    if (row.check == NULL || in->dtype >= BL_DTYPE_WIRE || in->lanes < 1 || in->lanes > BL_MAX_LANES)
        return bad(c, "%s of %u lanes is not allowed in a kernel", name, in->lanes);
    if (in->nargs < row.min_args || in->nargs > row.max_args)
        return bad(c, "%s has %u operands", name, in->nargs);
    c->scope[c->number] = c->depth ? c->loop[c->depth - 1] + 1 : 0;
    for (uint32_t i = 0; i < in->nargs; i++)
        BL_TRY(check_operand(c, in, i));
    c->uniform[c->number] = is_uniform(c, in);
    if ((row.is & ONE_LANE) && in->lanes != 1)
        return bad(c, "%s has %u lanes, not 1", name, in->lanes);
    if ((row.is & INT_RESULT) && !is_index(in))
        return bad(c, "%s is %s, not int32 or int64", name, linear_dtype_of(in));
    return row.check(c, in);
}

static bl_status linear_check_head(const bl_linear *linear, bl_err *err)
{
    uint64_t items = (uint64_t)linear->local[0] * linear->local[1];

    if (linear->ninst > BL_LINEAR_MAX_INST)
        return bl_fail(err, BL_ELIMIT, "a linear kernel of %u instructions, limit %d", linear->ninst, BL_LINEAR_MAX_INST);
    if (linear->nbuffers > BL_LINEAR_MAX_BUFFERS || linear->nscalars > BL_LINEAR_MAX_SCALARS)
        return bl_fail(err, BL_EBUG, "kernel %s has %u buffers and %u scalars", linear->name, linear->nbuffers, linear->nscalars);
    if (items == 0 || items > BL_LINEAR_MAX_LOCAL || linear->local[2] == 0 || items * linear->local[2] > BL_LINEAR_MAX_LOCAL)
        return bl_fail(err, BL_EBUG, "kernel %s: a group has 1 to %d work-items", linear->name, BL_LINEAR_MAX_LOCAL);
    return BL_OK;
}

bl_status bl_linear_check(bl_arena *arena, const bl_linear *linear, bl_err *err)
{
    checker c = {.linear = linear, .err = err};

    BL_TRY(linear_check_head(linear, err));
    c.scope = bl_arena_array(arena, linear->ninst, sizeof *c.scope);
    c.open = bl_arena_array(arena, linear->ninst, sizeof *c.open);
    c.uniform = bl_arena_array(arena, linear->ninst, sizeof *c.uniform);
    BL_TRY(bl_arena_status(arena, err));
    for (; c.number < linear->ninst; c.number++)
        BL_TRY(check_inst(&c, &linear->inst[c.number]));
    if (c.depth)
        return bad(&c, "%u loops are not closed", c.depth);
    if (c.stored != linear->writes)
        return bad(&c, "writes=%u, but the stores give %u", linear->writes, c.stored);
    return BL_OK;
}
