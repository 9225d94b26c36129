/* SPDX-License-Identifier: MIT */
/* Reports failures of an import: with the node, and with the model inputs whose values are missing. */
#include "proto/onnx/import.h"

#include "engine/base/size.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TEXT = 400 };

void *bl_onnx_stop(bl_onnx_importer *m, bl_status status, const char *fmt, ...)
{
    char text[MAX_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!m->failed)
        (void)bl_fail(m->err, status, "%s", text);
    m->failed = true;
    return NULL;
}

static void *failure_fail_at(bl_onnx_call *c, bl_status status, const char *fmt, va_list args) BL_PRINTF(3, 0);
static void *failure_fail_at(bl_onnx_call *c, bl_status status, const char *fmt, va_list args)
{
    char text[MAX_TEXT];
    bl_onnx_importer *m = c->import;

    vsnprintf(text, sizeof text, fmt, args);
    if (!m->failed) {
        bl_onnx_stop(m, status, "node \"%.100s\" (%.60s): %s", c->label,
                     c->node->op_type != NULL ? bl_onnx_clean(m, c->node->op_type) : "", text);
        if (m->err != NULL)
            bl_err_blame(m->err, c->label);
    }
    return NULL;
}

void *bl_onnx_fail(bl_onnx_call *c, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    failure_fail_at(c, BL_EGRAPH, fmt, args);
    va_end(args);
    return NULL;
}

void *bl_onnx_fail_as(bl_onnx_call *c, bl_status status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    failure_fail_at(c, status, fmt, args);
    va_end(args);
    return NULL;
}

/* Whether an input of this type can have few enough elements for a given value. */
static bool may_be_small(const bl_onnx_importer *m, const bl_wire_type *type)
{
    int64_t count = 1;

    for (int d = 0; d < type->ndim; d++) {
        int64_t least = type->dim[d].var < 0 ? type->dim[d].size : m->vars[type->dim[d].var].lo;
        if (!bl_i64_mul(count, least, &count) || count > BL_ONNX_SMALL)
            return false;
    }
    return true;
}

void bl_onnx_want(bl_onnx_call *c, int i)
{
    bl_onnx_importer *m = c->import;
    bool failed = m->failed, any = false, all = true;

    if (m->model->wanted != NULL)
        return;
    m->failed = false;
    all = bl_onnx_find_wanted(m, bl_onnx_in(c, i));
    m->failed = m->failed || failed;
    for (int k = 0; k < m->main->wire.ninputs; k++) {
        bool wanted = m->wanted[m->model->number[k]];
        any = any || wanted;
        all = all && (!wanted || (m->model->inputs[k].coding == BL_ONNX_PLAIN && may_be_small(m, &m->main->wire.inputs[k].type)));
    }
    if (any && all && m->model->texts.count == 0) /* each variant would number the strings differently */
        m->model->wanted = m->wanted;
}

void *bl_onnx_fail_unknown(bl_onnx_call *c, int i, const char *what)
{
    bl_onnx_importer *m = c->import;
    bl_text names = {0};

    if (m->failed)
        return NULL;
    bl_onnx_want(c, i);
    for (int k = 0; k < m->main->wire.ninputs; k++) {
        if (m->wanted[m->model->number[k]])
            bl_text_printf(&names, "%s\"%.80s\"", names.len > 0 ? ", " : "", m->model->inputs[k].name);
    }
    bl_onnx_fail(
        c, "input %d%s%s must be known when the model is imported: a constant, an initialiser, or made of these and shapes%s%s",
        i, *what != '\0' ? ", " : "", what, names.len > 0 ? "; it depends on the elements of the model's input " : "",
        names.len > 0 ? bl_text_get(&names) : "");
    bl_text_fini(&names);
    return NULL;
}

void *bl_onnx_fail_operator(bl_onnx_call *c, const char *domain)
{
    const char *hint = strcmp(domain, "com.microsoft.nchwc") == 0 ? ": onnxruntime optimised the file for one kind of processor; "
                                                                    "optimise it with ORT_ENABLE_EXTENDED instead"
                                                                  : "";

    return bl_onnx_fail(c, "the operator \"%.60s\"%s%.60s is not supported in opset %lld%s",
                        bl_onnx_clean(c->import, c->node->op_type), *domain != '\0' ? " of domain " : "",
                        bl_onnx_clean(c->import, domain), (long long)c->opset, hint);
}
