/* SPDX-License-Identifier: MIT */
/* Chat templates without Jinja2: a sample of the cases of tests/models/test_chat_templates.py, and allocation failures. */
#include "engine/base/fault.h"
#include "proto/chat/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

static const char messages[] =
    "[{\"role\": \"system\", \"content\": \" Be brief. \"}, {\"role\": \"user\", \"content\": \"Hi \\u00e9\"}, "
    "{\"role\": \"assistant\", \"content\": null, \"calls\": [{\"name\": \"f\", \"arguments\": {\"a\": [1, "
    "2.50, true, null]}}]}]";

typedef struct fixture {
    bl_arena *arena;
    bl_json_doc doc;
    bl_chat_input input;
} fixture;

static void open_fixture(fixture *f)
{
    bl_err err = {0};
    *f = (fixture){.arena = bl_arena_create(0)};
    assert_non_null(f->arena);
    assert_int_equal(BL_OK, bl_json_parse(&f->doc, f->arena, BL_S(messages), NULL, &err));
    f->input =
        (bl_chat_input){.messages = bl_json_root(&f->doc), .add_generation_prompt = true, .bos_token = "<s>", .now = 86400 * 365};
}

static void close_fixture(fixture *f)
{
    bl_json_fini(&f->doc);
    bl_arena_destroy(f->arena);
}

static bl_status render(fixture *f, const char *source, bl_text *out, bl_err *err)
{
    bl_chat_template *chat = NULL;
    source = source != NULL ? source : bl_chat_template_chatml;
    BL_TRY(bl_chat_template_parse((bl_span){source, strlen(source)}, &chat, err));
    bl_status st = bl_chat_template_render(chat, &f->input, NULL, out, err);
    bl_chat_template_destroy(chat);
    return st;
}

static const struct {
    const char *source, *wants; /* |source| NULL: ChatML */
} rows[] = {
    {"", ""},
    {NULL,
     "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\nHi \xc3\xa9<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"{{ bos_token }}{{ eos_token }}|{{ tools }}|{{ messages|length }}|{{ messages[0].content|trim }}", "<s>|None|3|Be brief."},
    {"{{ messages[2] }}", "{'role': 'assistant', 'calls': [{'name': 'f', 'arguments': {'a': [1, 2.5, True, None]}}]}"},
    {"{{ messages[2].calls[0]|tojson }}", "{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, true, null]}}"},
    {"{% for m in messages if m.role != 'system' %}\n{{ loop.index }}{{ m.role[0]|upper }}{% if not loop.last %},{% endif %}\n{% "
     "endfor %}",
     "1U,2A"},
    {"{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + m.role|length %}{% endfor %}{{ ns.n }}", "19"},
    {"{% macro f(x, y=2) %}[{{ x * y }}{{ caller() }}]{% endmacro %}{% call f('ab') %}!{% endcall %}", "[abab!]"},
    {"{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}{% filter upper %}a{% endfilter %}",
     "13A"},
    {"a {%- if add_generation_prompt %} b{% endif -%} c", "a bc"},
    {"{{ '%s-%03d' % ('a', 7) }} {{ '{:>4}'.format(1.5) }} {{ 7 // 2 }} {{ -7 % 3 }} {{ 1 / 4 }} {{ 'b' in 'abc' }}",
     "a-007  1.5 3 2 0.25 True"},
    {"{{ strftime_now('%Y') }}{% generation %}x{% endgeneration %}{{ messages|map(attribute='role')|join(',') }}",
     "1971xsystem,user,assistant"},
    {"{{ {'b': 1, 'a': [1, 2][::-1]}|dictsort|list }}{{ missing|default('d') }}{{ 'x y'.split()|reverse|list }}",
     "[('a', [2, 1]), ('b', 1)]d['y', 'x']"},
};

static void texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        bl_text out = {0};
        bl_err err = {0};
        open_fixture(&f);
        bl_text_puts(&out, "before:");
        if (render(&f, rows[i].source, &out, &err) != BL_OK || strcmp(out.data + 7, rows[i].wants) != 0)
            fail_msg("row %zu gave   %s %s\nwanted %s", i, bl_text_get(&out), err.text, rows[i].wants);
        bl_text_fini(&out);
        close_fixture(&f);
    }
}

static void failures(void **state)
{
    static const struct {
        const char *source;
        bl_status status;
        const char *says;
    } bad[] = {
        {"\n{{ x", BL_EINVAL, "line 2"},
        {"{% if 1 %}", BL_EINVAL, "endif"},
        {"\xff", BL_EINVAL, "UTF-8"},
        {"{{ x.y }}", BL_EINVAL, "'x' is undefined"},
        {"a\nb{{ raise_exception('no') }}", BL_EINVAL, "line 2: no"},
        {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", BL_ELIMIT, "steps"},
        {"{% extends 'x' %}", BL_EUNSUPPORTED, "extends"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture f;
        bl_text out = {0};
        bl_err err = {0};
        open_fixture(&f);
        bl_text_puts(&out, "before");
        assert_int_equal(bad[i].status, render(&f, bad[i].source, &out, &err));
        if (strstr(err.text, bad[i].says) == NULL)
            fail_msg("%s\nsays %s\nnot  %s", bad[i].source, err.text, bad[i].says);
        assert_string_equal("before", out.data); /* unchanged by the failed call */
        bl_text_fini(&out);
        close_fixture(&f);
    }
}

/* Numbers of a tree built in memory are doubles. */
static void a_tree(void **state)
{
    fixture f;
    bl_text out = {0};
    bl_err err = {0};
    bl_json_doc tree = {0};
    (void)state;
    open_fixture(&f);
    tree.root = cJSON_Parse(messages);
    f.input.messages = bl_json_root(&tree);
    assert_int_equal(BL_OK, render(&f, "{{ messages[1].content }}{{ messages[2].calls[0].arguments }}", &out, &err));
    assert_string_equal("Hi \xc3\xa9{'a': [1, 2.5, True, None]}", out.data);
    bl_text_fini(&out);
    cJSON_Delete(tree.root);
    close_fixture(&f);
}

static void each_allocation_fails_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        open_fixture(&f);
        for (long n = 1;; n++) {
            bl_text out = {0};
            bl_err err = {0};
            bl_fault_arm(BL_FAULT_ALLOC, n);
            bl_status st = render(&f, rows[i].source, &out, &err);
            bool hit = st != BL_OK;
            bl_fault_arm(BL_FAULT_ALLOC, 0);
            if (!hit)
                assert_string_equal(rows[i].wants, bl_text_get(&out));
            else
                assert_int_equal(BL_ENOMEM, st);
            bl_text_fini(&out);
            if (!hit)
                break;
        }
        close_fixture(&f);
    }
}

static void what_it_reads(void **state)
{
    bl_chat_template *chat = NULL;
    bl_err err = {0};
    (void)state;
    assert_int_equal(BL_OK, bl_chat_template_parse(BL_S("{% if tools %}{{ a.b }}{% endif %} enable_thinking"), &chat, &err));
    assert_true(bl_chat_template_reads(chat, "tools"));
    assert_true(bl_chat_template_reads(chat, "a"));
    assert_false(bl_chat_template_reads(chat, "b"));
    assert_false(bl_chat_template_reads(chat, "enable_thinking"));
    bl_chat_template_destroy(chat);
    bl_chat_template_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(failures), cmocka_unit_test(a_tree),
                                       cmocka_unit_test(each_allocation_fails_once), cmocka_unit_test(what_it_reads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
