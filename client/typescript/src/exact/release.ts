/** The release: ideal outputs, correctly rounded to a public grid. */
import { GeoveilError } from "../errors.js";
import type { LazyUniform } from "./bits.js";
import { HALF, Interval, withPrecision } from "./interval.js";

const GUARD = 64;
/** More than the exponents of points, grids and scales differ: what is undecided then, U leaves undecided. */
const SURE = 1152;
const MOST_BITS = 1 << 16;
export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

/** The integer k that every number y of an interval rounds to, y/2^e = k ± 1/2, if there is one. */
export function roundToGrid(value: Interval, stepExponent: number): bigint | undefined {
  if (!value.known) return undefined;
  const shifted = value.scaled(-stepExponent).add(HALF);
  if (shifted.exponent > MOST_BITS) return undefined;
  const low = floor(shifted.low, shifted.exponent);
  return low === floor(shifted.high, shifted.exponent) ? low : undefined;
}

function floor(mantissa: bigint, exponent: number): bigint {
  return exponent >= 0 ? mantissa << BigInt(exponent) : mantissa >> BigInt(-exponent);
}

/**
 * The grid indices of all numbers in evaluate(U₁, U₂, …), which share their randomness: nearest to
 * output/step, halves upwards, and the nearer end of 64 bits beyond them.
 */
export function releaseIntegers(
  uniforms: readonly LazyUniform[],
  evaluate: (u: readonly Interval[]) => readonly Interval[],
  stepExponent: number,
): bigint[] {
  for (;;) {
    const count = uniforms[0]!.count;
    for (const guard of [GUARD, SURE]) {
      const integers = withPrecision(count + guard, () =>
        evaluate(uniforms.map((u) => Interval.of(u.numerator, u.numerator + 1n, -u.count))).map((y) =>
          roundToGrid(y, stepExponent),
        ),
      );
      if (integers.every((k) => k !== undefined)) return integers.map(saturated);
    }
    // A fair source gets here with a probability below 2^−60000.
    if (count >= MOST_BITS) throw new GeoveilError("unsupported", "the random source is broken");
    for (const u of uniforms) u.refine();
  }
}

/** The nearer end of 64 bits for what lies beyond it. */
export function saturated(k: bigint): bigint {
  return k < INT64_MIN ? INT64_MIN : k > INT64_MAX ? INT64_MAX : k;
}
