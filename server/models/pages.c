/* SPDX-License-Identifier: MIT */
#include "server/models/pages.h"

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "server/models/text_model.h"
#include "server/store/eviction.h"
#include "server/store/registry.h"

#include <stdlib.h>
#include <string.h>

enum {
    NO_PLACE = -1,
    LEAST_GROWTH = 4, /* minimum number of pages of one growth of the states */
    GROWTH = 16,      /* a growth adds 1/16 of the pages: few pages are free, and a page is copied at most 16 times */
    ROOM_PART = 32    /* room for a run is at most this part of the device's memory */
};

/* The prefix cache finds a page by the number of the page before it, by its owner and by its tokens.  Numbers are not reused.
 * The last page of a text that ended may have fewer tokens than BL_PAGE_TOKENS; such a page has no successor. */
struct bl_page {
    int64_t place; /* index in the states; NO_PLACE: not resident on the device */
    char *away;    /* copy in host memory; or NULL */
    int texts;     /* number of texts that use the page */
    bool stays;    /* find_youngest: the page may not be evicted */
    uint32_t payer;
    uint64_t number, behind; /* its number, 0: not in the tree; number of the predecessor, 0: none */
    uint32_t owner;
    size_t tokens; /* with keys and values in the page */
    int32_t token[BL_PAGE_TOKENS];
    bl_page *before, *next; /* LRU list of pages without texts, on the device or on the host */
    bl_page *chained;       /* next in the hash bucket */
};

typedef struct order {
    bl_page *oldest, *youngest;
    int64_t count;
} order;

typedef struct census {
    int64_t used, kept, free, away; /* places of texts; unused but cached; free; pages on the host */
} census;

struct bl_pages {
    pthread_mutex_t lock;
    bl_program *program; /* owns the pool through its version */
    bl_server *server;
    int nstates;
    int *state;    /* state indices of the program: the states with pages */
    size_t *bytes; /* of a page, for each such state */
    size_t page_bytes;
    int64_t count; /* current number of places */
    int64_t most;  /* number of pages in the type of the states */
    bool shared;
    int64_t *free, nfree;
    bool *stale; /* test fault BL_FAULT_PAGE: fill the freed place with NaN */
    int64_t nstale;
    bl_text_pages *texts;
    bl_gate gate;      /* changes when a text that was refused may try again */
    bool refused;      /* a text was refused since the last change of the gate */
    bool refused_busy; /* a refused text may take pages of a younger text after its run */
    bool changed;      /* a place became free, or the pages of a text became evictable */
    order here, away;  /* LRU lists of pages without texts, on the device and on the host */
    int64_t naway;     /* pages on the host, with or without texts */
    census told;       /* the values in the metrics */
    size_t charged;    /* bytes charged to the program's owner for growth */
    size_t run_bytes;  /* peak memory of the largest run so far, without the states */
    uint64_t last_text, last_page;
    size_t nbuckets;
    bl_page **bucket;
};

/* ---- the pool */

/* The bytes of one page: the product of the axes behind the first. */
static size_t bytes_of_page(const bl_state *state)
{
    size_t bytes = bl_dtype_bytes(state->type.type.dtype);
    for (int d = 1; d < state->type.type.ndim; d++)
        bytes *= (size_t)state->type.type.dim[d].size; /* the product was checked when the program was decoded */
    return bytes;
}

static void push_place(bl_pages *p, int64_t place)
{
    p->free[p->nfree++] = place;
    p->stale[place] = bl_fault_hit(BL_FAULT_PAGE);
    p->nstale += p->stale[place];
}

bl_status bl_pages_create(bl_model_instance *instance, int64_t count, bool shared, bl_pages **out, bl_err *err)
{
    const bl_plan_info *info = bl_plan_get_info(instance->slot.plan);
    bl_pages *p = bl_calloc(1, sizeof *p);
    *out = p;
    if (p == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for pages of texts");
    pthread_mutex_init(&p->lock, NULL);
    p->program = instance->slot.program;
    p->server = instance->slot.program->server;
    p->count = p->most = count;
    p->shared = shared;
    for (p->nbuckets = 64; p->nbuckets < 2 * (size_t)count;)
        p->nbuckets *= 2;
    p->bucket = bl_calloc(p->nbuckets, sizeof *p->bucket);
    p->free = bl_calloc((size_t)count, sizeof *p->free);
    p->stale = bl_calloc((size_t)count, sizeof *p->stale);
    p->state = bl_calloc((size_t)info->nstates, sizeof *p->state);
    p->bytes = bl_calloc((size_t)info->nstates, sizeof *p->bytes);
    if (p->bucket == NULL || p->free == NULL || p->stale == NULL || p->state == NULL || p->bytes == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for pages of texts");
    for (int i = 0; i < info->nstates; i++) {
        int at = instance->slot.entry->state[i];
        size_t each = bytes_of_page(&p->program->states[at]);
        if (!info->updated[i])
            continue;
        if (each == 0)
            return bl_fail(err, BL_EGRAPH, "state \"%s\" of pages must have an element", p->program->states[at].type.name);
        p->state[p->nstates] = at;
        p->bytes[p->nstates++] = each;
        p->page_bytes += each;
        if ((int64_t)(p->program->states[at].bytes / each) < p->count)
            p->count = (int64_t)(p->program->states[at].bytes / each);
    }
    while (p->nfree < p->count) { /* the first place is taken first */
        int64_t at = p->count - 1 - p->nfree;
        push_place(p, at);
    }
    return BL_OK;
}

static void free_away(bl_pages *p, bl_page *page)
{
    p->naway -= page->away != NULL;
    bl_evictable_free_copy(p->program->worker, page->away, p->page_bytes);
    page->away = NULL;
}

static void unlock_pages(bl_pages *p)
{
    census now = {.used = p->count - p->nfree - p->here.count, .kept = p->here.count, .free = p->nfree, .away = p->naway};
    bl_metrics *metrics = &p->server->metrics;
    bool opens = false;
    bl_metrics_add(metrics, BL_COUNT_PAGES_USED, now.used - p->told.used);
    bl_metrics_add(metrics, BL_COUNT_PAGES_KEPT, now.kept - p->told.kept);
    bl_metrics_add(metrics, BL_COUNT_PAGES_FREE, now.free - p->told.free);
    bl_metrics_add(metrics, BL_COUNT_PAGES_AWAY, now.away - p->told.away);
    p->told = now;
    opens = p->refused && p->changed;
    p->changed = false;
    p->refused = p->refused && !opens;
    pthread_mutex_unlock(&p->lock);
    if (opens)
        bl_queue_open(p->program->worker->queue, &p->gate);
}

void bl_pages_destroy(bl_pages *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; p->bucket != NULL && i < p->nbuckets; i++) /* no text is left: texts retain the version */
        for (bl_page *page = p->bucket[i], *next = NULL; page != NULL; page = next) {
            next = page->chained;
            free_away(p, page);
            free(page);
        }
    pthread_mutex_lock(&p->lock);
    bl_registry_refund(p->server->registry, p->program->owner, p->charged);
    p->count = p->nfree = p->here.count = p->naway = 0;
    unlock_pages(p);
    pthread_mutex_destroy(&p->lock);
    free(p->bucket);
    free(p->free);
    free(p->stale);
    free(p->state);
    free(p->bytes);
    free(p);
}

/* ---- least recent use */

static order *order_of(bl_pages *p, const bl_page *page)
{
    return page->place >= 0 ? &p->here : &p->away;
}

static void pages_append(order *o, bl_page *page)
{
    page->before = o->youngest;
    page->next = NULL;
    *(o->youngest != NULL ? &o->youngest->next : &o->oldest) = page;
    o->youngest = page;
    o->count++;
}

static void pages_take_out(order *o, bl_page *page)
{
    *(page->before != NULL ? &page->before->next : &o->oldest) = page->next;
    *(page->next != NULL ? &page->next->before : &o->youngest) = page->before;
    page->before = page->next = NULL;
    o->count--;
}

/* ---- places */

/* The owner of the program is charged for all places, and the owner of a text for its pages.  A page that a text uses is
 * refunded to the owner of the program, so that each place is charged once. */
static void count_lent(bl_pages *p, bool lent)
{
    bl_registry *registry = p->server->registry;
    bl_err ignored = {0};
    if (lent)
        bl_registry_refund_of(registry, p->program->owner, p->page_bytes, 0);
    else if (bl_registry_charge_of(registry, p->program->owner, p->page_bytes, 0, false, &ignored) != BL_OK)
        bl_log(BL_LOG_ERROR, "bug: the owner of a program has no account");
}

static void free_place(bl_pages *p, bl_page *page)
{
    push_place(p, page->place);
    page->place = NO_PLACE;
}

/* ---- the prefix cache */

static bl_page **pages_bucket_of(bl_pages *p, uint64_t behind, uint32_t owner, int32_t first)
{
    uint64_t hash = (behind + owner) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ (uint32_t)first) * UINT64_C(0xff51afd7ed558ccd);
    return &p->bucket[(hash ^ hash >> 29) & (p->nbuckets - 1)];
}

static size_t count_common(const bl_page *page, const int32_t *tokens, size_t count)
{
    size_t n = 0;
    while (n < count && n < page->tokens && page->token[n] == tokens[n])
        n++;
    return n;
}

static bool is_behind(const bl_page *page, uint64_t behind, uint32_t owner)
{
    return page->behind == behind && page->owner == owner;
}

/* The successor of page |behind| that shares the longest prefix with |tokens|; *common is its length.  NULL: none. */
static bl_page *find_page(bl_pages *p, uint64_t behind, uint32_t owner, const int32_t *tokens, size_t count, size_t *common)
{
    bl_page *found = NULL;
    *common = 0;
    for (bl_page *page = *pages_bucket_of(p, behind, owner, tokens[0]); page != NULL && *common < count; page = page->chained) {
        size_t n = is_behind(page, behind, owner) ? count_common(page, tokens, count) : 0;
        if (n > *common) {
            found = page;
            *common = n;
        }
    }
    return found;
}

/* Free a page that no text uses and that is in no LRU list. */
static void drop_page(bl_pages *p, bl_page *page)
{
    if (page->number != 0) {
        bl_page **at = pages_bucket_of(p, page->behind, page->owner, page->token[0]);
        while (*at != page)
            at = &(*at)->chained;
        *at = page->chained;
    }
    if (page->place >= 0)
        free_place(p, page);
    free_away(p, page);
    free(page);
}

/* Insert the page into the tree.  It replaces unused pages whose tokens are a prefix of its own. */
static void pages_list_page(bl_pages *p, bl_page *page, uint64_t behind, uint32_t owner)
{
    bl_page **bucket = pages_bucket_of(p, behind, owner, page->token[0]);
    for (bl_page *old = *bucket, *next = NULL; old != NULL; old = next) {
        next = old->chained;
        if (old->texts == 0 && is_behind(old, behind, owner) && count_common(old, page->token, page->tokens) == old->tokens) {
            pages_take_out(order_of(p, old), old);
            drop_page(p, old);
        }
    }
    page->number = ++p->last_page;
    page->behind = behind;
    page->owner = owner;
    page->chained = *bucket;
    *bucket = page;
}

/* ---- pages of texts */

static bl_status hold_page(bl_pages *p, const bl_text_pages *text, bl_page *page, bl_err *err)
{
    if (page->texts == 0) {
        BL_TRY(bl_registry_charge_of(p->server->registry, text->owner, p->page_bytes, 0, true, err));
        page->payer = text->owner;
        if (page->place >= 0)
            count_lent(p, true);
    }
    if (page->texts == 0 && page->number != 0)
        pages_take_out(order_of(p, page), page);
    page->texts++;
    return BL_OK;
}

static bl_status give_page(bl_pages *p, bl_text_pages *text, bl_page *page, bl_err *err)
{
    BL_TRY(hold_page(p, text, page, err));
    text->page[text->count++] = page;
    return BL_OK;
}

static void leave_page(bl_pages *p, bl_page *page)
{
    if (--page->texts > 0)
        return;
    p->changed = true;
    bl_registry_refund_of(p->server->registry, page->payer, p->page_bytes, 0);
    if (page->place >= 0)
        count_lent(p, false);
    if (page->number != 0)
        pages_append(order_of(p, page), page);
    else
        drop_page(p, page);
}

static bl_status pages_make_room(bl_text_pages *text, size_t count, bl_err *err)
{
    bl_page **page = text->page;
    if (count <= text->cap)
        return BL_OK;
    page = bl_realloc(text->page, 2 * count * sizeof(bl_page *));
    if (page == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for pages of a text");
    text->page = page;
    text->cap = 2 * count;
    return BL_OK;
}

/* Take the longest cached prefix.  Full pages are shared; reserve() copies the page behind them up to the last equal token. */
static bl_status find_pages(bl_pages *p, bl_text_pages *text, const int32_t *tokens, size_t count, size_t *fed, bl_err *err)
{
    uint64_t behind = 0;
    bl_err ignored = {0};
    for (*fed = 0; *fed + 1 < count;) {
        size_t left = count - 1 - *fed, common = 0; /* the last token of the prompt must be run */
        bl_page *page = find_page(p, behind, p->shared ? 0 : text->owner, tokens + *fed,
                                  left < BL_PAGE_TOKENS ? left : BL_PAGE_TOKENS, &common);
        if (page == NULL)
            break;
        if (common < BL_PAGE_TOKENS) {
            if (hold_page(p, text, page, &ignored) == BL_OK) {
                text->source = page;
                *fed += common;
            }
            break;
        }
        BL_TRY(pages_make_room(text, text->count + 1, err));
        BL_TRY(give_page(p, text, page, err));
        behind = page->number;
        text->full++;
        *fed += BL_PAGE_TOKENS;
    }
    return BL_OK;
}

bl_status bl_text_pages_begin(bl_text_pages *text, bl_pages *p, uint32_t owner, const int32_t *tokens, size_t count, bool found,
                              size_t *fed, bl_err *err)
{
    bl_status st = BL_OK;
    pthread_mutex_lock(&p->lock);
    *text = (bl_text_pages){.pool = p, .owner = owner, .number = ++p->last_text, .next = p->texts};
    if (p->texts != NULL)
        p->texts->before = text;
    p->texts = text;
    *fed = 0;
    if (found)
        st = find_pages(p, text, tokens, count, fed, err);
    unlock_pages(p);
    bl_metrics_add(&p->server->metrics, BL_COUNT_PREFIX_TOKENS, (int64_t)*fed);
    return st;
}

/* Insert the last, partial page of a text into the tree, for later texts that begin with the same tokens. */
static void list_last(bl_pages *p, const bl_text_pages *text)
{
    bl_page *page = text->full < text->count ? text->page[text->full] : NULL;
    uint64_t behind = text->full > 0 ? text->page[text->full - 1]->number : 0;
    uint32_t owner = p->shared ? 0 : text->owner;
    size_t common = 0;
    if (page == NULL || page->tokens == 0 || page->number != 0 || (text->full > 0 && behind == 0))
        return;
    (void)find_page(p, behind, owner, page->token, page->tokens, &common);
    if (common < page->tokens)
        pages_list_page(p, page, behind, owner);
}

void bl_text_pages_end(bl_text_pages *text)
{
    bl_pages *p = text->pool;
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    if (text->source != NULL)
        leave_page(p, text->source);
    list_last(p, text);
    while (text->count > 0) /* backwards, so that the LRU list evicts a page after its successors */
        leave_page(p, text->page[--text->count]);
    *(text->before != NULL ? &text->before->next : &p->texts) = text->next;
    if (text->next != NULL)
        text->next->before = text->before;
    unlock_pages(p);
    free(text->page);
    *text = (bl_text_pages){0};
}

/* ---- eviction, on the worker's thread */

/* Evict |page| to host memory, and free its place.  Under the lock. */
static bl_status send_away(bl_pages *p, bl_page *page, bl_err *err)
{
    bl_budget *memory = &p->server->memory;
    bl_status st = BL_OK;
    size_t at = 0;
    char *copy = NULL;
    BL_TRY(bl_budget_take(memory, p->page_bytes, BL_ENOMEM, "pages of texts that wait on the host", err));
    copy = bl_calloc(1, p->page_bytes);
    if (copy == NULL) {
        bl_budget_give(memory, p->page_bytes);
        return bl_fail(err, BL_ENOMEM, "out of host memory for pages of texts outside the device");
    }
    for (int i = 0; st == BL_OK && i < p->nstates; at += p->bytes[i++])
        st = bl_buffer_read(p->program->states[p->state[i]].buffer, (size_t)page->place * p->bytes[i], copy + at, p->bytes[i],
                            err);
    if (st != BL_OK) {
        bl_evictable_free_copy(p->program->worker, copy, p->page_bytes);
        return st;
    }
    page->away = copy;
    p->naway++;
    free_place(p, page);
    if (page->texts > 0)
        count_lent(p, false);
    bl_metrics_add(&p->server->metrics, BL_COUNT_PAGES_OUT, 1);
    return BL_OK;
}

/* |bytes|: the page of each state, one after the other. */
static bl_status pages_write_place(bl_pages *p, int64_t place, const char *bytes, bl_err *err)
{
    size_t at = 0;
    for (int i = 0; i < p->nstates; at += p->bytes[i++])
        BL_TRY(
            bl_buffer_write(p->program->states[p->state[i]].buffer, (size_t)place * p->bytes[i], bytes + at, p->bytes[i], err));
    return BL_OK;
}

static bl_status pages_bring_back(bl_pages *p, bl_page *page, bl_err *err)
{
    if (page->away == NULL)
        return BL_OK;
    BL_TRY(pages_write_place(p, page->place, page->away, err));
    bl_metrics_add(&p->server->metrics, BL_COUNT_PAGES_IN, 1);
    free_away(p, page);
    return BL_OK;
}

/* |to| is empty; |from| may be on the host. */
static bl_status copy_page(bl_pages *p, bl_page *to, const bl_page *from, bl_err *err)
{
    if (from->place < 0)
        return pages_write_place(p, to->place, from->away, err);
    for (int i = 0; i < p->nstates; i++) {
        bl_buffer *buffer = p->program->states[p->state[i]].buffer;
        BL_TRY(
            bl_buffer_copy(buffer, (size_t)to->place * p->bytes[i], buffer, (size_t)from->place * p->bytes[i], p->bytes[i], err));
    }
    return BL_OK;
}

/* For tests: fill a freed place with NaN, so that a run that reads stale keys or values computes NaN. */
static bl_status fill_place(bl_pages *p, int64_t place, bl_err *err)
{
    char *nan = p->stale[place] ? bl_calloc(1, p->page_bytes) : NULL;
    bl_status st = BL_OK;
    if (!p->stale[place])
        return BL_OK;
    if (nan == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for pages of texts");
    memset(nan, 0xff, p->page_bytes); /* all bits set is NaN for every float type */
    st = pages_write_place(p, place, nan, err);
    p->stale[place] = false;
    p->nstale--;
    free(nan);
    return st;
}

static bl_status fill_free(bl_pages *p, bl_err *err)
{
    for (int64_t i = 0; p->nstale > 0 && i < p->nfree; i++)
        BL_TRY(fill_place(p, p->free[i], err));
    return BL_OK;
}

/* Reallocate the states with |count| pages. */
static bl_status pages_widen(bl_pages *p, int64_t count, bl_err *err)
{
    bl_program *program = p->program;
    bl_pool *pool = program->worker->pool;
    for (int i = 0; i < p->nstates; i++) {
        bl_state *state = &program->states[p->state[i]];
        size_t bytes = (size_t)count * p->bytes[i], more = bytes > state->bytes ? bytes - state->bytes : 0;
        bl_buffer *wide = NULL;
        bl_status st = BL_OK;
        if (more == 0)
            continue;
        BL_TRY(bl_registry_charge(p->server->registry, program->owner, more, false, err));
        st = bl_pool_alloc_exact(pool, bytes, &wide, err);
        if (st == BL_OK)
            st = bl_buffer_copy(wide, 0, state->buffer, 0, state->bytes, err);
        if (st != BL_OK) {
            bl_pool_release(pool, wide);
            bl_registry_refund(p->server->registry, program->owner, more);
            return st;
        }
        p->charged += more;
        bl_buffer_release(state->buffer); /* the pool would not reuse a buffer of this size */
        state->buffer = wide;
        state->bytes = bytes;
    }
    for (int64_t at = count; at-- > p->count;)
        push_place(p, at);
    p->count = count;
    p->changed = true;
    return BL_OK;
}

/* Check that the device has memory for states of |count| pages and for a run.  A growth that takes the last bytes of the
 * device, or that fails after half of the states, would leave no memory for runs.  pages_widen() needs the most memory at the
 * last state. */
static bl_status pages_check_room(bl_pages *p, int64_t count, bl_err *err)
{
    bl_pool *pool = p->program->worker->pool;
    const bl_device_info *device = &p->program->worker->dev->info;
    size_t run = p->run_bytes < device->memory / ROOM_PART ? p->run_bytes : (size_t)(device->memory / ROOM_PART);
    size_t need = run + (size_t)p->count * p->bytes[p->nstates - 1] + (size_t)(count - p->count) * p->page_bytes;
    bl_buffer *room = NULL;
    BL_TRY(bl_pool_alloc_exact(pool, need < device->max_alloc ? need : (size_t)device->max_alloc, &room, err));
    bl_buffer_release(room);
    return BL_OK;
}

/* Grow the states by 1/GROWTH, if the device and the memory limit of the server have room. */
static bool pages_grow(bl_pages *p, bl_err *why)
{
    int64_t more = p->count / GROWTH > LEAST_GROWTH ? p->count / GROWTH : LEAST_GROWTH;
    int64_t count = p->count + more < p->most ? p->count + more : p->most;
    return p->count < p->most && pages_check_room(p, count, why) == BL_OK && pages_widen(p, count, why) == BL_OK;
}

bl_status bl_pages_admit(bl_pages *p, const bl_plan *plan, bl_err *err)
{
    const bl_plan_info *info = bl_plan_get_info(plan);
    bl_status st = BL_OK;
    bool whole = false;
    for (int i = 0; i < info->nstates; i++)
        whole = whole || (info->updated[i] && !info->in_place[i]);
    pthread_mutex_lock(&p->lock);
    p->run_bytes = info->peak_bytes > p->run_bytes ? info->peak_bytes : p->run_bytes;
    if (whole && p->count < p->most)
        st = pages_widen(p, p->most, err);
    unlock_pages(p);
    return st;
}

/* Evict the least recently used page without texts.  The host keeps at most |most| such pages, and drops the oldest. */
static bool send_kept(bl_pages *p)
{
    bl_page *page = p->here.oldest;
    bl_err ignored = {0};
    if (page == NULL)
        return false;
    pages_take_out(&p->here, page);
    if (p->away.count >= p->most) {
        bl_page *oldest = p->away.oldest;
        pages_take_out(&p->away, oldest);
        drop_page(p, oldest);
    }
    if (send_away(p, page, &ignored) == BL_OK)
        pages_append(&p->away, page);
    else
        drop_page(p, page);
    return true;
}

/* Does |t| keep its pages while |text| looks for a place?  Running and older texts do. */
static bool pages_is_before(const bl_text_pages *t, const bl_text_pages *text)
{
    return t == text || t->state == BL_PAGES_BUSY || (t->state == BL_PAGES_WAIT && t->number < text->number);
}

static bool may_send(const bl_page *page)
{
    return page != NULL && page->place >= 0 && !page->stays;
}

/* The youngest text with a resident page that no text with kept pages shares.  A page that is to be copied counts too. */
static bl_text_pages *find_youngest(const bl_pages *p, const bl_text_pages *text)
{
    bl_text_pages *found = NULL;
    for (int keeps = 0; keeps < 2; keeps++)
        for (bl_text_pages *t = p->texts; t != NULL; t = t->next) {
            for (size_t i = 0; i < t->count && (!keeps || pages_is_before(t, text)); i++)
                t->page[i]->stays = keeps;
            if (t->source != NULL && !keeps)
                t->source->stays = false;
        }
    for (bl_text_pages *t = p->texts; t != NULL; t = t->next) {
        bool has = may_send(t->source);
        for (size_t i = 0; i < t->count && !has; i++)
            has = may_send(t->page[i]);
        if (has && (found == NULL || t->number > found->number))
            found = t;
    }
    return found;
}

static bl_status send_text(bl_pages *p, bl_text_pages *text, bl_err *err)
{
    for (size_t i = text->count; i-- > 0;)
        if (may_send(text->page[i]))
            BL_TRY(send_away(p, text->page[i], err));
    return may_send(text->source) ? send_away(p, text->source, err) : BL_OK;
}

/* |text| must wait for the places of other texts.  If |text| has all places itself, it would wait for ever, so fail. */
static bl_status check_others(const bl_pages *p, const bl_text_pages *text, const bl_err *why, bl_err *err)
{
    int64_t own = 0;
    for (size_t i = 0; i < text->count; i++)
        own += text->page[i]->place >= 0;
    if (own < p->count || why->status == BL_OK)
        return BL_OK;
    return bl_fail(err, why->status, "a text has %lld pages of %d tokens already, and there is no memory for more: %s",
                   (long long)own, BL_PAGE_TOKENS, why->text);
}

/* Find a place for |page|.  page->place stays NO_PLACE if older texts use all places. */
static bl_status take_place(bl_pages *p, const bl_text_pages *text, bl_page *page, bl_err *err)
{
    bl_err why = {0};
    while (p->nfree == 0 && (pages_grow(p, &why) || send_kept(p)))
        continue;
    if (p->nfree == 0) {
        bl_text_pages *youngest = find_youngest(p, text);
        if (youngest == NULL)
            return check_others(p, text, &why, err);
        BL_TRY(send_text(p, youngest, err));
    }
    page->place = p->free[--p->nfree];
    bl_status st = fill_place(p, page->place, err);
    if (st == BL_OK)
        st = pages_bring_back(p, page, err);
    if (st == BL_OK)
        count_lent(p, true);
    else
        free_place(p, page);
    return st;
}

static bl_status add_page(bl_pages *p, bl_text_pages *text, bl_err *err)
{
    bl_page *page = bl_calloc(1, sizeof *page);
    bl_status st = page != NULL ? pages_make_room(text, text->count + 1, err) : bl_fail(err, BL_ENOMEM, "no memory for a page");
    if (st == BL_OK) {
        page->place = NO_PLACE;
        st = give_page(p, text, page, err);
    }
    if (st != BL_OK)
        free(page);
    return st;
}

static bl_status reserve(bl_pages *p, bl_text_pages *text, size_t count, bl_err *err)
{
    size_t pages = (count + BL_PAGE_TOKENS - 1) / BL_PAGE_TOKENS;
    text->state = BL_PAGES_WAIT;
    for (size_t i = 0; i < pages; i++) {
        if (i == text->count)
            BL_TRY(add_page(p, text, err));
        if (text->page[i]->place < 0)
            BL_TRY(take_place(p, text, text->page[i], err));
        if (text->page[i]->place < 0)
            return BL_OK;
    }
    if (text->source != NULL) {
        BL_TRY(copy_page(p, text->page[text->full], text->source, err));
        leave_page(p, text->source);
        text->source = NULL;
    }
    text->state = BL_PAGES_BUSY;
    return fill_free(p, err);
}

/* Under the lock: |text| must wait.  The gate changes when a text ends or rests, but not when others free device memory. */
static void note_refusal(bl_pages *p, const bl_text_pages *text)
{
    p->refused = true;
    for (const bl_text_pages *t = p->texts; t != NULL; t = t->next)
        p->refused_busy = p->refused_busy || (t->state == BL_PAGES_BUSY && t->number > text->number);
}

bl_status bl_text_pages_reserve(bl_text_pages *text, size_t count, bool *ready, bl_err *err)
{
    bl_status st = BL_OK;
    pthread_mutex_lock(&text->pool->lock);
    st = reserve(text->pool, text, count, err);
    *ready = text->state == BL_PAGES_BUSY;
    if (st == BL_OK && !*ready)
        note_refusal(text->pool, text);
    unlock_pages(text->pool);
    return st;
}

bl_gate *bl_text_pages_gate(const bl_text_pages *text)
{
    return &text->pool->gate;
}

/* Page |i| of the text is full.  Insert it into the tree, or replace it by the equal page that is there. */
static void finish_page(bl_pages *p, bl_text_pages *text, size_t i)
{
    uint64_t behind = i > 0 ? text->page[i - 1]->number : 0;
    uint32_t owner = p->shared ? 0 : text->owner;
    size_t common = 0;
    bl_page *own = text->page[i], *twin = find_page(p, behind, owner, own->token, BL_PAGE_TOKENS, &common);
    bl_err ignored = {0};
    if (common < BL_PAGE_TOKENS) {
        pages_list_page(p, own, behind, owner);
        return;
    }
    text->count = i;
    if (give_page(p, text, twin, &ignored) != BL_OK) {
        text->count = i + 1; /* keep the own page, outside the tree */
        return;
    }
    if (twin->place < 0) { /* the twin is evicted, so it takes over the resident page */
        free_away(p, twin);
        twin->place = own->place;
        own->place = NO_PLACE;
    }
    leave_page(p, own);
}

void bl_text_pages_rest(bl_text_pages *text, const int32_t *tokens, size_t count)
{
    bl_pages *p = text->pool;
    size_t pages = text->count;
    pthread_mutex_lock(&p->lock);
    text->state = BL_PAGES_WAIT;
    p->changed = p->changed || p->refused_busy;
    p->refused_busy = false;
    for (size_t i = text->full; i * BL_PAGE_TOKENS < count; i++) {
        bl_page *page = text->page[i];
        size_t left = count - i * BL_PAGE_TOKENS;
        page->tokens = left < BL_PAGE_TOKENS ? left : BL_PAGE_TOKENS;
        memcpy(page->token, tokens + i * BL_PAGE_TOKENS, page->tokens * sizeof *tokens);
        if (page->tokens < BL_PAGE_TOKENS || (i > 0 && text->page[i - 1]->number == 0))
            break;
        finish_page(p, text, i);
        text->count = pages;
        text->full++;
    }
    unlock_pages(p);
}

void bl_text_pages_wait(bl_text_pages *text)
{
    if (text->pool == NULL)
        return;
    pthread_mutex_lock(&text->pool->lock);
    text->state = BL_PAGES_REST;
    text->pool->changed = true;
    unlock_pages(text->pool);
}

int64_t bl_text_pages_place(const bl_text_pages *text, size_t token)
{
    return text->page[token / BL_PAGE_TOKENS]->place * BL_PAGE_TOKENS + (int64_t)(token % BL_PAGE_TOKENS);
}

int64_t bl_text_pages_page(const bl_text_pages *text, size_t i)
{
    return i < text->count ? text->page[i]->place : 0;
}
