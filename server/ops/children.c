/* SPDX-License-Identifier: MIT */
/* Child processes that run the compilers of drivers and that time the candidates of searches. */
#include "engine/base/log.h"
#include "server/ops/server.h"

#include <stdlib.h>
#include <unistd.h>

#define NICER "10" /* added niceness of the processes for searches, so that requests have priority */

bl_status bl_children_start(bl_server *server, bl_err *err)
{
    static const char *const compile[] = {"/proc/self/exe", "child", NULL}, *const try[] = {"/proc/self/exe", "child", NICER,
                                                                                            NULL};
    const bl_settings *set = &server->settings;
    int count = (int)set->compile_processes;

    if (count == 0)
        return BL_OK;
    BL_TRY(bl_children_create(compile, count, set->max_kernel_seconds, &server->children, err));
    return bl_children_create(try, count, set->max_kernel_seconds, &server->search.children, err);
}

void bl_children_end(bl_server *server)
{
    bl_children_destroy(server->children);
    bl_children_destroy(server->search.children);
}

void bl_child_main(int argc, char *const *argv)
{
    int nbackends = 0;
    const bl_backend *const *backends = bl_workers_backends(&nbackends);
    if (argc > 0 && nice(atoi(argv[0])) == -1)
        bl_log(BL_LOG_DEBUG, "a child process cannot lower its priority and keeps the priority of the server");
    bl_child_serve(STDIN_FILENO, STDOUT_FILENO, nbackends, backends);
}
