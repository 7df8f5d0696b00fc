// Where an arrow key leads from a tile. Pure.
export function step(tiles, from, key) {
  if (key === "ArrowLeft") return tiles[from.index - 1];
  if (key === "ArrowRight") return tiles[from.index + 1];
  const isDown = key === "ArrowDown";
  let index = from.index;
  while (tiles[index] && tiles[index].y === from.y) index += isDown ? 1 : -1;
  const row = tiles[index]?.y;
  const middle = from.x + from.w / 2;
  let best;
  for (; tiles[index]?.y === row && row !== undefined; index += isDown ? 1 : -1) {
    if (!best || distance(tiles[index], middle) < distance(best, middle)) best = tiles[index];
  }
  return best;
}

function distance({ x, w }, middle) {
  return Math.abs(x + w / 2 - middle);
}
