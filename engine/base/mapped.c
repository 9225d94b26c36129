/* SPDX-License-Identifier: MIT */
#include "engine/base/mapped.h"

#include "engine/base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A mapped file.  Its memory is never freed, only used again, so that the signal handler can walk the list without a lock. */
struct bl_mapped_file {
    bl_mapped_file *listed;      /* next file of the process; constant once this file is in the list */
    atomic_uint version;         /* odd while |begin| and |end| change */
    atomic_uintptr_t begin, end; /* equal: nothing is mapped */
    atomic_bool lost;
    bl_mapped_file *next; /* next file of the reader, or next free entry */
    char *name;
    int fd; /* its own */
};

/* The handler of a signal has no other way to find the files than through a variable of the process. */
static bl_mapped_file *_Atomic all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of |unused|, and of additions to |all| */
static bl_mapped_file *unused;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before; /* the action for SIGBUS before ours; set once */

/* ---- the signal handler */

_Static_assert(ATOMIC_POINTER_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2,
               "the signal handler may only read atomics without a lock");

/* A file that another thread is mapping or unmapping at the moment cannot be the one whose page has just been read. */
static bl_mapped_file *find_address(uintptr_t at, uintptr_t *end)
{
    for (bl_mapped_file *file = atomic_load(&all); file != NULL; file = file->listed) {
        unsigned version = atomic_load(&file->version);
        uintptr_t begin = atomic_load(&file->begin);
        *end = atomic_load(&file->end);
        if (version % 2 == 0 && begin <= at && at < *end && atomic_load(&file->version) == version)
            return file;
    }
    return NULL;
}

/* Map zeros from the faulting page to the end of the file.  Otherwise each remaining page of a truncated file would fault and
 * need a mapping, and the number of mappings is limited.  Set the flag first, so that a thread that reads zeros also sees the
 * flag. */
static bool replace_pages(uintptr_t at)
{
    uintptr_t end = 0, page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    bl_mapped_file *file = find_address(at, &end);
    if (file == NULL)
        return false;
    atomic_store(&file->lost, true);
    return mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}

/* sigaction, raise, mmap and sysconf of the page size make only system calls and take no lock. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    (void)context;
    if (info->si_code <= 0 || !replace_pages((uintptr_t)info->si_addr)) {
        (void)sigaction(number, &before, NULL); /* on return the same access faults again, and has the action of before */
        if (info->si_code <= 0)
            (void)raise(number); /* another process sent the signal */
    }
    errno = saved;
}

static void install_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    (void)sigaction(SIGBUS, &action, &before); /* fails for unknown signals only */
}

/* ---- files */

static void mapped_set_range(bl_mapped_file *file, uintptr_t begin, uintptr_t end)
{
    atomic_fetch_add(&file->version, 1);
    atomic_store(&file->begin, begin);
    atomic_store(&file->end, end);
    atomic_fetch_add(&file->version, 1);
}

static bl_mapped_file *take_unused(void)
{
    bl_mapped_file *file = NULL;
    pthread_mutex_lock(&lock);
    file = unused;
    if (file != NULL) {
        unused = file->next;
    } else if ((file = bl_calloc(1, sizeof *file)) != NULL) {
        file->listed = atomic_load(&all);
        atomic_store(&all, file);
    }
    pthread_mutex_unlock(&lock);
    return file;
}

static void give_back(bl_mapped_file *file)
{
    free(file->name);
    file->name = NULL;
    pthread_mutex_lock(&lock);
    file->next = unused;
    unused = file;
    pthread_mutex_unlock(&lock);
}

static bl_mapped_file *make_file(const char *name)
{
    size_t size = strlen(name) + 1;
    bl_mapped_file *file = take_unused();
    if (file == NULL)
        return NULL;
    file->name = bl_calloc(1, size);
    if (file->name == NULL) {
        give_back(file);
        return NULL;
    }
    memcpy(file->name, name, size);
    atomic_store(&file->lost, false);
    return file;
}

bl_status bl_mapped_add(bl_mapped *files, int fd, const char *name, bl_span *out, bl_err *err)
{
    struct stat info;
    bl_mapped_file *file = NULL;
    void *data = MAP_FAILED;
    *out = (bl_span){0};
    (void)pthread_once(&once, install_handler);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return bl_fail(err, BL_EINVAL, "%.200s is not a regular file", name);
    file = make_file(name);
    if (file == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for mapping %.200s", name);
    file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (file->fd >= 0)
        data = info.st_size > 0 ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (data == MAP_FAILED) {
        int why = errno;
        if (file->fd >= 0)
            (void)close(file->fd);
        give_back(file);
        return bl_fail(err, why == ENOMEM ? BL_ENOMEM : BL_ESTORAGE, "%.200s cannot be mapped: %s", name, strerror(why));
    }
    if (data != NULL)
        *out = (bl_span){data, (size_t)info.st_size};
    mapped_set_range(file, (uintptr_t)data, (uintptr_t)data + out->len);
    file->next = files->first;
    files->first = file;
    return BL_OK;
}

bool bl_mapped_find(const bl_mapped *files, const char *name, bl_span *out)
{
    const bl_mapped_file *file = files->first;
    while (file != NULL && strcmp(file->name, name) != 0)
        file = file->next;
    if (file != NULL)
        *out = (bl_span){(const char *)file->begin, file->end - file->begin};
    return file != NULL;
}

/* The end of the last page reads as zeros without a fault, and a system call that reads a lost page fails without one. */
static bool mapped_is_lost(const bl_mapped_file *file)
{
    struct stat info;
    return atomic_load(&file->lost) || fstat(file->fd, &info) != 0 || (uintptr_t)info.st_size < file->end - file->begin;
}

bl_status bl_mapped_check(const bl_mapped *files, bl_status st, bl_err *err)
{
    for (const bl_mapped_file *file = files->first; file != NULL; file = file->next) {
        if (!mapped_is_lost(file))
            continue;
        if (err != NULL)
            *err = (bl_err){0};
        return bl_fail(err, BL_ESTORAGE,
                       "%.200s: the file became shorter while it was read, or its disk failed; "
                       "write the new file under another name, then rename it",
                       file->name);
    }
    return st;
}

void bl_mapped_fini(bl_mapped *files)
{
    while (files->first != NULL) {
        bl_mapped_file *file = files->first;
        void *data = (void *)file->begin;
        size_t bytes = file->end - file->begin;
        files->first = file->next;
        mapped_set_range(file, 0, 0); /* before another thread can get these addresses */
        if (bytes > 0)
            (void)munmap(data, bytes);
        (void)close(file->fd);
        give_back(file);
    }
}
