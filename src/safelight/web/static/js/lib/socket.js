// An organization's messages without a gap: over a socket, and by polling whenever there is none.
//
// Each message has a seq. Whatever breaks, the next attempt asks for what comes after the last one
// seen, and a message that comes by both ways is told once.
import { ask } from "./api.js";

const SHORTEST = 400;
const LONGEST = 5_000;
const SILENCE = 60_000; // a socket that tells nothing for this long is asked whether it still lives
const CREDENTIAL_ENDED = 4401;

export const State = { LIVE: "live", POLLING: "polling", AWAY: "away", SIGNED_OUT: "signed-out" };

export class Feed {
  #address;
  #seq;
  #onMessage;
  #onState;
  #socket = null;
  #ended = false;
  #hurry = () => {};
  #stopPausing = () => {};

  constructor(organization, after, { onMessage, onState }) {
    this.#address = `/api/organizations/${encodeURIComponent(organization)}`;
    this.#seq = Number(after);
    this.#onMessage = onMessage;
    this.#onState = onState;
  }

  async run() {
    for (let failures = 0; !this.#ended; ) {
      const opened = await this.#listen();
      if (this.#ended) return;
      failures = opened ? 1 : failures + 1;
      this.#onState(await this.#catchUp());
      if (!this.#ended) await this.#pause(failures);
    }
  }

  // Called when the page is seen again or the network is back: do not wait, look.
  hurry() {
    this.#hurry();
  }

  stop() {
    this.#ended = true;
    this.#socket?.close();
    this.#stopPausing();
  }

  // Resolves when the socket has ended, with whether it was ever open.
  #listen() {
    return new Promise((resolve) => {
      const url = new URL(`${this.#address}/live?after=${this.#seq}`, location.href);
      url.protocol = url.protocol.replace("http", "ws");
      const socket = (this.#socket = new WebSocket(url));
      let opened = false;
      let silence;
      const isAlive = async () => {
        if ((await this.#catchUp()) === State.POLLING) listenOn();
        else socket.close();
      };
      const listenOn = () => {
        clearTimeout(silence);
        if (socket.readyState === WebSocket.OPEN) silence = setTimeout(isAlive, SILENCE);
      };
      this.#hurry = isAlive;
      socket.addEventListener("open", () => {
        opened = true;
        listenOn();
        this.#onState(State.LIVE);
      });
      socket.addEventListener("message", (event) => {
        listenOn();
        this.#take(JSON.parse(event.data));
      });
      socket.addEventListener("close", (event) => {
        clearTimeout(silence);
        if (event.code === CREDENTIAL_ENDED) this.#signedOut();
        resolve(opened);
      });
    });
  }

  // Asks for what was missed; tells how things stand.
  async #catchUp() {
    try {
      for (let more = true; more; ) {
        const answer = await ask(`${this.#address}/activity?after=${this.#seq}&limit=200`);
        const { items, nextCursor } = await answer.json();
        items.forEach((message) => this.#take(message));
        more = nextCursor !== null;
      }
      return State.POLLING;
    } catch (error) {
      return error.status === 401 || error.status === 404 ? this.#signedOut() : State.AWAY;
    }
  }

  #take(message) {
    const isReset = message.type === "reset"; // the server's history is shorter than it was
    if (message.seq <= this.#seq && !isReset && message.type !== "history_truncated") return;
    this.#seq = isReset ? message.seq : Math.max(this.#seq, message.seq);
    this.#onMessage(message);
  }

  #signedOut() {
    this.#ended = true;
    this.#onState(State.SIGNED_OUT);
    return State.SIGNED_OUT;
  }

  // Longer after each failure, and never the same for two pages that lost one server.
  #pause(failures) {
    const longest = Math.min(LONGEST, SHORTEST * 2 ** failures);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, longest * (0.5 + Math.random() / 2));
      this.#stopPausing = this.#hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
