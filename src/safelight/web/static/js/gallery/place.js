// Where somebody was in the library, kept with the entry of the browser's history: going back leads there.
const KEY = "library";

export function keep(place) {
  history.replaceState({ ...history.state, [KEY]: place }, "");
}

export function kept() {
  return history.state?.[KEY] ?? null;
}
