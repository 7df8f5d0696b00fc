// Sends files, a few at a time, each once: what may be there already is asked for before it is sent.
// Whatever the server cannot do now is waited for; only what it refuses for good is handed back.
import { Pace } from "./pace.js";
import { Patience } from "./patience.js";
import { isOpen } from "./upload-ledger.js";
import { picture } from "./upload-picture.js";
import { Self, SomebodyElse } from "./upload-self.js";
import { isBreak, Verdict, verdict } from "./upload-verdict.js";

const AT_ONCE = 3;
const AHEAD = 64; // how many are read before their turn
const ASK = 200;
const REST = 1_000; // a request whose answer was lost may still be at work
const NEARLY = 0.9;
const UNREADABLE = "The file could not be read. It may have been moved or changed: choose it again.";
const ANYWAY = { force: true, asked: true };
const HELD = new Set(["paused", "stopped"]); // until somebody says so

export class UploadQueue {
  #self;
  #wrongWith;
  #server;
  #ledger;
  #sums;
  #onChange;
  #ways = new Map(); // id → { controller, checksum, sent }
  #standing = { phase: "going" };
  #patience = new Patience();
  #pace = new Pace();
  #busy = new Set();
  #timer = null;
  #isOver = false;

  constructor({ uploader, wrongWith, server, ledger, sums, onChange }) {
    this.#self = new Self(server, uploader);
    this.#wrongWith = wrongWith;
    this.#server = server;
    this.#ledger = ledger;
    this.#sums = sums;
    this.#onChange = onChange;
  }

  async start() {
    await this.#ledger.load();
    if (this.#ledger.tally.paused) this.#standing = { phase: "paused" };
    this.#go();
  }

  stop() {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#patience.hurry();
    this.#sums.stop();
    for (const way of this.#ways.values()) way.controller.abort();
  }

  get isSafe() {
    return this.#ledger.isSafe;
  }

  picture() {
    return picture(this.#ledger, this.#ways, this.#pace, this.#standing);
  }

  async add(found) {
    if (!this.#ledger.first(isOpen)) this.#standing = { phase: "going" };
    const kept = this.#ledger.add(found, this.#wrongWith);
    this.#go();
    await kept;
    this.#onChange();
  }

  act({ wish, key, id }) {
    const isMeant = (item) => (id ? item.id === id : !key || item.group === key);
    const ledger = this.#ledger;
    const acts = {
      pause: () => this.#pause(),
      resume: () => this.#resume(),
      now: () => this.#hurry(),
      cancel: () => this.#cancel((item) => isOpen(item) && isMeant(item)),
      restore: () => ledger.restore(),
      forget: () => ledger.forgetAside(),
      retry: () => this.#retry((item) => item.state === "refused" && item.isHere && isMeant(item)),
      anyway: () => ledger.again((item) => item.group === "known" && isMeant(item), ANYWAY),
      dismiss: () => ledger.drop((item) => !isOpen(item) && isMeant(item)),
    };
    acts[wish]?.();
    this.#go();
  }

  // Begins whatever can be done now. Everything that changes something ends here.
  #go() {
    this.#onChange();
    if (this.#isOver) return;
    this.#one("sum", () => this.#sum());
    if (this.#standing.phase !== "going") return;
    this.#one("ask", () => this.#ask());
    while (this.#ways.size < AT_ONCE) {
      const isNext = (one) => one.state === "waiting" && one.asked && this.#isAlone(one);
      const item = this.#ledger.first(isNext);
      if (!item) break;
      item.state = "sending";
      const way = { controller: new AbortController(), checksum: item.checksum, sent: 0 };
      this.#ways.set(item.id, way);
      this.#send(item, way);
    }
    if (!this.#ledger.first(isOpen)) this.#pace.forget();
  }

  // One of its kind at a time, and again when there was something to do.
  async #one(kind, work) {
    if (this.#busy.has(kind)) return;
    this.#busy.add(kind);
    let isMore = false;
    try {
      isMore = await work();
    } finally {
      this.#busy.delete(kind);
    }
    if (isMore) this.#go();
  }

  // Two of the same bytes are not on their way together: the second may not be needed.
  #isAlone(item) {
    return ![...this.#ways.values()].some((way) => way.checksum === item.checksum);
  }

  async #sum() {
    let ahead = 0;
    const isUnread = (one) => one.checksum === null || ++ahead >= AHEAD;
    const item = this.#ledger.first((one) => isOpen(one) && isUnread(one));
    if (!item || item.checksum !== null) return false;
    try {
      item.checksum = await this.#sums.of(await this.#ledger.file(item));
    } catch {
      await this.#refuse(item, UNREADABLE, false);
    }
    return true;
  }

  async #ask() {
    const now = Date.now();
    const isUnasked = (item) => item.state === "waiting" && item.checksum !== null && !item.asked;
    const unasked = this.#ledger.items.filter(isUnasked);
    const items = unasked.filter((item) => item.rest <= now).slice(0, ASK);
    if (items.length === 0) {
      clearTimeout(this.#timer);
      if (unasked.length > 0) this.#timer = setTimeout(() => this.#go(), REST / 4);
      return false;
    }
    try {
      await this.#self.check();
      const known = await this.#server.known([...new Set(items.map((item) => item.checksum))]);
      for (const item of items) await this.#answered(item, known.get(item.checksum));
      this.#patience.forget();
      return true;
    } catch (error) {
      this.#setBack(error);
      return false;
    }
  }

  async #answered(item, found) {
    const isCopy = item.force && item.tried;
    const isThere = found && (!isCopy || (await this.#hasArrived(item)));
    if (item.state !== "waiting") return;
    item.asked = true;
    if (isThere && item.tried) await this.#ledger.settle(item);
    else if (isThere && !item.force) {
      await this.#ledger.note(item, { state: "known", group: "known", as: found.name });
    }
  }

  async #hasArrived(item) {
    const copies = await this.#server.copies(item.checksum);
    return copies.some((id) => !item.before.includes(id));
  }

  async #send(item, way) {
    const signal = way.controller.signal;
    const onProgress = (loaded, total) => this.#progress(way, (loaded / total) * item.size);
    try {
      await this.#self.check();
      if (item.force && !item.tried) item.before = await this.#server.copies(item.checksum);
      await this.#ledger.kept(item);
      await this.#ledger.note(item, { tried: true }); // before its first byte goes
      const file = await this.#ledger.file(item);
      signal.throwIfAborted();
      await this.#server.send(item, file, { signal, onProgress });
      this.#patience.forget();
      this.#pace.add(item.size - way.sent);
      await this.#ledger.settle(item);
    } catch (error) {
      await this.#failed(item, error, signal.aborted);
    }
    this.#ways.delete(item.id);
    if (item.state === "sending") item.state = "waiting";
    this.#go();
  }

  #progress(way, sent) {
    this.#pace.add(sent - way.sent);
    way.sent = sent;
    this.#onChange();
  }

  async #failed(item, error, isAborted) {
    Object.assign(item, { asked: false, rest: Date.now() + REST });
    if (isAborted) return;
    if (!error.status && !(await this.#ledger.isReadable(item))) {
      await this.#refuse(item, UNREADABLE, false);
      return;
    }
    const said = verdict(error, item);
    item.sentAgain = item.tried && said !== Verdict.LOOK;
    if (isBreak(error)) item.breaks += 1;
    if (error.code === "CHECKSUM_ERROR") item.checksum = null;
    if (said === Verdict.REFUSED) await this.#refuse(item, error.message, true);
    else if (said !== Verdict.LOOK) this.#setBack(error, said);
  }

  // Sizes and numbers aside, the same words are the same reason.
  #refuse(item, words, isHere) {
    const group = words.replace(/\d[\d.,]*/g, "#");
    return this.#ledger.note(item, { state: "refused", words, group, isHere });
  }

  #setBack(error, said = verdict(error)) {
    this.#self.doubt();
    if (this.#isOver || HELD.has(this.#standing.phase)) return;
    if (said === Verdict.FULL || said === Verdict.REFUSED) {
      this.#standing = { phase: "stopped", words: error.message };
      return;
    }
    const isWaiting = this.#standing.phase !== "going";
    const phase = error instanceof SomebodyElse ? "somebody-else" : said;
    const words = error.code && said !== Verdict.SIGNED_OUT ? error.message : "";
    this.#standing = { ...this.#standing, phase, words };
    this.#pace.forget();
    if (!isWaiting) this.#wait(error.retryAfter);
  }

  // Until somebody answers, to the one whose files these are.
  async #wait(retryAfter) {
    const goesOn = new Set(["going", ...HELD]);
    const isWaiting = () => !this.#isOver && !goesOn.has(this.#standing.phase);
    while (isWaiting()) {
      this.#standing.until = this.#patience.begin(retryAfter);
      this.#go();
      await this.#patience.end();
      if (!isWaiting()) return;
      try {
        await this.#self.check();
        if (isWaiting()) this.#standing = { phase: "going" };
      } catch (error) {
        this.#setBack(error);
        retryAfter = error.retryAfter;
      }
    }
    this.#go();
  }

  #pause() {
    if (!this.#ledger.first(isOpen)) return;
    this.#hold("paused");
    for (const item of this.#ledger.items) {
      const way = this.#ways.get(item.id);
      if (way && way.sent < NEARLY * item.size) way.controller.abort();
    }
  }

  // Something may have changed: the line, or who is signed in.
  #hurry() {
    this.#self.doubt();
    this.#patience.hurry();
  }

  #resume() {
    this.#patience.forget();
    this.#hold("going");
  }

  #hold(phase) {
    this.#standing = { phase };
    this.#pace.forget();
    this.#patience.hurry();
    this.#ledger.pause(phase === "paused");
  }

  #cancel(which) {
    for (const item of this.#ledger.items.filter(which)) this.#ways.get(item.id)?.controller.abort();
    this.#ledger.setAside(which);
  }

  #retry(which) {
    this.#ledger.again(which, {});
    if (this.#standing.phase === "stopped") this.#standing = { phase: "going" };
  }
}
