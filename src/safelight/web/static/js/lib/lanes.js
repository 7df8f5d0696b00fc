// At most so many tasks at once, each started in its turn.
export class Lanes {
  #free;
  #waiting = [];

  constructor(count) {
    this.#free = count;
  }

  run(task) {
    this.#waiting.push(task);
    this.#next();
  }

  #next() {
    while (this.#free > 0 && this.#waiting.length > 0) {
      this.#free -= 1;
      this.#waiting.shift()().finally(() => {
        this.#free += 1;
        this.#next();
      });
    }
  }
}
