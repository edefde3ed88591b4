// What a report can tell, in numbers and as a picture. Nothing here is private, or drawn.

const HEIGHT = 34;
const WIDTH = 400;

/** The greatest probability of one of two equally likely answers, once the report is seen. */
export function greatest(price, apart) {
  if (apart > (price.reach ?? Infinity)) return 1;
  return 1 - (1 - (price.delta ?? 0)) / (1 + Math.exp((price.epsilon * apart) / price.per));
}

/** By how much the odds grow at most, in words. */
export function factor(price, apart) {
  const odds = Math.exp((price.epsilon * apart) / price.per);
  if (odds >= 1e6 || apart > (price.reach ?? Infinity)) return "no limit that matters";
  const unit = odds < 10 ? 100 : 10 ** (1 - Math.floor(Math.log10(odds)));
  const slack = price.delta ? `, plus a chance of at most 1 in ${number(Math.floor(1 / price.delta + 1e-6))}` : "";
  return `${number(Math.ceil(unit * odds - 1e-9) / unit)} to 1${slack}`;
}

/** Distances to show: a quarter of what the guarantee is stated for, that, and four times it. */
export function distances({ per }) {
  return [0.25, 1, 4].map((times) => times * per);
}

/** A number in digits: all that a double holds, since what is claimed of it is true of no other. */
export function number(value, digits = 15) {
  return value.toLocaleString("en", { maximumSignificantDigits: digits });
}

/** The ratio that a distance of logarithms is, not above it: what holds at a distance holds at all below. */
export function ratioOf(apart) {
  return Math.floor(1e5 * Math.exp(apart) + 1e-6) / 1e5;
}

export function distanceText(apart, unit) {
  if (unit.startsWith("log ")) return `factor ${number(ratioOf(apart))} in ${unit.slice(4)}`;
  if (unit !== "metre") return `${number(apart)} ${unit}`;
  return apart < 1000 ? `${number(apart)} m` : `${number(apart / 1000)} km`;
}

/** The per cents of the two answers as the sentences have them: no risk is rounded down. */
export function shares(p) {
  if (p > 0.999) return { sure: "more than 99.9 %", other: "" };
  const tenths = Math.ceil(1000 * p - 1e-9);
  return { sure: `${tenths / 10} %`, other: `${(1000 - tenths) / 10} %` };
}

/** A bar whose two parts are the two answers: as much of it each as it may seem likely. */
export function bar(price, apart, first, second) {
  const p = greatest(price, apart);
  const box = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const { sure, other: rest } = shares(p);
  const told = rest ? `${sure} against ${rest}` : "as good as certain";
  box.append(
    element("title", {}, `${first} or ${second}: at most ${told}`),
    element("rect", { x: 0, y: 4, width: p * WIDTH, height: HEIGHT - 8, class: "one" }),
    element("rect", { x: p * WIDTH, y: 4, width: (1 - p) * WIDTH, height: HEIGHT - 8, class: "other" }),
    element("line", { x1: WIDTH / 2, x2: WIDTH / 2, y1: 0, y2: HEIGHT, class: "middle" }),
    element("text", { x: 8, y: HEIGHT / 2 + 5, class: "on" }, sure),
  );
  if (p < 0.88) {
    const other = element("text", { x: WIDTH - 8, y: HEIGHT / 2 + 5, class: "on" }, rest);
    other.setAttribute("text-anchor", "end");
    box.append(other);
  }
  return box;
}

/** An element of SVG, or with `html` of the page; text never becomes markup. */
export function element(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}
