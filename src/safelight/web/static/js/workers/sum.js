// Reads files beside the page, so that it stays smooth: { id, file } comes, { id, sum } goes back.
import { sumOf } from "../lib/sha256.js";

addEventListener("message", async ({ data: { id, file } }) => {
  try {
    postMessage({ id, sum: await sumOf(file) });
  } catch (error) {
    postMessage({ id, problem: error.name });
  }
});
