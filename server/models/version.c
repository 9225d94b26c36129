/* SPDX-License-Identifier: MIT */
/* A loaded version of a model: its inputs and outputs, and its memory. */
#include "server/models/model_infer.h"

#include "engine/base/fault.h"
#include "proto/encode.h"
#include "proto/picture.h"
#include "server/models/answers.h"
#include "server/models/sequences.h"
#include "server/models/text_input.h"
#include "server/models/text_model.h"
#include "server/programs/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VERSION_BYTES = 64 * 1024 * 1024 };

/* ---- its batcher */

static void retain_version(void *owner)
{
    (void)bl_model_version_retain(owner);
}

static bl_status version_prepare_joint(void *owner, bl_request *rq, bl_batch_slot *slot, int64_t *vars, bl_exec **out)
{
    return bl_infer_prepare(rq, owner, (bl_model_instance *)slot, vars, out);
}

static void version_count_joint(void *owner, int64_t rows, int64_t input_ns, int64_t compute_ns)
{
    bl_model_version *version = owner;
    bl_statistics_run(&version->statistics, rows, input_ns, compute_ns, 0);
}

static void give_rows(bl_batch_item *item)
{
    bl_infer_weigh((bl_infer *)item);
}

void bl_instance_learn(bl_model_version *version, bl_model_instance *instance, int64_t rows, const bl_plan *plan, int64_t ns)
{
    if (bl_batch_learn(&version->batcher, &instance->slot, rows, bl_exact_is(version, instance, plan),
                       bl_exact_is_possible(version, instance), ns))
        bl_exact_order(version, instance, rows);
}

static void version_learn_joint(void *owner, bl_batch_slot *slot, int64_t rows, const bl_plan *plan, int64_t ns)
{
    bl_instance_learn(owner, (bl_model_instance *)slot, rows, plan, ns);
}

static const bl_batch_user model_user = {.what = "model",
                                         .retain = retain_version,
                                         .release = bl_model_version_release_any,
                                         .prepare = version_prepare_joint,
                                         .count = version_count_joint,
                                         .give = give_rows,
                                         .learn = version_learn_joint};

/* ---- lifetime */

bl_model_version *bl_model_version_create(bl_models *models, uint32_t owner, const char *name, uint64_t number)
{
    bl_model_version *version = bl_calloc(1, sizeof *version);
    if (version == NULL)
        return NULL;
    atomic_init(&version->refs, 1);
    version->models = models;
    version->owner = owner;
    version->placement.drains = atomic_load(&models->server->drain.count);
    version->number = number;
    version->created = (int64_t)time(NULL);
    version->origin.purges = bl_access_purges(models->server->access, owner);
    snprintf(version->name, sizeof version->name, "%s", name);
    version->arena = bl_arena_create(VERSION_BYTES);
    bl_statistics_init(&version->statistics);
    bl_batcher_init(&version->batcher, &model_user, version, models->server);
    pthread_mutex_init(&version->sequences.lock, NULL);
    if (version->arena != NULL)
        return version;
    bl_model_version_release(version);
    return NULL;
}

bl_model_version *bl_model_version_retain(bl_model_version *version)
{
    atomic_fetch_add(&version->refs, 1);
    return version;
}

/* Free an instance.  The plan leaves the plan cache, with the panels of the weights that it keeps, unless a program uses the
 * plan too. */
static void free_instance(bl_model_version *version, bl_model_instance *instance)
{
    bl_program *program = instance->slot.program;
    for (int i = 0; program != NULL && i < program->doc.nentries; i++)
        bl_plans_forget(version->models->server->plans, program->entries[i].plan);
    for (int i = 0; i < BL_SIZES; i++) {
        bl_plan *exact = atomic_load(&instance->exact[i]);
        if (exact != NULL)
            bl_plans_forget(version->models->server->plans, exact);
        bl_plan_release(exact);
    }
    bl_program_release(program);
}

static void destroy_version(bl_model_version *version)
{
    bl_model_version_release(version->draft);
    bl_answers_destroy(version->answers);
    bl_sequences_fini(version);
    bl_text_model_fini(version);
    bl_text_input_fini(version);
    pthread_mutex_destroy(&version->sequences.lock);
    for (int i = 0; i < version->ninstances; i++)
        free_instance(version, &version->instances[i]);
    bl_sent_release(version->origin.sent);
    bl_statistics_fini(&version->statistics);
    bl_batcher_fini(&version->batcher);
    bl_arena_destroy(version->arena);
    free(version);
}

void bl_model_version_release(bl_model_version *version)
{
    if (version != NULL && atomic_fetch_sub(&version->refs, 1) == 1)
        destroy_version(version);
}

void bl_model_version_release_any(void *version)
{
    bl_model_version_release(version);
}

size_t bl_model_version_bytes(const bl_model_version *version)
{
    size_t bytes = 0;
    for (int i = 0; i < version->ninstances; i++)
        bytes += version->instances[i].slot.program->charged;
    return version->draft != NULL ? bytes + bl_model_version_bytes(version->draft) : bytes;
}

bool bl_model_version_lacks_any(const bl_model_version *version)
{
    for (int i = 0; i < version->ninstances; i++)
        if (bl_batch_slot_is_lost(&version->instances[i].slot))
            return true;
    return atomic_load(&version->models->server->drain.count) > 0 && bl_model_version_is_misplaced(version);
}

bool bl_model_version_is_on(const bl_model_version *version, const bl_worker *worker)
{
    for (int i = 0; i < version->ninstances; i++)
        if (version->instances[i].slot.program->worker == worker)
            return true;
    return false;
}

/* ---- inputs and outputs */

static const bl_config_tensor *find_tensor(const bl_config_tensor *tensors, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return &tensors[i];
    return NULL;
}

static bl_status fails_dims(const char *name, const bl_config_tensor *said, int ndim, const int64_t *dim, bl_err *err)
{
    bl_text is = {0}, wanted = {0};
    bl_status st = BL_OK;
    bl_shape_print(&wanted, said->ndim, said->dim);
    bl_shape_print(&is, ndim, dim);
    st = bl_fail(err, BL_EGRAPH, "the configuration gives the dims %s for \"%s\", but the model has %s", bl_text_get(&wanted),
                 name, bl_text_get(&is));
    bl_text_fini(&wanted);
    bl_text_fini(&is);
    return st;
}

/* Check the tensor against the configuration, and apply the configuration. */
static bl_status check_tensor(const bl_model_version *version, bl_model_tensor *tensor, const bl_config_tensor *said, bl_err *err)
{
    int skip = version->batcher.max_rows > 0 ? 1 : 0, shown = tensor->ndim;
    if (said == NULL)
        return BL_OK;
    if (tensor->coding == BL_MODEL_PICTURE) {
        if (said->datatype == BL_INFER_BYTES && (said->ndim < 0 || (said->ndim == 1 && said->dim[0] == 1)))
            return BL_OK;
        return bl_fail(err, BL_EGRAPH, "\"%s\" is an encoded picture; the configuration must say TYPE_STRING and dims [1]",
                       tensor->name);
    }
    if (said->datatype == BL_INFER_BYTES && tensor->coding == BL_MODEL_PLAIN) {
        if (tensor->dtype != BL_U8 || tensor->ndim < 1 || tensor->dim[tensor->ndim - 1] < 1)
            return bl_fail(err, BL_EGRAPH,
                           "\"%s\" can be TYPE_STRING only if the tensor is uint8 and its last dimension has a fixed size",
                           tensor->name);
        tensor->datatype = BL_INFER_BYTES;
        shown--;
    } else if (said->datatype != tensor->datatype) {
        return bl_fail(err, BL_EGRAPH, "the configuration gives the data type %s for \"%s\", but the model has %s",
                       bl_infer_datatype(said->datatype), tensor->name, bl_infer_datatype(tensor->datatype));
    }
    if (said->ndim < 0 || (said->datatype == BL_INFER_BYTES && shown - skip == 0 && said->ndim == 1 && said->dim[0] == 1))
        return BL_OK; /* one string for each row of a batch is written [1] */
    bool same = said->ndim == shown - skip;
    for (int i = 0; same && i < said->ndim; i++)
        same = said->dim[i] == tensor->dim[skip + i];
    return same ? BL_OK : fails_dims(tensor->name, said, shown - skip, &tensor->dim[skip], err);
}

/* Apply the form in which the model has the tensor, if the program has another one. */
static void take_port(const bl_onnx_port *port, bl_model_tensor *to)
{
    if (port == NULL)
        return;
    to->name = port->name;
    to->coding = port->coding == BL_ONNX_PICTURE   ? BL_MODEL_PICTURE
                 : port->coding == BL_ONNX_STRINGS ? BL_MODEL_STRINGS
                                                   : BL_MODEL_PLAIN;
    if (to->coding != BL_MODEL_PLAIN)
        to->datatype = BL_INFER_BYTES;
    to->labels = port->nkeys > 0 ? (const char *const *)port->keys : NULL;
    to->nlabels = (size_t)port->nkeys;
    to->keyed = port->nkeys > 0;
}

static void describe_input(const bl_wire_tensor *from, const bl_onnx_port *port, bl_model_tensor *to)
{
    to->name = from->name;
    to->dtype = from->type.dtype;
    to->datatype = (int)from->type.dtype;
    to->ndim = from->type.ndim;
    for (int d = 0; d < to->ndim; d++) {
        to->var[d] = from->type.dim[d].var;
        to->dim[d] = to->var[d] >= 0 ? -1 : from->type.dim[d].size;
    }
    take_port(port, to);
}

/* Describe an output from its sizes at the lower and upper bounds: sizes that differ vary. */
static void version_describe_output(const bl_wire_graph *graph, const bl_plan_tensor *from, const bl_wire_output *output,
                                    const bl_onnx_port *port, bl_model_tensor *to)
{
    int64_t lo[BL_WIRE_MAX_DIMS] = {0}, hi[BL_WIRE_MAX_DIMS] = {0}, least[16] = {0}, most[16] = {0};
    for (int i = 0; i < graph->nvars; i++) {
        lo[i] = graph->vars[i].lo;
        hi[i] = graph->vars[i].hi;
    }
    bl_plan_sizes(from, lo, least);
    bl_plan_sizes(from, hi, most);
    *to = (bl_model_tensor){.name = output->name, .dtype = from->dtype, .datatype = (int)from->dtype, .ndim = from->ndim};
    for (int d = 0; d < to->ndim; d++)
        to->dim[d] = least[d] == most[d] && !(output->count > 0 && output->axis == d) ? least[d] : -1;
    take_port(port, to);
}

static const char *input_name(const bl_model_version *version, const bl_wire_graph *graph, int at)
{
    return version->onnx.inputs != NULL ? version->onnx.inputs[at].name : graph->inputs[at].name;
}

/* Is the type [height, width, 3], with height and width both named or both constant, or a batch of these with constant sizes?
 * All pictures of a batch then have one shape. */
static bool is_for_pixels(const bl_wire_type *type)
{
    int first = type->ndim - 3;
    if (first < 0 || first > 1 || type->dtype != BL_U8 || type->dim[first + 2].var >= 0 ||
        type->dim[first + 2].size != BL_PICTURE_CHANNELS)
        return false;
    bool named = type->dim[first].var >= 0;
    return named == (type->dim[first + 1].var >= 0) && !(named && first == 1);
}

/* Mark the input that parameters.picture names. */
static bl_status describe_picture(bl_model_version *version, const bl_wire_graph *graph, bl_err *err)
{
    const char *name = version->config.picture;
    bl_onnx_port *ports = NULL;
    int at = 0;
    if (name == NULL)
        return BL_OK;
    while (at < graph->ninputs && strcmp(input_name(version, graph, at), name) != 0)
        at++;
    if (at == graph->ninputs)
        return bl_fail(err, BL_EGRAPH, "parameters.picture is \"%.100s\"; the model has no such input", name);
    if (version->onnx.inputs != NULL && version->onnx.inputs[at].coding == BL_ONNX_PICTURE)
        return BL_OK;
    if (!is_for_pixels(&graph->inputs[at].type))
        return bl_fail(
            err, BL_EGRAPH,
            "parameters.picture: input \"%.100s\" must be of uint8 and [height, width, 3], or [batch, height, width, 3] "
            "with height and width as numbers",
            name);
    ports = bl_arena_array(version->arena, (size_t)graph->ninputs, sizeof *ports);
    if (ports == NULL)
        return bl_arena_status(version->arena, err);
    for (int i = 0; i < graph->ninputs; i++)
        ports[i] = version->onnx.inputs != NULL ? version->onnx.inputs[i] : (bl_onnx_port){.name = graph->inputs[i].name};
    ports[at].coding = BL_ONNX_PICTURE;
    version->onnx.inputs = ports;
    return BL_OK;
}

/* The dimension of batching, or -1.  A picture input of variable size is not batched. */
static int find_batch(const bl_model_version *version, const bl_wire_graph *graph, const bl_plan_info *info)
{
    for (int i = 0; version->onnx.inputs != NULL && i < graph->ninputs; i++)
        if (version->onnx.inputs[i].coding == BL_ONNX_PICTURE && graph->inputs[i].type.ndim == 3)
            return -1;
    return bl_batch_find_var(graph, info);
}

static bl_status choose_batch(bl_model_version *version, const bl_wire_graph *graph, const bl_plan_info *info, bl_err *err)
{
    int64_t said = version->config.max_batch_size, most = 0;
    version->batcher.var = find_batch(version, graph, info);
    if (version->text != NULL && !bl_text_model_has_rows(version, graph)) /* the dimension counts the tokens of one text */
        version->batcher.var = -1;
    if (version->words != NULL && !bl_text_input_has_rows(version, graph)) /* likewise for tokenized inputs */
        version->batcher.var = -1;
    most = version->batcher.var >= 0 ? graph->vars[version->batcher.var].hi : 0;
    if (said > 0 && version->batcher.var < 0)
        return bl_fail(err, BL_EGRAPH, "max_batch_size is %lld, but no named dimension is the first of all inputs and outputs",
                       (long long)said);
    if (said > 0 && info->checks_indices)
        return bl_fail(err, BL_EGRAPH,
                       "max_batch_size is %lld, but check_indices runs each request alone; leave one of the two out",
                       (long long)said);
    if (said > most)
        return bl_fail(err, BL_EGRAPH, "max_batch_size is %lld; the model takes at most %lld", (long long)said, (long long)most);
    version->batcher.max_rows =
        said >= 0 ? said : bl_batch_usual_rows(&version->instances[0].slot.program->doc.batching, info, most);
    version->batcher.apart = version->owner == 0 || (version->batcher.var >= 0 && info->rows == version->batcher.var);
    return BL_OK;
}

static bl_status version_check_names(const bl_config_tensor *said, int nsaid, const bl_model_tensor *tensors, int count,
                                     const char *what, bl_err *err)
{
    for (int i = 0; i < nsaid; i++) {
        bool found = false;
        for (int k = 0; k < count && !found; k++)
            found = strcmp(said[i].name, tensors[k].name) == 0;
        if (!found)
            return bl_fail(err, BL_EGRAPH, "the configuration names %s \"%s\", which the model does not have", what,
                           said[i].name);
    }
    return BL_OK;
}

/* Read the class names from the files that the configuration names. */
static bl_status read_labels(bl_model_version *version, bl_err *err)
{
    for (int i = 0; i < version->noutputs; i++) {
        bl_model_tensor *tensor = &version->outputs[i];
        const bl_config_tensor *said = find_tensor(version->config.outputs, version->config.noutputs, tensor->name);
        if (said != NULL && said->labels != NULL)
            BL_TRY(bl_source_read_lines(version->models, version->name, said->labels, version->arena, &tensor->labels,
                                        &tensor->nlabels, err));
    }
    return BL_OK;
}

/* Set up the state between requests, and the response cache. */
static bl_status choose_memory(bl_model_version *version, const bl_wire_graph *graph, bl_err *err)
{
    version->sequential = graph->nupdates > 0 && !bl_text_model_has_pages(version, graph);
    if (version->config.sequences.present && !version->sequential)
        return bl_fail(err, BL_EGRAPH, "sequence_batching needs a program that updates state; this program has no updates");
    if (version->config.cached && version->sequential)
        return bl_fail(
            err, BL_EGRAPH,
            "response_cache: a model with state does not answer equal requests equally, so its answers cannot be cached");
    if (version->config.cached && (version->answers = bl_answers_create(version->models->server)) == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a cache of answers");
    if (version->sequential && (version->sequences.by_key = bl_namemap_create()) == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a table of sequences");
    return BL_OK;
}

/* Set up the tokenizer, and the inputs that clients see. */
static bl_status describe_texts(bl_model_version *version, bl_err *err)
{
    const bl_model_config *config = &version->config;
    version->shown = version->inputs;
    version->nshown = version->batcher.ninputs;
    if (config->words.text == NULL && (config->words.mask != NULL || config->words.types != NULL))
        return bl_fail(err, BL_EGRAPH, "parameters.mask and parameters.types go with parameters.text, which is missing");
    if (config->words.text != NULL && version->words == NULL)
        return bl_fail(err, BL_EGRAPH, "parameters.text names \"%.100s\" as a text, but tokenizer.json is missing",
                       config->words.text);
    if (version->text != NULL)
        BL_TRY(bl_text_model_describe(version, err));
    if (version->words == NULL)
        return BL_OK;
    BL_TRY(bl_text_input_describe(version, err));
    const bl_config_tensor *said = find_tensor(config->inputs, config->ninputs, config->words.text);
    return said == NULL || said->datatype == BL_INFER_BYTES
               ? BL_OK
               : bl_fail(err, BL_EGRAPH,
                         "the configuration must give the data type TYPE_STRING for \"%.100s\", which is a text, not %s",
                         config->words.text, bl_infer_datatype(said->datatype));
}

/* Batching options of the program's document apply if the configuration has none. */
static void take_batching(bl_model_version *version)
{
    bl_config_batching *batching = &version->config.batching;
    if (!batching->present)
        batching->how = version->instances[0].slot.program->doc.batching;
}

_Static_assert((int)BL_BATCH_SLOTS >= (int)BL_MOST_INSTANCES, "each instance is a slot");

static void fill_batcher(bl_model_version *version, const bl_wire_graph *graph)
{
    bl_batcher *b = &version->batcher;
    const bl_model_config *config = &version->config;
    b->name = version->name;
    b->rank = BL_RANK_INFER;
    b->purpose = (bl_purpose){"model", version->name, NULL};
    b->how = config->batching.how;
    b->ninputs = graph->ninputs;
    b->nvars = graph->nvars;
    for (b->nslots = 0; b->nslots < version->ninstances; b->nslots++)
        b->slots[b->nslots] = &version->instances[b->nslots].slot;
}

/* Reject text models, batching and warm-up for programs that are compiled for input values (variants). */
static bl_status check_variants(const bl_model_version *version, bl_err *err)
{
    const bl_program *program = version->instances[0].slot.program;
    if (version->text != NULL || version->words != NULL)
        return bl_variants_refuse(program, "it cannot have a tokenizer.json", err);
    if (version->config.max_batch_size > 0)
        return bl_variants_refuse(program, "its requests run one by one (max_batch_size is 0)", err);
    if (version->config.nwarmups > 0)
        return bl_variants_refuse(program, "nothing can be warmed up (model_warmup)", err);
    for (int i = 0; i < version->instances[0].slot.graph->noutputs; i++) {
        if (bl_variants_output(program->variants, i)->dtype == BL_DTYPE_COUNT)
            return bl_variants_refuse(program, "each output needs a declared type", err);
    }
    return BL_OK;
}

static void describe_declared(const bl_wire_type *from, const char *name, bl_model_tensor *to)
{
    *to = (bl_model_tensor){.name = name, .dtype = from->dtype, .datatype = (int)from->dtype, .ndim = from->ndim};
    if (from->ndim < 0) { /* any shape */
        to->ndim = 1;
        to->dim[0] = -1;
    }
    for (int d = 0; d < from->ndim; d++)
        to->dim[d] = from->dim[d].size;
}

bl_status bl_model_version_describe(bl_model_version *version, bl_err *err)
{
    const bl_model_instance *instance = &version->instances[0];
    const bl_wire_graph *graph = instance->slot.graph;
    const bl_variants *variants = instance->slot.program->variants;
    const bl_plan_info *info = variants == NULL ? bl_plan_get_info(instance->slot.plan) : NULL;
    const bl_model_config *config = &version->config;
    version->noutputs = bl_wire_shown(graph);
    version->inputs = bl_arena_array(version->arena, (size_t)graph->ninputs + 1, sizeof *version->inputs);
    version->outputs = bl_arena_array(version->arena, (size_t)graph->noutputs + 1, sizeof *version->outputs);
    if (version->inputs == NULL || version->outputs == NULL)
        return bl_arena_status(version->arena, err);
    take_batching(version);
    fill_batcher(version, graph);
    BL_TRY(describe_picture(version, graph, err));
    version->batcher.var = -1;
    BL_TRY(variants != NULL ? check_variants(version, err) : choose_batch(version, graph, info, err));
    for (int i = 0; i < version->batcher.ninputs; i++) {
        bl_model_tensor *tensor = &version->inputs[i];
        describe_input(&graph->inputs[i], version->onnx.inputs != NULL ? &version->onnx.inputs[i] : NULL, tensor);
        BL_TRY(check_tensor(version, tensor, find_tensor(config->inputs, config->ninputs, tensor->name), err));
    }
    for (int i = 0; i < version->noutputs; i++) {
        bl_model_tensor *tensor = &version->outputs[i];
        const bl_onnx_port *port = version->onnx.outputs != NULL ? &version->onnx.outputs[i] : NULL;
        if (variants != NULL)
            describe_declared(bl_variants_output(variants, i), port != NULL ? port->name : graph->outputs[i].name, tensor);
        else
            version_describe_output(graph, &info->outputs[i], &graph->outputs[i], port, tensor);
        BL_TRY(check_tensor(version, tensor, find_tensor(config->outputs, config->noutputs, tensor->name), err));
    }
    BL_TRY(read_labels(version, err));
    BL_TRY(choose_memory(version, graph, err));
    BL_TRY(describe_texts(version, err));
    BL_TRY(version_check_names(config->inputs, config->ninputs, version->shown, version->nshown, "input", err));
    return version_check_names(config->outputs, config->noutputs, version->outputs, version->noutputs, "output", err);
}

/* ---- as JSON */

/* Print the shape.  The bytes of a BYTES tensor are not a dimension; [1] stands for one string. */
static void put_dims(bl_text *out, const bl_model_tensor *tensor, int from, bool batch)
{
    int ndim = bl_model_tensor_rank(tensor), n = 0;
    bl_text_putc(out, '[');
    if (batch)
        bl_text_printf(out, "%s-1", n++ > 0 ? "," : "");
    for (int d = from; d < ndim; d++)
        bl_text_printf(out, "%s%lld", n++ > 0 ? "," : "", (long long)tensor->dim[d]);
    if (tensor->datatype == BL_INFER_BYTES && tensor->coding != BL_MODEL_STRINGS && ndim <= from)
        bl_text_printf(out, "%s1", n > 0 ? "," : "");
    bl_text_putc(out, ']');
}

/* Print the ranges of the named dimensions. */
static void version_put_ranges(const bl_model_version *version, bl_text *out)
{
    const bl_wire_graph *graph = version->instances[0].slot.graph;
    if (version->batcher.nvars == 0)
        return;
    bl_encode_key(out, "dims");
    bl_text_putc(out, '{');
    for (int i = 0; i < version->batcher.nvars; i++) {
        bl_wire_var range = graph->vars[i];
        if (i == version->batcher.var && version->batcher.max_rows > 0)
            range.hi = version->batcher.max_rows;
        bl_encode_key(out, range.name);
        bl_wire_var_encode(out, &range);
    }
    bl_text_putc(out, '}');
}

/* Print the names of an input's dimensions, and the sizes of unnamed ones. */
static void version_put_names(const bl_model_version *version, const bl_model_tensor *tensor, bl_text *out)
{
    const bl_wire_graph *graph = version->instances[0].slot.graph;
    if (version->batcher.nvars == 0 || (tensor->datatype == BL_INFER_BYTES && tensor->coding != BL_MODEL_STRINGS))
        return;
    bl_encode_key(out, "dims");
    bl_text_putc(out, '[');
    for (int d = 0; d < tensor->ndim; d++) {
        bl_text_puts(out, d > 0 ? "," : "");
        if (tensor->var[d] >= 0)
            bl_encode_string(out, graph->vars[tensor->var[d]].name);
        else
            bl_text_printf(out, "%lld", (long long)tensor->dim[d]);
    }
    bl_text_putc(out, ']');
}

static void put_label_file(const bl_model_version *version, const char *output, bl_text *out)
{
    const bl_config_tensor *said = find_tensor(version->config.outputs, version->config.noutputs, output);
    if (said == NULL || said->labels == NULL)
        return;
    bl_encode_key(out, "label_filename");
    bl_encode_string(out, said->labels);
}

static void put_config_tensors(const bl_model_version *version, const bl_model_tensor *tensors, int count, const char *key,
                               bl_text *out)
{
    bl_encode_key(out, key);
    bl_text_putc(out, '[');
    for (int i = 0; i < count; i++) {
        bl_text_puts(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        bl_encode_string(out, tensors[i].name);
        bl_text_puts(out, ",\"data_type\":");
        bl_model_config_put_type(out, tensors[i].datatype);
        bl_text_puts(out, ",\"dims\":");
        put_dims(out, &tensors[i], version->batcher.max_rows > 0 ? 1 : 0, false);
        if (tensors == version->shown)
            bl_text_puts(out, ",\"optional\":false");
        else
            put_label_file(version, tensors[i].name, out);
        bl_variants *variants = version->instances[0].slot.program->variants;
        bool decides = variants != NULL && tensors == version->shown && bl_variants_wants(variants, i);
        bl_text_puts(out, decides ? ",\"is_shape_tensor\":true}" : ",\"is_shape_tensor\":false}");
    }
    bl_text_putc(out, ']');
}

static void put_policy(const bl_config_versions *versions, bl_text *out)
{
    bl_encode_key(out, "version_policy");
    if (versions->policy == BL_POLICY_LATEST)
        bl_text_printf(out, "{\"latest\":{\"num_versions\":%llu}}", (unsigned long long)versions->latest);
    else if (versions->policy == BL_POLICY_ALL)
        bl_text_puts(out, "{\"all\":{}}");
    else
        bl_text_puts(out, "{\"specific\":{\"versions\":[");
    for (int i = 0; versions->policy == BL_POLICY_SPECIFIC && i < versions->nspecific; i++)
        bl_text_printf(out, "%s%llu", i > 0 ? "," : "", (unsigned long long)versions->specific[i]);
    bl_text_puts(out, versions->policy == BL_POLICY_SPECIFIC ? "]}}" : "");
}

static void version_put_batching(const bl_config_batching *batching, bl_text *out)
{
    bl_encode_key(out, "dynamic_batching");
    bl_text_puts(out, "{\"preferred_batch_size\":[");
    for (int i = 0; i < batching->how.npreferred; i++)
        bl_text_printf(out, "%s%lld", i > 0 ? "," : "", (long long)batching->how.preferred[i]);
    bl_text_printf(out, "],\"max_queue_delay_microseconds\":%lld,\"preserve_ordering\":true,\"priority_levels\":%lld",
                   (long long)batching->how.delay_us, (long long)batching->priority_levels);
    if (batching->priority_levels > 0)
        bl_text_printf(out, ",\"default_priority_level\":%lld", (long long)batching->default_priority);
    bl_text_printf(out,
                   ",\"default_queue_policy\":{\"timeout_action\":\"REJECT\",\"default_timeout_microseconds\":%lld,"
                   "\"allow_timeout_override\":%s,\"max_queue_size\":%lld}}",
                   (long long)batching->timeout_us, batching->may_override ? "true" : "false",
                   (long long)batching->how.max_waiting);
}

/* The input that takes an encoded picture, by the configuration or by the ImageDecoder of an ONNX model. */
static const char *picture_name(const bl_model_version *version)
{
    for (int i = 0; i < version->batcher.ninputs; i++)
        if (version->inputs[i].coding == BL_MODEL_PICTURE)
            return version->inputs[i].name;
    return NULL;
}

static void put_parameters(const bl_model_version *version, bl_text *out)
{
    const bl_model_config *config = &version->config;
    char context[24] = "", chunk[24] = "";
    const struct {
        const char *name, *value;
    } rows[] = {{"entry", config->entry},
                {"tokens", config->generation.tokens},
                {"position", config->generation.position},
                {"logits", config->generation.logits},
                {"end", config->generation.end},
                {"text", config->words.text},
                {"mask", config->words.mask},
                {"types", config->words.types},
                {"picture", picture_name(version)},
                {"activations", config->exact ? "float32" : NULL},
                {"pooling", config->words.pooling},
                {"context", config->generation.context > 0 ? context : NULL},
                {"chunk", config->generation.chunk > 0 ? chunk : NULL},
                {"share_prefix", config->generation.shares_prefix ? "all" : NULL},
                {"chat_template", config->openai.chat_template},
                {"defaults", config->openai.defaults},
                {"aliases", config->openai.aliases},
                {"tags", config->openai.tags},
                {"reasoning", config->openai.reasoning}};
    int n = 0;
    snprintf(context, sizeof context, "%lld", (long long)config->generation.context);
    snprintf(chunk, sizeof chunk, "%lld", (long long)config->generation.chunk);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].value == NULL)
            continue;
        bl_text_printf(out, "%s\"%s\":{\"string_value\":", n++ > 0 ? "," : ",\"parameters\":{", rows[i].name);
        bl_encode_string(out, rows[i].value);
        bl_text_putc(out, '}');
    }
    bl_text_puts(out, n > 0 ? "}" : "");
}

static const char *platform_of(const bl_model_version *version)
{
    static const char *const platforms[] = {
        [BL_MODEL_PROGRAM] = "beamline_program", [BL_MODEL_ONNX] = "onnx", [BL_MODEL_LLM] = "llm"};
    return platforms[version->origin.form];
}

void bl_model_version_put_config(const bl_model_version *version, bl_text *out)
{
    const bl_model_config *config = &version->config;
    bl_text_puts(out, "{\"name\":");
    bl_encode_string(out, version->name);
    bl_encode_key(out, "platform");
    bl_encode_string(out, platform_of(version));
    bl_text_puts(out, ",\"backend\":\"beamline\"");
    put_policy(&config->versions, out);
    bl_text_printf(out, ",\"max_batch_size\":%lld", (long long)version->batcher.max_rows);
    version_put_ranges(version, out);
    put_config_tensors(version, version->shown, version->nshown, "input", out);
    put_config_tensors(version, version->outputs, version->noutputs, "output", out);
    if (version->sequential)
        bl_text_printf(out, ",\"sequence_batching\":{\"max_sequence_idle_microseconds\":%lld}",
                       (long long)config->sequences.idle_us);
    else if (version->batcher.max_rows > 0)
        version_put_batching(&config->batching, out);
    bl_text_puts(out, ",\"instance_group\":[");
    for (int i = 0; i < version->ninstances; i++)
        bl_text_printf(out, "%s{\"name\":\"%d\",\"kind\":\"KIND_AUTO\",\"count\":1,\"device\":\"%s\"}", i > 0 ? "," : "", i,
                       version->instances[i].slot.program->worker->dev->info.id);
    bl_text_puts(out, "],\"model_transaction_policy\":{\"decoupled\":false}");
    bl_text_printf(out, ",\"response_cache\":{\"enable\":%s}", config->cached ? "true" : "false");
    put_parameters(version, out);
    bl_text_putc(out, '}');
}

/* Print the column names of an output that is a map for each row. */
static void version_put_keys(bl_text *out, const bl_model_tensor *tensor)
{
    if (!tensor->keyed)
        return;
    bl_encode_key(out, "labels");
    bl_text_putc(out, '[');
    for (size_t i = 0; i < tensor->nlabels; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_string(out, tensor->labels[i]);
    }
    bl_text_putc(out, ']');
}

static void put_tensors(const bl_model_version *version, const bl_model_tensor *tensors, int count, const char *key, bl_text *out)
{
    bl_encode_key(out, key);
    bl_text_putc(out, '[');
    for (int i = 0; i < count; i++) {
        bl_text_puts(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        bl_encode_string(out, tensors[i].name);
        bl_text_printf(out, ",\"datatype\":\"%s\",\"shape\":", bl_infer_datatype(tensors[i].datatype));
        put_dims(out, &tensors[i], version->batcher.max_rows > 0 ? 1 : 0, version->batcher.max_rows > 0);
        if (tensors == version->shown)
            version_put_names(version, &tensors[i], out);
        version_put_keys(out, &tensors[i]);
        bl_text_putc(out, '}');
    }
    bl_text_putc(out, ']');
}

void bl_model_version_put_metadata(const bl_model_version *version, const bl_model *model, bl_text *out)
{
    int n = 0;
    bl_text_puts(out, "{\"name\":");
    bl_encode_string(out, version->name);
    bl_text_puts(out, ",\"versions\":[");
    for (int i = 0; model != NULL && i < model->nrows; i++)
        if (model->rows[i].version != NULL)
            bl_text_printf(out, "%s\"%llu\"", n++ > 0 ? "," : "", (unsigned long long)model->rows[i].number);
    bl_text_puts(out, "],\"platform\":");
    bl_encode_string(out, platform_of(version));
    put_tensors(version, version->shown, version->nshown, "inputs", out);
    put_tensors(version, version->outputs, version->noutputs, "outputs", out);
    version_put_ranges(version, out);
    bl_text_putc(out, '}');
}
