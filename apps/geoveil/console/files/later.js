// Fills the slow parts of a page, <… data-later="ADDRESS">, one after the other once the page has
// loaded. While a survey is open, fills them again when more reports have arrived.

const AGAIN_MS = 10000;
const standing = () => document.querySelector("[data-reports]")?.textContent;
let filled;

export async function fillLater() {
  const now = (filled = standing());
  for (const place of document.querySelectorAll("[data-later]")) {
    if (!(await fill(place))) filled = null; // it is asked for again
  }
  if (now === undefined) filled = now; // a list, which asks again by itself
}

export function keepFilled() {
  fillLater();
  setInterval(() => {
    if (!document.hidden && standing() !== filled) fillLater();
  }, AGAIN_MS);
}

async function fill(place) {
  const answer = await fetch(place.dataset.later).catch(() => null);
  if (answer?.status === 404) return true;
  if (!answer?.ok || new URL(answer.url).pathname.endsWith("/sign-in")) return false;
  const text = await answer.text();
  if (answer.headers.get("content-type").startsWith("text/plain")) {
    place.textContent = place.parentElement.title = text || place.textContent;
    return true;
  }
  const opened = [...place.querySelectorAll("details")].map((one) => one.open);
  place.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
  place.querySelectorAll("details").forEach((one, index) => { one.open = opened[index] ?? one.open; });
  return true;
}
