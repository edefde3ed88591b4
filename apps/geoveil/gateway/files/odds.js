// What a report can reveal, in numbers and as a picture. Nothing here is private or random.

import { digits, say } from "./geoveil-client.js";

const HEIGHT = 34;
const WIDTH = 400;

/** ε between two answers: at most that between any two. */
function nats({ epsilon, per, anyTwo = Infinity }, apart) {
  return Math.min((epsilon * apart) / per, anyTwo);
}

/** The greatest probability of one of two equally likely answers, once the report is seen. */
export function greatest(price, apart) {
  if (apart > (price.reach ?? Infinity)) return 1;
  return 1 - (1 - (price.delta ?? 0)) / (1 + Math.exp(nats(price, apart)));
}

/** The most by which the odds grow, in words. */
export function factor(price, apart) {
  const odds = Math.exp(nats(price, apart));
  if (odds >= 1e6 || apart > (price.reach ?? Infinity)) return say("bars.none");
  const unit = odds < 10 ? 100 : 10 ** (1 - Math.floor(Math.log10(odds)));
  const slack = price.delta ? say("slack", { many: digits(Math.floor(1 / price.delta + 1e-6)) }) : "";
  return say("odds", { one: digits(Math.ceil(unit * odds - 1e-9) / unit), other: "1" }) + slack;
}

/** Distances to show: a quarter of the guarantee's distance, that distance, and four times it. */
export function distances({ per }) {
  return [0.25, 1, 4].map((times) => times * per);
}

/** The ratio of a distance between logarithms, rounded down: what holds at a distance holds at all smaller ones. */
export function ratioOf(apart) {
  return Math.floor(1e5 * Math.exp(apart) + 1e-6) / 1e5;
}

/** The percentages of the two answers, as in the sentences: no risk is rounded down. */
export function shares(p) {
  if (p > 0.999) return { sure: say("percent.most"), other: "" };
  const tenths = Math.ceil(1000 * p - 1e-9);
  return { sure: say("bars.share", { share: digits(tenths / 10) }), other: say("bars.share", { share: digits((1000 - tenths) / 10) }) };
}

/** A bar with a part for each of two answers, as long as its probability can become. */
export function bar(price, apart, first, second) {
  const p = greatest(price, apart);
  const box = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const { sure, other: rest } = shares(p);
  const odds = rest ? say("bars.against", { sure, other: rest }) : say("bars.certain");
  box.append(
    element("title", {}, say("bars.row", { first, second, odds })),
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

/** An SVG element; text never becomes markup. */
export function element(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}
