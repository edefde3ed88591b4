/** Exact fractions, and their doubles: rounding is always in a stated direction. */

const view = new DataView(new ArrayBuffer(8));

export function bigAbs(x: bigint): bigint {
  return x < 0n ? -x : x;
}

/** The number of bits of |x|; 0 for 0. */
export function bitLength(x: bigint): number {
  if (x < 0n) x = -x;
  let bits = 0;
  let near = Number(x);
  while (near === Infinity) {
    x >>= 960n;
    bits += 960;
    near = Number(x);
  }
  if (near === 0) return bits;
  view.setFloat64(0, near);
  const exponent = (view.getUint16(0) >> 4) - 1022;
  // The conversion may round up to a power of two that x does not reach.
  return bits + (x >> BigInt(exponent - 1) === 0n ? exponent - 1 : exponent);
}

function gcd(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}

/** The greatest integer at most n/d, for d > 0. */
export function floorDiv(n: bigint, d: bigint): bigint {
  const quotient = n / d;
  return n < 0n && quotient * d !== n ? quotient - 1n : quotient;
}

/** The least integer at least n/d, for d > 0. */
export function ceilDiv(n: bigint, d: bigint): bigint {
  return -floorDiv(-n, d);
}

/** A fraction in lowest terms. */
export class Rational {
  private constructor(
    readonly n: bigint,
    readonly d: bigint,
  ) {}

  /** n/d, for d ≠ 0. */
  static of(n: bigint, d = 1n): Rational {
    if (d < 0n) [n, d] = [-n, -d];
    const common = gcd(bigAbs(n), d);
    return common === 1n ? new Rational(n, d) : new Rational(n / common, d / common);
  }

  /** A finite double, exactly. */
  static from(x: number): Rational {
    const { mantissa, exponent } = parts(x);
    return exponent >= 0
      ? new Rational(mantissa << BigInt(exponent), 1n)
      : Rational.of(mantissa, 1n << BigInt(-exponent));
  }

  add(other: Rational): Rational {
    return Rational.of(this.n * other.d + other.n * this.d, this.d * other.d);
  }
  sub(other: Rational): Rational {
    return Rational.of(this.n * other.d - other.n * this.d, this.d * other.d);
  }
  mul(other: Rational): Rational {
    return Rational.of(this.n * other.n, this.d * other.d);
  }
  div(other: Rational): Rational {
    return Rational.of(this.n * other.d, this.d * other.n);
  }
  neg(): Rational {
    return new Rational(-this.n, this.d);
  }
  inverse(): Rational {
    return Rational.of(this.d, this.n);
  }
  compare(other: Rational): number {
    const difference = this.n * other.d - other.n * this.d;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }
  min(other: Rational): Rational {
    return this.compare(other) <= 0 ? this : other;
  }
  max(other: Rational): Rational {
    return this.compare(other) >= 0 ? this : other;
  }

  /** The nearest double, halves to the even one; infinite beyond all doubles. */
  toNumber(): number {
    return nearest(this.n, this.d);
  }

  /** The least double that is not below. */
  roundUp(): number {
    const near = this.toNumber();
    if (!Number.isFinite(near) || Rational.from(near).compare(this) >= 0) return near;
    return nextUp(near);
  }

  /** The greatest double that is not above. */
  roundDown(): number {
    const near = this.toNumber();
    if (near === Infinity) return Number.MAX_VALUE;
    return Rational.from(near).compare(this) <= 0 ? near : nextDown(near);
  }
}

export const ZERO = Rational.of(0n);
export const ONE = Rational.of(1n);

/** 2^exponent. */
export function powerOfTwo(exponent: number): Rational {
  return exponent >= 0 ? Rational.of(1n << BigInt(exponent)) : Rational.of(1n, 1n << BigInt(-exponent));
}

/** mantissa and exponent of a finite double: x = mantissa · 2^exponent, exactly. */
export function parts(x: number): { mantissa: bigint; exponent: number } {
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0);
  const raw = Number((bits >> 52n) & 0x7ffn);
  const fraction = bits & 0xfffffffffffffn;
  const mantissa = raw === 0 ? fraction : fraction | 0x10000000000000n;
  return { mantissa: x < 0 ? -mantissa : mantissa, exponent: Math.max(raw, 1) - 1075 };
}

/** The e with 2^(e−1) ≤ |x| < 2^e, of a finite double that is not 0, as C's frexp has it. */
export function frexp(x: number): number {
  const { mantissa, exponent } = parts(x);
  return bitLength(mantissa) + exponent;
}

function nearest(n: bigint, d: bigint): number {
  if (n < 0n) return -nearest(-n, d);
  if (n === 0n) return 0;
  // 54 bits or more of the quotient, and whether there are more; subnormal numbers have fewer.
  let shift = 55 - (bitLength(n) - bitLength(d));
  shift = Math.min(shift, 1075);
  const scaled = shift >= 0 ? n << BigInt(shift) : n;
  const divisor = shift >= 0 ? d : d << BigInt(-shift);
  let quotient = scaled / divisor;
  const sticky = quotient * divisor !== scaled;
  const extra = Math.max(bitLength(quotient) - 53, 1075 - shift >= 1 && shift > 1074 ? shift - 1074 : 0);
  if (extra > 0) {
    const low = quotient & ((1n << BigInt(extra)) - 1n);
    const half = 1n << BigInt(extra - 1);
    quotient >>= BigInt(extra);
    if (low > half || (low === half && (sticky || (quotient & 1n) === 1n))) quotient += 1n;
  }
  return scale(Number(quotient), extra - shift);
}

/** x · 2^exponent, where that is exact. */
export function scale(x: number, exponent: number): number {
  while (exponent > 1000) {
    x *= 2 ** 1000;
    exponent -= 1000;
  }
  while (exponent < -1000) {
    x *= 2 ** -1000;
    exponent += 1000;
  }
  return x * 2 ** exponent;
}

/** The least double above a finite one. */
export function nextUp(x: number): number {
  if (x === 0) return Number.MIN_VALUE;
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0);
  view.setBigUint64(0, x > 0 ? bits + 1n : bits - 1n);
  return view.getFloat64(0);
}

/** The greatest double below a finite one. */
export function nextDown(x: number): number {
  return -nextUp(-x);
}
