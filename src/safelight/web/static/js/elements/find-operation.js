// Around the index: shows what matches while it is typed. "/" goes there.
import { listen } from "../lib/keys.js";

const BESIDE = "(min-width: 64rem)"; // as in css/pages/reference/page.css

class FindOperation extends HTMLElement {
  #field;
  #hidden = new Map(); // lists that were folded before anybody looked for something
  #end;

  connectedCallback() {
    this.#end = new AbortController();
    this.#field = this.querySelector("input");
    this.#field.closest(".field").hidden = false;
    if (matchMedia(BESIDE).matches) this.closest("details").open = true;
    for (const list of this.querySelectorAll("ul")) this.#hidden.set(list, list.hidden);
    this.#field.addEventListener("input", () => this.#find(), { signal: this.#end.signal });
    this.addEventListener("click", (event) => this.#chosen(event), { signal: this.#end.signal });
    listen({ "/": ["Find an operation", () => this.#focus()] }, this.#end.signal);
    this.#find();
  }

  disconnectedCallback() {
    this.#end.abort();
  }

  #focus() {
    this.closest("details").open = true;
    this.#field.focus();
  }

  #chosen(event) {
    if (event.target.closest("a") && !matchMedia(BESIDE).matches) this.closest("details").open = false;
  }

  #find() {
    const words = this.#field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const group of this.querySelectorAll("[data-group]")) {
      const here = this.#inGroup(group, words);
      group.hidden = words.length > 0 && here === 0;
      found += here;
    }
    const none = found === 1 ? "1 operation" : `${found} operations`;
    this.querySelector("[data-found]").textContent = words.length ? none : "";
  }

  #inGroup(group, words) {
    const list = group.querySelector("ul");
    let found = 0;
    for (const item of list.children) {
      const text = `${item.dataset.find} ${item.textContent.toLowerCase()}`;
      item.hidden = !words.every((word) => text.includes(word));
      found += !item.hidden;
    }
    list.hidden = words.length ? found === 0 : this.#hidden.get(list);
    return found;
  }
}

customElements.define("find-operation", FindOperation);
