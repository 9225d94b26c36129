/* SPDX-License-Identifier: MIT */
#include "engine/base/budget.h"

bl_status bl_budget_take(bl_budget *budget, size_t bytes, bl_status status, const char *what, bl_err *err)
{
    size_t used;

    if (budget == NULL)
        return BL_OK;
    used = atomic_load(&budget->used);
    do {
        if (used > budget->limit || bytes > budget->limit - used)
            return bl_fail(err, status, "%s of %zu bytes: %zu of %zu bytes of host memory are in use (--max-memory)", what, bytes,
                           used, budget->limit);
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    return BL_OK;
}

void bl_budget_give(bl_budget *budget, size_t bytes)
{
    if (budget != NULL)
        atomic_fetch_sub(&budget->used, bytes);
}
