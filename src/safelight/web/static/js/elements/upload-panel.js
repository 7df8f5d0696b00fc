// How uploads stand, as a panel that can be folded to one line.
import { figures, note, title } from "../lib/upload-words.js";

const LOOKS = { going: "going", paused: "paused", away: "waiting", resting: "waiting" };
const PHONE = "(max-width: 39.99rem)";
const HELD = new Set(["paused", "stopped"]);

class UploadPanel extends HTMLElement {
  connectedCallback() {
    this.#fold(matchMedia(PHONE).matches);
    this.#find(".tray__fold").onclick = () => this.#fold(!this.#find(".tray__body").hidden);
  }

  disconnectedCallback() {
    this.#find(".tray__fold").onclick = null;
  }

  show(shown, library) {
    const held = this.contains(document.activeElement) ? document.activeElement : null;
    const isEmpty = shown.open + shown.done + shown.known + shown.refused === 0;
    this.#find("section").hidden = isEmpty;
    this.#head(shown);
    this.#note(shown);
    this.#find("upload-groups").show(shown, library);
    this.#find("upload-rows").show(shown);
    this.#find(".tray__stay").hidden = shown.open === 0 || !shown.isSafe || shown.phase !== "going";
    const again = shown.groups.filter((group) => group.key !== "known" && group.isHere);
    this.#find(".tray__foot [data-wish=retry]").hidden = again.length < 2;
    this.#find(".tray__foot [data-wish=cancel]").hidden = shown.open < 2;
    if (held && !held.checkVisibility()) this.#focusInstead(isEmpty);
  }

  #fold(folded) {
    this.#find("section").toggleAttribute("data-folded", folded);
    this.#find(".tray__body").hidden = folded;
    this.#find(".tray__fold").ariaExpanded = String(!folded);
  }

  #head(shown) {
    const isOver = shown.open === 0;
    const ended = shown.refused > 0 ? "problem" : "done";
    this.#find("section").dataset.look = isOver ? ended : (LOOKS[shown.phase] ?? "problem");
    this.#find(".tray__fold .icon--down").toggleAttribute("hidden", isOver && shown.groups.length === 0);
    this.#find(".tray__title").textContent = title(shown);
    this.#find(".tray__figures").textContent = figures(shown);
    this.#find(".tray__bar").value = shown.part;
    this.#find(".tray__bar").hidden = isOver;
    this.#find(".tray__head [data-wish=pause]").hidden = isOver || HELD.has(shown.phase);
    this.#find(".tray__head [data-wish=resume]").hidden = isOver || shown.phase !== "paused";
    this.#find(".tray__head [data-wish=dismiss]").hidden = !isOver;
  }

  #note(shown) {
    const words = note(shown);
    this.#find(".tray__note").hidden = words === "";
    this.#find(".tray__note p").textContent = words;
    for (const item of this.querySelectorAll("[data-for]")) {
      item.hidden = !item.dataset.for.split(" ").includes(shown.phase);
    }
    const here = location.pathname + location.search;
    this.#find("a[data-for]").href = `/login?next=${encodeURIComponent(here)}`;
  }

  #focusInstead(isEmpty) {
    const instead = isEmpty ? document.querySelector("#file") : this.#find(".tray__fold");
    (instead ?? document.querySelector("main")).focus();
  }

  #find(selector) {
    return this.querySelector(selector);
  }
}

customElements.define("upload-panel", UploadPanel);
