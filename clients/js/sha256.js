// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4) of a sequence of pieces. Web Crypto has no such digest, and a page without TLS has no Web Crypto.

const ROUNDS = fractions(64, 1 / 3); // of the cube roots of the first 64 primes
const START = fractions(8, 1 / 2); // of the square roots of the first 8

/** The first 32 bits of the fractions of roots of the first primes. */
function fractions(count, power) {
  const primes = [];
  for (let n = 2; primes.length < count; n++) {
    if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  }
  return Int32Array.from(primes, (prime) => (prime ** power % 1) * 2 ** 32);
}

/** An incremental digest. */
export class Sha256 {
  constructor() {
    this.state = Int32Array.from(START);
    this.words = new Int32Array(64);
    this.rest = new Uint8Array(64);
    this.length = 0;
  }

  /** Adds bytes. */
  update(bytes) {
    let at = 0;
    const filled = this.length % 64;
    this.length += bytes.length;
    if (filled > 0) {
      at = Math.min(64 - filled, bytes.length);
      this.rest.set(bytes.subarray(0, at), filled);
      if (filled + at < 64) return this;
      this.compress(this.rest, 0);
    }
    for (; at + 64 <= bytes.length; at += 64) this.compress(bytes, at);
    this.rest.set(bytes.subarray(at), 0);
    return this;
  }

  /** The digest in hexadecimal digits. Ends the object: no update may follow. */
  hex() {
    const bits = BigInt(this.length) * 8n;
    const padding = new Uint8Array(((119 - (this.length % 64)) % 64) + 9);
    padding[0] = 0x80;
    new DataView(padding.buffer).setBigUint64(padding.length - 8, bits);
    this.update(padding);
    return Array.from(this.state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  compress(bytes, at) {
    const w = this.words;
    for (let i = 0; i < 16; i++) {
      const byte = at + 4 * i;
      w[i] = (bytes[byte] << 24) | (bytes[byte + 1] << 16) | (bytes[byte + 2] << 8) | bytes[byte + 3];
    }
    for (let i = 16; i < 64; i++) {
      const a = w[i - 15];
      const b = w[i - 2];
      w[i] =
        (w[i - 16] +
          (rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3)) +
          w[i - 7] +
          (rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10))) |
        0;
    }
    this.mix(w);
  }

  mix(w) {
    const s = this.state;
    let a = s[0],
      b = s[1],
      c = s[2],
      d = s[3],
      e = s[4],
      f = s[5],
      g = s[6],
      h = s[7];
    for (let i = 0; i < 64; i++) {
      const one = (h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const two = ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    s[0] += a;
    s[1] += b;
    s[2] += c;
    s[3] += d;
    s[4] += e;
    s[5] += f;
    s[6] += g;
    s[7] += h;
  }
}

function rotate(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}
