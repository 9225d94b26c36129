/* JSON from outside, strictly: one pass checks RFC 8259 with UTF-8, depth, no byte order mark, no lone surrogates, no U+0000 and
 * no trailing bytes; then cJSON builds a tree from what is left when the bulky and the inexact are taken out.
 *
 * Left out of the tree are numbers (cJSON would make them doubles), long strings without escapes, and lists: arrays, nested or
 * not, that hold nothing but numbers, true, false and "NaN", "Infinity", "-Infinity".  In their place stands a string that starts
 * with the byte 0xFF and says where they are in the body.  Nobody can forge one: 0xFF never occurs in UTF-8, which the pass has
 * checked, and no escape produces it.  So numbers are exact, and a list of 64 MiB costs one table row.
 *
 * The body must outlive the document.  Thread: a document belongs to one thread at a time. */
#ifndef BL_PROTO_JSON_H
#define BL_PROTO_JSON_H

#include "engine/base/arena.h"
#include "engine/base/text.h"
#include "proto/wire.h"

struct cJSON;

enum { BL_JSON_DEPTH = 64, BL_JSON_DEPTH_MAX = 256, BL_JSON_VALUES = 500000 };

typedef struct bl_json_limits {
    int depth;     /* nested arrays and objects; 0: BL_JSON_DEPTH */
    size_t values; /* in the tree, lists counting one; 0: BL_JSON_VALUES */
} bl_json_limits;

enum { BL_LIST_NUMBERS = 1, BL_LIST_BOOLS = 2, BL_LIST_STRINGS = 4 };

/* A list measured but not read. */
typedef struct bl_list {
    bl_span text;       /* with its brackets, or one scalar */
    uint64_t count;     /* scalars */
    unsigned holds;     /* BL_LIST_ bits */
    int depth;          /* of brackets; only the first BL_LIST_DIMS have a dim */
    const char *ragged; /* where a length or depth differs from the first one at its level, or NULL */
    int64_t dim[16];
} bl_list;
enum { BL_LIST_DIMS = 16 };

/* Measure the list at |p|.  Gives the byte after it, or NULL where it holds anything else or is malformed; then |open| has the
 * starts of the brackets that were open there, and *nopen how many.  More than |depth| brackets count as malformed. */
const char *bl_list_measure(const char *p, const char *end, int depth, bl_list *out, const char **open, int *nopen);

typedef struct bl_json_doc {
    bl_arena *arena;
    bl_span body;
    struct cJSON *root;
    bl_list *lists;
    size_t nlists, lists_cap;
} bl_json_doc;

/* Every failure is BL_EINVAL with line, column and the rule broken, except BL_ENOMEM and, for too many values, BL_ELIMIT.
 * |arena| serves what the functions below return.  bl_json_fini also after a failure. */
BL_NODISCARD bl_status bl_json_parse(bl_json_doc *doc, bl_arena *arena, bl_span body, const bl_json_limits *limits, bl_err *err);
void bl_json_fini(bl_json_doc *doc);

typedef enum bl_json_kind {
    BL_JSON_NULL,
    BL_JSON_BOOL,
    BL_JSON_NUMBER,
    BL_JSON_STRING,
    BL_JSON_ARRAY,
    BL_JSON_OBJECT
} bl_json_kind;

/* A value and how it was reached, so that an error can say "nodes[3].attrs.axis".  |parent| is the variable that it was found in,
 * which must live as long. */
typedef struct bl_json {
    const bl_json_doc *doc;
    const struct bl_json *parent;
    const char *key; /* in an object; else index */
    size_t index;
    bl_json_kind kind;
    bool boolean;
    const struct cJSON *item; /* NULL within a list */
    const bl_list *list;      /* of an array that is a list and no part of one */
    bl_span text;             /* number, list, part of a list, string */
} bl_json;

bl_json bl_json_root(const bl_json_doc *doc);
/* "nodes[3].attrs.axis: " and the message.  Give the status back as bl_fail does. */
bl_status bl_json_fail(const bl_json *at, bl_err *err, bl_status status, const char *fmt, ...) BL_PRINTF(4, 5);

/* "expected an object, got a string" is BL_EINVAL. */
BL_NODISCARD bl_status bl_json_expect(const bl_json *value, bl_json_kind kind, bl_err *err);
/* False if there is no such member, or |object| is none. */
bool bl_json_find(const bl_json *object, const char *name, bl_json *out);
BL_NODISCARD bl_status bl_json_need(const bl_json *object, const char *name, bl_json *out, bl_err *err);
/* Every member of the object must be among |names|, which NULL ends; else BL_EINVAL names it.  Also expects an object. */
BL_NODISCARD bl_status bl_json_allow(const bl_json *object, const char *const *names, bl_err *err);

/* Members or elements, in order. */
typedef struct bl_json_iter {
    const bl_json *of;
    const struct cJSON *next;
    const char *p;
    size_t index;
} bl_json_iter;
bl_json_iter bl_json_each(const bl_json *container);
bool bl_json_next(bl_json_iter *iter, bl_json *out);
size_t bl_json_count(const bl_json *container);

/* Each expects its kind.  A string is NUL-terminated and has no NUL within. */
BL_NODISCARD bl_status bl_json_string(const bl_json *value, const char **out, bl_err *err);
BL_NODISCARD bl_status bl_json_bool(const bl_json *value, bool *out, bl_err *err);
/* Also takes "NaN", "Infinity", "-Infinity".  A magnitude over a double's is BL_EGRAPH. */
BL_NODISCARD bl_status bl_json_number(const bl_json *value, bl_wire_number *out, bl_err *err);
/* An integer: other numbers are BL_EINVAL, one outside lo .. hi is BL_EGRAPH. */
BL_NODISCARD bl_status bl_json_int(const bl_json *value, int64_t lo, int64_t hi, int64_t *out, bl_err *err);
BL_NODISCARD bl_status bl_json_u64(const bl_json *value, uint64_t *out, bl_err *err);
/* The non-finite numbers are the strings "NaN", "Infinity" and "-Infinity".  False if |text| is none of them. */
bool bl_json_nonfinite(bl_span text, double *out);
/* "line 3, column 7 (byte 41)" */
void bl_json_where(const bl_json_doc *doc, const char *at, char *out, size_t size);

#endif
