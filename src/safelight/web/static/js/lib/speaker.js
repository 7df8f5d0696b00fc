// Puts news into a live region for screen readers: not more often than can be listened to, and many
// at once only as their number.
const EVERY = 1_500;
const MOST = 2;

export class Speaker {
  #region;
  #summary;
  #news = [];
  #timer = null;

  constructor(region, summary) {
    this.#region = region;
    this.#summary = summary;
  }

  say(words) {
    this.#news.push(words);
    this.#timer ??= setTimeout(() => this.#speak(), EVERY);
  }

  stop() {
    clearTimeout(this.#timer);
  }

  #speak() {
    const many = this.#news.length > MOST;
    this.#region.textContent = many ? this.#summary(this.#news.length) : this.#news.join(". ");
    this.#news = [];
    this.#timer = null;
  }
}
