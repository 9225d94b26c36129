/* SPDX-License-Identifier: MIT */
#include "server/openai/openai.h"

#include "server/http/handlers.h"

static bl_status complete(bl_request *rq, const bl_text_form *form, const char *id)
{
    bl_openai_call call;
    BL_TRY(bl_openai_open(rq, &call));
    if (call.in == NULL)
        return BL_OK;
    BL_TRY(bl_openai_make(&call, form, id));
    BL_TRY(bl_openai_add_prompts(&call, &call.c->listed));
    return bl_completion_begin(call.c);
}

bl_status bl_handle_openai_completion(bl_request *rq)
{
    return complete(rq, &bl_openai_text_form, "cmpl-");
}

bl_status bl_handle_llama_completion(bl_request *rq)
{
    return complete(rq, &bl_llama_form, "cmpl-");
}
