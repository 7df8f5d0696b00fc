// Keys of a page, and what they do: "?" shows the list. Keys that are typed into a field, or pressed
// together with another, are not ours.
const known = new Map(); // key → { words, act }

// What `keys` holds: key → [words, act]. They are forgotten when the signal aborts.
export function listen(keys, signal) {
  for (const [key, [words, act]] of Object.entries(keys)) {
    const entry = { words, act };
    known.set(key, entry);
    signal?.addEventListener("abort", () => known.get(key) === entry && known.delete(key));
  }
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.repeat || isTyping(event.target)) return;
  if (event.key === "?" && known.size > 0) return toggle();
  if (document.querySelector("dialog[open]")) return;
  const entry = known.get(event.key.length === 1 ? event.key.toLowerCase() : event.key);
  if (entry && entry.act(event) !== false) event.preventDefault();
});

function isTyping(target) {
  return target.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
}

function toggle() {
  const open = document.querySelector("dialog[data-keys]");
  if (open) return open.close();
  const dialog = document.createElement("dialog");
  dialog.className = "dialog stack";
  dialog.dataset.keys = "";
  dialog.ariaLabel = "Keys of this page";
  const title = document.createElement("h2");
  title.textContent = "Keys";
  const list = document.createElement("dl");
  list.className = "keys";
  for (const [key, { words }] of known) list.append(line(key, words));
  const close = document.createElement("button");
  close.className = "button button--quiet";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  dialog.append(title, list, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", " ": "Space" };

function line(key, words) {
  const row = document.createElement("div");
  const term = document.createElement("dt");
  const cap = document.createElement("kbd");
  cap.textContent = NAMES[key] ?? key.toUpperCase();
  term.append(cap);
  const what = document.createElement("dd");
  what.textContent = words;
  row.append(term, what);
  return row;
}
