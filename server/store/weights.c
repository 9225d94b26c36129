/* SPDX-License-Identifier: MIT */
/* Eviction of a program's states to host memory. All states are evicted together, since a run uses all of them.  Tensors by
 * reference belong to other objects: the program releases their buffers, so that these tensors can be evicted too when they
 * are not in use. */
#include "server/programs/programs.h"

#include <stdlib.h>

static bl_program *program_of(bl_evictable *evictable)
{
    return (bl_program *)evictable;
}

static bool retain(bl_evictable *evictable)
{
    return bl_evictable_retain_living(&program_of(evictable)->refs);
}

static void weights_release(bl_evictable *evictable)
{
    bl_program_release(program_of(evictable));
}

/* A lost state cannot be read. */
static bool weights_may_leave(bl_evictable *evictable)
{
    const bl_program *program = program_of(evictable);
    return program->away == NULL && !bl_program_is_lost(program);
}

/* Is the state in device memory that can be evicted?  Empty states, and states that the host sees, cannot be evicted. */
static bool weights_moves(const bl_state *state)
{
    return state->bytes > 0 && state->buffer != NULL && state->buffer->host == NULL;
}

static void weights_drop_copies(bl_program *program)
{
    for (int i = 0; program->away != NULL && i < program->nstates; i++)
        bl_evictable_free_copy(program->worker, program->away[i], program->states[i].bytes);
    free(program->away);
    program->away = NULL;
}

static bl_status weights_copy_out(bl_program *program, size_t *bytes, bl_err *err)
{
    program->away = calloc((size_t)program->nstates + 1, sizeof *program->away);
    if (program->away == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for weights");
    for (int i = 0; i < program->nstates; i++) {
        const bl_state *state = &program->states[i];
        if (!weights_moves(state) || state->shared != NULL)
            continue;
        BL_TRY(bl_evictable_copy(program->worker, state->buffer, state->bytes, &program->away[i], err));
        *bytes += state->bytes;
    }
    return BL_OK;
}

static bl_status weights_leave(bl_evictable *evictable, size_t *bytes, bl_err *err)
{
    bl_program *program = program_of(evictable);
    bl_status st = BL_OK;
    *bytes = 0;
    st = weights_copy_out(program, bytes, err);
    if (st != BL_OK) {
        weights_drop_copies(program);
        *bytes = 0;
        return st;
    }
    for (int i = 0; i < program->nstates; i++) {
        bl_state *state = &program->states[i];
        if (!weights_moves(state))
            continue;
        bl_buffer_release(state->buffer);
        state->buffer = NULL;
    }
    return BL_OK;
}

/* Is state |i| not on the device? */
static bool is_away(const bl_program *program, int i)
{
    return program->away[i] != NULL || (program->states[i].shared != NULL && program->states[i].buffer == NULL);
}

static bl_status weights_move_in(bl_program *program, bl_err *err)
{
    bool *brought = calloc((size_t)program->nstates + 1, sizeof *brought);
    bl_status st = brought != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for weights");
    for (int i = 0; st == BL_OK && i < program->nstates; i++) {
        bl_state *state = &program->states[i];
        if (!is_away(program, i))
            continue;
        brought[i] = true;
        st = state->shared != NULL ? bl_device_tensor_wake(state->shared, &state->buffer, err)
                                   : bl_evictable_bring(program->worker, program->away[i], state->bytes, &state->buffer, err);
    }
    /* after a failure, release the buffers that were made: the copies in host memory still exist */
    for (int i = 0; st != BL_OK && brought != NULL && i < program->nstates; i++) {
        if (!brought[i])
            continue;
        bl_pool_release(program->worker->pool, program->states[i].buffer);
        program->states[i].buffer = NULL;
    }
    free(brought);
    if (st == BL_OK)
        weights_drop_copies(program);
    return st;
}

static const bl_evictable_kind kind = {.name = "a program's state",
                                       .left = BL_COUNT_MOVED_OUT,
                                       .back = BL_COUNT_MOVED_IN,
                                       .stays = true,
                                       .retain = retain,
                                       .release = weights_release,
                                       .may_leave = weights_may_leave,
                                       .leave = weights_leave};

void bl_program_settle(bl_program *program)
{
    bool any = false;
    for (int i = 0; i < program->nstates; i++)
        any = any || weights_moves(&program->states[i]);
    if (any)
        bl_evictable_add(&program->evictable, &kind, program->worker);
}

bl_status bl_program_wake(bl_program *program, bl_err *err)
{
    if (program->evictable.kind == NULL)
        return BL_OK;
    if (program->away == NULL) {
        bl_evictable_use(&program->evictable);
        return BL_OK;
    }
    BL_TRY(weights_move_in(program, err));
    bl_evictable_back(&program->evictable);
    return BL_OK;
}

void bl_program_unsettle(bl_program *program)
{
    bl_evictable_remove(&program->evictable);
    weights_drop_copies(program);
}
