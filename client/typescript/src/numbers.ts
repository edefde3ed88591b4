/**
 * Numbers as people write them: read if only one number can be meant, otherwise asked about. As in
 * Python's command; proto/vectors/numbers.json has how both read forty inputs in nine locales.
 */

/** How numbers are written somewhere. */
export interface Separators {
  readonly decimal: string;
  readonly group: string;
  /** Whether groups above the thousands have two digits: 1,50,000. */
  readonly indian: boolean;
}

/** What a text can mean. */
export interface Meaning {
  readonly numbers: readonly number[];
  /** Whether there is one number that no reader could take for another. */
  readonly sure: boolean;
}

interface Reading {
  readonly number: string;
  readonly point: string;
  readonly mark: string;
  readonly indian?: boolean;
}

const AROUND = /^([+-]?)\s*[$€£¥₹]?\s*([+-]?)(.*?)\s*([kK]?)\s*[$€£¥₹]?$/s;
const GROUPED = /^[1-9][0-9]{0,2}(?:([ '’_٬.,])[0-9]{3})(?:\1[0-9]{3})*$/;
const INDIAN = /^[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}$/;
const POWER = /^(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,3}$/;
/** Zeros of decimal digits: Arabic, Persian, Devanagari, Bengali, full width. */
const ZEROS = [0x660, 0x6f0, 0x966, 0x9e6, 0xff10];

/** How a locale writes numbers; undefined: the browser's. */
export function separatorsOf(locale?: string): Separators {
  const parts = new Intl.NumberFormat(locale, { useGrouping: true }).formatToParts(12345678.9);
  const first = (type: string, otherwise: string): string => parts.find((part) => part.type === type)?.value ?? otherwise;
  const groups = parts.filter(({ type }) => type === "group").length;
  return { decimal: first("decimal", "."), group: first("group", ","), indian: groups === 3 };
}

/**
 * The numbers that a text can mean.
 *
 * @param unit - may follow the number; a currency sign and k for thousands are accepted, too.
 */
export function readNumber(text: string, written: Separators, unit = ""): Meaning {
  let body = text.replace(/[\u200e\u200f\u061c]/g, "").replace(/[\u00a0\u2009\u202f]/g, " ").replace("−", "-");
  body = [...body].map(plainDigit).join("").trim();
  if (unit) {
    const [long, ending] = [body.toLowerCase(), unit.toLowerCase()];
    const end = [ending, `${ending}s`].find((one) => long.endsWith(one));
    if (end) body = body.slice(0, -end.length).trimEnd();
  }
  const [, first, second, inner, thousands] = AROUND.exec(body) ?? [];
  if (inner === undefined || (first && second)) return { numbers: [], sure: false };
  const factor = (`${first}${second}` === "-" ? -1 : 1) * (thousands ? 1000 : 1);
  const readings = [...readingsOf(inner)];
  const numbers = readings.map(({ number }) => factor * Number(number) || 0);
  if (readings.length !== 2) return { numbers, sure: readings.length === 1 && fits(readings[0]!, written) };
  return readings[1]!.mark === written.group ? { numbers: numbers.slice(1), sure: true } : { numbers, sure: false };
}

/** Each number that digits and marks can stand for: with decimals, then without. */
function* readingsOf(body: string): Generator<Reading> {
  if (POWER.test(body)) yield { number: body, point: "", mark: "" };
  for (const point of ".,٫") {
    const at = body.lastIndexOf(point);
    const [whole, part] = [body.slice(0, Math.max(at, 0)), body.slice(at + 1)];
    if (at < 0 || !/^[0-9]*$/.test(part) || !(whole || part)) continue;
    const indian = INDIAN.test(whole);
    const mark = GROUPED.exec(whole)?.[1] ?? (indian ? "," : "");
    if (/^[0-9]*$/.test(whole) || (mark && mark !== point)) yield { number: `${without(whole, mark)}.${part}`, point, mark, indian };
  }
  if (/^[0-9]+$/.test(body)) yield { number: body, point: "", mark: "" };
  else if (GROUPED.test(body)) {
    const mark = GROUPED.exec(body)![1]!;
    yield { number: without(body, mark), point: "", mark };
  } else if (INDIAN.test(body)) yield { number: without(body, ","), point: "", mark: ",", indian: true };
}

/** Whether a number is written as in this locale, or its marks are unambiguous. */
function fits({ point, mark, indian }: Reading, written: Separators): boolean {
  return indian ? written.indian : ["", "٫", written.decimal].includes(point) || mark !== "";
}

function without(text: string, mark: string): string {
  return mark ? text.replaceAll(mark, "") : text;
}

function plainDigit(character: string): string {
  const code = character.codePointAt(0)!;
  const zero = ZEROS.find((one) => code >= one && code < one + 10);
  return zero === undefined ? character : String(code - zero);
}

const SMALL = (
  "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen" +
  " eighteen nineteen"
).split(" ");
const TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split(" ");
const LARGE = ["", " thousand", " million", " billion", " trillion"];

/** A number in English words, so that people notice a slip by thousands; "" beyond trillions. */
export function spelled(x: number): string {
  const [whole, part] = Math.abs(x).toLocaleString("en", { maximumSignificantDigits: 15 }).split(".");
  const groups = whole!.split(",");
  if (groups.length > LARGE.length) return "";
  const words = groups.map((group, i) => belowThousand(Number(group), groups.length - 1 - i)).filter(Boolean);
  const decimals = part ? ` point ${[...part].map((one) => SMALL[Number(one)]).join(" ")}` : "";
  return (x < 0 ? "minus " : "") + (words.join(" ") || "zero") + decimals;
}

function belowThousand(x: number, thousands: number): string {
  const [hundreds, rest] = [Math.floor(x / 100), x % 100];
  const words = hundreds ? [`${SMALL[hundreds]} hundred`] : [];
  if (rest >= 20) words.push(TENS[Math.floor(rest / 10) - 2]! + (rest % 10 ? `-${SMALL[rest % 10]}` : ""));
  else if (rest) words.push(SMALL[rest]!);
  return words.join(" ") + (words.length ? LARGE[thousands] : "");
}
