// Searches as one types, and keeps the count and the filters as they are on the server.
import { ask } from "../lib/api.js";
import { listen } from "../lib/keys.js";
import { merge } from "../lib/merge.js";

const PAUSE = 180; // between letters
const GATHER = 1_200; // news come in flurries
const PATIENCE = 10; // times what counting took: in a large library it is done less often

class LibrarySearch extends HTMLElement {
  #leaving;
  #typing;
  #counting;
  #asked = 0;
  #wait = GATHER;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.#input.addEventListener("input", () => this.#soon(), { signal });
    this.querySelector("form").addEventListener("submit", (event) => this.#submit(event), { signal });
    document.addEventListener("live", (event) => this.#hear(event.detail), { signal });
    listen({ "/": ["Search", () => this.#input.select()] }, signal);
  }

  disconnectedCallback() {
    this.#leaving.abort();
    clearTimeout(this.#typing);
    clearTimeout(this.#counting);
  }

  get #input() {
    return this.querySelector("input[type=search]");
  }

  get #query() {
    const fields = [...new FormData(this.querySelector("form"))].map(([name, value]) => [name, value.trim()]);
    const query = new URLSearchParams(fields.filter(([, value]) => value));
    return query.size > 0 ? `?${query}` : "";
  }

  #soon() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => this.#search(), PAUSE);
  }

  #submit(event) {
    event.preventDefault();
    clearTimeout(this.#typing);
    this.#search();
  }

  #search() {
    const query = this.#query;
    const { pathname, search } = location;
    if (query === search) return;
    history.replaceState(null, "", pathname + query);
    document.querySelector("image-grid").show(query);
    document.querySelector("month-scrubber")?.toggleAttribute("data-away", query.includes("q="));
    this.#count();
  }

  #hear({ type }) {
    if (!/^upload_|^classification_(updated|error)|^reset$|^history_truncated$/.test(type)) return;
    this.#counting ??= setTimeout(() => this.#count(), this.#wait);
  }

  async #count() {
    clearTimeout(this.#counting);
    this.#counting = undefined;
    const turn = (this.#asked += 1);
    const { pathname } = location;
    const begun = performance.now();
    const answer = await ask(`${pathname}/filters${this.#query}`).catch(() => null);
    const text = await answer?.text();
    this.#wait = Math.max(GATHER, PATIENCE * (performance.now() - begun));
    if (!text || turn !== this.#asked || !this.isConnected) return;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const part of fresh.querySelectorAll("[data-part]")) {
      const old = document.querySelector(`main [data-part=${part.dataset.part}]`);
      if (old) merge(old, part);
    }
  }
}

customElements.define("library-search", LibrarySearch);
