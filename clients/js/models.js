// SPDX-License-Identifier: MIT
// Hosted models, asked by the Open Inference Protocol with its extension for binary tensors.
import {DTYPES, dtypeInfo} from "./dtype.js";
import {parse, stringify} from "./json.js";
import {Tensor, flatten, nest, shapeOf} from "./tensor.js";
import {completeShape, isPlainObject, toBytes} from "./values.js";

const HEADER = "Inference-Header-Content-Length";
const JSON_HEADERS = {"Content-Type": "application/json"};
const DTYPE_OF_DATATYPE = new Map(Object.entries(DTYPES).map(([name, {datatype}]) => [datatype, name]));

/** The hosted models: `client.models`. `version`, an option of most calls, is by default the newest. */
export class Models {
  constructor(client) {
    this.client = client;
    this.inputs = new Map(); // address of a model -> its declared inputs, by name
  }

  path(name, version, rest = "") {
    return `/v2/models/${encodeURIComponent(name)}${version === undefined ? "" : `/versions/${version}`}${rest}`;
  }

  // ---- descriptions

  /** The models that this key may use, a row for each version: {name, version, state, reason}. ready: only models that are ready */
  index({ready = false, ...options} = {}) {
    return this.client.call("POST", "/v2/repository/index", {ready}, options);
  }

  /** {name, versions, platform, inputs, outputs} of a model; a size of -1 is variable. */
  metadata(name, {version, ...options} = {}) {
    return this.client.call("GET", this.path(name, version), undefined, options);
  }

  /** The configuration of a model, in the form of Triton's ModelConfig. */
  config(name, {version, ...options} = {}) {
    return this.client.call("GET", this.path(name, version, "/config"), undefined, options);
  }

  /** Counts, and times in nanoseconds, of the inferences of a model, or of all models; a row for each version. */
  async statistics(name = undefined, {version, ...options} = {}) {
    const path = name === undefined ? "/v2/models/stats" : this.path(name, version, "/stats");
    return (await this.client.call("GET", path, undefined, options)).model_stats;
  }

  // ---- inference

  /**
   * Runs a model. Returns {outputs, stats}: outputs are Tensors by name (texts are nested lists of strings); stats has model_name,
   * model_version and the parameters of the answer.
   *
   * inputs: values by name: Tensors; typed arrays, which get the declared shape; numbers and nested lists, which get the declared dtype;
   *     strings or nested lists of strings
   * outputs: the names of the outputs to send, by default all     classes: {output: n}: the n largest elements of an output, as texts
   *     "VALUE:INDEX[:LABEL]"
   * parameters: sequence_id, sequence_start, sequence_end, priority, timeout (microseconds)
   */
  async infer(name, inputs, {version, outputs, classes = {}, parameters = {}, signal} = {}) {
    const chunks = [];
    const declared = await this.declared(name, version, inputs, signal);
    const entries = Object.entries(inputs).map(([input, value]) => this.encodeInput(input, value, declared, chunks));
    const wanted = (outputs ?? Object.keys(classes)).map((output) => requestOutput(output, classes));
    const document = {
      inputs: entries,
      outputs: wanted.length > 0 ? wanted : undefined,
      parameters: {...parameters, binary_data_output: this.client.binary},
    };
    try {
      return this.readInference(
        await this.post(this.path(name, version, "/infer"), stringify(document), chunks, signal),
      );
    } catch (error) {
      this.inputs.delete(this.path(name, version)); // the model may have been replaced by another one
      throw error;
    }
  }

  /**
   * Runs a model with a document of its inputs. A text model takes {text_input, max_tokens, temperature, stop, seed, ...} and returns
   * {text_output, finish_reason, ...}; any other model takes its inputs by name and returns its outputs.
   */
  generate(name, document, {version, ...options} = {}) {
    return this.client.call("POST", this.path(name, version, "/generate"), document, options);
  }

  /** As `generate`, but yields a document for each piece of text while the model writes it. */
  async *stream(name, document, {version, signal} = {}) {
    const path = this.path(name, version, "/generate_stream");
    const request = {body: stringify(document), headers: JSON_HEADERS, signal};
    for await (const {data} of this.client.connection.events("POST", path, request)) yield data;
  }

  post(path, text, chunks, signal) {
    const head = new TextEncoder().encode(text);
    if (chunks.length === 0) {
      return this.client.connection.request("POST", path, {body: head, headers: JSON_HEADERS, signal});
    }
    const headers = {"Content-Type": "application/octet-stream", [HEADER]: String(head.length)};
    return this.client.connection.request("POST", path, {body: joinBytes([head, ...chunks]), headers, signal});
  }

  /** The declared inputs of a model, by name; requested once, and only if a value needs them. */
  async declared(name, version, inputs, signal) {
    if (Object.values(inputs).every((value) => isText(value) || value instanceof Tensor)) return new Map();
    const path = this.path(name, version);
    if (!this.inputs.has(path)) {
      const {inputs: declared} = await this.metadata(name, {version, signal});
      this.inputs.set(path, new Map(declared.map((input) => [input.name, input])));
    }
    return this.inputs.get(path);
  }

  encodeInput(name, value, declared, chunks) {
    if (isText(value)) return encodeTexts(name, value, chunks);
    const tensor = inputTensor(value, declared.get(name) ?? {datatype: "FP32"});
    const {datatype} = dtypeInfo(tensor.dtype);
    if (datatype === undefined) throw new TypeError(`${name}: the protocol has no ${tensor.dtype}`);
    const entry = {name, datatype, shape: tensor.shape};
    return this.client.binary ? attach(entry, tensor.bytes, chunks) : {...entry, data: Array.from(tensor.values())};
  }

  readInference({headers, bytes}) {
    const size = Number(headers.get(HEADER) ?? bytes.length);
    const {outputs, ...stats} = parse(new TextDecoder().decode(bytes.subarray(0, size)));
    let at = size;
    const values = outputs.map((entry) => {
      const length = entry.parameters?.binary_data_size;
      const raw = length === undefined ? undefined : bytes.subarray(at, at + length);
      at += length ?? 0;
      return [entry.name, decodeOutput(entry, raw)];
    });
    return {outputs: Object.fromEntries(values), stats};
  }

  // ---- loading

  /**
   * Loads or reloads a model of the folder of models (scope admin), or, with `files`, a model of this key (scope train).
   *
   * config: replaces config.json     files: {"1/model.json": bytes, a text or a document, ...}
   */
  async load(name, {config, files = {}, signal} = {}) {
    const parameters =
      config === undefined && Object.keys(files).length === 0 ? {} : {config: JSON.stringify(config ?? {})};
    for (const [file, content] of Object.entries(files)) {
      parameters[`file:${file}`] = encodeBase64(toBytes(isPlainObject(content) ? stringify(content) : content));
    }
    this.inputs.clear();
    await this.client.call("POST", repository(name, "load"), {parameters}, {signal});
  }

  /** Unloads all versions of a model; requests in flight are answered. */
  async unload(name, options) {
    this.inputs.clear();
    await this.client.call("POST", repository(name, "unload"), {}, options);
  }
}

function repository(name, verb) {
  return `/v2/repository/models/${encodeURIComponent(name)}/${verb}`;
}

function requestOutput(name, classes) {
  return Object.hasOwn(classes, name) ? {name, parameters: {classification: classes[name]}} : {name};
}

function attach(entry, data, chunks) {
  chunks.push(data);
  return {...entry, parameters: {binary_data_size: data.length}};
}

/** A value as a Tensor; a typed array gets the declared shape, numbers and lists the declared dtype. */
function inputTensor(value, {datatype, shape}) {
  if (ArrayBuffer.isView(value)) return Tensor.from(value, {shape: completeShape(value.length, shape)});
  return Tensor.from(value, {dtype: value instanceof Tensor ? undefined : DTYPE_OF_DATATYPE.get(datatype)});
}

function isText(value) {
  return Array.isArray(value) && value.length > 0 ? isText(value[0]) : typeof value === "string";
}

/** Texts in the format of the binary extension: the length of each text, then its bytes. */
function encodeTexts(name, value, chunks) {
  const texts = flatten(value, []).map((text) => new TextEncoder().encode(text));
  const packed = texts.flatMap((text) => [new Uint8Array(Uint32Array.of(text.length).buffer), text]);
  const shape = Array.isArray(value) ? shapeOf(value) : [1];
  return attach({name, datatype: "BYTES", shape}, joinBytes(packed), chunks);
}

function decodeTexts(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const texts = [];
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at, true);
    texts.push(new TextDecoder().decode(bytes.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  return texts;
}

function decodeOutput({datatype, shape, data}, raw) {
  if (datatype === "BYTES") return nest(raw === undefined ? flatten(data, []) : decodeTexts(raw), shape);
  const dtype = DTYPE_OF_DATATYPE.get(datatype);
  return raw === undefined ? Tensor.from(data, {dtype, shape}) : Tensor.fromBytes(dtype, shape, raw);
}

function joinBytes(chunks) {
  const joined = new Uint8Array(chunks.reduce((total, chunk) => total + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    joined.set(chunk, at);
    at += chunk.length;
  }
  return joined;
}

function encodeBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
