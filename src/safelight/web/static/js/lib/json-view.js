// JSON with its keys told from its values.
import { make } from "./make.js";

const PARTS = /("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\],]+/g;
const MOST = 200_000;

export function jsonView(text) {
  const code = make("code");
  if (text.length > MOST) {
    code.textContent = `${text.slice(0, MOST)}\n… and ${(text.length - MOST).toLocaleString("en")} characters more`;
    return code;
  }
  let at = 0;
  for (const found of text.matchAll(PARTS)) {
    code.append(text.slice(at, found.index));
    if (found[2] !== undefined) code.append(span("json__key", found[1]), span("json__mark", found[2]));
    else code.append(found[1] === undefined ? span("json__mark", found[0]) : found[0]);
    at = found.index + found[0].length;
  }
  code.append(text.slice(at));
  return code;
}

function span(className, text) {
  return make("span", { className }, text);
}
