/* Matrix units that this machine need not have: those of lavapipe, NVIDIA's mma.sync, AMX and AVX512-BF16, and unusual ones;
 * then units for split float32 products.  The interpreter emulates them. */
#ifndef BL_TESTS_OPT_UNITS_H
#define BL_TESTS_OPT_UNITS_H

#include "engine/ir/matrix_unit.h"

enum { A_ROWS = 1 << BL_MATRIX_A_ROWS, B_GROUPS = 1 << BL_MATRIX_B_GROUPS, ALL_LAYOUTS = (1 << BL_MATRIX_B_GROUPS) - 1 };

static const bl_matrix units[] = {
    {8, 8, 8, 8, 1, ALL_LAYOUTS, BL_F16, BL_F32, false},         {16, 8, 16, 32, 1, ALL_LAYOUTS, BL_F16, BL_F32, false},
    {16, 16, 16, 32, 1, A_ROWS | 4, BL_F16, BL_F32, false},      {16, 16, 32, 1, 2, A_ROWS | B_GROUPS, BL_BF16, BL_F32, false},
    {1, 16, 2, 1, 2, A_ROWS | B_GROUPS, BL_BF16, BL_F32, false}, {4, 2, 8, 4, 1, A_ROWS | 8, BL_F16, BL_F32, false},
    {16, 16, 64, 1, 4, A_ROWS | B_GROUPS, BL_I8, BL_I32, false}, {8, 8, 8, 8, 1, ALL_LAYOUTS, BL_I8, BL_I32, false},
    {8, 8, 8, 8, 1, ALL_LAYOUTS, BL_BF16, BL_F32, true},         {16, 16, 32, 1, 2, A_ROWS | B_GROUPS, BL_BF16, BL_F32, true},
    {1, 16, 2, 1, 2, A_ROWS | B_GROUPS, BL_BF16, BL_F32, true},
};
enum { NUNITS = sizeof units / sizeof units[0] };

#endif
