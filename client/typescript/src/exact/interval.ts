/**
 * Intervals that enclose real numbers: a release computes with them, so that its integer is that of the exact result.
 *
 * An interval is [low, high] · 2^exponent with integers low ≤ high. After each operation its ends
 * are shortened to the working precision, outwards. What cannot be enclosed, such as the logarithm of an
 * interval that reaches 0, is `UNKNOWN`, and so is everything computed from it.
 */
import { bigAbs, bitLength, ceilDiv, floorDiv, parts, Rational } from "./rational.js";

let working = 192;

/** The bits to which the ends of intervals are shortened. */
export function precision(): number {
  return working;
}

/** Compute with `bits` of precision. */
export function withPrecision<T>(bits: number, compute: () => T): T {
  const before = working;
  working = bits;
  try {
    return compute();
  } finally {
    working = before;
  }
}

export class Interval {
  private constructor(
    readonly low: bigint,
    readonly high: bigint,
    readonly exponent: number,
    readonly known: boolean,
  ) {}

  /** [low, high] · 2^exponent, shortened to the working precision. */
  static of(low: bigint, high: bigint, exponent: number): Interval {
    const longest = bigAbs(low) > bigAbs(high) ? low : high;
    const excess = bitLength(longest) - working;
    if (excess <= 0) return new Interval(low, high, exponent, true);
    const shift = BigInt(excess);
    return new Interval(low >> shift, -(-high >> shift), exponent + excess, true);
  }

  static unknown(): Interval {
    return new Interval(0n, 0n, 0, false);
  }

  /** A finite double or an integer, as it is. */
  static exactly(x: number | bigint): Interval {
    if (typeof x === "bigint") return new Interval(x, x, 0, true);
    const { mantissa, exponent } = parts(x);
    return new Interval(mantissa, mantissa, exponent, true);
  }

  /** A fraction, enclosed. */
  static rational(x: Rational): Interval {
    if ((x.d & (x.d - 1n)) === 0n) return new Interval(x.n, x.n, 1 - bitLength(x.d), true);
    const shift = working + bitLength(x.d) - bitLength(x.n) + 1;
    const n = shift >= 0 ? x.n << BigInt(shift) : x.n;
    const d = shift >= 0 ? x.d : x.d << BigInt(-shift);
    const low = floorDiv(n, d);
    return new Interval(low, low + 1n, -shift, true);
  }

  neg(): Interval {
    return this.known ? new Interval(-this.high, -this.low, this.exponent, true) : this;
  }

  add(other: Interval): Interval {
    if (!this.known || !other.known) return UNKNOWN;
    const [a, b, exponent] = aligned(this, other);
    return Interval.of(a.low + b.low, a.high + b.high, exponent);
  }

  sub(other: Interval): Interval {
    return this.add(other.neg());
  }

  mul(other: Interval): Interval {
    if (!this.known || !other.known) return UNKNOWN;
    const exponent = this.exponent + other.exponent;
    if (this.low >= 0n) {
      if (other.low >= 0n) return Interval.of(this.low * other.low, this.high * other.high, exponent);
      if (other.high <= 0n) return Interval.of(this.high * other.low, this.low * other.high, exponent);
      return Interval.of(this.high * other.low, this.high * other.high, exponent);
    }
    if (this.high <= 0n) return this.neg().mul(other).neg();
    if (other.low >= 0n) return Interval.of(this.low * other.high, this.high * other.high, exponent);
    if (other.high <= 0n) return Interval.of(this.high * other.low, this.low * other.low, exponent);
    const a = this.low * other.high;
    const b = this.high * other.low;
    const c = this.low * other.low;
    const d = this.high * other.high;
    return Interval.of(a < b ? a : b, c > d ? c : d, exponent);
  }

  /** x², which is never negative. */
  square(): Interval {
    if (!this.known) return this;
    const { low, high } = this.abs();
    return Interval.of(low * low, high * high, 2 * this.exponent);
  }

  div(other: Interval): Interval {
    if (!this.known || !other.known || (other.low <= 0n && other.high >= 0n)) return UNKNOWN;
    if (other.high < 0n) return this.neg().div(other.neg());
    const size = bitLength(bigAbs(this.low) > bigAbs(this.high) ? this.low : this.high);
    const shift = Math.max(working + 2 + bitLength(other.high) - size, 0);
    const by = BigInt(shift);
    const low = this.low << by;
    const high = this.high << by;
    return Interval.of(
      floorDiv(low, low >= 0n ? other.high : other.low),
      ceilDiv(high, high >= 0n ? other.low : other.high),
      this.exponent - other.exponent - shift,
    );
  }

  /** Multiply by 2^by, exactly. */
  scaled(by: number): Interval {
    return this.known ? new Interval(this.low, this.high, this.exponent + by, true) : this;
  }

  abs(): Interval {
    if (!this.known || this.low >= 0n) return this;
    if (this.high <= 0n) return this.neg();
    return new Interval(0n, -this.low > this.high ? -this.low : this.high, this.exponent, true);
  }

  min(other: Interval): Interval {
    return this.merged(other, (a, b) => (a < b ? a : b), (a, b) => (a < b ? a : b));
  }

  max(other: Interval): Interval {
    return this.merged(other, (a, b) => (a > b ? a : b), (a, b) => (a > b ? a : b));
  }

  /** The least interval around both. */
  union(other: Interval): Interval {
    return this.merged(other, (a, b) => (a < b ? a : b), (a, b) => (a > b ? a : b));
  }

  private merged(
    other: Interval,
    low: (a: bigint, b: bigint) => bigint,
    high: (a: bigint, b: bigint) => bigint,
  ): Interval {
    if (!this.known || !other.known) return UNKNOWN;
    const [a, b, exponent] = aligned(this, other);
    return Interval.of(low(a.low, b.low), high(a.high, b.high), exponent);
  }

  /** A number near its middle, with no more bits than the working precision. */
  get middle(): Interval {
    if (!this.known) return this;
    const sum = this.low + this.high;
    const excess = Math.max(bitLength(sum) - working, 0);
    const mantissa = sum >> BigInt(excess);
    return new Interval(mantissa, mantissa, this.exponent - 1 + excess, true);
  }

  /** Whether it lies in another. */
  within(other: Interval): boolean {
    if (!this.known || !other.known) return false;
    const [a, b] = aligned(this, other);
    return b.low <= a.low && a.high <= b.high;
  }

  /** About its middle, as a double. */
  get near(): number {
    return this.middle.ends()[0].toNumber();
  }

  /** Whether every number in it is below every number in the other. */
  below(other: Interval): boolean {
    if (!this.known || !other.known) return false;
    const [a, b] = aligned(this, other);
    return a.high < b.low;
  }

  /** −1, 0 or 1; all of [−1, 1] where it meets 0. */
  sign(): Interval {
    if (!this.known) return this;
    if (this.low > 0n) return ONE;
    if (this.high < 0n) return ONE.neg();
    return this.low === 0n && this.high === 0n ? this : new Interval(-1n, 1n, 0, true);
  }

  /** The part that is not negative; `UNKNOWN` if there is none. */
  nonNegative(): Interval {
    if (!this.known || this.low >= 0n) return this;
    return this.high < 0n ? UNKNOWN : new Interval(0n, this.high, this.exponent, true);
  }

  /** Its ends as fractions. */
  ends(): [Rational, Rational] {
    return [dyadic(this.low, this.exponent), dyadic(this.high, this.exponent)];
  }
}

function dyadic(mantissa: bigint, exponent: number): Rational {
  return exponent >= 0 ? Rational.of(mantissa << BigInt(exponent)) : Rational.of(mantissa, 1n << BigInt(-exponent));
}

interface Ends {
  low: bigint;
  high: bigint;
}

/** The largest difference of exponents that longer integers bridge. */
const APART = 4096;

/** The ends of two intervals in one unit, outwards where one of them is far finer than the other. */
function aligned(x: Interval, y: Interval): [Ends, Ends, number] {
  if (x.exponent === y.exponent) return [x, y, x.exponent];
  if (x.high === 0n && x.low === 0n) return [x, y, y.exponent];
  if (y.high === 0n && y.low === 0n) return [x, y, x.exponent];
  if (x.exponent < y.exponent) {
    const [b, a, exponent] = aligned(y, x);
    return [a, b, exponent];
  }
  const exponent = Math.max(y.exponent, x.exponent - APART);
  const up = BigInt(x.exponent - exponent);
  const down = BigInt(exponent - y.exponent);
  return [
    { low: x.low << up, high: x.high << up },
    { low: y.low >> down, high: -(-y.high >> down) },
    exponent,
  ];
}

export const UNKNOWN = Interval.unknown();
export const NOUGHT = Interval.exactly(0n);
export const ONE = Interval.exactly(1n);
export const HALF = Interval.exactly(0.5);

/** A constant: a double or an integer as it is, a fraction enclosed. */
export function constant(x: number | bigint | Rational): Interval {
  return x instanceof Rational ? Interval.rational(x) : Interval.exactly(x);
}

export function clip(x: Interval, low: Interval, high: Interval): Interval {
  return x.max(low).min(high);
}

/** branches[i] where edges[i−1] < x < edges[i]; the union over all that the interval meets. */
export function piecewise(
  x: Interval,
  edges: readonly Interval[],
  branches: readonly ((x: Interval) => Interval)[],
): Interval {
  if (!x.known) return x;
  let result: Interval | undefined;
  branches.forEach((branch, index) => {
    const before = edges[index - 1];
    const after = edges[index];
    if ((before && x.below(before)) || (after && after.below(x))) return;
    const value = branch(x);
    result = result ? result.union(value) : value;
  });
  return result ?? UNKNOWN;
}
