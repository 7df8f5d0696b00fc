// Which part of the library is on the shelf, and what lies beyond either end of it.
import { say } from "../lib/toast.js";

const AHEAD = 4; // screens
const AGAIN = 3_000; // after a window that did not come

export class Windows {
  #grid;
  #loading = null;
  older;
  newer;

  constructor(grid) {
    this.#grid = grid;
  }

  take({ tiles, older, newer }) {
    this.older = older;
    this.newer = newer;
    this.#grid.shelf.append(tiles);
    this.#grid.settle({ anchored: false });
  }

  // Another part, in place of the one that is here.
  async open(ask) {
    const loading = (this.#loading = ask());
    try {
      const window = await loading;
      if (loading !== this.#loading) return; // something else was asked for since
      this.#loading = null;
      this.#grid.following.forget();
      this.#grid.shelf.clear();
      scrollTo({ top: 0, behavior: "instant" });
      this.take({ ...window, tiles: this.#grid.following.allowed(window.tiles) });
    } catch (error) {
      if (loading === this.#loading) this.#loading = null;
      say(error.message);
    }
  }

  lookAhead() {
    const { view, rows } = this.#grid.canvas;
    const { top } = view;
    const end = rows.length > 0 ? rows.at(-1).y + rows.at(-1).height : 0;
    if (this.newer && scrollY - top < AHEAD * innerHeight) this.load("newer");
    if (top + end - scrollY < (1 + AHEAD) * innerHeight) this.load("older");
  }

  async load(end) {
    const cursor = this[end];
    if (!cursor || this.#loading) return;
    const { source, shelf, following } = this.#grid;
    const loading = (this.#loading = source[end](cursor));
    try {
      const window = await loading;
      if (loading !== this.#loading) return;
      this.#loading = null;
      this[end] = window[end];
      const tiles = following.allowed(window.tiles);
      if (end === "older") shelf.append(tiles);
      else shelf.prepend(tiles);
      this.#grid.settle({ isExtended: end === "older" });
    } catch {
      setTimeout(() => this.#retry(loading), AGAIN);
    }
  }

  #retry(loading) {
    if (loading !== this.#loading || !this.#grid.isConnected) return;
    this.#loading = null;
    this.lookAhead();
  }
}
