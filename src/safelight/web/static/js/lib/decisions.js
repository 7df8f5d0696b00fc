// Decisions of an approver: each can be taken back for five seconds before it is sent, and what somebody
// else decided in between is told in words.
import { ask } from "./api.js";
import { say, undoable } from "./toast.js";

const SECONDS = 5;
const DONE = { approve: "Approved", reject: "Rejected" };
export const STATUS = { approve: "approved", reject: "rejected" };

// Of a form with reasons to choose from and a field for words of one's own.
export function reasonOf(form) {
  const data = new FormData(form);
  return ["common", "reason"].map((name) => (data.get(name) ?? "").trim()).filter(Boolean).join(" ");
}

function begun(name) {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

export function news({ status, decidedBy }, title) {
  return decidedBy ? `${begun(decidedBy)} ${status} “${title}” just now.` : `“${title}” was ended just now.`;
}

export class Decisions {
  #api;
  #pending = new Map(); // id → what settles it

  constructor(api) {
    this.#api = api;
  }

  has(id) {
    return this.#pending.has(id);
  }

  // `after` is done once it is decided so; `undo` puts back what was taken away from the page.
  add({ id, title, verdict, reason, after }, undo) {
    const back = () => {
      this.#pending.delete(id);
      undo();
    };
    const settle = undoable(`${DONE[verdict]}: ${title}`, {
      seconds: SECONDS,
      undo: back,
      commit: ({ keepalive }) => this.#commit({ id, title, verdict, reason, after, keepalive, back }),
    });
    this.#pending.set(id, settle);
  }

  undo() {
    const last = [...this.#pending.values()].at(-1);
    last?.undo();
    return Boolean(last);
  }

  settle(id) {
    this.#pending.get(id)?.();
  }

  async #commit({ id, title, verdict, reason, after, keepalive, back }) {
    try {
      const sent = this.send(id, verdict, reason, keepalive);
      if (keepalive) after?.(true); // the page is being left: all has to be on its way at once
      await sent;
      this.#pending.delete(id);
      if (!keepalive) await after?.(false)?.catch((error) => say(error.message));
    } catch (error) {
      if (error.code === "ALREADY_DECIDED") {
        this.#pending.delete(id);
        return say(await this.told(id, title, verdict));
      }
      back();
      say(error.message);
    }
  }

  send(id, verdict, reason, keepalive) {
    const json = reason ? { reason } : {};
    return ask(`${this.#api}/${id}/${verdict}`, { method: "POST", json, keepalive });
  }

  async told(id, title, verdict) {
    const mine = verdict === "approve" ? "approval" : "rejection";
    const answer = await ask(`${this.#api}/${id}`).catch(() => null);
    const { decidedBy, status } = (await answer?.json()) ?? {};
    const who = decidedBy ? `${begun(decidedBy)} ${status} it` : "It was ended";
    return `${title}: ${who} meanwhile, so your ${mine} did not count.`;
  }
}
