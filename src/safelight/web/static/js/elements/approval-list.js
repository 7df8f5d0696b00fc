// Around a list of requests with boxes to tick: many are decided at once, after five seconds in which
// that can be taken back; a few are on their way at a time, and how it went is counted.
import { count } from "../lib/format.js";
import { Decisions, STATUS, reasonOf } from "../lib/decisions.js";
import { Lanes } from "../lib/lanes.js";
import { say, undoable } from "../lib/toast.js";

const SECONDS = 5;
const AT_A_TIME = 4;

class ApprovalList extends HTMLElement {
  #leaving;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.addEventListener("change", (event) => this.#changed(event), { signal });
    this.addEventListener("submit", (event) => this.#submit(event), { signal });
    const all = this.querySelector("[data-all]");
    if (all) all.hidden = false;
    this.#tell();
  }

  disconnectedCallback() {
    this.#leaving.abort();
  }

  get #boxes() {
    return [...this.querySelectorAll(".publication:not([data-decided]) [name=id]")];
  }

  #changed({ target }) {
    if (target.closest("[data-all]")) for (const box of this.#boxes) box.checked = target.checked;
    this.#tell();
  }

  #tell() {
    const chosen = this.#boxes.filter((box) => box.checked).length;
    const words = this.querySelector(".bulk__count");
    if (words) words.textContent = chosen > 0 ? `${chosen} chosen` : "";
  }

  #submit(event) {
    event.preventDefault();
    const verdict = event.submitter?.value;
    const chosen = this.#boxes.filter((box) => box.checked);
    const reason = verdict === "reject" ? reasonOf(event.target) : "";
    if (!STATUS[verdict] || chosen.length === 0) return say("Choose some requests first.");
    if (verdict === "reject" && !reason) return say("Say why: choose a reason, or write one.");
    const rows = chosen.map((box) => box.closest(".publication"));
    rows.forEach((row) => (row.dataset.decided = ""));
    const ids = chosen.map((box) => box.value);
    event.target.querySelector(".question").open = false;
    undoable(`${count(ids.length, "request")} ${STATUS[verdict]}.`, {
      seconds: SECONDS,
      undo: () => this.#putBack(rows),
      commit: ({ keepalive }) => this.#commit(ids, verdict, reason, keepalive, rows),
    });
    this.#tell();
  }

  #putBack(rows) {
    rows.forEach((row) => delete row.dataset.decided);
    this.#tell();
  }

  async #commit(ids, verdict, reason, keepalive, rows) {
    const decisions = new Decisions(this.dataset.api);
    const lanes = new Lanes(keepalive ? ids.length : AT_A_TIME);
    const send = (id) => decisions.send(id, verdict, reason, keepalive).then(() => null, (error) => error);
    const sent = ids.map((id) => new Promise((done) => lanes.run(() => send(id).then(done))));
    const errors = await Promise.all(sent);
    const others = errors.filter((error) => error?.code === "ALREADY_DECIDED").length;
    const failed = errors.filter((error) => error && error.code !== "ALREADY_DECIDED");
    this.#putBack(rows.filter((_, index) => failed.includes(errors[index])));
    const went = `${ids.length - others - failed.length} ${STATUS[verdict]}.`;
    const beaten = others > 0 ? ` ${others} had been decided by somebody else.` : "";
    const lost = failed.length > 0 ? ` ${failed.length} did not go through: ${failed[0].message}` : "";
    say(went + beaten + lost);
  }
}

customElements.define("approval-list", ApprovalList);
