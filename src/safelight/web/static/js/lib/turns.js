// One page of all that are open does what only one may do. Browsers have locks for that, but not where
// the page came by plain http: there a note is renewed every second, and whoever finds it old takes it.
const EVERY = 1_000;
const STALE = 5_000;
const SETTLE = 250; // longer than two pages need to see each other's note

// Resolves once it is this page's turn, which lasts until the signal aborts.
export function turn(name, signal) {
  return navigator.locks ? locked(name, signal) : noted(name, signal);
}

function locked(name, signal) {
  return new Promise((resolve, reject) => {
    const held = () => {
      resolve();
      return new Promise((over) => signal.addEventListener("abort", over));
    };
    navigator.locks.request(name, { signal }, held).catch(reject);
  });
}

async function noted(name, signal) {
  const me = Math.random().toString(36).slice(2);
  const write = () => localStorage.setItem(name, JSON.stringify({ me, at: Date.now() }));
  const read = () => JSON.parse(localStorage.getItem(name) ?? "null");
  const isFree = () => !(read()?.at > Date.now() - STALE);
  for (;;) {
    signal.throwIfAborted();
    if (isFree()) {
      write();
      await pause(SETTLE);
      if (read()?.me === me) break;
    }
    await pause(EVERY);
  }
  const timer = setInterval(write, EVERY);
  const leave = () => {
    clearInterval(timer);
    if (read()?.me === me) localStorage.removeItem(name);
  };
  signal.addEventListener("abort", leave);
  addEventListener("pagehide", leave, { signal });
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
