// How fast bytes go, from those of the last seconds.
const WINDOW = 10_000;
const LEAST = 1_500;

export class Pace {
  #seen = []; // [moment, bytes]

  add(bytes, now = performance.now()) {
    this.#seen.push([now, bytes]);
    while (this.#seen.length > 0 && this.#seen[0][0] < now - WINDOW) this.#seen.shift();
  }

  forget() {
    this.#seen = [];
  }

  // Seconds that so many bytes will take, or null while that would be a guess.
  left(bytes, now = performance.now()) {
    const span = this.#seen.length > 1 ? now - this.#seen[0][0] : 0;
    if (span < LEAST) return null;
    const gone = this.#seen.reduce((sum, [, some]) => sum + some, 0);
    return gone > 0 ? ((bytes / gone) * span) / 1_000 : null;
  }
}
