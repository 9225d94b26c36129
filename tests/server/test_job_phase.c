/* SPDX-License-Identifier: MIT */
/* The state machine of jobs: every phase can be reached, final phases stay, and a transition that the table lacks changes
 * nothing.  tests/docs/test_jobs_phases.py compares the table with docs/jobs.md. */
#include "server/jobs/jobs_internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

void jobs_wake(bl_jobs *jobs)
{
    (void)jobs;
}

enum { PHASES = WRITE_UNSENT + 1, EVENTS = EVENT_WRITTEN + 1 };

static bool is_of_writes(int phase)
{
    return phase >= WRITE_NONE;
}

static void phases_are_reached(void **state)
{
    bool reached[PHASES] = {[JOB_NEW] = true, [WRITE_NONE] = true}, ends[PHASES] = {[JOB_ENDED] = true, [WRITE_NONE] = true};
    job_phase to = JOB_NEW;
    (void)state;
    for (int round = 0; round < PHASES; round++)
        for (int from = 0; from < PHASES; from++)
            for (int event = 0; event < EVENTS; event++)
                if (job_phase_next((job_phase)from, (job_event)event, &to)) {
                    reached[to] |= reached[from];
                    ends[from] |= ends[to];
                }
    for (int i = 0; i < PHASES; i++) {
        assert_true(reached[i]);
        assert_true(ends[i]); /* each job can end, and each write */
    }
}

static void machines_are_apart(void **state)
{
    job_phase to = JOB_NEW;
    int n = 0;
    (void)state;
    for (int from = 0; from < PHASES; from++)
        for (int event = 0; event < EVENTS; event++)
            if (job_phase_next((job_phase)from, (job_event)event, &to)) {
                n++;
                assert_true(is_of_writes(from) == is_of_writes((int)to));
                assert_true(is_of_writes(from) == (event >= EVENT_SNAP));
            }
    assert_int_equal(27, n); /* the number of rows: no row is hidden by an earlier row for the same event */
}

static void final_phases_stay(void **state)
{
    job_phase to = JOB_NEW;
    (void)state;
    for (int event = 0; event < EVENTS; event++) {
        assert_false(job_phase_next(JOB_ENDED, (job_event)event, &to));
        for (int from = JOB_ENDING; from < JOB_ENDED; from++)
            if (job_phase_next((job_phase)from, (job_event)event, &to))
                assert_true(to >= JOB_ENDING && to <= JOB_ENDED); /* a decided job takes no step again */
        assert_true(!job_phase_next(JOB_STORED, (job_event)event, &to) || to == JOB_ENDED);
        if (job_phase_next(JOB_AT_WORK, (job_event)event, &to))
            assert_int_equal(JOB_IDLE, to); /* a slice that runs uses |means|, so the job is neither lost nor ended meanwhile */
    }
}

/* Take the transition if the table has it; else check that the refusal changes nothing.  Builds with assertions abort
 * instead of refusing. */
static void step_from(bl_jobs *jobs, int from, int event)
{
    bl_job job = {.jobs = jobs, .id = "j", .phase = JOB_IDLE, .writes = WRITE_NONE, .files = {.need = 5}};
    job_phase *phase = is_of_writes(from) ? &job.writes : &job.phase, to = JOB_NEW;
    bool known = job_phase_next((job_phase)from, (job_event)event, &to);
    *phase = (job_phase)from;
    if (is_of_writes(from) != (event >= EVENT_SNAP))
        return; /* job_step applies the event to the other machine */
#ifndef NDEBUG
    if (!known)
        return;
#endif
    atomic_store(&jobs->nrestoring, from == JOB_LOST || from == JOB_RESTORING);
    jobs->taken = from == JOB_RESTORING;
    jobs->needed = from == JOB_RESTORING ? 5 : 0;
    job_step(&job, (job_event)event);
    if (!known)
        to = (job_phase)from;
    assert_int_equal(to, *phase);
    assert_int_equal(to == JOB_LOST || to == JOB_RESTORING, atomic_load(&jobs->nrestoring));
    assert_int_equal(to == JOB_RESTORING, jobs->taken);
    assert_int_equal(to == JOB_RESTORING ? 5 : 0, jobs->needed);
    assert_int_equal(is_of_writes(from) ? JOB_IDLE : to, job.phase);
}

static void steps_are_counted(void **state)
{
    bl_jobs *jobs = *state;
    for (int from = 0; from < PHASES; from++)
        for (int event = 0; event < EVENTS; event++)
            step_from(jobs, from, event);
}

int main(void)
{
    static bl_jobs jobs;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_are_reached),
        cmocka_unit_test(machines_are_apart),
        cmocka_unit_test(final_phases_stay),
        cmocka_unit_test_prestate(steps_are_counted, &jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
