/* SPDX-License-Identifier: MIT */
/* Operands: resolves a wire node's "in" and converts it to the dtypes of the signature. */
#include "engine/front/build.h"

#include <math.h>
#include <string.h>

static bl_dtype signed_of_bytes(size_t bytes)
{
    return bytes <= 1 ? BL_I8 : bytes == 2 ? BL_I16 : bytes == 4 ? BL_I32 : BL_I64;
}

/* PyTorch's promotion of two tensors. bool < integers < floats. An unsigned and a signed integer promote to the signed type
 * that holds both (at most int64). float16 and bfloat16 promote to float32. */
bl_dtype bl_dtype_promote(bl_dtype a, bl_dtype b)
{
    size_t a_bytes = bl_dtype_bytes(a);
    size_t b_bytes = bl_dtype_bytes(b);
    bl_dtype_kind a_kind = bl_dtype_get_kind(a);
    bl_dtype_kind b_kind = bl_dtype_get_kind(b);

    if (a == b || b == BL_BOOL)
        return a;
    if (a == BL_BOOL)
        return b;
    if (a_kind == BL_KIND_FLOAT && b_kind == BL_KIND_FLOAT)
        return a_bytes == b_bytes ? BL_F32 : a_bytes > b_bytes ? a : b;
    if (a_kind == BL_KIND_FLOAT || b_kind == BL_KIND_FLOAT)
        return a_kind == BL_KIND_FLOAT ? a : b;
    if (a_kind == b_kind)
        return a_bytes > b_bytes ? a : b;
    size_t unsigned_bytes = a_kind == BL_KIND_UINT ? a_bytes : b_bytes;
    size_t signed_bytes = a_kind == BL_KIND_UINT ? b_bytes : a_bytes;
    return signed_of_bytes(signed_bytes > unsigned_bytes ? signed_bytes : 2 * unsigned_bytes);
}

/* Does an integer literal fit |dtype|? A float may round it but not overflow. */
static bool whole_fits(bl_dtype dtype, const bl_wire_number *number, bl_scalar *out)
{
    bl_scalar highest = bl_scalar_highest(dtype);
    uint64_t magnitude = number->magnitude;

    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        *out = bl_scalar_fit(dtype, (bl_scalar){.f = number->value});
        return isfinite(out->f);
    case BL_KIND_BOOL:
        out->u = magnitude;
        return magnitude <= (number->negative ? 0u : 1u);
    case BL_KIND_UINT:
        out->u = magnitude;
        return number->negative ? magnitude == 0 : magnitude <= highest.u;
    case BL_KIND_INT:
        out->i = (int64_t)(number->negative ? 0 - magnitude : magnitude);
        return magnitude <= (uint64_t)highest.i + (number->negative ? 1u : 0u);
    }
    return false;
}

const bl_node *bl_call_literal(bl_call *c, bl_dtype dtype, const bl_wire_number *number)
{
    bl_scalar value = {.f = number->value};

    if (!number->whole && !bl_dtype_is_float(dtype))
        return bl_call_fail(c, "%g is not a value of %s", number->value, bl_dtype_name(dtype));
    if (number->whole && !whole_fits(dtype, number, &value))
        return bl_call_fail(c, "%s%llu does not fit %s", number->negative ? "-" : "", (unsigned long long)number->magnitude,
                            bl_dtype_name(dtype));
    return bl_const(c->ir, dtype, value);
}

static const bl_sig_param *operand_param_of(const bl_call *c, int ref)
{
    int last = c->sig.ninputs - 1;
    return &c->sig.input[ref > last ? last : ref];
}

static bool check_count(bl_call *c)
{
    int required = 0;
    bool many = c->sig.ninputs > 0 && c->sig.input[c->sig.ninputs - 1].many;

    for (int i = 0; i < c->sig.ninputs; i++)
        required += c->sig.input[i].optional ? 0 : 1;
    if (c->node->nrefs >= required && (many || c->node->nrefs <= c->sig.ninputs))
        return true;
    bl_call_fail(c, "takes %s%d input%s, got %d",
                 many                        ? "at least "
                 : required < c->sig.ninputs ? "up to "
                                             : "",
                 many ? required : c->sig.ninputs, (many ? required : c->sig.ninputs) == 1 ? "" : "s", c->node->nrefs);
    return false;
}

/* The common dtype of all inputs of |kind|, by the API's rules for literals; BL_DTYPE_COUNT if there are none. */
static bl_dtype common_dtype(const bl_call *c, const bl_node *const *in, bl_sig_kind kind)
{
    bl_dtype dtype = BL_DTYPE_COUNT;
    bool literal = false;
    bool fraction = false;

    for (int i = 0; i < c->node->nrefs; i++) {
        const bl_wire_ref *ref = &c->node->refs[i];
        if (operand_param_of(c, i)->kind != kind)
            continue;
        if (ref->kind == BL_REF_LITERAL) {
            literal = true;
            fraction = fraction || !ref->literal.whole;
        } else {
            dtype = dtype == BL_DTYPE_COUNT ? (bl_dtype)in[i]->dtype : bl_dtype_promote(dtype, (bl_dtype)in[i]->dtype);
        }
    }
    if (dtype == BL_DTYPE_COUNT && literal)
        dtype = (kind == BL_SIG_INT || kind == BL_SIG_BITS) && !fraction ? BL_I64 : BL_F32;
    if (dtype == BL_DTYPE_COUNT)
        return dtype;
    if ((fraction || kind == BL_SIG_FLOAT) && !bl_dtype_is_float(dtype))
        dtype = BL_F32;
    return dtype;
}

static bool operand_check_kind(bl_call *c, int at, bl_sig_kind kind, bl_dtype dtype)
{
    const bl_sig_param *p = operand_param_of(c, at);
    bool ok = true;

    if (kind == BL_SIG_INT)
        ok = bl_dtype_is_int(dtype);
    else if (kind == BL_SIG_BITS)
        ok = !bl_dtype_is_float(dtype);
    else if (kind == BL_SIG_WRT)
        ok = bl_dtype_is_float(dtype);
    if (!ok)
        bl_call_fail(c, "%.*s must be %s, not %s", (int)p->name.len, p->name.data,
                     kind == BL_SIG_INT    ? "integers"
                     : kind == BL_SIG_BITS ? "integers or bool"
                                           : "floats",
                     bl_dtype_name(dtype));
    return ok;
}

/* Operand |at| (NULL for a literal) as |dtype|. */
static const bl_node *operand_convert(bl_call *c, int at, const bl_node *x, bl_dtype dtype)
{
    const bl_wire_ref *ref = &c->node->refs[at];
    return x == NULL ? bl_call_literal(c, dtype, &ref->literal) : bl_cast(c->ir, dtype, x);
}

static const bl_node *take_one(bl_call *c, int at, const bl_node *x, const bl_dtype *common)
{
    bl_sig_kind kind = operand_param_of(c, at)->kind;
    const bl_wire_number *literal = &c->node->refs[at].literal;

    if (kind == BL_SIG_BOOL)
        return x != NULL ? bl_cast(c->ir, BL_BOOL, x) : bl_const_int(c->ir, BL_BOOL, literal->value != 0);
    if (kind == BL_SIG_ANY || kind == BL_SIG_WRT) {
        if (x == NULL && kind == BL_SIG_WRT)
            return bl_call_fail(c, "%.*s cannot be a literal", (int)operand_param_of(c, at)->name.len,
                                operand_param_of(c, at)->name.data);
        if (x != NULL && !operand_check_kind(c, at, kind, (bl_dtype)x->dtype))
            return NULL;
        return x != NULL ? x : operand_convert(c, at, NULL, BL_F32);
    }
    return operand_check_kind(c, at, kind, common[kind]) ? operand_convert(c, at, x, common[kind]) : NULL;
}

bool bl_call_take_inputs(bl_call *c)
{
    int n = c->node->nrefs;
    bl_dtype common[BL_SIG_ANY];

    if (!check_count(c))
        return false;
    const bl_node **in = bl_arena_array(bl_ir_arena(c->ir), (size_t)n, sizeof *in);
    if (in == NULL)
        return false;
    for (int i = 0; i < n; i++)
        in[i] = c->operand[i];
    for (int kind = 0; kind < BL_SIG_ANY; kind++)
        common[kind] = common_dtype(c, in, (bl_sig_kind)kind);
    for (int i = 0; i < n; i++) {
        in[i] = take_one(c, i, in[i], common);
        if (in[i] == NULL || in[i]->op == BL_OP_POISON)
            return false;
    }
    int fixed = c->sig.ninputs;
    if (fixed > 0 && c->sig.input[fixed - 1].many)
        fixed--;
    for (int i = 0; i < fixed && i < n; i++)
        c->in[i] = in[i];
    c->first_rest = fixed < n ? fixed : n;
    c->nrest = n - c->first_rest;
    c->rest = in + c->first_rest;
    return true;
}

const bl_node *bl_call_rate(bl_call *c, const bl_value *value, bl_dtype dtype)
{
    if (value->text == NULL)
        return bl_const_float(c->ir, dtype, value->number.value);
    const bl_node *x = value->ref != NULL ? bl_build_get(c->build, value->ref) : NULL;
    if (x == NULL)
        return bl_call_fail(c, "no input, state or earlier node is named \"%s\"", value->text);
    if (x->dtype != BL_F32 || x->ndim != 0)
        return bl_call_fail(c, "\"%s\" must be a float32 scalar, not %s", value->text, bl_node_text(c->ir, x));
    return bl_cast(c->ir, dtype, x);
}
