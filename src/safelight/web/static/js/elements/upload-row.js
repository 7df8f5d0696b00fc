// One file on its way. Dispatches `upload-changed` with every change of state, `upload-again` when it
// wants another turn and `upload-over` when it wants to go; its owner calls send() in its turn.
import { sendFile } from "../lib/api.js";
import { size } from "../lib/format.js";

const LINGER = 1_500; // how long a finished row is shown

class UploadRow extends HTMLElement {
  #file;
  #name;
  #to;
  #preview;
  #abort = new AbortController();

  prepare(file, name, to) {
    this.#file = file;
    this.#to = to;
    this.#name = name ?? file.name;
    this.#find(".send__name").textContent = this.#name;
    this.#find("progress").ariaLabel = this.#name;
    this.addEventListener("click", (event) => this.#onClick(event));
    this.#become("waiting", `${size(file.size)} · waiting`);
  }

  get state() {
    return this.dataset.state;
  }

  disconnectedCallback() {
    URL.revokeObjectURL(this.#preview);
  }

  async send() {
    if (this.state !== "waiting") return;
    this.#show();
    this.#become("sending", "Sending…");
    try {
      await sendFile(this.#to, this.#file, {
        signal: this.#abort.signal,
        onProgress: (part) => this.#progress(part),
      });
      this.#done();
    } catch (error) {
      if (this.state === "cancelled") return;
      this.#become("failed", error.message);
    }
  }

  #show() {
    if (!this.#file.type.startsWith("image/") || this.#preview) return;
    this.#preview = URL.createObjectURL(this.#file);
    const image = this.#find("img");
    image.addEventListener("error", () => image.removeAttribute("src"));
    image.src = this.#preview;
  }

  #progress(part) {
    this.#find("progress").value = part;
    const sent = part < 1 ? `${size(part * this.#file.size)} of ` : "";
    const words = part < 1 ? "" : " · checking…";
    this.#find(".send__state").textContent = sent + size(this.#file.size) + words;
  }

  #done() {
    this.#find("progress").value = 1;
    this.#become("done", "Received");
    setTimeout(() => this.#leave(), LINGER);
  }

  #onClick(event) {
    const wish = event.target.closest("[data-do]")?.dataset.do;
    if (wish === "retry") {
      this.#abort = new AbortController();
      this.#become("waiting", "Waiting");
      this.#dispatch("upload-again");
    } else if (wish === "cancel") {
      this.#become("cancelled", "");
      this.#abort.abort();
      this.#leave();
    }
  }

  #become(state, words) {
    const isOver = state === "failed" || state === "done";
    this.dataset.state = state;
    this.#find(".send__state").role = state === "failed" ? "alert" : null;
    this.#find(".send__state").textContent = words;
    this.#find("[data-do=retry]").hidden = state !== "failed";
    this.#word("cancel", isOver ? "Dismiss" : "Cancel");
    this.#word("retry", "Try again");
    this.#dispatch("upload-changed");
  }

  // Many rows have the same buttons; said aloud, each has its file's name.
  #word(wish, words) {
    const button = this.#find(`[data-do=${wish}]`);
    button.textContent = words;
    button.ariaLabel = `${words}: ${this.#name}`;
  }

  #leave() {
    if (this.isConnected) this.#dispatch("upload-over");
  }

  #dispatch(name) {
    this.dispatchEvent(new CustomEvent(name, { bubbles: true }));
  }

  #find(selector) {
    return this.querySelector(selector);
  }
}

customElements.define("upload-row", UploadRow);
