/* SPDX-License-Identifier: MIT */
#include "engine/lower/linear.h"

#include "engine/base/size.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the line of an op has besides number, op and operands. */
enum {
    HAS_VALUE = 1,   /* a dtype, and users may name it */
    HAS_LITERAL = 2, /* CONST's value */
    HAS_ARG = 4,
    HAS_SUB = 8
};

typedef struct parser {
    const char *at, *end;
    unsigned line;
    bl_arena *arena;
    bl_linear *linear;
    uint32_t *scope; /* of each instruction: 1 + the innermost LOOP around it, or 0 */
    bool *open;      /* of each LOOP: not yet ended */
    uint32_t loop[BL_LINEAR_MAX_DEPTH];
    uint32_t depth;
    uint32_t stored; /* bit i: a STORE names parameter i */
    uint64_t local_bytes;
    bl_err *err;
} parser;

/* How an op stands in a kernel; |check| NULL: not at all.  It sees operands that are there and in scope. */
typedef struct form {
    uint8_t min_args, max_args;
    uint8_t has;
    bl_status (*check)(parser *p, bl_inst *in);
} form;

static form form_of(bl_op op);

/* ---- printing */

static void print_literal(const bl_inst *in, bl_text *out)
{
    bl_scalar value = {.i = in->arg};
    char text[40];

    switch (bl_dtype_get_kind((bl_dtype)in->dtype)) {
    case BL_KIND_FLOAT: {
        bl_scalar back;

        snprintf(text, sizeof text, "%.17g", value.f);
        back.f = strtod(text, NULL);
        if (back.u == value.u)
            bl_text_printf(out, " %s", text);
        else
            bl_text_printf(out, " 0x%016llx", (unsigned long long)value.u);
        return;
    }
    case BL_KIND_INT:
        bl_text_printf(out, " %lld", (long long)value.i);
        return;
    case BL_KIND_BOOL:
    case BL_KIND_UINT:
        bl_text_printf(out, " %llu", (unsigned long long)value.u);
        return;
    }
}

static void print_inst(uint32_t number, const bl_inst *in, bl_text *out)
{
    form row = form_of((bl_op)in->op);

    bl_text_printf(out, "%u %s", number, bl_op_name((bl_op)in->op));
    if (row.has & HAS_VALUE)
        bl_text_printf(out, " %s", bl_dtype_name((bl_dtype)in->dtype));
    if ((row.has & HAS_VALUE) && in->lanes != 1)
        bl_text_printf(out, "x%u", in->lanes);
    for (uint32_t i = 0; i < in->nargs; i++)
        bl_text_printf(out, " %%%u", in->args[i]);
    if (in->op == BL_OP_BUFFER && in->sub)
        bl_text_puts(out, " sub=local");
    else if (row.has & HAS_SUB && in->op != BL_OP_BUFFER)
        bl_text_printf(out, " sub=%s", bl_op_name((bl_op)in->sub));
    if (row.has & HAS_ARG)
        bl_text_printf(out, " arg=%lld", (long long)in->arg);
    if (row.has & HAS_LITERAL)
        print_literal(in, out);
    bl_text_putc(out, '\n');
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

/* ---- scanning */

static bl_status bad(const parser *p, const char *fmt, ...) BL_PRINTF(2, 3);
static bl_status bad(const parser *p, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return bl_fail(p->err, BL_EINVAL, "linear kernel, line %u: %s", p->line, text);
}

/* Pass over |text| if it stands here. */
static bool take(parser *p, const char *text)
{
    size_t len = strlen(text);

    if ((size_t)(p->end - p->at) < len || memcmp(p->at, text, len) != 0)
        return false;
    p->at += len;
    return true;
}

static bl_status expect(parser *p, const char *text)
{
    if (take(p, text))
        return BL_OK;
    return text[0] == '\n' ? bad(p, "more fields than the line can have") : bad(p, "expected \"%s\"", text);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static bl_span take_word(parser *p)
{
    bl_span word = {p->at, 0};

    while (p->at < p->end && is_word(*p->at))
        p->at++;
    word.len = (size_t)(p->at - word.data);
    return word;
}

static bl_status take_number(parser *p, uint64_t max, uint64_t *out)
{
    uint64_t n = 0;
    const char *start = p->at;

    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (uint64_t)(*p->at - '0'), &n))
            return bad(p, "a number does not fit 64 bits");
    if (p->at == start)
        return bad(p, "expected a number");
    if (n > max)
        return bad(p, "the number %llu is over %llu", (unsigned long long)n, (unsigned long long)max);
    *out = n;
    return BL_OK;
}

static bl_status take_u32(parser *p, const char *key, uint32_t max, uint32_t *out)
{
    uint64_t n = 0;

    BL_TRY(expect(p, key));
    BL_TRY(take_number(p, max, &n));
    *out = (uint32_t)n;
    return BL_OK;
}

static bl_status take_signed(parser *p, int64_t *out)
{
    bool minus = take(p, "-");
    uint64_t n = 0;

    BL_TRY(take_number(p, (uint64_t)INT64_MAX + (minus ? 1 : 0), &n));
    *out = (int64_t)(minus ? 0 - n : n);
    return BL_OK;
}

/* "float32" or, where |lanes| is wanted, "float32x16". */
static bl_status take_dtype(parser *p, uint8_t *dtype, uint8_t *lanes)
{
    bl_span word = take_word(p);
    size_t len = word.len;
    const char *x = lanes && len ? memrchr(word.data, 'x', len) : NULL;
    uint64_t n = 1;

    if (x != NULL && x + 1 < word.data + len && x[1] >= '1' && x[1] <= '9') {
        len = (size_t)(x - word.data);
        p->at = x + 1;
        BL_TRY(take_number(p, BL_MAX_LANES, &n));
    }
    *dtype = (uint8_t)bl_dtype_from_name(word.data, len);
    if (*dtype >= BL_DTYPE_WIRE)
        return bad(p, "no dtype \"%.*s\"", (int)(len > 40 ? 40 : len), word.data);
    if (lanes != NULL)
        *lanes = (uint8_t)n;
    return BL_OK;
}

static bl_status take_float(parser *p, double *out)
{
    char text[48];
    char *stop = NULL;
    size_t n = 0;

    while (p->at + n < p->end && n < sizeof text - 1 && p->at[n] > ' ' && p->at[n] < 127) {
        text[n] = p->at[n];
        n++;
    }
    text[n] = '\0';
    if (n == 18 && memcmp(text, "0x", 2) == 0) {
        bl_scalar bits = {.u = strtoull(text + 2, &stop, 16)};

        *out = bits.f;
    } else {
        *out = strtod(text, &stop);
    }
    if (n == 0 || *stop != '\0')
        return bad(p, "expected a value");
    p->at += n;
    return BL_OK;
}

static bl_status take_literal(parser *p, bl_inst *in)
{
    bl_dtype_kind kind = bl_dtype_get_kind((bl_dtype)in->dtype);
    bl_scalar value = {.u = 0};

    if (kind == BL_KIND_FLOAT)
        BL_TRY(take_float(p, &value.f));
    else if (kind == BL_KIND_INT)
        BL_TRY(take_signed(p, &value.i));
    else
        BL_TRY(take_number(p, UINT64_MAX, &value.u));
    if (!(kind == BL_KIND_FLOAT && isnan(value.f)) && bl_scalar_fit((bl_dtype)in->dtype, value).u != value.u)
        return bad(p, "%s cannot hold the value", bl_dtype_name((bl_dtype)in->dtype));
    in->arg = value.i;
    return BL_OK;
}

/* ---- what must hold, op by op */

static const bl_inst *operand(const parser *p, const bl_inst *in, uint32_t i)
{
    return &p->linear->inst[in->args[i]];
}

static bool is_index(unsigned dtype)
{
    return dtype == BL_I32 || dtype == BL_I64;
}

static bool lanes_fit(const bl_inst *operand, unsigned lanes)
{
    return operand->lanes == lanes || operand->lanes == 1;
}

/* Results that count something: one lane, an index dtype, and arg below |limit|. */
static bl_status check_count(const parser *p, const bl_inst *in, uint64_t limit)
{
    const char *name = bl_op_name((bl_op)in->op);

    if (in->lanes != 1)
        return bad(p, "%s has %u lanes, not 1", name, in->lanes);
    if (!is_index(in->dtype))
        return bad(p, "%s is %s, not int32 or int64", name, bl_dtype_name((bl_dtype)in->dtype));
    if (in->arg < 0 || (uint64_t)in->arg >= limit)
        return bad(p, "%s number %lld is not below %llu", name, (long long)in->arg, (unsigned long long)limit);
    return BL_OK;
}

static bl_status check_const(parser *p, bl_inst *in)
{
    return in->lanes == 1 ? BL_OK : bad(p, "const has %u lanes, not 1", in->lanes);
}

static bl_status check_var(parser *p, bl_inst *in)
{
    return check_count(p, in, p->linear->nscalars);
}

static bl_status check_id(parser *p, bl_inst *in)
{
    return check_count(p, in, 3);
}

static bl_status check_buffer(parser *p, bl_inst *in)
{
    size_t bytes;

    if (in->lanes != 1)
        return bad(p, "buffer has %u lanes, not 1", in->lanes);
    if (!in->sub) {
        if (in->arg < 0 || in->arg >= p->linear->nbuffers)
            return bad(p, "buffer number %lld is not below %u", (long long)in->arg, p->linear->nbuffers);
        if (in->dtype != p->linear->buffer_dtype[in->arg])
            return bad(p, "buffer %lld is %s in the first line", (long long)in->arg,
                       bl_dtype_name(p->linear->buffer_dtype[in->arg]));
        return BL_OK;
    }
    if (in->arg < 1 || !bl_size_mul((size_t)in->arg, bl_dtype_bytes((bl_dtype)in->dtype), &bytes) ||
        bytes > p->linear->local_bytes - p->local_bytes)
        return bad(p, "local memory of %lld elements: the kernel says %u bytes in all", (long long)in->arg,
                   p->linear->local_bytes);
    p->local_bytes += bytes;
    return BL_OK;
}

/* The dtype that operands of |in| must have, and whether its op means something there. */
static bl_status check_alu_dtype(const parser *p, const bl_inst *in, unsigned dtype)
{
    bl_op op = (bl_op)in->op;
    unsigned flags = bl_op_flags(op);
    bl_dtype_kind kind = bl_dtype_get_kind((bl_dtype)dtype);
    bool fine = true;

    if (flags & BL_OPF_FLOAT)
        fine = kind == BL_KIND_FLOAT;
    else if (flags & BL_OPF_INT)
        fine = kind != BL_KIND_FLOAT && (kind != BL_KIND_BOOL || (flags & BL_OPF_BOOL));
    else if (op == BL_OP_NOT)
        fine = kind != BL_KIND_FLOAT;
    return fine ? BL_OK : bad(p, "%s has no meaning on %s", bl_op_name(op), bl_dtype_name((bl_dtype)dtype));
}

static bl_status check_alu(parser *p, bl_inst *in)
{
    bl_op op = (bl_op)in->op;
    const char *name = bl_op_name(op);
    uint32_t first = op == BL_OP_WHERE ? 1 : 0;
    unsigned dtype = operand(p, in, first)->dtype;
    unsigned result = bl_op_flags(op) & BL_OPF_COMPARE ? BL_BOOL : dtype;

    for (uint32_t i = 0; i < in->nargs; i++)
        if (!lanes_fit(operand(p, in, i), in->lanes))
            return bad(p, "%s of %u lanes has an operand of %u", name, in->lanes, operand(p, in, i)->lanes);
    if (op == BL_OP_CAST)
        return BL_OK;
    if (op == BL_OP_BITCAST)
        return bl_dtype_bytes((bl_dtype)in->dtype) == bl_dtype_bytes((bl_dtype)dtype)
                   ? BL_OK
                   : bad(p, "bitcast from %s to %s", bl_dtype_name((bl_dtype)dtype), bl_dtype_name((bl_dtype)in->dtype));
    if (op == BL_OP_WHERE && operand(p, in, 0)->dtype != BL_BOOL)
        return bad(p, "the condition of where is not bool");
    for (uint32_t i = first; i < in->nargs; i++)
        if (operand(p, in, i)->dtype != dtype)
            return bad(p, "%s has operands of two dtypes", name);
    if (in->dtype != result)
        return bad(p, "%s gives %s here", name, bl_dtype_name((bl_dtype)result));
    return check_alu_dtype(p, in, dtype);
}

/* Buffer, index and gate (if there are more than |values| operands) of a LOAD or STORE of |in->lanes|. */
static bl_status check_access(const parser *p, const bl_inst *in, uint32_t values)
{
    const bl_inst *index = operand(p, in, 1);

    if (!is_index(index->dtype))
        return bad(p, "the index is %s, not int32 or int64", bl_dtype_name((bl_dtype)index->dtype));
    if (!lanes_fit(index, in->lanes))
        return bad(p, "%u indices for %u lanes", index->lanes, in->lanes);
    if (in->dtype != operand(p, in, 0)->dtype)
        return bad(p, "the value and the buffer differ in dtype");
    if (in->nargs > values) {
        const bl_inst *gate = operand(p, in, values);

        if (gate->dtype != BL_BOOL || !lanes_fit(gate, in->lanes))
            return bad(p, "the gate is no bool of 1 or %u lanes", in->lanes);
    }
    return BL_OK;
}

static bl_status check_load(parser *p, bl_inst *in)
{
    return check_access(p, in, 2);
}

static bl_status check_store(parser *p, bl_inst *in)
{
    const bl_inst *buffer = operand(p, in, 0), *index = operand(p, in, 1), *value = operand(p, in, 2);

    in->dtype = value->dtype;
    in->lanes = value->lanes > 1 ? value->lanes : index->lanes;
    if (!buffer->sub)
        p->stored |= 1u << buffer->arg;
    return check_access(p, in, 3);
}

static bl_status check_lane(parser *p, bl_inst *in)
{
    return is_index(in->dtype) ? BL_OK : bad(p, "lane is %s, not int32 or int64", bl_dtype_name((bl_dtype)in->dtype));
}

static bl_status check_stack(parser *p, bl_inst *in)
{
    if (in->nargs != in->lanes)
        return bad(p, "a stack of %u lanes has %u operands", in->lanes, in->nargs);
    for (uint32_t i = 0; i < in->nargs; i++)
        if (operand(p, in, i)->lanes != 1 || operand(p, in, i)->dtype != in->dtype)
            return bad(p, "operand %u of stack is no single %s", i, bl_dtype_name((bl_dtype)in->dtype));
    return BL_OK;
}

static bl_status check_fold(parser *p, bl_inst *in)
{
    bl_op fold = (bl_op)in->sub;

    if (fold != BL_OP_ADD && fold != BL_OP_MUL && fold != BL_OP_MAX && fold != BL_OP_MIN)
        return bad(p, "no fold by %s", bl_op_name(fold));
    if (in->lanes != 1 || operand(p, in, 0)->dtype != in->dtype)
        return bad(p, "fold gives a single %s here", bl_dtype_name((bl_dtype)operand(p, in, 0)->dtype));
    return BL_OK;
}

static bl_status check_loop(parser *p, bl_inst *in)
{
    uint32_t number = (uint32_t)(in - p->linear->inst);

    BL_TRY(check_count(p, in, 1));
    if (operand(p, in, 0)->lanes != 1 || operand(p, in, 0)->dtype != in->dtype)
        return bad(p, "the end of the loop is no single %s", bl_dtype_name((bl_dtype)in->dtype));
    if (p->depth == BL_LINEAR_MAX_DEPTH)
        return bad(p, "loops are nested more than %d deep", BL_LINEAR_MAX_DEPTH);
    p->loop[p->depth++] = number;
    p->open[number] = true;
    p->scope[number] = number + 1; /* the counter is seen inside only */
    return BL_OK;
}

static bl_status check_end(parser *p, bl_inst *in)
{
    (void)in;
    if (p->depth == 0)
        return bad(p, "end without loop");
    p->open[p->loop[--p->depth]] = false;
    return BL_OK;
}

static bl_status check_acc(parser *p, bl_inst *in)
{
    if (operand(p, in, 0)->dtype != in->dtype || !lanes_fit(operand(p, in, 0), in->lanes))
        return bad(p, "the variable and what it starts at differ in dtype or lanes");
    return BL_OK;
}

static bl_status check_set(parser *p, bl_inst *in)
{
    const bl_inst *variable = operand(p, in, 0), *value = operand(p, in, 1);

    if (variable->op != BL_OP_ACC)
        return bad(p, "set of what is no acc");
    in->dtype = variable->dtype;
    in->lanes = variable->lanes;
    if (value->dtype != in->dtype || !lanes_fit(value, in->lanes))
        return bad(p, "the variable and its new value differ in dtype or lanes");
    return BL_OK;
}

static bl_status check_barrier(parser *p, bl_inst *in)
{
    (void)p;
    (void)in;
    return BL_OK;
}

static const form forms[BL_OP_COUNT] = {
    [BL_OP_CONST] = {0, 0, HAS_VALUE | HAS_LITERAL, check_const},
    [BL_OP_VAR] = {0, 0, HAS_VALUE | HAS_ARG, check_var},
    [BL_OP_BUFFER] = {0, 0, HAS_VALUE | HAS_ARG | HAS_SUB, check_buffer},
    [BL_OP_GROUP_ID] = {0, 0, HAS_VALUE | HAS_ARG, check_id},
    [BL_OP_LOCAL_ID] = {0, 0, HAS_VALUE | HAS_ARG, check_id},
    [BL_OP_LOAD] = {2, 3, HAS_VALUE, check_load},
    [BL_OP_STORE] = {3, 4, 0, check_store},
    [BL_OP_LANE] = {0, 0, HAS_VALUE, check_lane},
    [BL_OP_STACK] = {1, BL_MAX_LANES, HAS_VALUE, check_stack},
    [BL_OP_FOLD] = {1, 1, HAS_VALUE | HAS_SUB, check_fold},
    [BL_OP_LOOP] = {1, 1, HAS_VALUE, check_loop},
    [BL_OP_END] = {0, 0, 0, check_end},
    [BL_OP_ACC] = {1, 1, HAS_VALUE, check_acc},
    [BL_OP_SET] = {2, 2, 0, check_set},
    [BL_OP_BARRIER] = {0, 0, 0, check_barrier},
};

static form form_of(bl_op op)
{
    static const int8_t sources[BL_OP_COUNT] = {
#define BL_OP(ID, id, nsrc, cls, flags, grad, doc) [BL_OP_##ID] = nsrc,
#include "engine/ir/ops.def"
#undef BL_OP
    };
    uint8_t n = (uint8_t)sources[op];

    return bl_op_get_class(op) == BL_CLASS_ALU ? (form){n, n, HAS_VALUE, check_alu} : forms[op];
}

/* ---- lines */

static bl_status take_name(parser *p)
{
    bl_span name = take_word(p);

    if (name.len == 0 || name.len > BL_LINEAR_MAX_NAME)
        return bad(p, "a kernel's name is 1 to %d of a-z, 0-9 and _", BL_LINEAR_MAX_NAME);
    p->linear->name = bl_arena_strndup(p->arena, name.data, name.len);
    return BL_OK;
}

static bl_status take_buffers(parser *p)
{
    bl_dtype *dtype = bl_arena_array(p->arena, BL_LINEAR_MAX_BUFFERS, sizeof *dtype);

    BL_TRY(bl_arena_status(p->arena, p->err));
    p->linear->buffer_dtype = dtype;
    BL_TRY(expect(p, " buffers="));
    if (p->at < p->end && *p->at == ' ')
        return BL_OK;
    do {
        uint8_t one = 0;

        if (p->linear->nbuffers == BL_LINEAR_MAX_BUFFERS)
            return bad(p, "more than %d buffers", BL_LINEAR_MAX_BUFFERS);
        BL_TRY(take_dtype(p, &one, NULL));
        dtype[p->linear->nbuffers++] = (bl_dtype)one;
    } while (take(p, ","));
    return BL_OK;
}

static bl_status take_header(parser *p)
{
    static const char *const keys[3] = {" local=", ",", ","};
    bl_linear *linear = p->linear;
    uint32_t items = 1;

    BL_TRY(expect(p, "linear "));
    BL_TRY(take_name(p));
    BL_TRY(take_buffers(p));
    BL_TRY(take_u32(p, " writes=", UINT32_MAX, &linear->writes));
    if (linear->nbuffers < 32 && linear->writes >> linear->nbuffers)
        return bad(p, "writes=%u names buffers that are not there", linear->writes);
    BL_TRY(take_u32(p, " scalars=", BL_LINEAR_MAX_SCALARS, &linear->nscalars));
    for (int i = 0; i < 3; i++) {
        BL_TRY(take_u32(p, keys[i], BL_LINEAR_MAX_LOCAL, &linear->local[i]));
        if (linear->local[i] == 0 || linear->local[i] > BL_LINEAR_MAX_LOCAL / items)
            return bad(p, "a group has 1 to %d work-items", BL_LINEAR_MAX_LOCAL);
        items *= linear->local[i];
    }
    BL_TRY(take_u32(p, " localbytes=", UINT32_MAX, &linear->local_bytes));
    return expect(p, "\n");
}

/* One operand of instruction |number|: made before it, in an enclosing loop, and of a kind that it can use. */
static bl_status take_operand(parser *p, const bl_inst *in, uint32_t number, uint32_t *out)
{
    bool memory = (in->op == BL_OP_LOAD || in->op == BL_OP_STORE) && in->nargs == 0;
    const bl_inst *from;
    uint64_t n = 0;

    BL_TRY(take_number(p, UINT32_MAX, &n));
    if (n >= number)
        return bad(p, "operand %%%llu is not made before", (unsigned long long)n);
    from = &p->linear->inst[n];
    if (!(form_of((bl_op)from->op).has & HAS_VALUE))
        return bad(p, "operand %%%llu, a %s, has no value", (unsigned long long)n, bl_op_name((bl_op)from->op));
    if ((from->op == BL_OP_BUFFER) != memory)
        return bad(p, memory ? "operand %%%llu is no buffer" : "operand %%%llu is a buffer", (unsigned long long)n);
    if (p->scope[n] && !p->open[p->scope[n] - 1])
        return bad(p, "operand %%%llu was made in a loop that has ended", (unsigned long long)n);
    *out = (uint32_t)n;
    return BL_OK;
}

static bl_status take_operands(parser *p, const form *row, uint32_t number, bl_inst *in)
{
    uint32_t args[BL_MAX_LANES];
    uint32_t *copy;

    while (take(p, " %")) {
        if (in->nargs == row->max_args)
            return bad(p, "%s has more than %u operands", bl_op_name((bl_op)in->op), row->max_args);
        BL_TRY(take_operand(p, in, number, &args[in->nargs]));
        in->nargs++;
    }
    if (in->nargs < row->min_args)
        return bad(p, "%s has fewer than %u operands", bl_op_name((bl_op)in->op), row->min_args);
    copy = bl_arena_array(p->arena, in->nargs, sizeof *copy);
    BL_TRY(bl_arena_status(p->arena, p->err));
    memcpy(copy, args, in->nargs * sizeof *copy);
    in->args = copy;
    return BL_OK;
}

static bl_status take_sub(parser *p, bl_inst *in)
{
    bl_span word;
    bl_op op;

    if (in->op == BL_OP_BUFFER) {
        in->sub = take(p, " sub=local");
        return BL_OK;
    }
    BL_TRY(expect(p, " sub="));
    word = take_word(p);
    op = bl_op_from_name(word.data, word.len);
    if (op == BL_OP_COUNT)
        return bad(p, "no op to fold by");
    in->sub = (uint8_t)op;
    return BL_OK;
}

static bl_status take_inst(parser *p, uint32_t number)
{
    bl_inst *in = &p->linear->inst[number];
    uint64_t said = 0;
    bl_span name;
    bl_op op;
    form row;

    BL_TRY(take_number(p, UINT32_MAX, &said));
    if (said != number)
        return bad(p, "instruction %u is numbered %llu", number, (unsigned long long)said);
    BL_TRY(expect(p, " "));
    name = take_word(p);
    op = bl_op_from_name(name.data, name.len);
    if (op == BL_OP_COUNT || form_of(op).check == NULL)
        return bad(p, "no instruction \"%.*s\"", (int)(name.len > 40 ? 40 : name.len), name.data);
    row = form_of(op);
    in->op = (uint8_t)op;
    in->lanes = 1;
    p->scope[number] = p->depth ? p->loop[p->depth - 1] + 1 : 0;
    if (row.has & HAS_VALUE) {
        BL_TRY(expect(p, " "));
        BL_TRY(take_dtype(p, &in->dtype, &in->lanes));
    }
    BL_TRY(take_operands(p, &row, number, in));
    if (row.has & HAS_SUB)
        BL_TRY(take_sub(p, in));
    if (row.has & HAS_ARG) {
        BL_TRY(expect(p, " arg="));
        BL_TRY(take_signed(p, &in->arg));
    }
    if (row.has & HAS_LITERAL) {
        BL_TRY(expect(p, " "));
        BL_TRY(take_literal(p, in));
    }
    BL_TRY(row.check(p, in));
    return expect(p, "\n");
}

/* As many instructions as there are lines after the first. */
static bl_status make_room(parser *p)
{
    size_t lines = 0;

    for (const char *c = p->at; c < p->end; c++)
        lines += *c == '\n';
    if (lines > BL_LINEAR_MAX_INST)
        return bl_fail(p->err, BL_ELIMIT, "a linear kernel of %zu instructions, limit %d", lines, BL_LINEAR_MAX_INST);
    p->linear->inst = bl_arena_array(p->arena, lines, sizeof *p->linear->inst);
    p->scope = bl_arena_array(p->arena, lines, sizeof *p->scope);
    p->open = bl_arena_array(p->arena, lines, sizeof *p->open);
    p->linear->ninst = (uint32_t)lines;
    return bl_arena_status(p->arena, p->err);
}

bl_status bl_linear_parse(bl_arena *arena, const char *text, size_t len, bl_linear **out, bl_err *err)
{
    parser p = {.at = text, .end = text + len, .line = 1, .arena = arena, .err = err};

    *out = NULL;
    p.linear = bl_arena_alloc(arena, sizeof *p.linear);
    BL_TRY(bl_arena_status(arena, err));
    BL_TRY(take_header(&p));
    BL_TRY(make_room(&p));
    for (uint32_t i = 0; i < p.linear->ninst; i++) {
        p.line++;
        BL_TRY(take_inst(&p, i));
    }
    p.line++;
    if (p.at < p.end)
        return bad(&p, "no newline at the end");
    if (p.depth)
        return bad(&p, "%u loops have no end", p.depth);
    if (p.stored != p.linear->writes)
        return bad(&p, "writes=%u, but the stores make it %u", p.linear->writes, p.stored);
    BL_TRY(bl_arena_status(arena, err));
    *out = p.linear;
    return BL_OK;
}
