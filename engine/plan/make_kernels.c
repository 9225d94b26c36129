/* SPDX-License-Identifier: MIT */
/* Makes kernels from the loop nests of a schedule: chooses moves, lowers, joins and renders, and has the driver compile the
 * kernels. */
#include "engine/ir/ir_text.h"
#include "engine/plan/compile.h"
#include "engine/render/render.h"

#include <stdlib.h>
#include <string.h>

/* A launch with a longer estimated time is split into slices. Estimates assume peak arithmetic: sums of sines of large
 * numbers, estimated at 0.4 s, took 22 s on PoCL. */
#define SECONDS_WHOLE 0.1

static made *add_made(compile *c)
{
    return bl_arena_reserve(c->arena, (void **)&c->made, c->nmade, &c->cap_made, sizeof *c->made) ? &c->made[c->nmade++] : NULL;
}

static const char *moves_text(compile *c, const bl_tune *tune)
{
    bl_text text = {0};
    const char *kept = NULL;
    bl_tune_print(tune, &text);
    kept = bl_arena_strdup(c->arena, text.data == NULL ? "" : text.data);
    bl_text_fini(&text);
    return kept;
}

static bl_search_nest search_nest(const compile *c, const char *name, const bl_node *sink, int nparams)
{
    return (bl_search_nest){.name = name, .ir = c->ir, .sink = sink, .nparams = nparams, .dev = c->dev, .target = &c->target};
}

/* A nest with its moves applied. */
typedef struct tuned {
    int nparams;
    bool helper;
    bl_tune tune;
} tuned;

/* Choose the moves of |nest| once for all nests with the same sink.  A search reports on each nest. */
static bl_status choose_moves(compile *c, const bl_search_nest *nest, bool helper, bl_tune *tune)
{
    bool once = c->options->beam == 0;
    tuned *known = once ? bl_ptrmap_get(&c->tuned, nest->sink) : NULL;

    if (known != NULL && known->nparams == nest->nparams && known->helper == helper) {
        *tune = known->tune;
        return BL_OK;
    }
    BL_TRY(plan_tune(tune, nest, c->options, c->plan, helper, c->err));
    known = once ? bl_arena_alloc(c->arena, sizeof *known) : NULL;
    if (known != NULL) {
        *known = (tuned){.nparams = nest->nparams, .helper = helper, .tune = *tune};
        bl_ptrmap_put(&c->tuned, nest->sink, known);
    }
    return BL_OK;
}

/* An earlier panel with the contents of |packed|, a helper of the current nest, which has the slots |slot|; NULL if there is
 * none. Only panels of inputs and states are shared, such as the weight that each step of a recurrent network uses: a panel of a
 * value of the graph would occupy memory between its readers. */
static const made *find_panel(const compile *c, const bl_packed *packed, const int *slot)
{
    for (int at = (int)bl_ptrmap_number(&c->panels, packed->sink); at > 0; at = c->made[at - 1].like) {
        const made *m = &c->made[at - 1];
        bool same = m->section == c->section && m->nparams == packed->nfrom + 1;
        for (int i = 0; same && i < packed->nfrom; i++) {
            int from = slot[packed->from[i]];
            same = m->slot[i + 1] == from && c->places[from].kind == BL_PLACE_INPUT &&
                   c->last_write[from] <= (int)(m->nest - c->schedule->nests);
        }
        if (same)
            return m;
    }
    return NULL;
}

/* Add |kernel|, a helper of the nest |of|. */
static bl_status make_kernels_add_helper(compile *c, const made *of, const bl_tuned_kernel *kernel)
{
    bl_tune tune;
    bl_search_nest helper = search_nest(c, of->name, kernel->sink, kernel->nparams);
    made *m = NULL;
    int *slot = bl_arena_array(c->arena, (size_t)kernel->nparams, sizeof *slot);

    BL_TRY(choose_moves(c, &helper, true, &tune));
    m = add_made(c);
    if (m == NULL || slot == NULL)
        return bl_arena_status(c->arena, c->err);
    memcpy(slot, kernel->slot, (size_t)kernel->nparams * sizeof *slot);
    *m = (made){.nest = of->nest,
                .name = bl_arena_printf(c->arena, "%s%s", kernel->prefix, of->nest->name),
                .helper = true,
                .panel = !kernel->helper->behind,
                .section = c->section,
                .like = kernel->helper->behind ? 0 : (int)bl_ptrmap_number(&c->panels, kernel->sink),
                .helpers = 1,
                .key = of->key,
                .sink = tune.sink,
                .nparams = kernel->nparams,
                .slot = slot,
                .moves = moves_text(c, &tune)};
    if (m->panel)
        bl_ptrmap_put_number(&c->panels, kernel->sink, (uint64_t)c->nmade);
    return bl_ir_status(c->ir, c->err);
}

static bl_status tune_nest(compile *c, bl_tune *tune, const bl_nest *nest, uint64_t key)
{
    bl_search_nest subject = search_nest(c, nest->name, nest->sink, nest->nparams);
    int64_t *elements = bl_arena_array(c->arena, (size_t)nest->nparams + 1, sizeof *elements);

    if (elements == NULL)
        return bl_arena_status(c->arena, c->err);
    for (int i = 0; i < nest->nparams; i++)
        elements[i] = compile_slot_elements(c, nest->param[i]);
    subject.elements = elements;
    subject.writes = nest->writes;
    subject.key = key;
    return choose_moves(c, &subject, false, tune);
}

static bl_status add_nest(compile *c, const bl_nest *nest)
{
    bl_tune tune;
    bl_tuned_kernel kernel[BL_MAX_HELPERS + 1];
    bool shared[BL_MAX_HELPERS] = {0}; /* the helper's panel is there already */
    int n = 0;
    made of = {.nest = nest, .name = nest->name, .helper = nest->helper, .kernels = !nest->helper, .helpers = nest->helper};
    made *m = NULL;
    int *slot = bl_arena_array(c->arena, (size_t)nest->nparams + BL_MAX_HELPERS, sizeof *slot);

    if (slot == NULL)
        return bl_arena_status(c->arena, c->err);
    for (int i = 0; i < nest->nparams; i++)
        slot[i] = nest->param[i];
    of.slot = slot;
    of.key = bl_kernels_key(c->ir, nest->sink);
    compile_dump(c, 5, nest->name, 1, &nest->sink);
    BL_TRY(compile_verify(c, 1, &nest->sink, BL_STAGE_KERNEL, "schedule"));
    BL_TRY(tune_nest(c, &tune, nest, of.key));
    for (int i = 0; i < tune.npacked; i++) {
        const bl_packed *packed = &tune.packed[i];
        const made *panel = packed->behind ? NULL : find_panel(c, packed, slot);
        shared[i] = panel != NULL;
        slot[packed->param] = shared[i] ? panel->slot[0] : c->nslots;
        if (!shared[i])
            c->places[c->nslots++] = (bl_place){.kind = BL_PLACE_TEMP, .dtype = packed->dtype, .count = packed->count};
    }
    of.sink = tune.sink;
    of.nparams = tune.nparams;
    n = bl_tune_list_kernels(&tune, slot, kernel);
    for (int i = 0; i < n; i++) {
        if (kernel[i].helper != NULL && shared[kernel[i].helper - tune.packed])
            continue;
        if (kernel[i].helper != NULL) {
            BL_TRY(make_kernels_add_helper(c, &of, &kernel[i]));
            continue;
        }
        of.moves = moves_text(c, &tune);
        m = add_made(c);
        if (m == NULL)
            return bl_arena_status(c->arena, c->err);
        *m = of;
    }
    return bl_ir_status(c->ir, c->err);
}

/* The first earlier kernel that was made from the same nest; |lowered| maps sinks to kernels. NULL if there is none. */
static const made *find_lowered(const bl_ptrmap *lowered, const made *m)
{
    const made *like = bl_ptrmap_get(lowered, m->sink);
    return like != NULL && like->nparams == m->nparams && strcmp(like->name, m->name) == 0 ? like : NULL;
}

static bl_status lower_made(compile *c, bl_ptrmap *lowered, made *m)
{
    const made *like = find_lowered(lowered, m);

    if (like != NULL) {
        m->lowered = like->lowered;
    } else {
        BL_TRY(compile_verify(c, 1, &m->sink, BL_STAGE_KERNEL, "moves"));
        BL_TRY(bl_lower(c->ir, m->sink, m->name, (uint32_t)m->nparams, compile_spec(c), &m->lowered, c->err));
        bl_ptrmap_put(lowered, m->sink, m);
    }
    compile_dump(c, 5, "expanded", 1, &m->lowered->sink);
    if (c->options->debug >= 5)
        bl_linear_print(m->lowered->linear, &c->plan->debug);
    return BL_OK;
}

static bl_status lower_all(compile *c)
{
    bl_ptrmap lowered;

    bl_ptrmap_init(&lowered, c->arena);
    for (int i = 0; i < c->nmade; i++) {
        BL_TRY(compile_is_wanted(c));
        bl_ir_tell(c->ir, c->made[i].name);
        BL_TRY(lower_made(c, &lowered, &c->made[i]));
    }
    return bl_arena_status(c->arena, c->err);
}

/* Render the source of a kernel. |rendered| maps a linear kernel to the kernel that was rendered from it. */
static bl_status render_made(compile *c, bl_ptrmap *rendered, made *m)
{
    const made *like = bl_ptrmap_get(rendered, m->lowered);

    if (like != NULL) {
        bl_text_append(&m->source, like->source.data, like->source.len);
        BL_TRY(bl_text_status(&m->source, c->err));
    } else {
        BL_TRY(bl_render(m->lowered->linear, &c->dev->info, &m->source, c->err));
        bl_ptrmap_put(rendered, m->lowered, m);
    }
    if (c->options->debug >= 3)
        bl_text_printf(&c->plan->debug, "kernel %s: %s\n", m->name, m->moves);
    if (c->options->debug >= 4)
        bl_text_append(&c->plan->debug, m->source.data, m->source.len);
    return BL_OK;
}

/* ---- kernels that share a launch */

/* Does a loop begin or end before nest |nest|? */
static bool at_loop(const compile *c, int nest)
{
    bool at = false;
    for (int i = 0; i < c->schedule->nloops; i++)
        at = at || c->schedule->loops[i].first == nest || c->schedule->loops[i].end == nest;
    return at;
}

/* Add the kernel into which the |n| |members| were joined. */
static void add_joined(compile *c, const plan_piece *piece, const made *members, int n)
{
    made *m = &c->made[c->nmade++];
    const char *moves = members[0].moves;
    made all = {.nest = members[0].nest, .helper = true};

    for (int i = 0; i < n; i++) {
        all.helper = all.helper && members[i].helper;
        all.kernels += members[i].kernels;
        all.helpers += members[i].helpers;
        all.ops += members[i].ops;
        all.bytes += members[i].bytes;
        members[i].work->next = i + 1 < n ? members[i + 1].work : NULL;
        moves = i == 0 ? moves : bl_arena_printf(c->arena, "%s; %s", moves, members[i].moves);
    }
    all.work = members[0].work;
    all.name = piece->name;
    all.nparams = piece->nparams;
    all.slot = piece->slot;
    all.lowered = piece->lowered;
    all.moves = moves;
    *m = all;
}

static bl_status join_small(compile *c)
{
    size_t room = (size_t)c->nmade + 1;
    plan_piece *pieces = bl_arena_array(c->arena, room, sizeof *pieces), *left = bl_arena_array(c->arena, room, sizeof *left);
    int *members = bl_arena_array(c->arena, room, sizeof *members), n = c->nmade, nleft = 0;
    int *becomes = bl_arena_array(c->arena, room, sizeof *becomes);
    made *before = bl_arena_array(c->arena, room, sizeof *before);

    BL_TRY(bl_arena_status(c->arena, c->err));
    for (int i = 0, nest = 0; i < n; i++) {
        const made *m = &c->made[i];
        bool first = false;
        for (; nest < c->schedule->nnests && c->first_made[nest] <= i; nest++)
            first = first || at_loop(c, nest);
        pieces[i] = (plan_piece){.name = m->name,
                                 .lowered = m->lowered,
                                 .nparams = m->nparams,
                                 .slot = m->slot,
                                 .seconds = compile_seconds(&c->dev->info, m->ops, m->bytes) * c->target.units,
                                 .first = first};
        before[i] = *m;
    }
    BL_TRY(plan_join(c->ir, &c->target, c->options->hot, n, pieces, left, members, &nleft, c->err));
    c->nmade = 0;
    for (int i = 0, at = 0; i < nleft; at += members[i++]) {
        for (int k = 0; k < members[i]; k++)
            becomes[at + k] = k == 0 ? c->nmade : c->nmade + 1;
        if (members[i] == 1)
            c->made[c->nmade++] = before[at];
        else
            add_joined(c, &left[i], &before[at], members[i]);
    }
    becomes[n] = c->nmade;
    for (int i = 0; i <= c->schedule->nnests; i++)
        c->first_made[i] = becomes[c->first_made[i]];
    return bl_arena_status(c->arena, c->err);
}
/* If a launch may take too long, make a kernel that can be launched in slices: the kernel gets the number of its first group
 * as a parameter. */
static bl_status cut_made(compile *c, made *m)
{
    const bl_linear *linear = m->lowered->linear;
    int dim = 0;

    for (int d = 1; d < BL_GRID_DIMS; d++)
        dim = m->lowered->grid[d]->hi > m->lowered->grid[dim]->hi ? d : dim;
    if (compile_seconds(&c->dev->info, m->ops, m->bytes) <= SECONDS_WHOLE || m->lowered->grid[dim]->hi < 2 ||
        linear->nscalars == BL_LINEAR_MAX_SCALARS)
        return BL_OK;
    m->cut = dim + 1;
    return bl_lower_offset(c->ir, m->lowered, dim, &m->lowered, c->err);
}

bl_status compile_nests(compile *c)
{
    bl_ptrmap rendered;

    bl_ptrmap_init(&c->panels, c->arena);
    c->last_write = bl_arena_array(c->arena, (size_t)c->nslots + 1, sizeof *c->last_write);
    BL_TRY(bl_arena_status(c->arena, c->err));
    for (int i = 0; i < c->schedule->nnests; i++) {
        const bl_nest *nest = &c->schedule->nests[i];
        c->first_made[i] = c->nmade;
        c->section += at_loop(c, i);
        bl_ir_tell(c->ir, nest->name);
        BL_TRY(add_nest(c, nest));
        for (int k = 0; k < nest->nparams; k++)
            c->last_write[nest->param[k]] = (nest->writes >> k & 1) != 0 ? i + 1 : c->last_write[nest->param[k]];
        BL_TRY(compile_is_wanted(c));
    }
    c->first_made[c->schedule->nnests] = c->nmade;
    BL_TRY(lower_all(c));
    BL_TRY(compile_estimate(c));
    BL_TRY(compile_exact(c));
    if (!c->options->noopt)
        BL_TRY(join_small(c));
    bl_ptrmap_init(&rendered, c->arena);
    for (int i = 0; i < c->nmade; i++) {
        BL_TRY(compile_is_wanted(c));
        BL_TRY(cut_made(c, &c->made[i]));
        BL_TRY(render_made(c, &rendered, &c->made[i]));
    }
    return bl_arena_status(c->arena, c->err);
}

/* ---- compilation by the driver */

int compile_first_like(const compile *c, int which)
{
    const made *m = &c->made[which], *other = c->made;

    while (other < m && (other->source.len != m->source.len || memcmp(other->source.data, m->source.data, m->source.len) != 0))
        other++;
    return (int)(other - c->made);
}

static void disassemble(compile *c)
{
    for (int i = 0; i < c->nmade && c->options->debug >= 7 && c->dev->ops->disassemble != NULL; i++) {
        char *text = c->dev->ops->disassemble(c->plan->kernels[i]);
        if (text != NULL)
            bl_text_printf(&c->plan->debug, "; %s\n%s\n", c->made[i].name, text);
        free(text);
    }
}

bl_kernel_source compile_source(const compile *c, const made *m)
{
    return bl_render_source(m->lowered->linear, &c->dev->info, m->source.data, m->source.len);
}

static bl_status compile_ahead(compile *c, int n, const bl_kernel_source *sources, bl_err *err)
{
    return plan_compile_ahead(c->dev, c->options->children, &c->options->halt, c->arena, n, sources, err);
}

bl_status compile_kernels(compile *c)
{
    const bl_plan_sources *along = c->options->along;
    int n = 0, nalong = along == NULL ? 0 : along->n;
    bl_kernel_source *sources = bl_arena_array(c->arena, (size_t)(c->nmade + nalong) + 1, sizeof *sources);
    bl_err ignored = {0};

    c->plan->kernels = bl_calloc((size_t)c->nmade + 1, sizeof *c->plan->kernels);
    if (sources == NULL || c->plan->kernels == NULL)
        return bl_fail(c->err, BL_ENOMEM, "out of host memory for a plan");
    c->plan->nkernels = c->nmade;
    BL_TRY(compile_early(c));
    for (int i = 0; i < c->nmade; i++) {
        if (compile_first_like(c, i) == i && c->plan->kernels[i] == NULL)
            sources[n++] = compile_source(c, &c->made[i]);
    }
    for (int i = 0; i < nalong; i++)
        sources[n + i] = along->at[i];
    /* an error in a kernel of another plan must not fail this plan: the other plan reports the error when it is compiled */
    if (nalong == 0 || compile_ahead(c, n + nalong, sources, &ignored) != BL_OK)
        BL_TRY(compile_ahead(c, n, sources, c->err));
    n = 0;
    for (int i = 0; i < c->nmade; i++) {
        int like = compile_first_like(c, i);
        BL_TRY(compile_is_wanted(c));
        if (like < i)
            c->plan->kernels[i] = c->plan->kernels[like];
        else if (c->plan->kernels[i] == NULL)
            BL_TRY(bl_kernel_create(c->dev, &sources[n++], &c->plan->kernels[i], c->err));
        c->plan->info.interpreted += c->plan->kernels[i]->dev != c->dev;
    }
    disassemble(c);
    return BL_OK;
}
