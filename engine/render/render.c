/* SPDX-License-Identifier: MIT */
/* The walker: one statement an instruction, but literals and short index arithmetic, which stand where they are used. */
#include "engine/render/render.h"

#include "engine/render/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INLINE_MOST = 96 };

typedef struct walk {
    const bl_linear *linear;
    const dialect *d;
    bl_text *out;
    char **text;     /* by instruction: how to say its value */
    uint8_t *is_acc; /* by instruction: it is, or is made inline from, a variable that changes */
    int indent;
} walk;

#define BL_ALU(id, real, whole, form) [BL_OP_##id] = form,
static const char *const alu_form[BL_OP_COUNT] = {
#include "engine/ir/alu.def"
};
#undef BL_ALU

/* Of a value; "" only where memory ran out, after which the text is thrown away. */
static const char *text_of(const walk *w, uint32_t number)
{
    return w->text[number] == NULL ? "" : w->text[number];
}

static operand arg(const walk *w, const bl_inst *inst, uint32_t i)
{
    const bl_inst *from = &w->linear->inst[inst->args[i]];
    return (operand){text_of(w, inst->args[i]), (bl_dtype)from->dtype, from->lanes};
}

/* Text that lives as long as the walk. */
static char *keep(walk *w, bl_text *text)
{
    char *taken = NULL;
    if (text->data == NULL)
        bl_text_puts(text, "");
    taken = bl_text_take(text);
    if (taken == NULL)
        w->out->failed = true;
    return taken;
}

static operand widened(walk *w, operand x, int lanes, char **owned)
{
    bl_text text = {0};
    *owned = NULL;
    if (x.lanes == lanes)
        return x;
    w->d->repeat(&text, x, lanes);
    *owned = keep(w, &text);
    return (operand){*owned == NULL ? "" : *owned, x.dtype, lanes};
}

static void fill_form(bl_text *out, const char *form, const operand *args)
{
    for (const char *p = form; *p != '\0'; p++) {
        if (p[0] == '{' && p[1] >= '0' && p[1] <= '2' && p[2] == '}') {
            bl_text_puts(out, args[p[1] - '0'].text);
            p += 2;
        } else {
            bl_text_putc(out, *p);
        }
    }
}

/* What a bool's arithmetic is. */
static bl_op bool_op(bl_op op)
{
    if (op == BL_OP_ADD || op == BL_OP_MAX)
        return BL_OP_OR;
    if (op == BL_OP_MUL || op == BL_OP_MIN)
        return BL_OP_AND;
    return op;
}

static const char *helper_of(bl_op op)
{
    if (op == BL_OP_IDIV)
        return "floor_div_";
    if (op == BL_OP_MOD)
        return "floor_mod_";
    return op == BL_OP_SHL ? "shift_left_" : "shift_right_";
}

/* Ops that are undefined for some operands go through a function of the prelude, lane by lane. */
static void guarded(walk *w, const bl_inst *inst, const operand *args, bl_text *out)
{
    operand each[BL_MAX_LANES];
    char *text[BL_MAX_LANES] = {0};

    for (int i = 0; i < inst->lanes; i++) {
        bl_text call = {0};
        bl_text_printf(&call, "%s%s(", helper_of((bl_op)inst->op), bl_dtype_name((bl_dtype)inst->dtype));
        for (int k = 0; k < 2; k++) {
            bl_text_puts(&call, k == 0 ? "" : ", ");
            if (inst->lanes > 1)
                w->d->lane(&call, args[k], i);
            else
                bl_text_puts(&call, args[k].text);
        }
        bl_text_putc(&call, ')');
        text[i] = keep(w, &call);
        each[i] = (operand){text[i] == NULL ? "" : text[i], (bl_dtype)inst->dtype, 1};
    }
    if (inst->lanes > 1)
        w->d->stack(out, (bl_dtype)inst->dtype, inst->lanes, each);
    else
        bl_text_puts(out, each[0].text);
    for (int i = 0; i < inst->lanes; i++)
        free(text[i]);
}

static void alu_expression(walk *w, const bl_inst *inst, const operand *args, bl_text *out)
{
    bl_op op = (bl_op)inst->op;
    bl_dtype dtype = (bl_dtype)inst->dtype;
    bl_text raw = {0};
    const char *form = NULL;

    if (op == BL_OP_CMPLT || op == BL_OP_CMPEQ) {
        w->d->compare(out, op, args[0], args[1]);
        return;
    }
    if (op == BL_OP_WHERE) {
        w->d->where(out, args[0], args[1], args[2]);
        return;
    }
    if ((op == BL_OP_IDIV || op == BL_OP_MOD || op == BL_OP_SHL || op == BL_OP_SHR) && inst->sub == 0) {
        guarded(w, inst, args, out);
        return;
    }
    if (dtype == BL_BOOL)
        op = bool_op(op);
    if (dtype == BL_BOOL && op == BL_OP_NOT) {
        operand zero = {NULL, BL_BOOL, inst->lanes};
        zero.text = w->d->false_text;
        w->d->compare(out, BL_OP_CMPEQ, args[0], zero);
        return;
    }
    if ((op == BL_OP_MAX || op == BL_OP_MIN) && bl_dtype_is_float(dtype)) {
        bl_text_printf(out, "%s_nan(%s, %s)", bl_op_name(op), args[0].text, args[1].text);
        return;
    }
    form = w->d->alu != NULL && w->d->alu[op] != NULL ? w->d->alu[op] : alu_form[op];
    if ((dtype == BL_I32 || dtype == BL_I64) && inst->lanes == 1 && inst->sub == 0) {
        const char *const *wraps = w->d->wraps[dtype == BL_I64];
        form = wraps != NULL && wraps[op] != NULL ? wraps[op] : form;
    }
    if (dtype == BL_BOOL && w->d->bool_functions) {
        bl_text_printf(out, "bool_%s(%s, %s)", bl_op_name(op), args[0].text, args[1].text);
        return;
    }
    fill_form(&raw, form, args);
    w->d->fit(out, dtype, inst->lanes, bl_text_get(&raw));
    bl_text_fini_part(&raw, out);
}

static bool is_local(const walk *w, const bl_inst *inst)
{
    return w->linear->inst[inst->args[0]].sub == 1;
}

/* One lane of a gathered or scattered access. */
static char *lane_text(walk *w, operand x, int lane)
{
    bl_text text = {0};
    if (x.lanes > 1)
        w->d->lane(&text, x, lane);
    else
        bl_text_puts(&text, x.text);
    return keep(w, &text);
}

/* Where an access goes, in one lane. */
static char *index_text(walk *w, operand index, int lane)
{
    bl_text text = {0};
    char *at = lane_text(w, index, lane);
    if (!w->d->narrow_index || index.dtype != BL_I64)
        return at;
    bl_text_printf(&text, "int(%s)", at == NULL ? "" : at);
    free(at);
    return keep(w, &text);
}

static void load_expression(walk *w, const bl_inst *inst, bl_text *out)
{
    operand buffer = arg(w, inst, 0), index = arg(w, inst, 1), each[BL_MAX_LANES];
    char *owned[BL_MAX_LANES] = {0};
    bl_dtype dtype = (bl_dtype)inst->dtype;

    if (index.lanes == 1) {
        char *at = index_text(w, index, 0);
        w->d->load(out, buffer.text, dtype, inst->lanes, at == NULL ? "" : at, inst->sub == 1, is_local(w, inst));
        free(at);
        return;
    }
    for (int i = 0; i < inst->lanes; i++) {
        char *at = index_text(w, index, i);
        bl_text text = {0};
        w->d->load(&text, buffer.text, dtype, 1, at == NULL ? "" : at, false, is_local(w, inst));
        owned[i] = keep(w, &text);
        each[i] = (operand){owned[i] == NULL ? "" : owned[i], dtype, 1};
        free(at);
    }
    w->d->stack(out, dtype, inst->lanes, each);
    for (int i = 0; i < inst->lanes; i++)
        free(owned[i]);
}

static void begin_line(walk *w)
{
    for (int i = 0; i < w->indent; i++)
        bl_text_puts(w->out, "  ");
}

static void set_text(walk *w, uint32_t number, bl_text *text)
{
    free(w->text[number]);
    w->text[number] = keep(w, text);
}

static void declare(walk *w, const bl_inst *inst, uint32_t number, const char *value)
{
    bl_text name = {0};
    begin_line(w);
    w->d->type(w->out, (bl_dtype)inst->dtype, inst->lanes);
    bl_text_printf(w->out, " v%u = %s;\n", number, value);
    bl_text_printf(&name, "v%u", number);
    set_text(w, number, &name);
}

/* Where not all lanes of a vector's gate are open: those that are, one by one. */
static void load_open_lanes(walk *w, const bl_inst *inst, uint32_t number)
{
    operand buffer = arg(w, inst, 0), index = arg(w, inst, 1), gate = arg(w, inst, 2);
    operand whole = {text_of(w, number), (bl_dtype)inst->dtype, inst->lanes};

    begin_line(w);
    bl_text_puts(w->out, "else {\n");
    for (int i = 0; i < inst->lanes; i++) {
        bl_text at = {0};
        char *base = index_text(w, index, 0);
        bl_text_printf(&at, "(%s + %d)", base == NULL ? "" : base, i);
        free(base);
        begin_line(w);
        bl_text_puts(w->out, "  if (");
        w->d->lane(w->out, gate, i);
        bl_text_puts(w->out, ") ");
        w->d->lane(w->out, whole, i);
        bl_text_puts(w->out, " = ");
        w->d->load(w->out, buffer.text, (bl_dtype)inst->dtype, 1, bl_text_get(&at), false, is_local(w, inst));
        bl_text_puts(w->out, ";\n");
        bl_text_fini_part(&at, w->out);
    }
    begin_line(w);
    bl_text_puts(w->out, "}\n");
}

/* A gated load must not touch memory where the gate is closed. */
static void gated_load(walk *w, const bl_inst *inst, uint32_t number)
{
    operand gate = arg(w, inst, 2);
    bl_text zero = {0}, value = {0}, wide = {0};

    w->d->literal(&zero, (bl_dtype)inst->dtype, (bl_scalar){.u = 0});
    load_expression(w, inst, &value);
    if (inst->lanes > 1)
        w->d->repeat(&wide, (operand){bl_text_get(&zero), (bl_dtype)inst->dtype, 1}, inst->lanes);
    declare(w, inst, number, bl_text_get(inst->lanes > 1 ? &wide : &zero));
    begin_line(w);
    bl_text_printf(w->out, gate.lanes > 1 ? "if (all(%s)) v%u = %s;\n" : "if (%s) v%u = %s;\n", gate.text, number,
                   bl_text_get(&value));
    if (gate.lanes > 1)
        load_open_lanes(w, inst, number);
    bl_text_fini_part(&zero, w->out);
    bl_text_fini_part(&value, w->out);
    bl_text_fini_part(&wide, w->out);
}

static void store_statement(walk *w, const bl_inst *inst)
{
    operand buffer = arg(w, inst, 0), index = arg(w, inst, 1), value = arg(w, inst, 2);
    bl_dtype dtype = (bl_dtype)w->linear->inst[inst->args[2]].dtype;
    int lanes = inst->lanes;
    char *wide = NULL;

    if (index.lanes == 1)
        value = widened(w, value, lanes, &wide);
    for (int i = 0; i < (index.lanes > 1 ? lanes : 1); i++) {
        char *at = index_text(w, index, i), *what = index.lanes > 1 ? lane_text(w, value, i) : NULL;
        begin_line(w);
        if (inst->nargs > 3) {
            char *gate = lane_text(w, arg(w, inst, 3), i);
            bl_text_printf(w->out, "if (%s) ", gate == NULL ? "" : gate);
            free(gate);
        }
        if (index.lanes > 1)
            w->d->store(w->out, buffer.text, dtype, 1, at == NULL ? "" : at, what == NULL ? "" : what, false, is_local(w, inst));
        else
            w->d->store(w->out, buffer.text, dtype, lanes, at == NULL ? "" : at, value.text, inst->sub == 1, is_local(w, inst));
        bl_text_puts(w->out, ";\n");
        free(at);
        free(what);
    }
    free(wide);
}

static void lanes_expression(walk *w, const bl_inst *inst, bl_text *out)
{
    operand each[BL_MAX_LANES];
    char number[BL_MAX_LANES][8];
    for (int i = 0; i < inst->lanes; i++) {
        snprintf(number[i], sizeof number[i], "%d", i);
        each[i] = (operand){number[i], (bl_dtype)inst->dtype, 1};
    }
    w->d->stack(out, (bl_dtype)inst->dtype, inst->lanes, each);
}

static void stack_expression(walk *w, const bl_inst *inst, bl_text *out)
{
    operand each[BL_MAX_LANES];
    for (int i = 0; i < inst->lanes; i++)
        each[i] = arg(w, inst, (uint32_t)i);
    w->d->stack(out, (bl_dtype)inst->dtype, inst->lanes, each);
}

static void alu_statement(walk *w, const bl_inst *inst, bl_text *out)
{
    operand args[3];
    char *owned[3] = {0};
    for (uint32_t i = 0; i < inst->nargs && i < 3; i++)
        args[i] = widened(w, arg(w, inst, i), inst->lanes, &owned[i]);
    if (inst->op == BL_OP_CAST)
        w->d->cast(out, (bl_dtype)inst->dtype, args[0]);
    else if (inst->op == BL_OP_BITCAST)
        w->d->bitcast(out, (bl_dtype)inst->dtype, args[0]);
    else
        alu_expression(w, inst, args, out);
    for (int i = 0; i < 3; i++)
        free(owned[i]);
}

/* A fold of lanes: the halves of the vector, until two lanes are left.  A sum lane by lane would wait for each addition. */
static void fold_statement(walk *w, const bl_inst *inst, uint32_t number, bl_text *out)
{
    operand x = arg(w, inst, 0);
    bl_text name = {0};

    for (int lanes = x.lanes / 2; lanes >= 1; lanes /= 2) {
        bl_inst step = {.op = inst->sub, .dtype = inst->dtype, .lanes = (uint8_t)lanes};
        bl_text half[2] = {{0}, {0}}, folded = {0};
        operand args[2];
        for (int i = 0; i < 2; i++) {
            if (lanes > 1)
                w->d->half(&half[i], x, i);
            else
                w->d->lane(&half[i], x, i);
            args[i] = (operand){bl_text_get(&half[i]), x.dtype, lanes};
        }
        alu_expression(w, &step, args, &folded);
        if (lanes == 1) {
            bl_text_puts(out, bl_text_get(&folded));
        } else {
            begin_line(w);
            w->d->type(w->out, x.dtype, lanes);
            bl_text_printf(w->out, " v%u_%d = %s;\n", number, lanes, bl_text_get(&folded));
        }
        for (int i = 0; i < 2; i++)
            bl_text_fini_part(&half[i], w->out);
        bl_text_fini_part(&folded, w->out);
        bl_text_fini(&name);
        bl_text_printf(&name, "v%u_%d", number, lanes);
        x = (operand){bl_text_get(&name), x.dtype, lanes};
    }
    bl_text_fini_part(&name, w->out);
}

/* A value: an expression, in place if it is short index arithmetic over what does not change, else a variable. */
static void value_statement(walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    bl_text text = {0};
    bool index =
        (inst->dtype == BL_I32 || inst->dtype == BL_I64) && inst->lanes == 1 && inst->op != BL_OP_LOAD && inst->op != BL_OP_FOLD;

    for (uint32_t i = 0; i < inst->nargs; i++)
        w->is_acc[number] |= w->is_acc[inst->args[i]];
    if (inst->op == BL_OP_LOAD && inst->nargs > 2) {
        gated_load(w, inst, number);
        return;
    }
    if (inst->op == BL_OP_LOAD)
        load_expression(w, inst, &text);
    else if (inst->op == BL_OP_STACK)
        stack_expression(w, inst, &text);
    else if (inst->op == BL_OP_FOLD)
        fold_statement(w, inst, number, &text);
    else if (inst->op == BL_OP_LANE)
        lanes_expression(w, inst, &text);
    else
        alu_statement(w, inst, &text);
    if (index && w->is_acc[number] == 0 && text.len < INLINE_MOST) {
        set_text(w, number, &text);
        return;
    }
    w->is_acc[number] = 0;
    declare(w, inst, number, bl_text_get(&text));
    bl_text_fini_part(&text, w->out);
}

static void loop_statement(walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    bl_text name = {0};
    begin_line(w);
    bl_text_puts(w->out, "for (");
    w->d->type(w->out, (bl_dtype)inst->dtype, 1);
    bl_text_printf(w->out, " i%u = 0; i%u < %s; i%u++) {\n", number, number, text_of(w, inst->args[0]), number);
    bl_text_printf(&name, "i%u", number);
    set_text(w, number, &name);
    w->indent++;
}

static void acc_statement(walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    char *owned = NULL;
    operand start = widened(w, arg(w, inst, 0), inst->lanes, &owned);
    declare(w, inst, number, start.text);
    w->is_acc[number] = 1;
    free(owned);
}

static void set_statement(walk *w, const bl_inst *inst)
{
    char *owned = NULL;
    operand value = widened(w, arg(w, inst, 1), inst->lanes, &owned);
    begin_line(w);
    bl_text_printf(w->out, "%s = %s;\n", text_of(w, inst->args[0]), value.text);
    free(owned);
}

/* Ids have 32 bits, and are widened by name: a mixed comparison would leave that to the compiler (see the casts of GLSL). */
static void id_expression(walk *w, const bl_inst *inst, bl_text *out)
{
    const char *id = (inst->op == BL_OP_GROUP_ID ? w->d->group_id : w->d->local_id)[inst->arg];
    if (inst->dtype == BL_I64)
        w->d->cast(out, BL_I64, (operand){id, BL_I32, 1});
    else
        bl_text_puts(out, id);
}

static void leaf(walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    bl_text text = {0};
    if (inst->op == BL_OP_CONST)
        w->d->literal(&text, (bl_dtype)inst->dtype, (bl_scalar){.i = inst->arg});
    else if (inst->op == BL_OP_VAR)
        bl_text_printf(&text, "%s%u", w->d->scalar, (unsigned)inst->arg);
    else if (inst->op == BL_OP_BUFFER)
        bl_text_printf(&text, inst->sub == 1 ? "l%u" : "b%u", inst->sub == 1 ? (unsigned)number : (unsigned)inst->arg);
    else
        id_expression(w, inst, &text);
    set_text(w, number, &text);
}

static void statement(walk *w, uint32_t number)
{
    const bl_inst *inst = &w->linear->inst[number];
    switch ((int)inst->op) {
    case BL_OP_CONST:
    case BL_OP_VAR:
    case BL_OP_GROUP_ID:
    case BL_OP_LOCAL_ID:
        leaf(w, number);
        break;
    case BL_OP_BUFFER:
        leaf(w, number);
        if (inst->sub == 1 && !w->d->local_outside) {
            begin_line(w);
            w->d->local_buffer(w->out, text_of(w, number), (bl_dtype)inst->dtype, inst->arg);
        }
        break;
    case BL_OP_LOOP:
        loop_statement(w, number);
        break;
    case BL_OP_END:
        w->indent--;
        begin_line(w);
        bl_text_puts(w->out, "}\n");
        break;
    case BL_OP_ACC:
        acc_statement(w, number);
        break;
    case BL_OP_SET:
        set_statement(w, inst);
        break;
    case BL_OP_STORE:
        store_statement(w, inst);
        break;
    case BL_OP_BARRIER:
        begin_line(w);
        bl_text_printf(w->out, "%s;\n", w->d->barrier);
        break;
    default:
        value_statement(w, number);
        break;
    }
}

static bl_status walk_all(walk *w, const bl_device_info *info, bl_err *err)
{
    BL_TRY(w->d->begin(w->linear, info, w->out, err));
    w->indent = 1;
    for (uint32_t i = 0; i < w->linear->ninst && !w->out->failed; i++)
        statement(w, i);
    bl_text_puts(w->out, "}\n");
    return bl_text_status(w->out, err);
}

bl_status bl_render(const bl_linear *linear, const bl_device_info *info, bl_text *out, bl_err *err)
{
    walk w = {.linear = linear, .out = out, .d = info->dialect == BL_DIALECT_GLSL ? &dialect_glsl : &dialect_opencl};
    bl_status st = BL_OK;

    if (info->dialect == BL_DIALECT_LINEAR) {
        bl_linear_print(linear, out);
        return bl_text_status(out, err);
    }
    w.text = calloc(linear->ninst + 1, sizeof *w.text);
    w.is_acc = calloc(linear->ninst + 1, sizeof *w.is_acc);
    if (w.text == NULL || w.is_acc == NULL)
        st = bl_fail(err, BL_ENOMEM, "kernel source");
    else
        st = walk_all(&w, info, err);
    for (uint32_t i = 0; w.text != NULL && i < linear->ninst; i++)
        free(w.text[i]);
    free(w.text);
    free(w.is_acc);
    return st;
}
