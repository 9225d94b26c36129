/* SPDX-License-Identifier: MIT */
#include "proto/base64.h"
#include "proto/decode_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 128, MAX_RANK = 16 };

bool bl_wire_name_ok(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char rest[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.:/-";
    size_t len = strlen(name);

    return len > 0 && len <= MAX_NAME && strchr(first, name[0]) != NULL && strspn(name, rest) == len &&
           strcmp(name, "NaN") != 0 && strcmp(name, "Infinity") != 0;
}

bl_status bl_decode_name(bl_decoder *d, const bl_json *at, const char *name, const char **out, bl_err *err)
{
    if (!bl_wire_name_ok(name))
        return bl_json_fail(at, err, BL_EGRAPH,
                            "\"%.140s\" is not a valid name; a name is a letter or _, then at most 127 letters, digits and _ . : "
                            "/ -, and not NaN or Infinity",
                            name);
    *out = bl_arena_strdup(d->arena, name);
    return *out != NULL ? BL_OK : bl_arena_status(d->arena, err);
}

/* ---- named dimensions */

bl_status bl_decode_range(const bl_json *at, bl_wire_var *out, bl_err *err)
{
    int64_t ends[3] = {0, 0, 1};
    bl_json_iter it = bl_json_each(at);
    bl_json bound;
    size_t count = at->kind == BL_JSON_ARRAY ? bl_json_count(at) : 0;

    if (at->kind == BL_JSON_NUMBER) {
        BL_TRY(bl_json_int(at, 0, BL_WIRE_MAX_EXTENT, &ends[0], err));
        out->lo = out->hi = ends[0];
        out->step = 1;
        return BL_OK;
    }
    if (count != 2 && count != 3)
        return bl_json_fail(at, err, BL_EINVAL, "expected [smallest, largest], [smallest, largest, step] or a size");
    for (int i = 0; bl_json_next(&it, &bound); i++)
        BL_TRY(bl_json_int(&bound, i == 2, BL_WIRE_MAX_EXTENT, &ends[i], err));
    out->lo = ends[0];
    out->hi = ends[1];
    out->step = ends[2];
    if (bl_wire_var_round(out))
        return BL_OK;
    if (ends[2] > 1)
        return bl_json_fail(at, err, BL_EGRAPH, "the range %lld to %lld contains no multiple of %lld", (long long)ends[0],
                            (long long)ends[1], (long long)ends[2]);
    return bl_json_fail(at, err, BL_EGRAPH, "the range %lld to %lld is empty", (long long)ends[0], (long long)ends[1]);
}

bl_status bl_decode_ranges(bl_decoder *d, const bl_json *doc, bl_err *err)
{
    bl_json dims, range;

    if (!bl_json_find(doc, "dims", &dims))
        return BL_OK;
    BL_TRY(bl_json_expect(&dims, BL_JSON_OBJECT, err));
    bl_json_iter it = bl_json_each(&dims);
    while (bl_json_next(&it, &range)) {
        if (d->nranges == BL_WIRE_MAX_DIMS)
            return bl_json_fail(&dims, err, BL_ELIMIT, "more than %d named dimensions", BL_WIRE_MAX_DIMS);
        bl_dim_range *r = &d->ranges[d->nranges++];
        BL_TRY(bl_decode_name(d, &dims, range.key, &r->var.name, err));
        BL_TRY(bl_decode_range(&range, &r->var, err));
    }
    return BL_OK;
}

bl_status bl_decode_unused_ranges(const bl_decoder *d, const bl_json *doc, bl_err *err)
{
    for (int i = 0; i < d->nranges; i++) {
        if (!d->ranges[i].used)
            return bl_json_fail(doc, err, BL_EGRAPH, "dims.%s: no shape of an input and no attribute names this dimension",
                                d->ranges[i].var.name);
    }
    return BL_OK;
}

/* The number of the dimension |name| in the current graph; adds it if it is new. */
static bl_status use_dim(bl_decoder *d, const bl_json *at, const char *name, int *out, bl_err *err)
{
    bl_dim_use use = {.size = -1};

    for (int i = 0; i < d->nuses; i++) {
        if (strcmp(d->uses[i].var.name, name) == 0) {
            *out = i;
            return BL_OK;
        }
    }
    if (d->nuses == BL_WIRE_MAX_DIMS)
        return bl_json_fail(at, err, BL_ELIMIT, "more than %d named dimensions", BL_WIRE_MAX_DIMS);
    BL_TRY(bl_decode_name(d, at, name, &use.var.name, err));
    for (int i = 0; i < d->nranges; i++) {
        if (strcmp(d->ranges[i].var.name, name) == 0) {
            use.var = d->ranges[i].var;
            use.ranged = true;
            d->ranges[i].used = true;
        }
    }
    if (d->need_ranges && !use.ranged)
        return bl_json_fail(at, err, BL_EGRAPH, "the dimension \"%s\" has no range: add \"dims\": {\"%s\": [1, LARGEST]}", name,
                            name);
    d->uses[d->nuses] = use;
    *out = d->nuses++;
    return BL_OK;
}

bl_status bl_decode_bind(bl_decoder *d, const char *label, int use, int64_t size, bl_err *err)
{
    bl_dim_use *u = &d->uses[use];

    if (u->size >= 0 && u->size != size)
        return bl_fail(err, BL_EGRAPH, "%s: the dimension \"%s\" is %lld here and %lld elsewhere", label, u->var.name,
                       (long long)size, (long long)u->size);
    if (u->ranged && !bl_wire_var_has(&u->var, size)) {
        bl_text range = {0};
        bl_wire_var_print(&range, &u->var);
        bl_status st = bl_fail(err, BL_EGRAPH, "%s: the dimension \"%s\" is %lld, outside its range %s", label, u->var.name,
                               (long long)size, bl_text_get(&range));
        bl_text_fini(&range);
        return st;
    }
    u->size = size;
    return BL_OK;
}

bl_status bl_decode_use_names(bl_decoder *d, const bl_json *at, const char *text, bl_err *err)
{
    size_t len;
    int use;

    for (const char *word = text; *word != '\0'; word += len) {
        word += strspn(word, BL_SIZE_BREAKS);
        len = strcspn(word, BL_SIZE_BREAKS);
        for (int i = 0; i < d->nranges; i++) {
            const char *name = d->ranges[i].var.name;
            if (strlen(name) == len && memcmp(name, word, len) == 0)
                BL_TRY(use_dim(d, at, name, &use, err));
        }
    }
    return BL_OK;
}

bl_status bl_decode_sizes(bl_decoder *d, const bl_json *doc, bl_err *err)
{
    bl_json sizes, one;
    char label[160];
    int64_t size = 0;

    if (bl_json_find(doc, "sizes", &sizes)) {
        BL_TRY(bl_json_expect(&sizes, BL_JSON_OBJECT, err));
        bl_json_iter it = bl_json_each(&sizes);
        while (bl_json_next(&it, &one)) {
            int use = 0;
            while (use < d->nuses && strcmp(d->uses[use].var.name, one.key) != 0)
                use++;
            if (use == d->nuses)
                return bl_json_fail(&sizes, err, BL_EGRAPH, "unknown dimension \"%.140s\"", one.key);
            BL_TRY(bl_json_int(&one, 0, BL_WIRE_MAX_EXTENT, &size, err));
            snprintf(label, sizeof label, "sizes.%s", one.key);
            BL_TRY(bl_decode_bind(d, label, use, size, err));
        }
    }
    for (int i = 0; i < d->nuses; i++) {
        if (d->uses[i].size < 0)
            return bl_json_fail(doc, err, BL_EGRAPH, "sizes: \"%s\" is missing, and no shape of an input gives it",
                                d->uses[i].var.name);
    }
    return BL_OK;
}

/* ---- types */

bl_status bl_decode_dtype(const bl_json *at, bl_dtype *out, bl_err *err)
{
    bl_near near;

    BL_TRY(bl_json_expect(at, BL_JSON_STRING, err));
    *out = bl_dtype_from_name(at->text.data, at->text.len);
    if (*out != BL_DTYPE_COUNT)
        return BL_OK;
    bl_dtype_near(&near, at->text);
    return bl_json_fail(at, err, BL_EGRAPH, "no dtype is named \"%.*s\"%s", (int)(at->text.len < 40 ? at->text.len : 40),
                        at->text.data, bl_near_hint(&near));
}

bl_status bl_decode_shape(bl_decoder *d, const bl_json *shape, bool named, bl_wire_type *type, bl_err *err)
{
    size_t limit = d->env->limits.max_dims < MAX_RANK ? d->env->limits.max_dims : MAX_RANK;
    bl_json_iter it = bl_json_each(shape);
    bl_json extent;
    const char *name;

    BL_TRY(bl_json_expect(shape, BL_JSON_ARRAY, err));
    if (bl_json_count(shape) > limit)
        return bl_json_fail(shape, err, BL_ELIMIT, "%zu dimensions; the limit is %zu", bl_json_count(shape), limit);
    while (bl_json_next(&it, &extent)) {
        bl_wire_dim *dim = &type->dim[type->ndim++];
        dim->var = -1;
        if (named && extent.kind == BL_JSON_STRING) {
            BL_TRY(bl_json_string(&extent, &name, err));
            BL_TRY(use_dim(d, &extent, name, &dim->var, err));
        } else {
            BL_TRY(bl_json_int(&extent, 0, BL_WIRE_MAX_EXTENT, &dim->size, err));
        }
    }
    return BL_OK;
}

bl_status bl_decode_type(bl_decoder *d, const bl_json *at, bl_wire_type *type, bl_err *err)
{
    static const char *const names[] = {"dtype", "shape", NULL};
    bl_json dtype, shape;
    int64_t largest[MAX_RANK];
    size_t count, bytes;

    *type = (bl_wire_type){0};
    BL_TRY(bl_json_allow(at, names, err));
    BL_TRY(bl_json_need(at, "dtype", &dtype, err));
    BL_TRY(bl_json_need(at, "shape", &shape, err));
    BL_TRY(bl_decode_dtype(&dtype, &type->dtype, err));
    BL_TRY(bl_decode_shape(d, &shape, true, type, err));
    for (int i = 0; i < type->ndim; i++)
        largest[i] = type->dim[i].var < 0 ? type->dim[i].size : d->uses[type->dim[i].var].var.hi;
    return bl_tensor_measure(at->key, type->dtype, type->ndim, largest, &d->env->limits, &count, &bytes, err);
}

bl_wire_type bl_value_type(const bl_tensor_value *value)
{
    return bl_wire_type_make(value->dtype, value->ndim, value->dim);
}

static void print_type(bl_text *out, const bl_decoder *d, const bl_wire_type *type)
{
    const char *names[BL_WIRE_MAX_DIMS] = {NULL};

    for (int i = 0; i < d->nuses; i++)
        names[i] = d->uses[i].var.name;
    bl_wire_type_print(out, type, names);
}

bl_status bl_decode_match(bl_decoder *d, const bl_tensor_value *value, const bl_wire_type *type, bl_err *err)
{
    bool same = value->dtype == type->dtype && value->ndim == type->ndim;

    for (int i = 0; same && i < type->ndim; i++) {
        if (type->dim[i].var >= 0)
            BL_TRY(bl_decode_bind(d, value->label, type->dim[i].var, value->dim[i], err));
        else
            same = value->dim[i] == type->dim[i].size;
    }
    if (same)
        return BL_OK;
    bl_text text = {0};
    bl_wire_type got = bl_value_type(value);
    bl_text_puts(&text, "declared ");
    print_type(&text, d, type);
    bl_text_puts(&text, ", got ");
    print_type(&text, d, &got);
    bl_status st = bl_fail(err, BL_EGRAPH, "%s: %s", value->label, text.data != NULL ? text.data : "not of the declared type");
    bl_text_fini(&text);
    return st;
}

/* ---- values */

static bl_status measure_value(const bl_decoder *d, bl_tensor_value *v, bl_err *err)
{
    return bl_tensor_measure(v->label, v->dtype, v->ndim, v->dim, &d->env->limits, &v->count, &v->bytes, err);
}

static bl_status decode_value_set_shape(bl_decoder *d, const bl_json *shape, bl_tensor_value *v, bl_err *err)
{
    bl_wire_type type = {0};

    BL_TRY(bl_decode_shape(d, shape, false, &type, err));
    v->ndim = type.ndim;
    bl_wire_type_sizes(&type, v->dim);
    return BL_OK;
}

/* Makes a list from a scalar.  Constant text replaces strings and booleans of the tree, since the tree may be freed before the
 * value is read. */
static bool scalar_list(const bl_json *at, bl_list *out)
{
    static const char *const special[] = {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""};
    const char *text = at->boolean ? "true" : "false";
    double value;

    *out = (bl_list){.count = 1, .holds = BL_LIST_BOOLS};
    switch (at->kind) {
    case BL_JSON_NUMBER:
        out->holds = BL_LIST_NUMBERS;
        out->text = at->text;
        return true;
    case BL_JSON_BOOL:
        out->text = (bl_span){text, strlen(text)};
        return true;
    case BL_JSON_STRING:
        out->holds = BL_LIST_STRINGS;
        for (size_t i = 0; i < 3 && bl_json_nonfinite(at->text, &value); i++) {
            if (strncmp(special[i] + 1, at->text.data, at->text.len) == 0)
                out->text = (bl_span){special[i], strlen(special[i])};
        }
        return out->text.len > 0;
    case BL_JSON_NULL:
    case BL_JSON_ARRAY:
    case BL_JSON_OBJECT:
        break;
    }
    return false;
}

/* The dtype of a value without a declared one: depends on the kind of the elements, never on their digits. */
static bl_status default_dtype(const bl_json *at, bl_tensor_value *v, bl_err *err)
{
    if ((v->list.holds & BL_LIST_BOOLS) != 0 && v->list.holds != BL_LIST_BOOLS)
        return bl_json_fail(at, err, BL_EGRAPH, "the list mixes booleans and numbers; add its \"dtype\"");
    v->dtype = v->list.holds == BL_LIST_BOOLS ? BL_BOOL : BL_F32;
    return BL_OK;
}

/* Fails with the first element that a tensor's list cannot contain.  The limit on JSON's depth bounds the recursion. */
static bl_status decode_value_fail_element(const bl_json *at, bl_err *err)
{
    bl_json one;
    double value;
    bl_json_iter it = bl_json_each(at);
    while (err->status == BL_OK && bl_json_next(&it, &one)) {
        if (one.kind == BL_JSON_ARRAY && one.list == NULL)
            (void)decode_value_fail_element(&one, err);
        else if (one.kind == BL_JSON_STRING && !bl_json_nonfinite(one.text, &value))
            (void)bl_json_fail(&one, err, BL_EINVAL,
                               "expected a number, true, false, \"NaN\", \"Infinity\" or \"-Infinity\", got \"%.*s\"",
                               (int)(one.text.len < 60 ? one.text.len : 60), one.text.data);
        else if (one.kind == BL_JSON_NULL || one.kind == BL_JSON_OBJECT)
            (void)bl_json_fail(&one, err, BL_EINVAL, "expected a number, got %s",
                               one.kind == BL_JSON_NULL ? "null; write \"NaN\"" : "an object");
    }
    return err->status;
}

/* Sets v->list to the list at |at|, and v's shape to the shape of its nesting. */
static bl_status decode_value_take_list(const bl_decoder *d, const bl_json *at, bl_tensor_value *v, bl_err *err)
{
    size_t limit = d->env->limits.max_dims < MAX_RANK ? d->env->limits.max_dims : MAX_RANK;
    char where[96];

    v->kind = BL_VALUE_LIST;
    if (at->kind != BL_JSON_ARRAY && scalar_list(at, &v->list))
        return BL_OK;
    if (at->kind == BL_JSON_ARRAY && at->list == NULL && decode_value_fail_element(at, err) != BL_OK)
        return err->status;
    if (at->kind == BL_JSON_ARRAY && at->list == NULL)
        return bl_json_fail(at, err, BL_EINVAL,
                            "a list of a tensor may hold only numbers, true, false, \"NaN\", \"Infinity\", \"-Infinity\"");
    if (at->kind != BL_JSON_ARRAY)
        return bl_json_fail(at, err, BL_EINVAL, "expected a tensor: a list, a number, or an object that describes one");
    v->list = *at->list;
    if (v->list.depth > (int)limit)
        return bl_json_fail(at, err, BL_ELIMIT, "%d dimensions; the limit is %zu", v->list.depth, limit);
    if (v->list.ragged != NULL) {
        bl_json_where(at->doc, v->list.ragged, where, sizeof where);
        return bl_json_fail(at, err, BL_EGRAPH,
                            "the list is ragged: at %s, a length or depth differs from the first one at its level", where);
    }
    v->ndim = v->list.depth;
    memcpy(v->dim, v->list.dim, sizeof v->dim);
    return BL_OK;
}

/* Decodes {"dtype", "shape", "data"}; |data| is flat, or has the nesting of the shape. */
static bl_status decode_value_take_data(bl_decoder *d, const bl_json *at, const bl_json *data, bl_tensor_value *v, bl_err *err)
{
    bl_json shape;
    bl_tensor_value nested = *v;

    BL_TRY(decode_value_take_list(d, data, &nested, err));
    v->kind = BL_VALUE_LIST;
    v->list = nested.list;
    if (v->dtype == BL_DTYPE_COUNT)
        BL_TRY(default_dtype(data, v, err));
    if (!bl_json_find(at, "shape", &shape)) {
        v->ndim = nested.ndim;
        memcpy(v->dim, nested.dim, sizeof v->dim);
        return measure_value(d, v, err);
    }
    BL_TRY(decode_value_set_shape(d, &shape, v, err));
    BL_TRY(measure_value(d, v, err));
    if (v->list.count != v->count)
        return bl_json_fail(data, err, BL_EGRAPH, "%llu elements, but the shape has %zu", (unsigned long long)v->list.count,
                            v->count);
    if (nested.ndim > 1 && v->count > 0 &&
        (nested.ndim != v->ndim || memcmp(nested.dim, v->dim, (size_t)v->ndim * sizeof *v->dim) != 0))
        return bl_json_fail(data, err, BL_EGRAPH, "the nesting of the list does not match \"shape\"");
    return BL_OK;
}

static bl_status take_base64(bl_decoder *d, const bl_json *at, const bl_json *text, bl_tensor_value *v, bl_err *err)
{
    bl_json shape;
    size_t bytes;

    BL_TRY(bl_json_expect(text, BL_JSON_STRING, err));
    BL_TRY(bl_json_need(at, "shape", &shape, err));
    if (v->dtype == BL_DTYPE_COUNT)
        return bl_json_fail(at, err, BL_EINVAL, "the member \"dtype\" is missing");
    BL_TRY(decode_value_set_shape(d, &shape, v, err));
    BL_TRY(measure_value(d, v, err));
    v->kind = BL_VALUE_BASE64;
    v->span = text->text;
    if (text->item != NULL) { /* the string is in the tree, which may be freed before the value is read */
        v->span.data = bl_arena_strndup(d->arena, text->text.data, text->text.len);
        if (v->span.data == NULL)
            return bl_arena_status(d->arena, err);
    }
    if (!bl_base64_size(v->span, &bytes))
        return bl_json_fail(text, err, BL_EINVAL, "the length of base64 text must be a multiple of 4");
    if (bytes != v->bytes)
        return bl_json_fail(text, err, BL_EGRAPH, "%zu bytes, but shape and dtype take %zu", bytes, v->bytes);
    return BL_OK;
}

/* Copies a type into the value. */
static bl_status take_type(bl_decoder *d, const bl_wire_type *type, bl_tensor_value *v, bl_err *err)
{
    v->dtype = type->dtype;
    v->ndim = type->ndim;
    bl_wire_type_sizes(type, v->dim);
    return measure_value(d, v, err);
}

static bl_status take_held(bl_decoder *d, const bl_json *at, const bl_json *name, bool state, bl_tensor_value *v, bl_err *err)
{
    static const char *const names[] = {"tensor", NULL}, *const state_names[] = {"tensor", "share", NULL};
    const char *text;
    bl_wire_type type = {0};
    bl_json share;

    BL_TRY(bl_json_allow(at, state ? state_names : names, err));
    BL_TRY(bl_json_string(name, &text, err));
    BL_TRY(bl_decode_name(d, name, text, &v->held, err));
    if (bl_json_find(at, "share", &share))
        BL_TRY(bl_json_bool(&share, &v->share, err));
    v->kind = BL_VALUE_HELD;
    if (d->env->resolve == NULL)
        return bl_json_fail(at, err, BL_EGRAPH, "a held tensor is not allowed here");
    BL_TRY(d->env->resolve(d->env->ctx, d->lease, v->held, &type, err));
    return take_type(d, &type, v, err);
}

static bl_status take_made(bl_decoder *d, const bl_json *at, bl_tensor_value *v, bl_err *err)
{
    bl_wire_type type = {0};

    v->kind = BL_VALUE_MADE;
    BL_TRY(bl_decode_initialiser(d, at, &v->graph, err));
    BL_TRY(d->env->infer(d->env->ctx, v->graph, &type, err));
    return take_type(d, &type, v, err);
}

static bl_status take_object(bl_decoder *d, const bl_json *at, bool state, bl_tensor_value *v, bl_err *err)
{
    static const char *const data_names[] = {"dtype", "shape", "data", NULL};
    static const char *const base64_names[] = {"dtype", "shape", "base64", NULL};
    static const char *const zeros_names[] = {"dtype", "shape", NULL};
    bl_json member, shape;

    if (bl_json_find(at, "tensor", &member))
        return take_held(d, at, &member, state, v, err);
    if (state && d->env->infer != NULL && bl_json_find(at, "op", &member))
        return take_made(d, at, v, err);
    bool base64 = bl_json_find(at, "base64", &member), data = !base64 && bl_json_find(at, "data", &member);
    BL_TRY(bl_json_allow(at, base64 ? base64_names : data ? data_names : state ? zeros_names : data_names, err));
    if (bl_json_find(at, "dtype", &shape))
        BL_TRY(bl_decode_dtype(&shape, &v->dtype, err));
    if (base64)
        return take_base64(d, at, &member, v, err);
    if (data)
        return decode_value_take_data(d, at, &member, v, err);
    if (!state)
        return bl_json_fail(at, err, BL_EINVAL, "expected a tensor: one of \"data\", \"base64\" or \"tensor\" is missing");
    BL_TRY(bl_json_need(at, "shape", &shape, err));
    if (v->dtype == BL_DTYPE_COUNT)
        return bl_json_fail(at, err, BL_EINVAL, "the member \"dtype\" is missing");
    v->kind = BL_VALUE_ZEROS;
    BL_TRY(decode_value_set_shape(d, &shape, v, err));
    return measure_value(d, v, err);
}

bl_status bl_decode_value(bl_decoder *d, const bl_json *at, const bl_wire_type *declared, bool state, bl_tensor_value *out,
                          bl_err *err)
{
    const char *group = at->parent != NULL && at->parent->key != NULL ? at->parent->key : NULL;

    *out = (bl_tensor_value){.dtype = declared != NULL ? declared->dtype : BL_DTYPE_COUNT};
    out->label = group != NULL ? bl_arena_printf(d->arena, "%s.%s", group, at->key) : "tensor";
    if (out->label == NULL)
        return bl_arena_status(d->arena, err);
    if (at->kind == BL_JSON_OBJECT)
        return take_object(d, at, state, out, err);
    BL_TRY(decode_value_take_list(d, at, out, err));
    if (declared == NULL)
        BL_TRY(default_dtype(at, out, err));
    return measure_value(d, out, err);
}

bl_status bl_decode_binary(bl_decoder *d, const char *group, const bl_file_tensor *tensor, bl_tensor_value *out, bl_err *err)
{
    *out = (bl_tensor_value){.kind = BL_VALUE_BYTES,
                             .dtype = tensor->dtype,
                             .ndim = tensor->ndim,
                             .count = tensor->count,
                             .bytes = tensor->bytes,
                             .span = {tensor->data, tensor->bytes}};
    memcpy(out->dim, tensor->dim, sizeof out->dim);
    out->label = bl_arena_printf(d->arena, "%s.%s", group, tensor->name);
    if (out->label == NULL)
        return bl_arena_status(d->arena, err);
    if (!bl_wire_name_ok(tensor->name))
        return bl_fail(err, BL_EGRAPH, "%.140s is not a valid name of a tensor", out->label);
    return measure_value(d, out, err);
}

bl_status bl_decode_raw(const bl_wire_limits *limits, const char *dtype, const char *shape, bl_span bytes, bl_tensor_value *out,
                        bl_err *err)
{
    size_t limit = limits->max_dims < MAX_RANK ? limits->max_dims : MAX_RANK;

    *out = (bl_tensor_value){.kind = BL_VALUE_BYTES, .label = "tensor", .span = bytes};
    out->dtype = bl_dtype_from_name(dtype, strlen(dtype));
    if (out->dtype == BL_DTYPE_COUNT) {
        bl_near near;
        bl_dtype_near(&near, (bl_span){dtype, strlen(dtype)});
        return bl_fail(err, BL_EGRAPH, "dtype: no dtype is named \"%.40s\"%s", dtype, bl_near_hint(&near));
    }
    for (const char *p = shape; *p != '\0';) {
        char *end;
        if ((size_t)out->ndim == limit)
            return bl_fail(err, BL_ELIMIT, "shape: the limit is %zu dimensions", limit);
        if (*p < '0' || *p > '9')
            return bl_fail(err, BL_EINVAL, "shape: expected whole numbers with commas between, got \"%.60s\"", shape);
        unsigned long long extent = strtoull(p, &end, 10); /* ULLONG_MAX on overflow */
        if (extent > (unsigned long long)BL_WIRE_MAX_EXTENT)
            return bl_fail(err, BL_EGRAPH, "shape: %.40s is not between 0 and %lld", p, (long long)BL_WIRE_MAX_EXTENT);
        out->dim[out->ndim++] = (int64_t)extent;
        if (*end == ',' && end[1] != '\0')
            end++;
        else if (*end != '\0')
            return bl_fail(err, BL_EINVAL, "shape: expected whole numbers with commas between, got \"%.60s\"", shape);
        p = end;
    }
    BL_TRY(bl_tensor_measure(out->label, out->dtype, out->ndim, out->dim, limits, &out->count, &out->bytes, err));
    if (bytes.data != NULL && bytes.len != out->bytes)
        return bl_fail(err, BL_EGRAPH, "%zu bytes of data, but shape and dtype take %zu", bytes.len, out->bytes);
    return BL_OK;
}
