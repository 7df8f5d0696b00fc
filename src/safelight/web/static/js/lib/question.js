// Asks before something grave: resolves to whether it was agreed to.
import { make } from "./make.js";

export function agreed(title, button, ...words) {
  const dialog = make("dialog", { className: "dialog", ariaLabel: title });
  const keep = make("button", { className: "button button--quiet", value: "", autofocus: true }, "Leave it");
  const go = make("button", { className: "button button--danger", value: "go" }, button);
  const form = make(
    "form",
    { className: "stack", method: "dialog" },
    make("h2", {}, title),
    make("p", { className: "anywhere" }, ...words),
    make("p", { className: "actions actions--end" }, keep, go),
  );
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "go");
    });
  });
}
