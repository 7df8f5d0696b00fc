// An element with what it has and holds: make("p", { className: "hint" }, "words").
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "data") Object.assign(element.dataset, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}
