// What of a list, drawn over the whole of its height, is in the window.
const SPACE = 8;

export class View {
  #list;
  #shelf;

  constructor(list, shelf) {
    this.#list = list;
    this.#shelf = shelf;
  }

  get top() {
    return this.#list.getBoundingClientRect().top + scrollY;
  }

  // What the line at the top covers is not seen.
  get #covered() {
    return document.querySelector(".topline").offsetHeight;
  }

  // Tells of an item whether any of it is in the window.
  test() {
    const from = scrollY - this.top;
    return ({ y, h }) => y + h > from && y < from + innerHeight;
  }

  // The first tile that is seen, and where; what has just been put in has no place yet.
  anchor() {
    const { top } = this;
    const edge = scrollY - top + this.#covered;
    const tile = this.#shelf.tiles.find(({ y, h }) => y + h > edge);
    return tile ? { tile, offset: tile.y + top - scrollY } : null;
  }

  // Scrolls to where the anchor is seen as it was.
  keep({ tile, offset }) {
    const moved = tile.y + this.top - scrollY - offset;
    if (Math.abs(moved) >= 1) scrollBy({ top: moved, behavior: "instant" });
  }

  // No further than it takes to see all of it.
  reveal({ y, h }) {
    const covered = this.#covered + SPACE;
    const from = y + this.top - scrollY;
    const below = from + h + covered - innerHeight;
    if (from < covered) scrollBy({ top: from - covered, behavior: "instant" });
    else if (below > 0) scrollBy({ top: below, behavior: "instant" });
  }
}
