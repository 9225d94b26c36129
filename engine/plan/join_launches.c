/* SPDX-License-Identifier: MIT */
/* Joins small consecutive kernels into one launch. On a CPU a launch costs microseconds, and a chain of kernels that take
 * less time consists of launch overhead. Kernels joined into one kernel of one work-item need no wait between them. */
#include "engine/plan/plan_internal.h"

#include <string.h>

enum {
    MOST_JOINED = 64,
    /* The driver compiles the joined kernel as a whole, whereas it compiles equal kernels once: half a second on PoCL for
     * this many. */
    MOST_INSTRUCTIONS = 512,
    HOT_INSTRUCTIONS = 8192 /* the same limit for a plan that is known to run many times */
};
/* Measured on PoCL: 2 to 3 us between two launches. */
#define LAUNCH_SECONDS 2.5e-6
/* Longest estimated time of one joined kernel. */
#define MOST_SECONDS 100e-6

typedef struct joining {
    bl_ir *ir;
    int max_params, units;
    const plan_piece *pieces;
    int n, nslots; /* number of members so far, and of the slots that the members use together */
    int slot[BL_MAX_BINDINGS];
    bl_dtype dtype[BL_MAX_BINDINGS]; /* dtype of each slot that a member uses */
    bool used[BL_MAX_BINDINGS];
    size_t ninst, most_inst, local_bytes, most_local;
    double seconds;
} joining;

/* Would one core finish the kernel before the groups of the kernel could be distributed over several cores? */
static bool join_launches_is_small(const joining *j, const plan_piece *piece)
{
    double groups = 1, units = j->units;

    for (int d = 0; d < BL_GRID_DIMS; d++)
        groups *= (double)piece->lowered->grid[d]->hi;
    if (!bl_lower_can_join(piece->lowered) || piece->seconds > MOST_SECONDS)
        return false;
    units = groups < units ? groups : units;
    return units <= 1 || piece->seconds * (1 - 1 / units) < LAUNCH_SECONDS;
}

static int join_launches_place_of(joining *j, int slot, bool add)
{
    for (int i = 0; i < j->nslots; i++) {
        if (j->slot[i] == slot)
            return i;
    }
    if (!add || j->nslots == j->max_params)
        return -1;
    j->slot[j->nslots] = slot;
    return j->nslots++;
}

/* A parameter of a kernel has one dtype, but one kernel may write a panel as words and another kernel read the panel as
 * elements. */
static bool take_dtypes(joining *j, const plan_piece *piece)
{
    const bl_linear *linear = piece->lowered->linear;

    for (uint32_t i = 0; i < linear->ninst; i++) { /* a kernel gives no dtype to a parameter that it does not use */
        const bl_inst *inst = &linear->inst[i];
        int place = inst->op == BL_OP_BUFFER && inst->sub == 0 ? join_launches_place_of(j, piece->slot[inst->arg], false) : -1;
        if (place < 0)
            continue;
        if (j->used[place] && j->dtype[place] != (bl_dtype)inst->dtype)
            return false;
        j->used[place] = true;
        j->dtype[place] = (bl_dtype)inst->dtype;
    }
    return true;
}

static bool join_launches_take(joining *j, const plan_piece *piece)
{
    joining before = *j;

    if ((j->n > 0 && piece->first) || !join_launches_is_small(j, piece) || j->n == MOST_JOINED ||
        j->seconds + piece->seconds > MOST_SECONDS || j->ninst + piece->lowered->linear->ninst > j->most_inst ||
        j->local_bytes + piece->lowered->linear->local_bytes > j->most_local)
        return false;
    for (int i = 0; i < piece->nparams; i++) {
        if (join_launches_place_of(j, piece->slot[i], true) < 0) {
            *j = before;
            return false;
        }
    }
    if (!take_dtypes(j, piece)) {
        *j = before;
        return false;
    }
    j->n++;
    j->seconds += piece->seconds;
    j->ninst += piece->lowered->linear->ninst;
    j->local_bytes += piece->lowered->linear->local_bytes;
    return true;
}

static bl_status join_launches_join(joining *j, plan_piece *out, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(j->ir);
    bl_join_part *parts = bl_arena_array(arena, (size_t)j->n, sizeof *parts);
    bl_dtype *dtypes = bl_arena_array(arena, (size_t)j->nslots, sizeof *dtypes);
    int *slot = bl_arena_array(arena, (size_t)j->nslots, sizeof *slot);
    const plan_piece *all = j->pieces;

    BL_TRY(bl_arena_status(arena, err));
    *out = (plan_piece){.name = bl_arena_printf(arena, "joined_%d_%s", j->n, all[0].name),
                        .nparams = j->nslots,
                        .slot = memcpy(slot, j->slot, (size_t)j->nslots * sizeof *slot)};
    memcpy(dtypes, j->dtype, (size_t)j->nslots * sizeof *dtypes);
    for (int i = 0; i < j->n; i++) {
        int *param = bl_arena_array(arena, (size_t)all[i].nparams, sizeof *param);
        BL_TRY(bl_arena_status(arena, err));
        parts[i] = (bl_join_part){.linear = all[i].lowered->linear, .param = param};
        for (int d = 0; d < BL_GRID_DIMS; d++)
            parts[i].groups[d] = all[i].lowered->grid[d]->hi;
        for (int k = 0; k < all[i].nparams; k++)
            param[k] = join_launches_place_of(j, all[i].slot[k], false);
    }
    return bl_lower_join(j->ir, out->name, (uint32_t)j->nslots, dtypes, j->n, parts, &out->lowered, err);
}

bl_status plan_join(bl_ir *ir, const bl_target *target, bool hot, int n, const plan_piece *pieces, plan_piece *out, int *members,
                    int *nout, bl_err *err)
{
    *nout = 0;
    for (int at = 0; at < n;) {
        joining j = {.ir = ir,
                     .max_params = target->max_params < BL_MAX_BINDINGS ? (int)target->max_params : BL_MAX_BINDINGS,
                     .units = (int)target->units,
                     .most_inst = hot ? HOT_INSTRUCTIONS : MOST_INSTRUCTIONS,
                     .most_local = target->local_bytes,
                     .pieces = pieces + at};
        while (!target->groups && at + j.n < n && join_launches_take(&j, &pieces[at + j.n]))
            continue;
        out[*nout] = pieces[at];
        if (j.n > 1)
            BL_TRY(join_launches_join(&j, &out[*nout], err));
        members[(*nout)++] = j.n > 1 ? j.n : 1;
        at += j.n > 1 ? j.n : 1;
    }
    return BL_OK;
}
