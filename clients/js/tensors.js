// SPDX-License-Identifier: MIT
// Tensors that the server holds.
import {address} from "./address.js";
import {Tensor} from "./tensor.js";

/** The held tensors of a client: `client.tensors`. As an input or a state one is {tensor: "NAME"}. */
export class Tensors {
  constructor(client) {
    this.client = client;
  }

  path(name = undefined, query = {}) {
    return address("tensors", name, "", {...query, lease: this.client.leaseId});
  }

  /**
   * Hold a tensor under a name.
   *
   * value: numbers, nested lists, a typed array or a Tensor; or {file} or {blob: digest} and options of docs/data.md, of which the server
   *     makes a tensor of bytes that it has
   * dtype, shape: as of Tensor.from     device: where     durable: it is on the disk before the call returns
   */
  async put(name, value, {dtype, shape, device, durable, signal} = {}) {
    if (value?.file !== undefined || value?.blob !== undefined) {
      await this.client.call("PUT", this.path(name, {device, durable}), value, {signal});
      return;
    }
    const tensor = Tensor.from(value, {dtype, shape});
    await this.client.connection.request(
      "PUT",
      this.path(name, {dtype: tensor.dtype, shape: tensor.shape.join(","), device, durable}),
      {
        body: tensor.bytes,
        headers: {"Content-Type": "application/octet-stream"},
        signal,
      },
    );
  }

  /** A held tensor. BeamlineError of status 404 where there is none of that name. */
  async get(name, {signal} = {}) {
    const [tensor] = Object.values(await this.client.fetchTensors(this.path(name), {signal}));
    return tensor;
  }

  /** The held tensors: a list of {name, dtype, shape, bytes, device, ...}. */
  async list(options) {
    return (await this.client.call("GET", this.path(), undefined, options)).tensors;
  }

  /** Free a tensor, or a list of names: of a list, those that are there. */
  async delete(names, options) {
    if (Array.isArray(names)) await this.client.call("POST", this.path("delete"), {names}, options);
    else await this.client.call("DELETE", this.path(names), undefined, options);
  }
}
