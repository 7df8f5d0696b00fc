// The gallery. A live message says that a name has changed; what it has become is asked of the
// server, which renders the card. So messages may come twice, late or in any order.
import { ask } from "../lib/api.js";
import { count } from "../lib/format.js";
import { Gatherer } from "../lib/gatherer.js";
import { named, parse, place, remove, renew, untint } from "../lib/shots.js";
import { Speaker } from "../lib/speaker.js";

const LOOK_AGAIN = 15_000; // a card that should move is looked at even if nothing was heard of it
const MOST_LOOKS = 20;

class ImageGrid extends HTMLElement {
  #changed = new Gatherer((names) => this.#refresh(names));
  #speaker;
  #leaving;
  #timer;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.#speaker = new Speaker(this.#find("[data-news]"), (n) => `${count(n, "image")} labelled`);
    document.addEventListener("live", (event) => this.#hear(event.detail), { signal });
    document.addEventListener("delete-begun", (event) => this.#dim(event.detail.name), { signal });
    this.addEventListener("click", (event) => this.#onClick(event), { signal });
    this.addEventListener("load", (event) => untint(event.target), { signal, capture: true });
    this.querySelectorAll("img").forEach((image) => image.naturalWidth && untint(image));
    this.#timer = setInterval(() => this.#lookAgain(), LOOK_AGAIN);
  }

  disconnectedCallback() {
    this.#leaving.abort();
    clearInterval(this.#timer);
    this.#changed.stop();
    this.#speaker.stop();
  }

  get #list() {
    return this.#find("ul");
  }

  #hear({ type, name }) {
    if (type === "history_truncated" || type === "reset") this.#reload();
    else if (name && /^(upload|classification)_/.test(type)) this.#changed.add(name);
    if (type === "upload_delete_error") this.#dim(name, false);
  }

  async #refresh(names) {
    const query = new URLSearchParams(this.dataset.filters);
    names.forEach((name) => query.append("name", name));
    const answer = await ask(`${this.dataset.here}/cards?${query}`);
    const fresh = [...parse(await answer.text()).children];
    for (const name of names) this.#change(name, fresh.find((shot) => shot.dataset.name === name));
    this.#find("[data-empty]").hidden = this.#list.children.length > 0;
  }

  #change(name, fresh) {
    const shot = named(this.#list, name);
    if (shot && fresh) {
      const words = renew(shot, fresh);
      if (words) this.#speaker.say(`${name}: ${words}`);
    } else if (shot) {
      if (remove(shot)) this.#find("[data-heading]").focus();
    } else if (fresh && "newest" in this.dataset) {
      fresh.dataset.new = "";
      place(this.#list, fresh, { isOpenEnded: !this.#find("[data-more]").hidden });
    }
  }

  #lookAgain() {
    const moving = [...this.#list.querySelectorAll("[data-moves], [data-leaving]")];
    moving.slice(-MOST_LOOKS).forEach((shot) => this.#changed.add(shot.dataset.name));
  }

  #dim(name, isLeaving = true) {
    named(this.#list, name)?.toggleAttribute("data-leaving", isLeaving);
    this.#changed.add(name);
  }

  #onClick(event) {
    const link = event.target.closest("a[data-delete], a[rel=next]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.rel === "next") return this.#more(link);
    const { name } = link.closest(".shot").dataset;
    this.dispatchEvent(new CustomEvent("delete-asked", { bubbles: true, detail: { name } }));
  }

  async #more(link) {
    if (link.ariaDisabled === "true") return;
    link.ariaDisabled = "true";
    try {
      const page = await this.#fetch(link.href);
      const shots = [...page.querySelectorAll(".shot")];
      const added = shots.filter((shot) => !named(this.#list, shot.dataset.name));
      this.#list.append(...added);
      this.#find("[data-more]").replaceWith(page.querySelector("[data-more]"));
      added[0]?.querySelector("a")?.focus();
    } catch (error) {
      link.textContent = `${error.message} Try again`;
      link.ariaDisabled = "false";
    }
  }

  // The feed no longer reaches back to where this page was: begin anew.
  async #reload() {
    const page = await this.#fetch(location.href).catch(() => null);
    if (!page) return setTimeout(() => this.isConnected && this.#reload(), LOOK_AGAIN);
    for (const part of ["ul", "[data-empty]", "[data-more]"]) {
      this.#find(part).replaceWith(page.querySelector(`image-grid ${part}`));
    }
  }

  async #fetch(address) {
    return parse(await (await ask(address)).text());
  }

  #find(selector) {
    return this.querySelector(selector);
  }
}

customElements.define("image-grid", ImageGrid);
