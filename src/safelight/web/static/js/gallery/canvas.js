// Draws what can be seen of the shelf, and a screen more on either side. Everything is moved by
// transforms, so that nothing of the page is laid out anew when things come and go.
import { extend, justify, rowAt } from "./justify.js";
import { daysInWords, fill, sharpen, show } from "./tile.js";
import { View } from "./view.js";

const REST = 250; // milliseconds without scrolling
const FRAME = 6; // milliseconds of one
const CAPTION = 48;

export class Canvas {
  #list;
  #forms;
  #shelf;
  #shown = new Map(); // tile, or key of a heading → element
  #rest;
  #frame;
  #isScrolled = false; // until then, what lies below is not asked for
  rows = [];
  options;
  decorate = () => {};

  constructor(list, forms, shelf, options) {
    this.#list = list;
    this.#forms = forms;
    this.#shelf = shelf;
    this.options = options;
    this.view = new View(list, shelf);
    list.replaceChildren();
    list.dataset.laid = "";
  }

  stop() {
    clearTimeout(this.#rest);
    cancelAnimationFrame(this.#frame);
  }

  // The names below a heading.
  below(day) {
    const { from, to } = this.rows.find((row) => row.day === day) ?? { from: 0, to: 0 };
    return this.#shelf.tiles.slice(from, to).map((tile) => tile.name);
  }

  element(tile) {
    return this.#shown.get(tile);
  }

  // What is looked at stays where it is, whatever was put in above it or taken away.
  lay({ anchored = true } = {}) {
    const anchor = anchored ? this.view.anchor() : null;
    this.#show(justify(this.#shelf.tiles, this.#measures()), anchor);
  }

  // Tiles were added behind the last.
  extend() {
    this.#show(extend(this.#shelf.tiles, this.rows, this.#measures()));
  }

  #measures() {
    const width = this.#list.clientWidth;
    const height = width < 640 ? 130 : width < 1100 ? 190 : 225;
    const { days, captions } = this.options;
    return { width, height, caption: captions ? CAPTION : 0, days };
  }

  #show({ rows, total }, anchor) {
    this.rows = rows;
    this.#list.style.height = `${total}px`;
    if (anchor) this.view.keep(anchor);
    this.draw();
  }

  scrolled() {
    this.#isScrolled = true;
    this.soon();
  }

  soon() {
    this.#frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = null;
    const wanted = this.#wanted();
    for (const [key, element] of this.#shown) {
      if (wanted.has(key) || element.contains(document.activeElement)) continue;
      element.remove();
      this.#shown.delete(key);
    }
    if (!this.#makeSome(wanted)) this.soon();
    let place = this.#list.firstElementChild;
    const isSeen = this.view.test();
    for (const [key, item] of wanted) {
      const element = this.#shown.get(key);
      if (!element) continue;
      if (key === item && isSeen(item)) show(element);
      if (element === place) place = place.nextElementSibling;
      else this.#list.insertBefore(element, place);
      set(element, item);
      if (key !== item) name(element, item);
    }
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => this.#sharpen(), REST);
  }

  // What can be seen at once, the screens beyond it as there is time. False: some are still to make.
  #makeSome(wanted) {
    const until = performance.now() + FRAME;
    const missing = [...wanted].filter(([key]) => !this.#shown.has(key));
    const isSeen = this.view.test();
    for (const [key, item] of missing) if (isSeen(item)) this.#make(key, item);
    for (const [key, item] of missing) {
      if (performance.now() > until) return false;
      if (!this.#shown.has(key)) this.#make(key, item);
    }
    return true;
  }

  #wanted() {
    const from = scrollY - this.view.top - innerHeight;
    const until = from + 3 * innerHeight;
    const wanted = new Map();
    for (let at = rowAt(this.rows, from); at < this.rows.length && this.rows[at].y < until; at += 1) {
      const row = this.rows[at];
      if ("day" in row) wanted.set(row.day, { ...row, x: 0, w: this.#list.clientWidth, h: row.height });
      else for (let i = row.from; i < row.to; i += 1) wanted.set(this.#shelf.tiles[i], this.#shelf.tiles[i]);
    }
    return wanted;
  }

  #make(key, item) {
    const isTile = key === item;
    const element = this.#forms.make(isTile ? "tile" : "day");
    this.#shown.set(key, element);
    if (isTile) this.refresh(key);
    else element.dataset.day = key;
    return element;
  }

  refresh(tile) {
    const element = this.#shown.get(tile);
    if (!element) return;
    fill(element, tile, this.#forms);
    this.decorate(element, tile);
    this.soon();
  }

  redecorate() {
    for (const [key, element] of this.#shown) if (typeof key === "object") this.decorate(element, key);
  }

  forget(tile) {
    this.#shown.get(tile)?.remove();
    this.#shown.delete(tile);
  }

  #sharpen() {
    const isSeen = this.view.test();
    for (const [tile, element] of this.#shown) {
      if (typeof tile !== "object") continue;
      if (this.#isScrolled) show(element);
      if (isSeen(tile)) sharpen(element, tile);
    }
  }
}

function name(heading, { day, until }) {
  const words = daysInWords(day, until);
  const place = heading.querySelector(".day__name");
  if (place.textContent === words) return;
  place.textContent = words;
  heading.querySelector(".day__pick span").textContent = until === day ? "Select day" : "Select these";
}

function set({ style }, { x, y, w, h }) {
  style.transform = `translate(${x}px, ${y}px)`;
  style.width = `${w}px`;
  style.height = `${h}px`;
}
