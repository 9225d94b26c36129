/* SPDX-License-Identifier: MIT */
/* A program in a file, with its document and its state between two steps, and back: a safetensors file whose metadata have
 * "program" and "steps".  Thread: any that may wait for a device. */
#ifndef BL_SERVER_DATA_SNAPSHOT_H
#define BL_SERVER_DATA_SNAPSHOT_H

#include "server/data/kept.h"
#include "server/programs.h"

/* Begin with only |program| set. */
typedef struct bl_snapshot {
    bl_program *program;
    uint64_t steps, changes;       /* changes: and how often its state was put */
    bool trained;                  /* by a job, at that time */
    bl_buffer **buffers;           /* retained: whoever runs the next step leaves them as they are */
    char **copies;                 /* of those that the host does not see */
    struct bl_sequence *sequences; /* numbered runs, whose last ones are part of that state */
} bl_snapshot;

/* bl_snapshot_drop also after a failure. */
BL_NODISCARD bl_status bl_snapshot_take(bl_snapshot *snap, bl_err *err);
/* A new file in FOLDER/|part|.  The caller then removes a file of |replaces| bytes (0: no file). */
BL_NODISCARD bl_status bl_snapshot_write(const bl_snapshot *snap, const char *part, uint64_t replaces, char name[BL_KEPT_NAME],
                                         bl_err *err);
void bl_snapshot_drop(bl_snapshot *snap);

/* The request's body becomes the document that is in the metadata of the file |fd|, of which the rest is left alone. */
BL_NODISCARD bl_status bl_recall_document(bl_request *rq, int fd);
/* The program that the metadata of the file |fd| have, with the state that it begins with, on no shelf; *out is retained. */
BL_NODISCARD bl_status bl_recall_program(bl_server *server, uint32_t owner, const char *name, int fd, bl_program **out,
                                         bl_err *err);
/* Its state becomes that of the file |fd|, all of it, and its steps those that the file says; also a job's checkpoint. */
BL_NODISCARD bl_status bl_recall_state(bl_program *program, int fd, bl_err *err);

#endif
