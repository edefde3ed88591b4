// A form that is changed shows its result at once: <form data-updates="ID">, where ID is that of an
// element of this page, outside of the form, and of the one that the form leads to. Only the last
// change counts. If that element says data-then="WORD", the form is asked again with then=WORD;
// at first with that of its own data-first, if it has one.

const PAUSE_MS = 150;

export function keepUpdated(form) {
  let timer = 0;
  let asking = null;

  async function ask(then = form.dataset.first) {
    asking?.abort();
    asking = new AbortController();
    const fields = new URLSearchParams(new FormData(form));
    if (then) fields.set("then", then);
    const post = form.method === "post";
    const address = post ? form.action : `${form.action}?${fields}`;
    const place = () => document.getElementById(form.dataset.updates);
    place()?.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, {
        method: post ? "POST" : "GET",
        body: post ? fields : undefined,
        signal: asking.signal,
      });
      const made = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = made.getElementById(form.dataset.updates);
      if (fresh === null) return;
      place().replaceWith(fresh);
      if (fresh.dataset.then) ask(fresh.dataset.then);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    } finally {
      place()?.removeAttribute("aria-busy");
    }
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => ask(), PAUSE_MS);
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
