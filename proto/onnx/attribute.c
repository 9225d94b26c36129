/* SPDX-License-Identifier: MIT */
#include "proto/onnx/import.h"

#include <string.h>

#define KIND(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

static const Onnx__AttributeProto *find_in(size_t n, Onnx__AttributeProto *const *attribute, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (attribute[i]->name != NULL && strcmp(attribute[i]->name, name) == 0)
            return attribute[i];
    }
    return NULL;
}

const Onnx__AttributeProto *bl_onnx_attr(const bl_onnx_call *c, const char *name)
{
    const Onnx__AttributeProto *found = find_in(c->node->n_attribute, c->node->attribute, name);
    const bl_onnx_names *names = c->names;

    while (found != NULL && found->ref_attr_name != NULL && *found->ref_attr_name != '\0') {
        const char *of = found->ref_attr_name;
        while (names != NULL && names->function == NULL)
            names = names->outer;
        if (names == NULL)
            return NULL;
        found = find_in(names->caller->n_attribute, names->caller->attribute, of);
        if (found == NULL)
            return find_in(names->function->n_attribute_proto, names->function->attribute_proto, of);
        names = names->caller_names;
    }
    return found;
}

/* Early versions of ONNX omit the type. */
static bool attribute_is_kind(const Onnx__AttributeProto *a, Onnx__AttributeProto__AttributeType kind)
{
    return !a->has_type || a->type == kind || a->type == KIND(UNDEFINED);
}

static const Onnx__AttributeProto *attr_of(bl_onnx_call *c, const char *name, Onnx__AttributeProto__AttributeType kind,
                                           const char *word)
{
    const Onnx__AttributeProto *a = bl_onnx_attr(c, name);

    if (a != NULL && !attribute_is_kind(a, kind))
        return bl_onnx_fail(c, "attribute \"%s\" must be %s", name, word);
    return a;
}

int64_t bl_onnx_int(bl_onnx_call *c, const char *name, int64_t preset)
{
    const Onnx__AttributeProto *a = attr_of(c, name, KIND(INT), "a whole number");

    return a != NULL ? a->i : preset;
}

double bl_onnx_float(bl_onnx_call *c, const char *name, double preset)
{
    const Onnx__AttributeProto *a = attr_of(c, name, KIND(FLOAT), "a number");

    return a != NULL ? (double)a->f : preset;
}

const char *bl_onnx_text(bl_onnx_call *c, const char *name, const char *preset)
{
    const Onnx__AttributeProto *a = attr_of(c, name, KIND(STRING), "a string");
    const char *text =
        a != NULL ? bl_arena_strndup(c->import->scratch, a->s.len > 0 ? (const char *)a->s.data : "", a->s.len) : preset;

    return text != NULL ? text : preset;
}

int bl_onnx_ints(bl_onnx_call *c, const char *name, const int64_t **out)
{
    const Onnx__AttributeProto *a = attr_of(c, name, KIND(INTS), "a list of whole numbers");

    *out = a != NULL ? a->ints : NULL;
    if (a != NULL && a->n_ints > BL_ONNX_MAX_KNOWN)
        bl_onnx_fail_as(c, BL_ELIMIT, "attribute \"%s\" has %zu items", name, a->n_ints);
    return a == NULL || c->import->failed ? -1 : (int)a->n_ints;
}

int bl_onnx_floats(bl_onnx_call *c, const char *name, const float **out)
{
    const Onnx__AttributeProto *a = attr_of(c, name, KIND(FLOATS), "a list of numbers");

    *out = a != NULL ? a->floats : NULL;
    if (a != NULL && a->n_floats > BL_ONNX_MAX_KNOWN)
        bl_onnx_fail_as(c, BL_ELIMIT, "attribute \"%s\" has %zu items", name, a->n_floats);
    return a == NULL || c->import->failed ? -1 : (int)a->n_floats;
}

const Onnx__GraphProto *bl_onnx_body(bl_onnx_call *c, const char *name)
{
    const Onnx__AttributeProto *a = attr_of(c, name, KIND(GRAPH), "a graph");

    if (a == NULL || a->g == NULL)
        return bl_onnx_fail(c, "attribute \"%s\" is missing", name);
    return a->g;
}
