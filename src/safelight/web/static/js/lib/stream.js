// The lines of a stream in its page: new ones come on top, by the hour, and old ones go.
import { gather } from "./flurries.js";

export function put(around, hour) {
  const stream = around.querySelector(".stream");
  stream.querySelector(".empty")?.remove();
  const lines = [...hour.querySelectorAll(".happening")].reverse();
  let mine = stream.querySelector(`:scope > [data-key="${hour.dataset.key}"]`);
  if (!mine) {
    mine = hour;
    mine.querySelector("ol").replaceChildren();
    stream.prepend(mine);
  }
  const list = mine.querySelector("ol");
  for (const line of lines) {
    if (stream.querySelector(`.happening[data-key="${line.dataset.key}"]`)) continue;
    list.prepend(line);
    gather(line, list, around.querySelector("template"));
  }
}

// Not more lines than that; what goes is where the link to older ones leads.
export function trim(around, most) {
  const lines = [...around.querySelectorAll(".happening")];
  if (lines.length <= most) return;
  lines.slice(most).forEach(remove);
  const older = around.querySelector('[data-verb="older"]');
  older.hidden = false;
  const address = new URL(older.href);
  address.searchParams.set("before", lines[most - 1].dataset.key);
  older.href = address;
}

function remove(line) {
  const flurry = line.closest(".flurry");
  const hour = line.closest(".stream__hour");
  line.remove();
  if (flurry && !flurry.querySelector(".happening")) flurry.remove();
  if (!hour.querySelector(".happening")) hour.remove();
}
