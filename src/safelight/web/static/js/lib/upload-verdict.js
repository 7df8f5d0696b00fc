// What an answer that is no success means for an upload, and for those behind it.
export const Verdict = {
  AWAY: "away", // nobody answers, or the server cannot now
  SIGNED_OUT: "signed-out",
  RESTING: "resting", // it was asked too much
  FULL: "full", // there is no room for this one, nor for others
  LOOK: "look", // it may be there: look before sending it again
  REFUSED: "refused",
};

const MOST_BREAKS = 5; // of one file that breaks the server, or whose way breaks
const OF_THE_WAY = new Set(["STREAM_ERROR", "CHECKSUM_ERROR", "REQUEST_TIMEOUT"]);
const NOT_OF_THE_FILE = new Set(["DATABASE_ERROR", "UNAVAILABLE"]);

export function verdict(answer, { breaks = 0, sentAgain = false } = {}) {
  const { status, code } = answer;
  if (status === 401) return Verdict.SIGNED_OUT;
  if (code === "QUOTA_EXCEEDED") return Verdict.FULL;
  if (status === 429) return Verdict.RESTING;
  if (code === "NAME_TAKEN" && sentAgain) return Verdict.LOOK;
  if (isBreak(answer)) return breaks < MOST_BREAKS ? Verdict.AWAY : Verdict.REFUSED;
  const passes = status === 0 || status >= 500 || status === 408 || status === 425;
  return passes ? Verdict.AWAY : Verdict.REFUSED;
}

// These count against a file; what is nobody's fault does not.
export function isBreak({ status, code }) {
  return (status === 500 && !NOT_OF_THE_FILE.has(code)) || OF_THE_WAY.has(code);
}
