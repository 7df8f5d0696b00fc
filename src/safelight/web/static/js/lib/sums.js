// Checksums of files, read in a worker; on the page itself where no worker will start.
import { sumOf } from "./sha256.js";

export class Sums {
  #address;
  #worker = null;
  #isAway = false;
  #asked = new Map(); // id → { file, resolve, reject }
  #last = 0;

  constructor(address) {
    this.#address = address;
  }

  of(file) {
    return new Promise((resolve, reject) => {
      this.#last += 1;
      this.#asked.set(this.#last, { file, resolve, reject });
      if (this.#isAway) this.#here(this.#last);
      else this.#started().postMessage({ id: this.#last, file });
    });
  }

  stop() {
    this.#worker?.terminate();
    this.#worker = null;
  }

  #started() {
    if (this.#worker) return this.#worker;
    this.#worker = new Worker(this.#address, { type: "module" });
    this.#worker.addEventListener("message", ({ data }) => this.#answer(data));
    this.#worker.addEventListener("error", () => {
      this.#isAway = true;
      for (const id of this.#asked.keys()) this.#here(id);
    });
    return this.#worker;
  }

  async #here(id) {
    try {
      this.#answer({ id, sum: await sumOf(this.#asked.get(id).file) });
    } catch (error) {
      this.#answer({ id, problem: error.name });
    }
  }

  #answer({ id, sum, problem }) {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    if (sum) asked?.resolve(sum);
    else asked?.reject(new DOMException("The file could not be read.", problem));
  }
}
