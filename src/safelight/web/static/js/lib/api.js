// Talks to the server. Every refusal becomes an ApiError that carries the server's own words.
const UNREACHABLE = "The server cannot be reached. Check the connection and try again.";

export class ApiError extends Error {
  constructor(words, status = 0) {
    super(words);
    this.status = status; // 0: nobody answered
  }
}

// Accepting anything but pages keeps refusals in JSON, a sign-in that ended included.
export async function ask(path, { method = "GET" } = {}) {
  let response;
  try {
    response = await fetch(path, { method, headers: { accept: "*/*" } });
  } catch {
    throw new ApiError(UNREACHABLE);
  }
  if (!response.ok) throw refusal(response.status, await response.text());
  return response;
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
    return new ApiError(JSON.parse(text).error, status);
  } catch {
    return new ApiError(`The server answered ${status}. Try again in a moment.`, status);
  }
}
