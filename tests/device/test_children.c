/* SPDX-License-Identifier: MIT */
/* Compiler child processes: children that work, die, hang, answer wrongly or never start.  A child runs this program again.
 * Its device compiles by writing a file, and treats its process as the name of the kernel says. */
#include "engine/device/child.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/device/message.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 64, IN_TIME_MS = 5000 };
#define LIMIT 0.5 /* time limit in seconds of a kernel that hangs */

/* ---- the device: the file $CHILDREN_FOLDER/NAME is a compiled kernel and holds the process that compiled it */

static void path_of(const bl_kernel_source *source, char path[256])
{
    snprintf(path, 256, "%s/%s", getenv("CHILDREN_FOLDER"), source->entry);
}

static bool is_compiled(bl_device *dev, const bl_kernel_source *source)
{
    char path[256];

    (void)dev;
    path_of(source, path);
    return access(path, R_OK) == 0;
}

static void misbehave(const bl_kernel_source *source)
{
    if (strncmp(source->entry, "dies", 4) == 0)
        abort();
    while (strncmp(source->entry, "hangs", 5) == 0)
        pause();
}

static void compile(bl_device *dev, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes)
{
    for (uint32_t i = 0; i < n; i++) {
        char path[256];
        FILE *file = NULL;

        misbehave(&sources[i]);
        if (strcmp(sources[i].entry, "bad") == 0) {
            (void)bl_fail(&outcomes[i], BL_EBUG, "kernel bad does not compile on %s", dev->info.id);
            continue;
        }
        if (strncmp(sources[i].entry, "slow", 4) == 0)
            usleep(300000);
        path_of(&sources[i], path);
        file = fopen(path, "w");
        if (file != NULL) {
            fprintf(file, "%d %u\n", (int)getpid(), (unsigned)n);
            fclose(file);
        }
    }
}

static bl_status make_kernel(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    (void)dev;
    if (strcmp(source->entry, "runs_dead") == 0)
        abort();
    *out = bl_calloc(1, sizeof **out);
    return *out != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "kernel");
}

static bl_status open_fake(uint32_t max, bl_device **out, uint32_t *count, bl_text *why, bl_err *err)
{
    static bl_device_ops ops;

    BL_TRY(bl_backend_null.open(max, out, count, why, err));
    ops = *out[0]->ops;
    ops.compile = compile;
    ops.is_compiled = is_compiled;
    ops.kernel = make_kernel;
    out[0]->ops = &ops;
    snprintf(out[0]->info.id, sizeof out[0]->info.id, "fake:0");
    return BL_OK;
}

static const bl_backend fake = {.name = "fake", .open = open_fake};
static const bl_backend *const backends[] = {&fake};

/* ---- processes that are no proper children */

static void say(const void *data, size_t len)
{
    if (write(STDOUT_FILENO, data, len) != (ssize_t)len)
        _exit(3);
}

static void say_hello(void)
{
    bl_text hello = {0};

    bl_message_begin(&hello, BL_MESSAGE_HELLO);
    bl_message_end(&hello);
    say(hello.data, hello.len);
    bl_text_fini(&hello);
}

/* Answers every request wrongly. */
static void lie(const char *how)
{
    bl_message_head head = {0};
    bl_text answer = {0};
    char body[65536];

    say_hello();
    while (read(STDIN_FILENO, &head, sizeof head) == (ssize_t)sizeof head && head.len <= sizeof body &&
           read(STDIN_FILENO, body, (size_t)head.len) == (ssize_t)head.len) {
        bl_text_clear(&answer);
        bl_message_begin(&answer, strcmp(how, "kind") == 0 ? BL_MESSAGE_TIME : BL_MESSAGE_COMPILE);
        bl_message_put_u32(&answer, 1);
        bl_message_put_u32(&answer, strcmp(how, "status") == 0 ? 77 : 0);
        bl_message_put_string(&answer, "x", 1);
        if (strcmp(how, "long") == 0)
            bl_message_put(&answer, body, 100);
        bl_message_end(&answer);
        if (strcmp(how, "rubbish") == 0)
            memset(answer.data, 0x5a, answer.len);
        say(answer.data, strcmp(how, "half") == 0 ? answer.len / 2 : answer.len);
        if (strcmp(how, "half") == 0)
            break;
    }
    _exit(0);
}

static void be_child(const char *how)
{
    if (strcmp(how, "mute") == 0)
        _exit(0);
    if (strcmp(how, "good") != 0)
        lie(how);
    bl_child_serve(STDIN_FILENO, STDOUT_FILENO, 1, backends);
}

/* ---- tests */

static char program[4096];

typedef struct scene {
    bl_children *children;
    bl_device *dev;
    char folder[64];
    bl_kernel_source sources[MOST];
    char names[MOST][32];
    int n;
    bl_halt halt;
} scene;

static scene begin(const char *how, int count)
{
    scene s = {0};
    const char *argv[] = {program, "child", how, NULL};
    bl_text why = {0};
    bl_err err = {0};
    uint32_t found = 0;

    snprintf(s.folder, sizeof s.folder, "/tmp/beamline-children-XXXXXX");
    assert_non_null(mkdtemp(s.folder));
    setenv("CHILDREN_FOLDER", s.folder, 1);
    assert_int_equal(BL_OK, open_fake(1, &s.dev, &found, &why, &err));
    assert_int_equal(BL_OK, bl_children_create(argv, count, LIMIT, &s.children, &err));
    return s;
}

/* Checks that no child remains, not even a zombie. */
static void end(scene *s)
{
    char command[128];

    bl_children_destroy(s->children);
    assert_int_equal(-1, waitpid(-1, NULL, WNOHANG));
    assert_int_equal(ECHILD, errno);
    bl_device_destroy(s->dev);
    snprintf(command, sizeof command, "rm -rf '%s'", s->folder);
    assert_int_equal(0, system(command));
}

static void add(scene *s, const char *name)
{
    snprintf(s->names[s->n], sizeof s->names[0], "%s", name);
    s->sources[s->n] =
        (bl_kernel_source){.entry = s->names[s->n], .text = s->names[s->n], .len = strlen(name), .local = {1, 1, 1}};
    s->n++;
}

static void add_many(scene *s, int n)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "k%d", i);
        add(s, name);
        s->names[s->n - 1][0] = 'k';
    }
    for (int i = 0; i < s->n; i++) /* begin returned a copy of the scene, so the pointers must refer to this copy */
        s->sources[i].entry = s->sources[i].text = s->names[i];
}

static bl_status compile_scene(scene *s, bl_err *err)
{
    *err = (bl_err){0};
    return bl_children_compile(s->children, s->dev, s->n, s->sources, &s->halt, err);
}

static int count_compiled(const scene *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += is_compiled(s->dev, &s->sources[i]);
    return n;
}

/* Returns the process that compiled the kernel, and the number of kernels compiled together with it. */
static int read_who(const scene *s, int which, unsigned *together)
{
    char path[256];
    FILE *file = NULL;
    int pid = 0;

    path_of(&s->sources[which], path);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(2, fscanf(file, "%d %u", &pid, together));
    fclose(file);
    return pid;
}

static void work_is_shared_out(void **state)
{
    scene s = begin("good", 2);
    bl_err err;
    int first, other = 0;
    unsigned together = 0, most = 0;

    (void)state;
    assert_int_equal(0, bl_children_count(s.children)); /* children start on demand */
    add(&s, "slow1");
    add_many(&s, 30);
    assert_int_equal(BL_OK, compile_scene(&s, &err));
    assert_int_equal(s.n, count_compiled(&s));
    first = read_who(&s, 0, &together);
    for (int i = 0; i < s.n; i++) {
        other += read_who(&s, i, &together) != first;
        most = together > most ? together : most;
    }
    assert_true(other > 0 && most > 4 && most <= 16);
    assert_int_equal(2, bl_children_count(s.children));
    assert_int_equal(BL_OK, compile_scene(&s, &err)); /* compiled by the same children */
    assert_int_equal(2, bl_children_count(s.children));
    end(&s);
}

/* One kernel is at fault: only this kernel fails, by an error or with its child. */
static void culprits_are_found(void **state)
{
    static const struct {
        const char *name;
        bl_status want;
    } rows[] = {{"bad", BL_EBUG}, {"dies", BL_EBUG}, {"hangs", BL_ELIMIT}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        scene s = begin("good", 2);
        bl_err err;

        add_many(&s, 9);
        add(&s, rows[r].name);
        if (compile_scene(&s, &err) != rows[r].want || strstr(err.text, rows[r].name) == NULL ||
            strstr(err.text, "fake:0") == NULL)
            fail_msg("%s: expected %s, got %s: %s", rows[r].name, bl_status_name(rows[r].want), bl_status_name(err.status),
                     err.text);
        assert_int_equal(s.n - 1, count_compiled(&s));
        s.n--;
        assert_int_equal(BL_OK, compile_scene(&s, &err)); /* new children have started */
        end(&s);
    }
}

static void liars_are_not_believed(void **state)
{
    static const char *const ways[] = {"rubbish", "half", "status", "long", "kind"};

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        scene s = begin(ways[i], 2);
        bl_err err;

        add_many(&s, 3);
        if (compile_scene(&s, &err) != BL_EBUG)
            fail_msg("%s: got %s: %s", ways[i], bl_status_name(err.status), err.text);
        assert_int_equal(0, count_compiled(&s));
        end(&s);
    }
}

/* If children never start, the caller compiles itself and does not retry at once. */
static void none_may_come(void **state)
{
    scene s = begin("mute", 2);
    const char *missing[] = {"/nowhere/at/all", NULL};
    bl_children *none = NULL;
    bl_err err = {0};
    int64_t start = bl_clock_ns();

    (void)state;
    add_many(&s, 5);
    assert_int_equal(BL_OK, compile_scene(&s, &err));
    assert_int_equal(BL_OK, compile_scene(&s, &err));
    assert_int_equal(BL_OK, bl_children_create(missing, 2, LIMIT, &none, &err));
    assert_int_equal(BL_OK, bl_children_compile(none, s.dev, s.n, s.sources, &s.halt, &err));
    bl_children_destroy(none);
    assert_true(bl_clock_ms(start, bl_clock_ns()) < IN_TIME_MS);
    assert_int_equal(0, count_compiled(&s));
    end(&s);
}

/* A child dies without a fault of any kernel. */
static void one_may_be_killed(void **state)
{
    (void)state;
    for (long nth = 1; nth <= 3; nth++) {
        scene s = begin("good", 2);
        bl_err err;

        add_many(&s, 60); /* at least three jobs, since a job has at most 16 kernels */
        bl_fault_arm(BL_FAULT_CHILD, nth);
        assert_int_equal(BL_OK, compile_scene(&s, &err));
        assert_int_equal(s.n, count_compiled(&s));
        assert_false(bl_fault_hit(BL_FAULT_CHILD)); /* the fault occurred */
        end(&s);
    }
}

static void idle_deaths_are_seen(void **state)
{
    scene s = begin("good", 1);
    bl_err err;
    unsigned together = 0;

    (void)state;
    add_many(&s, 1);
    assert_int_equal(BL_OK, compile_scene(&s, &err));
    assert_int_equal(0, kill(read_who(&s, 0, &together), SIGKILL));
    for (int64_t start = bl_clock_ns(); bl_children_count(s.children) > 0;) {
        assert_true(bl_clock_ms(start, bl_clock_ns()) < IN_TIME_MS);
        usleep(10000);
    }
    assert_int_equal(-1, waitpid(-1, NULL, WNOHANG)); /* no zombie */
    assert_int_equal(BL_OK, compile_scene(&s, &err));
    assert_int_equal(1, bl_children_count(s.children));
    end(&s);
}

static void *stop_soon(void *arg)
{
    usleep(100000);
    bl_children_stop(arg);
    return NULL;
}

static void waiting_can_be_ended(void **state)
{
    scene s = begin("good", 1);
    pthread_t thread;
    bl_err err;
    int64_t start = bl_clock_ns();

    (void)state;
    add(&s, "slow1");
    for (int i = 2; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "slow%d", i);
        add(&s, name);
    }
    add_many(&s, 0);
    assert_int_equal(0, pthread_create(&thread, NULL, stop_soon, s.children));
    assert_int_equal(BL_ECANCELLED, compile_scene(&s, &err));
    assert_int_equal(BL_ECANCELLED, compile_scene(&s, &err));
    assert_true(bl_clock_ms(start, bl_clock_ns()) < 2000);
    pthread_join(thread, NULL);
    end(&s);
}

/* A caller may stop waiting: the children that compile for this caller end, and the next caller gets new children. */
static void work_can_be_halted(void **state)
{
    static bl_trial trial[1];
    atomic_bool cancel = true;
    scene s = begin("good", 2);
    bl_trials trials = {.nbuffers = 1,
                        .buffer[0] = {.bytes = 4096, .fill = BL_TRIAL_F32, .result = true},
                        .ntrials = 1,
                        .trial = trial,
                        .max_seconds = LIMIT};
    int64_t start = bl_clock_ns();
    bl_err err;

    (void)state;
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "slow%d", i);
        add(&s, name);
    }
    add_many(&s, 0);
    s.halt.deadline_ns = start + 300000000;
    assert_int_equal(BL_ETIMEOUT, compile_scene(&s, &err));
    assert_true(bl_clock_ms(start, bl_clock_ns()) >= 300);
    assert_true(bl_clock_ms(start, bl_clock_ns()) < 1300);
    assert_int_equal(0, bl_children_count(s.children));
    s.halt = (bl_halt){.cancel = &cancel};
    assert_int_equal(BL_ECANCELLED, compile_scene(&s, &err));
    s.sources[0].nbuffers = 1;
    trial[0] = (bl_trial){.nlaunches = 1};
    trial[0].launch[0] = (bl_trial_launch){.source = s.sources[0], .groups = {1, 1, 1}};
    trials.halt = s.halt;
    err = (bl_err){0};
    assert_int_equal(BL_ECANCELLED, bl_children_time(s.children, s.dev, &trials, &err));
    s.halt = (bl_halt){0};
    s.n = 0;
    add(&s, "quick");
    add_many(&s, 0);
    assert_int_equal(BL_OK, compile_scene(&s, &err));
    assert_int_equal(1, count_compiled(&s));
    end(&s);
}

/* The process is gone or a zombie. */
static bool is_gone(int pid)
{
    char path[64], state = 'Z';
    FILE *file = NULL;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    if (file == NULL)
        return true;
    if (fscanf(file, "%*d %*s %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z';
}

/* A killed parent leaves no child behind, even if one child hangs and the other waits. */
static void none_is_left_behind(void **state)
{
    scene s = begin("good", 2);
    unsigned together = 0;
    int child = 0;
    pid_t parent = fork();

    (void)state;
    assert_true(parent >= 0);
    add_many(&s, 1);
    if (parent == 0) {
        bl_err err;
        (void)!compile_scene(&s, &err);
        add(&s, "slow1");
        (void)!compile_scene(&s, &err);
        pause();
    }
    add(&s, "slow1");
    add_many(&s, 0);
    for (int64_t start = bl_clock_ns(); count_compiled(&s) < 2;) {
        assert_true(bl_clock_ms(start, bl_clock_ns()) < IN_TIME_MS);
        usleep(10000);
    }
    usleep(50000); /* the file may be written but not yet closed */
    child = read_who(&s, 0, &together);
    assert_false(is_gone(child));
    assert_int_equal(0, kill(parent, SIGKILL));
    assert_int_equal(parent, waitpid(parent, NULL, 0));
    for (int64_t start = bl_clock_ns(); !is_gone(child);) {
        assert_true(bl_clock_ms(start, bl_clock_ns()) < IN_TIME_MS);
        usleep(10000);
    }
    end(&s);
}

static void trials_survive_their_kernels(void **state)
{
    static const char *const names[] = {"first", "bad", "runs_dead", "dies", "last"};
    static const bl_status want[] = {BL_OK, BL_EBUG, BL_EDEVICE, BL_EBUG, BL_OK};
    enum { N = sizeof names / sizeof names[0] };
    static bl_trial trial[N];
    bl_trials trials = {.nbuffers = 1,
                        .buffer[0] = {.bytes = 4096, .fill = BL_TRIAL_F32, .result = true},
                        .ntrials = N,
                        .trial = trial,
                        .max_seconds = 0.01,
                        .halt = {.deadline_ns = bl_clock_ns() + INT64_C(600000000000)}};
    atomic_bool *cancel = malloc(sizeof *cancel);
    scene s = begin("good", 2);
    bl_err err = {0};

    (void)state;
    assert_non_null(cancel);
    atomic_init(cancel, false);
    trials.halt.cancel = cancel; /* an address of this process: a child that read it would crash */
    for (int i = 0; i < N; i++) {
        add(&s, names[i]);
        s.sources[i].nbuffers = 1;
        trial[i] = (bl_trial){.nlaunches = 1, .status = BL_EINVAL};
        trial[i].launch[0] = (bl_trial_launch){.source = s.sources[i], .groups = {1, 1, 1}};
        trial[i].launch[0].source.entry = trial[i].launch[0].source.text = names[i];
    }
    assert_int_equal(BL_OK, bl_children_time(s.children, s.dev, &trials, &err));
    for (int i = 0; i < N; i++) {
        if (trial[i].status != want[i])
            fail_msg("%s: expected %s, got %s: %s", names[i], bl_status_name(want[i]), bl_status_name(trial[i].status),
                     trial[i].why);
    }
    end(&s);
    trials.halt.cancel = NULL;
    free(cancel);
    s = begin("mute", 1);
    err = (bl_err){0};
    assert_int_equal(BL_EDEVICE, bl_children_time(s.children, s.dev, &trials, &err));
    end(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_shared_out),     cmocka_unit_test(culprits_are_found),
        cmocka_unit_test(liars_are_not_believed), cmocka_unit_test(none_may_come),
        cmocka_unit_test(one_may_be_killed),      cmocka_unit_test(idle_deaths_are_seen),
        cmocka_unit_test(waiting_can_be_ended),   cmocka_unit_test(work_can_be_halted),
        cmocka_unit_test(none_is_left_behind),    cmocka_unit_test(trials_survive_their_kernels),
    };
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);

    if (argc == 3 && strcmp(argv[1], "child") == 0)
        be_child(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    return len > 0 ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
