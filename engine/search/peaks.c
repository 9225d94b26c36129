/* SPDX-License-Identifier: MIT */
#include "engine/search/peaks.h"

#include "engine/lower/linear.h"
#include "engine/render/render.h"

#include <stdarg.h>
#include <string.h>

enum {
    COPY_BYTES = 64 << 20,      /* larger than second-level caches, small compared with memory */
    CHUNK_ITEMS = 16384,        /* elements that a work-item copies on a device without groups */
    GPU_ITEMS = 256,            /* work-items of a group on a device with groups */
    GPU_TURNS = 4,              /* vectors that each work-item of such a group copies */
    CHAINS = 16,                /* independent chains of multiply-adds, to hide their latency */
    TURNS = 16384,              /* iterations of the chains' loop; lavapipe limits loops to 65,536 */
    GROUPS_A_UNIT = 8,          /* enough groups per unit that all units finish at about the same time */
    LEAST_LAUNCH_NS = 20 * 1000 /* the time of a shorter kernel is mostly the time of its launch */
};

/* A kernel under construction. */
typedef struct list {
    bl_arena *arena;
    bl_linear linear;
    bl_inst inst[CHAINS * 8];
} list;

static uint32_t peaks_add(list *l, bl_op op, int lanes, int64_t arg, uint32_t nargs, ...)
{
    bl_dtype dtype = op == BL_OP_CONST || op == BL_OP_GROUP_ID || op == BL_OP_LOCAL_ID || op == BL_OP_LOOP ? BL_I32 : BL_F32;
    bl_inst *inst = &l->inst[l->linear.ninst];
    uint32_t *args = bl_arena_array(l->arena, nargs, sizeof *args);
    va_list rest;

    *inst =
        (bl_inst){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .lanes = (uint8_t)lanes, .nargs = nargs, .args = args, .arg = arg};
    va_start(rest, nargs);
    for (uint32_t i = 0; args != NULL && i < nargs; i++)
        args[i] = va_arg(rest, uint32_t);
    va_end(rest);
    return l->linear.ninst++;
}

/* Arithmetic on indices; the operation cannot overflow. */
static uint32_t peaks_whole(list *l, bl_op op, uint32_t x, uint32_t y)
{
    uint32_t number = peaks_add(l, op, 1, 0, 2, x, y);
    l->inst[number].dtype = BL_I32;
    l->inst[number].sub = 1;
    return number;
}

static uint32_t peaks_number(list *l, int64_t value)
{
    return peaks_add(l, BL_OP_CONST, 1, value, 0);
}

static int peaks_lanes_of(const bl_device_info *info)
{
    int lanes = 1, most = (int)info->vector_bits / 32;

    if (info->max_lanes > 0 && most > (int)info->max_lanes)
        most = (int)info->max_lanes;
    while (lanes * 2 <= most && lanes * 2 <= BL_MAX_LANES)
        lanes *= 2;
    return lanes;
}

static int items_of(const bl_device_info *info)
{
    if (info->subgroup <= 1)
        return 1;
    return info->serial_groups ? (int)info->subgroup : info->max_local < GPU_ITEMS ? (int)info->max_local : GPU_ITEMS;
}

/* Begin a kernel: its parameters, and the index of the first element of this work-item. Each work-item has |each| elements,
 * and the first elements of neighbouring work-items are |lanes| apart. */
static uint32_t peaks_begin(list *l, bl_arena *arena, const char *name, int items, int lanes, int each, uint32_t buffer[2])
{
    static const bl_dtype dtypes[2] = {BL_F32, BL_F32};
    uint32_t start = 0;

    *l = (list){.arena = arena,
                .linear = {.name = name, .nbuffers = 2, .buffer_dtype = dtypes, .writes = 1, .local = {(uint32_t)items, 1, 1}}};
    for (int i = 0; i < 2; i++)
        buffer[i] = peaks_add(l, BL_OP_BUFFER, 1, i, 0);
    start = peaks_whole(l, BL_OP_MUL, peaks_add(l, BL_OP_GROUP_ID, 1, 0, 0), peaks_number(l, (int64_t)items * each));
    if (items > 1)
        start = peaks_whole(l, BL_OP_ADD, start,
                            peaks_whole(l, BL_OP_MUL, peaks_add(l, BL_OP_LOCAL_ID, 1, 0, 0), peaks_number(l, lanes)));
    return start;
}

/* Make the kernel b0[i] = b1[i]. Returns its number of groups. */
static int64_t make_copy(list *l, bl_arena *arena, const bl_device_info *info)
{
    int items = items_of(info), lanes = peaks_lanes_of(info);
    int turns = items > 1 ? GPU_TURNS : CHUNK_ITEMS / lanes;
    int64_t all = COPY_BYTES / (int64_t)sizeof(float);
    uint32_t buffer[2], start = 0, stride = 0, count = 0, loop = 0, index = 0, value = 0;

    while (all / ((int64_t)items * turns * lanes) > info->max_groups[0])
        turns *= 2;
    start = peaks_begin(l, arena, "peak_copy", items, lanes, turns * lanes, buffer);
    stride = peaks_number(l, (int64_t)items * lanes);
    count = peaks_number(l, turns);
    loop = peaks_add(l, BL_OP_LOOP, 1, 0, 1, count);
    index = peaks_whole(l, BL_OP_ADD, start, peaks_whole(l, BL_OP_MUL, loop, stride));
    value = peaks_add(l, BL_OP_LOAD, lanes, 0, 2, buffer[1], index);
    peaks_add(l, BL_OP_STORE, lanes, 0, 3, buffer[0], index, value);
    peaks_add(l, BL_OP_END, 1, 0, 0);
    l->inst[value].sub = l->inst[value + 1].sub = lanes > 1;
    return all / ((int64_t)items * turns * lanes);
}

/* Make the multiply-add kernel: each work-item has CHAINS accumulators, repeats a = a * x + y, and stores their sum. */
static int64_t make_chains(list *l, bl_arena *arena, const bl_device_info *info)
{
    int items = items_of(info), lanes = peaks_lanes_of(info);
    uint32_t buffer[2], start = peaks_begin(l, arena, "peak_ops", items, lanes, lanes, buffer), chain[CHAINS], x = 0, y = 0,
                        sum = 0;

    x = peaks_add(l, BL_OP_LOAD, lanes, 0, 2, buffer[1], peaks_number(l, 0));
    y = peaks_add(l, BL_OP_LOAD, lanes, 0, 2, buffer[1], peaks_number(l, lanes));
    for (int i = 0; i < CHAINS; i++) /* the initial values differ: a compiler would merge equal chains */
        chain[i] = peaks_add(l, BL_OP_ACC, lanes, 0, 1,
                             peaks_add(l, BL_OP_LOAD, lanes, 0, 2, buffer[1], peaks_number(l, (int64_t)(i + 2) * lanes)));
    peaks_add(l, BL_OP_LOOP, 1, 0, 1, peaks_number(l, TURNS));
    for (int i = 0; i < CHAINS; i++)
        peaks_add(l, BL_OP_SET, lanes, 0, 2, chain[i], peaks_add(l, BL_OP_FMA, lanes, 0, 3, chain[i], x, y));
    peaks_add(l, BL_OP_END, 1, 0, 0);
    sum = chain[0];
    for (int i = 1; i < CHAINS; i++)
        sum = peaks_add(l, BL_OP_ADD, lanes, 0, 2, sum, chain[i]);
    peaks_add(l, BL_OP_STORE, lanes, 0, 3, buffer[0], start, sum);
    return (int64_t)(info->units == 0 ? 1 : info->units) * GROUPS_A_UNIT;
}

/* Time the kernel, in seconds. */
static bl_status time_kernel(bl_device *dev, bl_trials_runner run, void *arg, list *l, int64_t groups, double *seconds,
                             bl_err *err)
{
    bl_text text = {0};
    bl_trial *trial = bl_arena_alloc(l->arena, sizeof *trial);
    bl_trials *trials = bl_arena_alloc(l->arena, sizeof *trials);
    bl_status st = BL_OK;

    l->linear.inst = l->inst;
    BL_TRY(bl_arena_status(l->arena, err));
    BL_TRY(bl_linear_check(l->arena, &l->linear, err));
    st = bl_render(&l->linear, &dev->info, &text, err);
    *trials = (bl_trials){.nbuffers = 2, .ntrials = 1, .trial = trial, .max_seconds = 10};
    for (int i = 0; i < 2; i++)
        trials->buffer[i] = (bl_trial_buffer){.bytes = COPY_BYTES, .fill = BL_TRIAL_F32};
    trial->nlaunches = 1;
    trial->launch[0] = (bl_trial_launch){.source = bl_render_source(&l->linear, &dev->info, text.data, text.len),
                                         .slot = {0, 1},
                                         .groups = {(uint32_t)groups, 1, 1}};
    if (st == BL_OK)
        st = run(arg, dev, trials, err);
    if (st == BL_OK && trial->status != BL_OK)
        st = bl_fail(err, trial->status, "%s", trial->why);
    if (st == BL_OK)
        *seconds = 1e-9 * (double)trial->ns;
    bl_text_fini(&text);
    return st;
}

bl_status bl_peaks_measure(bl_device *dev, bl_trials_runner run, void *arg, bl_peaks *out, bl_err *err)
{
    bl_arena *arena = bl_arena_create(0);
    list *l = arena == NULL ? NULL : bl_arena_alloc(arena, sizeof *l);
    double seconds = 0;
    int64_t groups = 0;
    bl_status st = l == NULL ? bl_fail(err, BL_ENOMEM, "out of host memory for peaks") : BL_OK;

    *out = (bl_peaks){0};
    if (st == BL_OK) {
        groups = make_copy(l, arena, &dev->info);
        st = time_kernel(dev, run, arg, l, groups, &seconds, err);
    }
    if (st == BL_OK) {
        out->bytes = seconds > 0 ? 2.0 * COPY_BYTES / seconds : 0;
        groups = make_chains(l, arena, &dev->info);
        st = time_kernel(dev, run, arg, l, groups, &seconds, err);
    }
    if (st == BL_OK && seconds > 0)
        out->ops = (double)groups * items_of(&dev->info) * peaks_lanes_of(&dev->info) * CHAINS * TURNS * 2 / seconds;
    bl_arena_destroy(arena);
    return st;
}

bl_standing bl_peaks_judge(const bl_peaks *peaks, double seconds, int64_t ops, int64_t bytes)
{
    double compute = peaks->ops > 0 ? (double)ops / seconds / peaks->ops : 0;
    double memory = peaks->bytes > 0 ? (double)bytes / seconds / peaks->bytes : 0;
    bl_standing standing = {.share = compute > memory ? compute : memory,
                            .ceiling = compute > memory ? BL_CEILING_COMPUTE : BL_CEILING_MEMORY};

    if (!(seconds > 0) || standing.share <= 0)
        return (bl_standing){0};
    if (seconds * 1e9 < LEAST_LAUNCH_NS && standing.share < 0.5)
        standing.ceiling = BL_CEILING_LAUNCH;
    return standing;
}

const char *bl_ceiling_name(bl_ceiling ceiling)
{
    static const char *const names[] = {"", "compute", "memory", "launch"};
    return names[ceiling];
}
