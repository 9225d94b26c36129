/* Statuses and errors. A function that can fail returns a bl_status, for the program, and fills the caller's bl_err, for a
 * person. The first failure wins. Thread: a bl_err belongs to one thread at a time. */
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

/* Zero-initialised: no failure yet. */
typedef struct bl_err {
    bl_status status;
    int line; /* source line that raised the error, for the log */
    const char *file;
    char node[136]; /* wire id of the node that caused the error, or empty */
    char text[600]; /* one sentence for a person; never contains a path, a pointer or a secret */
} bl_err;

const char *bl_status_name(bl_status status);  /* "EGRAPH" */
const char *bl_status_title(bl_status status); /* "a graph that cannot be" */
int bl_status_http(bl_status status);

/* Record a failure in |err| unless |err| holds one already. Returns the status that |err| then holds. |err| may be NULL. */
bl_status bl_err_set(bl_err *err, bl_status status, const char *file, int line, const char *fmt, ...) BL_PRINTF(5, 6);
#define bl_fail(err, status, ...) bl_err_set((err), (status), __FILE__, __LINE__, __VA_ARGS__)

/* Record |node| as the cause of the error unless a node is recorded already. */
void bl_err_blame(bl_err *err, const char *node);
/* Write the error text to |out|, cut to |size| bytes. If the text does not name the node that caused the error, the name
 * follows the text. */
void bl_err_describe(const bl_err *err, char *out, size_t size);

/* Return the status of |expr| from the calling function if |expr| failed. Only for functions that own nothing at that point. */
#define BL_TRY(expr)                                                                                                             \
    do {                                                                                                                         \
        bl_status try_status_ = (expr);                                                                                          \
        if (try_status_ != BL_OK)                                                                                                \
            return try_status_;                                                                                                  \
    } while (0)

/* For bugs of the server, never for request data. Compiled into debug builds only. */
#ifndef NDEBUG
_Noreturn void bl_assert_fail(const char *what, const char *file, int line);
#define BL_ASSERT(cond) ((cond) ? (void)0 : bl_assert_fail(#cond, __FILE__, __LINE__))
#else
#define BL_ASSERT(cond) ((void)sizeof(cond))
#endif

#endif
