// Around the upload form: takes files and folders that are dropped on the page or chosen, and sends
// them, a few at a time, each in a row of its own.
import { chosen, dropped } from "../lib/files.js";
import { count } from "../lib/format.js";
import { Lanes } from "../lib/lanes.js";

const AT_ONCE = 3;

class UploadDrop extends HTMLElement {
  #lanes = new Lanes(AT_ONCE);
  #page = new AbortController();
  #received = 0;
  #rows;

  connectedCallback() {
    this.#rows = this.querySelector("ol");
    const signal = this.#page.signal;
    for (const input of this.querySelectorAll("input[type=file]")) {
      input.multiple = true;
      input.required = false;
      input.addEventListener("change", () => this.#choose(input), { signal });
    }
    this.addEventListener("upload-again", (event) => this.#queue(event.target), { signal });
    this.addEventListener("upload-changed", (event) => this.#count(event.target), { signal });
    this.addEventListener("upload-over", (event) => this.#remove(event.target), { signal });
    for (const name of ["dragover", "dragleave", "drop"]) {
      document.addEventListener(name, (event) => this.#onDrag(event), { signal });
    }
    addEventListener("beforeunload", (event) => this.#busy > 0 && event.preventDefault(), { signal });
  }

  disconnectedCallback() {
    this.#page.abort();
    this.#page = new AbortController();
  }

  get #busy() {
    return this.#rows.querySelectorAll("[data-state=waiting], [data-state=sending]").length;
  }

  #choose(input) {
    this.#add(chosen(input.files));
    input.value = ""; // so that the same file can be chosen again
  }

  async #onDrag(event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    // Leaving the window has no related target; leaving one element for the next has.
    const over = event.type === "dragover" || (event.type === "dragleave" && event.relatedTarget);
    this.toggleAttribute("data-over", Boolean(over));
    if (event.type !== "drop") return;
    try {
      this.#add(await dropped(event.dataTransfer));
    } catch {
      this.#say("That could not be read. Choose the files instead.");
    }
  }

  #add(files) {
    if (files.length === 0) this.#say("There are no images in that.");
    for (const { file, name } of files) {
      const item = document.importNode(this.querySelector("template").content, true);
      const row = item.querySelector("upload-row");
      this.#rows.append(item);
      const to = this.dataset.to + (name === null ? "" : `&name=${encodeURIComponent(name)}`);
      row.prepare(file, name, to);
      this.#queue(row);
    }
  }

  #queue(row) {
    this.#lanes.run(() => row.send());
  }

  #remove(row) {
    const item = row.closest("li");
    const held = item.contains(document.activeElement);
    const next = item.nextElementSibling ?? item.previousElementSibling ?? this;
    item.remove();
    if (held) next.querySelector("button:not([hidden]), input").focus();
    this.#count();
  }

  #count(row) {
    this.#received += row?.state === "done" ? 1 : 0;
    const failed = this.#rows.querySelectorAll("[data-state=failed]").length;
    const parts = [
      this.#busy && `${count(this.#busy, "image")} to send`,
      this.#received && `${this.#received} received`,
      failed && `${failed} refused`,
    ];
    this.#rows.hidden = this.#rows.children.length === 0;
    this.#say(parts.filter(Boolean).join(" · "));
    if (this.#rows.hidden) this.#received = 0;
  }

  #say(words) {
    this.querySelector("[role=status]").textContent = words;
  }
}

customElements.define("upload-drop", UploadDrop);
