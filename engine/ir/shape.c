/* SPDX-License-Identifier: MIT */
#include "engine/ir/shape.h"

#include "engine/base/map.h"
#include "engine/base/size.h"
#include "engine/base/text.h"
#include "engine/ir/eval.h"
#include "engine/ir/private.h"

#include <limits.h>

enum {
    MAX_EXTENT_STEPS = 512, /* limit of visits of bl_extent_eval, which visits a node once per use; also limits its recursion */
    MAX_TEXT_DEPTH = 24
};

const bl_node *bl_shape_count(bl_ir *ir, int ndim, const bl_node *const *dim)
{
    const bl_node *count = bl_index(ir, 1);

    for (int i = 0; i < ndim; i++)
        count = bl_mul(ir, count, dim[i]);
    return count;
}

bool bl_shape_max_count(int ndim, const bl_node *const *dim, int64_t *count)
{
    *count = 1;
    for (int i = 0; i < ndim; i++) {
        if (dim[i]->hi < 0 || !bl_i64_mul(*count, dim[i]->hi, count))
            return false;
    }
    return true;
}

bool bl_shape_equal(const bl_node *a, const bl_node *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->dim[i] != b->dim[i])
            return false;
    }
    return true;
}

static bool is_extent_op(const bl_node *node)
{
    if (node->ndim != 0 || (node->dtype != BL_INDEX && node->dtype != BL_BOOL))
        return false;
    if (node->op == BL_OP_CONST || node->op == BL_OP_VAR)
        return true;
    return bl_op_get_class((bl_op)node->op) == BL_CLASS_ALU && node->op != BL_OP_CAST && node->op != BL_OP_BITCAST;
}

static bool is_simple(const bl_node *extent, int *steps)
{
    if (--*steps < 0 || !is_extent_op(extent))
        return false;
    for (uint32_t i = 0; i < extent->nsrc; i++) {
        if (!is_simple(extent->src[i], steps))
            return false;
    }
    return true;
}

bool bl_extent_is_simple(const bl_node *extent)
{
    int steps = MAX_EXTENT_STEPS;

    return is_simple(extent, &steps);
}

int64_t bl_extent_eval(const bl_node *extent, const int64_t *vars)
{
    bl_scalar operand[3] = {{.i = 0}, {.i = 0}, {.i = 0}};

    if (extent->op == BL_OP_CONST)
        return extent->arg;
    if (extent->op == BL_OP_VAR)
        return vars[extent->arg];
    for (uint32_t i = 0; i < extent->nsrc; i++)
        operand[i].i = bl_extent_eval(extent->src[i], vars);
    return bl_eval((bl_op)extent->op, (bl_dtype)extent->src[extent->nsrc == 1 ? 0 : 1]->dtype, operand).i;
}

const bl_node *bl_extent_copy(bl_arena *arena, bl_ptrmap *copies, const bl_node *extent)
{
    bl_node *copy = bl_ptrmap_get(copies, extent);
    const bl_node **src = NULL;

    if (copy != NULL)
        return copy;
    copy = bl_arena_alloc(arena, sizeof *copy);
    src = bl_arena_array(arena, extent->nsrc, sizeof *src);
    if (copy == NULL || src == NULL)
        return NULL;
    for (uint32_t i = 0; i < extent->nsrc; i++)
        src[i] = bl_extent_copy(arena, copies, extent->src[i]);
    *copy = *extent;
    copy->src = src;
    bl_ptrmap_put(copies, extent, copy);
    return copy;
}

/* A text of bounded length. */
enum { LONGEST_TEXT = 400 };

typedef struct short_text {
    bl_text text;
    const char *const *names; /* names of the |nnames| named dimensions */
    const int64_t *steps;     /* likewise; NULL: all are 1 */
    int nnames;
} short_text;

static const char *infix(bl_op op)
{
    if (op == BL_OP_ADD)
        return " + ";
    if (op == BL_OP_MUL)
        return "*";
    return op == BL_OP_IDIV ? " // " : op == BL_OP_MOD ? " % " : NULL;
}

/* Print |times| VARs as a multiple or a fraction of the named dimension whose steps the VAR counts. */
static void shape_put_var(short_text *text, const bl_node *var, int64_t times)
{
    bool named = var->arg < text->nnames && text->names[var->arg] != NULL;
    int64_t step = named && text->steps != NULL ? text->steps[var->arg] : 1;

    if (times % step == 0 && times != step)
        bl_text_printf(&text->text, "%lld*", (long long)(times / step));
    else if (times % step != 0 && step % times != 0)
        bl_text_printf(&text->text, "%lld*", (long long)times);
    if (named)
        bl_text_printf(&text->text, "%s", text->names[var->arg]);
    else
        bl_text_printf(&text->text, "d%lld", (long long)var->arg);
    if (times % step != 0)
        bl_text_printf(&text->text, "/%lld", (long long)(step % times == 0 ? step / times : step));
}

/* Is |extent| a VAR that counts steps, times a positive constant? */
static bool is_scaled(const short_text *text, const bl_node *extent, const bl_node **var, int64_t *times)
{
    *var = extent;
    *times = 1;
    if (extent->op == BL_OP_MUL && extent->src[0]->op == BL_OP_VAR && extent->src[1]->op == BL_OP_CONST) {
        *var = extent->src[0];
        *times = extent->src[1]->arg;
    }
    return (*var)->op == BL_OP_VAR && *times > 0 && text->steps != NULL && (*var)->arg < text->nnames &&
           text->steps[(*var)->arg] > 1;
}

/* Every leaf prints something, and a full text ends the walk, so a shared expression cannot take exponential time. */
static void put_extent(short_text *text, const bl_node *extent, int depth, bool grouped)
{
    const char *sign = infix((bl_op)extent->op);
    const bl_node *var;
    int64_t times;

    if (text->text.len >= LONGEST_TEXT)
        return;
    if (extent->op == BL_OP_CONST) {
        bl_text_printf(&text->text, "%lld", (long long)extent->arg);
    } else if (is_scaled(text, extent, &var, &times)) {
        shape_put_var(text, var, times);
    } else if (extent->op == BL_OP_VAR) {
        shape_put_var(text, extent, 1);
    } else if (sign == NULL || depth > MAX_TEXT_DEPTH) {
        bl_text_printf(&text->text, "(...)");
    } else {
        bl_text_printf(&text->text, "%s", grouped ? "(" : "");
        put_extent(text, extent->src[0], depth + 1, extent->op != BL_OP_ADD && extent->src[0]->op != BL_OP_MUL);
        bl_text_printf(&text->text, "%s", sign);
        put_extent(text, extent->src[1], depth + 1, extent->op != BL_OP_ADD || extent->src[1]->op == BL_OP_ADD);
        bl_text_printf(&text->text, "%s", grouped ? ")" : "");
    }
}

static void shape_put_shape(short_text *text, int ndim, const bl_node *const *dim)
{
    bl_text_printf(&text->text, "[");
    for (int i = 0; i < ndim; i++) {
        bl_text_printf(&text->text, "%s", i == 0 ? "" : ", ");
        put_extent(text, dim[i], 0, false);
    }
    bl_text_printf(&text->text, "]");
}

static const char *shape_keep_text(bl_ir *ir, short_text *text)
{
    size_t len = text->text.len < LONGEST_TEXT ? text->text.len : LONGEST_TEXT;
    const char *kept = bl_arena_strndup(ir->arena, bl_text_get(&text->text), len);

    bl_text_fini(&text->text);
    return kept != NULL ? kept : "";
}

const char *bl_shape_text(bl_ir *ir, int ndim, const bl_node *const *dim, const char *const *var_names)
{
    short_text text = {.names = var_names, .nnames = INT_MAX};

    if (var_names == NULL) {
        text.names = ir->var_names;
        text.steps = ir->var_steps;
        text.nnames = ir->nvar_names;
    }
    shape_put_shape(&text, ndim, dim);
    return shape_keep_text(ir, &text);
}

const char *bl_size_text(bl_ir *ir, const bl_node *extent)
{
    short_text text = {.names = ir->var_names, .nnames = ir->nvar_names};

    put_extent(&text, extent, 0, false);
    return shape_keep_text(ir, &text);
}

const char *bl_node_text(bl_ir *ir, const bl_node *node)
{
    short_text text = {.names = ir->var_names, .steps = ir->var_steps, .nnames = ir->nvar_names};

    bl_text_printf(&text.text, "%s", bl_dtype_name((bl_dtype)node->dtype));
    shape_put_shape(&text, node->ndim, node->dim);
    return shape_keep_text(ir, &text);
}

void bl_ir_name_vars(bl_ir *ir, int count, const char *const *names, const int64_t *steps)
{
    ir->var_steps = steps;
    ir->var_names = names;
    ir->nvar_names = count;
}
