// Whether this page is up to date with the server: one state, to which all parts of a page report.
// While it is not, one sentence says so, no button works, and the page retries until the server answers;
// then it reloads, so that nothing outdated stays on it.

const FIRST_MS = 2000;
const LONGEST_MS = 30000;
const TRIES = "geoveil-tries";
let state = "reached";

export function reached() {
  sessionStorage.removeItem(TRIES);
}

export function lost() {
  if (state !== "reached") return;
  stop("lost", `Not connected since ${now()}: what you see is from then. Trying again …`);
  later();
}

export function signedOut(where = "/console/sign-in") {
  if (state === "signed-out") return;
  stop("signed-out", `You were signed out at ${now()}: what you see is from then. `);
  const link = document.createElement("a");
  link.href = where;
  link.textContent = "Sign in again";
  place().append(link);
}

// Return a page that was fetched, or null if the server did not answer with it.
export async function page(address, how) {
  const answer = await fetch(address, how).catch((error) => {
    if (error.name === "AbortError") throw error;
    return null;
  });
  if (answer === null || answer.status >= 500) lost();
  else if (answer.status === 401) signedOut();
  else if (new URL(answer.url).pathname.endsWith("/sign-in")) signedOut(answer.url);
  else return answer;
  return null;
}

function later() {
  const tries = Number(sessionStorage.getItem(TRIES) ?? 0);
  sessionStorage.setItem(TRIES, tries + 1);
  setTimeout(probe, Math.min(FIRST_MS * 2 ** Math.max(tries - 3, 0), LONGEST_MS));
}

async function probe() {
  const answer = await page(location.href);
  if (answer !== null) location.reload();
  else if (state === "lost") later();
}

function stop(next, words) {
  state = next;
  place().textContent = words;
  place().hidden = false;
  document.querySelectorAll("button, input, select, textarea").forEach((one) => { one.disabled = true; });
  document.querySelectorAll("[data-live-state]").forEach((one) => { one.textContent = ""; });
}

const place = () => document.querySelector("[data-session]");
const now = () => new Date().toLocaleTimeString([], { hour12: false });
