// Which images are ticked. `onChange` hears of every change.
export class Selection {
  #names = new Set();
  #last = null;
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  get names() {
    return [...this.#names];
  }

  get size() {
    return this.#names.size;
  }

  has(name) {
    return this.#names.has(name);
  }

  toggle(name, isOn = !this.#names.has(name)) {
    this.#last = name;
    this.#set([name], isOn);
  }

  // From the one that was ticked last to this one.
  reach(name, tiles) {
    const [here, there] = [name, this.#last ?? name].map((one) => tiles.findIndex((tile) => tile.name === one));
    const [from, to] = [Math.min(here, there), Math.max(here, there)];
    this.#last = name;
    this.#set(tiles.slice(Math.max(from, 0), to + 1).map((tile) => tile.name), true);
  }

  // All of them; none of them, if all are ticked already.
  toggleAll(names) {
    this.#set(names, !names.every((name) => this.#names.has(name)));
  }

  drop(names) {
    if (names.some((name) => this.#names.has(name))) this.#set(names, false);
  }

  clear() {
    this.#last = null;
    this.#set(this.names, false);
  }

  #set(names, isOn) {
    names.forEach((name) => (isOn ? this.#names.add(name) : this.#names.delete(name)));
    this.#onChange();
  }
}
