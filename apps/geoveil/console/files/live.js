// Estimates as they come. A hidden page does not listen: a browser has few connections.

import { lost, reached, signedOut } from "./session.js";

const ENDED = "The survey takes no more reports.";

export function follow(place) {
  const told = document.querySelector("[data-live-state]");
  let events = null;

  function begin() {
    if (events !== null || document.hidden) return;
    events = new EventSource(place.dataset.live);
    events.addEventListener("estimate", (event) => {
      const { html, standing, reports, state } = JSON.parse(event.data);
      const opened = [...place.querySelectorAll("details")].map((one) => one.open);
      const waited = place.querySelector(".promise") !== null;
      const made = new DOMParser().parseFromString(html, "text/html");
      place.replaceChildren(...made.body.childNodes);
      place.querySelectorAll("details").forEach((one, index) => { one.open = opened[index] ?? one.open; });
      document.querySelector("[data-standing]").innerHTML = standing;
      if (state === "closed") document.querySelector("[data-until-closed]")?.remove();
      reached();
      told.textContent = state === "closed" ? ENDED : `Live: as of ${reports} reports.`;
      // The whole page has changed, not only this part.
      if (waited && place.querySelector(".promise") === null) location.reload();
    });
    events.addEventListener("ended", () => end(ENDED));
    events.addEventListener("signed-out", () => { end(""); signedOut(); });
    events.onerror = () => { end(""); lost(); };
  }

  function end(words) {
    events?.close();
    events = null;
    told.textContent = words;
    document.removeEventListener("visibilitychange", seen);
  }

  function seen() {
    if (!document.hidden) return begin();
    events?.close();
    events = null;
  }

  document.addEventListener("visibilitychange", seen);
  begin();
}
