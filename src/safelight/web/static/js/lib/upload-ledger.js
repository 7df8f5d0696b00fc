// The files of one person in one organization, and what became of each. What is written here is kept on
// the shelf as well, so that another page can go on where this one ended.
const DAY = 86_400_000;
const REST = 1_000; // a request whose answer was lost may still be at work

export class Ledger {
  #owner;
  #shelf;
  #items = new Map();
  #files = new Map(); // of what is not kept, or not yet
  #keeping = new Map();
  #lastKept = Promise.resolve();
  #aside = [];
  #last = 0;
  hasRoom = true;

  constructor(owner, shelf) {
    this.#owner = owner;
    this.#shelf = shelf;
    this.tally = this.#fresh();
  }

  async load() {
    const { items, tally } = await this.#shelf.load(this.#owner);
    const now = Date.now();
    const old = items.filter((item) => !isOpen(item) && item.at < now - DAY);
    for (const item of items) {
      const sentAgain = Boolean(item.tried);
      if (old.includes(item)) continue;
      this.#items.set(item.id, { ...item, asked: false, sentAgain, rest: now + REST });
    }
    if (this.first(isOpen)) this.tally = tally ?? this.tally;
    if (old.length > 0) this.#forget(old.map((item) => item.id));
  }

  get items() {
    return [...this.#items.values()];
  }

  get aside() {
    return this.#aside.length;
  }

  // Whether the page may go without losing what still has to be sent.
  get isSafe() {
    return ![...this.#files.keys()].some((id) => isOpen(this.#items.get(id) ?? {}));
  }

  first(fits) {
    for (const item of this.#items.values()) if (fits(item)) return item;
    return null;
  }

  add(found, wrongWith) {
    if (!this.first(isOpen)) this.tally = this.#fresh();
    for (const { file, name } of found) {
      const item = this.#made(file, name, wrongWith(file));
      this.#items.set(item.id, item);
      if (!isOpen(item)) continue;
      this.#files.set(item.id, file);
      this.#lastKept = this.#keep(item, this.#lastKept);
      this.#keeping.set(item.id, this.#lastKept);
    }
    return this.#lastKept;
  }

  // Resolves when it is on the shelf, or there is no room for it.
  kept(item) {
    return this.#keeping.get(item.id);
  }

  async file(item) {
    const file = this.#files.get(item.id) ?? (await this.#shelf.file(item.id));
    if (!file) throw new DOMException("It is not there any more.", "NotFoundError");
    return file;
  }

  async isReadable(item) {
    try {
      await (await this.file(item)).slice(0, 1).arrayBuffer();
      return true;
    } catch {
      return false;
    }
  }

  // What is known of it from now on.
  async note(item, change = {}) {
    Object.assign(item, change);
    if (!this.#files.has(item.id)) await this.#write((shelf) => shelf.note(bare(item)));
  }

  // The server has it.
  async settle(item) {
    this.#items.delete(item.id);
    this.#aside = this.#aside.filter((one) => one !== item);
    const { done, bytes } = this.tally;
    this.tally = { ...this.tally, done: done + 1, bytes: bytes + item.size };
    for (const other of this.#items.values()) {
      if (other.checksum === item.checksum && !other.force) other.asked = false;
    }
    await this.#forget([item.id]);
  }

  again(which, change) {
    for (const item of this.items.filter(which)) {
      this.note(item, { state: "waiting", asked: false, breaks: 0, group: null, ...change });
    }
  }

  drop(which) {
    const ids = this.items.filter(which).map((item) => item.id);
    ids.forEach((id) => this.#items.delete(id));
    if (this.#items.size === 0) this.tally = this.#fresh();
    this.#forget(ids);
  }

  // Out of the way, until it is sure that nobody wants it back.
  setAside(which) {
    for (const item of this.items.filter(which)) {
      this.#items.delete(item.id);
      this.#aside.push(item);
    }
  }

  restore() {
    for (const item of this.#aside.splice(0)) {
      this.#items.set(item.id, Object.assign(item, { state: "waiting", asked: false }));
    }
  }

  forgetAside() {
    this.#forget(this.#aside.splice(0).map((item) => item.id));
  }

  pause(paused) {
    this.tally = { ...this.tally, paused };
    this.#forget([]);
  }

  #made(file, name, wrong) {
    this.#last += 1;
    const now = Date.now();
    const unique = `${String(this.#last).padStart(6, "0")}-${Math.random().toString(36).slice(2)}`;
    return {
      id: `${now}-${unique}`,
      owner: this.#owner,
      name,
      title: name ?? file.name,
      size: file.size,
      state: wrong ? "refused" : "waiting",
      words: wrong,
      group: wrong,
      isHere: !wrong, // there is something to try again
      checksum: null,
      at: now,
      breaks: 0,
      rest: 0,
    };
  }

  // In the order in which they came, and one at a time: the first are sent meanwhile.
  async #keep(item, before) {
    await before;
    if (this.hasRoom && this.#items.has(item.id)) {
      this.hasRoom = await this.#shelf.keep([bare(item)], [this.#files.get(item.id)]);
      if (this.hasRoom) this.#files.delete(item.id);
    }
    this.#keeping.delete(item.id);
  }

  #forget(ids) {
    ids.forEach((id) => this.#files.delete(id));
    return this.#write((shelf) => shelf.forget(ids, this.tally));
  }

  // A full disk must not end what can go on without it.
  async #write(change) {
    try {
      await change(this.#shelf);
    } catch {
      this.hasRoom = false;
    }
  }

  #fresh() {
    return { owner: this.#owner, done: 0, bytes: 0, paused: false };
  }
}

export function isOpen(item) {
  return item.state === "waiting" || item.state === "sending";
}

// What is being sent now is, in another life, to be asked for.
function bare(item) {
  return { ...item, state: item.state === "sending" ? "waiting" : item.state };
}
