/* SPDX-License-Identifier: MIT */
/* The printed form of moves: one printer and one parser, which follow the rows of moves.def. */
#include "engine/ir/matrix_unit.h"
#include "engine/opt/move.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BITS = 30, MOST_NUMBER = 1 << 20 };

/* ---- print */

static void print_name(bl_move_what what, bl_name name, bl_text *out)
{
    int bit = 0;

    if (what != BL_WHAT_AXIS)
        bl_text_printf(out, "b%d", name.origin);
    else if (name.origin >= BL_AXIS_SLOTS)
        bl_text_printf(out, "r%d", name.origin - BL_AXIS_SLOTS);
    else
        bl_text_printf(out, "%d", name.origin);
    while (name.path >> bit > 1)
        bit += 2;
    for (bit -= 2; bit >= 0; bit -= 2)
        bl_text_printf(out, ".%u", (unsigned)(name.path >> bit & 3));
    if (name.twin > 0)
        bl_text_printf(out, ":%d", name.twin);
}

static void print_copy(int64_t size, bl_text *out)
{
    bl_share how;

    (void)bl_share_unpack(size, &how);
    bl_text_printf(out, ", %d%s%s", how.loops, how.twice ? " double" : "", how.swizzle ? " swizzled" : "");
    if (how.pad > 0)
        bl_text_printf(out, " padded %d", how.pad);
    bl_text_puts(out, how.narrow ? " narrow" : "");
}

static void print_size(bl_move_size type, int64_t size, bl_text *out)
{
    switch (type) {
    case BL_SIZE_NONE:
        break;
    case BL_SIZE_COUNT:
    case BL_SIZE_OUTPUTS:
        bl_text_printf(out, ", %lld", (long long)size);
        break;
    case BL_SIZE_COPY:
        print_copy(size, out);
        break;
    case BL_SIZE_SHAPE:
        bl_text_puts(out, ", ");
        bl_matrix_print(bl_matrix_unpack(size), out);
        break;
    }
}

void bl_moves_print(int n, const bl_move *moves, bl_text *out)
{
    for (int i = 0; i < n; i++) {
        const bl_move_row *row = &bl_move_rows[moves[i].kind];
        bl_text_printf(out, "%s%s(", i == 0 ? "" : ", ", row->move);
        print_name(row->what, moves[i].what, out);
        bl_text_printf(out, ", %s", row->kind);
        print_size(row->size, moves[i].size, out);
        bl_text_puts(out, ")");
    }
}

void bl_tune_print(const bl_tune *tune, bl_text *out)
{
    bl_moves_print(tune->nmoves, tune->moves, out);
}

/* ---- parse: each function moves |*at| behind what it has read */

static bool skip_text(const char **at, const char *text)
{
    size_t len = strlen(text);
    bool same = strncmp(*at, text, len) == 0;
    *at += same ? len : 0;
    return same;
}

static bool parse_number(const char **at, int most, int *out)
{
    char *end = NULL;
    long number = **at >= '0' && **at <= '9' ? strtol(*at, &end, 10) : -1;

    if (number < 0 || number > most)
        return false;
    *at = end;
    *out = (int)number;
    return true;
}

static bool parse_name(const char **at, bool *buffer, bl_name *out)
{
    int base = skip_text(at, "r") ? BL_AXIS_SLOTS : 0, digit = 0;

    *out = (bl_name){.path = 1};
    *buffer = base == 0 && skip_text(at, "b");
    if (!parse_number(at, MOST_NUMBER, &out->origin))
        return false;
    out->origin += base;
    while (skip_text(at, ".")) {
        if (*buffer || out->path >> (PATH_BITS - 1) != 0 || !parse_number(at, 2, &digit))
            return false;
        out->path = out->path << 2 | (uint32_t)digit;
    }
    return !skip_text(at, ":") || (parse_number(at, MOST_NUMBER, &out->twin) && out->twin > 0);
}

static bool parse_kind(const char **at, const char *move, bl_move_kind *kind)
{
    for (int i = 0; i < BL_MOVE_KINDS; i++) {
        const char *behind = *at;
        if (strcmp(bl_move_rows[i].move, move) == 0 && skip_text(&behind, bl_move_rows[i].kind) &&
            (*behind == ',' || *behind == ')')) {
            *kind = (bl_move_kind)i;
            *at = behind;
            return true;
        }
    }
    return false;
}

static bool parse_copy(const char **at, int64_t *size)
{
    bl_share how = {0};

    if (!parse_number(at, MOST_NUMBER, &how.loops))
        return false;
    how.twice = skip_text(at, " double");
    how.swizzle = skip_text(at, " swizzled");
    if (skip_text(at, " padded ") && !parse_number(at, MOST_NUMBER, &how.pad))
        return false;
    how.narrow = skip_text(at, " narrow");
    *size = bl_share_pack(how);
    return true;
}

static bool parse_size(const char **at, bl_move_size type, int64_t *size)
{
    long long number = 0;
    bl_matrix shape;
    int used = 0;

    *size = 0;
    if (type == BL_SIZE_NONE)
        return true;
    if (!skip_text(at, ", "))
        return false;
    if (type == BL_SIZE_COPY)
        return parse_copy(at, size);
    if (type == BL_SIZE_SHAPE) {
        used = bl_matrix_parse(*at, &shape);
        *size = bl_matrix_pack(shape);
    } else {
        used = sscanf(*at, "%lld%n", &number, &used) == 1 ? used : 0;
        *size = number;
    }
    *at += used;
    return used > 0;
}

static bool parse_move(const char **at, bl_move *move)
{
    char word[16];
    bool buffer = false;
    int used = 0;

    if (sscanf(*at, "%15[a-z](%n", word, &used) != 1 || used == 0)
        return false;
    *at += used;
    return parse_name(at, &buffer, &move->what) && skip_text(at, ", ") && parse_kind(at, word, &move->kind) &&
           buffer == (bl_move_rows[move->kind].what != BL_WHAT_AXIS) &&
           parse_size(at, bl_move_rows[move->kind].size, &move->size) && skip_text(at, ")");
}

bool bl_moves_parse(const char *text, bl_move moves[BL_MAX_MOVES], int *n)
{
    for (*n = 0; *text != '\0'; ++*n) {
        if (*n == BL_MAX_MOVES || (*n > 0 && !skip_text(&text, ", ")) || !parse_move(&text, &moves[*n]))
            return false;
    }
    return true;
}
