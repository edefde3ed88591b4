// Beside the fields of a plan: logarithmic sliders, and a picture of what ε reveals, which follows them.

export function slide(slider) {
  const field = document.getElementById(slider.dataset.logarithmOf);

  function follow() {
    if (Number(field.value) > 0) slider.value = Math.log10(Number(field.value));
    slider.setAttribute("aria-valuetext", Number(field.value).toLocaleString("en"));
  }

  slider.addEventListener("input", (event) => {
    event.stopPropagation();
    field.value = Number((10 ** Number(slider.value)).toPrecision(2));
    slider.setAttribute("aria-valuetext", Number(field.value).toLocaleString("en"));
    field.dispatchEvent(new CustomEvent("input", { bubbles: true, detail: "slid" }));
  });
  field.addEventListener("change", follow);
  follow();
  slider.hidden = false;
}

/** The picture that participants see, for the promise in the form. */
export async function showOdds(place) {
  const names = ["geoveil-client", "geoveil-survey", "odds"];
  const [{ loadMessages }, { distanceText }, { bar, distances }] = await Promise.all(names.map((name) => import(`/pages/${name}.js`)));
  await loadMessages(); // in English, as these pages are
  const form = place.closest("form");
  const value = (name) => form.elements.namedItem(name).value;

  function draw() {
    const places = ["circle", "region", "place"].includes(value("ask"));
    const ratio = !places && value("compare") === "ratio";
    const per = ratio ? Math.log(Number(value("factor"))) : Number(value(places ? "per_metres" : "per"));
    const epsilon = Number(value("epsilon"));
    if (!(per > 0 && epsilon > 0)) return;
    const incomes = value("people") === "incomes";
    const held = incomes ? "dollar" : value("unit");
    const unit = places ? "metre" : ratio ? `log ${held}` : held;
    const price = { epsilon, per };
    const rows = distances(price).map((apart) => {
      const row = document.createElement("div");
      row.append(distanceText(apart, unit) + (ratio ? "" : " apart"), bar(price, apart, "one answer", "the other"));
      return row;
    });
    place.replaceChildren(...rows);
  }

  form.addEventListener("input", draw);
  draw();
}
