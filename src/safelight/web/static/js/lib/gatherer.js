// Collects names for a moment and hands them over in batches, one batch at a time. A batch that
// fails comes again.
const GATHER = 80; // news come in flurries
const AT_ONCE = 20;
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

  async #flush() {
    const batch = [...this.#names].slice(0, AT_ONCE);
    batch.forEach((name) => this.#names.delete(name));
    let pause = GATHER;
    try {
      await this.#handle(batch);
    } catch {
      batch.forEach((name) => this.#names.add(name));
      pause = AFTER_FAILURE;
    }
    const isStopped = this.#timer === null;
    const isMore = this.#names.size > 0 && !isStopped;
    this.#timer = isMore ? setTimeout(() => this.#flush(), pause) : null;
  }
}
