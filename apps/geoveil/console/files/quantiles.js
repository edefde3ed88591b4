// A quantile to drag: shows the hundredths that the server computed, unchanged.

const SVG = "http://www.w3.org/2000/svg";

export function dragQuantiles(form) {
  const rows = JSON.parse(form.dataset.quantiles);
  const slider = form.querySelector("input[type=range]");
  const told = form.querySelector("[data-moved]");
  const output = form.querySelector("output");
  const picture = document.querySelector("[data-picture] svg[data-low]");
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("class", "other");
  line.setAttribute("stroke", "#d55e00");
  line.setAttribute("stroke-width", "2");
  picture?.append(line);

  function show() {
    const [level, value, text, low, high] = rows[Math.round(100 * slider.value) - 1];
    const share = `${Math.round(100 * level)} %`;
    output.textContent = share;
    slider.setAttribute("aria-valuetext", share);
    told.textContent = `${share} of the people have at most ${text} (${low} to ${high}).`;
    if (picture === null) return;
    const { low: first, high: last, begin, end, top, bottom } = picture.dataset;
    const x = Number(begin) + (value - first) / (last - first) * (end - begin);
    line.setAttribute("d", value === null ? "" : `M${x} ${top}V${bottom}`);
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  slider.addEventListener("input", show);
  show();
}
