/* SPDX-License-Identifier: MIT */
#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The line on stderr for |text|, or for the fields of an event, without its newline. */
static const char *logged_as(bl_log_level level, const char *text, const bl_log_field *fields, int count)
{
    static char line[50000];
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    ssize_t n;

    assert_non_null(file);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    errno = EDOM;
    if (text != NULL)
        bl_log(level, "%s", text);
    else
        bl_log_fields(level, "event", fields, count);
    assert_int_equal(errno, EDOM);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    n = pread(fileno(file), line, sizeof line - 1, 0);
    fclose(file);
    assert_true(n >= 0);
    line[n] = '\0';
    if (n > 0) {
        assert_int_equal(line[n - 1], '\n');
        line[n - 1] = '\0';
    }
    assert_null(strchr(line, '\n'));
    return line;
}

static const char *logged(bl_log_level level, const char *text)
{
    return logged_as(level, text, NULL, 0);
}

static const struct {
    const char *text, *plain, *json;
} rows[] = {
    {"opened opencl:0", "opened opencl:0", "opened opencl:0"},
    {"name \"a\\b\"", "name \"a\\b\"", "name \\\"a\\\\b\\\""},
    {"x\n2025-01-01 error forged", "x\\x0a2025-01-01 error forged", "x\\u000a2025-01-01 error forged"},
    {"\x1b[2J\r\x7f", "\\x1b[2J\\x0d\\x7f", "\\u001b[2J\\u000d\\u007f"},
    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
     "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
    {"\xc2\x9b"
     "31m",
     "\\xc2\\x9b"
     "31m",
     "\\u00c2\\u009b"
     "31m"}, /* CSI as a single character */
    {"\xff\xc0\x80\xed\xa0\x80\xe2\x82", "\\xff\\xc0\\x80\\xed\\xa0\\x80\\xe2\\x82",
     "\\u00ff\\u00c0\\u0080\\u00ed\\u00a0\\u0080\\u00e2\\u0082"}, /* invalid UTF-8 */
    {"\xe2\x80\xa8", "\\xe2\\x80\\xa8", "\\u00e2\\u0080\\u00a8"}, /* line separator */
};

static void text_cannot_forge_a_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *line;
        char want[200];

        bl_log_configure(BL_LOG_INFO, false);
        line = logged(BL_LOG_WARN, rows[i].text);
        snprintf(want, sizeof want, "Z warn  %s", rows[i].plain);
        assert_true(strlen(line) > 23);
        assert_string_equal(line + 23, want); /* after 2025-01-01T00:00:00.000 */
        assert_int_equal(line[10], 'T');

        bl_log_configure(BL_LOG_INFO, true);
        line = logged(BL_LOG_WARN, rows[i].text);
        snprintf(want, sizeof want, "Z\",\"level\":\"warn\",\"message\":\"%s\"}", rows[i].json);
        assert_true(strlen(line) > 32);
        assert_memory_equal(line, "{\"time\":\"2", 10);
        assert_string_equal(line + 32, want);
    }
}

static void levels_filter(void **state)
{
    (void)state;
    bl_log_configure(BL_LOG_WARN, false);
    assert_string_equal(logged(BL_LOG_INFO, "quiet"), "");
    assert_non_null(strstr(logged(BL_LOG_ERROR, "loud"), "Z error loud"));
}

static void long_text_is_cut(void **state)
{
    char text[5000];
    const char *line;

    (void)state;
    memset(text, '\x01', sizeof text - 1); /* the longest escaped text */
    text[sizeof text - 1] = '\0';
    bl_log_configure(BL_LOG_DEBUG, true);
    line = logged(BL_LOG_DEBUG, text);
    assert_string_equal(line + strlen(line) - 11, "\\u0001...\"}");
}

static const struct {
    bl_log_field field;
    const char *plain, *json;
} fields[] = {
    {{"status", NULL, 200}, "status=200", "\"status\":200"},
    {{"ms", NULL, 1.234}, "ms=1.234", "\"ms\":1.234"},
    {{"path", "/v2/health", 0}, "path=/v2/health", "\"path\":\"/v2/health\""},
    {{"path", "", 0}, "path=\"\"", "\"path\":\"\""},
    {{"id", "a b=c", 0}, "id=\"a b=c\"", "\"id\":\"a b=c\""}, /* the value is not a second field */
    {{"id", "\"\\\n", 0}, "id=\"\\\"\\\\\\u000a\"", "\"id\":\"\\\"\\\\\\u000a\""},
};

static void fields_stay_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char want[200];

        bl_log_configure(BL_LOG_INFO, false);
        snprintf(want, sizeof want, "Z info  event %s", fields[i].plain);
        assert_string_equal(logged_as(BL_LOG_INFO, NULL, &fields[i].field, 1) + 23, want);
        bl_log_configure(BL_LOG_INFO, true);
        snprintf(want, sizeof want, "Z\",\"level\":\"info\",\"message\":\"event\",%s}", fields[i].json);
        assert_string_equal(logged_as(BL_LOG_INFO, NULL, &fields[i].field, 1) + 32, want);
    }
    bl_log_configure(BL_LOG_WARN, true);
    assert_false(bl_log_is_on(BL_LOG_INFO));
    assert_string_equal(logged_as(BL_LOG_INFO, NULL, &fields[0].field, 1), "");
}

static void long_fields_are_cut(void **state)
{
    bl_log_field many[20];
    char text[1000];
    const char *line;
    int count = 0;

    (void)state;
    memset(text, '\x01', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 20; i++)
        many[i] = (bl_log_field){"a_name_of_thirty_characters_abc", text, 0};
    bl_log_configure(BL_LOG_INFO, true);
    line = logged_as(BL_LOG_INFO, NULL, many, 20);
    for (const char *at = line; (at = strstr(at, "\\u0001")) != NULL; at++)
        count++;
    assert_int_equal(count, 16 * 255);
    assert_string_equal(line + strlen(line) - 8, "\\u0001\"}");
}

static void clock_goes_forward(void **state)
{
    int64_t before = bl_clock_ns();

    (void)state;
    usleep(2000);
    assert_true(bl_clock_ms(before, bl_clock_ns()) >= 2.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_cannot_forge_a_line), cmocka_unit_test(levels_filter),       cmocka_unit_test(long_text_is_cut),
        cmocka_unit_test(fields_stay_apart),        cmocka_unit_test(long_fields_are_cut), cmocka_unit_test(clock_goes_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
