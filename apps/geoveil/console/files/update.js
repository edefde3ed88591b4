// A form that is changed shows its result at once: <form data-updates="ID">, where ID is that of an
// element of this page, outside of the form, and of the one that the form leads to. If that element
// says data-then="WORD", the form is asked again with then=WORD; at first with that of its own
// data-first, if it has one. What is typed is asked for after a pause; what is slid at once, and
// again as soon as the answer is there, so that a picture follows a slider as fast as it can.

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

// What a slider stands at, beside it, while it is dragged.
export function sayRanges(event) {
  const slider = event.target;
  const output = slider.type === "range" && slider.form?.querySelector(`output[for="${slider.id}"]`);
  if (!output || slider.form.dataset.quantiles) return;
  const share = output.textContent.includes("%");
  const number = Number(slider.value);
  output.textContent = share ? `${Number((100 * number).toPrecision(3))} %` : String(number);
  slider.setAttribute("aria-valuetext", output.textContent);
}
