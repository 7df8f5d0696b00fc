// The files that are being sent, and the next ones. There are never many rows, however many files.
import { number, rowWords } from "../lib/upload-words.js";

class UploadRows extends HTMLElement {
  show({ rows, open }) {
    const list = this.querySelector("ol");
    const present = new Map([...list.children].map((item) => [item.dataset.key, item]));
    const wanted = rows.map((row) => this.#filled(present.get(row.id) ?? this.#made(row), row));
    for (const [key, item] of present) {
      if (!rows.some((row) => row.id === key)) item.remove();
    }
    wanted.forEach((item, i) => item !== list.children[i] && list.insertBefore(item, list.children[i]));
    const more = this.querySelector(".tray__more");
    more.hidden = open <= rows.length;
    more.textContent = `and ${number(open - rows.length)} more`;
  }

  #made({ id, title }) {
    const item = document.importNode(this.querySelector("template").content, true).firstElementChild;
    item.dataset.key = id;
    item.querySelector(".tray-row__name").textContent = title;
    item.querySelector("progress").ariaLabel = title;
    item.querySelector("button").ariaLabel = `Cancel ${title}`;
    return item;
  }

  #filled(item, row) {
    item.toggleAttribute("data-sending", row.isSending);
    item.querySelector(".tray-row__state").textContent = rowWords(row);
    item.querySelector("progress").value = row.part;
    item.querySelector("progress").hidden = !row.isSending;
    return item;
  }
}

customElements.define("upload-rows", UploadRows);
