/* How a call ends: a status to act on and an error to show.
 * A function that can fail returns bl_status and fills the caller's bl_err; the first failure wins.
 * Thread: a bl_err belongs to one thread at a time. */
#ifndef BL_BASE_STATUS_H
#define BL_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#define BL_NODISCARD         __attribute__((warn_unused_result))
#define BL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

typedef enum bl_status {
#define BL_STATUS(id, http, title) BL_##id,
#include "engine/base/status.def"
#undef BL_STATUS
    BL_STATUS_COUNT
} bl_status;

/* Zero-initialised means: no failure yet. */
typedef struct bl_err {
    bl_status status;
    int line; /* where in the source it was raised, for the log */
    const char *file;
    char node[136]; /* wire id of the node to blame, or empty */
    char text[600]; /* one sentence for a person; never a path, a pointer or a secret */
} bl_err;

const char *bl_status_name(bl_status status);  /* "EGRAPH" */
const char *bl_status_title(bl_status status); /* "a graph that cannot be" */
int bl_status_http(bl_status status);

/* Record a failure in |err| unless one is there already; returns the status that |err| then holds.
 * |err| may be NULL. */
bl_status bl_err_set(bl_err *err, bl_status status, const char *file, int line, const char *fmt, ...) BL_PRINTF(5, 6);
#define bl_fail(err, status, ...) bl_err_set((err), (status), __FILE__, __LINE__, __VA_ARGS__)

/* Name the node to blame, unless one is named already. */
void bl_err_blame(bl_err *err, const char *node);
/* The text, with the node to blame behind it where it does not name that itself; cut to |size| bytes. */
void bl_err_describe(const bl_err *err, char *out, size_t size);

/* Leave the function with the status of |expr| if it failed: only where nothing is owned. */
#define BL_TRY(expr)                                                                                                             \
    do {                                                                                                                         \
        bl_status try_status_ = (expr);                                                                                          \
        if (try_status_ != BL_OK)                                                                                                \
            return try_status_;                                                                                                  \
    } while (0)

/* For our own bugs, never for request data.  Compiled into debug builds only. */
#ifndef NDEBUG
_Noreturn void bl_assert_fail(const char *what, const char *file, int line);
#define BL_ASSERT(cond) ((cond) ? (void)0 : bl_assert_fail(#cond, __FILE__, __LINE__))
#else
#define BL_ASSERT(cond) ((void)sizeof(cond))
#endif

#endif
