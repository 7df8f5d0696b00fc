// Asks the server for windows of tiles, and for tiles by their names.
import { ask } from "../lib/api.js";

export class Source {
  #here;
  query;

  constructor(here, query) {
    this.#here = here;
    this.query = query;
  }

  newest() {
    return this.#ask("tiles");
  }

  older(cursor) {
    return this.#ask("tiles", [["older", cursor]]);
  }

  newer(cursor) {
    return this.#ask("tiles", [["newer", cursor]]);
  }

  // What is as old as that moment, or older.
  at(moment) {
    return this.#ask("tiles", [["at", moment]]);
  }

  named(names) {
    return this.#ask("tiles/named", names.map((name) => ["name", name]));
  }

  async #ask(what, more = []) {
    const query = new URLSearchParams(this.query);
    more.forEach(([key, value]) => query.append(key, value));
    return (await ask(`${this.#here}/${what}?${query}`)).json();
  }
}
