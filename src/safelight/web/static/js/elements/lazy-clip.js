// Around a <video> that fetches nothing by itself: its beginning comes when it is nearly seen, and it
// moves while a mouse is on it.
const seen = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) target.begin();
  },
  { rootMargin: "200px" },
);

class LazyClip extends HTMLElement {
  #leaving;
  #isHovered = false;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.addEventListener("pointerenter", (event) => this.#play(event), { signal });
    this.addEventListener("pointerleave", () => this.#rest(), { signal });
    seen.observe(this);
  }

  disconnectedCallback() {
    this.#leaving.abort();
    seen.unobserve(this);
  }

  get #video() {
    return this.querySelector("video");
  }

  begin() {
    seen.unobserve(this);
    this.#video.preload = "metadata";
  }

  #play({ pointerType }) {
    if (pointerType !== "mouse" || !this.#video.paused) return;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.#isHovered = true;
    this.#video.play().catch(() => null);
  }

  #rest() {
    if (this.#isHovered) this.#video.pause();
    this.#isHovered = false;
  }
}

customElements.define("lazy-clip", LazyClip);
