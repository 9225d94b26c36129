/* SPDX-License-Identifier: MIT */
#include "tests/lower/read_linear.h"

#include "engine/ir/matrix_unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    const char *at, *end;
    unsigned line;
    bl_arena *arena;
    bl_linear *linear;
    bl_err *err;
} parser;

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

/* Skips |text| if it is next. */
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

/* Reads "float32" or, with |lanes|, "float32x16". */
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
    in->arg = value.i;
    return BL_OK;
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

    BL_TRY(expect(p, "linear "));
    BL_TRY(take_name(p));
    BL_TRY(take_buffers(p));
    BL_TRY(take_u32(p, " writes=", UINT32_MAX, &linear->writes));
    BL_TRY(take_u32(p, " scalars=", BL_LINEAR_MAX_SCALARS, &linear->nscalars));
    for (int i = 0; i < 3; i++)
        BL_TRY(take_u32(p, keys[i], BL_LINEAR_MAX_LOCAL, &linear->local[i]));
    BL_TRY(take_u32(p, " localbytes=", UINT32_MAX, &linear->local_bytes));
    return expect(p, "\n");
}

static bl_status take_operands(parser *p, bl_inst *in)
{
    uint32_t args[BL_MAX_LANES];
    uint32_t *copy;

    while (take(p, " %")) {
        uint64_t n = 0;

        if (in->nargs == BL_MAX_LANES)
            return bad(p, "%s has more than %d operands", bl_op_name((bl_op)in->op), BL_MAX_LANES);
        BL_TRY(take_number(p, UINT32_MAX, &n));
        args[in->nargs++] = (uint32_t)n;
    }
    copy = bl_arena_array(p->arena, in->nargs, sizeof *copy);
    BL_TRY(bl_arena_status(p->arena, p->err));
    memcpy(copy, args, in->nargs * sizeof *copy);
    in->args = copy;
    return BL_OK;
}

static bl_op op_of(bl_span name)
{
    for (int op = 0; op < BL_OP_COUNT; op++)
        if (bl_span_is(name, bl_op_name((bl_op)op)))
            return (bl_op)op;
    return BL_OP_COUNT;
}

/* Sets the lanes of STORE and SET from their operands, if the operands exist. */
static void take_after(const parser *p, bl_inst *in, uint32_t number, uint32_t operand)
{
    if (in->nargs > operand && in->args[operand] < number) {
        in->dtype = p->linear->inst[in->args[operand]].dtype;
        in->lanes = in->op == BL_OP_SET ? p->linear->inst[in->args[operand]].lanes : 1;
    }
}

static bl_status take_sub(parser *p, bl_inst *in)
{
    bl_span word;
    bl_op op;

    BL_TRY(expect(p, " sub="));
    word = take_word(p);
    op = op_of(word);
    if (op == BL_OP_COUNT)
        return bad(p, "no op to fold by");
    in->sub = (uint8_t)op;
    return BL_OK;
}

/* Reads the layout and the shape of a FRAGMENT_LOAD. */
static bl_status take_shape(parser *p, bl_inst *in)
{
    char text[64] = "";
    size_t len = 0;
    bl_matrix shape = {0};
    uint32_t layout = 0;

    if (in->op == BL_OP_FRAGMENT_LOAD)
        BL_TRY(take_u32(p, " layout=", UINT8_MAX, &layout));
    in->sub = (uint8_t)layout;
    BL_TRY(expect(p, " shape="));
    while (len + 1 < sizeof text && p->at + len < p->end && p->at[len] != '\n')
        len++;
    memcpy(text, p->at, len);
    if (bl_matrix_parse(text, &shape) != (int)len)
        return bad(p, "expected the shape of a matrix unit");
    p->at += len;
    in->arg = bl_matrix_pack(shape);
    if (in->op == BL_OP_MATRIX_ADD || in->op == BL_OP_FRAGMENT_STORE)
        in->dtype = shape.to;
    return BL_OK;
}

static bool is_of_fragments(bl_op op)
{
    return op == BL_OP_FRAGMENT || op == BL_OP_FRAGMENT_LOAD || op == BL_OP_MATRIX_ADD || op == BL_OP_FRAGMENT_STORE;
}

static bl_status take_inst(parser *p, uint32_t number)
{
    bl_inst *in = &p->linear->inst[number];
    uint64_t said = 0;
    bl_span name;
    bl_op op;

    BL_TRY(take_number(p, UINT32_MAX, &said));
    if (said != number)
        return bad(p, "instruction %u is numbered %llu", number, (unsigned long long)said);
    BL_TRY(expect(p, " "));
    name = take_word(p);
    op = op_of(name);
    if (op == BL_OP_COUNT)
        return bad(p, "no instruction \"%.*s\"", (int)(name.len > 40 ? 40 : name.len), name.data);
    in->op = (uint8_t)op;
    in->lanes = 1;
    if (op != BL_OP_SET && op != BL_OP_END && op != BL_OP_BARRIER && op != BL_OP_MATRIX_ADD && op != BL_OP_FRAGMENT_STORE &&
        (op != BL_OP_STORE || p->at + 1 >= p->end || p->at[1] != '%')) {
        BL_TRY(expect(p, " "));
        BL_TRY(take_dtype(p, &in->dtype, &in->lanes));
    }
    BL_TRY(take_operands(p, in));
    if (op == BL_OP_SET || (op == BL_OP_STORE && in->lanes == 1))
        take_after(p, in, number, op == BL_OP_SET ? 0 : 2);
    if (op == BL_OP_BUFFER)
        in->sub = take(p, " sub=local") ? BL_LOCAL : take(p, " sub=narrow") ? BL_LOCAL_NARROW : BL_PARAM;
    if (op == BL_OP_FOLD)
        BL_TRY(take_sub(p, in));
    if (op == BL_OP_VAR || op == BL_OP_BUFFER || op == BL_OP_GROUP_ID || op == BL_OP_LOCAL_ID || op == BL_OP_EXTRACT) {
        BL_TRY(expect(p, " arg="));
        BL_TRY(take_signed(p, &in->arg));
    }
    if (is_of_fragments(op))
        BL_TRY(take_shape(p, in));
    if (op == BL_OP_CONST) {
        BL_TRY(expect(p, " "));
        BL_TRY(take_literal(p, in));
    }
    return expect(p, "\n");
}

/* Allocates an instruction for each line after the first. */
static bl_status make_room(parser *p)
{
    size_t lines = 0;

    for (const char *c = p->at; c < p->end; c++)
        lines += *c == '\n';
    if (lines > BL_LINEAR_MAX_INST)
        return bl_fail(p->err, BL_ELIMIT, "a linear kernel of %zu instructions, limit %d", lines, BL_LINEAR_MAX_INST);
    p->linear->inst = bl_arena_array(p->arena, lines, sizeof *p->linear->inst);
    p->linear->ninst = (uint32_t)lines;
    return bl_arena_status(p->arena, p->err);
}

bl_status read_linear(bl_arena *arena, const char *text, size_t len, bl_linear **out, bl_err *err)
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
    BL_TRY(bl_linear_check(arena, p.linear, err));
    *out = p.linear;
    return BL_OK;
}
