// From what is known of an image to its tile.
const SHARP = 1.9; // a picture is enlarged by so much before a larger one is asked for
const PHONE = 640; // small pictures do there

const [DAYS, DAY, YEAR] = [
  new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long" }),
  new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long" }),
  new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric" }),
];

export class Forms {
  #root;

  constructor(root) {
    this.#root = root;
  }

  make(name) {
    return this.#root.querySelector(`template[data-form=${name}]`).content.firstElementChild.cloneNode(true);
  }

  icon(name) {
    const icons = this.#root.querySelector("template[data-form=icons]").content;
    return (icons.querySelector(`.icon--${name}`) ?? icons.querySelector(".icon--archive")).cloneNode(true);
  }
}

export function fill(shot, tile, forms) {
  const link = shot.querySelector(".shot__open");
  const { dataset } = shot;
  if (link.getAttribute("href") !== tile.href) link.href = tile.href;
  const version = tile.picture ?? "";
  if (dataset.version !== version) frame(link, tile, forms);
  Object.assign(dataset, { name: tile.name, state: tile.state, version });
  text(shot, "name", tile.name);
  text(shot, "label", [tile.label, tile.percent].filter(Boolean).join(" "));
  text(shot, "trouble", tile.trouble ? `${tile.moves ? "Trying again. " : ""}${tile.trouble}` : "");
  state(shot.querySelector(".shot__state"), tile, forms);
  const pick = shot.querySelector(".shot__pick");
  pick.value = tile.name;
  pick.ariaLabel = `Select ${tile.name}`;
}

function frame(link, tile, forms) {
  link.querySelector(".shot__picture, .icon--picture")?.remove();
  if (!tile.picture) return link.prepend(forms.icon("picture"));
  const image = new Image();
  image.className = "shot__picture";
  image.alt = "";
  image.decoding = "async";
  link.style.backgroundColor = tile.tint ?? "";
  image.addEventListener("load", () => (link.style.backgroundColor = "")); // what shows through is not its own
  image.addEventListener("error", () => image.removeAttribute("srcset"));
  image.dataset.due = tile.picture;
  link.prepend(image);
}

// Its picture is asked for.
export function show(shot) {
  const image = shot.querySelector("[data-due]");
  if (!image) return;
  image.src = image.dataset.due;
  delete image.dataset.due;
}

function state(chip, { state, word, icon, tone }, forms) {
  chip.hidden = state === "labelled";
  if (chip.dataset.word === word) return;
  chip.dataset.word = word;
  chip.className = `shot__state state state--${tone}`;
  const words = document.createElement("span");
  words.className = "shot__word";
  words.textContent = word;
  chip.replaceChildren(forms.icon(icon), words);
}

function text(shot, part, words) {
  const element = shot.querySelector(`.shot__${part}`);
  if (element.textContent !== words) element.textContent = words;
}

// Once it is looked at, the larger picture where the small one would be blurred.
export function sharpen(shot, { picture, small, large, w }) {
  const image = shot.querySelector(".shot__picture");
  if (!image || !large || image.srcset || innerWidth < PHONE) return;
  if (w * devicePixelRatio <= small * SHARP) return;
  image.sizes = `${w}px`;
  image.srcset = `${picture} ${small}w, ${picture.replace("/thumbnail?", "/thumbnail?size=1280&")} ${large}w`;
}

// What came with the page.
export function read(shot) {
  const { tile, name, state } = shot.dataset;
  const attribute = (selector, key) => shot.querySelector(selector)?.getAttribute(key) ?? undefined;
  const picture = attribute(".shot__picture", "src");
  return { ...JSON.parse(tile), name, state, picture, href: attribute(".shot__open", "href") };
}

// Of a day, or of several of one month, the newest first.
export function daysInWords(day, until = day) {
  const ago = Math.round((new Date().setHours(0, 0, 0, 0) - day) / 86_400_000);
  if (ago === 0) return "Today";
  if (ago === 1) return "Yesterday";
  const isThisYear = ago > 0 && ago < 300;
  if (until !== day) return (isThisYear ? DAYS : YEAR).formatRange(until, day);
  return (isThisYear ? DAY : YEAR).format(day);
}
