/** Numbers as people are told them, letter for letter as in Python (`geoveil.campaign.saying`): no risk is rounded down. */

const MOST_TIMES = 1e6;
const ALMOST_SURE = 0.999;
const ROUNDING = 1e-9;

/** A number with commas between thousands, to 15 significant digits, without powers. */
export function digits(x: number): string {
  return (Number(x.toPrecision(15)) || 0).toLocaleString("en", { maximumSignificantDigits: 15 });
}

/** A range in words; "" where it has no ends. */
export function between({ least, most }: { readonly least?: number | undefined; readonly most?: number | undefined }): string {
  const end = (name: string, x?: number): string[] => (x === undefined ? [] : [`at ${name} ${digits(x)}`]);
  return [...end("least", least), ...end("most", most)].join(" and ");
}

/** e^nats to three digits, rounded up; undefined where that is more than a million. */
export function times(nats: number): string | undefined {
  return nats > Math.log(MOST_TIMES) ? undefined : digits(roundedUp(Math.exp(nats), 3));
}

/** e^nats to four digits, rounded up, as odds; undefined where that is no protection. */
export function toOne(nats: number): string | undefined {
  return nats > 10 ? undefined : `${digits(roundedUp(Math.exp(nats), 4))} to 1`;
}

/** A number other than 0 with so many significant figures, not below it. */
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

/** A chance in per cent to one digit, rounded up; no more is said above 99.9. */
export function percent(chance: number): string {
  return chance > ALMOST_SURE ? "more than 99.9 %" : `${tenths(chance) / 10} %`;
}

/** A chance of one of two, as a pair of per cents; undefined where it is above 99.9 %. */
export function odds(chance: number): string | undefined {
  if (chance > ALMOST_SURE) return undefined;
  return `${tenths(chance) / 10} to ${(1000 - tenths(chance)) / 10}`;
}

/** How often a guess between two values, equally likely before, is right at most: (e^ε + δ)/(1 + e^ε). */
export function rightAtMost(nats: number, delta = 0): number {
  return 1 - (1 - delta) / (1 + grown(nats));
}

/** e^x, of x for which that is a double. */
export function grown(x: number): number {
  return Math.exp(Math.min(x, 700));
}

function tenths(chance: number): number {
  return Math.ceil(1000 * chance - ROUNDING);
}
