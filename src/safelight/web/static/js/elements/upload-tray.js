// The panel of uploads: takes files that were chosen anywhere on the page, shows how they fare and what
// can be done about them.
import { count } from "../lib/format.js";
import { Sums } from "../lib/sums.js";
import { say, undoable } from "../lib/toast.js";
import { UploadDesk } from "../lib/upload-desk.js";
import { Ledger } from "../lib/upload-ledger.js";
import { UploadNews } from "../lib/upload-news.js";
import { UploadQueue } from "../lib/upload-queue.js";
import { UploadServer } from "../lib/upload-server.js";
import { Shelf } from "../lib/upload-shelf.js";
import { figures, note, title } from "../lib/upload-words.js";

const UNDO = 6; // seconds
const LOOKS = { going: "going", paused: "paused", stopped: "problem", away: "waiting", resting: "waiting" };
const PHONE = "(max-width: 39.99rem)";

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
    this.#fold(matchMedia(PHONE).matches);
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
    if (button?.matches(".tray__fold")) this.#fold(button.ariaExpanded === "true");
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

  #fold(folded) {
    this.#find("section").toggleAttribute("data-folded", folded);
    this.#find(".tray__body").hidden = folded;
    this.#find(".tray__fold").ariaExpanded = String(!folded);
  }

  #show(shown) {
    const held = this.contains(document.activeElement) ? document.activeElement : null;
    this.#shown = shown;
    const isEmpty = shown.open + shown.done + shown.known + shown.refused === 0;
    this.#find("section").hidden = isEmpty;
    this.#head(shown);
    this.#note(shown);
    this.#find("upload-groups").show(shown, `/app/${this.dataset.organization}`);
    this.#find("upload-rows").show(shown);
    this.#find(".tray__foot [data-wish=retry]").hidden = shown.groups.filter(isRetriable).length < 2;
    this.#find(".tray__foot [data-wish=cancel]").hidden = shown.open < 2;
    this.#news.hear(shown);
    if (held && !held.checkVisibility()) this.#focusInstead(isEmpty);
  }

  #head(shown) {
    const isOver = shown.open === 0;
    const look = isOver ? (shown.refused > 0 ? "problem" : "done") : (LOOKS[shown.phase] ?? "problem");
    this.#find("section").dataset.look = look;
    this.#find(".tray__title").textContent = title(shown);
    this.#find(".tray__figures").textContent = figures(shown);
    this.#find(".tray__bar").value = shown.part;
    this.#find(".tray__bar").hidden = isOver;
    this.#find(".tray__head [data-wish=pause]").hidden = isOver || shown.phase === "paused" || shown.phase === "stopped";
    this.#find(".tray__head [data-wish=resume]").hidden = isOver || shown.phase !== "paused";
    this.#find(".tray__head [data-wish=dismiss]").hidden = !isOver;
  }

  #note(shown) {
    const words = note(shown);
    this.#find(".tray__note").hidden = words === "";
    this.#find(".tray__note p").textContent = words;
    for (const item of this.querySelectorAll("[data-for]")) {
      item.hidden = !item.dataset.for.split(" ").includes(shown.phase);
      if (item.href !== undefined) item.href = signIn();
    }
  }

  #focusInstead(isEmpty) {
    const instead = isEmpty ? document.querySelector("#file") : this.#find(".tray__fold");
    (instead ?? document.querySelector("main")).focus();
  }

  #find(selector) {
    return this.querySelector(selector);
  }
}

function isRetriable(group) {
  return group.key !== "known" && group.isHere;
}

function signIn() {
  return `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
}

customElements.define("upload-tray", UploadTray);
