// Whether names and labels stand below the pictures; this browser keeps it in mind.
class CaptionToggle extends HTMLElement {
  #press = () => this.#set(this.#button.ariaPressed !== "true");

  connectedCallback() {
    this.#button.hidden = false;
    this.#button.addEventListener("click", this.#press);
    this.#set(localStorage.getItem("captions") === "true");
  }

  disconnectedCallback() {
    this.#button.removeEventListener("click", this.#press);
  }

  get #button() {
    return this.querySelector("button");
  }

  #set(isOn) {
    this.#button.ariaPressed = String(isOn);
    localStorage.setItem("captions", String(isOn));
    document.querySelector("image-grid")?.toggleAttribute("data-captions", isOn);
    document.dispatchEvent(new CustomEvent("captions", { detail: isOn }));
  }
}

customElements.define("caption-toggle", CaptionToggle);
