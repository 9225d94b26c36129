/* SPDX-License-Identifier: MIT */
/* Embeddings: the model takes strings (server/models/text_input.h) and gives a row of floats for each.
 *
 * The strings of a request are rows of one run, or of several consecutive runs if there are many or their lengths differ.
 * Runs of other requests may come between these runs. */
#include "server/openai/openai.h"

#include "proto/base64.h"
#include "proto/encode.h"
#include "proto/tensor.h"
#include "server/http/handlers.h"
#include "server/models/text_input.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TEXTS = 2048, /* the limit of OpenAI */
    RUN_TOKENS = 8192, /* tokens of a run, with padding; a single text may have more */
    ALIKE = 16         /* texts share a run if the longest has at most 5/4 of the tokens of the shortest, plus ALIKE */
};

/* A string of the request. */
typedef struct embedding_text {
    bl_tokens tokens;
    size_t index;
} embedding_text;

/* The state of the request.  In its arena. */
typedef struct embedding_call {
    size_t count;
    embedding_text *texts; /* sorted by length, once all are read */
    bool base64;
    int64_t dimensions; /* 0: the size that the model gives */
    size_t tokens;
    size_t begin, end; /* the texts of the current run */
    size_t width;      /* elements of a vector; known after the first run */
    float *vectors;    /* by index of the text; in memory of the request */
} embedding_call;

/* ---- runs */

static int compare_lengths(const void *a, const void *b)
{
    const embedding_text *x = a, *y = b;
    if (x->tokens.count != y->tokens.count)
        return x->tokens.count < y->tokens.count ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Choose the texts of the next run, and fill its inputs. */
static bl_status fill_run(bl_infer *in)
{
    embedding_call *e = in->extra;
    size_t most = (size_t)bl_text_input_most(in->version), first = e->texts[e->end].tokens.count, rows = 1;
    bl_text_row *row = NULL;
    bl_infer_input *inputs = bl_arena_array(in->rq->arena, 3, sizeof *inputs);
    int count = 0;
    e->begin = e->end;
    for (; e->begin + rows < e->count && rows < most; rows++) {
        size_t longest = e->texts[e->begin + rows].tokens.count;
        if ((rows + 1) * longest > RUN_TOKENS || longest > first + first / 4 + ALIKE)
            break;
    }
    e->end = e->begin + rows;
    row = bl_arena_array(in->rq->arena, rows, sizeof *row);
    if (inputs == NULL || row == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    for (size_t i = 0; i < rows; i++)
        row[i] = (bl_text_row){e->texts[e->begin + i].tokens.id, e->texts[e->begin + i].tokens.count};
    BL_TRY(bl_text_input_fill(in, row, rows, inputs, &count));
    in->wire.inputs = inputs;
    in->wire.ninputs = count;
    in->wire.all = true;
    return BL_OK;
}

/* The first output with a row of floats for each text. */
static const bl_infer_result *find_vectors(const bl_infer *in, const bl_infer_result *results, size_t texts)
{
    for (int i = 0; i < in->nasked; i++)
        if (results[i].datatype != BL_INFER_BYTES && bl_dtype_is_float((bl_dtype)results[i].datatype) && results[i].ndim == 2 &&
            (size_t)results[i].dim[0] == texts)
            return &results[i];
    return NULL;
}

/* Allocate the vectors of all texts, whose size is known after the first run. */
static bl_status embeddings_make_room(bl_infer *in, embedding_call *e, size_t width)
{
    bl_request *rq = in->rq;
    size_t most = (size_t)rq->server->settings.max_list;
    if ((size_t)e->dimensions > width)
        return bl_fail(&rq->err, BL_EINVAL, "dimensions: is %lld; it must be the size of the vectors of model \"%s\", %zu",
                       (long long)e->dimensions, in->version->name, width);
    if (!e->base64 && width > most / e->count)
        return bl_fail(&rq->err, BL_ELIMIT,
                       "the answer has %zu vectors of %zu elements; a JSON answer has at most %zu elements (--max-list): send "
                       "fewer texts, or ask for \"encoding_format\": \"base64\"",
                       e->count, width, most);
    e->width = width;
    e->vectors = bl_request_alloc(rq, e->count * (width + 1) * sizeof *e->vectors, "vectors");
    return rq->err.status;
}

static bl_status keep_vectors(bl_infer *in, const bl_infer_result *results)
{
    embedding_call *e = in->extra;
    size_t rows = e->end - e->begin, each = 0;
    const bl_infer_result *found = find_vectors(in, results, rows);
    if (found == NULL)
        return bl_fail(&in->rq->err, BL_EINVAL, "model \"%s\" gives no vector for each text", in->version->name);
    if (e->vectors == NULL)
        BL_TRY(embeddings_make_room(in, e, (size_t)found->dim[1]));
    if ((size_t)found->dim[1] != e->width)
        return bl_fail(&in->rq->err, BL_EINVAL, "model \"%s\" gives vectors of different sizes for texts of different lengths",
                       in->version->name);
    each = bl_dtype_bytes((bl_dtype)found->datatype) * e->width;
    for (size_t i = 0; i < rows; i++)
        bl_floats_read((bl_dtype)found->datatype, (const char *)found->data + i * each, e->width,
                       e->vectors + e->texts[e->begin + i].index * e->width);
    return BL_OK;
}

/* ---- the answer */

/* Keep the first |count| of |all| elements, and scale them to unit length if |count| is smaller than |all|. */
static void embeddings_shorten(float *vector, size_t count, size_t all)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)vector[i] * (double)vector[i];
    for (size_t i = 0; i < count && count < all && squares > 0; i++)
        vector[i] = (float)((double)vector[i] / sqrt(squares));
}

static void put_vector(const embedding_call *call, const float *vector, size_t count, bl_text *out)
{
    if (call->base64) {
        bl_text_putc(out, '"');
        bl_base64_encode(out, vector, count * sizeof *vector);
        bl_text_putc(out, '"');
        return;
    }
    bl_tensor_print(out, BL_F32, vector, count);
}

static bl_status embeddings_write_vectors(bl_infer *in, const bl_infer_result *results)
{
    embedding_call *e = in->extra;
    bl_request *rq = in->rq;
    size_t count = 0;
    BL_TRY(keep_vectors(in, results));
    if (e->end < e->count) {
        in->state = BL_INFER_MORE;
        return fill_run(in);
    }
    count = e->dimensions > 0 ? (size_t)e->dimensions : e->width;
    bl_text_puts(&rq->reply.out, "{\"object\":\"list\",\"model\":");
    bl_encode_string(&rq->reply.out, in->version->name);
    bl_text_puts(&rq->reply.out, ",\"data\":[");
    for (size_t i = 0; i < e->count; i++) {
        embeddings_shorten(e->vectors + i * e->width, count, e->width);
        bl_text_printf(&rq->reply.out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i > 0 ? "," : "", i);
        put_vector(e, e->vectors + i * e->width, count, &rq->reply.out);
        bl_text_putc(&rq->reply.out, '}');
    }
    bl_text_printf(&rq->reply.out, "],\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}", e->tokens, e->tokens);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* ---- the request */

static void free_texts(void *arg)
{
    embedding_call *e = arg;
    for (size_t i = 0; i < e->count; i++)
        free(e->texts[i].tokens.id);
}

/* Add a string, or a list of its tokens. */
static bl_status embeddings_add_text(bl_openai_call *call, embedding_call *e, const bl_json *at)
{
    bl_err *err = &call->rq->err, problem = {0};
    const bl_text_input *words = call->in->version->words;
    embedding_text *one = &e->texts[e->count];
    const char *text = NULL;
    if (e->count == MOST_TEXTS)
        return bl_json_fail(at, err, BL_EINVAL, "more than %d texts", MOST_TEXTS);
    one->index = e->count++;
    if (at->kind == BL_JSON_ARRAY) {
        BL_TRY(bl_openai_read_tokens(call, at, false, &one->tokens));
        if ((int64_t)one->tokens.count > words->most)
            return bl_json_fail(at, err, BL_EINVAL, "has %zu tokens; model \"%s\" takes at most %lld", one->tokens.count,
                                call->in->version->name, (long long)words->most);
    } else {
        BL_TRY(bl_json_string(at, &text, err));
        if (bl_text_input_encode(call->in, (bl_span){text, strlen(text)}, &one->tokens, &problem) != BL_OK)
            return bl_json_fail(at, err, problem.status, "%s", problem.text);
    }
    e->tokens += one->tokens.count;
    return one->tokens.count > 0 ? BL_OK : bl_json_fail(at, err, BL_EINVAL, "has no tokens");
}

static bl_status embeddings_read_texts(bl_openai_call *call, embedding_call *e)
{
    bl_json at, one;
    bl_json_iter it;
    e->texts = bl_arena_array(call->rq->arena, MOST_TEXTS, sizeof *e->texts);
    if (e->texts == NULL)
        return bl_arena_status(call->rq->arena, &call->rq->err);
    BL_TRY(bl_request_defer(call->rq, free_texts, e));
    BL_TRY(bl_json_need(&call->root, "input", &at, &call->rq->err));
    it = bl_json_each(&at);
    if (bl_openai_is_one_prompt(&at))
        BL_TRY(embeddings_add_text(call, e, &at));
    else
        while (bl_json_next(&it, &one))
            BL_TRY(embeddings_add_text(call, e, &one));
    if (e->count == 0)
        return bl_json_fail(&at, &call->rq->err, BL_EINVAL, "the list of texts is empty");
    qsort(e->texts, e->count, sizeof *e->texts, compare_lengths);
    return BL_OK;
}

static bl_status embeddings_read_options(const bl_openai_call *call, embedding_call *e)
{
    bl_json at;
    if (bl_json_find(&call->root, "encoding_format", &at) && at.kind != BL_JSON_NULL) {
        e->base64 = at.kind == BL_JSON_STRING && bl_span_is(at.text, "base64");
        if (!e->base64 && (at.kind != BL_JSON_STRING || !bl_span_is(at.text, "float")))
            return bl_json_fail(&at, &call->rq->err, BL_EINVAL, "must be \"float\" or \"base64\"");
    }
    if (bl_json_find(&call->root, "dimensions", &at) && at.kind != BL_JSON_NULL)
        BL_TRY(bl_json_int(&at, 1, INT32_MAX, &e->dimensions, &call->rq->err));
    return BL_OK;
}

static bl_status check_model(const bl_model_version *version, bl_err *err)
{
    if (version->words == NULL)
        return bl_fail(err, BL_EINVAL, "model \"%s\" makes no vectors of texts%s", version->name,
                       version->origin.form == BL_MODEL_LLM ? "; the parameter \"pooling\" of its configuration has it make them"
                                                            : "");
    if (version->words->whole && version->outputs[0].ndim != 2)
        return bl_fail(err, BL_EINVAL,
                       "model \"%s\" gives a vector for each token (pooling none); the parameter \"pooling\" of its "
                       "configuration has it give one for each text",
                       version->name);
    return BL_OK;
}

bl_status bl_handle_openai_embeddings(bl_request *rq)
{
    bl_openai_call call;
    embedding_call *e = bl_arena_alloc(rq->arena, sizeof *e);
    if (e == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_openai_open_any(rq, embeddings_write_vectors, true, &call));
    if (call.in == NULL)
        return BL_OK;
    BL_TRY(check_model(call.in->version, &rq->err));
    call.in->extra = e;
    BL_TRY(embeddings_read_options(&call, e));
    BL_TRY(embeddings_read_texts(&call, e));
    BL_TRY(fill_run(call.in));
    return bl_infer_go_filled(call.in);
}
