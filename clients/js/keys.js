// SPDX-License-Identifier: MIT
// Keys and shares of a server with several users.
import {address} from "./address.js";

/** The keys of a server: `client.keys`, for the scope admin. */
export class Keys {
  constructor(client) {
    this.client = client;
  }

  /** The keys, without their secrets: a list of {name, hint, scopes, created, quotas, expires, revoked}. */
  async list(options) {
    return (await this.client.call("GET", address("keys"), undefined, options)).keys;
  }

  /** Makes a key of {name, scopes, ttl, quotas}; returns its secret, which cannot be read again. */
  async create(key, options) {
    return (await this.client.call("POST", address("keys"), key, options)).key;
  }

  /** Changes a key by {scopes, ttl, quotas}; returns the key. null removes an expiry or a quota. */
  change(name, changes, options) {
    return this.client.call("PUT", address("keys", name), changes, options);
  }

  /** Replaces the secret of a key; returns the new secret. */
  async rotate(name, options) {
    return (await this.client.call("POST", address("keys", name, "/rotate"), undefined, options)).key;
  }

  /** Revokes a key. purge: also delete the data of the key */
  revoke(name, {purge, ...options} = {}) {
    return this.client.call("DELETE", address("keys", name, "", {purge}), undefined, options);
  }
}

/** The shares of a key: `client.shares`. A thing is {tensor: "NAME"}, {program}, {model} or {job}. */
export class Shares {
  constructor(client) {
    this.client = client;
  }

  /** {given, taken}: the things that this key shares, and the things that others share with this key. */
  list(options) {
    return this.client.call("GET", address("shares"), undefined, options);
  }

  /** Shares a thing with another key, or with every key ("*"), for reading; its name for the other key is OWNER:NAME. */
  add(thing, to, options) {
    return this.client.call("POST", address("shares"), {...thing, to}, options);
  }

  /** Ends a share. */
  remove(thing, to, options) {
    return this.client.call("DELETE", address("shares", undefined, "", {...thing, to}), undefined, options);
  }
}
