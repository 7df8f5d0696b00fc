// What can be done with the ticked images: submit, download, delete. Ticking and downloading need no
// script. Deleting can be taken back for ten seconds.
import { ask } from "../lib/api.js";
import { count } from "../lib/format.js";
import { listen } from "../lib/keys.js";
import { Lanes } from "../lib/lanes.js";
import { say, undoable } from "../lib/toast.js";

const SECONDS = 10;
const AT_ONCE = 3;
const MOST_DELETED = 200; // by one question
const MOST_DOWNLOADED = 2_000;

class SelectionBar extends HTMLElement {
  #leaving;
  #names = [];

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    document.addEventListener("picked", (event) => this.#show(event.detail), { signal });
    this.addEventListener("click", (event) => this.#click(event), { signal });
    this.#form.addEventListener("submit", (event) => this.#download(event), { signal });
    this.#dialog.addEventListener("close", () => this.#dialog.returnValue === "yes" && this.#submit(), { signal });
    if (this.querySelector("[data-verb=delete]")) {
      listen({ Delete: ["Delete what is selected", () => this.#delete()] }, signal);
    }
    this.#show([]);
  }

  disconnectedCallback() {
    this.#leaving.abort();
  }

  get #form() {
    return this.querySelector(".picked");
  }

  get #dialog() {
    return this.querySelector("dialog");
  }

  get #grid() {
    return document.querySelector("image-grid");
  }

  #show(names) {
    this.#names = names;
    this.toggleAttribute("data-open", names.length > 0);
    this.querySelector(".picked__count").textContent = names.length > 0 ? `${names.length.toLocaleString("en")} selected` : "";
  }

  #click(event) {
    const wish = event.target.closest("[data-verb]")?.dataset.verb;
    if (wish === "clear") this.#clear();
    if (wish === "delete") this.#delete();
    if (wish !== "submit") return;
    const { length } = this.#names;
    this.querySelector("[data-count]").textContent = length === 1 ? "It is" : `${length.toLocaleString("en")} images are`;
    this.#dialog.returnValue = "";
    this.#dialog.showModal();
  }

  #clear() {
    const held = this.contains(document.activeElement);
    const { picking, shelf } = this.#grid;
    const first = shelf.named(this.#names[0]);
    picking.selection.clear();
    if (held && first) picking.focus(first);
  }

  // The form has what is drawn; the others are told beside it.
  #download(event) {
    if (this.#names.length > MOST_DOWNLOADED) {
      event.preventDefault();
      return say(`${MOST_DOWNLOADED.toLocaleString("en")} at a time can be downloaded.`);
    }
    const inputs = this.#names.map((value) => Object.assign(document.createElement("input"), { type: "hidden", name: "name", value }));
    this.#form.append(...inputs);
    setTimeout(() => inputs.forEach((input) => input.remove()));
  }

  async #submit() {
    const [names, lanes, refusals] = [this.#names, new Lanes(AT_ONCE), []];
    this.#clear();
    await Promise.all(
      names.map((upload) => new Promise((resolve) => lanes.run(() => this.#submitOne(upload, refusals).finally(resolve)))),
    );
    const done = names.length - refusals.length;
    const [first] = refusals;
    if (done > 0) say(`${count(done, "image")} submitted for publication.`);
    if (first) say(`${count(refusals.length, "image")} could not be submitted. ${first}`);
  }

  async #submitOne(upload, refusals) {
    const path = `/api/v1/submissions?organizationId=${encodeURIComponent(this.dataset.organization)}`;
    await ask(path, { method: "POST", json: { source: { upload } } }).catch((error) => refusals.push(error.message));
  }

  #delete() {
    const { focused } = this.#grid.picking;
    const names = this.#names.length > 0 ? this.#names : focused ? [focused.name] : [];
    if (names.length === 0) return false;
    const { following, picking } = this.#grid;
    following.keepAway(names);
    const tiles = picking.remove(names);
    const words = names.length === 1 ? `${names[0]} is being deleted.` : `${names.length.toLocaleString("en")} images are being deleted.`;
    undoable(words, {
      seconds: SECONDS,
      commit: ({ keepalive }) => this.#commit(names, tiles, keepalive),
      undo: () => this.#restore(names, tiles),
    });
  }

  async #commit(names, tiles, keepalive) {
    const path = `/api/organizations/${this.dataset.organization}/uploads/delete`;
    try {
      for (let from = 0; from < names.length; from += MOST_DELETED) {
        const asked = ask(path, { method: "POST", json: { names: names.slice(from, from + MOST_DELETED) }, keepalive });
        if (keepalive) asked.catch(() => null); // nobody is left to tell
        else await asked;
      }
      this.#grid?.following.allowLater(names);
    } catch (error) {
      say(error.message);
      this.#restore(names, tiles);
    }
  }

  #restore(names, tiles) {
    const grid = this.#grid;
    if (!grid) return;
    grid.following.allow(names);
    tiles.forEach((tile) => grid.shelf.insert(tile, { isOpenEnded: grid.isOpenEnded }));
    grid.settle();
    const [first] = tiles;
    if (first && grid.shelf.named(first.name)) grid.picking.focus(first);
  }
}

customElements.define("selection-bar", SelectionBar);
