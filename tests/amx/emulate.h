/* SPDX-License-Identifier: MIT */
/* AMX on an x86-64 processor that has none: its instructions raise SIGILL there, and a handler does what Intel's Software
 * Developer's Manual (volume 2) has them do, on tiles of the thread that met them.  What the manual forbids ends the process
 * with the signal that Linux would send, and a line on stderr.  Linked into a program, or preloaded, it also answers for glibc's
 * list of the processor's features and for Linux's leave to use tiles.  Where the processor has AMX it stands aside. */
#ifndef BL_TESTS_AMX_EMULATE_H
#define BL_TESTS_AMX_EMULATE_H

#include <stdbool.h>
#include <stdint.h>

/* What is counted, of all threads.  A preloaded library keeps this in the file named by $AMX_COUNTS: the names, a space behind
 * each, and from byte AMX_NAMES on the numbers. */
#define AMX_COUNTS(X)                                                                                                            \
    X(configured)       /* ldtilecfg that left tiles to use */                                                                   \
    X(configured_again) /* ... while there were some */                                                                          \
    X(released)         /* tilerelease while there were some */                                                                  \
    X(live)             /* threads that have some now */                                                                         \
    X(zeroed)           /* tilezero */                                                                                           \
    X(loaded)           /* tileloadd, tileloaddt1 */                                                                             \
    X(stored)           /* tilestored */                                                                                         \
    X(multiplied_bf16)  /* tdpbf16ps */                                                                                          \
    X(multiplied_bytes) /* tdpbssd, tdpbsud, tdpbusd, tdpbuud */                                                                 \
    X(dense)            /* loads whose rows lie one behind the other */                                                          \
    X(rows)             /* of loads */                                                                                           \
    X(lines)            /* of 64 bytes that these rows touch: as many, where none lies in two */                                 \
    X(missed_first)     /* ... that a thread's own first cache of 48 KiB would not have: it sees tiles alone */                  \
    X(missed_second)    /* ... nor its second of 2 MiB */

typedef struct amx_counts {
#define FIELD(name) uint64_t name;
    AMX_COUNTS(FIELD)
#undef FIELD
} amx_counts;

enum { AMX_NAMES = 1024 };

bool amx_is_emulated(void); /* false: the processor has AMX, and nothing is counted */
amx_counts amx_get_counts(void);
void amx_clear_counts(void); /* but for |live| */

#endif
