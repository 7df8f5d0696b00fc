// Says over the whole page that files can be dropped, while some are dragged over it, and hands them to
// the tray, as it does with pictures that are pasted.
import { dropped, pasted } from "../lib/files.js";
import { say } from "../lib/toast.js";

const UNREADABLE = "That could not be read. Choose the files instead.";

class UploadDrop extends HTMLElement {
  #page = new AbortController();

  connectedCallback() {
    const { signal } = this.#page;
    for (const name of ["dragover", "dragleave", "drop"]) {
      document.addEventListener(name, (event) => this.#onDrag(event), { signal });
    }
    document.addEventListener("paste", (event) => this.#onPaste(event), { signal });
  }

  disconnectedCallback() {
    this.#page.abort();
    this.#page = new AbortController();
  }

  async #onDrag(event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    // Leaving the window has no related target; leaving one element for the next has.
    const over = event.type === "dragover" || (event.type === "dragleave" && event.relatedTarget);
    this.toggleAttribute("data-over", Boolean(over));
    if (event.type !== "drop") return;
    try {
      this.#give(await dropped(event.dataTransfer));
    } catch {
      say(UNREADABLE);
    }
  }

  #onPaste(event) {
    const found = pasted(event.clipboardData);
    if (found.length === 0) return;
    event.preventDefault();
    this.#give(found);
  }

  #give(detail) {
    document.dispatchEvent(new CustomEvent("files-chosen", { detail }));
  }
}

customElements.define("upload-drop", UploadDrop);
