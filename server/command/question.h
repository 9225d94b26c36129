/* SPDX-License-Identifier: MIT */
/* What a hosted model is asked: the body of an inference, made of the words of a command line and of what the model takes. */
#ifndef BL_SERVER_COMMAND_QUESTION_H
#define BL_SERVER_COMMAND_QUESTION_H

#include "server/command/arrays.h"
#include "server/command/command.h"

typedef struct bl_question {
    bl_call *call;
    cJSON *model;       /* GET /v2/models/NAME; owned */
    bool writes;        /* it is a text model, which goes on with a text */
    bl_arrays arrays;   /* inputs of files */
    bl_text path, body; /* of the request */
    bl_text length;     /* the header that says how long the envelope is */
    const char *media;
} bl_question;

/* Ask for the model of call->operands[0]. */
BL_NODISCARD bl_status bl_question_open(bl_question *question, bl_call *call, bl_err *err);
/* The body from --in and --text; with |zeros| inputs that are not given are zeros.  |binary|: outputs as bytes. */
BL_NODISCARD bl_status bl_question_fill(bl_question *question, bool zeros, bool binary, bl_err *err);
void bl_question_fini(bl_question *question);

/* The one input of texts, or NULL. */
const cJSON *bl_question_text_input(const bl_question *question);

#endif
