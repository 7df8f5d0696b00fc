// What happens elsewhere, as the gallery shows it. A live message says that a name has changed; what it
// has become is asked of the server. So messages may come twice, late or in any order.
import { count } from "../lib/format.js";
import { Gatherer } from "../lib/gatherer.js";
import { Speaker } from "../lib/speaker.js";

const LOOK_AGAIN = 15_000; // what should move is looked at even if nothing was heard of it
const MOST_LOOKS = 20;
const KEPT_AWAY = 10_000; // what was deleted, until its row has followed

export class Following {
  #grid;
  #changed = new Gatherer((names) => this.#refresh(names));
  #speaker;
  #unseen = new Set();
  #away = new Set(); // being deleted

  constructor(grid, signal) {
    this.#grid = grid;
    this.#speaker = new Speaker(grid.querySelector("[data-news]"), (n) => `${count(n, "image")} labelled`);
    document.addEventListener("live", (event) => this.#hear(event.detail), { signal });
    this.#fresh.addEventListener("click", () => this.#showNewest(), { signal });
    const timer = setInterval(() => this.#lookAgain(), LOOK_AGAIN);
    signal.addEventListener("abort", () => {
      clearInterval(timer);
      this.#changed.stop();
      this.#speaker.stop();
    });
  }

  get #fresh() {
    return this.#grid.querySelector("[data-verb=fresh]");
  }

  allowed(tiles) {
    return tiles.filter(({ name }) => !this.#away.has(name));
  }

  // The newest are shown from the beginning.
  forget() {
    this.#unseen.clear();
    this.#count();
  }

  letIn() {
    this.#unseen.forEach((name) => this.#changed.add(name));
    this.forget();
  }

  keepAway(names) {
    names.forEach((name) => this.#away.add(name));
  }

  allow(names) {
    names.forEach((name) => this.#away.delete(name));
  }

  allowLater(names) {
    setTimeout(() => this.allow(names), KEPT_AWAY);
  }

  #hear({ type, name }) {
    const { shelf, isStill, isWatched, source } = this.#grid;
    if (type === "history_truncated" || type === "reset") return isStill || this.#anew(isWatched);
    if (!name || !/^(upload|classification)_/.test(type)) return;
    if (type === "upload_ingested") this.#away.delete(name);
    if (shelf.named(name) || (!isStill && (isWatched || source.query))) this.#changed.add(name);
    else if (type === "upload_ingested" || type === "upload_stored") this.#unseen.add(name);
    else if (type === "upload_deleted") this.#unseen.delete(name);
    else return;
    this.#count();
  }

  // The feed no longer reaches back to where this page was.
  #anew(isWatched) {
    if (isWatched) return this.#grid.show();
    this.#fresh.textContent = "Show the newest ↑";
    this.#fresh.hidden = false;
  }

  async #refresh(names) {
    const { shelf, source } = this.#grid;
    const { tiles } = await source.named(names);
    const found = new Map(this.allowed(tiles).map((tile) => [tile.name, tile]));
    const gone = names.filter((name) => shelf.named(name) && !found.has(name));
    let isMoved = false;
    for (const tile of found.values()) isMoved = this.#change(tile) || isMoved;
    if (gone.length > 0) this.#grid.picking.remove(gone);
    if (isMoved) this.#grid.settle({ anchored: !this.#grid.isWatched });
    this.#count();
  }

  // Whether anything has to find its place anew.
  #change(tile) {
    const { shelf, canvas, isWatched, isOpenEnded, isStill } = this.#grid;
    const known = shelf.named(tile.name);
    // Another upload of the name is as new as any.
    if (known && known.href !== tile.href && tile.at > known.at && isWatched) {
      shelf.remove([tile.name]);
      canvas.forget(known);
      return shelf.insert(tile, { isOpenEnded });
    }
    if (known) {
      if (tile.state === "labelled" && known.state !== "labelled") {
        this.#speaker.say(`${tile.name}: ${tile.label} ${tile.percent ?? ""}`);
      }
      const isReshaped = shelf.update(tile);
      canvas.refresh(known);
      return isReshaped;
    }
    if (isStill) return false;
    if (isWatched || tile.at < (shelf.tiles[0]?.at ?? Infinity)) return shelf.insert(tile, { isOpenEnded });
    this.#unseen.add(tile.name);
    return false;
  }

  #count() {
    const { size } = this.#unseen;
    const fresh = this.#fresh;
    fresh.hidden = size === 0;
    if (size > 0) fresh.textContent = `${size.toLocaleString("en")} new ↑`;
  }

  async #showNewest() {
    await this.#grid.show();
    this.#grid.picking.focusFirst();
  }

  #lookAgain() {
    const moving = this.#grid.shelf.tiles.slice(0, 500).filter((tile) => tile.moves);
    moving.slice(-MOST_LOOKS).forEach((tile) => this.#changed.add(tile.name));
  }
}
