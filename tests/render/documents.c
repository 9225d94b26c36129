/* SPDX-License-Identifier: MIT */
/* Prints the program documents of the text golden that have no file, as one JSON object by name: the graphs of
 * tests/opt/forms.c, and products with a weight of each block-quantised type. */
#include "engine/front/quant.h"
#include "tests/opt/forms.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

enum { NAME_CHARACTERS = 48, FEATURES = 1024, WIDTH = 512 };

/* Prints the words of |name|, joined by underscores. */
static void print_name(const char *name)
{
    int n = 0;

    for (const char *at = name; *at != '\0' && n < NAME_CHARACTERS; at++) {
        if (isalnum((unsigned char)*at)) {
            putchar(tolower((unsigned char)*at));
            n++;
        } else if (n > 0 && isalnum((unsigned char)at[1])) {
            putchar('_');
            n++;
        }
    }
}

static void print_forms(void)
{
    for (int i = 0; i < nforms; i++) {
        printf("%s\"forms.", i == 0 ? "" : ",\n");
        print_name(forms[i].name);
        printf("\": ");
        for (const char *at = forms[i].document; *at != '\0'; at++)
            putchar(*at == '\'' ? '"' : *at);
    }
}

static void print_shape(const bl_quant_plane *plane)
{
    for (int i = 0; i < plane->ndim; i++)
        printf("%s%" PRId64, i == 0 ? "" : ", ", plane->dim[i]);
}

static void print_product(const bl_quant_type *type, int rows, const char *activations)
{
    bl_quant_plane planes[BL_QUANT_PLANES];
    int n = bl_quant_planes(type, FEATURES, WIDTH, planes);

    printf(",\n\"blocks.%s_%s_%d\": {\"inputs\": {\"x\": {\"dtype\": \"float32\", \"shape\": [%d, %d]}", type->name, activations,
           rows, rows, WIDTH);
    for (int i = 0; i < n; i++) {
        printf(", \"%s\": {\"dtype\": \"%s\", \"shape\": [", planes[i].suffix, bl_dtype_name(planes[i].dtype));
        print_shape(&planes[i]);
        printf("]}");
    }
    printf("}, \"nodes\": [{\"id\": \"y\", \"op\": \"block_linear\", \"in\": [\"x\"");
    for (int i = 0; i < n; i++)
        printf(", \"%s\"", planes[i].suffix);
    printf("], \"attrs\": {\"format\": \"%s\", \"activations\": \"%s\"}}], \"outputs\": [\"y\"]}", type->name, activations);
}

int main(void)
{
#define BL_QUANT(id, name, ...) name,
    static const char *const types[] = {
#include "engine/front/quant.def"
    };
#undef BL_QUANT
    static const int rows[] = {1, 16, 64};

    printf("{");
    print_forms();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            print_product(bl_quant_get(types[i]), rows[k], "float32");
            print_product(bl_quant_get(types[i]), rows[k], "int8");
        }
    }
    puts("}");
    return 0;
}
