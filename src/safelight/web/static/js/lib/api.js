// Talks to the server. Every refusal becomes an ApiError that carries the server's own words.
const SILENCE = 90_000;
const UNREACHABLE = "The server cannot be reached. Check the connection and try again.";

export class ApiError extends Error {
  constructor(words, status = 0, code = null) {
    super(words);
    this.status = status; // 0: nobody answered
    this.code = code;
  }
}

// Accepting anything but pages keeps refusals in JSON, a sign-in that ended included. `json` is sent
// as such; `keepalive` lets the question outlive the page.
export async function ask(path, { method = "GET", json, headers, signal, keepalive } = {}) {
  const body = json === undefined ? undefined : JSON.stringify(json);
  const type = body === undefined ? {} : { "content-type": "application/json" };
  let response;
  try {
    const all = { accept: "*/*", ...type, ...headers };
    response = await fetch(path, { method, body, headers: all, signal, keepalive });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(UNREACHABLE);
  }
  if (!response.ok) throw await refused(response);
  return response;
}

async function refused(response) {
  return refusal(response.status, await response.text(), response.headers.get("retry-after"));
}

// XMLHttpRequest, because fetch does not tell how much of a body has been sent. A connection on which
// nothing happens any more is given up.
export function sendFile(path, file, { name, headers = {}, signal, onProgress }) {
  const request = new XMLHttpRequest();
  const form = new FormData();
  form.append("file", file, name ?? file.name);
  let silence;
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(() => request.abort(), SILENCE);
  };
  return new Promise((resolve, reject) => {
    request.open("POST", path);
    for (const [header, value] of Object.entries(headers)) request.setRequestHeader(header, value);
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      listen();
      onProgress(loaded, total);
    });
    request.addEventListener("load", () => {
      const { status, responseText: text } = request;
      if (status >= 300) return reject(refusal(status, text, request.getResponseHeader("retry-after")));
      try {
        resolve(JSON.parse(text));
      } catch {
        reject(new ApiError(UNREACHABLE)); // somebody else answered: the way into a hotel's network
      }
    });
    request.addEventListener("error", () => reject(new ApiError(UNREACHABLE)));
    request.addEventListener("abort", () => reject(signal.aborted ? signal.reason : new ApiError(UNREACHABLE)));
    request.addEventListener("loadend", () => clearTimeout(silence));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
    listen();
  });
}

function refusal(status, text, wait) {
  const error = said(status, text);
  error.retryAfter = Number(wait) || null;
  return error;
}

function said(status, text) {
  try {
    const { error, code } = JSON.parse(text);
    return new ApiError(error, status, code);
  } catch {
    return new ApiError(`The server answered ${status}. Try again in a moment.`, status);
  }
}
