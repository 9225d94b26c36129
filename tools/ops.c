/* SPDX-License-Identifier: MIT */
/* Prints the tables of operators: "ops json" is proto/ops.json, "ops markdown" is docs/ops.md, "ops onnx" the table in
 * docs/onnx.md. */
#include "proto/onnx/import.h"
#include "tools/describe.h"

#include <stdio.h>
#include <string.h>

/* Writes a row per operator name, in the order of the table. */
static bool describe_onnx(bl_text *out)
{
    bl_text_puts(out, "| operator | from | |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < bl_onnx_ops_count; i++) {
        const bl_onnx_op *op = &bl_onnx_ops[i];
        bl_text_printf(out, "| %s%s`%s` | %d | %s |\n", op->domain, *op->domain != '\0' ? " " : "", op->name, op->since, op->doc);
    }
    return true;
}

int main(int argc, char **argv)
{
    bl_text text = {0};
    bool ok = false;

    if (argc == 2 && strcmp(argv[1], "json") == 0)
        ok = bl_describe_json(&text);
    else if (argc == 2 && strcmp(argv[1], "markdown") == 0)
        ok = bl_describe_markdown(&text);
    else if (argc == 2 && strcmp(argv[1], "onnx") == 0)
        ok = describe_onnx(&text);
    else
        return fprintf(stderr, "usage: ops json|markdown|onnx\n"), 2;
    if (!ok || bl_text_status(&text, NULL) != BL_OK || fwrite(text.data, 1, text.len, stdout) != text.len)
        return 1;
    bl_text_fini(&text);
    return 0;
}
