// A picture of uploads in words.
import { size } from "./format.js";

const NUMBER = new Intl.NumberFormat("en");
const TITLES = {
  going: "Sending",
  paused: "Paused",
  stopped: "Stopped",
  away: "Waiting for the server…",
  resting: "The server asks for a rest",
  "signed-out": "You are signed out",
  "somebody-else": "Somebody else is signed in",
};
const NOTES = {
  going: () => "",
  paused: () => "",
  stopped: ({ words }) => words,
  away: ({ words }) => join(words, "It goes on by itself."),
  resting: ({ words, until }) => join(words, `It goes on by itself in ${time((until - Date.now()) / 1_000)}.`),
  "signed-out": () => "Sign in again, here or in another tab, and it goes on by itself.",
  "somebody-else": () => "These images wait until you are signed in again.",
};
const NO_ROOM = "This browser has no room to keep them: leave this page open until they are sent.";

export function title(shown) {
  if (shown.open > 0) return TITLES[shown.phase];
  const there = shown.done + shown.known;
  const all = there + shown.refused;
  if (there === 0) return shown.refused > 0 ? `${number(all)} refused` : "Nothing to send";
  const are = there === 1 ? "is" : "are";
  if (shown.refused > 0) return `${number(there)} of ${number(all)} ${are} in the library`;
  return there === 1 ? "It is in the library" : `All ${number(there)} are in the library`;
}

// "18 of 60 · 22 MB left · 40 s"
export function figures(shown) {
  if (shown.open === 0) return "";
  const there = shown.done + shown.known + shown.refused;
  const parts = [
    `${number(there)} of ${number(there + shown.open)}`,
    `${size(Math.round(shown.left))} left`,
    shown.phase === "going" && shown.seconds !== null && time(shown.seconds),
    shown.refused > 0 && `${number(shown.refused)} refused`,
  ];
  return parts.filter(Boolean).join(" · ");
}

export function note(shown) {
  const unsafe = !shown.hasRoom && !shown.isSafe && shown.open > 0 ? NO_ROOM : "";
  return join(shown.open > 0 ? NOTES[shown.phase](shown) : "", unsafe);
}

export function heading({ key, count: many, names, words }) {
  if (key !== "known") return many === 1 ? `${names[0].title}: ${words}` : `${number(many)} files: ${words}`;
  return `${number(many)} ${many === 1 ? "is" : "are"} already in the library`;
}

export function rowWords({ size: bytes, isSending, part }) {
  if (!isSending) return size(bytes);
  return part < 1 ? `${Math.floor(part * 100)} % of ${size(bytes)}` : `${size(bytes)} · checking…`;
}

export function time(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5_400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
}

export function number(value) {
  return NUMBER.format(value);
}

function join(...parts) {
  return parts.filter(Boolean).join(" ");
}
