/* SPDX-License-Identifier: MIT */
/* The command line: a table of commands (commands.def), and the call of a command whose arguments are parsed by the table.
 * Thread: one. */
#ifndef BL_SERVER_COMMAND_H
#define BL_SERVER_COMMAND_H

#include "server/command/ask.h"
#include "server/ops/settings.h"

enum {
    BL_COMMAND_ASKS = 1,     /* the command sends requests to a running server */
    BL_COMMAND_ANSWERS = 2,  /* --json prints the document of the server */
    BL_COMMAND_SETTINGS = 4, /* the command takes the options of the server */
    BL_COMMAND_LISTS = 8,    /* the help of the command lists the server's options */
    BL_COMMAND_MUST = 16     /* the command requires a verb */
};

/* Exit statuses of the process. */
enum { BL_EXIT_DONE = 0, BL_EXIT_FAILED = 1, BL_EXIT_MISUSED = 2, BL_EXIT_SILENT = 3 /* no server answered */ };

typedef struct bl_call bl_call;

typedef struct bl_command {
    const char *name;
    /* Runs the command.  A failure with an empty text was already reported. */
    bl_status (*run)(bl_call *call, bl_err *err);
    unsigned takes;
    const char *arguments, *doc, *more;
} bl_command;

typedef struct bl_verb_row {
    const char *command, *verb, *arguments, *doc;
} bl_verb_row;

typedef struct bl_option_row {
    const char *command, *flag, *letter;
    bl_setting_kind kind;
    double least, most;
    const char *argument, *doc;
} bl_option_row;

/* The rows of commands.def in order; NULL past the last row. */
const bl_command *bl_command_at(size_t i);
const bl_command *bl_command_find(const char *name);
/* The next row of |command| from index *at on; *at becomes the index after it.  NULL: none. */
const bl_verb_row *bl_command_verb(const bl_command *command, size_t *at);
const bl_option_row *bl_command_option(const bl_command *command, size_t *at);

enum { BL_CALL_OPERANDS = 64, BL_CALL_OPTIONS = 256 };

typedef struct bl_call_option {
    const bl_option_row *row;
    const char *text;
    double number; /* value of a COUNT, BYTES or NUMBER option */
} bl_call_option;

struct bl_call {
    const bl_command *command;
    const char *verb; /* NULL: the call has no verb */
    const char *operands[BL_CALL_OPERANDS];
    int noperands;
    bl_call_option options[BL_CALL_OPTIONS];
    int noptions;
    char *settings[BL_CALL_OPTIONS]; /* options of the server, to pass to bl_settings_load */
    int nsettings;
    bool helps; /* the arguments include --help */
    bool misused;
    bl_ask ask; /* connection to the server; closed when the command has ended */
};

/* |argv| are the arguments after the command's name. */
BL_NODISCARD bl_status bl_call_parse(bl_call *call, int argc, char *const *argv, bl_err *err);
/* Fail with a usage error; the message includes the usage. */
bl_status bl_call_misuse(bl_call *call, bl_err *err, const char *fmt, ...) BL_PRINTF(3, 4);

/* The last value of an option of the command. If the option is missing: NULL, |usual| or false. */
const char *bl_call_text(const bl_call *call, const char *flag);
double bl_call_number(const bl_call *call, const char *flag, double usual);
bool bl_call_has(const bl_call *call, const char *flag);
/* The next value of an option that may be repeated, from index *at on. */
const char *bl_call_next(const bl_call *call, const char *flag, int *at);
/* Do the options select a running server? For commands that can also work locally. */
bool bl_call_is_remote(const bl_call *call);

/* Prepare call->ask from --url and --key-file, or from the environment. */
BL_NODISCARD bl_status bl_call_connect(bl_call *call, bl_err *err);
/* Send a request with call->ask.  With --json the function prints the answer and sets *told. */
BL_NODISCARD bl_status bl_call_ask(bl_call *call, const bl_ask_request *request, bool *told, bl_err *err);

/* Print a document unchanged, with a newline; on a terminal control characters are escaped. */
bool bl_call_print_json(const char *document);
/* Print the error, and the node that caused it, to standard error. */
void bl_call_tell(const bl_err *err);

/* ---- help.c */
void bl_command_usage_line(const bl_command *command, bl_text *out); /* for instance "beamline run GRAPH [options]" */
void bl_command_print_help(const bl_command *command);

/* ---- the commands: bl_command_serve and so on */
#define BL_COMMAND(name, handler, takes, arguments, doc, more) bl_status handler(bl_call *call, bl_err *err);
#define BL_VERB(command, verb, arguments, doc)
#define BL_OPTION(command, flag, letter, kind, least, most, argument, doc)
#include "server/command/commands.def"
#undef BL_COMMAND
#undef BL_VERB
#undef BL_OPTION

#endif
