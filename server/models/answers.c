/* SPDX-License-Identifier: MIT */
#include "server/models/answers.h"

#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "server/models/model_infer.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };

typedef struct answer {
    struct answer *next;          /* next in the hash bucket */
    struct answer *newer, *older; /* LRU list */
    atomic_int refs;              /* references of the table, and of requests that send the answer */
    bl_budget *budget;
    uint64_t hash;
    size_t key_bytes, bytes; /* sizes of the key and of the whole block */
    char *key;               /* shapes and elements of the inputs */
    int nparts;
    bl_part *parts;
} answer;

struct bl_answers {
    bl_budget *budget;
    size_t limit;
    pthread_mutex_t lock;
    size_t bytes;
    answer *newest, *oldest;
    answer *bucket[BUCKETS];
};

bl_answers *bl_answers_create(bl_server *server)
{
    bl_answers *answers = bl_calloc(1, sizeof *answers);
    if (answers == NULL)
        return NULL;
    answers->budget = &server->memory;
    answers->limit = (size_t)server->settings.response_cache;
    pthread_mutex_init(&answers->lock, NULL);
    return answers;
}

static void answers_release(void *arg)
{
    answer *a = arg;
    if (atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    bl_budget_give(a->budget, a->bytes);
    free(a); /* one block has the whole answer */
}

/* Under the lock. */
static void answers_unlink_use(bl_answers *answers, answer *a)
{
    *(a->newer != NULL ? &a->newer->older : &answers->newest) = a->older;
    *(a->older != NULL ? &a->older->newer : &answers->oldest) = a->newer;
    a->newer = a->older = NULL;
}

static void answers_link_newest(bl_answers *answers, answer *a)
{
    a->older = answers->newest;
    *(a->older != NULL ? &a->older->newer : &answers->oldest) = a;
    answers->newest = a;
}

static void answers_drop(bl_answers *answers, answer *a)
{
    answer **at = &answers->bucket[a->hash % BUCKETS];
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    answers_unlink_use(answers, a);
    answers->bytes -= a->bytes;
    answers_release(a);
}

void bl_answers_destroy(bl_answers *answers)
{
    if (answers == NULL)
        return;
    while (answers->oldest != NULL)
        answers_drop(answers, answers->oldest);
    pthread_mutex_destroy(&answers->lock);
    free(answers);
}

/* The size of the key: the owner of the request, and the dimensions and elements of each input.  The owner is part of the key,
 * so that the time of an answer does not reveal the requests of another key. */
static size_t key_bytes(const bl_infer *in)
{
    size_t bytes = sizeof in->rq->owner;
    for (int i = 0; i < in->version->batcher.ninputs; i++)
        bytes += sizeof in->item.values[i].dim + in->item.values[i].bytes;
    return bytes;
}

static uint64_t key_hash(const bl_infer *in)
{
    uint64_t hash = bl_hash_bytes(&in->rq->owner, sizeof in->rq->owner, 1);
    for (int i = 0; i < in->version->batcher.ninputs; i++) {
        hash = bl_hash_bytes(in->item.values[i].dim, sizeof in->item.values[i].dim, hash);
        hash = bl_hash_bytes(in->item.source[i], in->item.values[i].bytes, hash);
    }
    return hash;
}

static void write_key(const bl_infer *in, char *to)
{
    memcpy(to, &in->rq->owner, sizeof in->rq->owner);
    to += sizeof in->rq->owner;
    for (int i = 0; i < in->version->batcher.ninputs; i++) {
        const bl_tensor_value *value = &in->item.values[i];
        memcpy(to, value->dim, sizeof value->dim);
        memcpy(to + sizeof value->dim, in->item.source[i], value->bytes);
        to += sizeof value->dim + value->bytes;
    }
}

static bool same_key(const bl_infer *in, const char *key)
{
    bool same = memcmp(key, &in->rq->owner, sizeof in->rq->owner) == 0;
    key += sizeof in->rq->owner;
    for (int i = 0; same && i < in->version->batcher.ninputs; i++) {
        const bl_tensor_value *value = &in->item.values[i];
        same = memcmp(key, value->dim, sizeof value->dim) == 0 &&
               memcmp(key + sizeof value->dim, in->item.source[i], value->bytes) == 0;
        key += sizeof value->dim + value->bytes;
    }
    return same;
}

/* Under the lock. */
static answer *answers_find(bl_answers *answers, const bl_infer *in, uint64_t hash, size_t bytes)
{
    answer *a = answers->bucket[hash % BUCKETS];
    while (a != NULL && (a->hash != hash || a->key_bytes != bytes || !same_key(in, a->key)))
        a = a->next;
    return a;
}

bool bl_answers_find(bl_answers *answers, bl_infer *in)
{
    uint64_t hash = key_hash(in);
    answer *a = NULL;
    pthread_mutex_lock(&answers->lock);
    a = answers_find(answers, in, hash, key_bytes(in));
    if (a != NULL) {
        answers_unlink_use(answers, a);
        answers_link_newest(answers, a);
        atomic_fetch_add(&a->refs, 1);
    }
    pthread_mutex_unlock(&answers->lock);
    if (a == NULL || bl_request_defer(in->rq, answers_release, a) != BL_OK)
        return false;
    memcpy(in->item.got, a->parts, (size_t)a->nparts * sizeof *in->item.got);
    return true;
}

static size_t answers_part_bytes(const bl_infer *in, int i)
{
    return in->item.got[i].count * bl_dtype_bytes(in->version->outputs[i].dtype);
}

/* Copy an answer into one block: the answer, its parts, its key, the elements of the outputs.  NULL: out of memory. */
static answer *answers_copy(bl_answers *answers, const bl_infer *in, size_t key)
{
    size_t parts = (size_t)in->version->noutputs * sizeof(bl_part), bytes = sizeof(answer) + parts + key;
    answer *a = NULL;
    char *to = NULL;
    bl_err ignored = {0};
    for (int i = 0; i < in->version->noutputs; i++)
        bytes += answers_part_bytes(in, i);
    if (bytes > answers->limit || bl_budget_take(answers->budget, bytes, BL_ENOMEM, "an answer", &ignored) != BL_OK)
        return NULL;
    a = bl_calloc(1, bytes);
    if (a == NULL) {
        bl_budget_give(answers->budget, bytes);
        return NULL;
    }
    atomic_init(&a->refs, 1);
    a->budget = answers->budget;
    a->bytes = bytes;
    a->key_bytes = key;
    a->nparts = in->version->noutputs;
    a->parts = (bl_part *)(a + 1);
    a->key = (char *)(a->parts + a->nparts);
    write_key(in, a->key);
    to = a->key + key;
    for (int i = 0; i < a->nparts; i++) {
        a->parts[i] = in->item.got[i];
        a->parts[i].data = to;
        if (answers_part_bytes(in, i) > 0)
            memcpy(to, in->item.got[i].data, answers_part_bytes(in, i));
        to += answers_part_bytes(in, i);
    }
    return a;
}

void bl_answers_keep(bl_answers *answers, const bl_infer *in)
{
    size_t key = key_bytes(in);
    answer *a = answers_copy(answers, in, key);
    if (a == NULL)
        return;
    a->hash = key_hash(in);
    pthread_mutex_lock(&answers->lock);
    if (answers_find(answers, in, a->hash, key) == NULL) { /* no other request has cached it meanwhile */
        a->next = answers->bucket[a->hash % BUCKETS];
        answers->bucket[a->hash % BUCKETS] = a;
        answers_link_newest(answers, a);
        answers->bytes += a->bytes;
        a = NULL;
    }
    while (answers->bytes > answers->limit)
        answers_drop(answers, answers->oldest);
    pthread_mutex_unlock(&answers->lock);
    if (a != NULL)
        answers_release(a);
}
