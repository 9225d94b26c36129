// SPDX-License-Identifier: MIT
// Programs: graphs with a name, state and updates.
import {address} from "./address.js";
import {encodeValues} from "./values.js";

/** The programs of a client: `client.programs`. */
export class Programs {
  constructor(client) {
    this.client = client;
  }

  /** The programs: a list of their descriptions. */
  async list(options) {
    return (await this.client.call("GET", address("programs"), undefined, options)).programs;
  }

  /** What a program takes, gives and remembers. */
  get(name, options) {
    return this.client.call("GET", address("programs", name), undefined, options);
  }

  /**
   * Define a program, its state included; gives its description.
   *
   * program: a Program, or a document as the wire has it, of whose state the values may be Tensors too
   * ifAbsent: BeamlineError of status 412 where there is one already, instead of replacing it
   * durable: it is there again after a restart
   * other options are members of the document: device, seed, debug, beam, check_indices
   */
  async put(name, program, {ifAbsent, durable, signal, ...options} = {}) {
    const document = typeof program.document === "function" ? program.document() : program;
    const tensors = this.client.makeTensors();
    const state = encodeValues(document.state ?? {}, tensors);
    const request = this.client.withLease({
      ...document,
      ...options,
      state: Object.keys(state).length > 0 ? state : undefined,
    });
    const headers = {Accept: "application/json", ...(ifAbsent ? {"If-None-Match": "*"} : {})};
    return (
      await this.client.send("PUT", address("programs", name, "", {durable}), request, tensors, {headers, signal})
    ).document;
  }

  /** Remove a program, its state included. */
  delete(name, options) {
    return this.client.call("DELETE", address("programs", name), undefined, options);
  }

  /**
   * Run steps of a program: {outputs, stats, kept, collected}, as Client.run; outputs are those of the last step.
   *
   * inputs: values by name, each of the dtype that the program declares
   * options: members of the request: entry, steps, collect ({every, outputs}), keep, debug, timeout_ms, priority, sizes, dry_run
   * seq: the number of this run, one more than that of the last (from 1, for each program and key): where the connection breaks the run is
   *     asked for again, and applied once
   */
  async run(name, inputs = {}, {signal, ...options} = {}) {
    const tensors = this.client.makeTensors();
    const values = encodeValues(inputs, tensors);
    const request = this.client.withLease({...options, inputs: Object.keys(values).length > 0 ? values : undefined});
    const repeat = options.seq !== undefined;
    return this.client.readResult(
      await this.client.send("POST", address("programs", name, "/run"), request, tensors, {signal, repeat}),
    );
  }

  /** The state: Tensors by name, what optimisers remember and `rng` among them. */
  state(name, options) {
    return this.client.fetchTensors(address("programs", name, "/state"), options);
  }

  /** Replace the state, whole. */
  async setState(name, values, {signal} = {}) {
    const tensors = this.client.makeTensors();
    const state = encodeValues(values, tensors);
    const request = this.client.withLease(Object.keys(state).length > 0 ? {state} : {});
    const headers = {Accept: "application/json"};
    await this.client.send("PUT", address("programs", name, "/state"), request, tensors, {headers, signal});
  }

  /**
   * Make the state as it is now a version of a hosted model, without a copy: {model, version, steps}.
   *
   * target: {model, version, entry}; entry: which one answers, by default the only one or `main`
   */
  promote(name, target, options) {
    return this.client.call("POST", address("programs", name, "/promote"), target, options);
  }

  /** How an entry is computed: its nodes, its kernels and which node went into which. */
  plan(name, {entry, ...options} = {}) {
    return this.client.call("GET", address("programs", name, "/plan", {entry}), undefined, options);
  }
}
