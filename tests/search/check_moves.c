/* SPDX-License-Identifier: MIT */
/* check_moves [DEVICE] [COUNT] [FIRST] [FOLDER]: checks that no move list of a search changes the results of a kernel.
 *
 * Pairs of a kernel and a move list are drawn from the nests of the documents in FOLDER (tests/cases), by random walks in the
 * search space (engine/search/space.c).  Each pair is compiled for DEVICE ("interp", "opencl" or "vulkan") and compared with
 * the nest without moves, which runs once for all its pairs.  A list that the compiler accepts and then compiles to invalid
 * code is as wrong as a list with other results.
 *
 * Pair number i is the same in every run, so that a run can be resumed, or processes can share the numbers.  The last line has
 * the number of pairs, of moves of each kind, and of results of each dtype. */
#include "engine/ir/float8.h"
#include "engine/ir/rewrite.h"
#include "engine/sched/region.h"
#include "engine/search/search_internal.h"
#include "proto/decode.h"
#include "tests/opt/units.h"
#include "tests/search/subjects.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    A_DRAW = 15, /* pairs of one nest, which are compiled together */
    MOST_FILES = 64,
    LONGEST_WALK = 7,
    TRIES = 12, /* walks that may end without a candidate */
    MOST_BYTES = 1 << 26,
    MOST_TURNS_INTERP = 1 << 20, /* iterations of a nest's innermost loops: the interpreter runs 15 lists of the longest nests
                                  * in seconds */
    MOST_TURNS_DRIVER = 1 << 22
};

typedef struct checker {
    bl_device *dev;
    bool interp;
    int nfiles;
    char file[MOST_FILES][1024];
    long checked, refused, wrong;
    long used[BL_MOVE_KINDS], dtypes[BL_TRIAL_F64 + 1];
    long folds; /* BL_SPLIT_GROUP on a reduction: the work-items of a group share a sum */
} checker;

static uint64_t next_random(uint64_t *state)
{
    *state = bl_hash_add(*state, 1);
    return *state >> 11;
}

/* ---- the nests */

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void list_files(checker *c, const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry = NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL && c->nfiles < MOST_FILES) {
        size_t len = strlen(entry->d_name);
        if (len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0)
            snprintf(c->file[c->nfiles++], sizeof c->file[0], "%s/%s", folder, entry->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    qsort(c->file, (size_t)c->nfiles, sizeof c->file[0], by_name);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t cap = 0;
    if (file == NULL || getdelim(&text, &cap, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    if (file != NULL)
        fclose(file);
    return text;
}

/* A graph with its schedule, as the compiler makes it. */
typedef struct opened {
    bl_arena *arena;
    bl_graph *graph;
    bl_schedule *schedule;
} opened;

static void close_graph(opened *o)
{
    bl_graph_destroy(o->graph);
    bl_arena_destroy(o->arena);
}

/* Schedules as the compiler does for the target. */
static bl_status schedule(opened *o, const bl_wire_graph *wire, const bl_target *target, bl_err *err)
{
    bl_front_options front = {.program = true, .max_bytes = MOST_BYTES};
    bl_sched_options options = {.units = 2,
                                .max_params = BL_MAX_BINDINGS - BL_MAX_HELPERS,
                                .stage_bytes = bl_stage_bytes(target),
                                .group_columns = bl_group_columns(target),
                                .precision = target->precision,
                                .first_var = wire->nvars};
    const bl_node **roots = NULL;
    int *state = NULL, n = 0;
    bool *in_place = NULL;

    BL_TRY(bl_front_build(wire, &front, &o->graph, err));
    const bl_graph *g = o->graph;
    int all = g->noutputs + g->nstates + g->nhidden;
    roots = bl_arena_array(o->arena, (size_t)all + 1, sizeof *roots);
    state = bl_arena_array(o->arena, (size_t)all + 1, sizeof *state);
    in_place = bl_arena_array(o->arena, (size_t)all + 1, sizeof *in_place);
    BL_TRY(bl_arena_status(o->arena, err));
    for (int i = 0; i < all; i++) {
        const bl_node *root = i < g->noutputs ? g->outputs[i] : g->updates[i - g->noutputs];
        if (root == NULL)
            continue;
        state[n] = i < g->noutputs ? -1 : g->ninputs + i - g->noutputs;
        roots[n++] = root;
    }
    bl_simplify(g->ir, n, roots);
    bl_lower_float8(g->ir, n, roots);
    BL_TRY(bl_schedule_make(g->ir, n, roots, &options, &o->schedule, err));
    return bl_schedule_in_place(g->ir, o->schedule, n, state, in_place, err);
}

/* Opens one of the document's entries. */
static bl_status open_graph(opened *o, char *text, const bl_target *target, uint64_t *seed, bl_err *err)
{
    bl_json_limits json_limits = {0};
    bl_decode_env env = {.arena = o->arena,
                         .limits = {.max_nodes = 100000, .max_inputs = 10000, .max_dims = 12, .max_tensor_bytes = 1ULL << 40}};
    bl_json_doc doc = {0};
    bl_program_doc program = {0};
    bl_status st = bl_json_parse(&doc, o->arena, (bl_span){text, strlen(text)}, &json_limits, err);

    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, &program, err);
    }
    if (st == BL_OK)
        st = schedule(o, &program.entries[next_random(seed) % (uint64_t)program.nentries].graph, target, err);
    bl_json_fini(&doc);
    return st;
}

/* ---- pairs */

/* Returns the iterations of the innermost loops together. */
static int64_t iterations(const subject *s)
{
    bl_ir *ir = bl_ir_create(0);
    bl_tune tune;
    int64_t n = INT64_MAX;
    if (subject_tune(s, ir, &tune)) {
        bl_nodes below = bl_reach(ir, 1, &tune.sink, false);
        n = 0;
        for (size_t i = 0; i < below.count && n < INT32_MAX; i++) {
            const bl_node *node = below.at[i];
            n += node->op == BL_OP_REDUCE  ? bl_free_work(&tune.free, node)
                 : node->op == BL_OP_STORE ? bl_free_size(&tune.free, bl_free_get(&tune.free, node))
                                           : 0;
        }
    }
    bl_ir_destroy(ir);
    return n;
}

static int count_kind(const steps *list, bl_move_kind kind)
{
    int n = 0;
    for (int i = 0; i < list->n; i++)
        n += list->at[i].kind == kind;
    return n;
}

/* Of |n| lists one change away from |from|, few add a shared-memory copy, work-items that could share a copy, a split or
 * blocked sum, or a matrix unit: in three of four cases keeps only the lists of one such kind, if any. */
static int prefer_rare(steps *all, int n, const steps *from, uint64_t *seed)
{
    static const bl_move_kind rare[] = {BL_STAGE_LOCAL,  BL_SPLIT_GROUP,   BL_STAGE_LOCAL, BL_SPLIT_GROUP,    BL_PARTIAL_GLOBAL,
                                        BL_STAGE_VALUES, BL_PARTIAL_LOCAL, BL_UNIT_MATRIX, BL_PARTIAL_SCATTER};
    bl_move_kind kind = rare[next_random(seed) % (sizeof rare / sizeof rare[0])];
    bool only = next_random(seed) % 4 != 0;
    int kept = 0;

    for (int i = 0; i < n && only; i++) {
        if (count_kind(&all[i], kind) > count_kind(from, kind))
            all[kept++] = all[i];
    }
    return kept > 0 ? kept : n;
}

/* Makes the candidate, or returns NULL; BL_EBUG of the compiler is a failure of the test. */
static candidate *make(checker *c, const subject *s, const steps *what, const bl_target *target)
{
    bl_err err = {0};
    bl_text moves = {0};
    candidate *made = candidate_make(s, what, target, &err);

    if (made == NULL && err.status == BL_EBUG) {
        c->wrong++;
        printf("%s with %d moves: %s\n", s->nest->name, what == NULL ? -1 : what->n, err.text);
        bl_moves_print(what == NULL ? 0 : what->n, what == NULL ? NULL : what->at, &moves);
        printf("  %s\n", bl_text_get(&moves));
        bl_text_fini(&moves);
    }
    return made;
}

/* A random walk from the nest without moves, or from the heuristic's choice. */
static candidate *walk(checker *c, const subject *s, const bl_target *target, uint64_t *seed)
{
    steps *all = calloc(MOST_VARIANTS, sizeof *all), at = {0};
    int length = 1 + (int)(next_random(seed) % LONGEST_WALK);
    candidate *found = NULL, *from = next_random(seed) % 2 == 0 ? make(c, s, NULL, target) : NULL;

    if (from != NULL)
        at = from->steps;
    candidate_destroy(from);
    for (int i = 0; i < length; i++) {
        int n = prefer_rare(all, space_variants(s, &at, MOST_VARIANTS, all), &at, seed);
        candidate *next = n == 0 ? NULL : make(c, s, &all[next_random(seed) % (uint64_t)n], target);
        if (next == NULL)
            continue;
        candidate_destroy(found);
        found = next;
        at = next->steps;
    }
    for (int i = 0; found != NULL && i < found->nmoves; i++)
        c->used[found->moves[i].kind]++;
    for (int i = 0; found != NULL && i < at.n; i++)
        c->folds += at.at[i].kind == BL_SPLIT_GROUP && at.at[i].what.origin >= BL_MAX_DIMS;
    free(all);
    return found;
}

/* The dtype with the lowest precision among the results. */
static bl_trial_fill result_dtype(const subject *s)
{
    static const int coarse[] = {
        [BL_TRIAL_INTEGERS] = 0, [BL_TRIAL_F64] = 1, [BL_TRIAL_F32] = 2, [BL_TRIAL_F16] = 3, [BL_TRIAL_BF16] = 4};
    bl_trial_fill found = BL_TRIAL_INTEGERS;

    for (int i = 0; i < s->nest->nparams; i++) {
        if (s->buffer[i].result && coarse[s->buffer[i].fill] > coarse[found])
            found = s->buffer[i].fill;
    }
    return found;
}

static double allowed(const subject *s)
{
    static const double of[] = {
        [BL_TRIAL_INTEGERS] = 0, [BL_TRIAL_F16] = 1e-2, [BL_TRIAL_BF16] = 6e-2, [BL_TRIAL_F32] = 2e-4, [BL_TRIAL_F64] = 1e-9};
    return of[result_dtype(s)];
}

static void judge(checker *c, const char *where, const subject *s, const candidate *tried, const bl_trial *trial, long number)
{
    bl_text moves = {0};

    bl_moves_print(tried->nmoves, tried->moves, &moves);
    c->checked++;
    c->dtypes[result_dtype(s)]++;
    if (trial->status != BL_OK) {
        c->refused++;
        printf("pair %ld: %s of %s with \"%s\": %s\n", number, s->nest->name, where, bl_text_get(&moves), trial->why);
    } else if (!(trial->difference <= allowed(s))) {
        c->wrong++;
        printf("pair %ld: %s of %s with \"%s\" differs by %.3g of the largest result\n", number, s->nest->name, where,
               bl_text_get(&moves), trial->difference);
    }
    bl_text_fini(&moves);
}

static void compare(checker *c, const char *where, const subject *s, candidate *const *tried, int n, long number)
{
    static bl_trial trial[A_DRAW + 1];
    bl_trials trials = {.nbuffers = s->nest->nparams, .ntrials = n, .trial = trial, .once = true, .max_seconds = 60};
    bl_err err = {0};

    memcpy(trials.buffer, s->buffer, sizeof s->buffer);
    for (int i = 0; i < n; i++) {
        trial[i] = tried[i]->trial;
        for (int k = 0; k < tried[i]->npanels; k++) {
            bl_trial_buffer *panel = &trials.buffer[s->nest->nparams + k];
            trials.nbuffers = s->nest->nparams + k + 1 > trials.nbuffers ? s->nest->nparams + k + 1 : trials.nbuffers;
            *panel = tried[i]->panel[k].bytes > panel->bytes ? tried[i]->panel[k] : *panel;
        }
    }
    if (bl_trials_run(c->dev, &trials, &err) != BL_OK) {
        printf("pair %ld: %s of %s without moves: %s\n", number, s->nest->name, where, err.text);
        c->refused++;
        return;
    }
    for (int i = 1; i < n; i++)
        judge(c, where, s, tried[i], &trial[i], number + i - 1);
}

/* In two of three cases treats a device as a GPU, which has the most moves: drivers of CPUs run work-groups too, slowly.  The
 * interpreter imitates both kinds. */
static void as_another(const checker *c, bl_target *target, uint64_t *seed)
{
    bool groups = next_random(seed) % 3 != 0;

    if (!c->interp && !groups)
        return;
    target->groups = groups ? BL_GROUP_PARALLEL : BL_GROUP_OF_ONE;
    target->cache_bytes = 512 << 10;
    target->last_cache_bytes = 1 << 14; /* larger results exceed the cache */
    target->vector_bits = groups ? 128 : 512;
    target->registers = 32;
    target->subgroup = groups ? 8 : 1;
    target->max_local = groups ? 64 : 1;
    for (int i = 0; c->interp && i < 4; i++) {
        const bl_matrix *unit = &units[next_random(seed) % NUNITS];
        if (unit->scope <= target->max_local)
            target->matrix[target->nmatrix++] = (bl_target_unit){*unit, 16};
    }
    target->use = next_random(seed) % 2 == 0 ? BL_MATRIX_ALWAYS : BL_MATRIX_SURE;
    target->precision = c->interp && next_random(seed) % 2 == 0 ? BL_PRECISION_HIGH : BL_PRECISION_HIGHEST;
}

/* Draws sizes of named dimensions, often the least and the largest, since a move that splits them must work for all sizes. */
static void draw_sizes(subject *s, uint64_t *seed)
{
    for (size_t i = 0; i < s->nodes.count; i++) {
        const bl_node *var = s->nodes.at[i];
        uint64_t draw = next_random(seed), sizes = (uint64_t)(var->hi - var->lo) + 1;
        if (var->op == BL_OP_VAR)
            s->vars[var->arg] = draw % 4 == 0 ? var->hi : draw % 4 == 1 ? var->lo : var->lo + (int64_t)(draw / 4 % sizes);
    }
}

/* Checks |n| pairs of one nest, from number |number| on. */
static void check_nest(checker *c, const char *where, opened *o, const bl_target *target, long number, int n, uint64_t *seed)
{
    test_graph graph = {.graph = o->graph};
    int64_t elements[BL_MAX_BINDINGS] = {0};
    candidate *tried[A_DRAW + 1] = {NULL};
    subject s;
    const steps none = {0};
    int made = 0;

    if (o->schedule->nnests == 0)
        return;
    int which = (int)(next_random(seed) % (uint64_t)o->schedule->nnests);
    if (o->schedule->nests[which].nparams > BL_MAX_BINDINGS)
        return;
    bl_search_nest nest = test_search_nest(&graph, o->schedule, which, c->dev, target, elements);
    if (!subject_init(&s, &nest, 2) || iterations(&s) > (c->interp ? MOST_TURNS_INTERP : MOST_TURNS_DRIVER))
        return;
    draw_sizes(&s, seed);
    tried[made] = make(c, &s, &none, target);
    if (tried[made] == NULL)
        return;
    for (int tries = 0; tries < TRIES * n && made < n; tries++) {
        candidate *next = walk(c, &s, target, seed);
        if (next != NULL)
            tried[++made] = next;
    }
    compare(c, where, &s, tried, made + 1, number);
    for (int i = 0; i <= made; i++)
        candidate_destroy(tried[i]);
}

static void check_batch(checker *c, long number, int n)
{
    uint64_t seed = (uint64_t)number + 1;
    long before = c->checked;

    for (int tries = 0; tries < 100 && c->checked == before && c->refused == 0; tries++) {
        const char *path = c->file[next_random(&seed) % (uint64_t)c->nfiles];
        opened o = {.arena = bl_arena_create(0)};
        char *text = read_file(path);
        bl_target target = bl_search_target(&c->dev->info);
        bl_err err = {0};
        as_another(c, &target, &seed);
        if (text != NULL && open_graph(&o, text, &target, &seed, &err) == BL_OK)
            check_nest(c, path, &o, &target, number, n, &seed);
        close_graph(&o);
        free(text);
    }
}

static bl_device *open_device(const char *name)
{
    static const bl_backend *const backends[] = {&bl_backend_interp, &bl_backend_opencl, &bl_backend_vulkan};
    bl_device *dev[8] = {NULL};
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        uint32_t count = 0;
        bl_text why = {0};
        if (strcmp(backends[i]->name, name) == 0 && backends[i]->open(8, dev, &count, &why, NULL) != BL_OK)
            count = 0;
        bl_text_fini(&why);
        for (uint32_t k = 1; k < count; k++)
            bl_device_destroy(dev[k]);
        if (count > 0)
            return dev[0];
    }
    return NULL;
}

/* Prints one line, which tests/run.py adds up. */
static void report(const checker *c, const char *device, long first)
{
    static const char *const dtypes[] = {[BL_TRIAL_INTEGERS] = "integers",
                                         [BL_TRIAL_F16] = "float16",
                                         [BL_TRIAL_BF16] = "bfloat16",
                                         [BL_TRIAL_F32] = "float32",
                                         [BL_TRIAL_F64] = "float64"};

    printf("%s: %ld pairs from %ld on, %ld refused, %ld wrong; moves:", device, c->checked, first, c->refused, c->wrong);
    for (int i = 0; i < BL_MOVE_KINDS; i++)
        printf(" %s_%s=%ld", bl_move_rows[i].move, bl_move_rows[i].kind, c->used[i]);
    printf(" fold=%ld; results:", c->folds);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        printf(" %s=%ld", dtypes[i], c->dtypes[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static checker c;
    const char *name = argc > 1 ? argv[1] : "interp";
    long count = argc > 2 ? atol(argv[2]) : 300, first = argc > 3 ? atol(argv[3]) : 0;

    c.dev = open_device(name);
    c.interp = strcmp(name, "interp") == 0;
    list_files(&c, argc > 4 ? argv[4] : "tests/cases");
    if (c.dev == NULL || c.nfiles == 0) {
        printf("there is no device \"%s\", or no document\n", name);
        return 1;
    }
    for (long at = first; at < first + count; at += A_DRAW)
        check_batch(&c, at, first + count - at < A_DRAW ? (int)(first + count - at) : A_DRAW);
    report(&c, name, first);
    bl_device_destroy(c.dev);
    return c.refused > 0 || c.wrong > 0 || c.checked < count * 9 / 10;
}
