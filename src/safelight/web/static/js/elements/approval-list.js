// Around a list of requests with boxes to tick: many are decided at once, after five seconds in which
// that can be taken back; a few are on their way at a time, and how it went is counted.
import { count } from "../lib/format.js";
import { Decisions, STATUS, news, reasonOf } from "../lib/decisions.js";
import { say, undoable } from "../lib/toast.js";

const SECONDS = 5;
const AT_A_TIME = 4;

class ApprovalList extends HTMLElement {
  #leaving;
  #watch = new MutationObserver(() => this.#tell());

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.addEventListener("change", (event) => this.#changed(event), { signal });
    this.addEventListener("submit", (event) => this.#submit(event), { signal });
    document.addEventListener("live", ({ detail }) => this.#hear(detail), { signal });
    this.#watch.observe(this.querySelector("live-region"), { childList: true, subtree: true });
    this.#tell();
  }

  disconnectedCallback() {
    this.#leaving.abort();
    this.#watch.disconnect();
  }

  get #boxes() {
    return [...this.querySelectorAll(".publication:not([data-decided]) [name=id]")];
  }

  #changed({ target }) {
    if (target.closest("[data-all]")) for (const box of this.#boxes) box.checked = target.checked;
    this.#tell();
  }

  // What somebody else decided goes by itself; of what was chosen it is said.
  #hear(message) {
    if (message.type !== "approval_approved" && message.type !== "approval_rejected") return;
    const box = this.#boxes.find((one) => one.value === message.id && one.checked);
    if (box) say(news(message, box.closest(".publication").dataset.title));
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
    this.querySelector(".question").open = false;
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
    const send = (id) => decisions.send(id, verdict, reason, keepalive).then(() => null, (error) => error);
    const errors = await each(ids, keepalive ? ids.length : AT_A_TIME, send);
    const others = errors.filter((error) => error?.code === "ALREADY_DECIDED").length;
    const failed = errors.filter((error) => error && error.code !== "ALREADY_DECIDED");
    this.#putBack(rows.filter((_, index) => failed.includes(errors[index])));
    const went = `${ids.length - others - failed.length} ${STATUS[verdict]}.`;
    const beaten = others > 0 ? ` ${others} had been decided by somebody else.` : "";
    const lost = failed.length > 0 ? ` ${failed.length} did not go through: ${failed[0].message}` : "";
    say(went + beaten + lost);
  }
}

// What came of each, in their order; so many are on their way at once.
async function each(things, most, act) {
  const [came, left] = [[], [...things.entries()]];
  const lane = async () => {
    for (let next = left.shift(); next; next = left.shift()) came[next[0]] = await act(next[1]);
  };
  await Promise.all(Array.from({ length: most }, lane));
  return came;
}

customElements.define("approval-list", ApprovalList);
