// The tiles that are known here, newest first, without gap between the first and the last of them.
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
    const { day, index, x, y, w, h } = known;
    const isReshaped = known.width !== tile.width || known.height !== tile.height;
    for (const key of Object.keys(known)) delete known[key];
    Object.assign(known, tile, { day, index, x, y, w, h });
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
      tile.day = dayOf(tile.at);
      this.#names.set(tile.name, tile);
    }
    return fresh;
  }
}

let known = { from: 1, until: 0 };

// The reader's midnight before a moment.
function dayOf(at) {
  if (at < known.from || at >= known.until) {
    const from = new Date(at).setHours(0, 0, 0, 0);
    known = { from, until: new Date(from).setDate(new Date(from).getDate() + 1) };
  }
  return known.from;
}
