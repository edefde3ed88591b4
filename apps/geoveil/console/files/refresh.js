// Reloads a part of a page every few seconds while it is visible and does not have the keyboard's focus.

import { fillLater } from "./later.js";
import { page } from "./session.js";

export function keepFresh(id) {
  const place = () => document.getElementById(id);
  const seconds = Number(place().dataset.refresh);

  setInterval(async () => {
    if (document.hidden || place().contains(document.activeElement)) return;
    const answer = await page(location.href);
    if (!answer?.ok) return;
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = made.getElementById(id);
    if (fresh !== null) place().replaceWith(fresh);
    fillLater();
  }, 1000 * seconds);
}
