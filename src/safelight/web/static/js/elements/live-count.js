// A number of the frame that follows the server. All of them share one question.
import { ask } from "../lib/api.js";

const GATHER = 400; // news come in flurries
const MOST = 99;
const shown = new Set();
let timer;

class LiveCount extends HTMLElement {
  connectedCallback() {
    shown.add(this);
  }

  disconnectedCallback() {
    shown.delete(this);
  }

  show(counts) {
    const count = counts[this.dataset.count] ?? 0;
    this.textContent = count > MOST ? `${MOST}+` : count;
    this.hidden = count === 0;
  }
}

document.addEventListener("live", ({ target, detail }) => {
  if (!/^approval_|^reset$|^history_truncated$/.test(detail.type)) return;
  timer ??= setTimeout(() => look(target.dataset.organization), GATHER);
});

async function look(organization) {
  timer = undefined;
  const answer = await ask(`/app/${encodeURIComponent(organization)}/counts`).catch(() => null);
  const counts = await answer?.json();
  if (counts) shown.forEach((one) => one.show(counts));
}

customElements.define("live-count", LiveCount);
