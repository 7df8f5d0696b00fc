import "../elements/find-operation.js";
import "../elements/try-it.js";

// Some browsers do not unfold what an address leads to.
function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && target.closest("details.operation");
  if (!fold || fold.open) return;
  fold.open = true;
  target.scrollIntoView();
}

addEventListener("hashchange", unfold);
unfold();
