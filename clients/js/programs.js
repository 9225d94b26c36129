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

  /** The description of a program: its inputs, outputs and state. */
  get(name, options) {
    return this.client.call("GET", address("programs", name), undefined, options);
  }

  /**
   * Defines a program and its state. Returns the description.
   *
   * program: a Program, or a document of the wire; the values of its state may be Tensors
   * ifAbsent: if there is a program of this name, throw BeamlineError of status 412 instead of replacing the program
   * durable: the program survives a restart of the server
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

  /** Removes a program and its state. */
  delete(name, options) {
    return this.client.call("DELETE", address("programs", name), undefined, options);
  }

  /**
   * Runs steps of a program. Returns {outputs, stats, kept, collected}, as Client.run; outputs are those of the last step.
   *
   * inputs: values by name; numbers get the dtype that the program declares. A typed array is a vector: Tensor.from(array, {shape})
   *     gives it another shape
   * options: members of the request: entry, steps, collect ({every, outputs}), keep, debug, timeout_ms, priority, sizes, dry_run
   * seq: the number of this run: 1, then one more than the number of the last run (for each program and key). If the connection breaks,
   *     the request is repeated, and the run is applied once
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

  /** The state: Tensors by name, with the state of the optimisers and `rng`. */
  state(name, options) {
    return this.client.fetchTensors(address("programs", name, "/state"), options);
  }

  /** Replaces the whole state. */
  async setState(name, values, {signal} = {}) {
    const tensors = this.client.makeTensors();
    const state = encodeValues(values, tensors);
    const request = this.client.withLease(Object.keys(state).length > 0 ? {state} : {});
    const headers = {Accept: "application/json"};
    await this.client.send("PUT", address("programs", name, "/state"), request, tensors, {headers, signal});
  }

  /**
   * Makes the present state a version of a hosted model, without a copy. Returns {model, version, steps}.
   *
   * target: {model, version, entry}; entry: the entry that the model runs, by default the only one or `main`
   */
  promote(name, target, options) {
    return this.client.call("POST", address("programs", name, "/promote"), target, options);
  }

  /** The plan of an entry: its nodes, its kernels, and the kernels of each node. */
  plan(name, {entry, ...options} = {}) {
    return this.client.call("GET", address("programs", name, "/plan", {entry}), undefined, options);
  }
}
