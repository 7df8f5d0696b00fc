// Turns one tree into another with few changes. What stays keeps its focus, its scroll position, what
// was typed into it and whether it is unfolded. Children are told apart by data-key, else by their
// kind and order.
const TIMES = new Set(["relative-time", "local-time"]); // they rewrite what is inside them
const FILL_THEMSELVES = new Set(["copy-button"]);
const OF_THE_READER = new Set(["open", "data-away", "data-shown", "data-zoomed", "data-decided"]);

export function merge(old, fresh) {
  if (FILL_THEMSELVES.has(old.localName) || old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else if (TIMES.has(old.localName)) {
    if (moment(old) !== moment(fresh)) old.replaceWith(fresh);
  } else {
    copyAttributes(old, fresh);
    mergeChildren(old, fresh);
  }
}

function mergeChildren(old, fresh) {
  const left = [...old.childNodes];
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const index = left.findIndex((node) => isSame(node, wanted));
    const [kept] = index < 0 ? [] : left.splice(index, 1);
    if (kept && kept === place) place = place.nextSibling;
    else old.insertBefore(kept ?? wanted, place);
    if (kept) merge(kept, wanted);
  }
  left.forEach((node) => node.remove());
}

function isSame(one, other) {
  return one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;
}

function copyAttributes(old, fresh) {
  for (const name of old.getAttributeNames()) {
    if (!fresh.hasAttribute(name) && !OF_THE_READER.has(name)) old.removeAttribute(name);
  }
  for (const name of fresh.getAttributeNames()) {
    if (old.getAttribute(name) !== fresh.getAttribute(name)) {
      old.setAttribute(name, fresh.getAttribute(name));
    }
  }
}

function moment(element) {
  return element.querySelector("time")?.dateTime;
}
