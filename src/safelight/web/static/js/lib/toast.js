// Short messages over the page, and acts that can be taken back for a while before they happen.
const STAY = 5_000;
const STEP = 100;

const pending = new Set();
addEventListener("pagehide", () => pending.forEach((one) => one.settle(true)));

export function say(words) {
  const toast = show(words);
  setTimeout(() => toast.remove(), STAY);
}

// `commit` is called when the time is over or the page is left (then with { keepalive: true }), `undo`
// when the reader wants it back. The clock stands still while the pointer or the focus is on it.
// Answers with a function that commits at once; its `undo` takes it back.
export function undoable(words, { seconds, commit, undo }) {
  const toast = show(words);
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Undo";
  const bar = document.createElement("progress");
  bar.className = "toast__left";
  bar.max = seconds * 1_000;
  bar.value = bar.max;
  bar.ariaHidden = "true";
  toast.append(button, bar);

  const timer = setInterval(() => {
    if (toast.matches(":hover, :focus-within")) return;
    bar.value -= STEP;
    if (bar.value <= 0) one.settle();
  }, STEP);
  const one = {
    settle(keepalive = false) {
      if (end()) commit({ keepalive });
    },
  };
  const end = () => {
    clearInterval(timer);
    toast.remove();
    return pending.delete(one);
  };
  const back = () => end() && undo();
  button.addEventListener("click", back);
  pending.add(one);
  return Object.assign(() => one.settle(), { undo: back });
}

function show(words) {
  const toast = document.createElement("div");
  toast.className = "toast";
  const text = document.createElement("p");
  text.className = "toast__words";
  text.textContent = words;
  toast.append(text);
  document.querySelector(".toasts").append(toast);
  return toast;
}
