// Inside a <figure>, or what is marked as copied: a button that copies its <pre> or <code>. Without
// scripts there is no button.
const REST = "Copy";
const DONE = "Copied";

class CopyButton extends HTMLElement {
  #button;
  #timer;

  connectedCallback() {
    this.#button = document.createElement("button");
    this.#button.type = "button";
    this.#button.textContent = REST;
    if (this.dataset.label) this.#button.ariaLabel = this.dataset.label;
    this.#button.addEventListener("click", () => this.#copy());
    this.setAttribute("aria-live", "polite");
    this.replaceChildren(this.#button);
  }

  disconnectedCallback() {
    clearTimeout(this.#timer);
  }

  async #copy() {
    const source = this.closest("figure, .copied").querySelector("pre, code");
    const copied = await write(source);
    this.#button.textContent = copied ? DONE : "Press Ctrl+C";
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.#button.textContent = REST), 2000);
  }
}

// The clipboard needs https or localhost; elsewhere the text is selected and copied the old way.
async function write(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}

customElements.define("copy-button", CopyButton);
