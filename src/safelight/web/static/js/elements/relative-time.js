// Around a <time>: how long ago it was, kept true as time passes; the exact moment is its title.
import { ago, exactly } from "../lib/format.js";

const shown = new Set();
let timer;

class RelativeTime extends HTMLElement {
  #time;
  #moment;

  connectedCallback() {
    this.#time = this.querySelector("time");
    this.#moment = new Date(this.#time.dateTime);
    this.#time.title = exactly(this.#moment);
    this.show();
    shown.add(this);
    timer ??= setInterval(() => shown.forEach((one) => one.show()), 20_000);
  }

  disconnectedCallback() {
    shown.delete(this);
  }

  show() {
    this.#time.textContent = ago(this.#moment);
  }
}

customElements.define("relative-time", RelativeTime);
