/* SPDX-License-Identifier: MIT */
/* Fair queueing: a simulated device with one thread. */
#include "server/http/request.h"
#include "server/run/fair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 16, MS = 1000000 };

/* An owner with always |waiting| requests of |ms| each; or, with |pause|, an owner that sends the next request this long after
 * an answer. */
typedef struct load {
    unsigned waiting;
    double ms, pause;
    bl_rank rank;
} load;

typedef struct client {
    bl_request rq[MOST];
    double back[MOST]; /* time of the next request; negative: the request waits */
    double served, worst;
    double came[MOST];
    unsigned count;
} client;

static void come(bl_fair *fair, bl_request *rq)
{
    rq->item.waiter = bl_fair_enter(fair, rq->owner);
    assert_non_null(rq->item.waiter);
    rq->item.rq = rq;
    bl_fair_add(fair, &rq->item);
}

static void arrive(bl_fair *fair, client *clients, const load *loads, int n, double now)
{
    for (int c = 0; c < n; c++)
        for (unsigned i = 0; i < loads[c].waiting; i++)
            if (clients[c].back[i] >= 0 && clients[c].back[i] <= now) {
                clients[c].came[i] = clients[c].back[i];
                clients[c].back[i] = -1;
                come(fair, &clients[c].rq[i]);
            }
}

static double next_arrival(const client *clients, const load *loads, int n)
{
    double first = 1e9;
    for (int c = 0; c < n; c++)
        for (unsigned i = 0; i < loads[c].waiting; i++)
            if (clients[c].back[i] >= 0 && clients[c].back[i] < first)
                first = clients[c].back[i];
    return first;
}

/* Simulates |end| milliseconds. */
static void simulate(client *clients, const load *loads, int n, double end)
{
    bl_fair fair = {0};
    double now = 0;
    memset(clients, 0, (size_t)n * sizeof *clients);
    for (int c = 0; c < n; c++)
        for (unsigned i = 0; i < loads[c].waiting; i++) {
            clients[c].rq[i].owner = (uint32_t)c + 1;
            clients[c].rq[i].item.rank = loads[c].rank;
        }
    while (now < end) {
        bl_work_item *item = NULL;
        bl_waiter *waiter = NULL;
        int64_t owes = 0;
        arrive(&fair, clients, loads, n, now);
        item = bl_fair_next(&fair);
        if (item == NULL) {
            now = next_arrival(clients, loads, n);
            continue;
        }
        client *c = &clients[item->rq->owner - 1];
        const load *l = &loads[item->rq->owner - 1];
        int i = (int)(item->rq - c->rq);
        waiter = item->waiter;
        bl_fair_remove(&fair, item);
        owes = bl_fair_begin(&fair, waiter);
        now += l->ms;
        arrive(&fair, clients, loads, n, now - l->ms / 1000); /* others arrive while the request runs */
        bl_fair_charge(waiter, owes, (int64_t)(l->ms * MS));
        bl_fair_leave(&fair, waiter);
        c->served += l->ms;
        c->count++;
        c->worst = now - c->came[i] > c->worst ? now - c->came[i] : c->worst;
        c->back[i] = now + l->pause;
    }
    bl_fair_fini(&fair);
}

static void check_equal(const client *clients, int n, double within)
{
    for (int c = 1; c < n; c++) {
        double ratio = clients[c].served / clients[0].served;
        if (ratio < 1 - within || ratio > 1 + within)
            fail_msg("owner %d was served %.1f ms, owner 0 %.1f ms", c, clients[c].served, clients[0].served);
    }
}

/* T23: an owner with ten times the requests gets no more time, and neither does an owner with larger requests. */
static void test_equal_service(void **state)
{
    static const load loads[][2] = {
        {{10, 5, 0, 0}, {1, 5, 0, 0}},   {{10, 5, 0, 0}, {1, 5, 0.3, 0}},  {{10, 0.2, 0, 0}, {1, 0.2, 0, 0}},
        {{1, 50, 0, 0}, {1, 0.5, 0, 0}}, {{10, 30, 0, 0}, {2, 0.3, 0, 0}}, {{10, 5, 0, -1}, {1, 5, 0, 1}},
    };
    client *clients = calloc(2, sizeof *clients);
    (void)state;
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        simulate(clients, loads[i], 2, 10000);
        check_equal(clients, 2, 0.1);
    }
    free(clients);
}

static void test_many_owners(void **state)
{
    load loads[20];
    client *clients = calloc(20, sizeof *clients);
    (void)state;
    for (int i = 0; i < 20; i++)
        loads[i] = (load){.waiting = 1 + (unsigned)i % 10, .ms = 0.5 + i};
    simulate(clients, loads, 20, 100000);
    check_equal(clients, 20, 0.1);
    free(clients);
}

/* An owner below its share waits only for the current step, not for the backlog of others. */
static void test_light_load_does_not_wait(void **state)
{
    static const load loads[] = {{1, 2, 30, BL_RANK_INFER}, {1, 20, 0, BL_RANK_TRAIN}, {10, 10, 0, BL_RANK_RUN}};
    client *clients = calloc(3, sizeof *clients);
    (void)state;
    simulate(clients, loads, 3, 20000);
    if (clients[0].worst > 20 + 2 + 0.1)
        fail_msg("it waited %.2f ms for an answer that takes 2 ms, behind steps of 20 ms", clients[0].worst);
    assert_in_range(clients[0].count, 350, 650);
    free(clients);
}

/* An absence clears debts but gives no credit: a returning owner does not displace others. */
static void test_absence(void **state)
{
    bl_fair fair = {0};
    bl_request a[64] = {0}, b[64] = {0};
    int first = 0;
    (void)state;
    for (int i = 0; i < 64; i++) {
        a[i].owner = 1;
        b[i].owner = 2;
        come(&fair, &a[i]);
    }
    for (int i = 0; i < 96; i++) {
        bl_work_item *item = NULL;
        bl_waiter *waiter = NULL;
        int64_t owes = 0;
        if (i == 32)
            for (int k = 0; k < 64; k++)
                come(&fair, &b[k]);
        item = bl_fair_next(&fair);
        assert_non_null(item);
        waiter = item->waiter;
        first += i >= 32 && item->rq->owner == 2;
        bl_fair_remove(&fair, item);
        owes = bl_fair_begin(&fair, waiter);
        bl_fair_charge(waiter, owes, 3 * MS);
        bl_fair_leave(&fair, waiter);
    }
    assert_in_range(first, 31, 33); /* of 64 */
    bl_fair_fini(&fair);
}

/* Within one owner: rank, then priority, then arrival; never a request that its serial holds back. */
static void test_order(void **state)
{
    static const struct {
        bl_rank rank;
        int priority;
        bool held;
    } rows[] = {{BL_RANK_TRAIN, 0, false}, {BL_RANK_RUN, 0, false}, {BL_RANK_RUN, 0, true},   {BL_RANK_TRAIN, -5, false},
                {BL_RANK_INFER, 9, false}, {BL_RANK_RUN, 0, false}, {BL_RANK_RUN, -1, false}, {BL_RANK_INFER, 9, false}};
    static const int want[] = {4, 7, 6, 1, 5, 3, 0};
    bl_request rq[8] = {0}, other = {0};
    bl_serial serial = {.holder = &other.item};
    bl_fair fair = {0};
    (void)state;
    for (int i = 0; i < 8; i++) {
        rq[i] = (bl_request){
            .item.rank = rows[i].rank, .item.priority = rows[i].priority, .item.serial = rows[i].held ? &serial : NULL};
        come(&fair, &rq[i]);
    }
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        bl_work_item *next = bl_fair_next(&fair);
        assert_ptr_equal(&rq[want[i]].item, next);
        bl_fair_remove(&fair, next);
        bl_fair_leave(&fair, next->waiter);
    }
    assert_null(bl_fair_next(&fair));
    serial.holder = NULL;
    assert_ptr_equal(&rq[2].item, bl_fair_next(&fair));
    bl_fair_remove(&fair, &rq[2].item);
    bl_fair_leave(&fair, rq[2].item.waiter);
    assert_null(fair.first); /* no owner waits or owes, so nothing is kept */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_service), cmocka_unit_test(test_many_owners),
                                       cmocka_unit_test(test_light_load_does_not_wait), cmocka_unit_test(test_absence),
                                       cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
