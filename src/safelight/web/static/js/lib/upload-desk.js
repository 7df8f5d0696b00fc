// Uploads as every open page of one person sees them: one page sends, and all show the same and may say
// what is to be done.
import { turn } from "./turns.js";

const EVERY = 150; // milliseconds between two pictures

export class UploadDesk {
  #name;
  #channel;
  #makeQueue;
  #onPicture;
  #queue = null;
  #over = new AbortController();
  #given = new Map(); // ticket → files that the sending page has not confirmed
  #timer = null;

  constructor(owner, makeQueue, onPicture) {
    this.#name = `safelight-uploads:${owner}`;
    this.#makeQueue = makeQueue;
    this.#onPicture = onPicture;
  }

  async start() {
    this.#channel = new BroadcastChannel(this.#name);
    this.#channel.addEventListener("message", ({ data }) => this.#hear(data));
    this.#tell({ kind: "hello" });
    try {
      await turn(this.#name, this.#over.signal);
    } catch {
      return; // this page went first
    }
    const queue = await this.#makeQueue(() => this.#changed());
    await queue.start();
    this.#queue = queue;
    this.#changed();
    for (const found of this.#given.values()) queue.add(found);
    this.#given.clear();
  }

  stop() {
    this.#over.abort();
    clearTimeout(this.#timer);
    this.#queue?.stop();
    this.#channel.close();
  }

  get isSafe() {
    return this.#given.size === 0 && (this.#queue?.isSafe ?? true);
  }

  add(found) {
    if (this.#queue) return this.#queue.add(found);
    const ticket = Math.random().toString(36).slice(2);
    this.#given.set(ticket, found);
    return this.#tell({ kind: "add", ticket, found });
  }

  act(command) {
    if (this.#queue) this.#queue.act(command);
    else this.#tell({ kind: "act", command });
  }

  #hear({ kind, ticket, found, command, shown }) {
    if (kind === "show" && !this.#queue) this.#onPicture(shown);
    if (kind === "taken") this.#given.delete(ticket);
    if (!this.#queue) return;
    if (kind === "hello") this.#changed();
    if (kind === "act") this.#queue.act(command);
    if (kind === "add") this.#take(ticket, found);
  }

  async #take(ticket, found) {
    await this.#queue.add(found);
    this.#tell({ kind: "taken", ticket });
  }

  #changed() {
    if (this.#over.signal.aborted) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      if (!this.#queue) return;
      const shown = this.#queue.picture();
      this.#onPicture(shown);
      this.#tell({ kind: "show", shown });
    }, EVERY);
  }

  #tell(message) {
    if (!this.#over.signal.aborted) this.#channel.postMessage(message);
  }
}
