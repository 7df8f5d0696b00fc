// Cards of images in a list, newest first: finding, placing, replacing.
export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

export function named(list, name) {
  return [...list.children].find((shot) => shot.dataset.name === name);
}

// Before the first older one. Returns false for one that belongs below the end of what is loaded.
export function place(list, shot, { isOpenEnded }) {
  const at = Number(shot.dataset.at);
  const older = [...list.children].find((other) => Number(other.dataset.at) <= at);
  if (!older && isOpenEnded && list.children.length > 0) return false;
  list.insertBefore(shot, older ?? null);
  return true;
}

// A picture that is still the same one stays where it is, so that nothing flickers or loses focus.
// Returns what there is to tell: the words of an image that has just got its label.
export function renew(shot, fresh) {
  const isLabelled = fresh.dataset.state === "labelled" && shot.dataset.state !== "labelled";
  if (shot.dataset.version !== fresh.dataset.version) {
    part(shot, "frame").replaceWith(part(fresh, "frame"));
    delete shot.dataset.leaving; // what was to be deleted is not what is here now
  }
  part(shot, "body").replaceWith(part(fresh, "body"));
  for (const key of ["version", "state", "moves"]) {
    if (key in fresh.dataset) shot.dataset[key] = fresh.dataset[key];
    else delete shot.dataset[key];
  }
  return isLabelled ? part(shot, "state").innerText.replace(/\s+/g, " ") : null;
}

// Takes a card away and hands the focus it held to its neighbour; tells whether it held it.
export function remove(shot) {
  const held = shot.contains(document.activeElement);
  const neighbour = shot.nextElementSibling ?? shot.previousElementSibling;
  shot.remove();
  if (held) [...(neighbour?.querySelectorAll("a") ?? [])].at(-1)?.focus();
  return held && !neighbour;
}

// The colour that kept a picture's place goes once it is there: what shows through it is not its own.
export function untint(image) {
  const tint = image.previousElementSibling;
  if (tint?.matches(".shot__tint")) tint.remove();
}

function part(shot, name) {
  return shot.querySelector(`.shot__${name}`);
}
