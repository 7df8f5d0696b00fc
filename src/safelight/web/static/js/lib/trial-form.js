// The form of an operation, made of what the description says of it, and the request it stands for.
import { make } from "./make.js";

const OF_ORGANIZATIONS = new Set(["org", "organizationId"]);

export function trialForm(trial, organization) {
  const fields = trial.parameters.map((one) => parameter(trial, one, organization));
  fields.push(...trial.files.map((name) => file(trial, name)));
  const form = make("form", { className: "trial", noValidate: false });
  if (fields.length) form.append(make("div", { className: "trial__fields" }, ...fields));
  if (trial.example !== null) form.append(body(trial));
  const words = trial.grave ? " It may not be taken back." : "";
  if (trial.changes) form.append(make("p", { className: "hint" }, `This is no rehearsal: it changes something here.${words}`));
  const tone = trial.grave ? "button button--danger" : "button button--quiet";
  const send = make("button", { className: tone }, `Send ${trial.method}${trial.grave ? "…" : ""}`);
  form.append(make("p", { className: "actions" }, send));
  return form;
}

function parameter(trial, one, organization) {
  const control = one.choices.length ? choice(one) : input(one);
  control.id = `${trial.id}-${one.name}`;
  control.name = one.name;
  control.required = one.needed;
  control.dataset.in = one.in;
  if (OF_ORGANIZATIONS.has(one.name)) control.value = organization;
  return labelled(control, one.name, one.needed ? "needed" : "");
}

function input(one) {
  const isNumber = one.kind.startsWith("integer") || one.kind.startsWith("number");
  const placeholder = one.default === null ? "" : `${one.default} if left out`;
  return make("input", { type: isNumber ? "number" : "text", autocomplete: "off", spellcheck: false, placeholder });
}

function choice(one) {
  const none = one.needed ? [] : [new Option(one.default === null ? "" : `${one.default} if left out`, "")];
  return make("select", {}, ...none, ...one.choices.map((value) => new Option(value, value)));
}

function file(trial, name) {
  const control = make("input", { type: "file", id: `${trial.id}-${name}`, name, required: true });
  return labelled(control, name, "needed");
}

function body(trial) {
  const control = make("textarea", { id: `${trial.id}-body`, name: "body", value: trial.example, spellcheck: false, required: true });
  return labelled(control, "Body", "JSON");
}

function labelled(control, name, note) {
  const label = make("label", { htmlFor: control.id }, name);
  if (note) label.append(" ", make("small", {}, note));
  return make("p", { className: "field" }, label, control);
}

// Answers with where it goes, and what fetch has to be told.
export function request(trial, form) {
  let path = trial.path;
  const query = new URLSearchParams();
  const headers = { accept: "*/*" };
  for (const control of form.querySelectorAll("[data-in]")) {
    const { name, value } = control;
    if (control.dataset.in === "path") path = path.replace(`{${name}}`, () => encodeURIComponent(value));
    else if (value === "") continue;
    else if (control.dataset.in === "query") query.append(name, value);
    else headers[name] = value;
  }
  const address = query.size ? `${path}?${query}` : path;
  return { address, options: { method: trial.method, headers, body: content(trial, form, headers) } };
}

function content(trial, form, headers) {
  if (trial.files.length) {
    const sent = new FormData();
    for (const name of trial.files) sent.append(name, form.elements[name].files[0]);
    return sent;
  }
  if (trial.example === null) return undefined;
  headers["content-type"] = "application/json";
  return form.elements.body.value;
}
