/* SPDX-License-Identifier: MIT */
/* Executes the nodes of a template.  Scopes follow Jinja2: the body of a loop, a macro, and the blocks of set, filter, call, with
 * and generation each have their own scope, `if` has none.  A name is looked up from the innermost scope outwards when it is
 * read. */
#include "proto/chat/jinja.h"

#include <string.h>

static bl_jinja_value eval(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope);
static void execute(bl_jinja_run *run, const bl_jinja_nodes *body, bl_jinja_scope *scope);

/* ---- names */

static void jinja_run_assign(bl_jinja_run *run, const bl_jinja_node *target, bl_jinja_value value, bl_jinja_scope *scope)
{
    if (run->failed)
        return;
    if (target->op == BL_JINJA_NAME) {
        bl_jinja_bind(run, scope, target->name, value);
    } else if (target->op == BL_JINJA_FIELD) {
        bl_jinja_value space = bl_jinja_look_up(run, target->name, scope);
        bl_span name = bl_jinja_text(target->value);
        if (space.kind != BL_JINJA_NAMESPACE)
            (void)bl_jinja_fail(run, BL_EINVAL, "cannot assign attribute on non-namespace object");
        else if (name.data[0] == '_')
            (void)bl_jinja_fail(run, BL_EINVAL, "a chat template cannot store a name that begins with an underscore: '%.*s'",
                                name.len > 100 ? 100 : (int)name.len, name.data);
        else
            bl_jinja_dict_set(run, space.as.dict, target->value, value);
    } else {
        bl_jinja_list items = bl_jinja_items(run, value);
        if (!run->failed && items.count != (size_t)target->items.count)
            (void)bl_jinja_fail(run, BL_EINVAL, "%s values to unpack (expected %d)",
                                items.count < (size_t)target->items.count ? "not enough" : "too many", target->items.count);
        for (size_t i = 0; i < items.count && !run->failed; i++)
            jinja_run_assign(run, target->items.at[i], items.at[i], scope);
    }
}

/* ---- calls */

static void add_named(bl_jinja_run *run, bl_jinja_args *args, bl_jinja_value name, bl_jinja_value value)
{
    if (bl_jinja_dict_get(run, &args->named, name) != NULL)
        (void)bl_jinja_fail(run, BL_EINVAL, "got multiple values for keyword argument '%.*s'",
                            (int)(name.len > 99 ? 99 : name.len), name.as.data);
    else
        bl_jinja_dict_set(run, &args->named, name, value);
}

static void gather_arguments(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope, bl_jinja_args *out)
{
    bl_jinja_list more = {0};
    size_t count = (size_t)node->items.count;
    *out = (bl_jinja_args){0};
    if (count > 0)
        out->at = bl_jinja_alloc(run, count, sizeof *out->at);
    for (size_t i = 0; out->at != NULL && i < count && !run->failed; i++)
        out->at[out->count++] = eval(run, node->items.at[i], scope);
    if (node->b != NULL)
        more = bl_jinja_items(run, eval(run, node->b, scope));
    if (more.count > 0 && !run->failed) {
        bl_jinja_value *at = bl_jinja_alloc(run, count + more.count, sizeof *at);
        for (size_t i = 0; at != NULL && i < count + more.count; i++)
            at[i] = i < count ? out->at[i] : more.at[i - count];
        out->at = at;
        out->count = at != NULL ? count + more.count : 0;
    }
    for (int i = 0; i < node->more.count && !run->failed; i++)
        add_named(run, out, bl_jinja_string(node->more.at[i]->name), eval(run, node->more.at[i]->a, scope));
    if (node->c == NULL || run->failed)
        return;
    bl_jinja_value named = eval(run, node->c, scope);
    if (named.kind != BL_JINJA_DICT)
        (void)bl_jinja_fail(run, BL_EINVAL, "argument after ** must be a mapping, not %s", bl_jinja_type(named));
    for (size_t i = 0; !run->failed && i < named.as.dict->count; i++) {
        if (named.as.dict->at[i].key.kind != BL_JINJA_STRING)
            (void)bl_jinja_fail(run, BL_EINVAL, "keywords must be strings");
        add_named(run, out, named.as.dict->at[i].key, named.as.dict->at[i].value);
    }
}

/* Reads the next name in |params|; empty at the end. */
static bl_span next_parameter(const char **params, bool *optional, bool *by_name)
{
    const char *p = *params + strspn(*params, " ");
    *by_name = *p != '$';
    p += *p == '$';
    bl_span name = {p, strcspn(p, " ?")};
    *optional = p[name.len] == '?';
    *params = p + name.len + *optional;
    return name;
}

bl_jinja_value bl_jinja_call_row(bl_jinja_run *run, const bl_jinja_function *row, bl_jinja_value self, const bl_jinja_args *args)
{
    bl_jinja_value at[BL_JINJA_PARAMS];
    const char *params = row->params;
    size_t n = 0, named = 0;
    bool optional = false, by_name = false;
    if (run->failed || params[0] == '*')
        return run->failed ? bl_jinja_none() : row->call(run, self, NULL, args);
    for (bl_span name = next_parameter(&params, &optional, &by_name); name.len > 0 && n < BL_JINJA_PARAMS;
         name = next_parameter(&params, &optional, &by_name)) {
        const bl_jinja_value *given = by_name ? bl_jinja_dict_get(run, &args->named, bl_jinja_string(name)) : NULL;
        named += given != NULL;
        if (given != NULL && n < args->count)
            return bl_jinja_fail(run, BL_EINVAL, "%s() got multiple values for argument '%.*s'", row->name, (int)name.len,
                                 name.data);
        at[n] = given != NULL ? *given : n < args->count ? args->at[n] : bl_jinja_absent();
        if (at[n].kind == BL_JINJA_ABSENT && !optional)
            return bl_jinja_fail(run, BL_EINVAL, "%s() missing 1 required positional argument: '%.*s'", row->name, (int)name.len,
                                 name.data);
        n++;
    }
    if (named < args->named.count)
        return bl_jinja_fail(run, BL_EINVAL, "%s() got an unexpected keyword argument", row->name);
    if (args->count > n)
        return bl_jinja_fail(run, BL_EINVAL, "%s() takes %zu positional arguments but %zu were given", row->name, n, args->count);
    return row->call(run, self, at, args);
}

struct bl_jinja_macro {
    const bl_jinja_node *node; /* DEFINE_MACRO, or a CALL_BLOCK that is the caller of its macro */
    bl_jinja_scope *scope;
};

/* Executes the statements and returns their output as a string. */
static bl_jinja_value jinja_run_capture(bl_jinja_run *run, const bl_jinja_nodes *body, bl_jinja_scope *scope)
{
    bl_jinja_buffer buffer = {0}, *out = run->out;
    run->out = &buffer;
    if (scope != NULL)
        execute(run, body, scope);
    run->out = out;
    return bl_jinja_take(&buffer);
}

static bool is_parameter(const bl_jinja_node *node, bl_span name)
{
    for (int i = 0; i < node->more.count; i++) {
        if (bl_span_eq(node->more.at[i]->name, name))
            return true;
    }
    return false;
}

/* Binds the arguments beyond the macro's parameters: caller, kwargs and varargs, or fails. */
static void bind_rest(bl_jinja_run *run, const bl_jinja_macro *macro, const bl_jinja_args *args, bl_jinja_scope *scope)
{
    const bl_jinja_node *node = macro->node;
    int64_t reads = node->value.as.integer;
    size_t params = (size_t)node->more.count, extra = args->count > params ? args->count - params : 0;
    bl_jinja_value kwargs = bl_jinja_dict_make(run), caller = bl_jinja_undefined(BL_JINJA_MESSAGE, BL_S("No caller defined"));
    bool takes_caller = (reads & BL_JINJA_READS_CALLER) != 0;
    for (size_t i = 0; i < args->named.count && !run->failed; i++) {
        const bl_jinja_entry *entry = &args->named.at[i];
        bl_span name = bl_jinja_text(entry->key);
        if (takes_caller && bl_span_is(name, "caller"))
            caller = entry->value;
        else if (!is_parameter(node, name))
            bl_jinja_dict_set(run, kwargs.as.dict, entry->key, entry->value);
    }
    if (run->failed)
        return;
    if (takes_caller && !is_parameter(node, BL_S("caller")))
        bl_jinja_bind(run, scope, BL_S("caller"), caller);
    if (reads & BL_JINJA_READS_KWARGS)
        bl_jinja_bind(run, scope, BL_S("kwargs"), kwargs);
    else if (kwargs.as.dict->count > 0)
        (void)bl_jinja_fail(run, BL_EINVAL, "macro '%.*s' takes no keyword argument '%.*s'", (int)node->name.len, node->name.data,
                            (int)kwargs.as.dict->at[0].key.len, kwargs.as.dict->at[0].key.as.data);
    if (reads & BL_JINJA_READS_VARARGS)
        bl_jinja_bind(run, scope, BL_S("varargs"),
                      bl_jinja_list_of(run, BL_JINJA_TUPLE, extra > 0 ? args->at + params : NULL, extra));
    else if (extra > 0)
        (void)bl_jinja_fail(run, BL_EINVAL, "macro '%.*s' takes not more than %zu argument(s)", (int)node->name.len,
                            node->name.data, params);
}

static void bind_parameters(bl_jinja_run *run, const bl_jinja_macro *macro, const bl_jinja_args *args, bl_jinja_scope *scope)
{
    const bl_jinja_nodes *params = &macro->node->more;
    for (size_t i = 0; i < (size_t)params->count && !run->failed; i++) {
        bl_span name = params->at[i]->name;
        const bl_jinja_value *named = bl_jinja_dict_get(run, &args->named, bl_jinja_string(name));
        if (named != NULL && i < args->count)
            (void)bl_jinja_fail(run, BL_EINVAL, "macro '%.*s' got two values for '%.*s'", (int)macro->node->name.len,
                                macro->node->name.data, (int)name.len, name.data);
        bl_jinja_bind(run, scope, name, i < args->count ? args->at[i] : named != NULL ? *named : bl_jinja_absent());
    }
    bind_rest(run, macro, args, scope);
    for (size_t i = 0; i < (size_t)params->count && !run->failed; i++) {
        const bl_jinja_node *param = params->at[i];
        if (bl_jinja_look_up(run, param->name, scope).kind == BL_JINJA_ABSENT)
            bl_jinja_bind(run, scope, param->name,
                          param->a != NULL ? eval(run, param->a, scope)
                                           : bl_jinja_undefined(BL_JINJA_MESSAGE, BL_S("a parameter was not provided")));
    }
}

static bool enter_call(bl_jinja_run *run)
{
    if (++run->calls > run->most_calls)
        (void)bl_jinja_fail(run, BL_ELIMIT, "more than %d nested calls", run->most_calls);
    return !run->failed;
}

static bl_jinja_value call_macro(bl_jinja_run *run, const bl_jinja_macro *macro, const bl_jinja_args *args)
{
    bl_jinja_value text = bl_jinja_none();
    bl_jinja_scope *scope = enter_call(run) ? bl_jinja_scope_open(run, macro->scope) : NULL;
    if (scope != NULL) {
        bind_parameters(run, macro, args, scope);
        if (!run->failed)
            text = jinja_run_capture(run, &macro->node->items, scope);
    }
    run->calls--;
    bl_jinja_scope_close(run, scope);
    return text;
}

/* ---- loops */

struct bl_jinja_loop {
    const bl_jinja_node *node;
    bl_jinja_scope *outer;
    bl_jinja_list items; /* items from |next| on are still to come; each must pass the loop's condition unless |passed| */
    size_t next;
    const bl_jinja_range *range; /* the range that the items are computed from, or NULL */
    bool passed, peeked;         /* |peeked|: |after| is already read ahead; ABSENT: there was no further item */
    bl_jinja_value before, current, after, changed;
    int64_t index0, depth0;
};

/* The next item; ABSENT at the end. */
static bl_jinja_value pull(bl_jinja_run *run, bl_jinja_loop *loop)
{
    while (loop->next < loop->items.count && bl_jinja_work(run, 0)) {
        bl_jinja_value item = loop->range == NULL ? loop->items.at[loop->next]
                                                  : bl_jinja_int(loop->range->start + (int64_t)loop->next * loop->range->step);
        loop->next++;
        if (loop->node->c == NULL || loop->passed)
            return item;
        bl_jinja_scope *scope = bl_jinja_scope_open(run, loop->outer);
        if (scope == NULL)
            break;
        jinja_run_assign(run, loop->node->b, item, scope);
        bool passes = bl_jinja_is_true(eval(run, loop->node->c, scope));
        bl_jinja_scope_close(run, scope);
        if (passes)
            return item;
    }
    return bl_jinja_absent();
}

static bl_jinja_value peek(bl_jinja_run *run, bl_jinja_loop *loop)
{
    if (!loop->peeked)
        loop->after = pull(run, loop);
    loop->peeked = true;
    return loop->after;
}

static int64_t loop_length(bl_jinja_run *run, bl_jinja_loop *loop)
{
    if (loop->node->c != NULL && !loop->passed) { /* Jinja2 also converts the rest to a list */
        bl_jinja_list rest = {0};
        size_t cap = 0;
        for (bl_jinja_value item = pull(run, loop); item.kind != BL_JINJA_ABSENT; item = pull(run, loop))
            bl_jinja_push(run, &rest, &cap, item);
        loop->items = rest;
        loop->range = NULL;
        loop->next = 0;
        loop->passed = true;
    }
    return (int64_t)(loop->items.count - loop->next) + loop->index0 + 1 + (loop->peeked && loop->after.kind != BL_JINJA_ABSENT);
}

bl_jinja_value bl_jinja_loop_attribute(bl_jinja_run *run, bl_jinja_loop *loop, bl_span name)
{
    if (bl_span_is(name, "index0"))
        return bl_jinja_int(loop->index0);
    if (bl_span_is(name, "index"))
        return bl_jinja_int(loop->index0 + 1);
    if (bl_span_is(name, "first"))
        return bl_jinja_bool(loop->index0 == 0);
    if (bl_span_is(name, "last"))
        return bl_jinja_bool(peek(run, loop).kind == BL_JINJA_ABSENT);
    if (bl_span_is(name, "length"))
        return bl_jinja_int(loop_length(run, loop));
    if (bl_span_is(name, "revindex"))
        return bl_jinja_int(loop_length(run, loop) - loop->index0);
    if (bl_span_is(name, "revindex0"))
        return bl_jinja_int(loop_length(run, loop) - loop->index0 - 1);
    if (bl_span_is(name, "depth"))
        return bl_jinja_int(loop->depth0 + 1);
    if (bl_span_is(name, "depth0"))
        return bl_jinja_int(loop->depth0);
    if (bl_span_is(name, "previtem"))
        return loop->index0 == 0 ? bl_jinja_undefined(BL_JINJA_MESSAGE, BL_S("there is no previous item")) : loop->before;
    if (bl_span_is(name, "nextitem"))
        return peek(run, loop).kind == BL_JINJA_ABSENT ? bl_jinja_undefined(BL_JINJA_MESSAGE, BL_S("there is no next item"))
                                                       : loop->after;
    return bl_jinja_absent();
}

bl_jinja_value bl_jinja_loop_cycle(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    (void)at;
    return args->count > 0 ? args->at[(size_t)self.as.loop->index0 % args->count]
                           : bl_jinja_fail(run, BL_EINVAL, "no items for cycling given");
}

bl_jinja_value bl_jinja_loop_changed(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    bl_jinja_value now = bl_jinja_list_of(run, BL_JINJA_TUPLE, args->at, args->count);
    bool changed = !run->failed && !bl_jinja_equal(run, self.as.loop->changed, now);
    (void)at;
    if (changed)
        self.as.loop->changed = now;
    return bl_jinja_bool(changed);
}

static void jinja_run_run_loop(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_value iterable, bl_jinja_scope *outer,
                               int64_t depth0)
{
    const bl_jinja_range *range = iterable.kind == BL_JINJA_RANGE ? iterable.as.range : NULL;
    bl_jinja_list items = range == NULL ? bl_jinja_items(run, iterable) : (bl_jinja_list){.count = range->count};
    bl_jinja_loop *loop = bl_jinja_alloc(run, 1, sizeof *loop);
    bl_jinja_scope *scope = NULL;
    if (loop == NULL)
        return;
    *loop = (bl_jinja_loop){.node = node, .outer = outer, .items = items, .range = range, .index0 = -1, .depth0 = depth0};
    while (!run->failed) {
        bl_jinja_value item = loop->peeked ? loop->after : pull(run, loop);
        if (item.kind == BL_JINJA_ABSENT || run->failed)
            break;
        loop->peeked = false;
        loop->index0++;
        loop->before = loop->current;
        loop->current = item;
        if (scope == NULL || scope->kept)
            scope = bl_jinja_scope_open(run, outer);
        if (scope == NULL)
            return;
        bl_jinja_bind(run, scope, BL_S("loop"), (bl_jinja_value){.kind = BL_JINJA_LOOP, .as.loop = loop});
        jinja_run_assign(run, node->b, item, scope);
        execute(run, &node->items, scope);
        bl_jinja_scope_close(run, scope);
        bool broken = run->flow == BL_JINJA_BROKEN;
        run->flow = BL_JINJA_ON;
        if (broken)
            break;
    }
    if (loop->index0 < 0 && node->more.count > 0 && !run->failed) {
        scope = bl_jinja_scope_open(run, outer);
        if (scope != NULL)
            execute(run, &node->more, scope);
    }
}

static bl_jinja_value call_loop(bl_jinja_run *run, bl_jinja_loop *loop, const bl_jinja_args *args)
{
    bl_jinja_buffer buffer = {0}, *out = run->out;
    if (!loop->node->flag)
        return bl_jinja_fail(run, BL_EINVAL, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->count != 1 || args->named.count > 0)
        return bl_jinja_fail(run, BL_EINVAL, "loop() takes 1 positional argument");
    run->out = &buffer;
    if (enter_call(run))
        jinja_run_run_loop(run, loop->node, args->at[0], loop->outer, loop->depth0 + 1);
    run->calls--;
    run->out = out;
    return bl_jinja_take(&buffer);
}

bl_jinja_value bl_jinja_invoke(bl_jinja_run *run, bl_jinja_value callee, const bl_jinja_args *args)
{
    if (run->failed)
        return bl_jinja_none();
    if (callee.kind == BL_JINJA_FUNCTION)
        return bl_jinja_call_row(run, callee.as.function, bl_jinja_none(), args);
    if (callee.kind == BL_JINJA_METHOD)
        return bl_jinja_call_row(run, callee.as.method->row, callee.as.method->self, args);
    if (callee.kind == BL_JINJA_MACRO)
        return call_macro(run, callee.as.macro, args);
    if (callee.kind == BL_JINJA_LOOP)
        return call_loop(run, callee.as.loop, args);
    if (callee.kind == BL_JINJA_UNDEFINED)
        return bl_jinja_get_attribute(run, callee, BL_S("__call__")); /* fails with the message of an undefined value */
    return bl_jinja_fail(run, BL_EINVAL, "'%s' object is not callable", bl_jinja_type(callee));
}

/* ---- expressions */

static bool jinja_run_compare(bl_jinja_run *run, const bl_jinja_node *operand, bl_jinja_value a, bl_jinja_value b)
{
    bool ordered = operand->token == BL_JINJA_T_LT || operand->token == BL_JINJA_T_LE || operand->token == BL_JINJA_T_GT ||
                   operand->token == BL_JINJA_T_GE;
    if (ordered && (a.kind == BL_JINJA_UNDEFINED || b.kind == BL_JINJA_UNDEFINED)) {
        (void)bl_jinja_get_attribute(run, a.kind == BL_JINJA_UNDEFINED ? a : b, BL_S("__lt__"));
        return false;
    }
    if (operand->token == BL_JINJA_T_EQ || operand->token == BL_JINJA_T_NE)
        return bl_jinja_equal(run, a, b) == (operand->token == BL_JINJA_T_EQ);
    if (operand->token == BL_JINJA_T_LT || operand->token == BL_JINJA_T_LE)
        return bl_jinja_less(run, a, b) || (operand->token == BL_JINJA_T_LE && !run->failed && bl_jinja_equal(run, a, b));
    if (operand->token == BL_JINJA_T_GT || operand->token == BL_JINJA_T_GE)
        return bl_jinja_less(run, b, a) || (operand->token == BL_JINJA_T_GE && !run->failed && bl_jinja_equal(run, a, b));
    return bl_jinja_contains(run, b, a) != operand->flag;
}

static bl_jinja_value eval_compare(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_value left = eval(run, node->a, scope);
    for (int i = 0; i < node->items.count && !run->failed; i++) {
        bl_jinja_value right = eval(run, node->items.at[i]->a, scope);
        if (run->failed || !jinja_run_compare(run, node->items.at[i], left, right))
            return bl_jinja_bool(false);
        left = right;
    }
    return bl_jinja_bool(true);
}

static bl_jinja_value eval_unary(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_value value = eval(run, node->a, scope);
    int64_t whole = 0;
    if (node->token == BL_JINJA_T_NAME)
        return bl_jinja_bool(!bl_jinja_is_true(value));
    if (value.kind == BL_JINJA_FLOAT)
        return bl_jinja_float(node->token == BL_JINJA_T_SUB ? -value.as.number : value.as.number);
    if (!bl_jinja_as_int(value, &whole))
        return value.kind == BL_JINJA_UNDEFINED ? bl_jinja_get_attribute(run, value, BL_S("__neg__"))
                                                : bl_jinja_fail(run, BL_EINVAL, "bad operand type for unary %s: '%s'",
                                                                bl_jinja_token_says(node->token), bl_jinja_type(value));
    return node->token == BL_JINJA_T_ADD ? bl_jinja_int(whole)
                                         : bl_jinja_binary(run, BL_JINJA_T_SUB, bl_jinja_int(0), bl_jinja_int(whole));
}

static bl_jinja_value eval_join(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_value first = eval(run, node->items.at[0], scope);
    bl_jinja_buffer buffer = {0};
    if (first.kind == BL_JINJA_STRING)
        buffer = bl_jinja_continue(run, bl_jinja_text(first));
    else
        bl_jinja_put_str(run, &buffer, first);
    for (int i = 1; i < node->items.count && !run->failed; i++)
        bl_jinja_put_str(run, &buffer, eval(run, node->items.at[i], scope));
    return bl_jinja_take_joined(run, &buffer);
}

static bl_jinja_value eval_items(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    size_t count = (size_t)node->items.count;
    bl_jinja_value *at = bl_jinja_alloc(run, count, sizeof *at);
    for (size_t i = 0; at != NULL && i < count && !run->failed; i++)
        at[i] = eval(run, node->items.at[i], scope);
    return bl_jinja_list_of(run, node->op == BL_JINJA_MAKE_LIST ? BL_JINJA_LIST : BL_JINJA_TUPLE, at, count);
}

static bl_jinja_value eval_dict(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_value dict = bl_jinja_dict_make(run);
    for (int i = 0; i < node->items.count && !run->failed; i += 2) {
        bl_jinja_value key = eval(run, node->items.at[i], scope), value = eval(run, node->items.at[i + 1], scope);
        if (!run->failed)
            bl_jinja_dict_set(run, dict.as.dict, key, value);
    }
    return dict;
}

static bl_jinja_value eval_slice(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    const bl_jinja_node *step = node->more.at[0];
    bl_jinja_value of = eval(run, node->a, scope), start = node->b != NULL ? eval(run, node->b, scope) : bl_jinja_none();
    bl_jinja_value stop = node->c != NULL ? eval(run, node->c, scope) : bl_jinja_none();
    bl_jinja_value by = step != NULL ? eval(run, step, scope) : bl_jinja_none();
    return run->failed ? bl_jinja_none() : bl_jinja_slice(run, of, start, stop, by);
}

/* Applies a filter or test to |subject|. */
static bl_jinja_value jinja_run_apply(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_value subject, bl_jinja_scope *scope)
{
    bl_jinja_args args;
    run->line = node->line;
    if (node->row == NULL)
        return bl_jinja_fail(run, BL_EINVAL, "No %s named '%.*s' found.", node->op == BL_JINJA_FILTER ? "filter" : "test",
                             node->name.len > 100 ? 100 : (int)node->name.len, node->name.data);
    gather_arguments(run, node, scope, &args);
    run->line = node->line;
    return bl_jinja_call_row(run, node->row, subject, &args);
}

/* Applies the filters of a block to its text. */
static bl_jinja_value apply_chain(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_value text, bl_jinja_scope *scope)
{
    if (node == NULL || run->failed)
        return text;
    return jinja_run_apply(run, node, apply_chain(run, node->a, text, scope), scope);
}

static bl_jinja_value eval_call(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_args args;
    bl_jinja_value callee = eval(run, node->a, scope);
    if (run->failed)
        return callee;
    gather_arguments(run, node, scope, &args);
    run->line = node->line;
    return bl_jinja_invoke(run, callee, &args);
}

static bl_jinja_value eval_two(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_value a = eval(run, node->a, scope), b = run->failed ? a : eval(run, node->b, scope);
    run->line = node->line;
    if (run->failed)
        return a;
    return node->op == BL_JINJA_ITEM ? bl_jinja_get_item(run, a, b) : bl_jinja_binary(run, node->token, a, b);
}

static bl_jinja_value eval_choice(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    if (node->op == BL_JINJA_CONDITIONAL) {
        bool holds = bl_jinja_is_true(eval(run, node->b, scope));
        if (!holds && node->c == NULL)
            return bl_jinja_undefined(BL_JINJA_MESSAGE,
                                      BL_S("the inline if-expression evaluated to false and no else section was defined."));
        return run->failed ? bl_jinja_none() : eval(run, holds ? node->a : node->c, scope);
    }
    bl_jinja_value left = eval(run, node->a, scope);
    return run->failed || bl_jinja_is_true(left) == (node->op == BL_JINJA_OR) ? left : eval(run, node->b, scope);
}

static bl_jinja_value eval_node(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_value value = bl_jinja_none();
    switch ((int)node->op) {
    case BL_JINJA_CONST:
        return node->value;
    case BL_JINJA_NAME:
        return bl_jinja_look_up(run, node->name, scope);
    case BL_JINJA_UNARY:
        return eval_unary(run, node, scope);
    case BL_JINJA_BINARY:
    case BL_JINJA_ITEM:
        return eval_two(run, node, scope);
    case BL_JINJA_AND:
    case BL_JINJA_OR:
    case BL_JINJA_CONDITIONAL:
        return eval_choice(run, node, scope);
    case BL_JINJA_JOIN:
        return eval_join(run, node, scope);
    case BL_JINJA_COMPARE:
        return eval_compare(run, node, scope);
    case BL_JINJA_ATTRIBUTE:
        value = eval(run, node->a, scope);
        run->line = node->line;
        return run->failed ? value : bl_jinja_get_attribute(run, value, node->name);
    case BL_JINJA_SLICE:
        return eval_slice(run, node, scope);
    case BL_JINJA_CALL:
        return eval_call(run, node, scope);
    case BL_JINJA_FILTER:
    case BL_JINJA_TEST:
        value = eval(run, node->a, scope);
        return run->failed ? value : jinja_run_apply(run, node, value, scope);
    case BL_JINJA_MAKE_LIST:
    case BL_JINJA_MAKE_TUPLE:
        return eval_items(run, node, scope);
    case BL_JINJA_MAKE_DICT:
        return eval_dict(run, node, scope);
    default: /* not an expression */
        return value;
    }
}

static bl_jinja_value eval(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_value value = bl_jinja_none();
    run->line = node->line;
    if (bl_jinja_enter(run))
        value = eval_node(run, node, scope);
    bl_jinja_leave(run);
    return value;
}

/* ---- statements */

static bl_jinja_value make_macro(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_macro *macro = bl_jinja_alloc(run, 1, sizeof *macro);
    if (macro == NULL)
        return bl_jinja_none();
    *macro = (bl_jinja_macro){node, scope};
    bl_jinja_scope_keep(scope);
    return (bl_jinja_value){.kind = BL_JINJA_MACRO, .as.macro = macro};
}

static void run_call_block(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_args args;
    bl_jinja_value callee = eval(run, node->a->a, scope);
    gather_arguments(run, node->a, scope, &args);
    if (run->failed)
        return;
    add_named(run, &args, bl_jinja_string(BL_S("caller")), make_macro(run, node, scope));
    run->line = node->line;
    bl_jinja_value text = bl_jinja_invoke(run, callee, &args);
    bl_jinja_put_str(run, run->out, text);
}

static void run_with(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *outer)
{
    bl_jinja_scope *scope = bl_jinja_scope_open(run, outer);
    for (int i = 0; scope != NULL && i < node->more.count && !run->failed; i++)
        jinja_run_assign(run, node->more.at[i]->b, eval(run, node->more.at[i]->a, outer), scope);
    if (scope != NULL)
        execute(run, &node->items, scope);
    bl_jinja_scope_close(run, scope);
}

/* Executes a block in its own scope and applies the block's filters to its text. */
static bl_jinja_value run_block(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *outer)
{
    bl_jinja_scope *scope = bl_jinja_scope_open(run, outer);
    bl_jinja_value text = jinja_run_capture(run, &node->items, scope);
    bl_jinja_scope_close(run, scope);
    return apply_chain(run, node->a, text, outer);
}

static void execute_node(bl_jinja_run *run, const bl_jinja_node *node, bl_jinja_scope *scope)
{
    bl_jinja_value value;
    switch ((int)node->op) {
    case BL_JINJA_DATA:
        bl_jinja_put_span(run, run->out, node->name);
        break;
    case BL_JINJA_PRINT:
        value = eval(run, node->a, scope);
        bl_jinja_put_str(run, run->out, value);
        break;
    case BL_JINJA_FOR:
        value = eval(run, node->a, scope);
        if (!run->failed)
            jinja_run_run_loop(run, node, value, scope, 0);
        break;
    case BL_JINJA_IF:
        execute(run, bl_jinja_is_true(eval(run, node->a, scope)) ? &node->items : &node->more, scope);
        break;
    case BL_JINJA_SET:
        jinja_run_assign(run, node->b, eval(run, node->a, scope), scope);
        break;
    case BL_JINJA_SET_BLOCK:
        jinja_run_assign(run, node->b, run_block(run, node, scope), scope);
        break;
    case BL_JINJA_DEFINE_MACRO:
        bl_jinja_bind(run, scope, node->name, make_macro(run, node, scope));
        break;
    case BL_JINJA_CALL_BLOCK:
        run_call_block(run, node, scope);
        break;
    case BL_JINJA_FILTER_BLOCK:
    case BL_JINJA_SCOPE:
        value = run_block(run, node, scope);
        if (!run->failed && value.kind != BL_JINJA_STRING)
            (void)bl_jinja_fail(run, BL_EINVAL, "the filter of a block gives %s, not str", bl_jinja_type(value));
        bl_jinja_put_str(run, run->out, value);
        break;
    case BL_JINJA_WITH:
        run_with(run, node, scope);
        break;
    case BL_JINJA_BREAK:
    case BL_JINJA_CONTINUE:
        run->flow = node->op == BL_JINJA_BREAK ? BL_JINJA_BROKEN : BL_JINJA_CONTINUED;
        break;
    default: /* not a statement */
        break;
    }
}

static void execute(bl_jinja_run *run, const bl_jinja_nodes *body, bl_jinja_scope *scope)
{
    for (int i = 0; i < body->count && !run->failed && run->flow == BL_JINJA_ON; i++) {
        run->line = body->at[i]->line;
        if (bl_jinja_enter(run))
            execute_node(run, body->at[i], scope);
        bl_jinja_leave(run);
    }
}

void bl_jinja_execute(bl_jinja_run *run, const bl_jinja_nodes *body, bl_jinja_scope *top)
{
    execute(run, body, top);
}
