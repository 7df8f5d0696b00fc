// Tells those who listen how uploads stand: counts seldom, what needs them at once.
import { Speaker } from "./speaker.js";
import { note, number, title } from "./upload-words.js";

const ALARMS = new Set(["stopped", "signed-out", "somebody-else"]);
const STEPS = 4;

export class UploadNews {
  #status;
  #alarm;
  #last = { open: 0, phase: "going", step: 0 };
  #refused = new Map(); // by reason

  constructor(status, alarm) {
    this.#status = new Speaker(status, (many) => `${number(many)} changes of uploads`);
    this.#alarm = new Speaker(alarm, (many) => `${number(many)} problems with uploads`);
  }

  hear(shown) {
    const { open, phase } = shown;
    const there = shown.done + shown.known;
    const step = open > 0 ? Math.floor((STEPS * there) / (there + open)) : 0;
    const last = this.#last;
    this.#last = { open, phase, step };
    if (open === 0) {
      if (last.open > 0) this.#status.say(title(shown));
    } else if (last.open === 0) this.#status.say(`Uploading ${number(open)} images`);
    else if (phase !== last.phase) this.#turn(shown);
    else if (step > last.step) this.#status.say(`${number(there)} of ${number(there + open)} sent`);
    this.#complain(shown.groups.filter((group) => group.key !== "known"));
  }

  #complain(groups) {
    for (const { key, count, words } of groups) {
      const more = count - (this.#refused.get(key) ?? 0);
      if (more > 0) this.#alarm.say(`${number(more)} refused: ${words}`);
    }
    this.#refused = new Map(groups.map(({ key, count }) => [key, count]));
  }

  stop() {
    this.#status.stop();
    this.#alarm.stop();
  }

  #turn(shown) {
    const speaker = ALARMS.has(shown.phase) ? this.#alarm : this.#status;
    speaker.say(`${title(shown)}. ${note(shown)}`);
  }
}
