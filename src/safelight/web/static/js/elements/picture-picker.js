// Searches while one types: the results of the page come into this one, and what is chosen stays.
import { ask } from "../lib/api.js";
import { merge } from "../lib/merge.js";

const PAUSE = 200;

class PicturePicker extends HTMLElement {
  #leaving;
  #asking;
  #timer;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.#field.addEventListener("input", () => this.#soon(), { signal });
    this.#field.form.addEventListener("submit", (event) => this.#now(event), { signal });
  }

  disconnectedCallback() {
    this.#leaving.abort();
    this.#asking?.abort();
    clearTimeout(this.#timer);
  }

  get #field() {
    return document.querySelector("#q");
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#search(), PAUSE);
  }

  #now(event) {
    event.preventDefault();
    clearTimeout(this.#timer);
    this.#search();
  }

  async #search() {
    const chosen = this.querySelector("[name=source]:checked")?.value ?? "";
    const wanted = new URL(this.#field.form.action);
    if (this.#field.value.trim()) wanted.searchParams.set("q", this.#field.value.trim());
    history.replaceState(null, "", wanted);
    const [kind, ...name] = chosen.split(":");
    if (name.length > 0) wanted.searchParams.set(kind, name.join(":"));
    this.#asking?.abort();
    this.#asking = new AbortController();
    const answer = await ask(wanted, { signal: this.#asking.signal }).catch(() => null);
    const text = await answer?.text().catch(() => null);
    const page = text && new DOMParser().parseFromString(text, "text/html");
    const [old, fresh] = [this, page]?.map((root) => root?.querySelector("#pick"));
    if (old && fresh) merge(old, fresh);
  }
}

customElements.define("picture-picker", PicturePicker);
