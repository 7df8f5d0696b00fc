// The way to another month, by pointer or by arrow keys: a slider along the edge of the gallery.
import { ask } from "../lib/api.js";

const AWAKE = 1_500; // after scrolling, where there is no room for it all the time
const PAUSE = 150; // while it is dragged, only where it rests is gone to
const FORMAT = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric" });

class MonthScrubber extends HTMLElement {
  #leaving;
  #months = [];
  #going;
  #falling;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.#input.addEventListener("input", () => this.#dragged(), { signal });
    addEventListener("scroll", () => this.#wake(), { signal, passive: true });
    document.addEventListener("gallery-seen", (event) => this.#follow(event.detail), { signal });
    if (document.readyState === "complete") this.#load();
    else addEventListener("load", () => this.#load(), { signal });
  }

  disconnectedCallback() {
    this.#leaving.abort();
    clearTimeout(this.#going);
    clearTimeout(this.#falling);
  }

  get #input() {
    return this.querySelector("input");
  }

  async #load() {
    const { here, label } = this.dataset;
    const query = new URLSearchParams({ label, ahead: -new Date().getTimezoneOffset() });
    const answer = await ask(`${here}/months?${query}`).catch(() => null);
    this.#months = (await answer?.json())?.months ?? [];
    this.hidden = this.#months.length < 2;
    this.#input.max = Math.max(this.#months.length - 1, 0);
    this.#drawYears();
    this.#show(0);
  }

  // A line for every month, and the year at the first of its months.
  #drawYears() {
    const last = Math.max(this.#months.length - 1, 1);
    let before;
    const lines = this.#months.map(({ begins }, index) => {
      const year = new Date(begins).getFullYear();
      const line = document.createElement("li");
      line.textContent = year === before ? "" : year;
      line.style.top = `${(100 * index) / last}%`;
      before = year;
      return line;
    });
    this.querySelector("ol").replaceChildren(...lines);
  }

  #wake() {
    this.dataset.awake = "";
    clearTimeout(this.#falling);
    this.#falling = setTimeout(() => delete this.dataset.awake, AWAKE);
  }

  #dragged() {
    this.#wake();
    const index = Number(this.#input.value);
    this.#show(index);
    clearTimeout(this.#going);
    this.#going = setTimeout(() => this.#go(index), PAUSE);
  }

  #go(index) {
    this.#going = null;
    const grid = document.querySelector("image-grid");
    if (index === 0) grid.show();
    else grid.jump(this.#months[index].newest);
  }

  #follow(moment) {
    const index = this.#months.findIndex(({ begins }) => begins <= moment);
    if (index >= 0 && !this.#going) this.#show(index);
  }

  #show(index) {
    const month = this.#months[index];
    if (!month) return;
    this.#input.value = index;
    const name = FORMAT.format(month.begins);
    this.#input.ariaValueText = `${name}, ${month.count.toLocaleString("en")} images`;
    const output = this.querySelector("output");
    output.textContent = name;
    output.style.top = `${(100 * index) / Math.max(this.#months.length - 1, 1)}%`;
  }
}

customElements.define("month-scrubber", MonthScrubber);
