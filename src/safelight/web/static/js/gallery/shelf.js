// The tiles that are known here, newest first, without gap between the first and the last of them.
const RECENT = 48 * 3_600_000;

export class Shelf {
  tiles = [];
  #names = new Map();

  named(name) {
    return this.#names.get(name);
  }

  clear() {
    this.tiles = [];
    this.#names.clear();
  }

  // What follows the last; returns how many were new.
  append(tiles) {
    return this.tiles.push(...this.#fresh(tiles));
  }

  prepend(tiles) {
    this.tiles = [...this.#fresh(tiles), ...this.tiles];
  }

  // Before the first older one. False: it belongs below the end of what is known.
  insert(tile, { isOpenEnded }) {
    const index = this.tiles.findIndex((other) => other.at <= tile.at);
    if (index < 0 && isOpenEnded && this.tiles.length > 0) return false;
    const [fresh] = this.#fresh([tile]);
    if (fresh) this.tiles.splice(index < 0 ? this.tiles.length : index, 0, fresh);
    return Boolean(fresh);
  }

  // It stays where it is.
  update(tile) {
    const known = this.#names.get(tile.name);
    const { day, month, index, x, y, w, h } = known;
    const isReshaped = known.width !== tile.width || known.height !== tile.height;
    for (const key of Object.keys(known)) delete known[key];
    Object.assign(known, tile, { day, month, index, x, y, w, h });
    return isReshaped;
  }

  remove(names) {
    const gone = new Set(names.filter((name) => this.#names.delete(name)));
    if (gone.size > 0) this.tiles = this.tiles.filter(({ name }) => !gone.has(name));
    return gone.size;
  }

  #fresh(tiles) {
    const fresh = tiles.filter(({ name }) => !this.#names.has(name));
    for (const tile of fresh) {
      Object.assign(tile, dated(tile.at));
      this.#names.set(tile.name, tile);
    }
    return fresh;
  }
}

let known = { from: 1, until: 0 };

// The reader's midnight before a moment; today and yesterday are months of their own.
function dated(at) {
  if (at < known.from || at >= known.until) {
    const day = new Date(at).setHours(0, 0, 0, 0);
    const date = new Date(day);
    const isRecent = Date.now() - day < RECENT;
    const month = isRecent ? day : date.getFullYear() * 12 + date.getMonth();
    known = { from: day, until: new Date(day).setDate(date.getDate() + 1), day, month };
  }
  return { day: known.day, month: known.month };
}
