// A changed form shows its result at once: <form data-updates="ID">, where ID names an element outside
// the form, on this page and on the page that the form leads to. If that element has data-then="WORD",
// the form is sent again with then=WORD; first with its own data-first, if it has one. Typing sends the
// form after a pause; a slider sends it at once, and again as soon as the answer arrives, so that a
// picture follows the slider as fast as possible.

import { page } from "./session.js";

const PAUSE_MS = 120;

export function keepUpdated(form) {
  let timer = 0;
  let asking = null;
  let sliding = false;
  let movedOn = false;

  async function ask(then = form.dataset.first) {
    asking?.abort();
    const own = (asking = new AbortController());
    const fields = new URLSearchParams(new FormData(form));
    if (then) fields.set("then", then);
    const post = form.method === "post";
    const address = post ? form.action : `${form.action}?${fields}`;
    const place = () => document.getElementById(form.dataset.updates);
    place()?.setAttribute("aria-busy", "true");
    let next = "";
    try {
      const answer = await page(address, {
        method: post ? "POST" : "GET",
        body: post ? fields : undefined,
        signal: own.signal,
      });
      if (answer === null) return;
      const made = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = made.getElementById(form.dataset.updates);
      if (fresh !== null) {
        place().replaceWith(fresh);
        next = fresh.dataset.then ?? "";
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      sliding = movedOn = false;
      throw error;
    } finally {
      if (asking === own) place()?.removeAttribute("aria-busy");
    }
    sliding = false;
    if (movedOn) slide();
    else if (next) ask(next);
  }

  function slide() {
    movedOn = sliding;
    if (sliding) return;
    sliding = true;
    ask();
  }

  form.addEventListener("input", (event) => {
    clearTimeout(timer);
    if (event.target.type === "range" || event.detail === "slid") return slide();
    timer = setTimeout(() => { sliding = movedOn = false; ask(); }, PAUSE_MS);
  });
  const first = document.getElementById(form.dataset.updates)?.dataset.then;
  if (first) ask(first);
}

// Show a slider's value beside it while it is dragged.
export function sayRanges(event) {
  const slider = event.target;
  const output = slider.type === "range" && slider.form?.querySelector(`output[for="${slider.id}"]`);
  if (!output || slider.form.dataset.quantiles) return;
  const share = output.textContent.includes("%");
  const number = Number(slider.value);
  output.textContent = share ? `${Number((100 * number).toPrecision(3))} %` : String(number);
  slider.setAttribute("aria-valuetext", output.textContent);
}
