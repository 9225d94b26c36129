/* SPDX-License-Identifier: MIT */
#include "engine/front/sig.h"

#include <ctype.h>
#include <string.h>

static const char *const kind_names[BL_SIG_KINDS] = {
    [BL_SIG_T] = "T",           [BL_SIG_FLOAT] = "Float", [BL_SIG_INT] = "Int",     [BL_SIG_BITS] = "Bits",
    [BL_SIG_BOOL] = "Bool",     [BL_SIG_ANY] = "Any",     [BL_SIG_WRT] = "Wrt",     [BL_SIG_WHOLE] = "int",
    [BL_SIG_REAL] = "float",    [BL_SIG_FLAG] = "bool",   [BL_SIG_WHOLES] = "ints", [BL_SIG_REALS] = "floats",
    [BL_SIG_NUMBER] = "number", [BL_SIG_SIZE] = "size",   [BL_SIG_SIZES] = "sizes", [BL_SIG_BOUND] = "bound",
    [BL_SIG_PAIRS] = "pairs",   [BL_SIG_DTYPE] = "dtype", [BL_SIG_RATE] = "rate",   [BL_SIG_TEXT] = "text",
    [BL_SIG_GRAPH] = "graph",   [BL_SIG_CHOICE] = "|",
};

static void skip_spaces(const char **at)
{
    while (**at == ' ')
        ++*at;
}

static bl_span sig_take_word(const char **at, const char *more)
{
    const char *start = *at;
    while (isalnum((unsigned char)**at) || **at == '_' || (**at != '\0' && strchr(more, **at) != NULL))
        ++*at;
    return (bl_span){start, (size_t)(*at - start)};
}

/* A word, a number or a list in brackets. */
static bl_span take_preset(const char **at)
{
    if (**at != '[')
        return sig_take_word(at, ".-+");
    const char *start = *at;
    const char *end = strchr(start, ']');
    *at = end == NULL ? start + strlen(start) : end + 1;
    return (bl_span){start, (size_t)(*at - start)};
}

static bool sig_find_kind(bl_span type, bl_sig_kind *kind)
{
    if (memchr(type.data, '|', type.len) != NULL) {
        *kind = BL_SIG_CHOICE;
        return true;
    }
    for (int i = 0; i < BL_SIG_CHOICE; i++) {
        if (bl_span_is(type, kind_names[i])) {
            *kind = (bl_sig_kind)i;
            return true;
        }
    }
    return false;
}

static bool take_param(const char **at, bl_sig_param *param)
{
    memset(param, 0, sizeof *param);
    param->name = sig_take_word(at, "");
    if (param->name.len == 0 || (*at)[0] != ':' || (*at)[1] != ' ')
        return false;
    *at += 2;
    param->type = sig_take_word(at, "|-");
    if (param->type.len == 0 || !sig_find_kind(param->type, &param->kind))
        return false;
    if (strncmp(*at, "...", 3) == 0) {
        param->many = true;
        *at += 3;
    }
    if (**at == '=') {
        ++*at;
        param->preset = take_preset(at);
        param->optional = true;
    }
    skip_spaces(at);
    return true;
}

bool bl_sig_parse(const char *text, bl_sig *sig)
{
    const char *at = text;
    memset(sig, 0, sizeof *sig);
    while (strncmp(at, "->", 2) != 0) {
        bl_sig_param param;
        if (!take_param(&at, &param))
            return false;
        bool input = param.kind <= BL_SIG_WRT;
        int *count = input ? &sig->ninputs : &sig->nattrs;
        if (*count == BL_SIG_MAX)
            return false;
        (input ? sig->input : sig->attr)[(*count)++] = param;
        if (*at == ',')
            at++;
        else if (*at != '-')
            return false;
        skip_spaces(&at);
    }
    at += 2;
    do {
        skip_spaces(&at);
        if (sig->nresults == BL_SIG_RESULTS)
            return false;
        bl_span result = sig_take_word(&at, "");
        if (result.len == 0)
            return false;
        sig->result[sig->nresults++] = result;
    } while (*at == ',' && at++);
    sig->many_results = sig->nresults == 1 && strcmp(at, "...") == 0;
    return sig->many_results || *at == '\0';
}
