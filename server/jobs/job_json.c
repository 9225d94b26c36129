/* SPDX-License-Identifier: MIT */
#include "proto/encode.h"
#include "server/jobs/jobs_internal.h"

const char *const job_state_names[] = {"queued", "running", "done", "failed", "cancelled"};

static void put_checkpoints(const bl_job *job, bl_text *out)
{
    bl_encode_key(out, "checkpoints");
    bl_text_puts(out, "[");
    for (int i = 0; i < job->files.nmarks; i++) {
        bl_text_puts(out, i > 0 ? ",{" : "{");
        bl_encode_key(out, "step");
        bl_encode_u64(out, job->files.marks[i].step);
        bl_encode_key(out, "bytes");
        bl_encode_u64(out, job->files.marks[i].bytes);
        bl_encode_measured(out, "time", job->files.marks[i].time);
        bl_text_puts(out, "}");
    }
    bl_text_puts(out, "]");
}

/* Write the steps between the reports of the history, if they exceed the steps that the job asks for. */
static void put_thinned(const bl_job *job, bl_text *out)
{
    const job_history *h = &job->files.history;
    if (!h->thinned)
        return;
    bl_encode_key(out, "thinned");
    bl_text_puts(out, "{");
    if (h->every > 0) {
        bl_encode_key(out, "metrics");
        bl_encode_u64(out, h->every);
    }
    if (h->evaluated > 0) {
        bl_encode_key(out, "evaluation");
        bl_encode_u64(out, h->evaluated);
    }
    bl_text_puts(out, "}");
}

static void job_json_put_progress(const bl_job *job, bl_text *out)
{
    bl_encode_key(out, "step");
    bl_encode_u64(out, job->progress.step);
    bl_encode_key(out, "steps");
    bl_encode_u64(out, job->ask.steps);
    if (job->progress.rate > 0) {
        bl_encode_measured(out, "rate", job->progress.rate);
        if (!job_is_final(job))
            bl_encode_measured(out, "seconds_left", (double)(job->ask.steps - job->progress.step) / job->progress.rate);
    }
}

void job_describe(bl_job *job, bl_text *out)
{
    const char *warning = job->files.warning[0] != '\0' ? job->files.warning : job->files.history.refused;
    const job_report *last = job->progress.nreports > 0 ? &job->progress.ring[(job->progress.nreports - 1) % JOB_RING] : NULL;
    bl_text_puts(out, "{");
    bl_encode_key(out, "job");
    bl_encode_string(out, job->id);
    bl_encode_key(out, "program");
    bl_encode_string(out, job->ask.program_name);
    bl_encode_key(out, "entry");
    bl_encode_string(out, job->ask.entry_name);
    bl_encode_key(out, "device");
    bl_encode_string(out, job->ask.device);
    bl_encode_key(out, "state");
    bl_encode_string(out, job_state_names[job->state]);
    bl_encode_key(out, "reason");
    bl_encode_string(out, job->reason);
    if (warning[0] != '\0') {
        bl_encode_key(out, "warning");
        bl_encode_string(out, warning);
    }
    job_json_put_progress(job, out);
    bl_encode_key(out, "priority");
    bl_text_printf(out, "%d", job->ask.priority);
    bl_encode_measured(out, "created", job->ask.created);
    if (job->progress.started > 0)
        bl_encode_measured(out, "started", job->progress.started);
    if (job->progress.ended > 0)
        bl_encode_measured(out, "ended", job->progress.ended);
    bl_encode_key(out, "restarts");
    bl_encode_u64(out, (uint64_t)job->progress.restarts);
    if (last != NULL)
        job_report_write(job, last, out);
    put_thinned(job, out);
    put_checkpoints(job, out);
    bl_text_puts(out, "}");
}
