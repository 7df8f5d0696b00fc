// Around the form that uploads one image: with scripts it takes many, and folders, and hands them to the
// tray at once.
import { chosen } from "../lib/files.js";

class UploadChoose extends HTMLElement {
  #page = new AbortController();

  connectedCallback() {
    const { signal } = this.#page;
    for (const input of this.querySelectorAll("input[type=file]")) {
      input.multiple = true;
      input.required = false;
      input.addEventListener("change", () => this.#choose(input), { signal });
      if (input.files.length > 0) setTimeout(() => this.#choose(input)); // quicker than this script
    }
  }

  disconnectedCallback() {
    this.#page.abort();
    this.#page = new AbortController();
  }

  #choose(input) {
    const detail = chosen(input.files);
    input.value = ""; // so that the same file can be chosen again
    const menu = input.closest("details");
    if (menu) menu.open = false;
    document.dispatchEvent(new CustomEvent("files-chosen", { detail }));
  }
}

customElements.define("upload-choose", UploadChoose);
