/* SPDX-License-Identifier: MIT */
#include "proto/json.h"

enum { MOST_FIELDS = 32 };

static bl_status fields_allow(const bl_json *object, const bl_json_field *fields, bl_err *err)
{
    const char *names[MOST_FIELDS + 1] = {NULL};
    size_t n = 0;

    for (; n < MOST_FIELDS && fields[n].name != NULL; n++)
        names[n] = fields[n].name;
    BL_ASSERT(fields[n].name == NULL); /* else members of the table would be refused */
    return bl_json_allow(object, names, err);
}

static bl_status fields_read_one(const bl_json_field *field, const bl_json *at, void *out, bl_err *err)
{
    int64_t number = 0;

    if (field->kind == BL_FIELD_STRING)
        return bl_json_string(at, out, err);
    if (field->kind == BL_FIELD_BOOL)
        return bl_json_bool(at, out, err);
    if (field->kind == BL_FIELD_OTHER)
        return BL_OK;
    BL_TRY(bl_json_int(at, field->least, field->most, &number, err));
    if (field->kind == BL_FIELD_INT)
        *(int *)out = (int)number;
    else
        *(int64_t *)out = number;
    return BL_OK;
}

bl_status bl_json_read(const bl_json *object, const bl_json_field *fields, bool only, void *out, bl_err *err)
{
    bl_json at;

    if (only)
        BL_TRY(fields_allow(object, fields, err));
    for (; fields->name != NULL; fields++) {
        if (fields->needed)
            BL_TRY(bl_json_need(object, fields->name, &at, err));
        else if (!bl_json_find(object, fields->name, &at))
            continue;
        BL_TRY(fields_read_one(fields, &at, (char *)out + fields->offset, err));
    }
    return BL_OK;
}
