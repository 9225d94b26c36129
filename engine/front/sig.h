/* SPDX-License-Identifier: MIT */
/* Signatures of wire ops, as text in wire_ops.def: "x: T, axis: ints=all, keepdim: bool=false -> T". A type with a capital
 * letter is an input, other types are attributes. "=" gives the default of an optional parameter (none and all: no value);
 * "..." makes a parameter variadic. The results follow the arrow; a node has one id per result. Parsing allocates nothing:
 * spans point into the text. Thread: any. */
#ifndef BL_FRONT_SIG_H
#define BL_FRONT_SIG_H

#include "engine/base/text.h"

enum { BL_SIG_MAX = 12, BL_SIG_RESULTS = 4 };

typedef enum bl_sig_kind {
    /* Inputs. All inputs of one of the kinds T, Float, Int and Bits are promoted to one dtype. */
    BL_SIG_T,     /* any dtype */
    BL_SIG_FLOAT, /* floats; integers and bool become float32 */
    BL_SIG_INT,   /* integers */
    BL_SIG_BITS,  /* integers or bool */
    BL_SIG_BOOL,  /* bool; a number becomes "not zero" */
    BL_SIG_ANY,   /* any dtype, not promoted */
    BL_SIG_WRT,   /* a float tensor with respect to which a gradient is taken; not promoted */
    /* Attributes. */
    BL_SIG_WHOLE,  /* int */
    BL_SIG_REAL,   /* float */
    BL_SIG_FLAG,   /* bool */
    BL_SIG_WHOLES, /* ints: one or a list */
    BL_SIG_REALS,  /* floats: a list */
    BL_SIG_NUMBER, /* number: an exact literal */
    BL_SIG_SIZE,   /* size: an integer, or text: the name of a dimension or a formula */
    BL_SIG_SIZES,  /* sizes: one size or a list */
    BL_SIG_BOUND,  /* bound: a number or a size */
    BL_SIG_PAIRS,  /* pairs: a list of [a, b], or a flat list */
    BL_SIG_DTYPE,  /* dtype */
    BL_SIG_RATE,   /* rate: a number or the name of a float32 scalar */
    BL_SIG_TEXT,   /* text */
    BL_SIG_GRAPH,  /* graph: a body */
    BL_SIG_CHOICE, /* one of the words in "a|b|c" */
    BL_SIG_KINDS
} bl_sig_kind;

typedef struct bl_sig_param {
    bl_span name;
    bl_span type; /* as it is written */
    bl_span preset;
    bl_sig_kind kind;
    bool optional;
    bool many;
} bl_sig_param;

typedef struct bl_sig {
    int ninputs, nattrs;
    bl_sig_param input[BL_SIG_MAX];
    bl_sig_param attr[BL_SIG_MAX];
    int nresults;
    bl_span result[BL_SIG_RESULTS];
    bool many_results; /* as many results of kind result[0] as the last parameter has operands */
} bl_sig;

/* False if the text is malformed: a bug in wire_ops.def. */
BL_NODISCARD bool bl_sig_parse(const char *text, bl_sig *sig);

#endif
