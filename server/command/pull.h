/* Download of a language model from a hub: names of models, and the files of a repository.  Thread: one. */
#ifndef BL_SERVER_COMMAND_PULL_H
#define BL_SERVER_COMMAND_PULL_H

#include "engine/base/text.h"

/* A model of a hub: hf:ORG/NAME[@REV][:FILE] */
typedef struct bl_pull_name {
    char repository[200], revision[100], file[200];
} bl_pull_name;

typedef struct bl_hub_file {
    char *path;
    int64_t size;
    char sha256[65]; /* SHA-256 of the content; "" if the hub stores the file in git */
    char oid[41];    /* git's object id: the SHA-1 of "blob SIZE", NUL and the content */
    bool chosen;
} bl_hub_file;

typedef struct bl_hub {
    const char *endpoint, *token; /* borrowed; |token| may be NULL */
    bl_pull_name name;
    bl_hub_file *files; /* files of the repository; owned */
    size_t count;
} bl_hub;

BL_NODISCARD bl_status bl_pull_name_parse(const char *text, bl_pull_name *out, bl_err *err);
/* List the files of the repository. */
BL_NODISCARD bl_status bl_hub_list(bl_hub *hub, bl_err *err);
/* Mark the files of the chosen model; BL_EINVAL lists the candidates if the choice is ambiguous. */
BL_NODISCARD bl_status bl_hub_choose(bl_hub *hub, bl_err *err);
/* The name of a chosen file in the model's folder: the base name, which has only letters, digits, ".", "_" and "-"; or
 * "1_Pooling/config.json". */
const char *bl_hub_base(const bl_hub_file *file);
/* Download a file to |fd|, which already has the first |have| bytes; |show| gets the number of bytes so far. */
BL_NODISCARD bl_status bl_hub_fetch(const bl_hub *hub, const bl_hub_file *file, int fd, int64_t have,
                                    void (*show)(void *arg, int64_t bytes), void *arg, bl_err *err);
void bl_hub_fini(bl_hub *hub);

#endif
