// Where files wait for their turn, in the browser's own database: they outlive the page. Each belongs to
// one person in one organization, and goes as soon as the server has it.
const NAME = "safelight-uploads";

export class Shelf {
  #db = null;

  // Some browsers keep nothing in private windows: then everything stays with the page.
  async open() {
    try {
      const opening = indexedDB.open(NAME, 1);
      opening.addEventListener("upgradeneeded", () => furnish(opening.result));
      this.#db = await ended(opening);
      this.#db.addEventListener("versionchange", () => this.#db.close());
    } catch {
      this.#db = null;
    }
    return this;
  }

  async load(owner) {
    if (!this.#db) return { items: [], tally: null };
    const stores = this.#db.transaction(["items", "tallies"]);
    const [items, tally] = await Promise.all([
      ended(stores.objectStore("items").index("owner").getAll(owner)),
      ended(stores.objectStore("tallies").get(owner)),
    ]);
    return { items, tally: tally ?? null };
  }

  // False when there is no room for all of them: then none is kept.
  async keep(items, files) {
    try {
      await this.#write((store) => {
        items.forEach((item) => store("items").put(item));
        items.forEach((item, i) => store("files").put(files[i], item.id));
      });
      return this.#db !== null;
    } catch {
      return false;
    }
  }

  // What is known of a file from now on. One that was never kept stays so.
  async note(item) {
    await this.#write((store) => store("items").put(item));
  }

  async forget(ids, tally) {
    await this.#write((store) => {
      ids.forEach((id) => store("items").delete(id));
      ids.forEach((id) => store("files").delete(id));
      store("tallies").put(tally, tally.owner);
    });
  }

  async file(id) {
    return this.#db && ended(this.#db.transaction("files").objectStore("files").get(id));
  }

  #write(change) {
    if (!this.#db) return null;
    const all = this.#db.transaction(["items", "files", "tallies"], "readwrite");
    return new Promise((resolve, reject) => {
      all.addEventListener("complete", resolve);
      all.addEventListener("abort", () => reject(all.error));
      try {
        change((name) => all.objectStore(name));
      } catch (error) {
        all.abort();
        reject(error);
      }
    });
  }
}

function furnish(db) {
  db.createObjectStore("items", { keyPath: "id" }).createIndex("owner", "owner");
  db.createObjectStore("files");
  db.createObjectStore("tallies");
}

function ended(request) {
  return new Promise((resolve, reject) => {
    request.addEventListener("success", () => resolve(request.result));
    request.addEventListener("error", () => reject(request.error));
    request.addEventListener("blocked", () => reject(request.error));
  });
}
