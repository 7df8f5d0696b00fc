// Shows one of the requests at a time and lets it be decided by buttons and keys. After the picture has
// changed the buttons rest for a moment, so that a second click never decides what came up under it.
import { ask } from "../lib/api.js";
import { Decisions, news, reasonOf } from "../lib/decisions.js";
import { listen } from "../lib/keys.js";
import { Requests } from "../lib/requests.js";
import { say } from "../lib/toast.js";

const REST = 600;

class ApprovalDesk extends HTMLElement {
  #leaving;
  #decisions;
  #requests;
  #rest;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.#decisions = new Decisions(this.dataset.api);
    this.#requests = new Requests(this, () => this.#calm());
    this.addEventListener("submit", (event) => this.#submit(event), { signal });
    this.addEventListener("click", (event) => this.#click(event), { signal });
    this.addEventListener("load", ({ target }) => this.#loaded(target), { signal, capture: true });
    this.addEventListener("keydown", (event) => this.#fold(event), { signal });
    document.addEventListener("live", ({ detail }) => this.#hear(detail), { signal });
    addEventListener("hashchange", () => this.#point(), { signal });
    listen(this.#keys(), signal);
    this.querySelector(".desk-way").hidden = false;
    this.#requests.show(this.#requests.named(this.dataset.wanted) ?? this.#requests.open[0]);
    this.#point();
  }

  disconnectedCallback() {
    this.#leaving.abort();
    this.#requests.stop();
    clearTimeout(this.#rest);
  }

  #keys() {
    const go = (by) => (event) => (event.target.closest?.(".question[open]") ? false : this.#requests.step(by));
    return {
      a: ["Approve it", (event) => !event.target.closest?.(".question[open]") && this.#press(".decide > form button")],
      r: ["Reject it, with a reason", (event) => !event.target.closest?.(".question[open]") && this.#unfold()],
      u: ["Undo the last decision", () => this.#decisions.undo()],
      j: ["The next one", go(1)],
      k: ["The one before", go(-1)],
      ArrowRight: ["The next one", go(1)],
      ArrowLeft: ["The one before", go(-1)],
    };
  }

  #press(selector) {
    const button = this.#requests.current?.querySelector(selector);
    button?.click();
    return Boolean(button);
  }

  #unfold() {
    const question = this.#requests.current?.querySelector(".question");
    if (!question) return false;
    question.open = true;
    question.querySelector("[name=reason]").focus();
  }

  #fold(event) {
    const question = event.key === "Escape" && event.target.closest?.(".question[open]");
    if (!question) return;
    event.preventDefault();
    question.open = false;
    question.querySelector("summary").focus();
  }

  #click(event) {
    const way = event.target.closest("[data-way]")?.dataset.way;
    if (way) this.#requests.step(way === "next" ? 1 : -1);
  }

  #loaded(image) {
    if (this.#requests.current?.contains(image)) this.#calm();
  }

  #calm() {
    this.querySelector(".request[data-inert]")?.removeAttribute("data-inert");
    const card = this.#requests.current;
    if (!card) return;
    card.dataset.inert = "";
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => delete card.dataset.inert, REST);
  }

  #submit(event) {
    const form = event.target;
    const card = form.closest(".request");
    const verdict = /\/(approve|reject)$/.exec(form.action)?.[1];
    if (!card || !verdict) return;
    event.preventDefault();
    if ("inert" in card.dataset || this.#decisions.has(card.id)) return;
    const reason = verdict === "reject" ? reasonOf(form) : "";
    if (verdict === "reject" && !reason) return complain(form.querySelector("[name=reason]"));
    this.#decide(card, verdict, reason, form.querySelector("[name=block]:checked"));
  }

  #decide(card, verdict, reason, isBlocked) {
    const { title, submission } = card.dataset;
    const after = isBlocked ? (keepalive) => this.#block(submission, keepalive) : null;
    this.#decisions.add({ id: card.id, title, verdict, reason, after }, () => this.#requests.putBack(card));
    if (location.hash) history.replaceState(null, "", location.pathname + location.search);
    this.#requests.take(card);
  }

  #block(submission, keepalive) {
    const json = { submission, note: "Ruled out by an approver." };
    return ask(this.dataset.blocklist, { method: "POST", json, keepalive });
  }

  #hear(message) {
    const { type, id } = message;
    if (type === "approval_requested" || type === "reset" || type === "history_truncated") this.#requests.renewSoon();
    if (type !== "approval_approved" && type !== "approval_rejected") return;
    if (this.#decisions.has(id)) return this.#decisions.settle(id);
    const card = this.#requests.named(id);
    if (!card) return this.#requests.renewSoon();
    if (card === this.#requests.current) say(news(message, card.dataset.title));
    this.#requests.remove(card);
    this.#requests.renewSoon();
  }

  #point() {
    const id = decodeURIComponent(location.hash.slice(1));
    if (!/^apr_\w+$/.test(id)) return;
    const card = this.#requests.named(id);
    if (card) this.#requests.show(card);
    else if (id !== this.dataset.wanted) location.replace(`?request=${id}`);
  }
}

function complain(field) {
  field.setCustomValidity("Say why: choose a reason, or write one.");
  field.reportValidity();
  field.addEventListener("input", () => field.setCustomValidity(""), { once: true });
}

customElements.define("approval-desk", ApprovalDesk);
