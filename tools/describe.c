/* SPDX-License-Identifier: MIT */
#include "tools/describe.h"

#include "engine/front/build.h"
#include "tools/gradients.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const bl_example examples[] = {
#define BL_EXAMPLE(node, inputs, results) {node, inputs, results},
#include "engine/front/examples.def"
#undef BL_EXAMPLE
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof examples[0] };

/* The rows of the table in order: each is the title of a group or the name of an op. */
static const struct {
    const char *title, *op;
} rows[] = {
#define BL_KIND(title)                            {title, NULL},
#define BL_WIRE(id, name, signature, doc)         {NULL, name},
#define BL_FORMULA(name, signature, formula, doc) {NULL, name},
#define BL_ALU(name, op, signature, doc)          {NULL, name},
#include "engine/front/wire_ops.def"
#undef BL_KIND
#undef BL_WIRE
#undef BL_FORMULA
#undef BL_ALU
};

/* The index of the first example of |op| from |at| on; EXAMPLE_COUNT if there is none. */
static size_t find_example(const char *op, size_t at)
{
    size_t len = strlen(op);

    while (at < EXAMPLE_COUNT && (strncmp(examples[at].node + 7, op, len) != 0 || examples[at].node[7 + len] != '\''))
        at++; /* the text of a node begins with "'op': '" */
    return at;
}

/* Collects the gradients of |op| from its examples.  False if an example cannot be built, or if no example gives float values
 * to an input that accepts floats. */
static bool find_gradients(const char *op, const bl_sig *sig, bl_gradients *g)
{
    bool ok = true;

    *g = (bl_gradients){.nexamples = 0};
    for (size_t at = find_example(op, 0); at < EXAMPLE_COUNT; at = find_example(op, at + 1)) {
        if (!bl_gradients_add(g, sig, &examples[at]))
            return false;
    }
    for (int i = 0; i < sig->ninputs; i++) {
        bl_sig_kind kind = sig->input[i].kind;
        bool floats = kind == BL_SIG_T || kind == BL_SIG_FLOAT || kind == BL_SIG_WRT;
        if (floats && !g->checked[i])
            ok = fprintf(stderr, "%s: no example gives input %.*s as floats\n", op, (int)sig->input[i].name.len,
                         sig->input[i].name.data) < 0;
    }
    return ok;
}

/* Writes the text of an example, which has ' in place of ". */
static void put_quoted(bl_text *out, const char *text)
{
    for (; *text != '\0'; text++)
        bl_text_putc(out, *text == '\'' ? '"' : *text);
}

static bool is_nothing(const bl_sig_param *p)
{
    return p->kind != BL_SIG_CHOICE && (bl_span_is(p->preset, "none") || bl_span_is(p->preset, "all"));
}

static void put_string(bl_text *out, bl_span s)
{
    bl_text_putc(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] == '"' || s.data[i] == '\\')
            bl_text_putc(out, '\\');
        bl_text_putc(out, s.data[i]);
    }
    bl_text_putc(out, '"');
}

/* Writes a default as JSON: null if the signature has "none" or "all". */
static void put_preset(bl_text *out, const bl_sig_param *p)
{
    char first = p->preset.len == 0 ? 'n' : p->preset.data[0];

    if (is_nothing(p))
        bl_text_puts(out, "null");
    else if (isdigit((unsigned char)first) || first == '-' || first == '[' || p->kind == BL_SIG_FLAG)
        bl_text_append(out, p->preset.data, p->preset.len);
    else
        put_string(out, p->preset);
}

static void put_choices(bl_text *out, const bl_sig_param *p)
{
    const char *at = p->type.data;
    const char *end = at + p->type.len;

    bl_text_puts(out, ", \"type\": \"string\", \"choices\": [");
    while (at < end) {
        size_t len = 0;
        while (at + len < end && at[len] != '|')
            len++;
        put_string(out, (bl_span){at, len});
        at += len + 1;
        bl_text_puts(out, at < end ? ", " : "]");
    }
}

static void put_params(bl_text *out, const char *key, int count, const bl_sig_param *params)
{
    bl_text_printf(out, "     \"%s\": [", key);
    for (int i = 0; i < count; i++) {
        const bl_sig_param *p = &params[i];
        bl_text_puts(out, i == 0 ? "" : ", ");
        bl_text_puts(out, "{\"name\": ");
        put_string(out, p->name);
        if (p->kind == BL_SIG_CHOICE) {
            put_choices(out, p);
        } else {
            bl_text_puts(out, ", \"type\": ");
            put_string(out, p->type);
        }
        if (p->many)
            bl_text_puts(out, ", \"many\": true");
        if (p->optional) {
            bl_text_puts(out, ", \"default\": ");
            put_preset(out, p);
        }
        bl_text_puts(out, "}");
    }
    bl_text_puts(out, "],\n");
}

static void put_examples(bl_text *out, const char *op)
{
    const char *before = ",\n     \"examples\": [";

    for (size_t at = find_example(op, 0); at < EXAMPLE_COUNT; at = find_example(op, at + 1)) {
        bl_text_printf(out, "%s{\"node\": {", before);
        put_quoted(out, examples[at].node);
        bl_text_puts(out, "}, \"inputs\": ");
        put_quoted(out, examples[at].inputs);
        bl_text_printf(out, ", \"results\": \"%s\"}", examples[at].results);
        before = ",\n                  ";
    }
    if (find_example(op, 0) < EXAMPLE_COUNT)
        bl_text_puts(out, "]");
}

/* Writes the names of the inputs with which[input]. */
static void put_names(bl_text *out, const char *key, const bl_sig *sig, const bool *which)
{
    const char *before = "";

    bl_text_printf(out, ", \"%s\": [", key);
    for (int i = 0; i < sig->ninputs; i++) {
        if (!which[i])
            continue;
        bl_text_puts(out, before);
        put_string(out, sig->input[i].name);
        before = ", ";
    }
    bl_text_puts(out, "]");
}

bool bl_describe_json(bl_text *out)
{
    const char *before = "";
    bl_gradients g;
    bool ok = true;

    bl_text_puts(out, "{\n  \"ops\": [\n");
    for (size_t i = 0; i < bl_wire_ops_count; i++) {
        const bl_wire_op *op = &bl_wire_ops[i];
        bl_sig sig;
        if (op->name[0] == '_' || !bl_sig_parse(op->signature, &sig))
            continue; /* internal ops are not for clients; a test parses all signatures */
        bl_text_printf(out, "%s    {\"name\": \"%s\",\n     \"doc\": ", before, op->name);
        before = ",\n";
        put_string(out, (bl_span){op->doc, strlen(op->doc)});
        bl_text_puts(out, ",\n");
        put_params(out, "inputs", sig.ninputs, sig.input);
        put_params(out, "attrs", sig.nattrs, sig.attr);
        bl_text_puts(out, "     \"results\": [");
        for (int k = 0; k < sig.nresults; k++) {
            bl_text_puts(out, k == 0 ? "" : ", ");
            put_string(out, sig.result[k]);
        }
        bl_text_printf(out, "], \"many_results\": %s", sig.many_results ? "true" : "false");
        if (!find_gradients(op->name, &sig, &g))
            ok = false;
        put_names(out, "gradient", &sig, g.first);
        put_names(out, "second_gradient", &sig, g.second);
        put_examples(out, op->name);
        bl_text_puts(out, "}");
    }
    bl_text_puts(out, "\n  ]\n}\n");
    return ok;
}

static const char introduction[] =
    "# Ops\n\n"
    "Generated from `engine/front/wire_ops.def` by `tools/ops`; do not edit.\n\n"
    "A signature lists inputs (types with a capital) and attributes; `=` gives the default, `none` and `all` stand for leaving\n"
    "it out (or `null`), `...` for any number of inputs.\n\n"
    "| type | what it takes |\n| --- | --- |\n"
    "| `T` | any dtype; all inputs of one type are brought to one dtype by PyTorch's promotion |\n"
    "| `Float` | floats; integers and bool become float32 |\n"
    "| `Int`, `Bits` | integers; integers or bool |\n"
    "| `Bool` | bool; numbers become \"is not zero\" |\n"
    "| `Any`, `Wrt` | left as it is; what a gradient is taken to (a float) |\n"
    "| `int`, `float`, `bool`, `dtype` | one value |\n"
    "| `ints`, `floats` | a list, or one value for a list of one |\n"
    "| `number` | an exact number: it must fit the dtype it is used in |\n"
    "| `size`, `sizes` | whole numbers, names of dimensions, or formulas of them with spaces around each sign: `\"2 * (n + 1) // "
    "3\"`; `+ - * // %` |\n"
    "| `bound` | a number or a size |\n"
    "| `pairs` | `[[a, b], ...]`, one for each axis, or flat |\n"
    "| `rate` | a number, or the name of a float32 scalar that is an input or a state |\n"
    "| `text` | a string |\n"
    "| `a\\|b` | one of these words |\n\n"
    "Under each op stands to which of its inputs gradients flow, and to which of them second ones: to the others its gradient "
    "is\n"
    "the same wherever it is taken, so that a gradient of that is 0.\n\n"
    "Each op has an example: the node, its inputs, and dtype, shape and numbers of what comes of it. `tests/front/test_ops.c` "
    "runs them.\n";

static void put_list(bl_text *out, const bl_sig *sig, const bool *which)
{
    const char *before = "";

    for (int i = 0; i < sig->ninputs; i++) {
        if (!which[i])
            continue;
        bl_text_printf(out, "%s`%.*s`", before, (int)sig->input[i].name.len, sig->input[i].name.data);
        before = ", ";
    }
}

static bool any(const bool *which)
{
    for (int i = 0; i < BL_SIG_MAX; i++) {
        if (which[i])
            return true;
    }
    return false;
}

static void put_gradients(bl_text *out, const bl_sig *sig, const bl_gradients *g)
{
    bl_text_puts(out, "\nGradient: ");
    if (!any(g->first)) {
        bl_text_puts(out, !any(g->checked) ? "none, no input is of floats.\n"
                          : !g->floats     ? "none, the result is not of floats.\n"
                                           : "none flows through it.\n");
        return;
    }
    bl_text_puts(out, "to ");
    put_list(out, sig, g->first);
    if (!any(g->second))
        bl_text_puts(out, "; no second one");
    else if (memcmp(g->first, g->second, sizeof g->first) == 0)
        bl_text_puts(out, ", and second ones");
    else
        bl_text_puts(out, "; second ones to "), put_list(out, sig, g->second);
    bl_text_puts(out, ".\n");
}

/* Writes a line per group: its title, and links to its ops. */
static void put_contents(bl_text *out)
{
    bool first = true;

    bl_text_puts(out, "\n## Contents\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].title != NULL) {
            bl_text_printf(out, "\n- **%s**:", rows[i].title);
            first = true;
        } else if (rows[i].op[0] != '_') {
            bl_text_printf(out, "%s [%s](#%s)", first ? "" : ",", rows[i].op, rows[i].op);
            first = false;
        }
    }
    bl_text_puts(out, "\n");
}

bool bl_describe_markdown(bl_text *out)
{
    bl_gradients g;
    bl_sig sig;

    bl_text_puts(out, introduction);
    put_contents(out);
    for (size_t i = 0; i < bl_wire_ops_count; i++) {
        const bl_wire_op *op = &bl_wire_ops[i];
        size_t at = find_example(op->name, 0);
        if (op->name[0] == '_')
            continue;
        bl_text_printf(out, "\n## %s\n\n`%s`\n\n", op->name, op->signature);
        for (const char *s = op->doc; *s != '\0'; s++) {
            if (*s == '*')
                bl_text_putc(out, '\\');
            bl_text_putc(out, *s);
        }
        bl_text_puts(out, "\n");
        if (!bl_sig_parse(op->signature, &sig) || !find_gradients(op->name, &sig, &g))
            return false;
        put_gradients(out, &sig, &g);
        if (at == EXAMPLE_COUNT)
            continue;
        bl_text_puts(out, "\n```json\n{\"id\": \"y\", ");
        put_quoted(out, examples[at].node);
        bl_text_puts(out, "}\n");
        put_quoted(out, examples[at].inputs);
        bl_text_printf(out, "\n```\n`%s`\n", examples[at].results);
    }
    return true;
}
