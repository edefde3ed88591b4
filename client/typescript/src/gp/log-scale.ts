/** Numbers above 0 as logarithms, in which a ratio is a distance. */
import { log } from "../exact/elementary.js";
import { Interval, withPrecision } from "../exact/interval.js";
import { positive } from "./profile.js";

/** What units of distances begin with that are logarithms of ratios, as in "log dollar". */
export const LOG = /^log /;
const BITS = 160;

export interface LogScale {
  /** The least value that is told from smaller ones, > 0: they count as it, also 0 and negative ones. */
  readonly floor: number;
}

/**
 * The double nearest to the logarithm of a value, or of the floor if that is more: the same as in Python. No
 * logarithm but 0 lies half way between two doubles, so that more bits decide.
 */
export function coordinateOf({ floor }: LogScale, value: number): number {
  const x = Math.max(value, floor);
  for (let bits = BITS; x !== 1; bits *= 2) {
    const [low, high] = withPrecision(bits, () => log(Interval.exactly(x)).ends());
    const near = low.toNumber();
    if (near === high.toNumber()) return near;
  }
  return 0;
}

/** The guarantee that values a factor > 1 apart are so distinguishable: over logarithms, never more than that. */
export function perFactor(epsilon: number, factor: number, unit: string): { epsilon: number; per: number; unit: string } {
  const per = withPrecision(BITS, () => log(Interval.exactly(positive("factor", factor))).ends()[1].roundUp());
  return { epsilon, per, unit: `log ${unit}` };
}
