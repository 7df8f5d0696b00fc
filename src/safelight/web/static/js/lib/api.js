// Talks to the server. Every refusal becomes an ApiError that carries the server's own words.
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
  const error = refusal(response.status, await response.text());
  error.retryAfter = Number(response.headers.get("retry-after")) || null;
  return error;
}

// XMLHttpRequest, because fetch does not tell how much of a body has been sent.
export function sendFile(path, file, { signal, onProgress }) {
  const request = new XMLHttpRequest();
  const form = new FormData();
  form.append("file", file);
  return new Promise((resolve, reject) => {
    request.open("POST", path);
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded / event.total));
    request.addEventListener("load", () =>
      request.status < 300 ? resolve() : reject(refusal(request.status, request.responseText)),
    );
    request.addEventListener("error", () => reject(new ApiError(UNREACHABLE)));
    request.addEventListener("abort", () => reject(signal.reason));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

function refusal(status, text) {
  try {
    const { error, code } = JSON.parse(text);
    return new ApiError(error, status, code);
  } catch {
    return new ApiError(`The server answered ${status}. Try again in a moment.`, status);
  }
}
