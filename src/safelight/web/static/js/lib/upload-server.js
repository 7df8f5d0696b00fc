// What uploads ask of the server.
import { ApiError, ask, sendFile } from "./api.js";

const NEWEST = 200;
const PATIENCE = 20_000; // for what takes no time

export class UploadServer {
  #organization;
  #lists;

  constructor(organization) {
    this.#organization = organization;
    this.#lists = `/api/organizations/${encodeURIComponent(organization)}`;
  }

  async who() {
    return (await (await asked("/api/me")).json()).id;
  }

  // checksum → { name, imageId } of those that are in the library, or on their way there.
  async known(checksums) {
    const answer = await asked(`${this.#lists}/uploads/known`, { method: "POST", json: { checksums } });
    return new Map((await answer.json()).known.map((one) => [one.checksum, one]));
  }

  // Every image of these bytes among the newest, where one of them is not enough to know.
  async copies(checksum) {
    const { items } = await (await asked(`${this.#lists}/images?limit=${NEWEST}`)).json();
    return items.filter((image) => image.checksum === checksum).map((image) => image.id);
  }

  // A name may be given away twice while an answer is lost; when sent again, it is not.
  send(item, file, { signal, onProgress }) {
    const query = new URLSearchParams({
      organizationId: this.#organization,
      onConflict: item.sentAgain ? "refuse" : "rename",
    });
    if (item.name !== null) query.set("name", item.name);
    const headers = { "x-content-sha256": item.checksum };
    return sendFile(`/api/upload?${query}`, file, { name: item.title, headers, signal, onProgress });
  }
}

async function asked(path, options = {}) {
  try {
    return await ask(path, { ...options, signal: AbortSignal.timeout(PATIENCE) });
  } catch (error) {
    throw error.status === undefined ? new ApiError(error.message) : error;
  }
}
