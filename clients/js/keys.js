// SPDX-License-Identifier: MIT
// Keys and shares, of a server that several people use.
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

  /** Make a key of {name, scopes, ttl, quotas}; gives its secret, which the server tells this once. */
  async create(key, options) {
    return (await this.client.call("POST", address("keys"), key, options)).key;
  }

  /** Change what `changes`, {scopes, ttl, quotas}, says of a key; gives the key. null takes an expiry or a quota away. */
  change(name, changes, options) {
    return this.client.call("PUT", address("keys", name), changes, options);
  }

  /** A new secret in place of the old one. */
  async rotate(name, options) {
    return (await this.client.call("POST", address("keys", name, "/rotate"), undefined, options)).key;
  }

  /** Make a key good for nothing. purge: what it holds goes too */
  revoke(name, {purge, ...options} = {}) {
    return this.client.call("DELETE", address("keys", name, "", {purge}), undefined, options);
  }
}

/** What a key shares with others: `client.shares`. A thing is {tensor: "NAME"}, or program, model or job. */
export class Shares {
  constructor(client) {
    this.client = client;
  }

  /** {given, taken}: what this key shares, and what is shared with it. */
  list(options) {
    return this.client.call("GET", address("shares"), undefined, options);
  }

  /** Let another key, or "*" for every one, read a thing; its name there is OWNER:NAME. */
  add(thing, to, options) {
    return this.client.call("POST", address("shares"), {...thing, to}, options);
  }

  /** Take that back. */
  remove(thing, to, options) {
    return this.client.call("DELETE", address("shares", undefined, "", {...thing, to}), undefined, options);
  }
}
