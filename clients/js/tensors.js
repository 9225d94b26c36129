// SPDX-License-Identifier: MIT
// Tensors that the server holds.
import {address} from "./address.js";
import {Tensor} from "./tensor.js";

/** The held tensors of a client: `client.tensors`. {tensor: "NAME"} is a held tensor as an input or a state. */
export class Tensors {
  constructor(client) {
    this.client = client;
  }

  path(name = undefined, query = {}) {
    return address("tensors", name, "", {...query, lease: this.client.leaseId});
  }

  /**
   * Holds a tensor under a name.
   *
   * value: numbers, nested lists, a typed array or a Tensor; or {file} or {blob: digest} with the options of docs/data.md: then the
   *     server reads the tensor from a file or blob that it has
   * dtype, shape: as of Tensor.from     device: the device that holds it     durable: it is on the disk before the call returns
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

  /** The numbers of a held tensor. Throws BeamlineError of status 404 if there is no tensor of this name. */
  async get(name, {signal} = {}) {
    const [tensor] = Object.values(await this.client.fetchTensors(this.path(name), {signal}));
    return tensor;
  }

  /** The held tensors: a list of {name, dtype, shape, bytes, device, ...}. */
  async list(options) {
    return (await this.client.call("GET", this.path(), undefined, options)).tensors;
  }

  /** Frees one tensor, or the tensors of a list of names; names in a list that are not held are ignored. */
  async delete(names, options) {
    if (Array.isArray(names)) await this.client.call("POST", this.path("delete"), {names}, options);
    else await this.client.call("DELETE", this.path(names), undefined, options);
  }
}
