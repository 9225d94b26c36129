// SPDX-License-Identifier: MIT
// Blobs: bytes on the server, named by their SHA-256. An upload that breaks off is resumed.
import {address} from "./address.js";
import {pause, sleep} from "./connection.js";
import {ConnectionError} from "./errors.js";
import {Sha256} from "./sha256.js";
import {toBytes} from "./values.js";

const PIECE = 16 << 20; // bytes of a request: no more are sent again where a connection breaks
const OCTETS = "application/octet-stream";

/** The blobs of a client: `client.blobs`. A digest is "sha256:" and 64 hexadecimal digits. */
export class Blobs {
  constructor(client) {
    this.client = client;
  }

  /** The blobs of this key: a list of {digest, bytes, created}. */
  async list(options) {
    return (await this.client.call("GET", address("blobs"), undefined, options)).blobs;
  }

  /** Whether the server has a blob from this key. */
  async exists(digest, {signal} = {}) {
    try {
      await this.client.connection.request("HEAD", address("blobs", digest), {signal});
      return true;
    } catch (error) {
      if (error.status !== 404) throw error;
      return false;
    }
  }

  /** The bytes of a blob, as a Uint8Array. */
  async get(digest, {signal} = {}) {
    return (await this.client.connection.request("GET", address("blobs", digest), {signal})).bytes;
  }

  /** Removes a blob, or an unfinished upload. */
  delete(digest, options) {
    return this.client.call("DELETE", address("blobs", digest), undefined, options);
  }

  /**
   * Sends bytes, unless the server has them from this key. Returns their digest.
   *
   * data: a Blob or File of the browser or of Node, a typed array, an ArrayBuffer or a text
   * progress: called with (bytes received, bytes in all) after each 16 MiB
   * If the connection breaks, or an earlier upload of the last day broke off, the upload is resumed after the bytes that the server has.
   */
  async upload(data, {progress = () => {}, signal} = {}) {
    const source = data instanceof Blob ? data : new Blob([toBytes(data)]);
    const digest = await digestOf(source, signal);
    if (!(await this.exists(digest, {signal}))) await this.sendAll(digest, source, progress, signal);
    return digest;
  }

  async sendAll(digest, source, progress, signal) {
    let done = source.size === 0 ? 0 : undefined; // unknown: the server is asked
    let failures = 0;
    do {
      try {
        done =
          done === undefined
            ? await this.received(digest, source.size, signal)
            : await this.sendPiece(digest, source, done, signal);
        progress(done, source.size);
        failures = 0;
      } catch (error) {
        // 409: the server may not know yet that the broken connection has ended
        const passing = error instanceof ConnectionError || error.status === 409;
        if (!passing || ++failures > this.client.connection.retries) throw error;
        await sleep(pause(failures), signal);
        done = undefined;
      }
    } while (done === undefined || done < source.size);
  }

  async received(digest, size, signal) {
    return (await this.send(digest, undefined, `bytes */${size}`, signal)).received;
  }

  async sendPiece(digest, source, done, signal) {
    const piece = await source.slice(done, done + PIECE).arrayBuffer();
    const place = source.size === 0 ? undefined : `bytes ${done}-${done + piece.byteLength - 1}/${source.size}`;
    return (await this.send(digest, piece, place, signal)).received;
  }

  /** Sends bytes; `place` is their Content-Range, undefined if they are the whole blob. */
  async send(digest, body, place, signal) {
    const headers = {"Content-Type": OCTETS, ...(place === undefined ? {} : {"Content-Range": place})};
    const {bytes} = await this.client.connection.request("PUT", address("blobs", digest), {body, headers, signal});
    return JSON.parse(new TextDecoder().decode(bytes));
  }
}

async function digestOf(source, signal) {
  const hash = new Sha256();
  for (let at = 0; at < source.size; at += PIECE) {
    signal?.throwIfAborted();
    hash.update(new Uint8Array(await source.slice(at, at + PIECE).arrayBuffer()));
  }
  return `sha256:${hash.hex()}`;
}
