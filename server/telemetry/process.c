/* SPDX-License-Identifier: MIT */
#include "server/telemetry/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The fields of /proc/self/stat after the name of the command (proc(5)), from field 3 on. */
typedef struct process_stat {
    unsigned long long user_ticks, system_ticks, start_ticks, virtual_bytes;
    long long threads, resident_pages;
} process_stat;

static bool read_stat(process_stat *stat)
{
    char text[1024];
    const char *rest = NULL;
    FILE *file = fopen("/proc/self/stat", "re");
    size_t len = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[len] = '\0';
    rest = strrchr(text, ')'); /* the name may contain any character; the last ) ends the name */
    return rest != NULL &&
           sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %lld %*d %llu %llu %lld",
                  &stat->user_ticks, &stat->system_ticks, &stat->threads, &stat->start_ticks, &stat->virtual_bytes,
                  &stat->resident_pages) == 6;
}

/* The boot time of the machine, in seconds since 1970. */
static unsigned long long boot_seconds(void)
{
    char line[256];
    unsigned long long seconds = 0;
    FILE *file = fopen("/proc/stat", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "btime %llu", &seconds) != 1)
        ;
    if (file != NULL)
        fclose(file);
    return seconds;
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count > 3 ? count - 3 : 0; /* subtracts ., .. and the descriptor of this folder */
}

static void process_put(bl_text *out, const char *name, const char *type, const char *help, double value)
{
    bl_metrics_head(out, name, type, help);
    bl_text_printf(out, "%s %.15g\n", name, value);
}

void bl_metrics_print_process(bl_text *out)
{
    process_stat stat = {0};
    struct rlimit files = {0};
    double tick = (double)sysconf(_SC_CLK_TCK);
    if (read_stat(&stat)) {
        process_put(out, "process_cpu_seconds_total", "counter", "processor time, in user and in system mode",
                    (double)(stat.user_ticks + stat.system_ticks) / tick);
        process_put(out, "process_resident_memory_bytes", "gauge", "resident memory",
                    (double)stat.resident_pages * (double)sysconf(_SC_PAGESIZE));
        process_put(out, "process_virtual_memory_bytes", "gauge", "virtual memory", (double)stat.virtual_bytes);
        process_put(out, "process_start_time_seconds", "gauge", "start, in seconds since 1970",
                    (double)boot_seconds() + (double)stat.start_ticks / tick);
        process_put(out, "process_threads", "gauge", "threads", (double)stat.threads);
    }
    process_put(out, "process_open_fds", "gauge", "open file descriptors", (double)open_files());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        process_put(out, "process_max_fds", "gauge", "file descriptors that may be open", (double)files.rlim_cur);
}
