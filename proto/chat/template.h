/* Chat templates: the Jinja templates that language models carry, which write a conversation as one text for the model.
 *
 * The dialect is that of Jinja2 3.1 in the environment of Hugging Face's transformers: trim_blocks, lstrip_blocks, break and
 * continue, `{% generation %}`, an immutable sandbox, no loader (so no include, import and extends), tojson without HTML
 * escapes, raise_exception and strftime_now.  The text of a rendering equals Jinja2's byte for byte.
 *
 * A template is foreign code.  It sees the values of its input and nothing else, changes none of them, and runs under limits
 * of memory, steps, depth and output.  A template is constant after it was parsed: any thread may render it. */
#ifndef BL_PROTO_CHAT_TEMPLATE_H
#define BL_PROTO_CHAT_TEMPLATE_H

#include "engine/base/text.h"
#include "proto/json.h"

typedef struct bl_chat_template bl_chat_template;

/* The template for a model without one: ChatML ("<|im_start|>ROLE\nCONTENT<|im_end|>\n"). */
extern const char bl_chat_template_chatml[];

/* Parse |source|; the template keeps a copy.  BL_EINVAL names the line of a syntax error, BL_EUNSUPPORTED a tag that needs other
 * templates, BL_ELIMIT a template over 1 MiB or nested too deeply. */
BL_NODISCARD bl_status bl_chat_template_parse(bl_span source, bl_chat_template **out, bl_err *err);
void bl_chat_template_destroy(bl_chat_template *chat); /* accepts NULL */
const char *bl_chat_template_source(const bl_chat_template *chat);
/* Does the template read a variable of this name, for example "tools" or "enable_thinking"? */
bool bl_chat_template_reads(const bl_chat_template *chat, const char *name);

/* A variable of the template: a member of `chat_template_kwargs`, for example. */
typedef struct bl_chat_variable {
    const char *name;
    bl_json value;
} bl_chat_variable;

/* All values are borrowed.  A bl_json of a request is bl_json_root, bl_json_find and so on; a cJSON tree that the caller built is
 * bl_json_root(&(bl_json_doc){.root = tree}), where numbers that are whole become integers. */
typedef struct bl_chat_input {
    bl_json messages; /* an array of objects; a member whose value is null is left out of a message, as transformers does */
    bl_json tools;    /* an array, or zeroed: the template's variable `tools` is none */
    bool add_generation_prompt;
    const char *bos_token, *eos_token; /* NULL: the variable is not defined */
    const bl_chat_variable *variables; /* these go before the ones above; the name "documents" is none unless it is here */
    size_t nvariables;
    int64_t now; /* the time of strftime_now in seconds since 1970; 0: the time of the call */
} bl_chat_input;

/* 0: the default. */
typedef struct bl_chat_limits {
    size_t memory;  /* of the template's values; 16 MiB, 64 KiB for each message and 16 times the bytes of the messages, at most
                       256 MiB.  Strings of the input are borrowed and do not count */
    size_t output;  /* bytes of the text; 16 MiB */
    uint64_t steps; /* expressions and statements, and one for each 256 bytes that a step reads or writes; 10^6, and
                       10^4 for each message, at most 2 * 10^7 */
    int depth;      /* nested calls of macros; 64 */
} bl_chat_limits;

/* Append the conversation's text to |out|.  BL_EINVAL where the template fails or calls raise_exception: the error has the line
 * of the template and the text of the exception.  BL_ELIMIT over a limit.  |limits| may be NULL.  A failure leaves |out| as
 * the call found it. */
BL_NODISCARD bl_status bl_chat_template_render(const bl_chat_template *chat, const bl_chat_input *input,
                                               const bl_chat_limits *limits, bl_text *out, bl_err *err);

#endif
