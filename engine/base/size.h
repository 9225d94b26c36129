/* Arithmetic on sizes from the wire: every sum and product is checked before an allocation uses it. */
#ifndef BL_BASE_SIZE_H
#define BL_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each function stores the result and returns true, or returns false on overflow. */
#define CHECKED(name, type, overflows)                                                                                           \
    static inline bool name(type a, type b, type *out)                                                                           \
    {                                                                                                                            \
        return !overflows(a, b, out);                                                                                            \
    }
CHECKED(bl_size_mul, size_t, __builtin_mul_overflow)
CHECKED(bl_size_add, size_t, __builtin_add_overflow)
CHECKED(bl_i64_mul, int64_t, __builtin_mul_overflow)
CHECKED(bl_i64_add, int64_t, __builtin_add_overflow)
CHECKED(bl_i64_sub, int64_t, __builtin_sub_overflow)
#undef CHECKED

/* Round |size| up to a multiple of |align|, a power of two. False on overflow. */
static inline bool bl_size_align(size_t size, size_t align, size_t *out)
{
    if (!bl_size_add(size, align - 1, out))
        return false;
    *out &= ~(align - 1);
    return true;
}

#endif
