// What uploads ask of the server.
import { ask, sendFile } from "./api.js";

const NEWEST = 200;

export class UploadServer {
  #organization;
  #lists;

  constructor(organization) {
    this.#organization = organization;
    this.#lists = `/api/organizations/${encodeURIComponent(organization)}`;
  }

  async who() {
    return (await (await ask("/api/me")).json()).id;
  }

  // checksum → { name, imageId } of those that are in the library, or on their way there.
  async known(checksums) {
    const answer = await ask(`${this.#lists}/uploads/known`, { method: "POST", json: { checksums } });
    return new Map((await answer.json()).known.map((one) => [one.checksum, one]));
  }

  // Every image of these bytes among the newest, where one of them is not enough to know.
  async copies(checksum) {
    const { items } = await (await ask(`${this.#lists}/images?limit=${NEWEST}`)).json();
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
