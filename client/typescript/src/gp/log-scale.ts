/** Numbers above 0 as logarithms, in which a ratio is a distance. */
import { log } from "../exact/elementary.js";
import { Interval, withPrecision } from "../exact/interval.js";
import { positive } from "./profile.js";

/** The prefix of units whose distances are logarithms of ratios, as in "log dollar". */
export const LOG = /^log /;
const BITS = 160;

export interface LogScale {
  /** The floor, > 0: smaller values count as it, including 0 and negative ones. */
  readonly floor: number;
}

/**
 * The double nearest to the logarithm of a value, or of the floor if that is more: the same as in
 * Python. No logarithm but 0 lies halfway between two doubles, so more bits decide.
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

/** The guarantee, over logarithms, that values a factor > 1 apart are at most this distinguishable. */
export function perFactor(epsilon: number, factor: number, unit: string): { epsilon: number; per: number; unit: string } {
  const per = withPrecision(BITS, () => log(Interval.exactly(positive("factor", factor))).ends()[1].roundUp());
  return { epsilon, per, unit: `log ${unit}` };
}
