// A hundred reports that could be drawn for an answer, as dots, above those for somebody else's: they
// show what one dot reveals. They are drawn like the report, shown, and not stored; none of them is the
// one that is sent.

import { digits, say } from "./geoveil-client.js";
import { element } from "./odds.js";
import { toPlane } from "./map.js";

const MANY = 100;
const [WIDTH, BINS, DOT] = [400, 50, 3.2];
const MOST_HIGH = 14;

const source = {
  bits(count) {
    const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(count / 8)));
    return bytes.reduce((all, byte) => (all << 8n) | BigInt(byte), 0n) >> BigInt(8 * bytes.length - count);
  },
};

/** Whether a campaign has this picture: its reports are one number. */
export function hasDots({ attribute, columns, dimension, questions, readings }) {
  const drawn = attribute.coordinates ? questions.length > 0 : dimension === 1 && (questions.length > 0 || !attribute.scale);
  return columns === 1 && !readings && drawn;
}

/** An answer in the coordinates of questions, accurate enough for a picture. */
function coordinates({ coordinates: centre, scale }, value) {
  if (centre) return toPlane(centre, value.longitude, value.latitude);
  return [scale ? Math.log(Math.max(value, scale.floor)) : value];
}

/** A row {label, values} for an answer, and one for each answer at a given distance from it. */
export function rowsOf(campaign, value, others) {
  const { attribute, stepExponent } = campaign;
  const mine = coordinates(attribute, value);
  const drawn = ([first, ...rest]) => Array.from({ length: MANY }, () => Number(campaign.draw([first, ...rest], source).answers[0].value) * 2 ** stepExponent);
  return [{ label: say("answer.title"), values: drawn(mine) }, ...others.map(({ by, label }) => ({ label, values: drawn([mine[0] + by, ...mine.slice(1)]) }))];
}

/** Draw the rows, each dot a report, with a title in words and a line at each of the marks. */
export function dots(rows, what, marks = []) {
  const all = rows.flatMap(({ values }) => values);
  const [low, high] = [Math.min(0, ...all), Math.max(...all) > Math.min(0, ...all) ? Math.max(...all) : 1];
  const row = 24 + 2 * DOT * MOST_HIGH;
  const box = element("svg", { viewBox: `0 0 ${WIDTH} ${rows.length * row + 18}`, role: "img" });
  const half = ({ label, values }) => {
    const [low, high] = [0.25, 0.75].map((p) => digits(values.toSorted((a, b) => a - b)[Math.floor(p * values.length)], 2));
    return say("dots.half", { label, low, high });
  };
  box.append(element("title", {}, `${what} ${rows.map(half).join("; ")}.`));
  rows.forEach(({ label, values }, i) => {
    const floor = (i + 1) * row;
    box.append(element("text", { x: 0, y: floor - row + 15 }, label));
    box.append(element("line", { x1: 0, x2: WIDTH, y1: floor, y2: floor, class: "ground" }));
    const piles = new Map();
    for (const value of values) {
      const bin = Math.min(BINS - 1, Math.floor((BINS * (value - low)) / (high - low)));
      piles.set(bin, (piles.get(bin) ?? 0) + 1);
    }
    const rise = Math.min(2 * DOT, (2 * DOT * MOST_HIGH) / Math.max(...piles.values()));
    for (const [bin, count] of piles) {
      if (count > MOST_HIGH) {
        const left = bin > BINS / 2;
        const x = ((bin + 0.5) * WIDTH) / BINS + (left ? -8 : 8);
        box.append(element("text", { x, y: floor - 2 * DOT * MOST_HIGH + 10, "text-anchor": left ? "end" : "start", class: "small" }, say("dots.of", { count, many: MANY })));
      }
      for (let k = 0; k < count; k++) {
        box.append(element("circle", { cx: ((bin + 0.5) * WIDTH) / BINS, cy: floor - DOT - k * rise, r: DOT, class: i ? "other" : "one" }));
      }
    }
  });
  const foot = rows.length * row + 15;
  for (const mark of marks.filter((one) => low + 0.1 * (high - low) < one && one < high - 0.1 * (high - low))) {
    const x = (WIDTH * (mark - low)) / (high - low);
    box.prepend(element("line", { x1: x, x2: x, y1: 0, y2: foot - 12, class: "mark" }));
    box.append(element("text", { x, y: foot, class: "small", "text-anchor": "middle" }, digits(mark, 3)));
  }
  const ends = [element("text", { x: 0, y: foot, class: "small" }, digits(low, 3)), element("text", { x: WIDTH, y: foot, class: "small", "text-anchor": "end" }, digits(high, 3))];
  box.append(...ends);
  return box;
}
