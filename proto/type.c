/* SPDX-License-Identifier: MIT */
#include "proto/wire.h"

bl_wire_type bl_wire_type_make(bl_dtype dtype, int ndim, const int64_t *dim)
{
    bl_wire_type type = {.dtype = dtype, .ndim = ndim};

    for (int i = 0; i < ndim; i++)
        type.dim[i] = (bl_wire_dim){dim[i], -1};
    return type;
}

void bl_wire_type_sizes(const bl_wire_type *type, int64_t *dim)
{
    for (int i = 0; i < type->ndim; i++)
        dim[i] = type->dim[i].size;
}

bool bl_wire_type_same(const bl_wire_type *a, const bl_wire_type *b)
{
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;

    for (int i = 0; same && i < a->ndim; i++)
        same = a->dim[i].var == b->dim[i].var && (a->dim[i].var >= 0 || a->dim[i].size == b->dim[i].size);
    return same;
}

void bl_wire_type_print(bl_text *out, const bl_wire_type *type, const char *const *names)
{
    bl_text_printf(out, "%s[", bl_dtype_name(type->dtype));
    for (int i = 0; i < type->ndim; i++) {
        bl_text_puts(out, i > 0 ? ", " : "");
        if (type->dim[i].var >= 0)
            bl_text_puts(out, names[type->dim[i].var]);
        else
            bl_text_printf(out, "%lld", (long long)type->dim[i].size);
    }
    bl_text_putc(out, ']');
}

/* ---- named dimensions */

bool bl_wire_var_round(bl_wire_var *var)
{
    int64_t step = bl_wire_var_step(var);

    if (var->hi < var->lo)
        return false;
    var->hi -= var->hi % step;
    var->lo += (step - var->lo % step) % step;
    return var->lo <= var->hi;
}

void bl_wire_var_print(bl_text *out, const bl_wire_var *var)
{
    bl_text_printf(out, "%lld to %lld", (long long)var->lo, (long long)var->hi);
    if (var->hi > var->lo && bl_wire_var_step(var) > 1)
        bl_text_printf(out, " in steps of %lld", (long long)var->step);
}

void bl_wire_var_encode(bl_text *out, const bl_wire_var *var)
{
    bl_text_printf(out, "[%lld,%lld", (long long)var->lo, (long long)var->hi);
    if (bl_wire_var_step(var) > 1)
        bl_text_printf(out, ",%lld", (long long)var->step);
    bl_text_putc(out, ']');
}
