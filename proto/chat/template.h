/* Chat templates: the Jinja templates of language models, which render a conversation as one text for the model.
 *
 * The dialect is Jinja2 3.1 with the environment of Hugging Face's transformers: trim_blocks, lstrip_blocks, break and continue,
 * `{% generation %}`, an immutable sandbox, no loader (hence no include, import and extends), tojson without HTML escapes,
 * raise_exception and strftime_now.  A rendering equals that of Jinja2 byte for byte.
 *
 * A template is untrusted code.  It can read only the values of its input, cannot change them, and runs under limits of memory,
 * steps, depth and output.  Thread: any; a template is immutable after bl_chat_template_parse. */
#ifndef BL_PROTO_CHAT_TEMPLATE_H
#define BL_PROTO_CHAT_TEMPLATE_H

#include "engine/base/text.h"
#include "proto/json.h"

typedef struct bl_chat_template bl_chat_template;

/* The template of a model without one: ChatML ("<|im_start|>ROLE\nCONTENT<|im_end|>\n"). */
extern const char bl_chat_template_chatml[];

/* Parses |source|; the template keeps a copy.  BL_EINVAL gives the line of a syntax error, BL_EUNSUPPORTED a tag that needs other
 * templates, BL_ELIMIT a template over 1 MiB or with too much nesting. */
BL_NODISCARD bl_status bl_chat_template_parse(bl_span source, bl_chat_template **out, bl_err *err);
void bl_chat_template_destroy(bl_chat_template *chat); /* accepts NULL */
const char *bl_chat_template_source(const bl_chat_template *chat);
/* Whether the template reads a variable of this name, for example "tools" or "enable_thinking". */
bool bl_chat_template_reads(const bl_chat_template *chat, const char *name);

/* A variable of the template, for example a member of `chat_template_kwargs`. */
typedef struct bl_chat_variable {
    const char *name;
    bl_json value;
} bl_chat_variable;

/* All values are borrowed.  Obtain a bl_json of a request from bl_json_root, bl_json_find and so on; wrap a cJSON tree of the
 * caller as bl_json_root(&(bl_json_doc){.root = tree}), where whole numbers become integers. */
typedef struct bl_chat_input {
    bl_json messages; /* an array of objects; members with the value null are removed from a message, as transformers does */
    bl_json tools;    /* an array; zeroed: the template's variable `tools` is none */
    bool add_generation_prompt;
    const char *bos_token, *eos_token; /* NULL: the variable is undefined */
    const bl_chat_variable *variables; /* override the variables above; "documents" is none unless it is here */
    size_t nvariables;
    int64_t now; /* time of strftime_now in seconds since 1970; 0: the time of the call */
} bl_chat_input;

/* 0: the default. */
typedef struct bl_chat_limits {
    size_t memory;  /* bytes of the template's values; default 16 MiB plus 64 KiB for each message plus 16 times the bytes of the
                     * messages, at most 256 MiB.  Strings of the input are borrowed and do not count */
    size_t output;  /* bytes of the rendering; default 16 MiB */
    uint64_t steps; /* expressions and statements, plus one for each 256 bytes that a step reads or writes; default 10^6 plus 10^4
                     * for each message, at most 2 * 10^7 */
    int depth;      /* nested calls of macros; default 64 */
} bl_chat_limits;

/* Appends the rendering to |out|.  BL_EINVAL if the template fails or calls raise_exception: the error has the template's line
 * and the text of the exception.  BL_ELIMIT above a limit.  |limits| may be NULL.  After a failure |out| is unchanged. */
BL_NODISCARD bl_status bl_chat_template_render(const bl_chat_template *chat, const bl_chat_input *input,
                                               const bl_chat_limits *limits, bl_text *out, bl_err *err);

#endif
