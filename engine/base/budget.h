/* Bytes that several may use together, so that all of them fit into the machine: memory that a system hands out and then does
 * not have ends the process.  Thread: any. */
#ifndef BL_BASE_BUDGET_H
#define BL_BASE_BUDGET_H

#include "engine/base/status.h"

#include <stdatomic.h>

typedef struct bl_budget {
    size_t limit;
    atomic_size_t used;
} bl_budget;

/* Fails with |status|, and takes nothing, where less than |bytes| are left; |what| is told.  A NULL budget has no limit. */
BL_NODISCARD bl_status bl_budget_take(bl_budget *budget, size_t bytes, bl_status status, const char *what, bl_err *err);
void bl_budget_give(bl_budget *budget, size_t bytes);

#endif
