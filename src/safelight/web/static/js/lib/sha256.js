// SHA-256 of bytes as they come. Browsers have one of their own, but only for whole buffers, and not at
// all where the page came by plain http.
const STEP = 1_048_576;
const [START, ROUND] = fractions();

export class Sha256 {
  #state = Int32Array.from(START);
  #words = new Int32Array(64);
  #block = new Uint8Array(64);
  #held = 0;
  #length = 0;

  update(bytes) {
    let at = 0;
    this.#length += bytes.length;
    if (this.#held > 0) {
      at = Math.min(64 - this.#held, bytes.length);
      this.#block.set(bytes.subarray(0, at), this.#held);
      this.#held += at;
      if (this.#held < 64) return;
      this.#mix(this.#block, 0);
    }
    for (; at + 64 <= bytes.length; at += 64) this.#mix(bytes, at);
    this.#block.set(bytes.subarray(at));
    this.#held = bytes.length - at;
  }

  // The end: nothing can be added to it.
  hex() {
    const length = this.#length;
    const end = new Uint8Array(length % 64 < 56 ? 64 - (length % 64) : 128 - (length % 64));
    const view = new DataView(end.buffer);
    end[0] = 0x80;
    view.setUint32(end.length - 8, Math.floor(length / 0x20000000));
    view.setUint32(end.length - 4, length << 3);
    this.update(end);
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  #mix(bytes, at) {
    const w = this.#words;
    for (let i = 0; i < 16; i++, at += 4) {
      w[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
    }
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15];
      const y = w[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = this.#state;
    for (let i = 0; i < 64; i++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i] + w[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (this.#state[i] += word));
  }
}

// In pieces, so that no file is ever in memory as a whole.
export async function sumOf(file) {
  const sum = new Sha256();
  for (let at = 0; at < file.size; at += STEP) {
    sum.update(new Uint8Array(await file.slice(at, at + STEP).arrayBuffer()));
  }
  return sum.hex();
}

// What the standard takes of the roots of the first primes: 32 bits behind the point.
function fractions() {
  const bits = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
  const primes = [];
  for (let n = 2; primes.length < 64; n++) {
    if (primes.every((prime) => n % prime)) primes.push(n);
  }
  return [primes.slice(0, 8).map((n) => bits(Math.sqrt(n))), primes.map((n) => bits(Math.cbrt(n)))];
}
