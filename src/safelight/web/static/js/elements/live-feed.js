// Dispatches a `live` event per message of its organization, and says so when it cannot.
import { Feed, State } from "../lib/socket.js";

const PATIENCE = 800; // shorter breaks are nobody's business
const WORDS = {
  [State.LIVE]: "This page follows what happens",
  [State.POLLING]: "This page follows what happens",
  [State.AWAY]: "The server cannot be reached",
  [State.SIGNED_OUT]: "You are signed out",
};

class LiveFeed extends HTMLElement {
  #feed;
  #timer;
  #hurry = () => document.visibilityState === "visible" && this.#feed.hurry();

  connectedCallback() {
    const { organization, after } = this.dataset;
    this.#feed = new Feed(organization, after, {
      onMessage: (message) =>
        this.dispatchEvent(new CustomEvent("live", { bubbles: true, detail: message })),
      onState: (state) => this.#show(state),
    });
    this.#feed.run();
    addEventListener("online", this.#hurry);
    document.addEventListener("visibilitychange", this.#hurry);
  }

  disconnectedCallback() {
    removeEventListener("online", this.#hurry);
    document.removeEventListener("visibilitychange", this.#hurry);
    clearTimeout(this.#timer);
    this.#feed.stop();
  }

  #show(state) {
    if (state === this.dataset.state) return;
    this.dataset.state = state;
    this.title = WORDS[state];
    clearTimeout(this.#timer);
    if (state === State.AWAY) this.#timer = setTimeout(() => this.#say("Reconnecting…"), PATIENCE);
    else if (state === State.SIGNED_OUT) this.#say("You are signed out.", signInLink());
    else this.replaceChildren();
  }

  #say(...parts) {
    this.replaceChildren(...parts);
  }
}

function signInLink() {
  const link = document.createElement("a");
  link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "Sign in again";
  const space = document.createElement("span");
  space.append(" ", link);
  return space;
}

customElements.define("live-feed", LiveFeed);
