// Around an image's page: its keys, the way to its neighbours and back, and deleting it with ten
// seconds in which that can be taken back. All of it is links and forms without scripts.
import { ask } from "../lib/api.js";
import { listen } from "../lib/keys.js";
import { once } from "../lib/once.js";
import { say, undoable } from "../lib/toast.js";

const SECONDS = 10;
const BARE = "image-bare"; // kept while one goes from image to image

class ImagePage extends HTMLElement {
  #leaving;
  #settle;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    document.addEventListener("click", (event) => this.#click(event), { signal });
    this.addEventListener("submit", (event) => once(event), { signal });
    listen(
      {
        ArrowLeft: ["The newer image", () => this.#step("prev")],
        ArrowRight: ["The older image", () => this.#step("next")],
        Escape: ["Back to the library", () => this.#escape()],
        d: ["Download it", () => press(verb("download"))],
        p: ["Publish it", () => press(verb("publish"))],
        i: ["Show or hide the details", () => press(verb("info"))],
        Delete: ["Delete it", () => press(verb("delete"))],
      },
      signal,
    );
    const info = verb("info");
    if (info) info.hidden = false;
    this.#bare(sessionStorage.getItem(BARE) === "true");
    if (document.readyState === "complete") this.#fetchAhead();
    else addEventListener("load", () => this.#fetchAhead(), { signal });
  }

  disconnectedCallback() {
    this.#leaving.abort();
  }

  get #stage() {
    return this.querySelector("image-stage");
  }

  #step(rel) {
    return this.#stage.isZoomed ? false : press(neighbour(rel));
  }

  #escape() {
    if (this.#stage.isZoomed) this.#stage.rest();
    else press(verb("back"));
  }

  #click(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest?.(".image-way [rel], [data-verb]");
    const wish = link?.dataset.verb ?? link?.rel;
    const deeds = { prev: go, next: go, back, publish: unfold };
    deeds.delete = () => this.#delete();
    deeds.info = () => this.#bare(!("bare" in this.dataset));
    if (!(wish in deeds)) return;
    event.preventDefault();
    deeds[wish](link);
  }

  #bare(isBare) {
    this.toggleAttribute("data-bare", isBare);
    verb("info")?.setAttribute("aria-expanded", String(!isBare));
    sessionStorage.setItem(BARE, String(isBare));
  }

  // Where one goes next is there by then.
  #fetchAhead() {
    for (const { dataset } of document.querySelectorAll(".image-way [data-picture]")) {
      new Image().src = dataset.picture;
    }
  }

  #delete() {
    if (this.#settle) return;
    this.dataset.leaving = "";
    this.#settle = undoable(`${this.dataset.name} is being deleted.`, {
      seconds: SECONDS,
      commit: (how) => this.#commit(how),
      undo: () => this.#keep(),
    });
  }

  #keep() {
    delete this.dataset.leaving;
    this.#settle = null;
    verb("delete")?.focus();
  }

  async #commit({ keepalive }) {
    try {
      await ask(this.dataset.api, { method: "DELETE", keepalive });
    } catch (error) {
      this.#keep();
      return say(error.message);
    }
    if (keepalive) return;
    location.replace((neighbour("next") ?? neighbour("prev") ?? verb("back")).href);
  }
}

function verb(name) {
  return document.querySelector(`[data-verb=${name}]`);
}

function neighbour(rel) {
  return document.querySelector(`.image-way [rel=${rel}]`);
}

function press(element) {
  if (!element) return false;
  element.click();
}

// However many images are looked at, the library is one step back.
function go(link) {
  location.replace(link.href);
}

function back(link) {
  const { pathname } = new URL(link.href);
  const entry = globalThis.navigation?.entries()[navigation.currentEntry.index - 1];
  if (entry?.url && new URL(entry.url).pathname === pathname) history.back();
  else location.assign(link.href);
}

function unfold() {
  const part = document.querySelector("#publish details");
  if (!part) return;
  part.open = true;
  part.scrollIntoView({ block: "nearest" });
  part.querySelector("input:not([type=hidden])").focus();
}

customElements.define("image-page", ImagePage);
