/* SPDX-License-Identifier: MIT */
/* Prints the table of wire ops: "ops json" is proto/ops.json, "ops markdown" is docs/ops.md. */
#include "tools/describe.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    bl_text text = {0};
    bool ok = false;

    if (argc == 2 && strcmp(argv[1], "json") == 0)
        ok = bl_describe_json(&text);
    else if (argc == 2 && strcmp(argv[1], "markdown") == 0)
        ok = bl_describe_markdown(&text);
    else
        return fprintf(stderr, "usage: ops json|markdown\n"), 2;
    if (!ok || bl_text_status(&text, NULL) != BL_OK || fwrite(text.data, 1, text.len, stdout) != text.len)
        return 1;
    bl_text_fini(&text);
    return 0;
}
