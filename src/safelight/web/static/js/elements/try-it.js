// Sends an operation to this server, as the person who looks at the page. The form is made when it
// is asked for: most of them never are.
import { make } from "../lib/make.js";
import { agreed } from "../lib/question.js";
import { trialAnswer } from "../lib/trial-answer.js";
import { request, trialForm } from "../lib/trial-form.js";

class TryIt extends HTMLElement {
  #trial;
  #region;
  #news;
  #asking = null;

  connectedCallback() {
    this.#trial = JSON.parse(this.dataset.trial);
    const open = make("button", { type: "button", className: "button button--quiet button--small" }, "Try it");
    open.addEventListener("click", () => this.#open());
    this.replaceChildren(make("p", { className: "actions" }, open));
  }

  disconnectedCallback() {
    this.#asking?.abort();
    this.replaceChildren();
  }

  #open() {
    const { organization } = this.closest("[data-organization]").dataset;
    const form = trialForm(this.#trial, organization);
    form.ariaLabel = `Try: ${this.#trial.summary}`;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send(form);
    });
    this.#region = make("div");
    this.#news = make("p", { className: "visually-hidden", role: "status" });
    this.replaceChildren(form, this.#region, this.#news);
    (form.querySelector("input, select, textarea") ?? form.querySelector("button")).focus();
  }

  async #send(form) {
    const { address, options } = request(this.#trial, form);
    if (this.#trial.grave && !(await this.#agreed(address))) return;
    const button = form.querySelector("button:last-of-type");
    if (button.ariaDisabled === "true") return;
    button.ariaDisabled = "true";
    this.#asking = new AbortController();
    const began = performance.now();
    try {
      const response = await fetch(address, { ...options, signal: this.#asking.signal });
      const took = performance.now() - began;
      this.#show(await trialAnswer(address, this.#trial.method, response, took));
      this.#news.textContent = `Answered ${response.status} ${response.statusText}`;
    } catch {
      this.#show(make("p", { className: "notice notice--problem", role: "alert" }, "The server cannot be reached. Check the connection and try again."));
    } finally {
      button.ariaDisabled = "false";
    }
  }

  #agreed(address) {
    const { method, summary } = this.#trial;
    const what = make("code", {}, `${method} ${address}`);
    return agreed(`${summary}?`, `Send ${method}`, what, " It may not be taken back.");
  }

  #show(what) {
    this.#news.textContent = "";
    for (const one of this.#region.querySelectorAll("[href^='blob:']")) URL.revokeObjectURL(one.href);
    this.#region.replaceChildren(what);
  }
}

customElements.define("try-it", TryIt);
