/* SPDX-License-Identifier: MIT */
/* The state machines of a request and of an execution: the rows of their tables, and what no row allows. */
#include "server/run/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct machine {
    int states, events;
    bool (*next)(int from, int event, int *to);
    unsigned last; /* bits of the states that no transition leaves */
} machine;

static bool next_state(int from, int event, int *to)
{
    bl_request_state state = BL_REQUEST_NEW;
    bool legal = bl_request_state_next((bl_request_state)from, (bl_request_event)event, &state);
    *to = (int)state;
    return legal;
}

static bool next_place(int from, int event, int *to)
{
    bl_request_place place = BL_REQUEST_PLACE_IDLE;
    bool legal = bl_request_place_next((bl_request_place)from, (bl_request_place_event)event, &place);
    *to = (int)place;
    return legal;
}

static bool next_exec(int from, int event, int *to)
{
    bl_exec_state state = BL_EXEC_NEW;
    bool legal = bl_exec_state_next((bl_exec_state)from, (bl_exec_event)event, &state);
    *to = (int)state;
    return legal;
}

static const machine machines[] = {
    {BL_REQUEST_STATES, BL_REQUEST_EVENTS, next_state, 1U << BL_REQUEST_OVER},
    {BL_REQUEST_PLACES, BL_REQUEST_PLACE_EVENTS, next_place, 0},
    {BL_EXEC_STATES, BL_EXEC_EVENTS, next_exec, 1U << BL_EXEC_OVER | 1U << BL_EXEC_LEFT},
};

/* Every state is reached from the first, every event occurs, and no transition leaves a last state. */
static void test_tables(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        const machine *at = &machines[m];
        unsigned reached = 1, events = 0;
        int to = 0;
        for (int round = 0; round < at->states; round++)
            for (int from = 0; from < at->states; from++)
                for (int event = 0; event < at->events; event++)
                    if ((reached >> from & 1) != 0 && at->next(from, event, &to))
                        reached |= 1U << to;
        for (int from = 0; from < at->states; from++)
            for (int event = 0; event < at->events; event++) {
                bool legal = at->next(from, event, &to);
                events |= (unsigned)legal << event;
                assert_true(legal || to == from);
                if ((at->last >> from & 1) != 0)
                    assert_int_equal(to, from);
            }
        assert_int_equal(reached, (1U << at->states) - 1);
        assert_int_equal(events, (1U << at->events) - 1);
    }
}

/* Follow |events| from the first state of machine |m|. */
static int follow(int m, const int *events, int n)
{
    int at = 0;
    for (int i = 0; i < n; i++)
        assert_true(machines[m].next(at, events[i], &at));
    return at;
}

#define FOLLOW(m, ...) follow(m, (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

/* A cached run is suspended once and resumed once, or never. */
static void test_cached_run(void **state)
{
    (void)state;
    assert_int_equal(FOLLOW(0, BL_REQUEST_ON_HEAD, BL_REQUEST_ON_WHOLE, BL_REQUEST_ON_HANDLE, BL_REQUEST_ON_SUBMIT,
                            BL_REQUEST_ON_ANSWER, BL_REQUEST_ON_SEND, BL_REQUEST_ON_END),
                     BL_REQUEST_OVER);
    assert_int_equal(FOLLOW(1, BL_REQUEST_PLACE_ON_PUSH, BL_REQUEST_PLACE_ON_TAKE, BL_REQUEST_PLACE_ON_FINISH),
                     BL_REQUEST_PLACE_IDLE);
    assert_int_equal(FOLLOW(1, BL_REQUEST_PLACE_ON_INLINE, BL_REQUEST_PLACE_ON_RETURN), BL_REQUEST_PLACE_IDLE);
    assert_int_equal(FOLLOW(2, BL_EXEC_ON_QUEUE, BL_EXEC_ON_BEGIN, BL_EXEC_ON_SUBMIT, BL_EXEC_ON_END), BL_EXEC_OVER);
}

static void test_refused(void **state)
{
    static const struct {
        int machine, from, event;
    } rows[] = {
        {1, BL_REQUEST_PLACE_IDLE, BL_REQUEST_PLACE_ON_FINISH},   /* a request is finished twice */
        {1, BL_REQUEST_PLACE_INLINE, BL_REQUEST_PLACE_ON_FINISH}, /* the connection is not suspended */
        {1, BL_REQUEST_PLACE_QUEUED, BL_REQUEST_PLACE_ON_FINISH}, /* the queue still lists the request */
        {1, BL_REQUEST_PLACE_QUEUED, BL_REQUEST_PLACE_ON_PUSH},   /* in two queues */
        {1, BL_REQUEST_PLACE_LENT, BL_REQUEST_PLACE_ON_FINISH},   /* the work still uses the request */
        {1, BL_REQUEST_PLACE_PARKED, BL_REQUEST_PLACE_ON_PUSH},   /* an object outside the queues will finish the request */
        {0, BL_REQUEST_SENT, BL_REQUEST_ON_SEND},
        {0, BL_REQUEST_SENT, BL_REQUEST_ON_SUBMIT},
        {0, BL_REQUEST_BODY, BL_REQUEST_ON_HANDLE},
        {0, BL_REQUEST_OVER, BL_REQUEST_ON_END},
        {2, BL_EXEC_READY, BL_EXEC_ON_SUBMIT}, /* the states are not prepared */
        {2, BL_EXEC_IN_FLIGHT, BL_EXEC_ON_RETRY},
        {2, BL_EXEC_OVER, BL_EXEC_ON_BEGIN},
        {2, BL_EXEC_COMPILE, BL_EXEC_ON_COMPILE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int to = 0;
        assert_false(machines[rows[i].machine].next(rows[i].from, rows[i].event, &to));
        assert_int_equal(to, rows[i].from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_cached_run),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
