/* SPDX-License-Identifier: MIT */
/* The body of an inference request, made from the command line and from the model's inputs. */
#ifndef BL_SERVER_COMMAND_QUESTION_H
#define BL_SERVER_COMMAND_QUESTION_H

#include "server/command/arrays.h"
#include "server/command/command.h"

typedef struct bl_question {
    bl_call *call;
    cJSON *model;       /* answer of GET /v2/models/NAME; owned */
    bool writes;        /* the model continues a text */
    bl_arrays arrays;   /* inputs read from files */
    bl_text path, body; /* path and body of the request */
    bl_text length;     /* header with the length of the envelope */
    const char *media;
} bl_question;

/* Get the description of the model call->operands[0]. */
BL_NODISCARD bl_status bl_question_open(bl_question *question, bl_call *call, bl_err *err);
/* Make the body from --in and --text. With |zeros|, missing inputs are filled with zeros.  |binary|: request outputs as
 * bytes. */
BL_NODISCARD bl_status bl_question_fill(bl_question *question, bool zeros, bool binary, bl_err *err);
void bl_question_fini(bl_question *question);

/* The input for texts if there is exactly one such input, or NULL. */
const cJSON *bl_question_text_input(const bl_question *question);

#endif
