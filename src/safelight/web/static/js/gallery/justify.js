// Where everything of the gallery stands: rows of tiles, each as wide as there is room, below the day
// they are of. Pure. Every tile is told its place (x, y, w, h) and its index.
export const GAP = 4;
const HEADING = 44;
const [NARROWEST, WIDEST] = [0.4, 3.2]; // beyond, a picture is cut

// `rows` are { y, height, from, to }, a heading of a day { y, height, day, at, from, to }.
export function justify(tiles, { width, height, caption = 0, days = true }) {
  const rows = [];
  let y = 0;
  for (let from = 0; from < tiles.length; ) {
    let to = from + 1;
    while (to < tiles.length && (!days || tiles[to].day === tiles[from].day)) to += 1;
    if (days) {
      rows.push({ y, height: HEADING, day: tiles[from].day, at: tiles[from].at, from, to });
      y += HEADING;
    }
    y = fill(tiles, from, to, y, { rows, width, height, caption });
    from = to;
  }
  return { rows, total: y };
}

function fill(tiles, from, to, y, { rows, width, height, caption }) {
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
