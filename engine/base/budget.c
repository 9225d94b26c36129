/* SPDX-License-Identifier: MIT */
#include "engine/base/budget.h"

enum {
    SPARE_PART = 16, /* 1/16 of the limit is spare */
    MOST_SPARE = 64 * 1024 * 1024,
    SMALL_PART = 4 /* one call of bl_budget_borrow gets at most 1/4 of the spare bytes */
};

size_t bl_budget_spare(const bl_budget *budget)
{
    return budget->limit / SPARE_PART < MOST_SPARE ? budget->limit / SPARE_PART : MOST_SPARE;
}

/* Take |bytes|, and leave |spare| bytes of the limit free. */
static bl_status budget_take(bl_budget *budget, size_t bytes, size_t spare, bl_status status, const char *what, bl_err *err)
{
    size_t used = atomic_load(&budget->used), most = budget->limit - spare;

    while (used <= most && bytes <= most - used)
        if (atomic_compare_exchange_weak(&budget->used, &used, used + bytes))
            return BL_OK;
    if (spare == 0)
        return bl_fail(err, status, "%s of %zu bytes: %zu of %zu bytes of host memory are in use (--max-memory)", what, bytes,
                       used, budget->limit);
    return bl_fail(err, status,
                   "%s of %zu bytes: %zu of %zu bytes of host memory are in use, and %zu bytes are reserved for small requests "
                   "and answers (--max-memory)",
                   what, bytes, used, budget->limit, spare);
}

bl_status bl_budget_take(bl_budget *budget, size_t bytes, bl_status status, const char *what, bl_err *err)
{
    return budget != NULL ? budget_take(budget, bytes, bl_budget_spare(budget), status, what, err) : BL_OK;
}

bl_status bl_budget_borrow(bl_budget *budget, size_t bytes, bl_status status, const char *what, bl_err *err)
{
    size_t spare = budget != NULL ? bl_budget_spare(budget) : 0;

    return budget != NULL ? budget_take(budget, bytes, bytes > spare / SMALL_PART ? spare : 0, status, what, err) : BL_OK;
}

bool bl_budget_is_short(bl_budget *budget)
{
    return atomic_load(&budget->used) > budget->limit - bl_budget_spare(budget);
}

void bl_budget_give(bl_budget *budget, size_t bytes)
{
    if (budget != NULL)
        atomic_fetch_sub(&budget->used, bytes);
}
