/* SPDX-License-Identifier: MIT */
/* Reads the index checks after a step (engine/front/index_check.c), and reports an index out of range. */
#include "engine/ir/shape.h"
#include "engine/plan/plan_internal.h"

#include <stdlib.h>

/* Append " at [i, j]", the position in the index tensor.  Append nothing for a scalar, or for a position of
 * BL_INDEX_CHECK_LAST. */
static void check_print_place(bl_text *out, const bl_index_check *check, int64_t at, const int64_t *vars)
{
    int64_t place[BL_MAX_DIMS];

    if (at >= BL_INDEX_CHECK_LAST)
        return;
    for (int i = check->ndim - 1; i >= 0; i--) {
        int64_t extent = bl_extent_eval(check->dim[i], vars);
        place[i] = at % extent;
        at /= extent;
    }
    for (int i = 0; i < check->ndim; i++)
        bl_text_printf(out, "%s%lld%s", i == 0 ? " at [" : ", ", (long long)place[i], i + 1 < check->ndim ? "" : "]");
}

/* Append " in step 3 of the scan".  |word| is an index into the flat result of the check. The result has an axis for each
 * scan, the outermost scan first. */
static void print_steps(bl_text *out, const bl_index_check *check, int64_t word, const int64_t *vars)
{
    const bl_node *first = check->first;

    for (int i = first->ndim - 1; i >= 0; i--) {
        int64_t steps = bl_extent_eval(first->dim[i], vars);
        bl_text_printf(out, " in step %lld of the scan%s", (long long)(word % steps), i + 1 < first->ndim ? " around it" : "");
        word /= steps;
    }
}

static void print_rule(bl_text *out, const bl_index_bound *bound, int64_t extent)
{
    bl_text_printf(out, " is out of range: %s %lld%s", bound->before, (long long)extent, bound->after);
    if (extent > 0)
        bl_text_printf(out, "; it must be from %lld to %lld", (long long)(bound->wraps ? -extent : 0), (long long)(extent - 1));
    else
        bl_text_puts(out, ", so no index fits");
    if (bound->ignores)
        bl_text_printf(out, ", or ignore_index %lld", (long long)bound->ignored);
}

static bl_status fail_check(const bl_index_check *check, int64_t word, int64_t found, const int64_t *vars, bl_err *err)
{
    int64_t value = found % BL_INDEX_CHECK_PLACE + INT32_MIN;
    const char *beyond = value == INT32_MAX ? " or more" : value == INT32_MIN ? " or less" : "";
    bl_text text = {0};

    bl_text_printf(&text, "%s: %s %lld%s", check->op, check->bound.what, (long long)value, beyond);
    check_print_place(&text, check, found / BL_INDEX_CHECK_PLACE, vars);
    print_steps(&text, check, word, vars);
    print_rule(&text, &check->bound, bl_extent_eval(check->bound.extent, vars));
    bl_status st = bl_text_status(&text, err);
    if (st == BL_OK) {
        st = bl_fail(err, BL_EINDEX, "%s", text.data);
        bl_err_blame(err, check->node);
    }
    bl_text_fini(&text);
    return st;
}

/* Number of words of the check: one word for each step of the surrounding scans. */
static int64_t count_words(const bl_index_check *check, const int64_t *vars)
{
    int64_t n = 1;
    for (int i = 0; i < check->first->ndim; i++)
        n *= bl_extent_eval(check->first->dim[i], vars);
    return n;
}

bl_status plan_check_indices(const bl_plan *plan, bl_buffer *const *words, const int64_t *vars, bl_err *err)
{
    bl_status st = BL_OK;

    for (int i = 0; i < plan->nchecks && st == BL_OK; i++) {
        const bl_index_check *check = &plan->checks[i];
        int64_t n = count_words(check, vars);
        int64_t *found = bl_calloc((size_t)n, sizeof *found);
        if (found == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for checks of indices");
        st = bl_buffer_read(words[i], 0, found, (size_t)n * sizeof *found, err);
        for (int64_t k = 0; k < n && st == BL_OK; k++) {
            if (found[k] != INT64_MAX)
                st = fail_check(check, k, found[k], vars, err);
        }
        free(found);
    }
    return st;
}
