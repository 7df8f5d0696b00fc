// Around generations: forms go once, a key begins a prompt and Ctrl+Enter sends it. All of it is links
// and forms without scripts.
import { listen } from "../lib/keys.js";
import { once } from "../lib/once.js";

class GeneratePage extends HTMLElement {
  #leaving;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.addEventListener("submit", once, { signal });
    this.addEventListener("keydown", send, { signal });
    addEventListener("pageshow", ({ persisted }) => persisted && this.#renew(), { signal });
    const prompt = this.querySelector("#prompt");
    if (prompt) listen({ n: ["Write a prompt", () => prompt.focus()] }, signal);
  }

  disconnectedCallback() {
    this.#leaving.abort();
  }

  // Who comes back to the page and sends a form again means it.
  #renew() {
    for (const nonce of this.querySelectorAll("[name=nonce]")) {
      nonce.value = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
    }
  }
}

function send(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.target.closest("textarea")?.form.requestSubmit();
}

customElements.define("generate-page", GeneratePage);
