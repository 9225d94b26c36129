/* SPDX-License-Identifier: MIT */
/* `beamline chat`: a conversation with a text model of a running server, by POST /v1/chat/completions as a stream.
 *
 * On a terminal each line is a message; a line that ends with a backslash continues in the next line, and Ctrl-C ends the
 * current answer.  Otherwise standard input is one message, and standard output is the answer. */
#include "server/command/command.h"

#include "engine/base/file.h"
#include "server/command/events.h"
#include "server/command/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct conversation {
    bl_ask *ask;
    const char *model;
    cJSON *messages, *options; /* |options|: members of every request, such as max_tokens */
    int interrupts;            /* a descriptor that becomes readable after Ctrl-C */
    bool terminal;
} conversation;

typedef struct answer {
    conversation *chat;
    bl_text text, error;
    bool thinks; /* reasoning text of the model is being printed */
} answer;

static const char help[] = "/clear  forget the conversation, but not the system message\n"
                           "/system TEXT  set the system message and begin anew\n"
                           "/regen  another answer to the last message\n"
                           "/save FILE  write the conversation as JSON\n"
                           "/quit, or Ctrl-D  end\n"
                           "A line that ends with \\ goes on in the next one.  Ctrl-C ends the answer.\n";

/* ---- messages */

static void chat_terminal_add_message(conversation *chat, const char *role, const char *text)
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

/* ---- receiving an answer */

/* Print text of a model. On a terminal control characters are not printed. */
static void chat_terminal_print_text(const char *text, bool terminal)
{
    bl_text safe = {0};
    if (terminal)
        bl_text_put_words(&safe, text);
    else
        bl_text_puts(&safe, text);
    (void)bl_terminal_print(&safe);
    bl_text_fini(&safe);
}

static void show_thinking(answer *a, bool thinks)
{
    if (a->chat->terminal && thinks != a->thinks)
        fputs(thinks ? "\033[2m" : "\033[0m\n", stdout);
    a->thinks = thinks;
}

/* Take a chunk of the answer.  An error within the stream is an event too, and the last event. */
static bool take_event(void *arg, const char *name, const char *id, const char *data, size_t len)
{
    answer *a = arg;
    cJSON *event = cJSON_ParseWithLength(data, len);
    (void)name;
    (void)id;
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
        chat_terminal_print_text(reasoning->valuestring, true);
    }
    if (cJSON_IsString(content) && content->valuestring[0] != '\0') {
        show_thinking(a, false);
        chat_terminal_print_text(content->valuestring, a->chat->terminal);
        bl_text_puts(&a->text, content->valuestring);
    }
    cJSON_Delete(event);
    return true;
}

static char *chat_terminal_make_request(const conversation *chat)
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

/* Send the conversation and print the answer. The answer becomes the last message, even if Ctrl-C ended the answer. */
static bl_status ask_model(conversation *chat, bl_err *err)
{
    answer a = {.chat = chat};
    bl_events events = {.event = take_event, .arg = &a};
    char *body = chat_terminal_make_request(chat);
    bl_ask_request request = {.path = "/v1/chat/completions",
                              .body = {body, body != NULL ? strlen(body) : 0},
                              .take = bl_events_take,
                              .arg = &events,
                              .interrupts = chat->interrupts};
    bl_status st =
        body != NULL ? bl_ask_send(chat->ask, &request, err) : bl_fail(err, BL_ENOMEM, "out of host memory for a message");
    if (st == BL_OK && a.error.len > 0)
        st = bl_fail(err, BL_EINVAL, "%.500s", bl_text_get(&a.error));
    show_thinking(&a, false);
    if (a.text.len > 0 || st == BL_OK)
        printf("\n");
    if (a.text.len > 0)
        chat_terminal_add_message(chat, "assistant", bl_text_get(&a.text));
    fflush(stdout);
    bl_events_fini(&events);
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
        chat_terminal_add_message(chat, "system", system);
}

static bl_status chat_terminal_save(const conversation *chat, const char *path, bl_err *err)
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

/* Execute a line that begins with "/".  False: quit. */
static bool obey(conversation *chat, const char *line, bl_err *err)
{
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        return false;
    if (strcmp(line, "/clear") == 0) {
        begin_anew(chat, NULL);
    } else if (strncmp(line, "/system", 7) == 0 && (line[7] == ' ' || line[7] == '\0')) {
        begin_anew(chat, line[7] == ' ' ? line + 8 : "");
    } else if (strncmp(line, "/save ", 6) == 0) {
        (void)chat_terminal_save(chat, line + 6, err);
    } else if (strcmp(line, "/regen") == 0) {
        if (last_is(chat, "assistant"))
            drop_last(chat);
        if (last_is(chat, "user"))
            (void)ask_model(chat, err);
        else
            (void)bl_fail(err, BL_EINVAL, "the conversation has no message to answer");
    } else {
        fputs(help, stdout);
    }
    return true;
}

/* Wait for a line of the terminal.  Returns 1, 0 at the end of input, -1 after Ctrl-C. */
static int chat_terminal_read_line(const conversation *chat, char **line, size_t *room)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = chat->interrupts, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        continue;
    if (fds[1].revents != 0 && bl_terminal_is_interrupted(chat->interrupts))
        return -1;
    ssize_t len = getline(line, room, stdin);
    if (len > 0 && (*line)[len - 1] == '\n')
        (*line)[len - 1] = '\0';
    return len > 0;
}

/* Read a message of one or more lines into |out|. */
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
        got = chat_terminal_read_line(chat, &line, &room);
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
            chat_terminal_add_message(chat, "user", message.data);
            if (ask_model(chat, &err) != BL_OK && last_is(chat, "user"))
                drop_last(chat);
        }
        if (err.status != BL_OK)
            bl_call_tell(&err);
    }
    bl_text_fini(&message);
}

static bl_status answer_input(conversation *chat, bl_err *err)
{
    bl_text message = {0};
    char piece[4096];
    for (size_t n = 0; (n = fread(piece, 1, sizeof piece, stdin)) > 0;)
        bl_text_append(&message, piece, n);
    while (bl_text_last(&message) == '\n') /* the final newline is not part of the message */
        message.data[--message.len] = '\0';
    bl_status st = message.failed || message.len == 0 ? bl_fail(err, BL_EINVAL, "standard input has no message") : BL_OK;
    if (st == BL_OK) {
        chat_terminal_add_message(chat, "user", message.data);
        st = ask_model(chat, err);
    }
    bl_text_fini(&message);
    return st;
}

/* ---- the command */

/* Read the members of every request from the options. */
static void chat_terminal_read_options(const bl_call *call, conversation *chat)
{
    static const struct {
        const char *flag, *member;
    } numbers[] = {{"max-tokens", "max_tokens"}, {"temperature", "temperature"}, {"seed", "seed"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (bl_call_has(call, numbers[i].flag))
            cJSON_AddNumberToObject(chat->options, numbers[i].member, bl_call_number(call, numbers[i].flag, 0));
    if (bl_call_has(call, "system"))
        begin_anew(chat, bl_call_text(call, "system"));
}

bl_status bl_command_chat(bl_call *call, bl_err *err)
{
    conversation chat = {.ask = &call->ask,
                         .model = call->noperands > 0 ? call->operands[0] : NULL,
                         .messages = cJSON_CreateArray(),
                         .options = cJSON_CreateObject(),
                         .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    chat_terminal_read_options(call, &chat);
    bl_status st = bl_call_connect(call, err);
    chat.interrupts = bl_terminal_catch_interrupts(chat.terminal);
    if (st == BL_OK && chat.terminal)
        converse(&chat);
    else if (st == BL_OK)
        st = answer_input(&chat, err);
    cJSON_Delete(chat.messages);
    cJSON_Delete(chat.options);
    if (chat.interrupts >= 0)
        close(chat.interrupts);
    return st;
}
