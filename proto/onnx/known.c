/* SPDX-License-Identifier: MIT */
#include "proto/onnx/import.h"

#include <math.h>
#include <string.h>

enum { MAX_SIZE_TEXT = 4096, MAX_SIZE_DEPTH = 12, MAX_STACKED = 256 };

bl_onnx_known *bl_onnx_new_known(bl_onnx_importer *m, bl_dtype dtype, int ndim, const int64_t *dim)
{
    bl_onnx_known *known = bl_arena_alloc(m->scratch, sizeof *known);
    int64_t count = 1;

    for (int i = 0; i < ndim; i++) {
        if (dim[i] < 0 || dim[i] > BL_ONNX_MAX_KNOWN)
            return NULL;
        count = count * dim[i] > BL_ONNX_MAX_KNOWN ? BL_ONNX_MAX_KNOWN + 1 : count * dim[i];
    }
    if (known == NULL || ndim > BL_MAX_DIMS || count > BL_ONNX_MAX_KNOWN)
        return NULL;
    *known = (bl_onnx_known){.dtype = dtype, .ndim = ndim, .count = (int)count};
    for (int i = 0; i < ndim; i++)
        known->dim[i] = dim[i];
    if (bl_dtype_is_float(dtype))
        known->real = bl_arena_array(m->scratch, (size_t)count, sizeof *known->real);
    else
        known->size = bl_arena_array(m->scratch, (size_t)count, sizeof *known->size);
    return known->real != NULL || known->size != NULL ? known : NULL;
}

const bl_onnx_known *bl_onnx_read_content(bl_onnx_importer *m, const bl_tensor_value *content)
{
    bl_onnx_known *known = bl_onnx_new_known(m, content->dtype, content->ndim, content->dim);

    for (int i = 0; known != NULL && i < known->count; i++) {
        bl_scalar value = bl_scalar_read(content->dtype, content->span.data + (size_t)i * bl_dtype_bytes(content->dtype));
        if (known->real != NULL)
            known->real[i] = value.f;
        else if (content->dtype == BL_U64 && value.u > INT64_MAX)
            return NULL;
        else
            known->size[i] = bl_index(m->ir, value.i);
    }
    return known;
}

/* Reads the elements of a tensor of the file. */
static const bl_onnx_known *known_read_tensor(bl_onnx_importer *m, const Onnx__TensorProto *tensor)
{
    bl_tensor_value content;
    bl_status st = bl_onnx_shape(m, tensor, &content, m->err);

    if (st == BL_OK && bl_onnx_new_known(m, content.dtype, content.ndim, content.dim) == NULL)
        return NULL;
    if (st == BL_OK)
        st = bl_onnx_tensor(m, tensor, &content, m->err);
    m->failed = m->failed || st != BL_OK;
    return st == BL_OK ? bl_onnx_read_content(m, &content) : NULL;
}

const bl_onnx_known *bl_onnx_know(bl_onnx_importer *m, bl_onnx_value *value)
{
    if (value == NULL || value->known != NULL || value->unknown == m->round || value->type == NULL || m->failed)
        return value != NULL ? value->known : NULL;
    if (value->tensor != NULL)
        value->known = known_read_tensor(m, value->tensor);
    else if (value->graph != NULL)
        value->known = bl_onnx_compute(m, value->graph, value->type);
    value->unknown = value->known == NULL ? m->round : 0;
    return value->known;
}

bl_onnx_value *bl_onnx_content_value(bl_onnx_importer *m, const bl_tensor_value *content)
{
    return content->kind == BL_VALUE_BYTES ? bl_onnx_known_value(m, bl_onnx_read_content(m, content)) : NULL;
}

static const bl_node *known_type_of(bl_onnx_importer *m, bl_dtype dtype, int ndim, const int64_t *extent)
{
    const bl_node *dim[BL_MAX_DIMS] = {0};

    for (int i = 0; i < ndim; i++)
        dim[i] = bl_index(m->ir, extent[i]);
    return bl_input(m->ir, 0, dtype, ndim, dim);
}

bl_onnx_value *bl_onnx_known_value(bl_onnx_importer *m, const bl_onnx_known *known)
{
    bl_onnx_value *value =
        known != NULL ? bl_onnx_new_value(m, NULL, known_type_of(m, known->dtype, known->ndim, known->dim)) : NULL;

    if (value != NULL)
        value->known = known;
    return value;
}

bl_onnx_value *bl_onnx_known_tensor(bl_onnx_importer *m, const Onnx__TensorProto *tensor)
{
    bl_tensor_value content;
    bl_onnx_value *value;

    if (bl_onnx_shape(m, tensor, &content, m->err) != BL_OK) {
        m->failed = true;
        return NULL;
    }
    value = bl_onnx_new_value(m, NULL, known_type_of(m, content.dtype, content.ndim, content.dim));
    if (value != NULL) {
        value->tensor = tensor;
        value->narrow = bl_onnx_narrow_find(tensor->data_type);
        value->texts = bl_onnx_is_strings(tensor->data_type);
    }
    return value;
}

bl_onnx_value *bl_onnx_known_sizes(bl_onnx_importer *m, int count, const bl_node *const *size)
{
    bl_onnx_known *known = bl_onnx_new_known(m, BL_I64, 1, &(int64_t){count});

    for (int i = 0; known != NULL && i < count; i++)
        known->size[i] = size[i];
    return bl_onnx_known_value(m, known);
}

bl_onnx_value *bl_onnx_size_value(bl_onnx_call *c, const bl_node *size)
{
    bl_onnx_known *known = bl_onnx_new_known(c->import, BL_I64, 0, NULL);

    if (known != NULL)
        known->size[0] = size;
    return bl_onnx_known_value(c->import, known);
}

bl_onnx_value *bl_onnx_known_ints(bl_onnx_importer *m, int count, const int64_t *value)
{
    bl_onnx_known *known = bl_onnx_new_known(m, BL_I64, 1, &(int64_t){count});

    for (int i = 0; known != NULL && i < count; i++)
        known->size[i] = bl_index(m->ir, value[i]);
    return bl_onnx_known_value(m, known);
}

bl_onnx_value *bl_onnx_known_real(bl_onnx_importer *m, bl_dtype dtype, double value)
{
    bl_onnx_known *known = bl_onnx_new_known(m, dtype, 0, NULL);

    if (known != NULL && known->real != NULL)
        known->real[0] = bl_scalar_fit(dtype, (bl_scalar){.f = value}).f;
    else if (known != NULL)
        known->size[0] = bl_index(m->ir, (int64_t)value);
    return bl_onnx_known_value(m, known);
}

/* ---- sizes as text */

/* The op's operator in a size expression, or NULL. */
static const char *sign_of(const bl_node *size)
{
    static const struct {
        bl_op op;
        const char *sign;
    } signs[] = {{BL_OP_ADD, " + "}, {BL_OP_SUB, " - "}, {BL_OP_MUL, " * "}, {BL_OP_IDIV, " // "}, {BL_OP_MOD, " % "}};

    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (signs[i].op == (bl_op)size->op)
            return signs[i].sign;
    }
    return NULL;
}

/* A VAR counts multiples of the step, but the name in a size expression is the size. */
static void known_put_var(bl_text *text, const bl_wire_var *var)
{
    if (bl_wire_var_step(var) > 1)
        bl_text_printf(text, "(%s // %lld)", var->name, (long long)var->step);
    else
        bl_text_puts(text, var->name);
}

static bool put_size(bl_onnx_importer *m, bl_text *text, const bl_node *size, bool inside, int depth)
{
    const char *sign = sign_of(size);

    if (size->op == BL_OP_CONST)
        bl_text_printf(text, "%lld", (long long)size->arg);
    if (size->op == BL_OP_VAR)
        known_put_var(text, &m->vars[size->arg]);
    if (sign == NULL)
        return size->op == BL_OP_CONST || size->op == BL_OP_VAR;
    if (depth > MAX_SIZE_DEPTH || text->len > MAX_SIZE_TEXT)
        return false;
    bool sum = size->op == BL_OP_ADD, chain = sum && size->src[0]->op == BL_OP_ADD;
    bl_text_puts(text, inside ? "(" : "");
    bool good = put_size(m, text, size->src[0], !chain && !(sum && size->src[0]->nsrc < 2), depth + !chain);
    bl_text_puts(text, sign);
    good = good && put_size(m, text, size->src[1], true, depth + 1);
    bl_text_puts(text, inside ? ")" : "");
    return good;
}

const char *bl_onnx_size_text(bl_onnx_importer *m, const bl_node *size)
{
    bl_text text = {0};
    bool good = put_size(m, &text, size, false, 0) && !text.failed;
    const char *kept = good ? bl_arena_strdup(m->arena, bl_text_get(&text)) : NULL;

    bl_text_fini(&text);
    return kept;
}

/* ---- known values as wire nodes */

static bool all_constant(const bl_onnx_known *known)
{
    for (int i = 0; known->size != NULL && i < known->count; i++) {
        if (!bl_is_const(known->size[i]))
            return false;
    }
    return true;
}

static bool all_equal(const bl_onnx_known *known)
{
    for (int i = 1; i < known->count; i++) {
        bool same = known->size != NULL ? known->size[i] == known->size[0]
                                        : memcmp(&known->real[i], &known->real[0], sizeof *known->real) == 0;
        if (!same)
            return false;
    }
    return true;
}

/* Writes a float element that contains named dimensions. */
static bl_onnx_value *write_fraction(bl_onnx_call *c, const bl_onnx_known *known, int at, int ndim)
{
    const bl_node *num = NULL;
    int64_t den = 1;

    if (!bl_fraction_get(c->import->ir, known->size[at], &num, &den))
        return bl_onnx_make(c, "full(shape=$0, value=$1, dtype=$2)",
                            ARGS(IS(ndim, known->dim), R(bl_const_value(known->size[at]).f), D(known->dtype)));
    return bl_onnx_make(c, "div(full(shape=$0, value=$1, dtype=$2), $3)",
                        ARGS(IS(ndim, known->dim), bl_is_const(num) ? I(num->lo) : ZS(-1, &num), D(known->dtype), I(den)));
}

/* Writes "full" of one element with a shape. */
static bl_onnx_value *write_full(bl_onnx_call *c, const bl_onnx_known *known, int at, int ndim)
{
    bl_write_arg value = R(known->real != NULL && known->count > 0 ? known->real[at] : 0);

    if (known->size != NULL && known->count > 0 && bl_dtype_is_float(known->dtype))
        return write_fraction(c, known, at, ndim);
    if (known->size != NULL && known->count > 0)
        value = bl_is_const(known->size[at]) ? I(bl_const_value(known->size[at]).i) : ZS(-1, &known->size[at]);
    if (known->dtype == BL_BOOL && value.kind == BL_WRITE_INT)
        value = B(value.whole != 0);
    return bl_onnx_make(c, "full(shape=$0, value=$1, dtype=$2)", ARGS(IS(ndim, known->dim), value, D(known->dtype)));
}

static bl_onnx_value *write_stack(bl_onnx_call *c, const bl_onnx_known *known)
{
    bl_onnx_value *item[MAX_STACKED];

    if (known->count > MAX_STACKED)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%d elements with named dimensions in them", known->count);
    for (int i = 0; i < known->count; i++)
        item[i] = write_full(c, known, i, 0);
    return bl_onnx_make(c, "reshape(stack($0...), shape=$1)", ARGS(VS(known->count, item), IS(known->ndim, known->dim)));
}

static bl_wire_ref write_state(bl_onnx_importer *m, const char *name, const bl_onnx_known *known)
{
    size_t width = bl_dtype_bytes(known->dtype);
    bl_tensor_value content = {.kind = BL_VALUE_BYTES, .dtype = known->dtype, .ndim = known->ndim, .count = (size_t)known->count};
    char *bytes = bl_arena_array(m->arena, content.count, width);

    for (int i = 0; bytes != NULL && i < known->count; i++) {
        bl_scalar value = {.f = 0};
        if (known->real != NULL)
            value.f = known->real[i];
        else
            value.i = bl_const_value(known->size[i]).i;
        bl_scalar_write(known->dtype, value, bytes + (size_t)i * width);
    }
    for (int i = 0; i < known->ndim; i++)
        content.dim[i] = known->dim[i];
    content.bytes = content.count * width;
    content.span = (bl_span){bytes, content.bytes};
    return bl_onnx_add_state(m, name, &content);
}

bl_wire_ref bl_onnx_write_known(bl_onnx_importer *m, bl_onnx_graph *graph, const char *name, const bl_onnx_known *known)
{
    static const Onnx__NodeProto nothing = ONNX__NODE_PROTO__INIT;
    bl_onnx_call c = {.import = m, .graph = graph, .node = &nothing, .label = name != NULL ? bl_onnx_clean(m, name) : "constant"};
    bl_onnx_value *made;

    if (!all_equal(known) && all_constant(known))
        return write_state(m, c.label, known);
    made = all_equal(known) ? write_full(&c, known, 0, known->ndim) : write_stack(&c, known);
    return made != NULL ? made->ref : (bl_wire_ref){0};
}

/* ---- inputs that must be known */

static const bl_onnx_known *need_known(bl_onnx_call *c, int i)
{
    const bl_onnx_known *known = bl_onnx_know(c->import, c->in[i]);

    if (known == NULL)
        bl_onnx_fail_unknown(c, i, "");
    return known;
}

int bl_onnx_in_sizes(bl_onnx_call *c, int i, const bl_node *const **out)
{
    const bl_onnx_known *known;

    *out = NULL;
    if (i >= c->nin || c->in[i] == NULL)
        return -1;
    known = need_known(c, i);
    bool whole = known != NULL && !bl_dtype_is_float(known->dtype);
    if (known != NULL && !whole)
        bl_onnx_fail(c, "input %d must be integers", i);
    if (!whole)
        return -1;
    *out = known->size;
    return known->count;
}

int bl_onnx_in_ints(bl_onnx_call *c, int i, const int64_t **out)
{
    const bl_node *const *size;
    int n = bl_onnx_in_sizes(c, i, &size);
    int64_t *value = n >= 0 ? bl_arena_array(c->import->scratch, (size_t)n, sizeof *value) : NULL;

    *out = value;
    for (int k = 0; k < n && value != NULL; k++) {
        if (!bl_is_const(size[k])) {
            bl_onnx_fail(c, "input %d contains the named dimension %s; it must be a number", i,
                         bl_shape_text(c->import->ir, 1, &size[k], NULL));
            return -1;
        }
        value[k] = bl_const_value(size[k]).i;
    }
    return value != NULL ? n : -1;
}

int bl_onnx_in_reals(bl_onnx_call *c, int i, const double **out)
{
    const bl_onnx_known *known;

    *out = NULL;
    if (i >= c->nin || c->in[i] == NULL)
        return -1;
    known = need_known(c, i);
    if (known != NULL && known->real == NULL)
        bl_onnx_fail(c,
                     bl_dtype_is_float(known->dtype) ? "input %d contains a named dimension; it must be a number"
                                                     : "input %d must be floats",
                     i);
    if (known == NULL || known->real == NULL)
        return -1;
    *out = known->real;
    return known->count;
}

bool bl_onnx_in_fraction(bl_onnx_call *c, int i, const bl_node **num, int64_t *den)
{
    const bl_onnx_known *known = bl_onnx_in(c, i) != NULL ? need_known(c, i) : NULL;
    bl_ir *ir = c->import->ir;

    if (known == NULL || known->count != 1 || !bl_dtype_is_float(known->dtype))
        return false;
    return bl_fraction_get(ir, known->real != NULL ? bl_const(ir, BL_F64, (bl_scalar){.f = known->real[0]}) : known->size[0], num,
                           den);
}

int bl_onnx_ints_or_in(bl_onnx_call *c, const char *name, int i, const int64_t **out)
{
    int n = bl_onnx_ints(c, name, out);

    return n >= 0 ? n : bl_onnx_in_ints(c, i, out);
}
