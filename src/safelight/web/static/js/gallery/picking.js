// Ticking tiles, going from one to the next by keys, and where the focus is when some go.
import { listen } from "../lib/keys.js";
import { Selection } from "./selection.js";
import { step } from "./steps.js";

export class Picking {
  #grid;
  #current = null; // the tile that the tab key leads to
  selection;

  constructor(grid, signal) {
    this.#grid = grid;
    this.selection = new Selection(() => this.#changed());
    grid.canvas.decorate = (shot, tile) => this.#decorate(shot, tile);
    const list = grid.querySelector("ul");
    list.addEventListener("click", (event) => this.#click(event), { signal });
    list.addEventListener("focusin", (event) => this.#focused(event.target), { signal });
    list.addEventListener("keydown", (event) => this.#repeat(event), { signal });
    listen(
      {
        ArrowLeft: ["The image before", (event) => this.#move(event)],
        ArrowRight: ["The next image", (event) => this.#move(event)],
        ArrowUp: ["The row above", (event) => this.#move(event)],
        ArrowDown: ["The row below", (event) => this.#move(event)],
        x: ["Select it", () => this.#toggle()],
        " ": ["Select it", (event) => this.#toggle(event)],
        Escape: ["Clear the selection", () => (this.selection.size > 0 ? this.selection.clear() : false)],
      },
      signal,
    );
  }

  get focused() {
    const shot = document.activeElement?.closest("image-grid .shot");
    return shot ? this.#grid.shelf.named(shot.dataset.name) : undefined;
  }

  focus(tile, { isScrolling = true } = {}) {
    if (isScrolling) this.#grid.canvas.view.reveal(tile);
    this.#grid.canvas.draw();
    this.#grid.canvas.element(tile)?.querySelector("a").focus({ preventScroll: true });
  }

  focusFirst() {
    const [first] = this.#grid.shelf.tiles;
    if (first) this.focus(first);
    else this.#grid.querySelector("[data-heading]").focus();
  }

  // Takes tiles away; the focus one of them held goes to a neighbour. Returns what it took.
  remove(names) {
    const { shelf, canvas } = this.#grid;
    const gone = names.map((name) => shelf.named(name)).filter(Boolean);
    const held = this.focused;
    const heir = gone.includes(held) ? this.#neighbour(held, new Set(gone)) : undefined;
    shelf.remove(names);
    gone.forEach((tile) => canvas.forget(tile));
    this.#grid.settle();
    this.selection.drop(names);
    if (heir) this.focus(heir);
    else if (gone.includes(held)) this.#grid.querySelector("[data-heading]").focus();
    return gone;
  }

  #neighbour({ index }, gone) {
    const { tiles } = this.#grid.shelf;
    return tiles.slice(index).find((tile) => !gone.has(tile)) ?? tiles.slice(0, index).findLast((tile) => !gone.has(tile));
  }

  #decorate(shot, tile) {
    const isPicked = this.selection.has(tile.name);
    shot.toggleAttribute("data-picked", isPicked);
    const [link, pick] = [shot.querySelector("a"), shot.querySelector(".shot__pick")];
    pick.checked = isPicked;
    this.#current ??= tile;
    link.tabIndex = pick.tabIndex = tile === this.#current ? 0 : -1;
  }

  #changed() {
    this.#grid.canvas.redecorate();
    this.#grid.toggleAttribute("data-picking", this.selection.size > 0);
    this.#grid.dispatchEvent(new CustomEvent("picked", { bubbles: true, detail: this.selection.names }));
  }

  #focused(element) {
    const tile = this.#grid.shelf.named(element.closest(".shot")?.dataset.name);
    if (!tile || tile === this.#current) return;
    this.#current = tile;
    this.#grid.canvas.redecorate();
  }

  // Once scrolled away, the tab key leads to what is seen.
  lookAround() {
    if (this.#grid.canvas.element(this.#current)) return;
    this.#current = this.#grid.canvas.view.anchor()?.tile ?? null;
    this.#grid.canvas.redecorate();
  }

  #click(event) {
    const day = event.target.closest("[data-verb=day]")?.closest(".day").dataset.day;
    const { tiles } = this.#grid.shelf;
    if (day) return this.selection.toggleAll(this.#grid.canvas.below(Number(day)));
    const { name } = event.target.closest(".shot")?.dataset ?? {};
    if (!name) return;
    if (event.target.matches(".shot__pick")) {
      if (event.shiftKey) this.selection.reach(name, tiles);
      else this.selection.toggle(name, event.target.checked);
    } else this.#open(event, name, tiles);
  }

  // With something ticked, a pointer goes on ticking; Enter opens.
  #open(event, name, tiles) {
    if (event.ctrlKey || event.metaKey) return;
    const isPicking = event.shiftKey || (this.selection.size > 0 && event.detail > 0);
    if (!isPicking) return this.#grid.remember(name);
    event.preventDefault();
    if (event.shiftKey) this.selection.reach(name, tiles);
    else this.selection.toggle(name);
  }

  #toggle(event) {
    const isOwn = document.activeElement?.matches("button, input, summary");
    if (!this.focused || (event && isOwn)) return false;
    this.selection.toggle(this.focused.name);
  }

  // Held down, an arrow key goes on.
  #repeat(event) {
    if (event.repeat && event.key.startsWith("Arrow") && this.#move(event) !== false) event.preventDefault();
  }

  #move({ key, shiftKey }) {
    const from = this.focused;
    const to = from && step(this.#grid.shelf.tiles, from, key);
    if (!to) return false;
    if (shiftKey && !this.selection.has(from.name)) this.selection.toggle(from.name, true);
    this.focus(to);
    if (shiftKey) this.selection.toggle(to.name, true);
  }
}
