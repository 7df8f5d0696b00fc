// Collects names for a moment and hands them over in batches, one batch at a time. A batch comes again
// when it failed, unless the server refused it: it would do so again.
const GATHER = 80; // news come in flurries
const AT_ONCE = 20;
const LONGEST = 4_000; // characters of an address; names can be long
const AFTER_FAILURE = 2_000;

export class Gatherer {
  #names = new Set();
  #handle;
  #timer = null;

  constructor(handle) {
    this.#handle = handle;
  }

  add(name) {
    this.#names.add(name);
    this.#timer ??= setTimeout(() => this.#flush(), GATHER);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  #take() {
    const batch = [];
    let length = 0;
    for (const name of this.#names) {
      length += encodeURIComponent(name).length;
      if (batch.length === AT_ONCE || (batch.length > 0 && length > LONGEST)) break;
      batch.push(name);
      this.#names.delete(name);
    }
    return batch;
  }

  async #flush() {
    const batch = this.#take();
    let pause = GATHER;
    try {
      await this.#handle(batch);
    } catch (error) {
      if (!(error.status >= 400 && error.status < 500)) batch.forEach((name) => this.#names.add(name));
      pause = AFTER_FAILURE;
    }
    const isStopped = this.#timer === null;
    const isMore = this.#names.size > 0 && !isStopped;
    this.#timer = isMore ? setTimeout(() => this.#flush(), pause) : null;
  }
}
