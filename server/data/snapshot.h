/* SPDX-License-Identifier: MIT */
/* A program in a file, with its document and its state between two steps: writing and reading.  The file format is
 * safetensors, with "program" and "steps" in the metadata.  Thread: any that may wait for a device. */
#ifndef BL_SERVER_DATA_SNAPSHOT_H
#define BL_SERVER_DATA_SNAPSHOT_H

#include "server/programs/programs.h"
#include "server/store/stored_files.h"

/* Initialise with only |program| set. */
typedef struct bl_snapshot {
    bl_program *program;
    uint64_t steps, changes;       /* |changes|: |steps| plus the number of times that the state of the program was replaced */
    bool trained;                  /* a job had trained or claimed the program at that time */
    bl_buffer **buffers;           /* buffers of the states, retained, so that later steps write to other buffers */
    char **copies;                 /* copies of the buffers that the host does not see */
    struct bl_sequence *sequences; /* numbered runs whose effects are in the state */
} bl_snapshot;

/* Call bl_snapshot_drop after a failure too. */
BL_NODISCARD bl_status bl_snapshot_take(bl_snapshot *snap, bl_err *err);
/* Write a new file of |kind|, and its row by |insert|.  The caller then removes a file of |replaces| bytes (0: none). */
BL_NODISCARD bl_status bl_snapshot_put(const bl_snapshot *snap, bl_stored_kind kind, uint64_t replaces,
                                       bl_status (*insert)(void *arg, const char *name, bl_err *err), void *arg, bl_err *err);
void bl_snapshot_drop(bl_snapshot *snap);

/* Read the document in the metadata of the file |fd| as the request's body; the tensors of the file are not read. */
BL_NODISCARD bl_status bl_recall_document(bl_request *rq, int fd);
/* Make the program that the metadata of the file |fd| describes, with initial state, unregistered; *out is retained. */
BL_NODISCARD bl_status bl_recall_program(bl_server *server, uint32_t owner, const char *name, int fd, bl_program **out,
                                         bl_err *err);
/* Replace the program's state and step count by the state and step count of the file |fd|. The file may be a checkpoint of a
 * job. */
BL_NODISCARD bl_status bl_recall_state(bl_program *program, int fd, bl_err *err);

#endif
