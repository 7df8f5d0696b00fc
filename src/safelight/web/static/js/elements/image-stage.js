// Around a picture: what keeps its place goes once it is there, and a click on it, or Enter, shows it
// pixel by pixel where that is larger. Without scripts the same link opens the original.
class ImageStage extends HTMLElement {
  #leaving;

  connectedCallback() {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.addEventListener("click", (event) => this.#click(event), { signal });
    this.addEventListener("load", (event) => this.#loaded(event.target), { signal, capture: true });
    this.addEventListener("keydown", seek, { signal });
    this.#loaded(this.#picture);
  }

  disconnectedCallback() {
    this.#leaving.abort();
  }

  get #picture() {
    return this.querySelector(".image-stage__picture");
  }

  get isZoomed() {
    return "zoomed" in this.dataset;
  }

  #loaded(image) {
    if (image && image === this.#picture && image.complete) image.parentElement.dataset.shown = "";
  }

  #click(event) {
    const link = event.target.closest("[data-zooms]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (this.isZoomed) this.rest();
    else this.#zoom(link, event);
  }

  rest() {
    delete this.dataset.zoomed;
  }

  #zoom(link, { clientX, clientY, detail }) {
    const image = this.#picture;
    if (image.width <= 0 || !this.#isLarger(image)) return;
    const box = image.getBoundingClientRect();
    // Enter has no place: the middle is looked at.
    const [x, y] = detail > 0 ? [clientX, clientY] : [box.x + box.width / 2, box.y + box.height / 2];
    const [across, down] = [(x - box.x) / box.width, (y - box.y) / box.height];
    this.dataset.zoomed = "";
    this.scrollTo(across * this.scrollWidth - this.clientWidth / 2, down * this.scrollHeight - this.clientHeight / 2);
    this.#sharpen(image, link.href);
  }

  #isLarger(image) {
    const { width, height } = { width: Number(image.getAttribute("width")), height: Number(image.getAttribute("height")) };
    return width > this.clientWidth || height > this.clientHeight;
  }

  async #sharpen(image, address) {
    const original = new Image();
    original.src = address;
    await original.decode().catch(() => null);
    if (original.naturalWidth > 0) image.src = address;
  }
}

// Arrows that move within a clip go nowhere else.
function seek(event) {
  if (event.target.localName === "video" && event.key.startsWith("Arrow")) event.stopPropagation();
}

customElements.define("image-stage", ImageStage);
