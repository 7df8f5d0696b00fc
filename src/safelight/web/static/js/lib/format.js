// Sizes and times in words.
const UNITS = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function ago(moment, now = Date.now()) {
  const seconds = Math.round((moment - now) / 1000);
  for (const [unit, length] of UNITS) {
    if (Math.abs(seconds) >= length) return RELATIVE.format(Math.trunc(seconds / length), unit);
  }
  return "just now";
}

export function exactly(moment) {
  return EXACT.format(moment);
}

export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  let amount = bytes / 1024;
  for (const unit of ["KB", "MB"]) {
    if (amount < 1024) return `${amount.toFixed(amount < 10 ? 1 : 0)} ${unit}`;
    amount /= 1024;
  }
  return `${amount.toFixed(1)} GB`;
}

export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
