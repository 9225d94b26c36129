/* A limit on host memory that several users share. The limit keeps the process below the memory of the machine: Linux kills a
 * process that touches memory the machine does not have. A part of the limit is spare: only small, short-lived allocations may
 * use the spare bytes, so a limit that long-lived data fill up does not stop the server from answering. Thread: any. */
#ifndef BL_BASE_BUDGET_H
#define BL_BASE_BUDGET_H

#include "engine/base/status.h"

#include <stdatomic.h>

typedef struct bl_budget {
    size_t limit;
    atomic_size_t used;
} bl_budget;

/* The spare bytes, which only bl_budget_borrow hands out: 1/16 of the limit, at most 64 MiB. */
size_t bl_budget_spare(const bl_budget *budget);
/* Take |bytes| for data that may live long. Fails with |status| and takes nothing if fewer than |bytes| are free besides the
 * spare bytes; the error text names |what|. A NULL budget has no limit. */
BL_NODISCARD bl_status bl_budget_take(bl_budget *budget, size_t bytes, bl_status status, const char *what, bl_err *err);
/* Take |bytes| for data that end with a request. A small piece may use spare bytes. A large piece may not, since a few large
 * pieces would use up the spare bytes. */
BL_NODISCARD bl_status bl_budget_borrow(bl_budget *budget, size_t bytes, bl_status status, const char *what, bl_err *err);
bool bl_budget_is_short(bl_budget *budget); /* spare bytes are in use: give borrowed bytes back soon, do not cache them */
void bl_budget_give(bl_budget *budget, size_t bytes);

#endif
