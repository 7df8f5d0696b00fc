// Where everything of the gallery stands: rows of tiles, each as wide as there is room, below the day
// they are of. Pure. Every tile is told its place (x, y, w, h) and its index.
export const GAP = 4;
const HEADING = 44;
const SPARSE = 0.6; // of a row
const LONG = 200; // tiles of one heading
const [NARROWEST, WIDEST] = [0.4, 3.2]; // beyond, a picture is cut

// `rows` are { y, height, from, to }, a heading { y, height, day, until, from, to } of its days.
export function justify(tiles, options) {
  return lay(tiles, [], 0, 0, options);
}

// The same, where tiles have only been added behind the last: few rows are looked at.
export function extend(tiles, rows, options) {
  const heading = rows.findLastIndex((row) => "day" in row);
  if (heading < 0) return justify(tiles, options);
  const last = rows.at(-1);
  const group = rows[heading];
  if (last.from - group.from < LONG) return lay(tiles, rows.slice(0, heading), group.from, group.y, options);
  let to = last.from;
  while (to < tiles.length && tiles[to].day >= group.until) to += 1;
  group.to = to;
  rows.pop();
  const y = fill(tiles, last.from, to, last.y, { rows, ...options });
  return lay(tiles, rows, to, y, options);
}

function lay(tiles, rows, from, y, { width, height, caption = 0, days = true }) {
  while (from < tiles.length) {
    const to = days ? endOf(tiles, from, (SPARSE * width) / height) : tiles.length;
    if (days) {
      rows.push({ y, height: HEADING, day: tiles[from].day, until: tiles[to - 1].day, from, to });
      y += HEADING;
    }
    y = fill(tiles, from, to, y, { rows, width, height, caption });
    from = to;
  }
  return { rows, total: y };
}

// A day; and with it those before it of its month, as long as they do not fill a row, or if no row
// is left for the others.
function endOf(tiles, from, enough) {
  const { month } = tiles[from];
  const isSame = (index, key) => tiles[index]?.[key] === tiles[index - 1][key];
  let [to, sum] = [from, 0];
  do {
    sum += ratio(tiles[to]);
    to += 1;
  } while (isSame(to, "day") || (sum < enough && isSame(to, "month")));
  let [rest, left] = [to, 0];
  for (; tiles[rest]?.month === month && left < enough; rest += 1) left += ratio(tiles[rest]);
  return left < enough && sum < 2 * enough ? rest : to;
}

function fill(tiles, from, to, y, { rows, width, height, caption = 0 }) {
  for (let first = from; first < to; ) {
    let sum = 0;
    let next = first;
    while (next < to) {
      const before = heightOf(sum, next - first, width);
      sum += ratio(tiles[next]);
      next += 1;
      const after = heightOf(sum, next - first, width);
      if (after > height) continue;
      // As near to the height that is wanted as may be, one more or one fewer.
      if (next - first > 1 && before - height < height - after) {
        next -= 1;
        sum -= ratio(tiles[next]);
      }
      break;
    }
    const row = Math.min(heightOf(sum, next - first, width), height * 1.3);
    const isFull = row < height * 1.3 && (next < to || row <= height);
    place(tiles, first, next, { y, h: Math.round(isFull ? row : Math.min(row, height)) + caption, caption, width, isFull });
    rows.push({ y, height: tiles[first].h, from: first, to: next });
    y += tiles[first].h + GAP;
    first = next;
  }
  return y;
}

function place(tiles, from, to, { y, h, caption, width, isFull }) {
  let x = 0;
  for (let index = from; index < to; index += 1) {
    const tile = tiles[index];
    const isLast = isFull && index === to - 1;
    const w = isLast ? width - x : Math.min(width - x, Math.round(ratio(tile) * (h - caption)));
    Object.assign(tile, { index, x, y, w, h });
    x += w + GAP;
  }
}

function heightOf(sum, count, width) {
  return sum > 0 ? (width - GAP * (count - 1)) / sum : Infinity;
}

export function ratio({ width, height }) {
  return width && height ? Math.min(WIDEST, Math.max(NARROWEST, width / height)) : 1;
}

// The first row that ends below y.
export function rowAt(rows, y) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].y + rows[middle].height < y) low = middle + 1;
    else high = middle;
  }
  return low;
}
