/* SPDX-License-Identifier: MIT */
#include "proto/encode_program.h"

#include "proto/encode.h"
#include "proto/tensor.h"

#include <math.h>
#include <string.h>

static void encode_program_put_graph(bl_text *out, const bl_wire_graph *graph, bool body);

static void put_comma(bl_text *out)
{
    char last = out->len > 0 ? out->data[out->len - 1] : '[';

    if (last != '[' && last != '{' && last != ':')
        bl_text_putc(out, ',');
}

/* Keeps the distinctions of the notation: 2 and 2.0 are distinct, and so are 0 and -0. */
static void encode_program_put_number(bl_text *out, const bl_wire_number *number)
{
    size_t start = out->len;

    if (number->whole) {
        bl_text_printf(out, "%s%llu", number->negative ? "-" : "", (unsigned long long)number->magnitude);
        return;
    }
    bl_encode_number(out, number->value);
    if (isfinite(number->value) && !out->failed && strpbrk(out->data + start, ".e") == NULL)
        bl_text_puts(out, ".0");
}

static void encode_program_put_ref(bl_text *out, const bl_wire_graph *graph, const bl_wire_ref *ref)
{
    put_comma(out);
    switch (ref->kind) {
    case BL_REF_LITERAL:
        encode_program_put_number(out, &ref->literal);
        break;
    case BL_REF_INPUT:
        bl_encode_string(out, graph->inputs[ref->index].name);
        break;
    case BL_REF_STATE:
        bl_encode_string(out, graph->states[ref->index].name);
        break;
    case BL_REF_NODE:
        bl_encode_string(out, graph->nodes[ref->index].ids[ref->result]);
        break;
    }
}

/* The limit on JSON's depth bounds the recursion. */
static void encode_program_put_attr(bl_text *out, const bl_wire_attr *attr)
{
    switch (attr->kind) {
    case BL_ATTR_NUMBER:
        encode_program_put_number(out, &attr->number);
        break;
    case BL_ATTR_BOOL:
        bl_text_puts(out, attr->boolean ? "true" : "false");
        break;
    case BL_ATTR_STRING:
        bl_encode_string(out, attr->string);
        break;
    case BL_ATTR_NULL:
        bl_text_puts(out, "null");
        break;
    case BL_ATTR_LIST:
        bl_text_putc(out, '[');
        for (int i = 0; i < attr->nitems; i++) {
            bl_text_puts(out, i > 0 ? "," : "");
            encode_program_put_attr(out, &attr->item[i]);
        }
        bl_text_putc(out, ']');
        break;
    case BL_ATTR_GRAPH:
        encode_program_put_graph(out, attr->graph, true);
        break;
    }
}

static void encode_program_put_node(bl_text *out, const bl_wire_graph *graph, const bl_wire_node *node)
{
    put_comma(out);
    bl_text_puts(out, "{\"id\":[");
    for (int i = 0; i < node->nids; i++) {
        put_comma(out);
        bl_encode_string(out, node->ids[i]);
    }
    bl_text_puts(out, "],\"op\":");
    bl_encode_string(out, node->op);
    bl_text_puts(out, ",\"in\":[");
    for (int i = 0; i < node->nrefs; i++)
        encode_program_put_ref(out, graph, &node->refs[i]);
    bl_text_puts(out, "],\"attrs\":{");
    for (int i = 0; i < node->nattrs; i++) {
        bl_encode_key(out, node->attrs[i].name);
        encode_program_put_attr(out, &node->attrs[i]);
    }
    bl_text_puts(out, "}}");
}

void bl_encode_type(bl_text *out, const bl_wire_tensor *tensor, const bl_wire_var *vars)
{
    bl_encode_key(out, tensor->name);
    bl_text_puts(out, "{\"dtype\":");
    bl_encode_string(out, bl_dtype_name(tensor->type.dtype));
    bl_text_puts(out, ",\"shape\":[");
    for (int i = 0; i < tensor->type.ndim; i++) {
        const bl_wire_dim *dim = &tensor->type.dim[i];
        put_comma(out);
        if (dim->var >= 0)
            bl_encode_string(out, vars[dim->var].name);
        else
            bl_text_printf(out, "%lld", (long long)dim->size);
    }
    bl_text_puts(out, "]}");
}

/* Names of a body's outputs are not stored: a body refers to its outputs by their references. */
static void put_outputs(bl_text *out, const bl_wire_graph *graph)
{
    bl_text_puts(out, ",\"outputs\":[");
    for (int i = 0; i < bl_wire_shown(graph); i++)
        encode_program_put_ref(out, graph, &graph->outputs[i].ref);
    bl_text_putc(out, ']');
    if (graph->ncounts == 0)
        return;
    bl_text_puts(out, ",\"rows\":{");
    for (int i = 0; i < bl_wire_shown(graph); i++) {
        const bl_wire_output *output = &graph->outputs[i];
        if (output->count == 0)
            continue;
        encode_program_put_ref(out, graph, &output->ref);
        bl_text_puts(out, ":{\"count\":");
        encode_program_put_ref(out, graph, &graph->outputs[output->count].ref);
        bl_text_printf(out, ",\"axis\":%d}", output->axis);
    }
    bl_text_putc(out, '}');
}

static void encode_program_put_graph(bl_text *out, const bl_wire_graph *graph, bool body)
{
    bl_text_puts(out, body ? "{\"inputs\":[" : "{\"inputs\":{");
    for (int i = 0; i < graph->ninputs; i++) {
        if (body)
            put_comma(out);
        if (body)
            bl_encode_string(out, graph->inputs[i].name);
        else
            bl_encode_type(out, &graph->inputs[i], graph->vars);
    }
    bl_text_puts(out, body ? "],\"nodes\":[" : "},\"nodes\":[");
    for (int i = 0; i < graph->nnodes; i++)
        encode_program_put_node(out, graph, &graph->nodes[i]);
    bl_text_putc(out, ']');
    if (graph->nupdates > 0) {
        bl_text_puts(out, ",\"updates\":{");
        for (int i = 0; i < graph->nupdates; i++) {
            bl_encode_key(out, graph->updates[i].name);
            encode_program_put_ref(out, graph, &graph->updates[i].ref);
        }
        bl_text_putc(out, '}');
    }
    put_outputs(out, graph);
    bl_text_putc(out, '}');
}

/* Writes the ranges of all entries; a name has one range in the whole program. */
static void encode_program_put_ranges(bl_text *out, const bl_program_doc *program)
{
    bl_text_puts(out, ",\"dims\":{");
    for (int e = 0; e < program->nentries; e++) {
        for (int i = 0; i < program->entries[e].graph.nvars; i++) {
            const bl_wire_var *var = &program->entries[e].graph.vars[i];
            bool told = false;
            for (int b = 0; b < e && !told; b++)
                for (int k = 0; k < program->entries[b].graph.nvars && !told; k++)
                    told = strcmp(program->entries[b].graph.vars[k].name, var->name) == 0;
            if (told)
                continue;
            bl_encode_key(out, var->name);
            bl_wire_var_encode(out, var);
        }
    }
    bl_text_putc(out, '}');
}

/* Writes nothing for the defaults. */
static void encode_program_put_batching(bl_text *out, const bl_wire_batching *batching)
{
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"max_rows", batching->max_rows}, {"delay_us", batching->delay_us}, {"max_waiting", batching->max_waiting}};

    bl_text_puts(out, batching->off ? ",\"batching\":false" : ",\"batching\":{");
    for (size_t i = 0; !batching->off && i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].value == 0)
            continue;
        bl_encode_key(out, rows[i].name);
        bl_text_printf(out, "%lld", (long long)rows[i].value);
    }
    if (batching->off)
        return;
    bl_encode_key(out, "preferred_rows");
    bl_text_putc(out, '[');
    for (int i = 0; i < batching->npreferred; i++)
        bl_text_printf(out, "%s%lld", i > 0 ? "," : "", (long long)batching->preferred[i]);
    bl_text_puts(out, "]}");
}

void bl_encode_program(bl_text *out, const bl_program_doc *program, const char *device)
{
    bl_text_putc(out, '{');
    bl_encode_key(out, "device");
    bl_encode_string(out, device);
    if (program->options.precision >= 0) {
        bl_encode_key(out, "float32_matmul_precision");
        bl_encode_string(out, program->options.precision == BL_PRECISION_HIGH ? "high" : "highest");
    }
    if (program->options.check_indices)
        bl_text_puts(out, ",\"check_indices\":true");
    bl_text_puts(out, ",\"state\":{");
    for (int i = 0; i < program->nstates; i++)
        bl_encode_type(out, &program->states[i], NULL);
    bl_text_putc(out, '}');
    encode_program_put_ranges(out, program);
    encode_program_put_batching(out, &program->batching);
    bl_text_puts(out, ",\"entries\":{");
    for (int i = 0; i < program->nentries; i++) {
        bl_encode_key(out, program->entries[i].name);
        encode_program_put_graph(out, &program->entries[i].graph, false);
    }
    bl_text_puts(out, "}}");
}
