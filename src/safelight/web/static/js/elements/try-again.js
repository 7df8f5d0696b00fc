// On a page that says that something is away: looks again after data-after seconds, and then at
// growing distances, until the page itself can be shown.
const LONGEST = 60;

class TryAgain extends HTMLElement {
  #timer;
  #pause;
  #left;
  #asking;

  connectedCallback() {
    this.#asking = new AbortController();
    this.#pause = Number(this.dataset.after);
    this.#wait();
  }

  disconnectedCallback() {
    clearInterval(this.#timer);
    this.#asking.abort();
  }

  // Said once for each wait: nobody wants to hear every second of it.
  #wait() {
    this.#left = this.#pause;
    this.firstElementChild.textContent = `Trying again in ${this.#left} s.`;
    this.#timer = setInterval(() => {
      this.#left -= 1;
      if (this.#left <= 0) this.#look();
    }, 1_000);
  }

  async #look() {
    clearInterval(this.#timer);
    const { signal } = this.#asking;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, signal });
      if (answer.status !== 503) return location.reload();
    } catch {
      if (signal.aborted) return;
    }
    this.#pause = Math.min(this.#pause * 2, LONGEST);
    this.#wait();
  }
}

customElements.define("try-again", TryAgain);
