// Around the form that chooses light or dark: changes the page at once, without loading it anew, which
// would end what it is doing.
import { say } from "../lib/toast.js";

class ThemeSwitch extends HTMLElement {
  #end;

  connectedCallback() {
    this.#end = new AbortController();
    this.addEventListener("submit", (event) => this.#choose(event), { signal: this.#end.signal });
  }

  disconnectedCallback() {
    this.#end.abort();
  }

  async #choose(event) {
    event.preventDefault();
    const theme = event.submitter.value;
    const root = document.documentElement;
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    document.querySelector("meta[name=color-scheme]").content = theme === "system" ? "light dark" : theme;
    for (const button of document.querySelectorAll("theme-switch button")) button.ariaPressed = String(button.value === theme);
    const body = new URLSearchParams({ theme });
    const answer = await fetch(event.target.action, { method: "POST", body, headers: { accept: "*/*" } }).catch(() => null);
    if (!answer?.ok) say("This could not be remembered: it holds until you leave the page.");
  }
}

customElements.define("theme-switch", ThemeSwitch);
