// The requests on a page of which one is shown at a time: which it is, what is left, what has come.
import { ask } from "./api.js";
import { merge } from "./merge.js";

const GATHER = 80; // news come in flurries
const AFTER_FAILURE = 2_000;

export class Requests {
  #desk;
  #changed;
  #total;
  #timer;

  constructor(desk, changed) {
    this.#desk = desk;
    this.#changed = changed;
    this.#total = Number(desk.dataset.total);
  }

  get #list() {
    return this.#desk.querySelector(".requests");
  }

  get open() {
    return [...this.#list.children].filter((card) => !("decided" in card.dataset));
  }

  get current() {
    return this.#list.querySelector("[data-current]");
  }

  named(id) {
    return this.open.find((card) => card.id === id);
  }

  stop() {
    clearTimeout(this.#timer);
  }

  show(card) {
    const before = this.current;
    if (card && card === before) return this.#tell();
    const held = before?.contains(document.activeElement);
    before?.removeAttribute("data-current");
    if (card) card.dataset.current = "";
    if (held) (card ?? this.#desk.querySelector("[data-way]")).focus({ preventScroll: true });
    const [next] = this.#after(card);
    for (const image of next?.querySelectorAll("img[loading=lazy]") ?? []) image.loading = "eager";
    this.#tell();
    this.#changed();
  }

  step(by) {
    const open = this.open;
    const wanted = open[open.indexOf(this.current) + by];
    if (wanted) this.show(wanted);
    return Boolean(wanted);
  }

  // Hidden, until it is decided for good or put back.
  take(card) {
    const [next, last] = [this.#after(card)[0], this.open.filter((one) => one !== card).at(-1)];
    const isShown = card === this.current;
    card.dataset.decided = "";
    this.#total -= 1;
    if (isShown) this.show(next ?? last);
    else this.#tell();
  }

  putBack(card) {
    delete card.dataset.decided;
    this.#total += 1;
    card.querySelector(".question")?.removeAttribute("open");
    this.show(card);
  }

  remove(card) {
    this.take(card);
    card.remove();
  }

  renewSoon(pause = GATHER) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#renew(), pause);
  }

  async #renew() {
    try {
      const answer = await ask(location.pathname + location.search);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("approval-desk");
      if (fresh && this.#desk.isConnected) this.#receive(fresh);
    } catch (error) {
      if (!(error.status >= 400 && error.status < 500)) this.renewSoon(AFTER_FAILURE);
    }
  }

  #receive(fresh) {
    const here = new Set([...this.#list.children].map((card) => card.id));
    const there = [...fresh.querySelectorAll(".request")];
    const ids = new Set(there.map((card) => card.id));
    this.#list.append(...there.filter((card) => !here.has(card.id)));
    const strip = this.#desk.querySelector(".strip");
    const news = fresh.querySelector(".strip");
    if (strip && news) merge(strip, news);
    else if (news) this.#desk.append(news);
    for (const card of this.open) if (!ids.has(card.id)) this.remove(card);
    for (const card of this.#list.querySelectorAll("[data-decided]")) if (!ids.has(card.id)) card.remove();
    this.#total = Number(fresh.dataset.total) - this.#list.querySelectorAll("[data-decided]").length;
    if (!this.current) this.show(this.open[0]);
    else this.#tell();
  }

  #after(card) {
    const open = this.open;
    return open.slice(open.indexOf(card) + 1);
  }

  #tell() {
    const [open, current] = [this.open, this.current];
    const total = Math.max(this.#total, open.length);
    const words = current ? `${open.indexOf(current) + 1} of ${total >= 100 ? "99+" : total}` : "";
    this.#desk.querySelector(".desk-way__count").textContent = words;
    this.#desk.querySelector("[data-empty]").hidden = open.length > 0;
    this.#desk.querySelector(".desk-way").hidden = open.length === 0;
    for (const link of this.#desk.querySelectorAll(".strip a")) {
      const id = link.hash.slice(1);
      link.parentElement.hidden = !open.some((card) => card.id === id);
      if (current && id === current.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
}
