/** Exponential, logarithm, roots, sine and cosine of intervals, in fixed-point integers. */
import { bigAbs, bitLength, floorDiv } from "./rational.js";
import { HALF, Interval, NOUGHT, ONE, precision, UNKNOWN } from "./interval.js";

const GUARD = 24;
/** Bound on the error of the functions below, in units of the last place. */
const DOUBT = 1n << 12n;

function cached<T>(make: (bits: number) => T): (bits: number) => T {
  const found = new Map<number, T>();
  return (bits) => {
    let value = found.get(bits);
    if (value === undefined) {
      value = make(bits);
      if (found.size > 64) found.clear();
      found.set(bits, value);
    }
    return value;
  };
}

/** atanh(1/n) · 2^bits, to a few units for each term. */
function inverseAtanh(n: bigint, bits: number): bigint {
  let power = (1n << BigInt(bits)) / n;
  const square = n * n;
  let sum = power;
  for (let k = 3n; power !== 0n; k += 2n) {
    power /= square;
    sum += power / k;
  }
  return sum;
}

const ln2 = cached((bits) => {
  // 18 atanh(1/26) − 2 atanh(1/4801) + 8 atanh(1/8749)
  const more = bits + 16;
  const sum = 18n * inverseAtanh(26n, more) - 2n * inverseAtanh(4801n, more) + 8n * inverseAtanh(8749n, more);
  return sum >> 16n;
});

const pi = cached((bits) => {
  const more = bits + 16;
  const arctan = (n: bigint): bigint => {
    let power = (1n << BigInt(more)) / n;
    let sum = power;
    let positive = false;
    for (let k = 3n; power !== 0n; k += 2n) {
      power /= n * n;
      sum += positive ? power / k : -(power / k);
      positive = !positive;
    }
    return sum;
  };
  return (16n * arctan(5n) - 4n * arctan(239n)) >> 16n;
});

/** log((2j + 1)/128) · 2^bits for j from 32 to 63. */
const logarithms = cached((bits) => {
  const more = bits + 16;
  const seven = 7n * ln2(more);
  const table: bigint[] = [];
  let sum = 0n; // of log(2j + 1)
  for (let j = 1n; j < 64n; j++) {
    sum += 2n * inverseAtanh(2n * j, more);
    if (j >= 32n) table.push((sum - seven) >> 16n);
  }
  return table;
});

/** log(mantissa · 2^exponent) · 2^bits, for mantissa > 0. */
function logFixed(mantissa: bigint, exponent: number, bits: number): bigint {
  const size = bitLength(mantissa);
  const shift = bits - size;
  const y = shift >= 0 ? mantissa << BigInt(shift) : mantissa >> BigInt(-shift); // in [1/2, 1)
  const j = Number(y >> BigInt(bits - 6)) - 32;
  const centre = (BigInt(2 * (j + 32) + 1) << BigInt(bits)) >> 7n;
  const width = BigInt(bits);
  const z = ((y - centre) << width) / (y + centre);
  const square = (z * z) >> width;
  let power = z;
  let sum = z;
  for (let k = 3n; power !== 0n && power !== -1n; k += 2n) {
    power = (power * square) >> width;
    sum += power / k;
  }
  return 2n * sum + logarithms(bits)[j]! + BigInt(size + exponent) * ln2(bits);
}

/** e^(x/2^bits) · 2^bits, for |x/2^bits| ≤ 1. */
function expFixed(x: bigint, bits: number): bigint {
  const halvings = 8;
  const more = bits + 2 * halvings;
  const r = x << BigInt(more - bits - halvings);
  const width = BigInt(more);
  let term = 1n << width;
  let sum = term;
  for (let k = 1n; term !== 0n && term !== -1n; k++) {
    term = ((term * r) >> width) / k;
    sum += term;
  }
  for (let i = 0; i < halvings; i++) sum = (sum * sum) >> width;
  return sum >> BigInt(more - bits);
}

function fixed(value: bigint, exponent: number, bits: number): bigint {
  const shift = exponent + bits;
  return shift >= 0 ? value << BigInt(shift) : value >> BigInt(-shift);
}

export function log(x: Interval): Interval {
  if (!x.known || x.low <= 0n) return UNKNOWN;
  const bits = precision() + GUARD;
  const low = logFixed(x.low, x.exponent, bits);
  const high = x.low === x.high ? low : logFixed(x.high, x.exponent, bits);
  // The logarithm of 2 is right to one unit, and is multiplied.
  const doubt = DOUBT + 2n * BigInt(Math.abs(bitLength(x.low) + x.exponent) + bitLength(x.high));
  return Interval.of(low - doubt, high + doubt, -bits);
}

const FARTHEST = 40;

/** One end of e^x: a number within a relative 2^(−bits + 12) of it, as (mantissa, exponent). */
function expEnd(value: bigint, exponent: number, bits: number): { mantissa: bigint; exponent: number } {
  const size = Math.max(bitLength(value) + exponent, 0);
  const more = bits + size + 2;
  const x = fixed(value, exponent, more);
  const unit = ln2(more);
  const times = floorDiv(x, unit);
  return { mantissa: expFixed((x - times * unit) >> BigInt(more - bits), bits), exponent: Number(times) - bits };
}

export function exp(x: Interval): Interval {
  if (!x.known) return x;
  const bits = precision() + GUARD;
  if (x.high > 0n && bitLength(x.high) + x.exponent > FARTHEST) return UNKNOWN;
  if (bitLength(x.low) + x.exponent > FARTHEST) {
    // So far below 0 that only the upper end is computed.
    if (bitLength(x.high) + x.exponent > FARTHEST) return Interval.of(0n, 1n, -(2 ** 20));
    const above = expEnd(x.high, x.exponent, bits);
    return Interval.of(0n, above.mantissa + DOUBT, above.exponent);
  }
  const low = expEnd(x.low, x.exponent, bits);
  const high = x.low === x.high ? low : expEnd(x.high, x.exponent, bits);
  const from = Interval.of(low.mantissa - DOUBT, low.mantissa + DOUBT, low.exponent);
  return low === high ? from : from.union(Interval.of(high.mantissa, high.mantissa + DOUBT, high.exponent));
}

/** The least e such that every number of x is below 2^e. */
function magnitude(x: Interval): number {
  return bitLength(bigAbs(x.low) > bigAbs(x.high) ? x.low : x.high) + x.exponent;
}

/** e^x − 1, with full relative precision for small x. */
export function expm1(x: Interval): Interval {
  if (!x.known || magnitude(x) > -8) return exp(x).sub(ONE);
  const extra = Math.min(-magnitude(x), 4096);
  const bits = precision() + GUARD + extra;
  const one = 1n << BigInt(bits);
  const low = expFixed(fixed(x.low, x.exponent, bits), bits) - one - DOUBT;
  const high = expFixed(fixed(x.high, x.exponent, bits), bits) - one + DOUBT;
  return Interval.of(low, high, -bits);
}

/** log(1 + x), with full relative precision for small x. */
export function log1p(x: Interval): Interval {
  if (!x.known || magnitude(x) > -8) return log(x.add(ONE));
  const extra = Math.min(-magnitude(x), 4096);
  const bits = precision() + GUARD + extra;
  const one = 1n << BigInt(bits);
  const low = logFixed(one + fixed(x.low, x.exponent, bits), -bits, bits) - DOUBT;
  const high = logFixed(one + fixed(x.high, x.exponent, bits), -bits, bits) + DOUBT;
  return Interval.of(low, high, -bits);
}

/** The greatest integer whose square is at most n. */
export function integerRoot(n: bigint): bigint {
  if (n < 2n) return n;
  let x = 1n << BigInt((bitLength(n) + 1) >> 1);
  for (;;) {
    const y = (x + n / x) >> 1n;
    if (y >= x) return x;
    x = y;
  }
}

/** The square root of the part that is not negative. */
export function sqrt(x: Interval): Interval {
  const part = x.nonNegative();
  if (!part.known) return part;
  const size = bitLength(part.high);
  let shift = Math.max(2 * precision() + 2 - size, 0);
  if ((part.exponent - shift) % 2 !== 0) shift += 1;
  const root = (n: bigint): bigint => integerRoot(n << BigInt(shift));
  const high = root(part.high);
  const up = high * high === part.high << BigInt(shift) ? high : high + 1n;
  return Interval.of(root(part.low), up, (part.exponent - shift) / 2);
}

/** base^exponent for a base > 0. */
export function power(base: Interval, exponent: Interval): Interval {
  return exp(exponent.mul(log(base)));
}

/** Cosine and sine of u full turns. */
export function turn(u: Interval): [Interval, Interval] {
  if (!u.known) return [u, u];
  const bits = precision() + GUARD;
  const width = BigInt(bits);
  const low = fixed(u.low, u.exponent, bits + 1);
  const high = -fixed(-u.high, u.exponent, bits + 1);
  const middle = (low + high) >> 2n; // of u, with `bits` bits
  const spread = ((high - low) >> 2n) + 2n;
  const eighths = Number(((middle << 3n) + (1n << (width - 1n))) >> width);
  const rest = middle - ((BigInt(eighths) << width) >> 3n); // within 1/16 of a turn
  const angle = (rest * pi(bits)) >> (width - 1n);
  const square = (angle * angle) >> width;
  let term = 1n << width;
  let cosine = term;
  let odd = angle;
  let sine = odd;
  for (let k = 1n; term !== 0n || (odd !== 0n && odd !== -1n); k++) {
    term = -(((term * square) >> width) / ((2n * k - 1n) * (2n * k)));
    odd = -(((odd * square) >> width) / (2n * k * (2n * k + 1n)));
    cosine += term;
    sine += odd;
    if (bigAbs(term) <= 1n && bigAbs(odd) <= 1n) break;
  }
  const doubt = 7n * spread + DOUBT;
  let [c, s] = [enclosed(cosine, doubt, bits), enclosed(sine, doubt, bits)];
  const step = ((eighths % 8) + 8) % 8;
  if (step % 2 === 1) {
    const root = sqrt(HALF);
    [c, s] = [c.sub(s).mul(root), c.add(s).mul(root)];
  }
  for (let i = 0; i < step >> 1; i++) [c, s] = [s.neg(), c];
  return [c, s];
}

const HALVINGS = 3;

/** atan(x/2^bits) · 2^bits, for 0 ≤ x/2^bits ≤ 1. */
function atanFixed(x: bigint, bits: number): bigint {
  const width = BigInt(bits);
  const one = 1n << width;
  // tan(a/2) = t/(1 + √(1 + t²))
  for (let i = 0; i < HALVINGS; i++) x = (x << width) / (one + integerRoot((one << width) + x * x));
  const square = (x * x) >> width;
  let power = x;
  let sum = x;
  for (let k = 3n; power !== 0n && power !== -1n; k += 2n) {
    power = -((power * square) >> width);
    sum += power / k;
  }
  return sum << BigInt(HALVINGS);
}

function atanEnd(value: bigint, exponent: number, bits: number): bigint {
  if (value < 0n) return -atanEnd(-value, exponent, bits);
  const quarter = pi(bits) >> 1n;
  if (bitLength(value) + exponent > bits + 2) return quarter; // the rest is below a unit
  const x = fixed(value, exponent, bits);
  const width = BigInt(bits);
  return x >> width === 0n ? atanFixed(x, bits) : quarter - atanFixed((1n << (2n * width)) / x, bits);
}

/** The angle in (−π/2, π/2) with a tangent. */
export function atan(x: Interval): Interval {
  if (!x.known) return x;
  const bits = precision() + GUARD;
  const low = atanEnd(x.low, x.exponent, bits);
  const high = x.low === x.high ? low : atanEnd(x.high, x.exponent, bits);
  return Interval.of(low - DOUBT, high + DOUBT, -bits);
}

/** π, enclosed. */
export function circleConstant(): Interval {
  const bits = precision() + GUARD;
  return enclosed(pi(bits), DOUBT, bits);
}

function enclosed(value: bigint, doubt: bigint, bits: number): Interval {
  return Interval.of(value - doubt, value + doubt, -bits);
}

/** The Euclidean length of a vector. */
export function norm(components: readonly Interval[]): Interval {
  return sqrt(components.reduce((sum, c) => sum.add(c.square()), NOUGHT));
}

