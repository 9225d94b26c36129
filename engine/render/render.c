/* SPDX-License-Identifier: MIT */
/* The walker: writes one statement per instruction. Literals and short index arithmetic are written in place instead. */
#include "engine/render/render.h"

#include "engine/ir/stage.h"
#include "engine/render/anchor.h"
#include "engine/render/cold.h"
#include "engine/render/copied.h"
#include "engine/render/dialect.h"
#include "engine/render/unit.h"

#include <inttypes.h>
#include <string.h>

/* Most bytes of index arithmetic that is written in place: INLINE_MOST if the value is used once, INLINE_AGAIN if it is used
 * several times, since a compiler parses every copy. */
enum { INLINE_MOST = 96, INLINE_AGAIN = 24 };
/* Bytes that a work-item of a GPU accesses at once if the address is a multiple of this number. At other addresses the
 * work-item accesses single elements. */
enum { WIDEST_ACCESS = 16 };
enum { MOST_MASKS = 3 /* levels of masks of the codes of a quantised weight, and one more */ };

typedef struct walk {
    const bl_linear *linear;
    const bl_device_info *info;
    const dialect *d;
    bl_arena *arena; /* holds the texts of all values */
    bl_text *out;
    const char **text;     /* by instruction: the text of the value */
    bool *is_acc;          /* by instruction: the value is a variable, or is written in place from a variable */
    const int64_t *anchor; /* by instruction: the anchor (anchor.h) */
    const cold_kind *cold; /* by instruction, in a function only: the kind (cold.h) */
    const bool *copied;    /* by instruction: the result of copied_find; NULL: no instruction */
    bool *quads;           /* by instruction: the result of render_has_quads */
    bool *natural;         /* by instruction: the value is an index that is known not to be negative */
    uint32_t *uses;        /* by instruction: number of uses */
    int indent;
    bool function;    /* write a function rather than a kernel: see bl_render_source */
    int64_t local_at; /* bytes of the function's local memory that are assigned so far */
} walk;

/* Should the text be a function rather than a kernel? Yes if groups are single work-items, unless the kernel has a barrier
 * or more scalars than a function may have. */
static bool render_is_function(const bl_linear *linear, const bl_device_info *info)
{
    bool alone = linear->local[0] * linear->local[1] * linear->local[2] == 1;

    for (uint32_t i = 0; i < linear->ninst; i++)
        alone = alone && linear->inst[i].op != BL_OP_BARRIER;
    return alone && info->calls_kernels && linear->nscalars <= BL_CALL_SCALARS;
}

#define BL_ALU(id, real, whole, form) [BL_OP_##id] = form,
static const char *const alu_form[BL_OP_COUNT] = {
#include "engine/ir/alu.def"
};
#undef BL_ALU

static operand arg(const walk *w, const bl_inst *inst, uint32_t i)
{
    const bl_inst *from = &w->linear->inst[inst->args[i]];
    return (operand){w->text[inst->args[i]], (bl_dtype)from->dtype, from->lanes};
}

static operand render_widened(const walk *w, operand x, int lanes)
{
    return x.lanes == lanes ? x : (operand){w->d->repeat(w->arena, x, lanes), x.dtype, lanes};
}

/* Lane |lane| of |x|; a scalar is the same in all lanes. */
static operand in_lane(const walk *w, operand x, int lane)
{
    return x.lanes == 1 ? x : (operand){w->d->lane(w->arena, x, lane), x.dtype, 1};
}

#define LINE(w, ...) bl_text_printf(begin_line(w), __VA_ARGS__)
static bl_text *begin_line(const walk *w)
{
    for (int i = 0; i < w->indent; i++)
        bl_text_puts(w->out, "  ");
    return w->out;
}

/* ---- expressions */

static const char *fill_form(const walk *w, const char *form, const operand *args)
{
    const char *text = "", *from = form;

    for (const char *p = form; *p != '\0'; p++) {
        if (p[0] != '{' || p[1] < '0' || p[1] > '2' || p[2] != '}')
            continue;
        text = SAY(w->arena, "%s%.*s%s", text, (int)(p - from), from, args[p[1] - '0'].text);
        from = p + 3;
    }
    return SAY(w->arena, "%s%s", text, from);
}

/* The bitwise op that computes an arithmetic op on bools. */
static bl_op bool_op(bl_op op)
{
    if (op == BL_OP_ADD || op == BL_OP_MAX)
        return BL_OP_OR;
    if (op == BL_OP_MUL || op == BL_OP_MIN)
        return BL_OP_AND;
    return op;
}

/* The prelude function for an op that is undefined for some operands; NULL if the op is defined for all operands of its
 * dtype. */
static const char *helper_of(const bl_inst *inst)
{
    if (inst->sub != 0)
        return NULL;
    return inst->op == BL_OP_IDIV  ? "floor_div_"
           : inst->op == BL_OP_MOD ? "floor_mod_"
           : inst->op == BL_OP_SHL ? "shift_left_"
           : inst->op == BL_OP_SHR ? "shift_right_"
                                   : NULL;
}

/* Call the prelude function of the op (helper_of) for each lane. */
static const char *guarded(const walk *w, const bl_inst *inst, const operand *args)
{
    operand each[BL_MAX_LANES] = {{0}};

    for (int i = 0; i < inst->lanes; i++)
        each[i] = (operand){SAY(w->arena, "%s%s(%s, %s)", helper_of(inst), bl_dtype_name((bl_dtype)inst->dtype),
                                in_lane(w, args[0], i).text, in_lane(w, args[1], i).text),
                            (bl_dtype)inst->dtype, 1};
    return inst->lanes > 1 ? w->d->stack(w->arena, (bl_dtype)inst->dtype, inst->lanes, inst->lanes, each) : each[0].text;
}

/* Are the four bytes of each element below 128? A dot product of them needs no care for 16-bit saturation. |depth|: levels of
 * masks to look at; the codes of a request may be any expression. */
static bool has_small_bytes(const bl_linear *linear, uint32_t number, int depth)
{
    const bl_inst *inst = &linear->inst[number];

    if (inst->op == BL_OP_CONST)
        return ((uint64_t)inst->arg & 0x80808080U) == 0;
    if (depth == 0 || (inst->op != BL_OP_AND && inst->op != BL_OP_OR))
        return false;
    bool x = has_small_bytes(linear, inst->args[0], depth - 1), y = has_small_bytes(linear, inst->args[1], depth - 1);
    return inst->op == BL_OP_AND ? x || y : x && y;
}

static const char *alu_expression(const walk *w, const bl_inst *inst, const operand *args)
{
    bl_op op = (bl_op)inst->op;
    bl_dtype dtype = (bl_dtype)inst->dtype;
    const char *form = NULL;

    if (op == BL_OP_CAST)
        return w->d->cast(w->arena, dtype, args[0]);
    if (op == BL_OP_BITCAST)
        return w->d->bitcast(w->arena, dtype, args[0]);
    if (op == BL_OP_CMPLT || op == BL_OP_CMPEQ)
        return w->d->compare(w->arena, op, args[0], args[1]);
    if (op == BL_OP_WHERE)
        return w->d->where(w->arena, args[0], args[1], args[2]);
    if (helper_of(inst) != NULL)
        return guarded(w, inst, args);
    if (dtype == BL_BOOL)
        op = bool_op(op);
    if (dtype == BL_BOOL && op == BL_OP_NOT)
        return w->d->compare(w->arena, BL_OP_CMPEQ, args[0], (operand){w->d->false_text, BL_BOOL, inst->lanes});
    if ((op == BL_OP_MAX || op == BL_OP_MIN) && bl_dtype_is_float(dtype))
        return SAY(w->arena, "%s_nan(%s, %s)", bl_op_name(op), args[0].text, args[1].text);
    if (dtype == BL_BOOL && w->d->bool_functions)
        return SAY(w->arena, "bool_%s(%s, %s)", bl_op_name(op), args[0].text, args[1].text);
    if (op == BL_OP_DOT4 && has_small_bytes(w->linear, inst->args[0], MOST_MASKS))
        return SAY(w->arena, "dot4_small(%s, %s, %s)", args[0].text, args[1].text, args[2].text);
    form = w->d->alu != NULL && w->d->alu[op] != NULL ? w->d->alu[op] : alu_form[op];
    if ((dtype == BL_I32 || dtype == BL_I64) && inst->lanes == 1 && inst->sub == 0) {
        const char *const *wraps = w->d->wraps[dtype == BL_I64];
        form = wraps != NULL && wraps[op] != NULL ? wraps[op] : form;
    }
    return w->d->fit(w->arena, dtype, inst->lanes, fill_form(w, form, args));
}

/* Fold the lanes pairwise: halve the vector until two lanes are left. A sequential sum would wait for each addition. */
static const char *fold_expression(const walk *w, const bl_inst *inst, uint32_t number)
{
    operand x = arg(w, inst, 0);

    for (int lanes = x.lanes / 2; lanes >= 1; lanes /= 2) {
        bl_inst step = {.op = inst->sub, .dtype = inst->dtype, .lanes = (uint8_t)lanes};
        operand args[2];

        for (int i = 0; i < 2; i++)
            args[i] = lanes == 1 ? in_lane(w, x, i) : (operand){w->d->half(w->arena, x, i), x.dtype, lanes};
        x = (operand){alu_expression(w, &step, args), x.dtype, lanes};
        if (lanes > 1) {
            LINE(w, "%s v%u_%d = %s;\n", w->d->type(w->arena, x.dtype, lanes), number, lanes, x.text);
            x.text = SAY(w->arena, "v%u_%d", number, lanes);
        }
    }
    return x.text;
}

/* ---- the address of an access */

/* Is the index known not to be negative, because its operands are not negative? */
static bool is_natural(const walk *w, const bl_inst *inst)
{
    const bool *x = inst->nargs > 0 ? &w->natural[inst->args[0]] : NULL, *y = inst->nargs > 1 ? &w->natural[inst->args[1]] : NULL;

    switch ((int)inst->op) {
    case BL_OP_CONST:
        return (inst->dtype == BL_I32 || inst->dtype == BL_I64) && inst->arg >= 0;
    case BL_OP_GROUP_ID:
    case BL_OP_LOCAL_ID:
    case BL_OP_LANE:
    case BL_OP_LOOP:
        return true;
    case BL_OP_IDIV:
    case BL_OP_MOD:
        return inst->sub == 1;
    case BL_OP_ADD:
    case BL_OP_MUL:
        return inst->sub == 1 && *x && *y;
    case BL_OP_MIN:
        return *x && *y;
    default:
        return false;
    }
}

/* A strided index: lane i is |base| + |first| + i * |stride|. */
typedef struct strided {
    const char *base; /* NULL: 0 */
    bool natural;     /* no part of the index is negative */
    int64_t first, stride;
} strided;

/* Split the index of one lane into a base and a constant. */
static strided render_split(const walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    uint32_t base = 0;
    int64_t first = 0;

    if (inst->op == BL_OP_CONST)
        return (strided){.natural = inst->arg >= 0, .first = inst->arg};
    first = bl_linear_split(w->linear, number, &base);
    return (strided){.base = w->text[base], .natural = w->natural[base] && first >= 0, .first = first};
}

/* Find the stride of an index. With |once|, the text of the base is used once and may be long. */
static bool find_stride(const walk *w, uint32_t number, bool once, strided *out)
{
    const bl_inst *inst = &w->linear->inst[number];
    strided x, y;

    *out = (strided){.natural = true, .stride = 1};
    if (inst->op == BL_OP_LANE)
        return true;
    if (inst->lanes == 1) {
        *out = render_split(w, number);
        return out->base == NULL || once || strlen(out->base) < INLINE_AGAIN;
    }
    if ((inst->op != BL_OP_ADD && inst->op != BL_OP_MUL) || inst->sub != 1 || !find_stride(w, inst->args[0], once, &x) ||
        !find_stride(w, inst->args[1], once, &y))
        return false;
    out->natural = x.natural && y.natural;
    if (inst->op == BL_OP_ADD) {
        out->base = x.base != NULL ? x.base : y.base;
        out->first = x.first + y.first;
        out->stride = x.stride + y.stride;
        if (once && x.base != NULL && y.base != NULL)
            out->base = SAY(w->arena, "(%s + %s)", x.base, y.base);
        return once || x.base == NULL || y.base == NULL;
    }
    out->first = x.first * y.first;
    out->stride = x.first * y.stride + x.stride * y.first;
    return x.base == NULL && y.base == NULL && (x.stride == 0 || y.stride == 0);
}

/* Make an access by a constant offset from a shared pointer (anchor.h). With sums and vector lanes as indices, a compiler
 * compares every access with every other access, and vectorises the sums. */
static bool place_by_number(const walk *w, const bl_inst *inst, int lane, place *out)
{
    int64_t anchor = w->anchor[inst - w->linear->inst];
    operand index = arg(w, inst, 1);
    strided s;

    if (index.dtype != BL_I32)
        return false;
    if (index.lanes == 1)
        s = render_split(w, inst->args[1]);
    else if (!find_stride(w, inst->args[1], false, &s))
        return false;
    s.first += lane * s.stride;
    if (s.base != NULL && w->d->pointers && s.natural && s.first != 0 && s.stride >= 0) {
        out->buffer = SAY(w->arena, "(%s + %s)", out->buffer, s.base);
        s.base = NULL;
    } else if (s.base != NULL && w->d->pointers && index.lanes == 1 && anchor > 0) {
        out->buffer = SAY(w->arena, "(%s + (%s + %" PRId64 "))", out->buffer, s.base, anchor);
        s = (strided){.first = s.first - anchor};
    } else if (s.base != NULL && w->d->pointers && index.lanes == 1 && anchor == 0 && s.first != 0) {
        out->buffer = SAY(w->arena, "(%s + %s)", out->buffer, s.base);
        s.base = NULL;
    } else if (index.lanes == 1) {
        return false;
    }
    out->index = s.base == NULL ? SAY(w->arena, "%" PRId64, s.first) : SAY(w->arena, "(%s + %" PRId64 ")", s.base, s.first);
    return true;
}

bool render_has_quads(const bl_linear *linear, uint32_t number)
{
    const bl_inst *buffer = &linear->inst[number];

    if (buffer->op != BL_OP_BUFFER || buffer->sub == BL_PARAM || (buffer->dtype != BL_F32 && buffer->sub != BL_LOCAL_NARROW) ||
        buffer->arg % 4 != 0)
        return false;
    for (uint32_t i = number; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_FRAGMENT_STORE && inst->args[0] == number)
            return false; /* the gather call takes an array of floats */
    }
    for (uint32_t i = number; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_LOAD && inst->args[0] == number && inst->lanes == 4 && inst->sub == 1)
            return true;
    }
    return false;
}

static bool is_copied(const walk *w, uint32_t number)
{
    return w->copied != NULL && w->copied[number];
}

/* The elements of an access: the whole access, or one lane if the lanes have separate indices. */
static place render_place_of(const walk *w, const bl_inst *inst, int lane)
{
    operand index = arg(w, inst, 1);
    const bl_inst *buffer = &w->linear->inst[inst->args[0]];
    place to = {.buffer = w->text[inst->args[0]],
                .dtype = (bl_dtype)buffer->dtype,
                .lanes = index.lanes > 1 ? 1 : inst->lanes,
                .aligned = index.lanes == 1 && inst->sub == 1,
                .streams = inst->op == BL_OP_STORE && inst->arg == BL_STORE_STREAMS,
                .local = buffer->sub != BL_PARAM,
                .narrow = buffer->sub == BL_LOCAL_NARROW,
                .bits = is_copied(w, inst->op == BL_OP_STORE ? inst->args[2] : (uint32_t)(inst - w->linear->inst)),
                .quads = w->quads[inst->args[0]]};

    to.whole = to.aligned && !to.local && w->info->subgroup > 1 && w->info->alignment % WIDEST_ACCESS == 0;

    if (place_by_number(w, inst, lane, &to))
        return to;
    to.index = in_lane(w, index, lane).text;
    if (w->d->narrow_index && index.dtype == BL_I64)
        to.index = SAY(w->arena, "int(%s)", to.index);
    return to;
}

/* The first element and the stride of a cold access. False if the index is not strided. */
static bool place_call(const walk *w, const bl_inst *inst, place *out, int64_t *stride)
{
    const bl_inst *access = inst->op == BL_OP_STACK ? &w->linear->inst[inst->args[0]] : inst;
    uint32_t ignored = 0;
    strided s;

    *out = (place){
        .buffer = w->text[access->args[0]], .dtype = (bl_dtype)w->linear->inst[access->args[0]].dtype, .lanes = inst->lanes};
    if (inst->op == BL_OP_STACK) {
        out->index = SAY(w->arena, "(%s)", w->text[access->args[1]]);
        *stride = bl_linear_split(w->linear, w->linear->inst[inst->args[1]].args[1], &ignored) -
                  bl_linear_split(w->linear, access->args[1], &ignored);
        return true;
    }
    if (!find_stride(w, access->args[1], true, &s))
        return false;
    out->index = s.base == NULL ? SAY(w->arena, "%" PRId64, s.first) : SAY(w->arena, "(%s + %" PRId64 ")", s.base, s.first);
    *stride = s.stride;
    return true;
}

/* A call for all lanes of a cold access, or NULL. |value| is the value that a store stores. */
static const char *call_for(const walk *w, const bl_inst *inst, const char *value)
{
    int64_t stride = 0;
    place all;

    if (w->cold == NULL || w->cold[inst - w->linear->inst] != COLD_CALL || !place_call(w, inst, &all, &stride))
        return NULL;
    return value == NULL ? w->d->gather(w->arena, all, stride) : w->d->scatter(w->arena, all, stride, value);
}

static const char *load_expression(const walk *w, const bl_inst *inst)
{
    operand each[BL_MAX_LANES] = {{0}};
    const char *call = call_for(w, inst, NULL);

    if (call != NULL)
        return call;
    if (arg(w, inst, 1).lanes == 1)
        return w->d->load(w->arena, render_place_of(w, inst, 0));
    for (int i = 0; i < inst->lanes; i++)
        each[i] = (operand){w->d->load(w->arena, render_place_of(w, inst, i)), (bl_dtype)inst->dtype, 1};
    return w->d->stack(w->arena, (bl_dtype)inst->dtype, inst->lanes, inst->lanes, each);
}

/* The number of operands of a STACK, from |i| on, that are lanes of one vector at a constant step. The number is a power of
 * two and a vector length. */
static int count_picked(const walk *w, const bl_inst *stack, int i, int *step)
{
    const bl_inst *first = &w->linear->inst[stack->args[i]];
    int n = 1, count = 1;

    *step = 1;
    for (; first->op == BL_OP_EXTRACT && first->dtype != BL_BOOL && i + n < stack->lanes; n++) {
        const bl_inst *next = &w->linear->inst[stack->args[i + n]];
        if (n == 1)
            *step = (int)(next->arg - first->arg);
        if (next->op != BL_OP_EXTRACT || next->args[0] != first->args[0] || *step <= 0 || next->arg != first->arg + *step * n)
            break;
    }
    while (2 * count <= n)
        count *= 2;
    return count;
}

/* Build a STACK. Lanes of one vector are picked by one expression, since a compiler takes long to find this form itself. */
static const char *stack_expression(const walk *w, const bl_inst *inst)
{
    operand each[BL_MAX_LANES] = {{0}};
    const char *call = call_for(w, inst, NULL);
    int n = 0;

    if (call != NULL)
        return call;
    for (int i = 0, count = 0; i < inst->lanes; i += count) {
        int step = 1;
        count = w->d->pick == NULL ? 1 : count_picked(w, inst, i, &step);
        if (count > 1) {
            const bl_inst *first = &w->linear->inst[inst->args[i]];
            each[n++] =
                (operand){w->d->pick(w->arena, arg(w, first, 0), (int)first->arg, step, count), (bl_dtype)inst->dtype, count};
        } else {
            each[n++] = arg(w, inst, (uint32_t)i);
        }
    }
    return n == 1 ? each[0].text : w->d->stack(w->arena, (bl_dtype)inst->dtype, inst->lanes, n, each);
}

static const char *lane_expression(const walk *w, const bl_inst *inst)
{
    operand each[BL_MAX_LANES] = {{0}};
    for (int i = 0; i < inst->lanes; i++)
        each[i] = (operand){SAY(w->arena, "%d", i), (bl_dtype)inst->dtype, 1};
    return w->d->stack(w->arena, (bl_dtype)inst->dtype, inst->lanes, inst->lanes, each);
}

static const char *value_expression(const walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    operand args[3];

    if (inst->op == BL_OP_LOAD)
        return load_expression(w, inst);
    if (inst->op == BL_OP_STACK)
        return stack_expression(w, inst);
    if (inst->op == BL_OP_LANE)
        return lane_expression(w, inst);
    if (inst->op == BL_OP_FOLD)
        return fold_expression(w, inst, number);
    for (uint32_t i = 0; i < inst->nargs; i++)
        args[i] = render_widened(w, arg(w, inst, i), inst->lanes);
    return alu_expression(w, inst, args);
}

/* ---- statements */

static void declare(const walk *w, const bl_inst *inst, uint32_t number, const char *value)
{
    bl_dtype dtype = is_copied(w, number) ? BL_U16 : (bl_dtype)inst->dtype;

    LINE(w, "%s v%u = %s;\n", w->d->type(w->arena, dtype, inst->lanes), number, value);
    w->text[number] = SAY(w->arena, "v%u", number);
}

/* Some lanes of a vector's gate are closed: load the open lanes one by one. */
static void load_open_lanes(const walk *w, const bl_inst *inst, uint32_t number)
{
    operand gate = arg(w, inst, 2), whole = {w->text[number], (bl_dtype)inst->dtype, inst->lanes};
    place at = render_place_of(w, inst, 0);
    const char *first = at.index;

    at.lanes = 1;
    at.aligned = at.whole = false;
    LINE(w, "else {\n");
    for (int i = 0; i < inst->lanes; i++) {
        at.index = SAY(w->arena, "(%s + %d)", first, i);
        LINE(w, "  if (%s) %s = %s;\n", in_lane(w, gate, i).text, in_lane(w, whole, i).text, w->d->load(w->arena, at));
    }
    LINE(w, "}\n");
}

/* A gated load must not access memory if the gate is closed. */
static void gated_load(const walk *w, const bl_inst *inst, uint32_t number)
{
    operand gate = arg(w, inst, 2), zero = {.dtype = (bl_dtype)inst->dtype, .lanes = 1};
    const char *masked =
        gate.lanes == 1 || w->d->load_masked == NULL ? NULL : w->d->load_masked(w->arena, render_place_of(w, inst, 0), gate.text);

    if (masked != NULL) {
        declare(w, inst, number, masked);
        return;
    }
    zero.text = w->d->literal(w->arena, zero.dtype, (bl_scalar){.u = 0});
    declare(w, inst, number, render_widened(w, zero, inst->lanes).text);
    LINE(w, gate.lanes > 1 ? "if (all(%s)) v%u = %s;\n" : "if (%s) v%u = %s;\n", gate.text, number, load_expression(w, inst));
    if (gate.lanes > 1)
        load_open_lanes(w, inst, number);
}

/* Store contiguous lanes that have a gate each. */
static void store_open_lanes(const walk *w, const bl_inst *inst, operand value)
{
    operand gate = arg(w, inst, 3);
    place at = render_place_of(w, inst, 0);
    const char *first = at.index,
               *masked = w->d->store_masked == NULL ? NULL : w->d->store_masked(w->arena, at, value.text, gate.text);

    if (masked != NULL) {
        LINE(w, "%s;\n", masked);
        return;
    }
    LINE(w, "if (all(%s)) { %s; }\n", gate.text, w->d->store(w->arena, at, value.text));
    at.lanes = 1;
    at.aligned = at.whole = at.streams = false;
    LINE(w, "else {\n");
    for (int i = 0; i < inst->lanes; i++) {
        at.index = SAY(w->arena, "(%s + %d)", first, i);
        LINE(w, "  if (%s) %s;\n", in_lane(w, gate, i).text, w->d->store(w->arena, at, in_lane(w, value, i).text));
    }
    LINE(w, "}\n");
}

static void store_statement(const walk *w, const bl_inst *inst)
{
    bool scatters = arg(w, inst, 1).lanes > 1;
    operand value = arg(w, inst, 2);
    const char *call = call_for(w, inst, render_widened(w, value, inst->lanes).text);

    if (call != NULL) {
        LINE(w, "%s;\n", call);
        return;
    }
    if (!scatters)
        value = render_widened(w, value, inst->lanes);
    if (!scatters && inst->nargs > 3 && arg(w, inst, 3).lanes > 1) {
        store_open_lanes(w, inst, value);
        return;
    }
    for (int i = 0; i < (scatters ? inst->lanes : 1); i++) {
        begin_line(w);
        if (inst->nargs > 3)
            bl_text_printf(w->out, "if (%s) ", in_lane(w, arg(w, inst, 3), i).text);
        bl_text_printf(w->out, "%s;\n",
                       w->d->store(w->arena, render_place_of(w, inst, i), scatters ? in_lane(w, value, i).text : value.text));
    }
}

/* Write a value: in place if the value is short index arithmetic over constants of the loop, otherwise as a variable. */
static void value_statement(const walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    bool index =
        (inst->dtype == BL_I32 || inst->dtype == BL_I64) && inst->lanes == 1 && inst->op != BL_OP_LOAD && inst->op != BL_OP_FOLD;

    for (uint32_t i = 0; i < inst->nargs; i++)
        w->is_acc[number] |= w->is_acc[inst->args[i]];
    if (w->cold != NULL && w->cold[number] == COLD_PART)
        return;
    if (inst->op == BL_OP_LOAD && inst->nargs > 2) {
        gated_load(w, inst, number);
        return;
    }
    w->text[number] = value_expression(w, number);
    if (index && !w->is_acc[number] && strlen(w->text[number]) < (w->uses[number] > 1 ? INLINE_AGAIN : INLINE_MOST))
        return;
    w->is_acc[number] = false;
    declare(w, inst, number, w->text[number]);
}

/* Ids have 32 bits and are widened explicitly: a comparison of mixed widths would leave the widening to the compiler (see
 * the casts of GLSL). */
static const char *id_expression(const walk *w, const bl_inst *inst)
{
    const char *id = (inst->op != BL_OP_GROUP_ID ? w->d->local_id
                      : w->function              ? w->d->group_parameter
                                                 : w->d->group_id)[inst->arg];

    return inst->dtype == BL_I64 ? w->d->cast(w->arena, BL_I64, (operand){id, BL_I32, 1}) : id;
}

static void unit_statement(const walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    bool access = inst->op == BL_OP_FRAGMENT_LOAD || inst->op == BL_OP_FRAGMENT_STORE;
    unit_inst u = {.linear = w->linear,
                   .number = number,
                   .unit = unit_of(w->info, inst->arg),
                   .shape = bl_matrix_unpack(inst->arg),
                   .buffer = access ? w->text[inst->args[0]] : NULL,
                   .index = access ? SAY(w->arena, "(%s)", w->text[inst->args[1]]) : NULL,
                   .local = access && w->linear->inst[inst->args[0]].sub != BL_PARAM,
                   .work_item = w->d->local_id[0]};

    LINE(w, "%s\n", w->d->unit(w->arena, &u));
}

static void statement(walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    bl_dtype dtype = (bl_dtype)inst->dtype;

    switch ((int)inst->op) {
    case BL_OP_CONST:
        w->text[number] = w->d->literal(w->arena, dtype, (bl_scalar){.i = inst->arg});
        break;
    case BL_OP_VAR:
        w->text[number] = SAY(w->arena, "%s%u", w->d->scalar, (unsigned)inst->arg);
        break;
    case BL_OP_GROUP_ID:
    case BL_OP_LOCAL_ID:
        w->text[number] = id_expression(w, inst);
        break;
    case BL_OP_BUFFER:
        w->quads[number] = render_has_quads(w->linear, number);
        w->text[number] =
            inst->sub != BL_PARAM ? SAY(w->arena, "l%u", (unsigned)number) : SAY(w->arena, "b%u", (unsigned)inst->arg);
        if (inst->sub != BL_PARAM && w->d->local_buffer != NULL) {
            LINE(w, "%s", w->d->local_buffer(w->arena, w->text[number], inst, w->function ? w->local_at : -1));
            w->local_at += bl_local_bytes(dtype, inst->sub == BL_LOCAL_NARROW, inst->arg);
        }
        break;
    case BL_OP_LOOP:
        w->text[number] = SAY(w->arena, "i%u", number);
        LINE(w, "%sfor (%s i%u = 0; i%u < %s; i%u++) {\n",
             w->d->rolled != NULL && render_is_rolled(w->linear, w->info, number) ? w->d->rolled : "",
             w->d->type(w->arena, dtype, 1), number, number, w->text[inst->args[0]], number);
        w->indent++;
        break;
    case BL_OP_END:
        w->indent--;
        LINE(w, "}\n");
        break;
    case BL_OP_EXTRACT:
        w->text[number] = in_lane(w, arg(w, inst, 0), (int)inst->arg).text;
        w->is_acc[number] = w->is_acc[inst->args[0]];
        break;
    case BL_OP_ACC:
        declare(w, inst, number, render_widened(w, arg(w, inst, 0), inst->lanes).text);
        w->is_acc[number] = true;
        break;
    case BL_OP_SET:
        LINE(w, "%s = %s;\n", w->text[inst->args[0]], render_widened(w, arg(w, inst, 1), inst->lanes).text);
        break;
    case BL_OP_STORE:
        store_statement(w, inst);
        break;
    case BL_OP_FRAGMENT:
    case BL_OP_FRAGMENT_LOAD:
    case BL_OP_MATRIX_ADD:
    case BL_OP_FRAGMENT_STORE:
        unit_statement(w, number);
        break;
    case BL_OP_BARRIER:
        LINE(w, "%s;\n", w->d->barrier);
        break;
    default:
        value_statement(w, number);
        break;
    }
}

static bl_status render_walk_all(walk *w, const bl_device_info *info, bl_err *err)
{
    const bl_inst *first = unit_first(w->linear);

    if (first != NULL && unit_of(info, first->arg) == NULL)
        return bl_fail(err, BL_EUNSUPPORTED, "%s has no matrix unit of the shape", info->id);
    if (first != NULL && !unit_has_registers(unit_of(info, first->arg), w->linear))
        return bl_fail(err, BL_EUNSUPPORTED, "%s has not as many matrix registers as kernel %s wants", info->id, w->linear->name);
    w->info = info;
    w->text = bl_arena_array(w->arena, w->linear->ninst, sizeof *w->text);
    w->is_acc = bl_arena_array(w->arena, w->linear->ninst, sizeof *w->is_acc);
    w->quads = bl_arena_array(w->arena, w->linear->ninst, sizeof *w->quads);
    w->natural = bl_arena_array(w->arena, w->linear->ninst, sizeof *w->natural);
    w->uses = bl_arena_array(w->arena, w->linear->ninst, sizeof *w->uses);
    w->anchor = anchor_find(w->arena, w->linear);
    BL_TRY(bl_arena_status(w->arena, err));
    for (uint32_t i = 0; i < w->linear->ninst; i++) {
        for (uint32_t k = 0; k < w->linear->inst[i].nargs; k++)
            /* the text of each lane of an index may contain the operand */
            w->uses[w->linear->inst[i].args[k]] += w->linear->inst[i].lanes;
    }
    w->cold = w->function ? cold_find(w->arena, w->linear) : NULL;
    w->copied = w->d->moves_bits ? copied_find(w->arena, w->linear) : NULL;
    BL_TRY(bl_arena_status(w->arena, err));
    BL_TRY(w->d->begin(w->linear, info, w->function, w->cold, w->out, err));
    w->indent = 1;
    for (uint32_t i = 0; i < w->linear->ninst && !w->out->failed; i++) {
        w->natural[i] = is_natural(w, &w->linear->inst[i]);
        statement(w, i);
    }
    bl_text_puts(w->out, "}\n");
    if (w->local_at > w->linear->local_bytes && w->function)
        return bl_fail(err, BL_EBUG, "kernel %s has %" PRId64 " bytes of local memory and says %u", w->linear->name, w->local_at,
                       w->linear->local_bytes);
    BL_TRY(bl_arena_status(w->arena, err));
    return bl_text_status(w->out, err);
}

bl_status bl_render(const bl_linear *linear, const bl_device_info *info, bl_text *out, bl_err *err)
{
    walk w = {.linear = linear,
              .out = out,
              .d = info->dialect == BL_DIALECT_GLSL ? &dialect_glsl : &dialect_opencl,
              .function = render_is_function(linear, info)};
    bl_status st = BL_OK;

    if (info->dialect == BL_DIALECT_LINEAR) {
        bl_linear_print(linear, out);
        return bl_text_status(out, err);
    }
    w.arena = bl_arena_create(0);
    st = w.arena == NULL ? bl_fail(err, BL_ENOMEM, "out of host memory for the source of a kernel")
                         : render_walk_all(&w, info, err);
    bl_arena_destroy(w.arena);
    return st;
}

bl_kernel_source bl_render_source(const bl_linear *linear, const bl_device_info *info, const char *text, size_t len)
{
    bl_kernel_source source = {.entry = linear->name,
                               .text = text,
                               .len = len,
                               .linear = linear,
                               .nbuffers = linear->nbuffers,
                               .nscalars = linear->nscalars,
                               .writes = linear->writes,
                               .local_bytes = linear->local_bytes,
                               .function = render_is_function(linear, info)};

    memcpy(source.local, linear->local, sizeof source.local);
    return source;
}
