// Takes files that were chosen anywhere on the page, has them sent, and does what the panel in it is told.
import { count } from "../lib/format.js";
import { Sums } from "../lib/sums.js";
import { say, undoable } from "../lib/toast.js";
import { UploadDesk } from "../lib/upload-desk.js";
import { Ledger } from "../lib/upload-ledger.js";
import { UploadNews } from "../lib/upload-news.js";
import { UploadQueue } from "../lib/upload-queue.js";
import { UploadServer } from "../lib/upload-server.js";
import { Shelf } from "../lib/upload-shelf.js";

const UNDO = 6; // seconds

class UploadTray extends HTMLElement {
  #page = new AbortController();
  #desk;
  #news;
  #shown = null;
  #commit = () => {};

  connectedCallback() {
    const { signal } = this.#page;
    const owner = `${this.dataset.uploader}@${this.dataset.organization}`;
    this.#news = new UploadNews(this.#find("[data-said]"), this.#find("[data-alarm]"));
    this.#desk = new UploadDesk(owner, (changed) => this.#queue(owner, changed), (shown) => this.#show(shown));
    this.#desk.start();
    this.addEventListener("click", (event) => this.#onClick(event), { signal });
    document.addEventListener("files-chosen", ({ detail }) => this.#add(detail), { signal });
    document.addEventListener("visibilitychange", () => this.#desk.act({ wish: "now" }), { signal });
    addEventListener("online", () => this.#desk.act({ wish: "now" }), { signal });
    addEventListener("beforeunload", (event) => this.#desk.isSafe || event.preventDefault(), { signal });
  }

  disconnectedCallback() {
    this.#page.abort();
    this.#page = new AbortController();
    this.#desk.stop();
    this.#news.stop();
  }

  async #queue(owner, onChange) {
    const { uploader, organization, worker } = this.dataset;
    return new UploadQueue({
      uploader,
      wrongWith: (file) => this.#wrongWith(file),
      server: new UploadServer(organization),
      ledger: new Ledger(owner, await new Shelf().open()),
      sums: new Sums(worker),
      onChange,
    });
  }

  // What the server would say, before a byte is sent.
  #wrongWith(file) {
    if (file.size === 0) return this.dataset.empty;
    return file.size > Number(this.dataset.most) ? this.dataset.tooLarge : null;
  }

  #add(found) {
    if (found.length === 0) say("There are no images in that.");
    else this.#desk.add(found);
  }

  #onClick(event) {
    const button = event.target.closest("button");
    const wish = button?.dataset.wish;
    if (!wish) return;
    const row = button.closest(".tray-row")?.dataset.key;
    const group = button.closest(".tray-group")?.dataset.key;
    if (wish === "cancel") this.#cancel(row);
    else this.#desk.act({ wish, key: group });
  }

  #cancel(id) {
    const many = id ? 1 : this.#shown.open;
    this.#commit();
    this.#desk.act({ wish: "cancel", id });
    this.#commit = undoable(`${count(many, "upload")} cancelled`, {
      seconds: UNDO,
      commit: () => this.#desk.act({ wish: "forget" }),
      undo: () => this.#desk.act({ wish: "restore" }),
    });
  }

  #show(shown) {
    this.#shown = shown;
    this.#find("upload-panel").show(shown, `/app/${this.dataset.organization}`);
    this.#news.hear(shown);
  }

  #find(selector) {
    return this.querySelector(selector);
  }
}

customElements.define("upload-tray", UploadTray);
