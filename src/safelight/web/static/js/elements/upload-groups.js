// What was not sent, by reason: the server's words once, the files below them. What is here already
// leads to the image it is here as.
import { heading, number } from "../lib/upload-words.js";

class UploadGroups extends HTMLElement {
  show({ groups }, library) {
    const list = this.querySelector("ul");
    const present = new Map([...list.children].map((item) => [item.dataset.key, item]));
    for (const group of groups) {
      const item = present.get(group.key) ?? this.#made(group.key);
      present.delete(group.key);
      if (!item.isConnected) list.append(item);
      const told = JSON.stringify(group);
      if (item.dataset.told === told) continue;
      item.dataset.told = told;
      this.#fill(item, group, library);
    }
    for (const gone of present.values()) gone.remove();
    list.hidden = groups.length === 0;
  }

  #made(key) {
    const item = document.importNode(this.querySelector("template").content, true).firstElementChild;
    item.dataset.key = key;
    return item;
  }

  #fill(item, group, library) {
    const isKnown = group.key === "known";
    const words = heading(group);
    item.querySelector(".tray-group__words").textContent = words;
    const isSaid = !isKnown && group.count === 1; // its name stands before the reason
    const names = isSaid ? [] : group.names;
    item.querySelector("ul").replaceChildren(...names.map((one) => line(one, library)));
    if (group.count > group.names.length) {
      const rest = document.createElement("li");
      rest.textContent = `and ${number(group.count - group.names.length)} more`;
      item.querySelector("ul").append(rest);
    }
    item.toggleAttribute("data-known", isKnown);
    for (const button of item.querySelectorAll("button")) {
      button.ariaLabel = `${button.textContent}: ${words}`;
    }
    item.querySelector("[data-wish=retry]").hidden = isKnown || !group.isHere;
    item.querySelector("[data-wish=anyway]").hidden = !isKnown;
  }
}

function line({ title, as, words }, library) {
  const item = document.createElement("li");
  item.append(title);
  if (words) item.append(` – ${words}`);
  if (as) {
    const link = document.createElement("a");
    link.href = `${library}/images?name=${encodeURIComponent(as)}`;
    link.textContent = as;
    item.append(as === title ? " – see " : " – as ", link);
  }
  return item;
}

customElements.define("upload-groups", UploadGroups);
