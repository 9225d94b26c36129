/* A strict JSON parser for untrusted input.  One pass checks RFC 8259, UTF-8, depth, and the absence of a byte order mark, lone
 * surrogates, U+0000 and trailing bytes.  Then cJSON builds a tree from a reduced copy of the text.
 *
 * The reduced copy omits numbers (cJSON would convert them to doubles), long strings without escapes, and lists: arrays, nested
 * or not, that hold only numbers, true, false and "NaN", "Infinity", "-Infinity".  A placeholder string that starts with the byte
 * 0xFF replaces each and refers to its place in the body.  Input cannot forge a placeholder: 0xFF never occurs in UTF-8, which
 * the first pass checks, and no escape produces it.  So numbers stay exact, and a list of 64 MiB costs one table row.
 *
 * The body must outlive the document.  Thread: one at a time per document. */
#ifndef BL_PROTO_JSON_H
#define BL_PROTO_JSON_H

#include "engine/base/arena.h"
#include "engine/base/text.h"
#include "proto/wire.h"

struct cJSON;

enum { BL_JSON_DEPTH = 64, BL_JSON_DEPTH_MAX = 256, BL_JSON_VALUES = 500000 };

typedef struct bl_json_limits {
    int depth;     /* nesting depth of arrays and objects; 0: BL_JSON_DEPTH */
    size_t values; /* values in the tree, a list counts as one; 0: BL_JSON_VALUES */
} bl_json_limits;

enum { BL_LIST_NUMBERS = 1, BL_LIST_BOOLS = 2, BL_LIST_STRINGS = 4 };

/* A list whose extent and shape are known and whose elements are not parsed yet. */
typedef struct bl_list {
    bl_span text;       /* the list with its brackets, or one scalar */
    uint64_t count;     /* number of scalars */
    unsigned holds;     /* BL_LIST_ bits */
    int depth;          /* of brackets; |dim| has only the first BL_LIST_DIMS */
    const char *ragged; /* first place where a length or depth differs from earlier ones of its level, or NULL */
    int64_t dim[16];
} bl_list;
enum { BL_LIST_DIMS = 16 };

/* Measures the list at |p|.  Returns the byte after it, or NULL if the list is malformed or holds anything else; then |open| has
 * the positions of the brackets open at the error and |*nopen| their number.  More than |depth| nested brackets count as
 * malformed. */
const char *bl_list_measure(const char *p, const char *end, int depth, bl_list *out, const char **open, int *nopen);

typedef struct bl_json_doc {
    bl_arena *arena;
    bl_span body;
    struct cJSON *root;
    bl_list *lists;
    size_t nlists, lists_cap;
} bl_json_doc;

/* Every failure is BL_EINVAL with line, column and the violated rule, except BL_ENOMEM and, for too many values, BL_ELIMIT.  The
 * functions below allocate their results from |arena|.  Call bl_json_fini after a failure too. */
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

/* A value and its path, so that an error can say "nodes[3].attrs.axis".  |parent| points to the caller's variable of the
 * container, which must outlive this one. */
typedef struct bl_json {
    const bl_json_doc *doc;
    const struct bl_json *parent;
    const char *key; /* key in an object; else |index| counts */
    size_t index;
    bl_json_kind kind;
    bool boolean;
    const struct cJSON *item; /* NULL within a list */
    const bl_list *list;      /* set for an array that is a whole list, not a part of one */
    bl_span text;             /* source text of a number, list, part of a list, or string */
} bl_json;

bl_json bl_json_root(const bl_json_doc *doc);
/* Sets |err| to the path, such as "nodes[3].attrs.axis: ", and the message.  Returns |status|, as bl_fail does. */
bl_status bl_json_fail(const bl_json *at, bl_err *err, bl_status status, const char *fmt, ...) BL_PRINTF(4, 5);

/* Fails with BL_EINVAL, "expected an object, got a string", for another kind. */
BL_NODISCARD bl_status bl_json_expect(const bl_json *value, bl_json_kind kind, bl_err *err);
/* False if |object| is no object or has no such member. */
bool bl_json_find(const bl_json *object, const char *name, bl_json *out);
BL_NODISCARD bl_status bl_json_need(const bl_json *object, const char *name, bl_json *out, bl_err *err);
/* Fails with BL_EINVAL if |object| is no object or has a member that is not among |names|; NULL ends |names|. */
BL_NODISCARD bl_status bl_json_allow(const bl_json *object, const char *const *names, bl_err *err);

/* Iterates over the members or elements, in order. */
typedef struct bl_json_iter {
    const bl_json *of;
    const struct cJSON *next;
    const char *p;
    size_t index;
} bl_json_iter;
bl_json_iter bl_json_each(const bl_json *container);
bool bl_json_next(bl_json_iter *iter, bl_json *out);
size_t bl_json_count(const bl_json *container);

/* Each fails for another kind.  A string is NUL-terminated and contains no NUL. */
BL_NODISCARD bl_status bl_json_string(const bl_json *value, const char **out, bl_err *err);
BL_NODISCARD bl_status bl_json_bool(const bl_json *value, bool *out, bl_err *err);
/* Also accepts "NaN", "Infinity", "-Infinity".  BL_EGRAPH if the magnitude exceeds a double's range. */
BL_NODISCARD bl_status bl_json_number(const bl_json *value, bl_wire_number *out, bl_err *err);
/* An integer: BL_EINVAL for other numbers, BL_EGRAPH outside lo .. hi. */
BL_NODISCARD bl_status bl_json_int(const bl_json *value, int64_t lo, int64_t hi, int64_t *out, bl_err *err);
BL_NODISCARD bl_status bl_json_u64(const bl_json *value, uint64_t *out, bl_err *err);

typedef enum bl_field_kind {
    BL_FIELD_OTHER, /* the caller reads the member */
    BL_FIELD_STRING,
    BL_FIELD_BOOL,
    BL_FIELD_INT,  /* int, |least| to |most| */
    BL_FIELD_INT64 /* int64_t or uint64_t, |least| to |most| */
} bl_field_kind;

/* A member of an object that is read into a struct. */
typedef struct bl_json_field {
    const char *name; /* NULL: the end of a table */
    bl_field_kind kind;
    bool needed;
    size_t offset; /* of the member of the struct */
    int64_t least, most;
} bl_json_field;

#define BL_FIELD(type, field_kind, json_name, field) .name = (json_name), .kind = (field_kind), .offset = offsetof(type, field)

/* Reads the members of |fields| that |object| has into the struct |out|; absent members keep their values.  Fails if |object|
 * lacks a member that is needed, and, with |only|, if |object| has a member that is not in the table. */
BL_NODISCARD bl_status bl_json_read(const bl_json *object, const bl_json_field *fields, bool only, void *out, bl_err *err);
/* Parses the strings "NaN", "Infinity" and "-Infinity" with the value; false for any other text. */
bool bl_json_nonfinite(bl_span text, double *out);
/* "line 3, column 7 (byte 41)" */
void bl_json_where(const bl_json_doc *doc, const char *at, char *out, size_t size);

#endif
