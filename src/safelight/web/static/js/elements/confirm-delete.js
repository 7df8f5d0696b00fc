// Around a <dialog>: answers a `delete-asked` event with the question, and tells `delete-begun` once
// the server has agreed.
import { ask } from "../lib/api.js";

class ConfirmDelete extends HTMLElement {
  #name;
  #dialog;
  #open = (event) => this.#ask(event.detail.name);

  connectedCallback() {
    this.#dialog = this.querySelector("dialog");
    document.addEventListener("delete-asked", this.#open);
    this.#find("[data-confirm]").addEventListener("click", () => this.#confirm());
  }

  disconnectedCallback() {
    document.removeEventListener("delete-asked", this.#open);
  }

  #ask(name) {
    this.#name = name;
    this.#find("[data-name]").textContent = name;
    this.#find("[data-problem]").hidden = true;
    this.#dialog.showModal();
  }

  async #confirm() {
    const button = this.#find("[data-confirm]");
    if (button.ariaDisabled === "true") return;
    button.ariaDisabled = "true";
    try {
      await ask(this.dataset.api + encodeURIComponent(this.#name), { method: "DELETE" });
      this.#dialog.close();
      this.dispatchEvent(
        new CustomEvent("delete-begun", { bubbles: true, detail: { name: this.#name } }),
      );
    } catch (error) {
      this.#find("[data-problem]").textContent = error.message;
      this.#find("[data-problem]").hidden = false;
    } finally {
      button.ariaDisabled = "false";
    }
  }

  #find(selector) {
    return this.querySelector(selector);
  }
}

customElements.define("confirm-delete", ConfirmDelete);
