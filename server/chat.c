/* SPDX-License-Identifier: MIT */
/* `beamline chat`: a conversation with a text model of a running server, through POST /v1/chat/completions as a stream.
 *
 * In a terminal each line is a message; a line that ends with a backslash goes on in the next one, and Ctrl-C ends the answer
 * that is being written.  Otherwise standard input is one message, and standard output is the answer. */
#include "server/client.h"

#include "engine/base/file.h"
#include "server/ask.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

typedef struct conversation {
    const char *url, *model;
    cJSON *messages, *options; /* |options|: members of each request, such as max_tokens */
    int interrupts;            /* a descriptor that is readable after Ctrl-C */
    bool terminal;
} conversation;

typedef struct answer {
    conversation *chat;
    bl_text events; /* what has come and is not read yet */
    bl_text text, error;
    bool thinks; /* the model's reasoning is being printed */
} answer;

static const char help[] = "/clear  forget the conversation, but not the system message\n"
                           "/system TEXT  set the system message and begin anew\n"
                           "/regen  another answer to the last message\n"
                           "/save FILE  write the conversation as JSON\n"
                           "/quit, or Ctrl-D  end\n"
                           "A line that ends with \\ goes on in the next one.  Ctrl-C ends the answer.\n";

/* ---- messages */

static void add_message(conversation *chat, const char *role, const char *text)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "role", role);
    cJSON_AddStringToObject(message, "content", text);
    cJSON_AddItemToArray(chat->messages, message);
}

static bool last_is(const conversation *chat, const char *role)
{
    const cJSON *last = cJSON_GetArrayItem(chat->messages, cJSON_GetArraySize(chat->messages) - 1);
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(last, "role");
    return cJSON_IsString(of) && strcmp(of->valuestring, role) == 0;
}

static void drop_last(conversation *chat)
{
    cJSON_DeleteItemFromArray(chat->messages, cJSON_GetArraySize(chat->messages) - 1);
}

/* ---- an answer */

/* Text of a model, without what a terminal would take for commands. */
static void print_text(const char *text, bool terminal)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (!terminal || (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t')
            putchar(c);
    }
    fflush(stdout);
}

static void show_thinking(answer *a, bool thinks)
{
    if (a->chat->terminal && thinks != a->thinks)
        fputs(thinks ? "\033[2m" : "\033[0m\n", stdout);
    a->thinks = thinks;
}

static void take_event(answer *a, const char *data, size_t len)
{
    cJSON *event = cJSON_ParseWithLength(data, len);
    const cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(event, "choices"), 0);
    const cJSON *delta = cJSON_GetObjectItemCaseSensitive(choice, "delta"),
                *error = cJSON_GetObjectItemCaseSensitive(event, "error");
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(delta, "content");
    const cJSON *reasoning = cJSON_GetObjectItemCaseSensitive(delta, "reasoning_content");
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(error, "message");
    if (cJSON_IsString(message))
        bl_text_puts(&a->error, message->valuestring);
    if (cJSON_IsString(reasoning) && a->chat->terminal) {
        show_thinking(a, true);
        print_text(reasoning->valuestring, true);
    }
    if (cJSON_IsString(content) && content->valuestring[0] != '\0') {
        show_thinking(a, false);
        print_text(content->valuestring, a->chat->terminal);
        bl_text_puts(&a->text, content->valuestring);
    }
    cJSON_Delete(event);
}

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    answer *a = arg;
    size_t from = 0;
    bl_text_append(&a->events, data, size * n);
    for (const char *end = NULL; (end = memchr(bl_text_get(&a->events) + from, '\n', a->events.len - from)) != NULL;) {
        const char *line = a->events.data + from;
        size_t len = (size_t)(end - line);
        if (len > 6 && memcmp(line, "data: ", 6) == 0)
            take_event(a, line + 6, len - 6);
        from += len + 1;
    }
    if (from > 0) {
        memmove(a->events.data, a->events.data + from, a->events.len - from + 1);
        a->events.len -= from;
    }
    return a->events.failed ? 0 : size * n;
}

static bool is_interrupted(int fd)
{
    struct signalfd_siginfo info;
    bool any = false;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        any = true;
    return any;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const answer *now = arg;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return is_interrupted(now->chat->interrupts);
}

static char *make_request(const conversation *chat)
{
    cJSON *request = cJSON_Duplicate(chat->options, true);
    if (chat->model != NULL)
        cJSON_AddStringToObject(request, "model", chat->model);
    cJSON_AddBoolToObject(request, "stream", true);
    cJSON_AddItemToObject(request, "messages", cJSON_Duplicate(chat->messages, true));
    char *body = cJSON_PrintUnformatted(request);
    cJSON_Delete(request);
    return body;
}

static bl_status explain(const answer *a, CURLcode code, long status, bl_err *err)
{
    cJSON *body = cJSON_ParseWithLength(bl_text_get(&a->events), a->events.len);
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(body, "error"), "message");
    bl_status st = BL_OK;
    if (code != CURLE_OK)
        st = bl_fail(err, BL_EINVAL, "no answer: %s", curl_easy_strerror(code));
    else if (a->error.len > 0)
        st = bl_fail(err, BL_EINVAL, "%.500s", bl_text_get(&a->error));
    else if (status != 200)
        st = bl_fail(err, BL_EINVAL, "the server says %ld: %.400s", status,
                     cJSON_IsString(message) ? message->valuestring : bl_text_get(&a->events));
    cJSON_Delete(body);
    return st;
}

/* Send the conversation and print what the model answers, which becomes its last message.  An answer that Ctrl-C ended stays. */
static bl_status ask_model(conversation *chat, bl_err *err)
{
    answer a = {.chat = chat};
    bl_ask ask = {0};
    long status = 0;
    char *body = make_request(chat);
    bl_status st =
        body != NULL ? bl_ask_open(&ask, chat->url, "/v1/chat/completions", true, err) : bl_fail(err, BL_ENOMEM, "a message");
    if (st == BL_OK) {
        ask.headers = curl_slist_append(ask.headers, "Content-Type: application/json");
        curl_easy_setopt(ask.curl, CURLOPT_HTTPHEADER, ask.headers);
        curl_easy_setopt(ask.curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(ask.curl, CURLOPT_TIMEOUT, 0L);
        curl_easy_setopt(ask.curl, CURLOPT_WRITEFUNCTION, on_data);
        curl_easy_setopt(ask.curl, CURLOPT_WRITEDATA, &a);
        curl_easy_setopt(ask.curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(ask.curl, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(ask.curl, CURLOPT_XFERINFODATA, &a);
        CURLcode code = curl_easy_perform(ask.curl);
        curl_easy_getinfo(ask.curl, CURLINFO_RESPONSE_CODE, &status);
        st = code == CURLE_ABORTED_BY_CALLBACK ? BL_OK : explain(&a, code, status, err);
    }
    show_thinking(&a, false);
    if (a.text.len > 0 || st == BL_OK)
        printf("\n");
    if (a.text.len > 0)
        add_message(chat, "assistant", bl_text_get(&a.text));
    fflush(stdout);
    bl_ask_close(&ask);
    bl_text_fini(&a.events);
    bl_text_fini(&a.text);
    bl_text_fini(&a.error);
    free(body);
    return st;
}

/* ---- the terminal */

static void begin_anew(conversation *chat, const char *system)
{
    cJSON *first = cJSON_GetArraySize(chat->messages) > 0 ? cJSON_DetachItemFromArray(chat->messages, 0) : NULL;
    const cJSON *role = cJSON_GetObjectItemCaseSensitive(first, "role");
    bool keeps = system == NULL && cJSON_IsString(role) && strcmp(role->valuestring, "system") == 0;
    cJSON_Delete(chat->messages);
    chat->messages = cJSON_CreateArray();
    if (keeps)
        cJSON_AddItemToArray(chat->messages, first);
    else
        cJSON_Delete(first);
    if (system != NULL && *system != '\0')
        add_message(chat, "system", system);
}

static bl_status save(const conversation *chat, const char *path, bl_err *err)
{
    char *text = cJSON_Print(chat->messages);
    int fd = text != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    bool whole = fd >= 0 && bl_write_all(fd, text, strlen(text));
    bl_status st = whole ? BL_OK : bl_fail(err, BL_ESTORAGE, "%.300s cannot be written: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(text);
    return st;
}

/* A line that begins with "/".  False: end. */
static bool obey(conversation *chat, const char *line, bl_err *err)
{
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        return false;
    if (strcmp(line, "/clear") == 0) {
        begin_anew(chat, NULL);
    } else if (strncmp(line, "/system", 7) == 0 && (line[7] == ' ' || line[7] == '\0')) {
        begin_anew(chat, line[7] == ' ' ? line + 8 : "");
    } else if (strncmp(line, "/save ", 6) == 0) {
        (void)save(chat, line + 6, err);
    } else if (strcmp(line, "/regen") == 0) {
        if (last_is(chat, "assistant"))
            drop_last(chat);
        if (last_is(chat, "user"))
            (void)ask_model(chat, err);
        else
            (void)bl_fail(err, BL_EINVAL, "there is no message to answer");
    } else {
        fputs(help, stdout);
    }
    return true;
}

/* Wait for a line of the terminal: 1, 0 at its end, -1 after Ctrl-C. */
static int read_line(const conversation *chat, char **line, size_t *room)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = chat->interrupts, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        continue;
    if (fds[1].revents != 0 && is_interrupted(chat->interrupts))
        return -1;
    ssize_t len = getline(line, room, stdin);
    if (len > 0 && (*line)[len - 1] == '\n')
        (*line)[len - 1] = '\0';
    return len > 0;
}

/* A message of one or more lines in |out|. */
static int read_message(const conversation *chat, bl_text *out)
{
    char *line = NULL;
    size_t room = 0;
    int got = 0;
    bool more = true;
    bl_text_clear(out);
    for (const char *prompt = "> "; more; prompt = ". ") {
        fputs(prompt, stdout);
        fflush(stdout);
        got = read_line(chat, &line, &room);
        size_t len = got > 0 ? strlen(line) : 0;
        more = len > 0 && line[len - 1] == '\\';
        if (more)
            line[len - 1] = '\n';
        bl_text_append(out, line, len);
    }
    free(line);
    return got;
}

static void converse(conversation *chat)
{
    bl_text message = {0};
    for (int got = 1; got != 0;) {
        bl_err err = {0};
        got = read_message(chat, &message);
        if (got <= 0 || message.len == 0) {
            printf("%s", got <= 0 ? "\n" : "");
            continue;
        }
        if (message.data[0] == '/') {
            if (!obey(chat, message.data, &err))
                break;
        } else {
            add_message(chat, "user", message.data);
            if (ask_model(chat, &err) != BL_OK && last_is(chat, "user"))
                drop_last(chat);
        }
        if (err.status != BL_OK)
            fprintf(stderr, "beamline: %s\n", err.text);
    }
    bl_text_fini(&message);
}

static bl_status answer_input(conversation *chat, bl_err *err)
{
    bl_text message = {0};
    char piece[4096];
    for (size_t n = 0; (n = fread(piece, 1, sizeof piece, stdin)) > 0;)
        bl_text_append(&message, piece, n);
    while (bl_text_last(&message) == '\n') /* the end of the last line, and no part of the message */
        message.data[--message.len] = '\0';
    bl_status st = message.failed || message.len == 0 ? bl_fail(err, BL_EINVAL, "standard input has no message") : BL_OK;
    if (st == BL_OK) {
        add_message(chat, "user", message.data);
        st = ask_model(chat, err);
    }
    bl_text_fini(&message);
    return st;
}

/* ---- the command */

/* Take "--flag value"; false: there is no such flag, or the value does not fit. */
static bool take_flag(conversation *chat, const char *flag, const char *value)
{
    static const struct {
        const char *flag, *member;
    } numbers[] = {{"--max-tokens", "max_tokens"}, {"--temperature", "temperature"}, {"--seed", "seed"}};
    if (strcmp(flag, "--url") == 0) {
        chat->url = value;
        return true;
    }
    if (strcmp(flag, "--system") == 0) {
        begin_anew(chat, value);
        return true;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char *end = NULL;
        if (strcmp(flag, numbers[i].flag) != 0)
            continue;
        cJSON_AddNumberToObject(chat->options, numbers[i].member, strtod(value, &end));
        return end != value && *end == '\0';
    }
    return false;
}

static bool read_arguments(conversation *chat, int argc, char *const *argv)
{
    for (int i = 0; i < argc; i++) {
        bool is_flag = argv[i][0] == '-';
        if (!is_flag && chat->model == NULL) {
            chat->model = argv[i];
        } else if (is_flag && i + 1 < argc && take_flag(chat, argv[i], argv[i + 1])) {
            i++;
        } else {
            fprintf(stderr, "beamline: chat does not take \"%s\" so; beamline chat --help says how\n", argv[i]);
            return false;
        }
    }
    return true;
}

int bl_chat_main(int argc, char *const *argv)
{
    conversation chat = {
        .url = bl_ask_url(NULL), .messages = cJSON_CreateArray(), .options = cJSON_CreateObject(), .interrupts = -1};
    bl_err err = {0};
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    chat.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (chat.terminal)
        sigprocmask(SIG_BLOCK, &interrupt, NULL);
    else
        sigemptyset(&interrupt);
    chat.interrupts = signalfd(-1, &interrupt, SFD_NONBLOCK | SFD_CLOEXEC);
    if (!read_arguments(&chat, argc, argv)) {
        (void)bl_fail(&err, BL_EINVAL, "arguments");
    } else if (chat.terminal) {
        converse(&chat);
    } else if (answer_input(&chat, &err) != BL_OK) {
        fprintf(stderr, "beamline: %s\n", err.text);
    }
    cJSON_Delete(chat.messages);
    cJSON_Delete(chat.options);
    if (chat.interrupts >= 0)
        close(chat.interrupts);
    return err.status == BL_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
