/** Numbers in the sentences for people, exactly as in Python (`geoveil.campaign.saying`): no risk is rounded down. */
import { digits, say } from "./words.js";

const MOST_TIMES = 1e6;
const ALMOST_SURE = 0.999;
const ROUNDING = 1e-9;

/** A range in words; "" without ends. */
export function between({ least, most }: { readonly least?: number | undefined; readonly most?: number | undefined }): string {
  const ends = [...(least === undefined ? [] : [say("range.least", { x: digits(least) })]), ...(most === undefined ? [] : [say("range.most", { x: digits(most) })])];
  return both(ends);
}

/** Texts with "and" between them. */
export function both(texts: readonly string[]): string {
  return texts.length ? texts.reduce((one, other) => say("and", { one, other })) : "";
}

/** e^nats to three digits, rounded up; undefined above a million. */
export function times(nats: number): string | undefined {
  return nats > Math.log(MOST_TIMES) ? undefined : digits(roundedUp(Math.exp(nats), 3));
}

/** e^nats to four digits, rounded up, as odds; undefined if that protects nothing. */
export function toOne(nats: number): string | undefined {
  return nats > 10 ? undefined : say("odds", { one: digits(roundedUp(Math.exp(nats), 4)), other: "1" });
}

/** A number other than 0 with some significant figures, rounded up. */
export function roundedUp(x: number, figures: number): number {
  const places = figures - 1 - Math.floor(Math.log10(Math.abs(x)));
  const unit = 10 ** Math.abs(places);
  return places < 0 ? Math.ceil(x / unit - ROUNDING) * unit : Math.ceil(x * unit - ROUNDING) / unit;
}

/** The factor between two values on a log scale, to six digits, rounded down. */
export function ratio(distance: number): string {
  return digits(-roundedUp(-grown(distance), 6));
}

/** The value that a logarithm stands for, to twelve digits. */
export function onScale(logarithm: number): string {
  return digits(Number(grown(logarithm).toPrecision(12)));
}

/** A chance in per cent to one digit, rounded up; "more than 99.9" beyond. */
export function percent(chance: number): string {
  return chance > ALMOST_SURE ? say("percent.most") : say("percent", { share: digits(tenths(chance) / 10) });
}

/** A chance of one of two, as a pair of percentages; undefined above 99.9 %. */
export function odds(chance: number): string | undefined {
  if (chance > ALMOST_SURE) return undefined;
  return say("odds", { one: digits(tenths(chance) / 10), other: digits((1000 - tenths(chance)) / 10) });
}

/** The largest chance of guessing right between two equally likely values: (e^ε + δ)/(1 + e^ε). */
export function rightAtMost(nats: number, delta = 0): number {
  return 1 - (1 - delta) / (1 + grown(nats));
}

/** e^x, for x for which that is a double. */
export function grown(x: number): number {
  return Math.exp(Math.min(x, 700));
}

function tenths(chance: number): number {
  return Math.ceil(1000 * chance - ROUNDING);
}
