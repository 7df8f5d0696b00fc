// What was dropped or chosen, as [{file, name}]. `name` is set for files out of folders: their path,
// so that two folders' IMG_1.jpg stay two images. A plain file keeps its own name.
const SEPARATOR = " › ";
const LONGEST = 255;

export function chosen(files) {
  return [...files].map((file) => withPath(file, file.webkitRelativePath)).filter(isWorthSending);
}

// Entries must be taken during the drop event, before anything is awaited.
export async function dropped(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const entries = items.map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
  const found = await Promise.all(entries.filter(Boolean).map(unpack));
  return found.flat().filter(isWorthSending);
}

// Pictures out of a clipboard are all called the same; the moment tells them apart. Text that comes with a
// picture of itself is text.
export function pasted(clipboard, now = new Date()) {
  if (!clipboard || clipboard.types.includes("text/plain")) return [];
  const moment = now.toLocaleString("sv").replaceAll(":", ".");
  return [...clipboard.files]
    .filter((file) => file.type.startsWith("image/"))
    .map((file) => {
      const ending = file.name.split(".").at(-1);
      return { file, name: file.name.startsWith("image.") ? `Pasted ${moment}.${ending}` : null };
    });
}

async function unpack(entry) {
  if (entry instanceof File) return [withPath(entry, "")];
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [withPath(file, entry.fullPath.slice(1))];
  }
  const found = [];
  for await (const child of children(entry)) found.push(...(await unpack(child)));
  return found;
}

async function* children(folder) {
  const reader = folder.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    yield* some;
  }
}

// Out of a folder only images are taken; what was picked by hand is sent, and the server judges it.
// Many systems have no type for HEIC.
function isWorthSending({ file, name }) {
  return name === null || file.type.startsWith("image/") || /\.heic$/i.test(file.name);
}

function withPath(file, path) {
  return { file, name: path.includes("/") ? libraryName(path) : null };
}

// A name the server takes as it is: clean, and short enough by leaving out the outer folders.
export function libraryName(path) {
  const parts = path.normalize("NFC").split("/").map(clean).filter(Boolean);
  while (parts.length > 1 && size(parts.join(SEPARATOR)) > LONGEST) parts.shift();
  const name = parts.join(SEPARATOR);
  return size(name) > LONGEST ? null : name || null;
}

function clean(part) {
  return part
    .replace(/\p{C}/gu, "")
    .replace(/\\/g, " ")
    .replace(/\s+/gu, " ")
    .replace(/^[ .]+|[ .]+$/g, "");
}

function size(text) {
  return new TextEncoder().encode(text).length;
}
