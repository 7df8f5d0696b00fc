// An answer of the server, to be looked at.
import { size } from "./format.js";
import { jsonView } from "./json-view.js";
import { make } from "./make.js";

const SHOWN = ["content-type", "content-length", "location", "etag", "cache-control", "content-range", "retry-after", "allow"];
const TEXT = /^text\/|json|xml/;

export async function trialAnswer(address, method, response, took) {
  const blob = await response.blob();
  const section = make("section", { className: "trial__answer", ariaLabel: "Answer" });
  section.append(
    make("p", { className: "anywhere" }, make("code", {}, `${method} ${address}`)),
    make("p", { className: "actions" }, standing(response), make("span", { className: "hint" }, `${Math.round(took)} ms · ${size(blob.size)}`)),
    headers(response),
    ...(await body(blob, response)),
  );
  return section;
}

function standing(response) {
  const words = `${response.status} ${response.statusText}`.trim();
  const tone = response.ok ? "state state--good" : "state state--problem";
  const icons = document.getElementById("answer-icons").content;
  const icon = icons.querySelector(response.ok ? ".icon--check" : ".icon--cross").cloneNode(true);
  return make("strong", { className: tone }, icon, `${words} · ${response.ok ? "done" : "refused"}`);
}

function headers(response) {
  const told = SHOWN.filter((name) => response.headers.has(name));
  const rows = told.map((name) => make("div", {}, make("dt", {}, `${name}:`), make("dd", {}, response.headers.get(name))));
  return make("dl", { className: "trial__headers" }, ...rows);
}

async function body(blob, response) {
  if (blob.size === 0) return [make("p", { className: "hint" }, "Without a body.")];
  const type = response.headers.get("content-type") ?? "";
  if (TEXT.test(type)) return words(await blob.text(), type, response);
  const link = make("a", { className: "button button--quiet button--small", href: URL.createObjectURL(blob), download: "answer" }, "Save it");
  const shown = type.startsWith("image/") ? [make("img", { src: link.href, alt: "The picture that was answered" })] : [];
  return [...shown, make("p", { className: "actions" }, link)];
}

function words(text, type, response) {
  let shown = text;
  let said = null;
  if (type.includes("json")) {
    try {
      const value = JSON.parse(text);
      shown = JSON.stringify(value, null, 2);
      said = response.ok ? null : value.error;
    } catch {
      said = "The server said that this is JSON, and it is not.";
    }
  }
  const pre = make("pre", { tabIndex: 0, ariaLabel: "Body of the answer" }, jsonView(shown));
  const figure = make("figure", { className: "code" }, make("figcaption", {}, "Body", document.createElement("copy-button")), pre);
  return said ? [make("p", { className: "notice notice--problem" }, said), figure] : [figure];
}
