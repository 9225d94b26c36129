/* The parts of the Jinja interpreter: tokens, nodes, values, and the state of one rendering (bl_jinja_run).
 *
 * jinja_lex.c turns a source into tokens, jinja_parse.c turns tokens into nodes, jinja_run.c executes the nodes.  Values live in
 * the run's arena and are immutable, except for namespaces and the position of a stream; strings may refer to the source or the
 * input.  A failure is sticky: it sets run->failed, functions then return early with a meaningless value, and loops test
 * run->failed.  Thread: one at a time per run. */
#ifndef BL_PROTO_CHAT_JINJA_H
#define BL_PROTO_CHAT_JINJA_H

#include "engine/base/arena.h"
#include "engine/base/text.h"
#include "proto/chat/template.h"

/* ---- tokens */

typedef enum bl_jinja_kind_of_token {
#define BL_JINJA_TOKEN(id, says)    BL_JINJA_T_##id,
#define BL_JINJA_OPERATOR(id, text) BL_JINJA_T_##id,
#include "proto/chat/tokens.def"
    BL_JINJA_TOKENS
} bl_jinja_kind_of_token;

typedef struct bl_jinja_token {
    bl_jinja_kind_of_token kind;
    int line;
    bl_span text; /* text of data, of a name, or of a string after its escapes are resolved */
    int64_t integer;
    double number;
} bl_jinja_token;

/* Splits |source|, which is UTF-8, into tokens.  |source| must outlive the tokens; the last token is EOF. */
BL_NODISCARD bl_status bl_jinja_lex(bl_arena *arena, bl_span source, bl_jinja_token **out, bl_err *err);
const char *bl_jinja_token_says(bl_jinja_kind_of_token kind);

/* ---- values */

typedef enum bl_jinja_kind {
#define BL_JINJA_KIND(id, type) BL_JINJA_##id,
#include "proto/chat/kinds.def"
    BL_JINJA_KINDS
} bl_jinja_kind;

/* Why a value is undefined; its text is the name or a message. */
typedef enum bl_jinja_reason { BL_JINJA_NO_NAME, BL_JINJA_NO_MEMBER, BL_JINJA_MESSAGE } bl_jinja_reason;

typedef struct bl_jinja_value bl_jinja_value;
typedef struct bl_jinja_list {
    bl_jinja_value *at;
    size_t count;
    bool grouped; /* a tuple of groupby: its elements are also the attributes `grouper` and `list` */
} bl_jinja_list;
typedef struct bl_jinja_entry bl_jinja_entry;
/* Keeps the order of insertion; a look-up is a linear search. */
typedef struct bl_jinja_dict {
    bl_jinja_entry *at;
    size_t count, cap;
} bl_jinja_dict;
typedef struct bl_jinja_range {
    int64_t start, stop, step;
    size_t count;
} bl_jinja_range;
/* A Python generator: it can be read once, has no length, and is true. */
typedef struct bl_jinja_stream {
    bl_jinja_list items;
    size_t next;
    const bl_err *failure; /* error of a read past the last item, or NULL */
} bl_jinja_stream;
typedef struct bl_jinja_function bl_jinja_function;
typedef struct bl_jinja_method bl_jinja_method;
typedef struct bl_jinja_macro bl_jinja_macro;
typedef struct bl_jinja_loop bl_jinja_loop;

struct bl_jinja_value {
    bl_jinja_kind kind;
    uint8_t flag; /* string: it is marked as safe (Markup); undefined value: bl_jinja_reason; view: 'k', 'v', 'i' */
    uint8_t of;   /* undefined member: the kind of its object */
    size_t len;   /* bytes of a string, or of an undefined value's text */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *data;
        const bl_jinja_list *list;
        bl_jinja_dict *dict; /* of a dict, a view, a namespace */
        const bl_jinja_range *range;
        bl_jinja_stream *stream;
        const bl_jinja_method *method;
        const bl_jinja_macro *macro;
        const bl_jinja_function *function;
        bl_jinja_loop *loop;
    } as;
};
struct bl_jinja_entry {
    bl_jinja_value key, value;
};

/* ---- functions: filters, tests, methods and globals are rows of tables */

typedef struct bl_jinja_args {
    bl_jinja_value *at;
    size_t count;
    bl_jinja_dict named;
} bl_jinja_args;

typedef struct bl_jinja_run bl_jinja_run;
/* |at|: the parameters in the order of the row, BL_JINJA_ABSENT for an omitted optional one; |args| has the original
 * arguments. */
typedef bl_jinja_value bl_jinja_call(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args);

struct bl_jinja_function {
    const char *name;
    /* Parameter names.  NAME? is optional; $NAME is positional only; a single * means that the function reads |args| itself. */
    const char *params;
    bl_jinja_call *call;
};
struct bl_jinja_method {
    const bl_jinja_function *row;
    bl_jinja_value self;
};
enum { BL_JINJA_PARAMS = 6 };

const bl_jinja_function *bl_jinja_find_filter(bl_span name);
const bl_jinja_function *bl_jinja_find_test(bl_span name);
const bl_jinja_function *bl_jinja_find_global(bl_span name);
/* NULL: no such method.  A row whose |call| is NULL is a method that the sandbox forbids. */
const bl_jinja_function *bl_jinja_find_method(bl_jinja_kind kind, bl_span name);

/* ---- nodes */

typedef enum bl_jinja_op {
    /* expressions */
    BL_JINJA_CONST,
    BL_JINJA_NAME,
    BL_JINJA_UNARY,  /* token is SUB, ADD or NAME (not) */
    BL_JINJA_BINARY, /* token is the operator */
    BL_JINJA_AND,
    BL_JINJA_OR,
    BL_JINJA_JOIN, /* ~ */
    BL_JINJA_COMPARE,
    BL_JINJA_OPERAND, /* operand of a COMPARE; token is the operator, NAME for in, |flag| for not in */
    BL_JINJA_CONDITIONAL,
    BL_JINJA_ATTRIBUTE,
    BL_JINJA_ITEM,
    BL_JINJA_SLICE,
    BL_JINJA_CALL,
    BL_JINJA_FILTER,
    BL_JINJA_TEST,
    BL_JINJA_MAKE_LIST,
    BL_JINJA_MAKE_TUPLE,
    BL_JINJA_MAKE_DICT,
    /* statements */
    BL_JINJA_DATA,
    BL_JINJA_PRINT,
    BL_JINJA_FOR,
    BL_JINJA_IF,
    BL_JINJA_SET,
    BL_JINJA_SET_BLOCK,
    BL_JINJA_DEFINE_MACRO,
    BL_JINJA_CALL_BLOCK,
    BL_JINJA_FILTER_BLOCK,
    BL_JINJA_WITH,
    BL_JINJA_SCOPE,
    BL_JINJA_BREAK,
    BL_JINJA_CONTINUE,
    BL_JINJA_FIELD /* assignment target: an attribute of a namespace */
} bl_jinja_op;

/* Which call arguments the body of a macro reads. */
enum { BL_JINJA_READS_CALLER = 1, BL_JINJA_READS_KWARGS = 2, BL_JINJA_READS_VARARGS = 4 };

typedef struct bl_jinja_node bl_jinja_node;
typedef struct bl_jinja_nodes {
    bl_jinja_node **at;
    int count, cap;
} bl_jinja_nodes;

/* jinja_parts.h documents the members that each op uses. */
struct bl_jinja_node {
    bl_jinja_op op;
    bl_jinja_kind_of_token token;
    bool flag;
    int line, height; /* |height|: of the subtree; the parser limits it */
    bl_span name;
    bl_jinja_node *a, *b, *c;
    bl_jinja_nodes items, more;
    bl_jinja_value value;
    const bl_jinja_function *row; /* of a filter or test; NULL: unknown, an error when the node executes */
};

/* Parses the statements of a template.  |names|: every name that it reads. */
BL_NODISCARD bl_status bl_jinja_parse(bl_arena *arena, const bl_jinja_token *tokens, bl_jinja_nodes *out, bl_jinja_nodes *names,
                                      bl_err *err);

/* ---- a run */

typedef struct bl_jinja_variable {
    struct bl_jinja_variable *next;
    bl_span name;
    bl_jinja_value value;
} bl_jinja_variable;
typedef struct bl_jinja_scope {
    struct bl_jinja_scope *parent;
    bl_jinja_variable *first;
    bool kept; /* a macro may read it later, so do not reuse its variables */
} bl_jinja_scope;

/* A growing text in the arena, or the rendering itself. */
typedef struct bl_jinja_buffer {
    char *data;
    size_t len, cap;
    bl_text *text; /* the rendering, or NULL */
} bl_jinja_buffer;

enum { BL_JINJA_TAILS = 8 };

struct bl_jinja_run {
    bl_arena *arena;
    bl_err *err;
    bool failed;
    int line; /* line of the node that executes */
    uint64_t steps, most_steps;
    int depth;             /* nested calls of the interpreter's functions */
    int calls, most_calls; /* nested calls of macros and loops */
    size_t most_output;    /* longest rendering in bytes */
    bl_jinja_buffer *out;
    bl_jinja_buffer tail[BL_JINJA_TAILS]; /* strings that were concatenated last and still have room behind them; data NULL:
                                           * none */
    int next_tail;                        /* index of the oldest tail */
    bl_jinja_variable *spare;             /* free list of variables */
    bl_jinja_scope *top;                  /* the caller's scope */
    enum { BL_JINJA_ON, BL_JINJA_BROKEN, BL_JINJA_CONTINUED } flow;
    int64_t now;
};

/* Executes |body| with |top| as the outermost scope. */
void bl_jinja_execute(bl_jinja_run *run, const bl_jinja_nodes *body, bl_jinja_scope *top);

/* Fails with the line of the template.  Returns an undefined value, for callers that return a value. */
bl_jinja_value bl_jinja_fail(bl_jinja_run *run, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
/* Counts one step, and one more for each 256 of |bytes|; false once the run has failed. */
bool bl_jinja_work(bl_jinja_run *run, size_t bytes);
void *bl_jinja_alloc(bl_jinja_run *run, size_t count, size_t size); /* NULL once the run has failed */
/* Call on entry to a recursive function; false if the run has failed or nests too deeply.  Call bl_jinja_leave in either case. */
bool bl_jinja_enter(bl_jinja_run *run);
void bl_jinja_leave(bl_jinja_run *run);

void bl_jinja_put(bl_jinja_run *run, bl_jinja_buffer *buffer, const char *data, size_t len);
void bl_jinja_puts(bl_jinja_run *run, bl_jinja_buffer *buffer, const char *text);
void bl_jinja_put_span(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_span text);
bl_jinja_value bl_jinja_take(bl_jinja_buffer *buffer); /* as a string; do not use the buffer afterwards */
/* Makes a buffer that begins with |text|.  Templates append to one text for each message: the most recently joined text is
 * extended in place instead of copied, so both strings share its memory. */
bl_jinja_buffer bl_jinja_continue(bl_jinja_run *run, bl_span text);
bl_jinja_value bl_jinja_take_joined(bl_jinja_run *run, bl_jinja_buffer *buffer); /* bl_jinja_take for a string that may be
                                                                                  * continued */

bl_jinja_scope *bl_jinja_scope_open(bl_jinja_run *run, bl_jinja_scope *parent); /* NULL once the run has failed */
void bl_jinja_scope_close(bl_jinja_run *run,
                          bl_jinja_scope *scope); /* frees its variables for reuse unless it is kept; accepts NULL */
void bl_jinja_scope_keep(bl_jinja_scope *scope);  /* marks |scope| and all enclosing scopes as kept */
bl_jinja_value bl_jinja_look_up(bl_jinja_run *run, bl_span name, const bl_jinja_scope *scope);
void bl_jinja_bind(bl_jinja_run *run, bl_jinja_scope *scope, bl_span name, bl_jinja_value value);

/* ---- making values (jinja_value.c) */

bl_jinja_value bl_jinja_none(void);
bl_jinja_value bl_jinja_absent(void);
bl_jinja_value bl_jinja_bool(bool value);
bl_jinja_value bl_jinja_int(int64_t value);
bl_jinja_value bl_jinja_float(double value);
bl_jinja_value bl_jinja_string(bl_span text); /* borrows |text| */
bl_jinja_value bl_jinja_undefined(bl_jinja_reason reason, bl_span text);
bl_jinja_value bl_jinja_no_member(bl_jinja_value of, bl_span name);
bl_jinja_value bl_jinja_list_of(bl_jinja_run *run, bl_jinja_kind kind, bl_jinja_value *at,
                                size_t count); /* list or tuple; takes |at| */
bl_jinja_value bl_jinja_stream_of(bl_jinja_run *run, bl_jinja_value *at, size_t count, const bl_err *failure);
bl_jinja_value bl_jinja_dict_make(bl_jinja_run *run);
bl_jinja_value bl_jinja_pair(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b);
/* Fails if Python cannot hash the key. */
void bl_jinja_dict_set(bl_jinja_run *run, bl_jinja_dict *dict, bl_jinja_value key, bl_jinja_value value);
const bl_jinja_value *bl_jinja_dict_get(bl_jinja_run *run, const bl_jinja_dict *dict, bl_jinja_value key);
bl_jinja_value bl_jinja_from_json(bl_jinja_run *run, const bl_json *json);
bl_jinja_value bl_jinja_copy(bl_jinja_run *run, bl_jinja_value value); /* copies the strings into the arena */
void bl_jinja_push(bl_jinja_run *run, bl_jinja_list *list, size_t *cap, bl_jinja_value value);

/* ---- Python's operations on values */

bl_span bl_jinja_text(bl_jinja_value string);
bool bl_jinja_is_true(bl_jinja_value value);
bool bl_jinja_is_hashable(bl_jinja_value value);
bool bl_jinja_as_int(bl_jinja_value value, int64_t *out); /* an integer or a bool */
bool bl_jinja_equal(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b);
bool bl_jinja_less(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b);
bool bl_jinja_contains(bl_jinja_run *run, bl_jinja_value in, bl_jinja_value what);
bool bl_jinja_length(bl_jinja_value value, size_t *out); /* false: len() raises a TypeError */
/* The items that an iteration over |value| gives, borrowed or made; an iteration consumes a stream.  Fails with a TypeError. */
bl_jinja_list bl_jinja_items(bl_jinja_run *run, bl_jinja_value value);
bool bl_jinja_is_iterable(bl_jinja_value value);
const char *bl_jinja_type(bl_jinja_value value);
bl_jinja_value bl_jinja_get_item(bl_jinja_run *run, bl_jinja_value of, bl_jinja_value key);
bl_jinja_value bl_jinja_get_attribute(bl_jinja_run *run, bl_jinja_value of, bl_span name);
bl_jinja_value bl_jinja_slice(bl_jinja_run *run, bl_jinja_value of, bl_jinja_value start, bl_jinja_value stop,
                              bl_jinja_value step);
bl_jinja_value bl_jinja_binary(bl_jinja_run *run, bl_jinja_kind_of_token op, bl_jinja_value a, bl_jinja_value b);
/* Calls a function, method, macro or loop. */
bl_jinja_value bl_jinja_invoke(bl_jinja_run *run, bl_jinja_value callee, const bl_jinja_args *args);
/* Binds the parameters of |row| and calls it. */
bl_jinja_value bl_jinja_call_row(bl_jinja_run *run, const bl_jinja_function *row, bl_jinja_value self, const bl_jinja_args *args);
/* Absent: no such attribute. */
bl_jinja_value bl_jinja_loop_attribute(bl_jinja_run *run, bl_jinja_loop *loop, bl_span name);
bl_jinja_call bl_jinja_loop_cycle, bl_jinja_loop_changed; /* methods of a loop */

/* ---- text (jinja_text.c, jinja_print.c) */

void bl_jinja_put_str(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value);
void bl_jinja_put_repr(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value);
bl_jinja_value bl_jinja_str(bl_jinja_run *run, bl_jinja_value value); /* str(): a string without the safe mark */
size_t bl_jinja_print_float(char *out, double value);                 /* repr(); at most 32 bytes */
typedef struct bl_jinja_json_style {
    bl_span item, key; /* separators */
    bl_span indent;    /* of one level; NULL: everything on one line */
    bool ascii, sorted;
} bl_jinja_json_style;
void bl_jinja_put_json(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value, const bl_jinja_json_style *style);
/* "..." % value, and "...".format(*args) */
bl_jinja_value bl_jinja_percent(bl_jinja_run *run, bl_span format, bl_jinja_value value);
bl_jinja_value bl_jinja_format(bl_jinja_run *run, bl_span format, const bl_jinja_args *args);

/* The code point at |p| and its length in bytes; the text is valid UTF-8. */
uint32_t bl_jinja_point(const char *p, const char *end, size_t *bytes);
void bl_jinja_put_point(bl_jinja_run *run, bl_jinja_buffer *buffer, uint32_t point);
size_t bl_jinja_points(bl_span text);                /* number of code points */
size_t bl_jinja_offset(bl_span text, size_t points); /* length of the first |points| code points in bytes */
bool bl_jinja_is_space(uint32_t point);
bool bl_jinja_is_printable(uint32_t point);
bool bl_jinja_is_word(uint32_t point); /* \w */
bool bl_jinja_is_digit(uint32_t point);
bool bl_jinja_is_numeric(uint32_t point); /* digits and other numeric characters */
typedef enum bl_jinja_case { BL_JINJA_UPPER, BL_JINJA_LOWER, BL_JINJA_TITLE, BL_JINJA_CAPITAL, BL_JINJA_SWAP } bl_jinja_case;
bl_jinja_value bl_jinja_recase(bl_jinja_run *run, bl_span text, bl_jinja_case to);
bl_jinja_value bl_jinja_casefold(bl_jinja_run *run, bl_span text);
bl_span bl_jinja_strip(bl_span text, const bl_span *chars, bool left, bool right); /* |chars| NULL: whitespace */
/* The next line of str.splitlines() without its line end; advances |*at| past the line end. */
bl_span bl_jinja_next_line(bl_span text, size_t *at, size_t *whole);
bl_jinja_value bl_jinja_replace(bl_jinja_run *run, bl_span text, bl_span old, bl_span new, int64_t count);
/* First position of |what| at or after |from| in bytes, or -1. */
int64_t bl_jinja_find(bl_span text, bl_span what, size_t from);
void bl_jinja_put_escaped(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value); /* HTML-escapes the text unless it is
                                                                                              * marked as safe */

#endif
