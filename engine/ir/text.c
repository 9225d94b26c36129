/* SPDX-License-Identifier: MIT */
#include "engine/ir/text.h"

#include "engine/ir/private.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const axis_kinds[] = {"global", "local", "loop", "reduce", "tile", "vector", "group"};
enum { N_AXIS_KINDS = sizeof axis_kinds / sizeof axis_kinds[0] };

/* ---- printing */

static bool has_fold(unsigned op)
{
    return op == BL_OP_REDUCE || op == BL_OP_FOLD;
}

static bool always_has_arg(unsigned op)
{
    return op == BL_OP_INPUT || op == BL_OP_BOUND || op == BL_OP_SCAN || op == BL_OP_RESULT || op == BL_OP_VAR ||
           op == BL_OP_RANGE || op == BL_OP_BUFFER;
}

static void print_value(const bl_node *node, bl_text *out)
{
    bl_scalar value = bl_const_value(node);

    switch (bl_dtype_get_kind((bl_dtype)node->dtype)) {
    case BL_KIND_FLOAT:
        if (isnan(value.f))
            bl_text_puts(out, " nan");
        else
            bl_text_printf(out, " %.17g", value.f); /* 17 digits tell every double apart */
        return;
    case BL_KIND_UINT:
    case BL_KIND_BOOL:
        bl_text_printf(out, " %" PRIu64, value.u);
        return;
    case BL_KIND_INT:
        bl_text_printf(out, " %" PRId64, value.i);
    }
}

static void print_node(const bl_node *node, const uint32_t *number, bl_text *out)
{
    bl_text_printf(out, "%%%u = %s %s", (unsigned)number[node->id], bl_op_name((bl_op)node->op),
                   bl_dtype_name((bl_dtype)node->dtype));
    if (node->lanes > 1)
        bl_text_printf(out, "x%d", node->lanes);
    for (int i = 0; i < node->ndim; i++) {
        bl_text_puts(out, i == 0 ? "[" : ", ");
        if (bl_is_const(node->dim[i]))
            bl_text_printf(out, "%" PRId64, node->dim[i]->arg);
        else
            bl_text_printf(out, "%%%u", (unsigned)number[node->dim[i]->id]);
    }
    bl_text_puts(out, node->ndim > 0 ? "]" : "");
    for (uint32_t i = 0; i < node->nsrc; i++)
        bl_text_printf(out, " %%%u", (unsigned)number[node->src[i]->id]);
    if (node->op == BL_OP_CONST) {
        print_value(node, out);
    } else {
        if (has_fold(node->op))
            bl_text_printf(out, " sub=%s", bl_op_name((bl_op)node->sub));
        else if (node->op == BL_OP_RANGE && node->sub < N_AXIS_KINDS)
            bl_text_printf(out, " sub=%s", axis_kinds[node->sub]);
        else if (node->sub != 0)
            bl_text_printf(out, " sub=%d", node->sub);
        if (always_has_arg(node->op) || node->arg != 0)
            bl_text_printf(out, " arg=%" PRId64, node->arg);
        if (node->op == BL_OP_VAR)
            bl_text_printf(out, " lo=%" PRId64 " hi=%" PRId64, node->lo, node->hi);
    }
    bl_text_putc(out, '\n');
}

/* A node still to be printed after its |next|-th and later operands. */
typedef struct pending {
    const bl_node *node;
    uint32_t next;
} pending;

/* The operand that must stand before |node|: sources, then extents that are not plain numbers.  NULL past the last. */
static const bl_node *operand_at(const bl_node *node, uint32_t i, bool *skip)
{
    *skip = false;
    if (i < node->nsrc)
        return node->src[i];
    if (i - node->nsrc >= node->ndim)
        return NULL;
    *skip = bl_is_const(node->dim[i - node->nsrc]);
    return node->dim[i - node->nsrc];
}

/* Depth first from each root, so that the order depends on the graph only, not on ids: what is parsed prints alike. */
void bl_ir_print(bl_ir *ir, int nroots, const bl_node *const *roots, bl_text *out)
{
    size_t reachable = bl_reach(ir, nroots, roots, true).count;
    uint32_t *number = bl_arena_array(ir->arena, ir->count, sizeof *number);
    bool *seen = bl_arena_array(ir->arena, ir->count, sizeof *seen);
    pending *stack = bl_arena_array(ir->arena, reachable + 1, sizeof *stack);
    uint32_t lines = 0;

    if (number == NULL || seen == NULL || stack == NULL) {
        out->failed = true;
        return;
    }
    for (int r = 0; r < nroots; r++) {
        size_t depth = 0;
        if (seen[roots[r]->id])
            continue;
        seen[roots[r]->id] = true;
        stack[depth++] = (pending){roots[r], 0};
        while (depth > 0) {
            pending *top = &stack[depth - 1];
            bool skip = false;
            const bl_node *operand = operand_at(top->node, top->next++, &skip);
            if (operand == NULL) {
                number[top->node->id] = lines++;
                print_node(top->node, number, out);
                depth--;
            } else if (!skip && !seen[operand->id]) {
                seen[operand->id] = true;
                stack[depth++] = (pending){operand, 0};
            }
        }
    }
}

/* ---- parsing */

enum { MAX_NODES = 1 << 20, MAX_WORD = 64 };

typedef struct parser {
    bl_ir *ir;
    const char *at;
    int line;
    const bl_node **nodes; /* by number */
    size_t count, cap;
    bl_err *err;
} parser;

#define BAD(p, ...) bl_fail((p)->err, BL_EINVAL, "line %d: " __VA_ARGS__)

static void skip_blanks(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')
        p->at++;
}

static bool at_end_of_line(parser *p)
{
    skip_blanks(p);
    return *p->at == '\0' || *p->at == '\n' || *p->at == '#';
}

/* The letters, digits and signs that come next; empty if too long. */
static void take_word(parser *p, char word[MAX_WORD])
{
    size_t n = strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.");

    word[0] = '\0';
    if (n < MAX_WORD) {
        memcpy(word, p->at, n);
        word[n] = '\0';
    }
    p->at += n;
}

static bool to_int(const char *word, int64_t *value)
{
    char *end = NULL;

    errno = 0;
    *value = strtoll(word, &end, 10);
    return end != word && *end == '\0' && errno == 0;
}

static bl_status take_int(parser *p, int64_t *value)
{
    char word[MAX_WORD];

    take_word(p, word);
    return to_int(word, value) ? BL_OK : BAD(p, "expected a number", p->line);
}

/* "%12": a line above. */
static bl_status take_reference(parser *p, const bl_node **node)
{
    int64_t number = 0;

    p->at++;
    BL_TRY(take_int(p, &number));
    if (number < 0 || (uint64_t)number >= p->count)
        return BAD(p, "%%%lld is not above", p->line, (long long)number);
    *node = p->nodes[number];
    return BL_OK;
}

/* "float32x16" */
static bl_status take_type(parser *p, bl_node *proto)
{
    char word[MAX_WORD];
    int64_t lanes = 1;
    bl_dtype dtype = BL_DTYPE_COUNT;
    char *x = NULL;

    skip_blanks(p);
    take_word(p, word);
    if (strncmp(word, "index", 5) == 0) { /* its name ends in an x */
        dtype = BL_INDEX;
        if (word[5] != '\0' && (word[5] != 'x' || !to_int(word + 6, &lanes)))
            return BAD(p, "expected a dtype", p->line);
    } else {
        x = strchr(word, 'x');
        if (x != NULL && !to_int(x + 1, &lanes))
            return BAD(p, "expected lanes", p->line);
        dtype = bl_dtype_from_name(word, x != NULL ? (size_t)(x - word) : strlen(word));
    }
    if (dtype == BL_DTYPE_COUNT || lanes < 1 || lanes > BL_MAX_LANES)
        return BAD(p, "expected a dtype", p->line);
    proto->dtype = (uint8_t)dtype;
    proto->lanes = (uint8_t)lanes;
    return BL_OK;
}

static bl_status take_shape(parser *p, bl_node *proto, const bl_node **dim)
{
    int64_t extent = 0;

    if (*p->at != '[')
        return BL_OK;
    do {
        p->at++;
        skip_blanks(p);
        if (proto->ndim == BL_MAX_DIMS)
            return BAD(p, "too many dimensions", p->line);
        if (*p->at == '%') {
            BL_TRY(take_reference(p, &dim[proto->ndim++]));
        } else {
            BL_TRY(take_int(p, &extent));
            dim[proto->ndim++] = bl_index(p->ir, extent);
        }
        skip_blanks(p);
    } while (*p->at == ',');
    if (*p->at != ']')
        return BAD(p, "expected ]", p->line);
    p->at++;
    return BL_OK;
}

static bl_status take_sources(parser *p, bl_node *proto)
{
    size_t room = 0;
    const bl_node **src = NULL;

    for (const char *c = p->at; *c != '\0' && *c != '\n' && *c != '#'; c++)
        room += *c == '%';
    src = bl_arena_array(p->ir->arena, room, sizeof *src);
    if (src == NULL)
        return bl_arena_status(p->ir->arena, p->err);
    skip_blanks(p);
    while (*p->at == '%') {
        BL_TRY(take_reference(p, &src[proto->nsrc]));
        proto->nsrc++;
        skip_blanks(p);
    }
    proto->src = src;
    return BL_OK;
}

static bl_status take_value(parser *p, bl_node *proto)
{
    char word[MAX_WORD];
    char *end = NULL;
    bl_dtype dtype = (bl_dtype)proto->dtype;
    bl_scalar value = {.u = 0};

    take_word(p, word);
    errno = 0;
    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        value.f = strtod(word, &end);
        errno = errno == ERANGE ? 0 : errno; /* a subnormal, or infinite after rounding */
        if (isnan(value.f))
            value.f = NAN;
        break;
    case BL_KIND_INT:
        value.i = strtoll(word, &end, 10);
        break;
    case BL_KIND_UINT:
    case BL_KIND_BOOL:
        if (word[0] == '-')
            return BAD(p, "a negative %s", p->line, bl_dtype_name(dtype));
        value.u = strtoull(word, &end, 10);
        break;
    }
    if (word[0] == '\0' || *end != '\0' || errno != 0)
        return BAD(p, "expected a value", p->line);
    if (!bl_dtype_is_float(dtype) && bl_scalar_fit(dtype, value).u != value.u)
        return BAD(p, "%s cannot hold %s", p->line, bl_dtype_name(dtype), word);
    proto->arg = bl_scalar_fit(dtype, value).i;
    return BL_OK;
}

static bl_status take_sub(parser *p, bl_node *proto)
{
    char word[MAX_WORD];
    int64_t value = 0;

    take_word(p, word);
    if (has_fold(proto->op)) {
        bl_op op = bl_op_from_name(word, strlen(word));
        if (op == BL_OP_COUNT)
            return BAD(p, "no op \"%s\"", p->line, word);
        proto->sub = (uint8_t)op;
        return BL_OK;
    }
    for (unsigned i = 0; proto->op == BL_OP_RANGE && i < N_AXIS_KINDS; i++) {
        if (strcmp(word, axis_kinds[i]) == 0) {
            proto->sub = (uint8_t)i;
            return BL_OK;
        }
    }
    if (!to_int(word, &value) || value < 0 || value > UINT8_MAX)
        return BAD(p, "sub=%s", p->line, word);
    proto->sub = (uint8_t)value;
    return BL_OK;
}

static bl_status take_attributes(parser *p, bl_node *proto)
{
    while (!at_end_of_line(p)) {
        char word[MAX_WORD];

        take_word(p, word);
        if (*p->at != '=')
            return BAD(p, "expected name=value", p->line);
        p->at++;
        if (strcmp(word, "sub") == 0)
            BL_TRY(take_sub(p, proto));
        else if (strcmp(word, "arg") == 0)
            BL_TRY(take_int(p, &proto->arg));
        else if (strcmp(word, "lo") == 0 && proto->op == BL_OP_VAR)
            BL_TRY(take_int(p, &proto->lo));
        else if (strcmp(word, "hi") == 0 && proto->op == BL_OP_VAR)
            BL_TRY(take_int(p, &proto->hi));
        else
            return BAD(p, "no attribute \"%s\"", p->line, word);
    }
    return BL_OK;
}

static bl_status keep_node(parser *p, const bl_node *node)
{
    if (p->count == p->cap) {
        size_t cap = p->cap == 0 ? 64 : p->cap * 2;
        const bl_node **nodes = bl_arena_array(p->ir->arena, cap, sizeof *nodes);
        if (nodes == NULL)
            return bl_arena_status(p->ir->arena, p->err);
        if (p->count > 0)
            memcpy(nodes, p->nodes, p->count * sizeof *nodes);
        p->nodes = nodes;
        p->cap = cap;
    }
    if (p->count == MAX_NODES)
        return BAD(p, "too many nodes", p->line);
    p->nodes[p->count++] = node;
    return BL_OK;
}

/* "%3 = op type operands attributes" */
static bl_status take_line(parser *p)
{
    char word[MAX_WORD];
    const bl_node *dim[BL_MAX_DIMS];
    bl_node proto = {.dim = dim};
    const bl_node *node = NULL;
    const char *wrong = NULL;
    int64_t number = 0;
    bl_op op = BL_OP_COUNT;

    if (*p->at != '%')
        return BAD(p, "expected %%%zu", p->line, p->count);
    p->at++;
    BL_TRY(take_int(p, &number));
    skip_blanks(p);
    if (number != (int64_t)p->count || *p->at != '=')
        return BAD(p, "expected %%%zu =", p->line, p->count);
    p->at++;
    skip_blanks(p);
    take_word(p, word);
    op = bl_op_from_name(word, strlen(word));
    if (op == BL_OP_COUNT)
        return BAD(p, "no op \"%s\"", p->line, word);
    proto.op = (uint8_t)op;
    BL_TRY(take_type(p, &proto));
    BL_TRY(take_shape(p, &proto, dim));
    BL_TRY(take_sources(p, &proto));
    if (op == BL_OP_CONST)
        BL_TRY(take_value(p, &proto));
    BL_TRY(take_attributes(p, &proto));
    /* What is read is checked before it is a node, for bounds are computed from its operands. */
    proto.id = UINT32_MAX;
    wrong = bl_node_check(p->ir, &proto, 1);
    if (wrong != NULL)
        return BAD(p, "%s: %s", p->line, bl_op_name(op), wrong);
    node = bl_node_make(p->ir, &proto);
    BL_TRY(bl_ir_status(p->ir, p->err));
    wrong = bl_node_check(p->ir, node, 2);
    if (wrong != NULL)
        return BAD(p, "%s: %s", p->line, bl_op_name(op), wrong);
    return keep_node(p, node);
}

static bl_status find_roots(const parser *p, int max_roots, const bl_node **roots, int *nroots)
{
    bool *used = bl_arena_array(p->ir->arena, p->ir->count, sizeof *used);

    if (used == NULL)
        return bl_arena_status(p->ir->arena, p->err);
    for (size_t i = 0; i < p->count; i++) {
        for (uint32_t k = 0; k < p->nodes[i]->nsrc; k++)
            used[p->nodes[i]->src[k]->id] = true;
        for (int k = 0; k < p->nodes[i]->ndim; k++)
            used[p->nodes[i]->dim[k]->id] = true;
    }
    for (size_t i = 0; i < p->count; i++) {
        if (used[p->nodes[i]->id])
            continue;
        if (*nroots == max_roots)
            return bl_fail(p->err, BL_EINVAL, "more than %d nodes are used by no other", max_roots);
        used[p->nodes[i]->id] = true; /* written twice, it is still one */
        roots[(*nroots)++] = p->nodes[i];
    }
    return BL_OK;
}

bl_status bl_ir_parse(bl_ir *ir, const char *text, int max_roots, const bl_node **roots, int *nroots, bl_err *err)
{
    parser p = {.ir = ir, .at = text, .line = 1, .err = err};

    *nroots = 0;
    while (*p.at != '\0') {
        if (!at_end_of_line(&p))
            BL_TRY(take_line(&p));
        p.at += strcspn(p.at, "\n");
        if (*p.at == '\n') {
            p.at++;
            p.line++;
        }
    }
    return find_roots(&p, max_roots, roots, nroots);
}
