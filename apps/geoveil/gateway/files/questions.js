// The questions of a survey as inputs: a campaign about one attribute has one, a form one a field.
// What is typed stays in these inputs: they are read when it is needed, and emptied once a report is kept.

import { between, isForm, whatItTells, whatItTellsOf, whatToAsk } from "./geoveil-client.js";
import { readNumber, separatorsOf, spelled } from "./geoveil-numbers.js";
import { drawMap } from "./map.js";
import { distanceText, factor, number } from "./odds.js";

/** Of more options one is chosen from a list that opens. */
const MOST_BUTTONS = 12;

/** An element of the page; text never becomes markup. */
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * The questions of what a server offers. Each has `title`, `boxes` to be shown, what it `tells` about anybody, and of
 * the one who answers: `read()`, null until there is an answer, `wrong()`, what is missing or no answer, `doubt()`, what
 * to ask as it may be a slip, `shown()`, the answer in words, `tellsOf()`, and `clear()`.
 */
export function questionsOf(offer, changed) {
  if (!isForm(offer.campaign)) return [ofAttribute(offer, changed)];
  const { fields, tells, permission } = offer.campaign;
  return fields.map((field, at) => ofField(offer.campaign, field, tells[at], permission.limits[field.name]?.campaign, changed));
}

function ofAttribute({ campaign, price }, changed) {
  const { attribute } = campaign;
  const title = sentence(attribute.name);
  const input = pointInput(campaign, title, changed, price);
  const read = () => input.read();
  return {
    ...input,
    title,
    point: true,
    attribute,
    price,
    boxes: [input.box],
    tells: whatItTells(campaign),
    doubt: () => whatToAsk(campaign, read()),
    tellsOf: () => (input.wrong() ? [] : whatItTellsOf(campaign, read())),
  };
}

function ofField(form, field, tells, price, changed) {
  const { name, attribute, kind, privacy, columns } = field;
  const wording = wordingOf(field);
  const title = wording?.text || field.wordings[0]?.text || name;
  const labels = wording?.options.length ? wording.options : field.options;
  const point = kind === "number" || kind === "place";
  const condition = conditionText(form, field);
  const input = point ? pointInput({ attribute, dimension: columns, questions: [] }, title, changed, price) : optionsInput(field, title, labels);
  for (const note of [condition, privacy ? "" : "This answer is sent as it is."]) if (note) input.box.append(make("p", { class: "note" }, note));
  if (wording?.language) input.box.lang = wording.language;
  const named = (indices) => indices.map((one) => labels[one]).join(", ") || "none";
  const indices = () => [input.read()].flat();
  const read = () => {
    const found = input.read();
    if (point || found === null) return found;
    return kind === "multiple" ? found.map((one) => field.options[one]) : field.options[found];
  };
  return {
    ...input,
    read,
    name,
    title,
    point,
    attribute,
    price: point ? price : undefined,
    boxes: [input.box],
    tells: [tells],
    shown: () => (point ? input.shown() : named(indices())),
    doubt: () => (point ? whatToAsk({ attribute, privacy, dimension: columns, questions: [] }, read()) : ""),
    tellsOf: () => (input.wrong() ? [] : form.tellsOf(name, read())),
    open: !privacy,
    condition,
    skipped: `It does not apply to you. ${inItsPlace(field, labels)}`,
    /** What a report holds of it, in words. */
    sent(values) {
      const held = field.sent(values);
      if (!point) return named(held);
      const x = number(attribute.scale ? Math.exp(Math.min(held[0], 700)) : held[0], 6);
      const towards = (metres, ahead, behind) => `${number(Math.abs(metres), 6)} m ${metres < 0 ? behind : ahead}`;
      return kind === "place" ? `${towards(held[0], "east", "west")} and ${towards(held[1], "north", "south")} of the centre` : `${x} ${attribute.valueUnit}`;
    },
  };
}

/** To whom a field applies, in the words of the question that decides it. */
function conditionText(form, field) {
  const { applies } = field;
  if (!applies) return "";
  const decides = form.fields.find(({ name }) => name === applies.field);
  const wording = wordingOf(decides);
  const said = applies.options.map((option) => `“${wording?.options[decides.options.indexOf(option)] ?? option}”`).join(" or ");
  return `Only for those who answer ${said} to “${wording?.text || decides.wordings[0]?.text || decides.name}”. ${inItsPlace(field, wordingOf(field)?.options ?? [])}`;
}

/** What becomes of a field for those to whom it does not apply. */
function inItsPlace({ privacy, options, notAsked }, labels) {
  if (privacy) return "Of all others a random answer is sent in its place, so that no report lacks one.";
  const at = Number(notAsked);
  return `Of all others “${labels[at] ?? options[at]}” is sent in its place, as it is.`;
}

/** What is shown of a field: in a language of this browser, else the first. */
function wordingOf({ wordings }) {
  for (const wanted of navigator.languages.map((one) => one.toLowerCase())) {
    for (const short of [(tag) => tag, (tag) => tag.split("-")[0]]) {
      const found = wordings.find(({ language }) => language && short(language.toLowerCase()) === short(wanted));
      if (found) return found;
    }
  }
  return wordings[0];
}

/** A number, several, or a place. */
function pointInput(asked, title, changed, price) {
  return asked.attribute.coordinates ? placeInput(asked, title, changed, price) : numbersInput(asked, title);
}

function numbersInput({ attribute, dimension }, title) {
  const { valueUnit: unit } = attribute;
  const inputs = Array.from({ length: dimension }, (_, i) =>
    make("input", { id: i ? `value-${i + 1}` : "value", inputmode: "decimal", autocomplete: "off", spellcheck: "false", "aria-describedby": "range problem" }));
  const box = make("div");
  inputs.forEach((input, i) => {
    const label = dimension === 1 ? title : i ? `${title}, number ${i + 1}` : `${title}, first number`;
    box.append(make("div", { class: "field" }, make("label", { for: input.id }, label), make("div", { class: "with-unit" }, input, make("span", {}, unit))));
  });
  const range = between(attribute);
  box.append(make("p", { class: "note", id: "range" }, range && `${sentence(range)} ${unit}.`));
  const meanings = () => inputs.map(({ value }) => readNumber(value, separatorsOf(), unit));
  const read = () => {
    const found = meanings().map(({ numbers, sure }) => (sure && numbers.length === 1 ? numbers[0] : NaN));
    if (!found.every(Number.isFinite)) return null;
    return dimension === 1 ? found[0] : found;
  };
  return {
    box,
    read,
    wrong() {
      if (read() !== null) return "";
      const numeric = `${dimension > 1 ? "Give all the numbers" : "Give a number"}, in ${unit}.`;
      const meant = meanings().filter(({ sure }) => !sure).flatMap(({ numbers }) => numbers).filter(Number.isFinite);
      const { decimal, group } = separatorsOf();
      if (!meant.length) return numeric;
      return `${numeric} What you typed may be ${meant.map(inFull).join(", or ")}. Here “${decimal}” stands before decimals, and “${group}” between thousands.`;
    },
    shown: () => (read() === null ? "" : `${[read()].flat().map(inFull).join(" and ")} ${unit}`),
    clear: () => inputs.forEach((input) => (input.value = "")),
  };
}

/** A number in digits and in words. */
function inFull(x) {
  const words = spelled(x);
  return `${x.toLocaleString(undefined, { maximumSignificantDigits: 15 })}${words && ` (${words})`}`;
}

/** The circle from whose middle to its edge the odds grow at most 3 to 1, in metres, and what to say of it. */
function circleOf(price) {
  if (!price) return { text: "" };
  const metres = Math.min((price.per * Math.log(3)) / price.epsilon, price.reach ?? Infinity);
  const far = distanceText(Number(metres.toPrecision(2)), "metre");
  return { metres, text: `The dashed circle around your pin reaches ${far}: between its middle and its edge the odds are at most ${factor(price, metres)}.` };
}

/** Whether this browser draws maps that move. */
function drawsMaps() {
  return document.createElement("canvas").getContext("webgl2") !== null;
}

function placeInput({ attribute: { coordinates }, questions }, title, changed, price) {
  const degrees = ["latitude", "longitude"].map((id) => make("input", { id, inputmode: "decimal", autocomplete: "off", "aria-describedby": "problem" }));
  const [latitude, longitude] = degrees;
  const outlines = make("p", { class: "note", id: "outlines" });
  const refused = make("p", { class: "problem", role: "alert" });
  const put = (...place) => {
    [longitude, latitude].forEach((input, i) => {
      input.value = place[i].toLocaleString(undefined, { minimumFractionDigits: 5, maximumFractionDigits: 5 });
    });
    changed();
  };
  let map = drawMap(coordinates, questions, put, (text) => (outlines.textContent = text));
  const drawn = make("div", { id: "map" }, map.box);
  // Fetched before it is known whether this question applies, as who fetches a map would tell it.
  if (drawsMaps()) betterMap().catch(() => undefined); // the picture and the coordinates do as well
  async function betterMap() {
    const { prepareMap } = await import("./place-map.js");
    const { metres, text } = circleOf(price);
    const better = await prepareMap(coordinates, questions, metres);
    const seen = new IntersectionObserver(([{ isIntersecting }]) => {
      if (!isIntersecting) return;
      seen.disconnect();
      drawn.replaceChildren(better.box);
      better.open(put);
      map = better;
      outlines.textContent = `${text} ${better.source}`.trim();
      changed();
    });
    seen.observe(drawn);
  }
  const locate = make("button", { type: "button", id: "locate", class: "plain" }, "Use the position of this device");
  locate.addEventListener("click", () => {
    const told = (text) => (refused.textContent = text);
    if (!navigator.geolocation) return told("This browser tells no positions. Give the coordinates instead.");
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => put(coords.longitude, coords.latitude),
      () => told("The position is not known, or was not given. Choose the place on the map instead."),
      { maximumAge: 600_000, timeout: 20_000 },
    );
  });
  const field = (input, text) => make("div", { class: "field" }, make("label", { for: input.id }, text), input);
  const box = make("fieldset", { id: "place" }, make("legend", {}, title), drawn, outlines,
    make("div", { class: "pair" }, field(latitude, "Latitude, °N"), field(longitude, "Longitude, °E")), locate, refused);
  const parse = ({ value }, most) => {
    const fitting = readNumber(value, separatorsOf()).numbers.filter((one) => Math.abs(one) <= most);
    return fitting.length === 1 ? fitting[0] : NaN;
  };
  const read = () => {
    const found = { longitude: parse(longitude, 180), latitude: parse(latitude, 90) };
    return Number.isFinite(found.longitude) && Number.isFinite(found.latitude) ? found : null;
  };
  return {
    box,
    read,
    wrong: () => (read() ? "" : "Give a latitude, from -90 to 90, and a longitude, from -180 to 180, in degrees."),
    shown() {
      const place = read();
      if (!place) return "";
      map.show(place.longitude, place.latitude);
      const [north, east] = [place.latitude, place.longitude].map((one) => one.toLocaleString(undefined, { maximumFractionDigits: 5 }));
      const near = map.near?.(place.longitude, place.latitude);
      return `${north} °N, ${east} °E${near?.name ? `, ${distanceText(Number(near.metres.toPrecision(2)), "metre")} from ${near.name}` : ""}`;
    },
    clear() {
      for (const input of degrees) input.value = "";
      map.close?.();
      drawn.replaceChildren();
    },
  };
}

/** One of some options, or several: which, from 0. */
function optionsInput({ kind, most, options }, title, labels) {
  const several = kind === "multiple";
  if (!several && options.length > MOST_BUTTONS) return listInput(title, labels);
  const inputs = labels.map((_, i) => make("input", { type: several ? "checkbox" : "radio", name: "option", id: `option-${i}`, "aria-describedby": "problem" }));
  const each = inputs.map((input, i) => make("label", { class: "option", for: input.id }, input, make("span", {}, labels[i])));
  const hint = several ? `Tick any${most < options.length ? `, at most ${most}` : ""}, or none.` : "";
  const box = make("fieldset", { class: "options" }, make("legend", {}, title), ...(hint ? [make("p", { class: "note" }, hint)] : []), ...each);
  const chosen = () => inputs.flatMap((input, i) => (input.checked ? [i] : []));
  return {
    box,
    read: () => (several ? chosen() : (chosen()[0] ?? null)),
    wrong: () => (several ? (chosen().length > most ? `Tick at most ${most}.` : "") : chosen().length ? "" : "Choose one of the answers."),
    clear: () => inputs.forEach((input) => (input.checked = false)),
  };
}

function listInput(title, labels) {
  const list = make("select", { id: "label", "aria-describedby": "problem" }, new Option("", ""), ...labels.map((label, i) => new Option(label, label, false, false)));
  const box = make("div", { class: "field", id: "group" }, make("label", { for: "label" }, title), list);
  return {
    box,
    read: () => (list.selectedIndex > 0 ? list.selectedIndex - 1 : null),
    wrong: () => (list.selectedIndex > 0 ? "" : "Choose one of the answers."),
    clear: () => (list.selectedIndex = 0),
  };
}
