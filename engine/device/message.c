/* SPDX-License-Identifier: MIT */
#include "engine/device/message.h"

#include "engine/base/fault.h"

#include <string.h>

static const uint32_t magic = 0x31636c62; /* "blc1" in the pipe's byte order */

void bl_message_begin(bl_text *out, uint32_t kind)
{
    bl_message_head head = {.magic = magic, .kind = kind};

    bl_text_append(out, (const char *)&head, sizeof head);
}

void bl_message_end(bl_text *out)
{
    uint64_t len = out->len - sizeof(bl_message_head);

    if (!out->failed)
        memcpy(out->data + offsetof(bl_message_head, len), &len, sizeof len);
}

bool bl_message_is_head(const bl_message_head *head)
{
    return head->magic == magic && head->kind <= BL_MESSAGE_TIME && head->len <= BL_MESSAGE_MOST_BYTES;
}

/* ---- writing */

void bl_message_put(bl_text *out, const void *data, size_t len)
{
    bl_text_append(out, data, len);
}

void bl_message_put_u32(bl_text *out, uint32_t value)
{
    bl_message_put(out, &value, sizeof value);
}

void bl_message_put_string(bl_text *out, const char *data, size_t len)
{
    bl_message_put_u32(out, (uint32_t)len);
    bl_message_put(out, data, len);
    bl_text_putc(out, '\0');
}

void bl_message_put_source(bl_text *out, const bl_kernel_source *source)
{
    bl_kernel_source numbers = *source;

    numbers.entry = numbers.text = NULL;
    numbers.linear = NULL; /* only devices that read no text use |linear|, and such devices have no children */
    bl_message_put(out, &numbers, sizeof numbers);
    bl_message_put_string(out, source->entry, strlen(source->entry));
    bl_message_put_string(out, source->text, source->len);
}

void bl_message_put_err(bl_text *out, const bl_err *err)
{
    bl_message_put_u32(out, (uint32_t)err->status);
    bl_message_put_string(out, err->text, strlen(err->text));
}

void bl_message_put_trials(bl_text *out, const bl_trials *trials, const int *which, int n)
{
    bl_message_put_u32(out, (uint32_t)trials->nbuffers);
    bl_message_put(out, trials->buffer, sizeof trials->buffer);
    bl_message_put_u32(out, (uint32_t)n);
    bl_message_put(out, &trials->max_seconds, sizeof trials->max_seconds);
    for (int i = 0; i < n; i++) {
        const bl_trial *trial = &trials->trial[which[i]];

        bl_message_put_u32(out, (uint32_t)trial->nlaunches);
        for (int k = 0; k < trial->nlaunches; k++) {
            const bl_trial_launch *launch = &trial->launch[k];

            bl_message_put_source(out, &launch->source);
            bl_message_put(out, launch->slot, sizeof launch->slot);
            bl_message_put(out, launch->scalar, sizeof launch->scalar);
            bl_message_put(out, launch->groups, sizeof launch->groups);
        }
    }
}

void bl_message_put_results(bl_text *out, const bl_trials *trials)
{
    for (int i = 0; i < trials->ntrials; i++) {
        const bl_trial *trial = &trials->trial[i];

        bl_message_put_u32(out, (uint32_t)trial->status);
        bl_message_put(out, &trial->ns, sizeof trial->ns);
        bl_message_put(out, &trial->difference, sizeof trial->difference);
        bl_message_put_string(out, trial->why, strnlen(trial->why, sizeof trial->why));
    }
}

/* ---- reading */

void bl_message_take(bl_message_reader *in, void *data, size_t len)
{
    if (in->bad || in->left < len) {
        in->bad = true;
        memset(data, 0, len);
        return;
    }
    memcpy(data, in->at, len);
    in->at += len;
    in->left -= len;
}

uint32_t bl_message_take_u32(bl_message_reader *in)
{
    uint32_t value = 0;

    bl_message_take(in, &value, sizeof value);
    return value;
}

uint32_t bl_message_take_count(bl_message_reader *in, uint32_t most)
{
    uint32_t n = bl_message_take_u32(in);

    in->bad = in->bad || n > most;
    return in->bad ? 0 : n;
}

const char *bl_message_take_string(bl_message_reader *in, size_t *len)
{
    const char *text = NULL;

    *len = bl_message_take_u32(in);
    if (in->bad || in->left <= *len || in->at[*len] != '\0') {
        in->bad = true;
        *len = 0;
        return "";
    }
    text = in->at;
    in->at += *len + 1;
    in->left -= *len + 1;
    return text;
}

void bl_message_take_source(bl_message_reader *in, bl_kernel_source *source)
{
    size_t len = 0;

    bl_message_take(in, source, sizeof *source);
    source->linear = NULL;
    source->entry = bl_message_take_string(in, &len);
    source->text = bl_message_take_string(in, &source->len);
}

/* Read a status. A malformed message gives the status of a failure. */
static bl_status take_status(bl_message_reader *in)
{
    uint32_t status = bl_message_take_u32(in);

    in->bad = in->bad || status >= BL_STATUS_COUNT;
    return in->bad ? BL_EBUG : (bl_status)status;
}

static void message_take_text(bl_message_reader *in, char *text, size_t size)
{
    size_t len = 0;
    const char *found = bl_message_take_string(in, &len);

    len = len < size - 1 ? len : size - 1;
    memcpy(text, found, len);
    text[len] = '\0';
}

void bl_message_take_err(bl_message_reader *in, bl_err *err)
{
    *err = (bl_err){.status = take_status(in)};
    message_take_text(in, err->text, sizeof err->text);
}

static void take_trial(bl_message_reader *in, bl_trial *trial)
{
    trial->nlaunches = (int)bl_message_take_count(in, BL_TRIAL_LAUNCHES);
    for (int k = 0; k < trial->nlaunches; k++) {
        bl_trial_launch *launch = &trial->launch[k];

        bl_message_take_source(in, &launch->source);
        bl_message_take(in, launch->slot, sizeof launch->slot);
        bl_message_take(in, launch->scalar, sizeof launch->scalar);
        bl_message_take(in, launch->groups, sizeof launch->groups);
    }
}

void bl_message_take_trials(bl_message_reader *in, bl_trials *trials)
{
    *trials = (bl_trials){.nbuffers = (int)bl_message_take_count(in, BL_TRIAL_BUFFERS)};
    bl_message_take(in, trials->buffer, sizeof trials->buffer);
    trials->ntrials = (int)bl_message_take_count(in, BL_MESSAGE_MOST_ITEMS);
    bl_message_take(in, &trials->max_seconds, sizeof trials->max_seconds);
    in->bad = in->bad || trials->ntrials < 1;
    if (in->bad)
        return;
    trials->trial = bl_calloc((size_t)trials->ntrials, sizeof *trials->trial);
    in->bad = trials->trial == NULL;
    for (int i = 0; i < trials->ntrials && !in->bad; i++)
        take_trial(in, &trials->trial[i]);
}

void bl_message_take_results(bl_message_reader *in, bl_trials *trials, const int *which, int n)
{
    for (int i = 0; i < n; i++) {
        bl_trial *trial = &trials->trial[which[i]];

        trial->status = take_status(in);
        bl_message_take(in, &trial->ns, sizeof trial->ns);
        bl_message_take(in, &trial->difference, sizeof trial->difference);
        message_take_text(in, trial->why, sizeof trial->why);
    }
}

bool bl_message_is_whole(const bl_message_reader *in)
{
    return !in->bad && in->left == 0;
}
