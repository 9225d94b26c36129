/* SPDX-License-Identifier: MIT */
/* Emulates AMX on an x86-64 processor without AMX.  An AMX instruction raises SIGILL there, and a signal handler executes the
 * instruction by Intel's Software Developer's Manual (volume 2) on tiles of the interrupted thread.  An invalid instruction
 * ends the process with the signal of Linux and a line on stderr.  The object can be linked or preloaded; it also overrides
 * glibc's list of processor features and Linux's permission to use tiles.  On a processor with AMX the emulation does
 * nothing. */
#ifndef BL_TESTS_AMX_EMULATE_H
#define BL_TESTS_AMX_EMULATE_H

#include <stdbool.h>
#include <stdint.h>

/* The counters, over all threads.  A preloaded library has the counters in the file $AMX_COUNTS: the names, each followed by a
 * space, and from byte AMX_NAMES on the numbers. */
#define AMX_COUNTS(X)                                                                                                            \
    X(configured)       /* ldtilecfg that configured tiles */                                                                    \
    X(configured_again) /* ... while tiles were already configured */                                                            \
    X(released)         /* tilerelease while tiles were configured */                                                            \
    X(live)             /* threads with configured tiles */                                                                      \
    X(zeroed)           /* tilezero */                                                                                           \
    X(loaded)           /* tileloadd, tileloaddt1 */                                                                             \
    X(stored)           /* tilestored */                                                                                         \
    X(multiplied_bf16)  /* tdpbf16ps */                                                                                          \
    X(multiplied_bytes) /* tdpbssd, tdpbsud, tdpbusd, tdpbuud */                                                                 \
    X(dense)            /* loads with contiguous rows */                                                                         \
    X(rows)             /* rows of all loads */                                                                                  \
    X(lines)            /* cache lines of 64 bytes of these rows: the same number if no row crosses a line */                    \
    X(missed_first)     /* ... that miss in a per-thread L1 cache of 48 KiB, which sees only tile loads and stores */            \
    X(missed_second)    /* ... that also miss in an L2 cache of 2 MiB */

typedef struct amx_counts {
#define FIELD(name) uint64_t name;
    AMX_COUNTS(FIELD)
#undef FIELD
} amx_counts;

enum { AMX_NAMES = 1024 };

bool amx_is_emulated(void); /* false: the processor has AMX, and no counter counts */
amx_counts amx_get_counts(void);
void amx_clear_counts(void); /* clears all counters except |live| */

#endif
