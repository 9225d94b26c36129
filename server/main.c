/* SPDX-License-Identifier: MIT */
#include "engine/device/device.h"
#include "server/access/access.h"
#include "server/client.h"
#include "server/drain.h"
#include "server/kernels.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print(bl_text *text)
{
    bool whole =
        !text->failed && text->data != NULL && fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0;
    bl_text_fini(text);
    return whole ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int devices(int argc, char *const *argv);
static int help(int argc, char *const *argv);
static int man(int argc, char *const *argv);
static int print_version(int argc, char *const *argv);

/* A command: the arguments after "beamline NAME", a line for the list of commands, and more lines for `beamline COMMAND --help`.
 */
typedef struct command {
    const char *name, *arguments, *doc, *more;
    int (*run)(int argc, char *const *argv);
    bool has_settings; /* it takes the options of the server */
    bool has_help;     /* it answers --help itself */
} command;

static const command commands[] = {
    {"serve", "[options]", "serve until SIGTERM or Ctrl-C", NULL, bl_server_main, true, false},
    {"devices", "[drain ID [URL] | resume ID [URL]]",
     "list the devices, and why others were left out; take a device of a running server out of service, or use it again",
     "Without a verb it takes the options of the server.  URL is that of the server, by default $BEAMLINE_URL or\n"
     "http://127.0.0.1:8470; $BEAMLINE_KEY has a key of the scope admin.\n",
     devices, false, false},
    {"tune", "FILE [options]", "search the kernels of a program document, and show what was found",
     "FILE is as PUT /api/v1/programs/NAME takes it.  --beam is the width of the search, 2 where that is 0.\n", bl_tune_main,
     true, false},
    {"kernels", "list | show KEY | export FILE | import FILE", "what searches found",
     "FILE has a JSON object a line; - is the terminal.  --kernel-db FILE says where the database is.\n", bl_kernels_main, false,
     false},
    {"keys", "list | create NAME | set NAME | rotate NAME | revoke NAME | adopt NAME", "who may use the servers of --state", NULL,
     bl_keys_main, false, true},
    {"usage", "[DAYS] [--state FOLDER]", "what each key has used, today or in the last days", NULL, bl_usage_main, false, false},
    {"top", "[URL] [--interval SECONDS] [--times N]", "who uses which device of a running server, now",
     "URL is by default $BEAMLINE_URL or http://127.0.0.1:8470; $BEAMLINE_KEY has a key of the scope admin.\n", bl_top_main,
     false, false},
    {"chat", "[MODEL] [--url URL] [--system TEXT] [--max-tokens N] [--temperature X] [--seed N]",
     "talk with a language model of a running server",
     "MODEL may be left out where the server has one language model alone.  Without a terminal, standard input is one message.\n"
     "URL is by default $BEAMLINE_URL or http://127.0.0.1:8470; $BEAMLINE_KEY has a key of the scope infer.  In the terminal:\n"
     "/clear, /system TEXT, /regen, /save FILE, /quit; a line that ends with \\ goes on, and Ctrl-C ends the answer.\n",
     bl_chat_main, false, false},
    {"pull", "hf:ORG/NAME[@REV][:FILE] --to MODELS [--as NAME]", "fetch a language model from a hub into a folder of models",
     "FILE is a .gguf file or a quantisation such as Q4_K_M; without it a GGUF of the repository, else its config.json,\n"
     "tokenizer and .safetensors.  What was cut short is taken up again; sizes and sha256 are compared with the hub's.\n"
     "$HF_ENDPOINT is the hub (https://huggingface.co), $HF_TOKEN a token for it, $https_proxy a proxy.\n",
     bl_pull_main, false, false},
    {"version", "", "print the version", NULL, print_version, false, false},
    {"man", "", "print the manual page", NULL, man, false, false},
    {"help", "", "print this; `beamline COMMAND --help` says more of a command", NULL, help, false, false},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void put_settings(bl_text *out)
{
    bl_text_puts(out, "Options, each also BEAMLINE_OPTION in the environment and `option = value` in the file of --config:\n");
    bl_settings_help(out);
}

static int help(int argc, char *const *argv)
{
    bl_text out = {0};
    (void)argc;
    (void)argv;
    bl_text_puts(&out, "beamline: POST a tensor graph to this machine's accelerators\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        bl_text_printf(&out, "  beamline %s%s%s\n        %s\n", commands[i].name, commands[i].arguments[0] != '\0' ? " " : "",
                       commands[i].arguments, commands[i].doc);
    bl_text_puts(&out, "\n");
    put_settings(&out);
    return print(&out);
}

static int help_with(const command *c)
{
    bl_text out = {0};
    bl_text_printf(&out, "beamline %s%s%s\n\n%s.\n%s", c->name, c->arguments[0] != '\0' ? " " : "", c->arguments, c->doc,
                   c->more != NULL ? c->more : "");
    if (c->has_settings) {
        bl_text_puts(&out, "\n");
        put_settings(&out);
    }
    return print(&out);
}

static int man(int argc, char *const *argv)
{
    bl_text out = {0};
    (void)argc;
    (void)argv;
    bl_text_puts(
        &out,
        ".\\\" Made by `beamline man` from server/settings.def.\n"
        ".TH BEAMLINE 1 \"\" \"beamline " BL_VERSION "\" \"User Commands\"\n"
        ".SH NAME\nbeamline \\- run tensor graphs on this machine's accelerators over HTTP\n"
        ".SH SYNOPSIS\n.B beamline serve\n.RI [ options ]\n.br\n.B beamline devices\n.br\n.B beamline devices\n.RB { drain\n.IR "
        "ID |\n.BI resume \" "
        "ID\" }\n.RI [ URL ]\n.br\n.B beamline tune\n.I FILE\n.RI [ "
        "options ]\n"
        ".br\n.B beamline keys\n.RB { list | create\n.IR NAME |\n.BI set \" NAME\" |\n.BI rotate \" NAME\" |\n.BI revoke \" "
        "NAME\" |\n.BI adopt \" NAME\" }\n"
        ".br\n.B beamline usage\n.RI [ DAYS ]\n"
        ".br\n.B beamline top\n.RI [ URL ]\n"
        ".br\n.B beamline chat\n.RI [ MODEL ]\n.br\n.B beamline pull\n.BI hf: ORG / NAME "
        "\\fR[\\fB@\\fIREV\\fR][\\fB:\\fIFILE\\fR] \\-\\-to\n.I MODELS\n"
        ".br\n.B beamline kernels\n.RB { list | show\n.IR KEY |\n.BI export \" FILE\" |\n.BI import \" FILE\" }\n.br\n.B "
        "beamline version\n"
        ".br\n.B beamline man\n"
        ".SH DESCRIPTION\nThe server takes tensor graphs as JSON, compiles them for OpenCL or Vulkan devices, runs them and "
        "answers with tensors.\nAfter the start it prints one line,\n.IR \"listening on ADDRESS:PORT\" .\n"
        "SIGTERM or SIGINT make it answer what it has accepted and end; a second one ends it at once.\n"
        "SIGHUP makes it read its settings again: those of the log, \\-\\-grace and \\-\\-drain\\-delay are then in force, and "
        "the log tells which others have changed; keys, the folder of models and the certificate are read again too.\n"
        ".SH OPTIONS\nA flag of the command line goes before the environment, that before the configuration file, and that "
        "before the default.\n"
        "A switch is on where its flag stands alone.\n");
    bl_settings_man(&out);
    bl_text_puts(
        &out,
        ".SH COMMANDS\n.TP\n.B serve\nserve until a signal.\n.TP\n.B devices\nlist what would be used, and why other "
        "devices were left out; with\n.B drain\na running server places nothing new on that device, and moves models and "
        "jobs to others, until\n.BR resume .\nThe server is\n.IR URL ,\n.B $BEAMLINE_URL\nor http://127.0.0.1:8470, the key, "
        "of the scope admin,\n.BR $BEAMLINE_KEY .\n.TP\n.BI tune \" FILE\"\nsearch the kernels of a program document, as PUT "
        "/api/v1/programs/NAME takes it, with the width of\n.B \\-\\-beam\n(2 where that is 0), and keep what is "
        "found in the kernel database.\n.TP\n.B kernels\nlist the database, show one kernel with its loop nest, "
        "write all to a file, one JSON object a line, or read such a file; \\- is the terminal.\n.TP\n.B keys\nlist keys, make "
        "one and print its secret this once, change one with the options of create, give one a new secret, or revoke "
        "one.\n.B adopt\ngives one what was made before there were keys, while no server runs.\nA running server takes the "
        "others within a second.\nOptions:\n.BR \\-\\-scopes , \\-\\-ttl\n(seconds, or with s, m, "
        "h or d),\n.BR");
    bl_keys_man(&out);
    bl_text_puts(
        &out,
        "\nand\n.BR \\-\\-state .\n"
        ".TP\n.B usage\nrequests, device seconds and bytes of each key and day.\n.TP\n.B top\nshow every two seconds "
        "who uses which device; the key, with the scope admin, is in\n.IR $BEAMLINE_KEY .\n.B \\-\\-interval\nand\n.B "
        "\\-\\-times\nsay how often.\n"
        ".TP\n.B chat\ntalk with a language model of a running server: in a terminal line by line, else standard input is one "
        "message.\nThe key, with the scope infer, is in\n.IR $BEAMLINE_KEY .\n.TP\n.B pull\nfetch a language model from a "
        "hub into a folder of models.\n.I FILE\nis a .gguf file or a quantisation; a transfer that was cut short goes on, "
        "and sizes and sha256 are compared with the hub's.\n");
    bl_text_puts(
        &out, ".SH ENVIRONMENT\nBeside the variables of the options:\n"
              ".TP\n.BR BEAMLINE_CACHE \", else \" XDG_CACHE_HOME \", \" HOME\nwhere the folder of compiled kernels is.\n"
              ".TP\n.BR STATE_DIRECTORY \", else \" XDG_STATE_HOME \", \" HOME\nwhere the folder of \\-\\-state is by default.\n"
              ".TP\n.B TMPDIR\nwhere files lie that are never named, instead of /tmp.\n"
              ".TP\n.BR BEAMLINE_URL \", \" BEAMLINE_KEY \", \" SSL_CERT_FILE\nof the commands that ask a running server: its "
              "address, a key, and the certificate to trust.\n"
              ".TP\n.BR HF_ENDPOINT \", \" HF_TOKEN\nof pull: the hub, and a token for it.\n"
              ".TP\n.B BEAMLINE_INTERP_DEVICES\nhow many interpreters there are (1).\n"
              ".TP\n.B BEAMLINE_VULKAN_STAGING\n2: copies and kernels on queues of their own, on one that Vulkan has, to try "
              "that out.\n");
    bl_text_puts(&out, ".SH EXIT STATUS\n0 after a signal was obeyed, 130 where a second one cut that short, 1 "
                       "where the server could not start or a command failed.\n"
                       ".SH SEE ALSO\n.BR curl (1),\nthe description of the API at\n.IR /openapi.json .\n");
    return print(&out);
}

static int list_devices(int argc, char *const *argv)
{
    bl_server *server = calloc(1, sizeof *server);
    bl_err err = {0};
    int status = EXIT_FAILURE;
    if (server == NULL)
        return status;
    server->plans = bl_plans_create(1, 0);
    if (server->plans != NULL && bl_settings_load(&server->settings, argc, argv, &err) == BL_OK &&
        bl_workers_start(server, &err) == BL_OK) {
        for (uint32_t i = 0; i < server->nworkers; i++)
            printf("%-12s %s (%s)%s\n", server->workers[i].dev->info.id, server->workers[i].dev->info.name,
                   server->workers[i].dev->info.driver, i == server->default_worker ? ", the default" : "");
        status = EXIT_SUCCESS;
    } else {
        fprintf(stderr, "beamline: %s\n", err.text);
    }
    bl_workers_stop(server);
    if (server->plans != NULL)
        bl_plans_destroy(server->plans);
    bl_workers_close(server);
    bl_settings_fini(&server->settings);
    free(server);
    return status;
}

static int devices(int argc, char *const *argv)
{
    if (argc > 0 && (strcmp(argv[0], "drain") == 0 || strcmp(argv[0], "resume") == 0))
        return bl_drain_main(argc, argv);
    return list_devices(argc, argv);
}

static int print_version(int argc, char *const *argv)
{
    (void)argc;
    (void)argv;
    printf("beamline %s\n", BL_VERSION);
    return EXIT_SUCCESS;
}

static bool asks_help(int argc, char *const *argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    if (strcmp(name, "child") == 0) /* only the server starts a child */
        bl_child_main(argc - 2, argv + 2);
    for (size_t i = 0; i < COMMANDS; i++) {
        const command *c = &commands[i];
        if (strcmp(name, c->name) != 0)
            continue;
        return !c->has_help && argc > 2 && asks_help(argc - 2, argv + 2) ? help_with(c)
                                                                         : c->run(argc > 2 ? argc - 2 : 0, argv + 2);
    }
    fprintf(stderr, "beamline: unknown command \"%s\"; beamline --help lists them\n", name);
    return EXIT_FAILURE;
}
