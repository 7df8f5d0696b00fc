// A part of the page that follows the server: it is asked for anew when a live message concerns it
// (data-hears: beginnings of types; data-about and data-name: only those with this id or name), and every data-every
// milliseconds while that is written on it. What came is merged in, so that focus and typing stay.
import { ask } from "../lib/api.js";
import { merge } from "../lib/merge.js";

const GATHER = 60; // news come in flurries
const AFTER_FAILURE = 2_000;

class LiveRegion extends HTMLElement {
  #leaving;
  #timer;
  #isAsking = false;
  #isStale = false;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    document.addEventListener("live", (event) => this.#hear(event.detail), { signal });
    document.addEventListener("visibilitychange", () => this.#isSeen && this.#look(), { signal });
    this.#wait();
  }

  disconnectedCallback() {
    this.#leaving.abort();
    clearTimeout(this.#timer);
  }

  get #isSeen() {
    return document.visibilityState === "visible";
  }

  #hear({ type, id, imageId = id, name: ofName }) {
    const { hears = "", about, name } = this.dataset;
    const isHeard = hears.split(" ").some((start) => start && type.startsWith(start));
    const isNamed = about?.split(" ").includes(imageId) || (name && name === ofName);
    const isMine = isNamed || (!name && (!about || !imageId));
    if (type === "history_truncated" || type === "reset" || (isHeard && isMine)) this.#soon(GATHER);
  }

  #wait() {
    if (this.dataset.every) this.#soon(Number(this.dataset.every));
  }

  #soon(pause) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.#isSeen ? this.#look() : this.#wait()), pause);
  }

  async #look() {
    this.#isStale = true;
    if (this.#isAsking) return;
    this.#isAsking = true;
    clearTimeout(this.#timer);
    try {
      while (this.#isStale && this.isConnected) await this.#renew();
      delete this.dataset.away;
      this.#wait();
    } catch (error) {
      this.#recover(error);
    } finally {
      this.#isAsking = false;
    }
  }

  async #renew() {
    this.#isStale = false;
    const answer = await ask(this.dataset.here);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("live-region");
    if (fresh && this.isConnected) merge(this, fresh);
  }

  // A refusal would come again; where there is a feed, it says that the session has ended.
  #recover(error) {
    const isRefused = error.status >= 400 && error.status < 500;
    this.dataset.away = isRefused ? error.message : "Reconnecting…";
    if (!isRefused && this.isConnected) this.#soon(AFTER_FAILURE);
  }
}

customElements.define("live-region", LiveRegion);
