/* Bytes that several may use together, so that all of them fit into the machine: memory that a system hands out and then does
 * not have ends the process.  A part of them is spare: who fills the rest with what stays does not keep others from being
 * answered.  Thread: any. */
#ifndef BL_BASE_BUDGET_H
#define BL_BASE_BUDGET_H

#include "engine/base/status.h"

#include <stdatomic.h>

typedef struct bl_budget {
    size_t limit;
    atomic_size_t used;
} bl_budget;

/* How much only bl_budget_borrow gives: a sixteenth, at most 64 MiB. */
size_t bl_budget_spare(const bl_budget *budget);
/* For what may stay.  Fails with |status|, and takes nothing, where less than |bytes| are left besides the spare ones; |what| is
 * told.  A NULL budget has no limit. */
BL_NODISCARD bl_status bl_budget_take(bl_budget *budget, size_t bytes, bl_status status, const char *what, bl_err *err);
/* Likewise, for what ends with a request: small pieces also get spare bytes, large ones would leave others without. */
BL_NODISCARD bl_status bl_budget_borrow(bl_budget *budget, size_t bytes, bl_status status, const char *what, bl_err *err);
bool bl_budget_is_short(bl_budget *budget); /* spare bytes are in use: what was borrowed is to be given back, and not kept */
void bl_budget_give(bl_budget *budget, size_t bytes);

#endif
