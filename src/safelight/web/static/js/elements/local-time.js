// Around a <time>: shows it in the reader's own zone and manner; the exact moment is its title.
const FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

class LocalTime extends HTMLElement {
  connectedCallback() {
    const time = this.querySelector("time");
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.valueOf())) return;
    time.title = time.dateTime;
    time.textContent = FORMAT.format(moment);
  }
}

customElements.define("local-time", LocalTime);
