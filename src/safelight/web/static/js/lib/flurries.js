// Many lines of a kind within a minute are told as one that unfolds, as the server does with what it
// sends first.
const MANY = 5;
const APART = 60_000;

// Takes one line that stands in a list to those of its kind.
export function gather(line, list, template) {
  const { many, at } = line.dataset;
  if (!many) return;
  const near = (one) => one !== line && one.dataset.many === many && Math.abs(at - one.dataset.at) <= APART;
  const alike = [...list.children].filter(near);
  const flurry = alike.find((one) => one.classList.contains("flurry"));
  if (flurry) return join(flurry, [line], list);
  if (alike.length >= MANY - 1) join(made(line, template, alike.at(-1)), [line, ...alike], list);
}

function join(flurry, lines, list) {
  const [newest] = lines;
  flurry.querySelector("ol").prepend(...lines);
  flurry.dataset.at = newest.dataset.at;
  const count = flurry.querySelector("ol").children.length;
  flurry.querySelector(".flurry__words").textContent = `${count} ${newest.dataset.many}`;
  flurry.querySelector("summary .hint").replaceChildren(newest.querySelector("relative-time").cloneNode(true));
  if (list.firstElementChild !== flurry) list.prepend(flurry);
}

function made(line, template, oldest) {
  const flurry = template.content.firstElementChild.cloneNode(true);
  flurry.dataset.many = line.dataset.many;
  flurry.dataset.key = `f${oldest.dataset.key}`;
  flurry.querySelector(".happening__picture").append(line.querySelector(".happening__picture > *").cloneNode(true));
  return flurry;
}
