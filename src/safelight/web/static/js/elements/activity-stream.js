// The newest of a history, kept new: what comes is asked for in sentences and put on top, unless the
// reader has paused it or reads further down; then it is counted until it is wanted.
import { ask } from "../lib/api.js";
import { listen } from "../lib/keys.js";
import { Speaker } from "../lib/speaker.js";
import { put, trim } from "../lib/stream.js";

const GATHER = 150; // news come in flurries
const AFTER_FAILURE = 2_000;
const AT_THE_TOP = 200;

class ActivityStream extends HTMLElement {
  #leaving;
  #timer;
  #due = Infinity;
  #held = [];
  #isAsking = false;
  #isPaused = false;
  #speaker;

  connectedCallback() {
    this.#leaving = new AbortController();
    if (!this.dataset.lines) return;
    const { signal } = this.#leaving;
    this.#speaker = new Speaker(this.querySelector("[data-speaks]"), (many) => `${many} new lines`);
    document.addEventListener("live", ({ detail }) => this.#hear(detail), { signal });
    addEventListener("scroll", () => this.#isFollowing && this.#show(), { signal, passive: true });
    this.#verb("pause").addEventListener("click", () => this.#pause(!this.#isPaused), { signal });
    this.#verb("show").addEventListener("click", () => this.#resume(), { signal });
    listen({ p: ["Pause, or go on", () => this.#pause(!this.#isPaused)], n: ["Show what is new", () => this.#resume()] }, signal);
    this.addEventListener("error", ({ target }) => target.remove(), { capture: true, signal }); // a picture that went
    this.#verb("pause").hidden = false;
    this.#wait();
  }

  disconnectedCallback() {
    this.#leaving.abort();
    this.#speaker?.stop();
    clearTimeout(this.#timer);
  }

  #verb(name) {
    return this.querySelector(`[data-verb="${name}"]`);
  }

  get #isFollowing() {
    return !this.#isPaused && scrollY < AT_THE_TOP;
  }

  // A history that is shorter than it was, or was cut, is read anew.
  #hear({ type }) {
    if (type === "reset" || type === "history_truncated") location.reload();
    else this.#soon(GATHER);
  }

  // The earliest wish counts, so that a storm of news does not put it off for ever.
  #soon(pause) {
    const due = performance.now() + pause;
    if (due >= this.#due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#look(), pause);
  }

  #wait() {
    if (this.dataset.every) this.#soon(Number(this.dataset.every));
  }

  async #look() {
    this.#due = Infinity;
    if (this.#isAsking) return this.#soon(GATHER);
    this.#isAsking = true;
    try {
      while (await this.#ask());
      this.#wait();
    } catch (error) {
      if (!(error.status >= 400 && error.status < 500)) this.#soon(AFTER_FAILURE);
    } finally {
      this.#isAsking = false;
    }
  }

  async #ask() {
    const { lines, newest } = this.dataset;
    const answer = await ask(`${lines}${lines.includes("?") ? "&" : "?"}after=${newest}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
    this.dataset.newest = fresh.dataset.newest;
    this.#held.unshift(...fresh.children);
    for (const said of fresh.querySelectorAll(".happening__said")) this.#speaker.say(said.textContent);
    if (this.#isFollowing) this.#show();
    else this.#count();
    return this.isConnected && "more" in fresh.dataset;
  }

  #pause(isPaused) {
    this.#isPaused = isPaused;
    this.#verb("pause").ariaPressed = isPaused;
    this.#verb("pause").textContent = isPaused ? "Resume" : "Pause";
    if (!isPaused) this.#show();
  }

  #resume() {
    this.#pause(false);
    scrollTo({ top: 0 });
  }

  #count() {
    const count = this.#held.reduce((sum, hour) => sum + hour.querySelectorAll(".happening").length, 0);
    this.#verb("show").textContent = `${count} new`;
    this.#verb("show").hidden = count === 0;
  }

  #show() {
    if (this.#held.length === 0) return this.#count();
    for (const hour of this.#held.reverse()) put(this, hour);
    this.#held = [];
    trim(this, Number(this.dataset.most));
    this.#count();
  }
}

customElements.define("activity-stream", ActivityStream);
