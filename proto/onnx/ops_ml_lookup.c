/* SPDX-License-Identifier: MIT */
/* Look-up operators: LabelEncoder, CategoryMapper and OneHotEncoder; and the maps of DictVectorizer and CastMap. */
#include "proto/onnx/ml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A list of keys or values: |real| has floats, |whole| has all other types; a string is its number. */
typedef struct list {
    bl_dtype dtype;
    bool texts;
    int64_t count;
    int64_t *whole;
    double *real;
} list;

static bool room_for(bl_onnx_call *c, list *l, int64_t count)
{
    l->count = count;
    if (bl_dtype_is_float(l->dtype))
        l->real = bl_arena_array(c->import->scratch, (size_t)count + 1, sizeof *l->real);
    else
        l->whole = bl_arena_array(c->import->scratch, (size_t)count + 1, sizeof *l->whole);
    if (l->real == NULL && l->whole == NULL)
        bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld keys", (long long)count);
    return !c->import->failed;
}

static bool list_of_tensor(bl_onnx_call *c, const Onnx__TensorProto *tensor, list *l)
{
    bl_tensor_value content;

    if (bl_onnx_tensor(c->import, tensor, &content, c->import->err) != BL_OK)
        c->import->failed = true;
    if (c->import->failed)
        return false;
    *l = (list){.dtype = content.dtype, .texts = bl_onnx_is_strings(tensor->data_type)};
    if (!room_for(c, l, (int64_t)content.count))
        return false;
    for (size_t i = 0; i < content.count; i++) {
        bl_scalar value = bl_scalar_read(content.dtype, content.span.data + i * bl_dtype_bytes(content.dtype));
        if (l->real != NULL)
            l->real[i] = value.f;
        else
            l->whole[i] = value.i;
    }
    return true;
}

static bool list_of_strings(bl_onnx_call *c, const Onnx__AttributeProto *a, list *l)
{
    *l = (list){.dtype = BL_I64, .texts = true};
    if (!room_for(c, l, (int64_t)a->n_strings))
        return false;
    for (size_t i = 0; i < a->n_strings; i++)
        l->whole[i] = bl_onnx_text_number(c->import, (bl_span){(const char *)a->strings[i].data, a->strings[i].len});
    return !c->import->failed;
}

/* Reads the attribute PREFIX_strings, PREFIX_int64s, PREFIX_floats or PREFIX_tensor, whichever is present; false if none is. */
static bool ops_ml_lookup_read_list(bl_onnx_call *c, const char *prefix, list *l)
{
    static const char *const kinds[] = {"strings", "int64s", "floats", "tensor"};

    *l = (list){.dtype = BL_I64};
    for (int i = 0; i < 4 && !c->import->failed; i++) {
        const char *name = bl_arena_printf(c->import->scratch, "%s_%s", prefix, kinds[i]);
        const Onnx__AttributeProto *a = name != NULL ? bl_onnx_attr(c, name) : NULL;
        if (a == NULL)
            continue;
        if (a->n_strings > 0)
            return list_of_strings(c, a, l);
        if (a->t != NULL)
            return list_of_tensor(c, a->t, l);
        if (a->n_ints == 0 && a->n_floats == 0)
            continue;
        l->dtype = a->n_ints > 0 ? BL_I64 : BL_F32;
        if (!room_for(c, l, (int64_t)(a->n_ints + a->n_floats)))
            return false;
        for (size_t k = 0; k < a->n_ints; k++)
            l->whole[k] = a->ints[k];
        for (size_t k = 0; k < a->n_floats; k++)
            l->real[k] = (double)a->floats[k];
        return true;
    }
    return false;
}

/* ---- sorted keys */

typedef struct entry {
    int64_t whole;
    double real;
    int64_t at;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    if (x->real != y->real)
        return x->real < y->real ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Sorts the keys without NaN.  Of equal keys, keeps the first with the index of its value.  Pads with the last key to a power
 * of two, so that a search needs no bounds check.  |*nan| is the index of NaN, or -1. */
static entry *sort_keys(bl_onnx_call *c, const list *keys, int64_t *count, int64_t *nan)
{
    int64_t n = 0, cap = 1, distinct = 0;

    while (cap < keys->count)
        cap *= 2;
    entry *e = bl_arena_array(c->import->scratch, (size_t)cap, sizeof *e);
    *nan = -1;
    if (e == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld keys", (long long)keys->count);
    for (int64_t i = 0; i < keys->count; i++) {
        if (keys->real != NULL && isnan(keys->real[i]))
            *nan = *nan < 0 ? i : *nan;
        else
            e[n++] = (entry){keys->whole != NULL ? keys->whole[i] : 0, keys->real != NULL ? keys->real[i] : 0, i};
    }
    qsort(e, (size_t)n, sizeof *e, compare_entries);
    for (int64_t i = 0; i < n; i++) {
        if (distinct == 0 || e[i].whole != e[distinct - 1].whole || e[i].real != e[distinct - 1].real)
            e[distinct++] = e[i];
    }
    for (*count = 1; *count < distinct;)
        *count *= 2;
    for (int64_t i = distinct; i < *count && distinct > 0; i++)
        e[i] = e[distinct - 1];
    if (distinct == 0)
        *count = 0;
    return e;
}

/* Stores the keys or, with |values|, the values at their indices. */
static bl_onnx_value *store_entries(bl_onnx_call *c, const char *name, bl_dtype dtype, int64_t n, const entry *e,
                                    const list *values)
{
    char *to;
    bl_onnx_value *table = bl_ml_store(c, name, dtype, 1, &n, &to);

    for (int64_t i = 0; table != NULL && i < n; i++) {
        bl_scalar value = {.f = 0};
        if (bl_dtype_is_float(dtype))
            value.f = values != NULL ? values->real[e[i].at] : e[i].real;
        else
            value.i = values != NULL ? values->whole[e[i].at] : e[i].whole;
        bl_scalar_write(dtype, value, to + (size_t)i * bl_dtype_bytes(dtype));
    }
    return table;
}

/* The value of each element of |x|; |missing| for elements that are no key. */
static bl_onnx_value *ops_ml_lookup_look_up(bl_onnx_call *c, bl_onnx_value *x, const list *keys, const list *values,
                                            bl_onnx_value *missing)
{
    int64_t n = 0, nan = -1;
    const entry *e = sort_keys(c, keys, &n, &nan);
    bl_onnx_value *key, *at, *y = missing;

    if (e == NULL || keys->count < 1 || c->import->failed)
        return bl_onnx_fail(c, "has no keys");
    if (n > 0) {
        key = store_entries(c, "keys", keys->dtype, n, e, NULL);
        at = bl_onnx_make(c, "full_like($0, value=0, dtype=int32)", ARGS(V(x)));
        for (int64_t step = n / 2; step > 0; step /= 2)
            at = bl_onnx_make(c, "where(less_equal(take($0, add($1, $2), axis=0), $3), add($1, $2), $1)",
                              ARGS(V(key), V(at), I(step), V(x)));
        y = bl_onnx_make(c, "where(equal(take($0, $1, axis=0), $2), take($3, $1, axis=0), $4)",
                         ARGS(V(key), V(at), V(x), V(store_entries(c, "values", values->dtype, n, e, values)), V(missing)));
    }
    if (nan >= 0 && c->opset >= 4) { /* before opset 4, NaN was no key */
        const entry only = {.at = nan};
        y = bl_onnx_make(c, "where(isnan($0), $1, $2)",
                         ARGS(V(x), V(store_entries(c, "values", values->dtype, 1, &only, values)), V(y)));
    }
    return y;
}

/* ---- the operators */

/* The default: one element in the dtype of |values|. */
static bl_onnx_value *write_default(bl_onnx_call *c, const list *values)
{
    const Onnx__AttributeProto *text = bl_onnx_attr(c, "default_string"), *tensor = bl_onnx_attr(c, "default_tensor");
    list preset = {.dtype = values->dtype};
    int64_t whole = bl_onnx_int(c, "default_int64", -1);

    if (tensor != NULL && tensor->t != NULL) {
        if (!list_of_tensor(c, tensor->t, &preset))
            return NULL;
        if (preset.count != 1)
            return bl_onnx_fail(c, "default_tensor has %lld elements; it must have one", (long long)preset.count);
        return bl_onnx_known_real(c->import, values->dtype, preset.real != NULL ? preset.real[0] : (double)preset.whole[0]);
    }
    if (values->texts) {
        bl_span unused = {"_Unused", 7};
        whole = bl_onnx_text_number(c->import, text != NULL ? (bl_span){(const char *)text->s.data, text->s.len} : unused);
    }
    return bl_onnx_known_real(c->import, values->dtype,
                              values->real != NULL ? bl_onnx_float(c, "default_float", -0.0) : (double)whole);
}

/* Casts the elements to the type of the keys: floats stay floats, everything else becomes int64. */
static bl_onnx_value *as_keys(bl_onnx_call *c, const list *keys)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);

    if (x == NULL || c->import->failed)
        return bl_onnx_fail(c, "needs an input");
    if (x->texts != keys->texts)
        return bl_onnx_fail(c, keys->texts ? "its keys are strings, and its input is not"
                                           : "its input is strings, and its keys are not");
    return bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(x), D(keys->dtype)));
}

static bl_onnx_value *ops_ml_lookup_translate(bl_onnx_call *c, const list *keys, const list *values)
{
    bl_onnx_value *x = as_keys(c, keys), *y;

    if (keys->count != values->count)
        return bl_onnx_fail(c, "%lld keys and %lld values", (long long)keys->count, (long long)values->count);
    y = x != NULL ? ops_ml_lookup_look_up(c, x, keys, values, write_default(c, values)) : NULL;
    if (y != NULL)
        y->texts = values->texts;
    return y;
}

/* The numbers 0, 1, ... */
static bool ops_ml_lookup_count_up(bl_onnx_call *c, int64_t n, list *l)
{
    *l = (list){.dtype = BL_I64};
    if (!room_for(c, l, n))
        return false;
    for (int64_t i = 0; i < n; i++)
        l->whole[i] = i;
    return true;
}

bl_onnx_value *bl_onnx_write_label_encoder(bl_onnx_call *c)
{
    list keys, values;

    if (c->opset < 2) { /* maps between classes_strings and their indices, in either direction */
        bool strings = bl_onnx_in(c, 0) != NULL && c->in[0]->texts;
        if (!ops_ml_lookup_read_list(c, "classes", &keys) || !ops_ml_lookup_count_up(c, keys.count, &values))
            return bl_onnx_fail(c, "needs classes_strings");
        return strings ? ops_ml_lookup_translate(c, &keys, &values) : ops_ml_lookup_translate(c, &values, &keys);
    }
    if (!ops_ml_lookup_read_list(c, "keys", &keys) || !ops_ml_lookup_read_list(c, "values", &values))
        return bl_onnx_fail(c, "needs keys and values");
    return ops_ml_lookup_translate(c, &keys, &values);
}

bl_onnx_value *bl_onnx_write_category_mapper(bl_onnx_call *c)
{
    const Onnx__AttributeProto *strings = bl_ml_strings(c, "cats_strings"), *ints = bl_ml_ints(c, "cats_int64s");
    list text, whole = {.dtype = BL_I64};

    if (strings == NULL || ints == NULL || !list_of_strings(c, strings, &text) || !room_for(c, &whole, (int64_t)ints->n_ints))
        return bl_onnx_fail(c, "needs cats_strings and cats_int64s");
    for (size_t i = 0; i < ints->n_ints; i++)
        whole.whole[i] = ints->ints[i];
    return bl_onnx_in(c, 0) != NULL && c->in[0]->texts ? ops_ml_lookup_translate(c, &text, &whole)
                                                       : ops_ml_lookup_translate(c, &whole, &text);
}

bl_onnx_value *bl_onnx_write_one_hot_encoder(bl_onnx_call *c)
{
    list keys;
    bl_onnx_value *x;

    if (!ops_ml_lookup_read_list(c, "cats", &keys) || keys.count > BL_ONNX_MAX_KNOWN)
        return bl_onnx_fail(c, "needs cats_strings or cats_int64s, at most %d", BL_ONNX_MAX_KNOWN);
    x = as_keys(c, &keys);
    return bl_onnx_make(c, "cast(equal(unsqueeze($0, axis=-1), $1), dtype=float32)",
                        ARGS(V(x), V(bl_onnx_known_ints(c->import, (int)keys.count, keys.whole))));
}
