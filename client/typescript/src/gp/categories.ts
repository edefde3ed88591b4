/** Categories: one of several options, a place on an ordered scale, or a set of options, in integers. */
import { PrivateValueError } from "../errors.js";
import { below, type BitSource } from "../exact/bits.js";
import { exp } from "../exact/elementary.js";
import { constant, withPrecision } from "../exact/interval.js";

/** K-ary response, unary encoding, a scale with geometric noise, and a yes or no about each option. */
export type Category = "kary" | "unary" | "ordinal" | "subset";

/** The weight of a lie, M. */
const ONE = 2n ** 32n;
const COLUMN = 62;
/** Beyond it, fewer than one in a million answers is a lie. */
export const MOST_EPSILON = 16;

/** T = ⌊e^ε·M⌋, of ε in (0, 16]. */
function weightOf(epsilon: number): bigint {
  return withPrecision(128, () => {
    const [low] = exp(constant(epsilon)).scaled(32).ends();
    return low.n / low.d;
  });
}

/** How one of several options is sent: by unary encoding if there are more than 3e^ε + 2. */
export const choiceOf = (options: number, epsilon: number): Category =>
  BigInt(options - 2) * ONE <= 3n * weightOf(epsilon) ? "kary" : "unary";

/**
 * One exact report, an integer per column; how much is drawn does not depend on the value.
 *
 * @param value - the option's index, from 0; for "subset" a mask of bits.
 */
export function release(kind: Category, options: number, epsilon: number, value: bigint, source: BitSource): bigint[] {
  const weight = weightOf(epsilon);
  const total = weight + ONE;
  const count = BigInt(options);
  let report: (value: bigint) => bigint[];
  if (kind === "kary") {
    const drawn = below(source, weight + (count - 1n) * ONE) - weight;
    const other = drawn / ONE;
    report = (x) => [drawn < 0n ? x : other < x ? other : other + 1n];
  } else if (kind === "ordinal") {
    const side = below(source, total);
    const stops = events(source, options - 2, ONE, weight).indexOf(false);
    const steps = side >= ONE && side < weight ? 0n : stops < 0 ? count - 1n : BigInt(stops + 1);
    report = (x) => {
      const y = side < ONE ? x + steps : x - steps;
      return [y < 0n ? 0n : y < count ? y : count - 1n];
    };
  } else {
    const kept = kind === "unary" && source.bits(1);
    let flips = 0n;
    for (let first = 0; first < options; first += COLUMN) {
      events(source, Math.min(COLUMN, options - first), ONE, total).forEach((event, bit) => {
        if (event) flips |= 1n << BigInt(first + bit);
      });
    }
    report = (x) => {
      const mask = kept === false ? flips ^ x : (flips & ~(1n << x)) | (kept << x);
      return Array.from({ length: Math.ceil(options / COLUMN) }, (_, i) => BigInt.asUintN(COLUMN, mask >> BigInt(COLUMN * i)));
    };
  }
  if (value < 0n || value >= (kind === "subset" ? 1n << count : count)) throw new PrivateValueError(`one of ${options} options`);
  return report(value);
}

/** Whether each of some independent events of probability part/total happens: binary digits, 32 at a time. */
function events(source: BitSource, many: number, part: bigint, total: bigint): boolean[] {
  const [digits, rest] = [(part * ONE) / total, (part * ONE) % total];
  const drawn = source.bits(32 * many);
  return Array.from({ length: many }, (_, i) => {
    const word = BigInt.asUintN(32, drawn >> BigInt(32 * i));
    return word < digits || (word === digits && rest > 0n && events(source, 1, rest, total)[0]!);
  });
}
