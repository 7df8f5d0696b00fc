// The gallery. The first tiles come with the page; the others are asked for as they come near, in
// windows that follow each other without gap. What is seen of them is drawn by gallery/canvas.js.
import { Canvas } from "../gallery/canvas.js";
import { Following } from "../gallery/following.js";
import { Picking } from "../gallery/picking.js";
import { keep, kept } from "../gallery/place.js";
import { Shelf } from "../gallery/shelf.js";
import { Source } from "../gallery/source.js";
import { Forms, read } from "../gallery/tile.js";
import { say } from "../lib/toast.js";

const AHEAD = 4; // screens
const AGAIN = 3_000; // after a window that did not come
const WATCHED = 80; // so near to the top, new ones may come in

class ImageGrid extends HTMLElement {
  #leaving;
  #loading = null;
  #saving;
  #opened;
  #older;
  #newer;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    const { here, query, older, newer } = this.dataset;
    const first = [...this.querySelectorAll("[data-tile]")].map(read);
    this.shelf = new Shelf();
    this.source = new Source(here, query);
    const options = { days: !this.isStill, captions: localStorage.getItem("captions") === "true" };
    this.canvas = new Canvas(this.querySelector("ul"), new Forms(this), this.shelf, options);
    this.picking = new Picking(this, signal);
    this.following = new Following(this, signal);
    this.#take({ tiles: first, older, newer });
    addEventListener("scroll", () => this.#scrolled(), { signal, passive: true });
    document.addEventListener("captions", (event) => this.#caption(event.detail), { signal });
    const seen = new ResizeObserver(() => this.canvas.lay());
    seen.observe(this);
    signal.addEventListener("abort", () => seen.disconnect());
    history.scrollRestoration = "manual";
    this.#comeBack();
  }

  disconnectedCallback() {
    this.#leaving.abort();
    this.canvas.stop();
    clearTimeout(this.#saving);
  }

  // Ordered by something else than time; nothing comes in.
  get isStill() {
    return "still" in this.dataset;
  }

  get isWatched() {
    return scrollY < WATCHED && !this.#newer && !this.isStill;
  }

  get isOpenEnded() {
    return Boolean(this.#older);
  }

  // Other filters, or the newest again.
  async show(query = this.source.query) {
    this.source.query = query;
    await this.#open(() => this.source.newest());
  }

  // From that moment on; what is newer stands above it.
  async jump(moment) {
    await this.#open(() => this.source.at(moment));
    await this.#load("newer");
  }

  settle({ anchored = true, isExtended = false } = {}) {
    if (isExtended) this.canvas.extend();
    else this.canvas.lay({ anchored });
    const isEmpty = this.shelf.tiles.length === 0 && !this.#older && !this.#newer;
    const kind = new URLSearchParams(this.source.query).size > 0 ? "matches" : "images";
    for (const part of this.querySelectorAll("[data-empty]")) {
      part.hidden = !isEmpty || part.dataset.empty !== kind;
    }
    this.#lookAhead();
  }

  async #open(ask) {
    const loading = (this.#loading = ask());
    try {
      const window = await loading;
      if (loading !== this.#loading) return; // something else was asked for since
      this.following.forget();
      this.shelf.clear();
      scrollTo({ top: 0, behavior: "instant" });
      this.#take(window);
    } catch (error) {
      say(error.message);
    } finally {
      if (loading === this.#loading) this.#loading = null;
    }
    this.#lookAhead();
  }

  #take({ tiles, older, newer }) {
    this.#older = older;
    this.#newer = newer;
    this.shelf.append(tiles);
    this.settle({ anchored: false });
  }

  async #load(end) {
    const cursor = end === "older" ? this.#older : this.#newer;
    if (!cursor || this.#loading) return;
    const loading = (this.#loading = this.source[end](cursor));
    try {
      const window = await loading;
      if (loading !== this.#loading) return;
      if (end === "older") this.#older = window.older;
      else this.#newer = window.newer;
      if (end === "older") this.shelf.append(this.following.allowed(window.tiles));
      else this.shelf.prepend(this.following.allowed(window.tiles));
      this.#loading = null;
      this.settle({ isExtended: end === "older" });
    } catch {
      if (loading === this.#loading) setTimeout(() => this.isConnected && this.#retry(), AGAIN);
    }
  }

  #retry() {
    this.#loading = null;
    this.#lookAhead();
  }

  #lookAhead() {
    const { top, rows } = this.canvas;
    const end = rows.length > 0 ? rows.at(-1).y + rows.at(-1).height : 0;
    if (top + end - scrollY < (1 + AHEAD) * innerHeight) this.#load("older");
    else if (scrollY - top < AHEAD * innerHeight) this.#load("newer");
  }

  #scrolled() {
    this.canvas.scrolled();
    this.#lookAhead();
    if (this.isWatched) this.following.letIn();
    clearTimeout(this.#saving);
    this.#saving = setTimeout(() => this.remember(), 200);
  }

  // `name` is what was opened, for the focus to return to.
  remember(name = this.#opened) {
    clearTimeout(this.#saving);
    this.#opened = name;
    const { tile, offset } = this.canvas.anchor() ?? {};
    keep(tile ? { at: tile.at, anchor: tile.name, offset, top: scrollY < 8, name } : null);
    this.picking.lookAround();
    if (tile) this.dispatchEvent(new CustomEvent("gallery-seen", { bubbles: true, detail: tile.at }));
  }

  // From an image, to where one was.
  async #comeBack() {
    const place = kept();
    if (!place || this.isStill) return;
    if (!place.top && !this.shelf.named(place.anchor) && !this.source.query.includes("q=")) {
      await this.jump(place.at);
    }
    const tile = this.shelf.named(place.anchor);
    if (tile && !place.top) scrollTo({ top: tile.y + this.canvas.top - place.offset, behavior: "instant" });
    this.canvas.draw();
    const opened = this.shelf.named(place.name);
    if (opened) this.picking.focus(opened, { isScrolling: false });
  }

  #caption(isOn) {
    this.canvas.options.captions = isOn;
    this.toggleAttribute("data-captions", isOn);
    this.canvas.lay();
  }
}

customElements.define("image-grid", ImageGrid);
