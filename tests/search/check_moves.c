/* SPDX-License-Identifier: MIT */
/* check_moves [DEVICE] [COUNT] [FIRST] [FOLDER]: that no list of moves which a search may try changes what a kernel computes.
 *
 * Pairs of a kernel and a list of moves are drawn: from the nests of the documents in FOLDER (tests/cases), by random walks in
 * the space of the search (engine/search/space.c).  Each is compiled for DEVICE ("interp", "opencl" or "vulkan") and compared
 * with the nest without any moves.  Pair number i is the same in every run, so that a run can go on where another one stopped. */
#include "engine/ir/float8.h"
#include "engine/ir/rewrite.h"
#include "engine/search/internal.h"
#include "proto/decode.h"
#include "tests/search/subjects.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    A_DRAW = 15, /* pairs of one nest, compiled together */
    MOST_FILES = 64,
    LONGEST_WALK = 7,
    TRIES = 12, /* walks that may end nowhere */
    MOST_BYTES = 1 << 26
};

typedef struct checker {
    bl_device *dev;
    bool interp;
    int nfiles;
    char file[MOST_FILES][1024];
    long checked, refused, wrong;
    int used[BL_MOVE_KINDS];
} checker;

static uint64_t next_random(uint64_t *state)
{
    *state = bl_hash_add(*state, 1);
    return *state >> 11;
}

/* ---- what there is to draw from */

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

/* For a device whose groups have work-items, or not. */
static bl_status schedule(opened *o, const bl_wire_graph *wire, bool groups, bl_err *err)
{
    bl_front_options front = {.program = true, .max_bytes = MOST_BYTES};
    bl_sched_options options = {.units = 2,
                                .max_params = BL_MAX_BINDINGS - BL_MAX_HELPERS,
                                .stage_bytes = groups ? INT64_MAX : 0,
                                .group_columns = groups ? 256 : 0,
                                .first_var = wire->nvars};
    const bl_node **roots = NULL;
    int n = 0;

    BL_TRY(bl_front_build(wire, &front, &o->graph, err));
    const bl_graph *g = o->graph;
    int all = g->noutputs + g->nstates + g->nhidden;
    roots = bl_arena_array(o->arena, (size_t)all + 1, sizeof *roots);
    for (int i = 0; i < all; i++) {
        const bl_node *root = i < g->noutputs ? g->outputs[i] : g->updates[i - g->noutputs];
        if (root != NULL)
            roots[n++] = root;
    }
    bl_simplify(g->ir, n, roots);
    bl_lower_float8(g->ir, n, roots);
    return bl_schedule_make(g->ir, n, roots, &options, &o->schedule, err);
}

/* One of the document's entries. */
static bl_status open_graph(opened *o, char *text, bool groups, uint64_t *seed, bl_err *err)
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
        st = schedule(o, &program.entries[next_random(seed) % (uint64_t)program.nentries].graph, groups, err);
    bl_json_fini(&doc);
    return st;
}

/* ---- pairs */

static int64_t iterations(const subject *s)
{
    bl_ir *ir = bl_ir_create(0);
    bl_tune tune;
    int64_t n = INT64_MAX;
    if (subject_tune(s, ir, &tune)) {
        n = 1;
        for (int i = 0; i < tune.naxes && n < INT32_MAX; i++)
            n *= bl_extent_of(tune.axis[i].range);
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

/* Of |n| lists one change away from |from|, those with a copy to local memory more, with work-items that may share one, or with
 * a sum in parts, are few: now and then they are all there is. */
static int prefer_rare(steps *all, int n, const steps *from, uint64_t *seed)
{
    static const bl_move_kind rare[] = {BL_MOVE_SHARE, BL_MOVE_LOCAL, BL_MOVE_SHARE, BL_MOVE_LOCAL, BL_MOVE_SPLIT};
    bl_move_kind kind = rare[next_random(seed) % (sizeof rare / sizeof rare[0])];
    bool only = next_random(seed) % 4 != 0;
    int kept = 0;

    for (int i = 0; i < n && only; i++) {
        if (count_kind(&all[i], kind) > count_kind(from, kind))
            all[kept++] = all[i];
    }
    return kept > 0 ? kept : n;
}

/* A walk of some steps from the nest without moves, or from the heuristic's choice. */
static candidate *walk(checker *c, const subject *s, const bl_target *target, uint64_t *seed)
{
    steps *all = calloc(MOST_VARIANTS, sizeof *all), at = {0};
    int length = 1 + (int)(next_random(seed) % LONGEST_WALK);
    candidate *found = NULL, *from = next_random(seed) % 2 == 0 ? candidate_make(s, NULL, target) : NULL;

    if (from != NULL)
        at = from->steps;
    candidate_destroy(from);
    for (int i = 0; i < length; i++) {
        int n = prefer_rare(all, space_variants(s, &at, MOST_VARIANTS, all), &at, seed);
        candidate *next = n == 0 ? NULL : candidate_make(s, &all[next_random(seed) % (uint64_t)n], target);
        if (next == NULL)
            continue;
        candidate_destroy(found);
        found = next;
        at = next->steps;
    }
    for (int i = 0; found != NULL && i < found->nmoves; i++)
        c->used[found->moves[i].kind]++;
    free(all);
    return found;
}

static double allowed(const subject *s)
{
    double most = 0;
    for (int i = 0; i < s->nest->nparams; i++) {
        static const double of[] = {
            [BL_TRIAL_INTEGERS] = 0, [BL_TRIAL_F16] = 1e-2, [BL_TRIAL_BF16] = 6e-2, [BL_TRIAL_F32] = 2e-4, [BL_TRIAL_F64] = 1e-9};
        most = s->buffer[i].result && of[s->buffer[i].fill] > most ? of[s->buffer[i].fill] : most;
    }
    return most;
}

static void judge(checker *c, const char *where, const subject *s, const candidate *tried, const bl_trial *trial, long number)
{
    bl_text moves = {0};

    bl_moves_print(tried->nmoves, tried->moves, &moves);
    c->checked++;
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
    bl_trials trials = {.nbuffers = s->nest->nparams, .ntrials = n, .trial = trial, .least_ns = 1, .max_seconds = 60};
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

/* Each device plays the GPU now and then, which has the most moves: drivers of CPUs run groups of work-items too, slowly.  The
 * interpreter plays both families. */
static void as_another(const checker *c, bl_target *target, uint64_t *seed)
{
    bool groups = next_random(seed) % 3 != 0;

    if (!c->interp && !groups)
        return;
    target->groups = groups;
    target->cpu = !groups;
    target->vector_bits = groups ? 128 : 512;
    target->registers = 32;
    target->subgroup = groups ? 8 : 1;
    target->max_local = groups ? 64 : 1;
}

/* Pairs |number| and on, |n| of them, of one nest. */
static void check_nest(checker *c, const char *where, opened *o, long number, int n, uint64_t *seed)
{
    test_graph graph = {.graph = o->graph};
    bl_target target = bl_search_target(&c->dev->info);
    int64_t elements[BL_MAX_BINDINGS] = {0};
    candidate *tried[A_DRAW + 1] = {NULL};
    subject s;
    const steps none = {0};
    int made = 0;

    if (o->schedule->nnests == 0)
        return;
    as_another(c, &target, seed);
    int which = (int)(next_random(seed) % (uint64_t)o->schedule->nnests);
    if (o->schedule->nests[which].nparams > BL_MAX_BINDINGS)
        return;
    bl_search_nest nest = test_search_nest(&graph, o->schedule, which, c->dev, &target, elements);
    if (!subject_init(&s, &nest, 2) || iterations(&s) > (c->interp ? 1 << 16 : 1 << 22))
        return;
    tried[made] = candidate_make(&s, &none, &target);
    if (tried[made] == NULL)
        return;
    for (int tries = 0; tries < TRIES * n && made < n; tries++) {
        candidate *next = walk(c, &s, &target, seed);
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
        bl_err err = {0};
        if (text != NULL && open_graph(&o, text, next_random(&seed) % 2 == 0, &seed, &err) == BL_OK)
            check_nest(c, path, &o, number, n, &seed);
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

int main(int argc, char **argv)
{
    static checker c;
    const char *name = argc > 1 ? argv[1] : "interp";
    long count = argc > 2 ? atol(argv[2]) : 300, first = argc > 3 ? atol(argv[3]) : 0;
    bool whole = true;

    c.dev = open_device(name);
    c.interp = strcmp(name, "interp") == 0;
    list_files(&c, argc > 4 ? argv[4] : "tests/cases");
    if (c.dev == NULL || c.nfiles == 0) {
        printf("there is no device \"%s\", or no document\n", name);
        return 1;
    }
    for (long at = first; at < first + count; at += A_DRAW)
        check_batch(&c, at, first + count - at < A_DRAW ? (int)(first + count - at) : A_DRAW);
    printf("%s: %ld pairs from %ld on, %ld refused, %ld wrong; moves:", name, c.checked, first, c.refused, c.wrong);
    for (int i = 0; i < BL_MOVE_KINDS; i++)
        printf(" %d", c.used[i]);
    printf("\n");
    /* Each kind was tried; no case has stages, stores more than a cache holds, sums so long that the space has blocks of them, or
     * scores that are as few as the interpreter has time for, and it has no matrix units. */
    for (int i = 0; i < BL_MOVE_KINDS && c.interp && count >= 300; i++)
        whole = whole && (c.used[i] > 0 || i == BL_MOVE_BLOCK || i == BL_MOVE_STREAM || i == BL_MOVE_MATRIX ||
                          i == BL_MOVE_KBLOCK || i == BL_MOVE_SCORE);
    bl_device_destroy(c.dev);
    return c.refused > 0 || c.wrong > 0 || !whole || c.checked < count * 9 / 10;
}
