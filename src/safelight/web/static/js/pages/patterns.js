import { listen } from "../lib/keys.js";
import { agreed } from "../lib/question.js";
import { say, undoable } from "../lib/toast.js";

const SHOWN = {
  toast: () => say("The token is copied."),
  undo: () => undoable("harbour.jpg is being deleted.", { seconds: 10, commit: () => say("Deleted."), undo: () => say("Kept.") }),
  question: () => agreed("Delete this image?", "Delete for good", "harbour.jpg is deleted for good: there is no way back."),
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-shows]");
  if (button) SHOWN[button.dataset.shows]();
});
listen({ t: ["Show a message", SHOWN.toast] });
