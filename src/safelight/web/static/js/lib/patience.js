// Waits, longer after each failure, and never as long as another page that lost the same server.
const SHORTEST = 500;
const LONGEST = 5_000;

export class Patience {
  #failures = 0;
  #timer = null;
  #done = null;
  #ended = Promise.resolve();

  // Returns when it will be over; `seconds` are those that the server asked for.
  begin(seconds) {
    this.hurry();
    const longest = Math.min(LONGEST, SHORTEST * 2 ** this.#failures);
    const pause = seconds ? seconds * 1_000 : longest * (0.5 + Math.random() / 2);
    this.#failures += 1;
    this.#ended = new Promise((resolve) => {
      this.#done = resolve;
      this.#timer = setTimeout(resolve, pause);
    });
    return Date.now() + pause;
  }

  end() {
    return this.#ended;
  }

  hurry() {
    clearTimeout(this.#timer);
    this.#done?.();
  }

  forget() {
    this.#failures = 0;
  }
}
