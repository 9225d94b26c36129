// SPDX-License-Identifier: MIT
// The server's API as calls.
import {address} from "./address.js";
import {Blobs} from "./blobs.js";
import {Connection} from "./connection.js";
import {ConnectionError} from "./errors.js";
import {Jobs} from "./jobs.js";
import {parse, stringify} from "./json.js";
import {Keys, Shares} from "./keys.js";
import {Models} from "./models.js";
import {Programs} from "./programs.js";
import {SAFETENSORS, readSafetensors, writeSafetensors} from "./safetensors.js";
import {Tensors} from "./tensors.js";
import {decodeValues, encodeValues} from "./values.js";

const JSON_TYPE = "application/json";

/**
 * A server.
 *
 * url: by default $BEAMLINE_URL, in a page its own server, else "http://127.0.0.1:8470"
 * key: where the server asks for one; by default $BEAMLINE_KEY
 * fetch: a replacement of the global `fetch`
 * retries: how often a request is repeated if the server is full and sends Retry-After, or if the connection breaks and a repetition is
 *     safe
 * binary: whether tensors travel as safetensors (the default) or in the JSON documents
 *
 * The options of every call include `signal`, an AbortSignal. Calls throw BeamlineError if the server refuses, and ConnectionError if
 * there is no complete answer. Members of documents have the names of docs/api.md. Integers beyond 2^53 are BigInts.
 */
export class Client {
  constructor({url, key, fetch, retries, binary = true} = {}) {
    this.connection = new Connection({url, key, fetch, retries});
    this.binary = binary;
    this.leaseId = undefined;
    this.tensors = new Tensors(this);
    this.programs = new Programs(this);
    this.jobs = new Jobs(this);
    this.models = new Models(this);
    this.blobs = new Blobs(this);
    this.keys = new Keys(this);
    this.shares = new Shares(this);
  }

  // ---- requests

  /** One exchange of JSON documents, at any address of the API. Returns undefined if the answer is empty. */
  async call(method, path, document = undefined, {headers, signal, repeat} = {}) {
    const content = document === undefined ? {} : {"Content-Type": JSON_TYPE};
    const body = document === undefined ? undefined : stringify(document);
    const {bytes} = await this.connection.request(method, path, {
      body,
      headers: {...content, ...headers},
      signal,
      repeat,
    });
    return readDocument(bytes);
  }

  /** Sends a document and tensors; returns {document, tensors} of the answer. tensors is undefined if the answer is JSON. */
  async send(method, path, document, tensors, {headers, signal, repeat} = {}) {
    const text = stringify(document);
    const isBinary = Object.keys(tensors ?? {}).length > 0;
    const {headers: got, bytes} = await this.connection.request(method, path, {
      body: isBinary ? writeSafetensors(tensors, {request: text}) : text,
      headers: {
        "Content-Type": isBinary ? SAFETENSORS : JSON_TYPE,
        Accept: this.binary ? SAFETENSORS : JSON_TYPE,
        ...headers,
      },
      signal,
      repeat,
    });
    if (!(got.get("content-type") ?? "").startsWith(SAFETENSORS)) return {document: readDocument(bytes)};
    const {metadata, tensors: received} = readAnswer(readSafetensors, bytes);
    return {document: parse(metadata.response ?? "{}"), tensors: received};
  }

  /** The tensors of an answer by name. */
  async fetchTensors(path, {signal} = {}) {
    const {bytes} = await this.connection.request("GET", path, {headers: {Accept: SAFETENSORS}, signal});
    return readAnswer(readSafetensors, bytes).tensors;
  }

  /** An object that collects the tensors of a request; undefined if the document has their numbers. */
  makeTensors() {
    return this.binary ? {} : undefined;
  }

  /** The document with the lease of this client, if the client has one. */
  withLease(document) {
    return this.leaseId === undefined ? document : {...document, lease: this.leaseId};
  }

  // ---- graphs

  /**
   * Runs a graph once. Returns {outputs, stats, kept, collected}; outputs are Tensors by name.
   *
   * graph: a Graph, or a document as the wire has it
   * inputs: values by name: numbers, nested lists, typed arrays (which take a declared shape), Tensors, or {tensor: "NAME"}
   * keep: {name: node or its id}: results to leave on the server under these names
   * other options are members of the request: device, seed, debug, beam, check_indices, timeout_ms, priority, sizes and others.
   *     With dry_run the result is the server's estimate of the cost
   */
  async run(graph, inputs = {}, {keep, signal, ...options} = {}) {
    const {document, declared} =
      typeof graph.request === "function" ? graph.request() : {document: graph, declared: {}};
    const tensors = this.makeTensors();
    const request = {
      ...document,
      ...options,
      inputs: {...document.inputs, ...encodeValues(inputs, tensors, {declared})},
      keep: keep && Object.fromEntries(Object.entries(keep).map(([name, node]) => [name, node.id ?? node])),
    };
    return this.readResult(await this.send("POST", "/api/v1/run", this.withLease(request), tensors, {signal}));
  }

  /** The answer of a run. */
  readResult({document, tensors}) {
    if (document.dry_run !== undefined) return document;
    return {
      ...document, // plan_detail, if the request has `explain`
      outputs: decodeValues(document.outputs, tensors),
      stats: document.stats ?? {},
      kept: document.kept ?? {},
      collected: decodeValues(document.collected, tensors, (name) => `collected[${name}]`),
    };
  }

  // ---- leases

  /** Begins a lease: a client whose tensors and programs live until the lease ends, or for `ttl` seconds after its last use. */
  async lease(ttl = 60, {signal} = {}) {
    const {lease} = await this.call("POST", "/api/v1/leases", {ttl}, {signal});
    return new Lease(this, lease);
  }

  // ---- language models, by OpenAI's API

  /**
   * Yields the next message of a conversation while the model writes it: the chunks of /v1/chat/completions.
   *
   * request: {model, messages, max_tokens, temperature, ...}
   */
  chat(request, options) {
    return this.chunks("/v1/chat/completions", request, options);
  }

  /** Yields the continuation of a text, {model, prompt, ...}, while the model writes it: the chunks of /v1/completions. */
  completions(request, options) {
    return this.chunks("/v1/completions", request, options);
  }

  async *chunks(path, request, {signal} = {}) {
    const body = stringify({...request, stream: true});
    for await (const {data} of this.connection.events("POST", path, {
      body,
      headers: {"Content-Type": JSON_TYPE},
      signal,
    })) {
      if (data === null) return;
      yield data;
    }
    throw this.connection.broken(new Error("the stream ended before [DONE]"));
  }

  /** Vectors of texts, {model, input, ...}: the answer of /v1/embeddings. */
  embeddings(request, options) {
    return this.call("POST", "/v1/embeddings", request, options);
  }

  // ---- the server

  /** The key of this client: {name, keys, scopes, expires, quotas, used}. */
  me(options) {
    return this.call("GET", "/api/v1/me", undefined, options);
  }

  /** The load of the devices now, by key. */
  now(options) {
    return this.call("GET", "/api/v1/now", undefined, options);
  }

  /** The load of the devices over the last `seconds`, in samples of a second or a minute. */
  nowHistory(seconds = 600, options = {}) {
    return this.call("GET", `/api/v1/now/history?seconds=${seconds}`, undefined, options);
  }

  /** The devices: a list of {id, name, type, memory, ...}. */
  async devices(options) {
    return (await this.call("GET", "/api/v1/devices", undefined, options)).devices;
  }

  /** {kernels, service, history}: kernels that searches found, plans in service, and exchanged kernels. */
  kernels(options) {
    return this.call("GET", "/api/v1/kernels", undefined, options);
  }

  /** The record of one kernel, with its loop nest; `key` is that of a row of `kernels` or of a plan. */
  kernel(key, options) {
    return this.call("GET", address("kernels", key), undefined, options);
  }

  /** A trace of the last `seconds`, as Perfetto and chrome://tracing read it. */
  trace(seconds = 10, options = {}) {
    return this.call("GET", `/api/v1/trace?seconds=${seconds}`, undefined, options);
  }

  /** The usage of this key, or with the scope admin of every key. days: the number of days up to today */
  async usage({days, ...options} = {}) {
    return (await this.call("GET", address("usage", undefined, "", {days}), undefined, options)).usage;
  }

  /** The share of each key in each device now (scope admin). */
  top(options) {
    return this.call("GET", "/api/v1/top", undefined, options);
  }

  /** {name, version, extensions} of the server. */
  server(options) {
    return this.call("GET", "/v2", undefined, options);
  }

  /** Whether the server takes requests. */
  async ready({signal} = {}) {
    try {
      await this.connection.exchange("GET", "/v2/health/ready", {signal});
      return true;
    } catch (error) {
      if (signal?.aborted) throw error;
      return false;
    }
  }
}

/** A client with names of its own. The tensors and programs under these names are freed when the lease ends. */
export class Lease extends Client {
  constructor(client, id) {
    super({binary: client.binary});
    this.connection = client.connection;
    this.leaseId = id;
  }

  /** Renews the lease, with another `ttl` if one is given. Throws BeamlineError of status 404 if the lease has ended. */
  renew(ttl = undefined, options = {}) {
    return this.call("PUT", leasePath(this), ttl === undefined ? undefined : {ttl}, options);
  }

  /** Ends the lease and frees its tensors and programs. Does nothing if the lease has ended. */
  async end(options) {
    try {
      await this.call("DELETE", leasePath(this), undefined, options);
    } catch (error) {
      if (error.status !== 404) throw error;
    }
  }
}

function readDocument(bytes) {
  return bytes.length > 0 ? readAnswer((whole) => parse(new TextDecoder().decode(whole)), bytes) : undefined;
}

/** Reads an answer. Throws ConnectionError if its bytes are not complete. */
function readAnswer(read, bytes) {
  try {
    return read(bytes);
  } catch (error) {
    throw new ConnectionError(`the answer cannot be read: ${error.message}`, error);
  }
}

function leasePath(lease) {
  return address("leases", lease.leaseId);
}
