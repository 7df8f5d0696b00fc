// Says how many artifacts came since the list was made, as a link to the newest. Those that are shown
// stay where they are.
const NEWS = "artifact_ready";

class NewArtifacts extends HTMLElement {
  #leaving;
  #count = 0;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    document.addEventListener("live", ({ detail }) => detail.type === NEWS && this.#add(), { signal });
  }

  disconnectedCallback() {
    this.#leaving.abort();
  }

  #add() {
    this.#count += 1;
    const link = document.createElement("a");
    link.className = "button button--quiet button--small";
    link.href = this.dataset.here;
    link.textContent = `${this.#count} new ↑`;
    this.replaceChildren(link);
  }
}

customElements.define("new-artifacts", NewArtifacts);
