// The gallery. The first tiles come with the page; the others are asked for as they come near, in
// windows that follow each other without gap. What is seen of them is drawn by gallery/canvas.js.
import { Canvas } from "../gallery/canvas.js";
import { Following } from "../gallery/following.js";
import { Picking } from "../gallery/picking.js";
import { keep, kept } from "../gallery/place.js";
import { Shelf } from "../gallery/shelf.js";
import { Source } from "../gallery/source.js";
import { Forms, read } from "../gallery/tile.js";
import { Windows } from "../gallery/windows.js";

const WATCHED = 80; // so near to the top, new ones may come in

class ImageGrid extends HTMLElement {
  #leaving;
  #saving;
  #opened;
  #width;

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
    this.windows = new Windows(this);
    this.windows.take({ tiles: first, older, newer });
    addEventListener("scroll", () => this.#scrolled(), { signal, passive: true });
    document.addEventListener("captions", (event) => this.#caption(event.detail), { signal });
    const seen = new ResizeObserver(([{ contentRect }]) => this.#resized(contentRect.width));
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
    return scrollY < WATCHED && !this.windows.newer && !this.isStill;
  }

  get isOpenEnded() {
    return Boolean(this.windows.older);
  }

  // Other filters, or the newest again.
  async show(query = this.source.query) {
    this.source.query = query;
    await this.windows.open(() => this.source.newest());
  }

  // From that moment on; what is newer stands above it.
  async jump(moment) {
    await this.windows.open(() => this.source.at(moment));
  }

  settle({ anchored = true, isExtended = false } = {}) {
    if (isExtended) this.canvas.extend();
    else this.canvas.lay({ anchored });
    const isEmpty = this.shelf.tiles.length === 0 && !this.windows.older && !this.windows.newer;
    const kind = new URLSearchParams(this.source.query).size > 0 ? "matches" : "images";
    for (const part of this.querySelectorAll("[data-empty]")) {
      part.hidden = !isEmpty || part.dataset.empty !== kind;
    }
    this.windows.lookAhead();
  }

  #resized(width) {
    if (width !== this.#width) this.canvas.lay();
    this.#width = width;
  }

  #scrolled() {
    this.canvas.scrolled();
    this.windows.lookAhead();
    if (this.isWatched) this.following.letIn();
    clearTimeout(this.#saving);
    this.#saving = setTimeout(() => this.remember(), 200);
  }

  // `name` is what was opened, for the focus to return to.
  remember(name = this.#opened) {
    clearTimeout(this.#saving);
    this.#opened = name;
    const { tile, offset } = this.canvas.view.anchor() ?? {};
    const at = Math.max(tile?.at, this.shelf.named(name)?.at ?? 0);
    keep(tile ? { at, anchor: tile.name, offset, top: scrollY < 8, name } : null);
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
    if (tile && !place.top) scrollTo({ top: tile.y + this.canvas.view.top - place.offset, behavior: "instant" });
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
