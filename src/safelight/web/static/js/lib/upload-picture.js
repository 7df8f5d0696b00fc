// What there is to show of uploads: small, whatever their number, and plain enough for another page.
import { isOpen } from "./upload-ledger.js";

const ROWS = 30;
const NAMES = 50;

export function picture(ledger, ways, pace, standing) {
  const items = ledger.items;
  const { done, bytes } = ledger.tally;
  const open = items.filter(isOpen);
  const known = items.filter((item) => item.state === "known");
  const refused = items.filter((item) => item.state === "refused");
  const sent = [...ways.values()].reduce((sum, way) => sum + way.sent, 0);
  const left = Math.max(0, total(open) - sent);
  const rows = [...open.filter((item) => ways.has(item.id)), ...open.filter((item) => !ways.has(item.id))];
  return {
    ...standing,
    isSafe: ledger.isSafe,
    hasRoom: ledger.hasRoom,
    aside: ledger.aside,
    done,
    known: known.length,
    refused: refused.length,
    open: open.length,
    left,
    part: left + bytes + sent > 0 ? (bytes + sent) / (left + bytes + sent) : 1,
    seconds: pace.left(left),
    rows: rows.slice(0, ROWS).map((item) => row(item, ways.get(item.id))),
    groups: [...(known.length > 0 ? [sameGroup(known)] : []), ...refusals(refused)],
  };
}

function row(item, way) {
  const part = way ? way.sent / item.size : 0;
  return { id: item.id, title: item.title, size: item.size, isSending: Boolean(way), part };
}

function sameGroup(known) {
  const names = known.slice(0, NAMES).map(({ id, title, as }) => ({ id, title, as }));
  return { key: "known", count: known.length, names, words: null, isHere: true };
}

function refusals(refused) {
  const groups = new Map();
  for (const { id, title, words, group, isHere } of refused) {
    const made = groups.get(group) ?? { key: group, count: 0, names: [], words, isHere: false };
    made.count += 1;
    made.isHere ||= isHere;
    if (made.names.length < NAMES) made.names.push({ id, title, words: words === made.words ? null : words });
    groups.set(group, made);
  }
  return [...groups.values()];
}

function total(items) {
  return items.reduce((sum, item) => sum + item.size, 0);
}
