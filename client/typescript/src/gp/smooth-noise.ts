/** Noises that a smooth mechanism can have: their quantiles, and their costs for the guarantee. */
import { ParameterError, UnsupportedError } from "../errors.js";
import { atan, circleConstant, log, power, sqrt, turn } from "../exact/elementary.js";
import { constant, HALF, Interval, NOUGHT, ONE, precision, withPrecision } from "../exact/interval.js";
import { ONE as RATIONAL_ONE, powerOfTwo, Rational, ZERO } from "../exact/rational.js";
import { laplacePareto, powerLaw, type Tail } from "./noise.js";

/** What a calibration needs from a noise: exact fractions. */
export interface SmoothNoise {
  readonly name: string;
  readonly tail: Tail;
  /** sup |uψ(u) − 1|: what a change of scale costs. */
  readonly scaleCost: Rational;
  /** The default β, as a fraction of the rate. */
  readonly share: Rational;
  /** inf (constant + factor·uψ(u))/ψ(u) over u > 0, rounded down to a double. */
  leastQuotient(constant: Rational, factor: Rational): Rational;
}

const BITS = 192;
const CLEAR = RATIONAL_ONE.sub(powerOfTwo(-80));

/** The greatest double ≤ (1 − 2^−80) times a number that is computed closely. */
export function settledDown(compute: () => Interval): number {
  const [low] = withPrecision(BITS, () => compute().mul(constant(CLEAR)).ends());
  return low.roundDown();
}

/** The least double ≥ the number over (1 − 2^−80), likewise. */
export function settledUp(compute: () => Interval): number {
  const [, high] = withPrecision(BITS, () => compute().div(constant(CLEAR)).ends());
  return high.roundUp();
}

/** The best noise at β/ε: where f and B never change at the same place, and elsewhere. */
export function bestTail(crossed: boolean, fraction: number): Tail {
  return crossed ? laplacePareto(fraction) : powerLaw(fraction);
}

/** Noises with ψ = c·t^p·(1−t)^q and uψ = kt have the infimum in closed form. */
function leastQuotient(steepness: Rational, q: Rational, maxScore: () => Interval): SmoothNoise["leastQuotient"] {
  const found = new Map<string, Rational>();
  return (start, factor) => {
    const end = start.add(steepness.mul(factor));
    if (start.compare(ZERO) <= 0 || end.compare(ZERO) <= 0) return ZERO;
    const key = `${start.n}/${start.d} ${end.n}/${end.d}`;
    const known = found.get(key);
    if (known) return known;
    const least = settledDown(() => {
      const share = constant(q);
      return power(constant(start), share).mul(power(constant(end), ONE.sub(share))).div(maxScore());
    });
    const result = Rational.from(least);
    found.set(key, result);
    return result;
  };
}

const SERVED_NU = [3, 30] as const;
const SERVED_GAMMA = [4, 12] as const;

/** Student's t, ν whole: its distribution function is a finite sum. */
export function studentT(nu: number): SmoothNoise {
  if (!(nu > 2 && nu <= 100)) throw new ParameterError("nu", nu, "a number in (2, 100]");
  if (!Number.isInteger(nu) || nu > SERVED_NU[1]) {
    throw new UnsupportedError(`student-t noise has a closed form here for whole nu from ${SERVED_NU.join(" to ")}, not ${nu}`);
  }
  const exact = Rational.from(nu);
  const odd = nu % 2 === 1;
  const terms = coefficients(nu);
  const size = terms.reduce((sum, term) => sum.add(term), odd ? RATIONAL_ONE : ZERO);
  /** Of ½A(u) = P[0 < Z < u] per π or ½: sin·Σ aᵢcos²ⁱ, with θ + sin·cos·Σ for odd ν. */
  const unit = (): Interval => (odd ? ONE.div(circleConstant()) : HALF);
  const center = (u: Interval): Interval => {
    const n = constant(exact);
    const square = u.square().add(n);
    const cosine2 = n.div(square);
    const sum = terms.reduceRight((total, term) => total.mul(cosine2).add(constant(term)), NOUGHT);
    if (!odd) return HALF.mul(u.div(sqrt(square))).mul(sum);
    const root = sqrt(n);
    return unit().mul(atan(u.div(root)).add(u.mul(root).div(square).mul(sum)));
  };
  const density = (u: Interval): Interval => {
    const n = constant(exact);
    const cosine2 = n.div(n.add(u.square()));
    const whole = powered(cosine2, Math.floor((nu + 1) / 2));
    return unit().mul(constant(size)).div(sqrt(n)).mul(odd ? whole : whole.mul(sqrt(cosine2)));
  };
  return {
    name: `student-t noise with nu = ${nu}`,
    tail: inverted({
      center,
      density,
      tailFactor: () => density(NOUGHT).mul(power(constant(exact), constant(Rational.of(BigInt(nu) - 1n, 2n)))),
      order: nu,
    }),
    scaleCost: exact, // k − 1, with k = ν + 1
    share: RATIONAL_ONE.div(Rational.of(3n).mul(exact)),
    leastQuotient: leastQuotient(exact.add(RATIONAL_ONE), Rational.of(1n, 2n), () =>
      constant(exact.add(RATIONAL_ONE)).div(sqrt(constant(exact)).scaled(1)),
    ),
  };
}

function coefficients(nu: number): Rational[] {
  if (nu === 1) return [];
  const found = [RATIONAL_ONE];
  const first = nu % 2 === 1 ? 2 : 1;
  for (let j = first; j < nu - 2; j += 2) {
    found.push(found.at(-1)!.mul(Rational.of(BigInt(j), BigInt(j + 1))));
  }
  return found;
}

/** x^n, for x ≥ 0. */
function powered(x: Interval, n: number): Interval {
  let result = ONE;
  for (let i = 0; i < n; i++) result = result.mul(x);
  return result;
}

/** Density ∝ 1/(1 + |z|^γ), γ even: its distribution function is a sum of logarithms and angles. */
export function generalizedCauchy(gamma: number): SmoothNoise {
  if (!(gamma > 3 && gamma <= 101)) throw new ParameterError("gamma", gamma, "a number in (3, 101]");
  if (gamma % 2 !== 0 || gamma > SERVED_GAMMA[1]) {
    throw new UnsupportedError(
      `generalized Cauchy noise has a closed form here for even gamma from ${SERVED_GAMMA.join(" to ")}, not ${gamma}`,
    );
  }
  const exact = Rational.from(gamma);
  const n = BigInt(gamma);
  /** Cosine and sine of (2k − 1)π/γ up to a right angle; those beyond it are their mirror images. */
  const angles = remembered(() =>
    Array.from({ length: Math.ceil(gamma / 4) }, (_, k) => turn(constant(Rational.of(BigInt(2 * k + 1), 2n * n)))),
  );
  const mass = remembered(() => {
    const [, sine] = turn(constant(Rational.of(1n, 2n * n)));
    return circleConstant().scaled(1).div(constant(n).mul(sine));
  });
  const center = (u: Interval): Interval => {
    let sum = NOUGHT;
    angles().forEach(([cosine, sine], k) => {
      if (4 * k + 2 === gamma) {
        sum = sum.add(atan(u)); // the right angle itself
        return;
      }
      const around = u.square().add(ONE);
      const cross = u.mul(cosine).scaled(1);
      const far = log(around.add(cross)).sub(log(around.sub(cross)));
      const turned = atan(u.add(cosine).div(sine)).add(atan(u.sub(cosine).div(sine)));
      sum = sum.add(cosine.mul(far).scaled(-1)).add(sine.mul(turned));
    });
    return sum.scaled(1).div(constant(n)).div(mass());
  };
  const density = (u: Interval): Interval => ONE.div(mass().mul(ONE.add(powered(u, gamma))));
  const rest = exact.sub(RATIONAL_ONE);
  return {
    name: `generalized Cauchy noise with gamma = ${gamma}`,
    tail: inverted({ center, density, tailFactor: () => ONE.div(constant(rest).mul(mass())), order: gamma - 1 }),
    scaleCost: rest,
    share: RATIONAL_ONE.div(Rational.of(5n).mul(rest)),
    leastQuotient: leastQuotient(exact, RATIONAL_ONE.div(exact), () => {
      const least = constant(rest);
      return power(least, constant(rest.div(exact)));
    }),
  };
}

function remembered<T>(make: () => T): () => T {
  let [bits, value] = [0, undefined as T | undefined];
  return () => {
    if (value === undefined || bits !== precision()) [bits, value] = [precision(), make()];
    return value;
  };
}

const MOST_STEPS = 200;
const SPARE = 24;
const MOST_RADII = 8;

/** A distribution whose density falls on either side of 0. */
interface Distribution {
  /** P[0 < Z < u]. */
  readonly center: (u: Interval) => Interval;
  readonly density: (u: Interval) => Interval;
  /** P[Z > u] is below this times u^−order, and tends to it. */
  readonly tailFactor: () => Interval;
  readonly order: number;
}

/**
 * The u > 0 with P[Z > u] = p: Newton's method approximates it, and its interval form encloses it.
 * If u₀ + (½ − p − center(u₀))/h(U) lies in U, the root is there.
 */
function inverted(of: Distribution): Tail {
  const { center, density } = of;
  return (p) => {
    if (!p.known || p.low <= 0n) return Interval.unknown();
    const target = HALF.sub(p);
    if (target.low <= 0n) return besideMedian(target, density);
    let u = start(p, target, of);
    const enough = 2 ** (-precision() / 2);
    for (let i = 0; i < MOST_STEPS; i++) {
      const step = target.middle.sub(center(u)).div(density(u)).middle;
      u = u.add(step).middle;
      if (!u.known || u.low <= 0n) return besideMedian(target, density);
      if (Math.abs(step.near) <= u.near * enough) break;
    }
    const left = target.sub(center(u));
    let radius = outer(left.div(density(u))).scaled(1).add(u.scaled(SPARE - precision()));
    for (let i = 0; i < MOST_RADII && radius.known; i++) {
      const around = u.sub(radius).union(u.add(radius));
      if (around.low <= 0n) break;
      const found = u.add(left.div(density(around)));
      if (found.within(around)) return found;
      radius = radius.scaled(2);
    }
    return besideMedian(target, density);
  };
}

/** The end of an interval that is farther from 0. */
function outer(x: Interval): Interval {
  return x.known ? constant(x.abs().ends()[1].roundUp()) : x;
}

/** From 0 to beyond the root, if it is too close to the median to be distinguished from it. */
function besideMedian(target: Interval, density: (u: Interval) => Interval): Interval {
  const far = outer(target).div(density(ONE));
  return far.below(ONE) ? NOUGHT.union(far) : Interval.unknown();
}

const CLOSE = 1e-9;
const START_BITS = 96;

/** A number close to the root, by Newton's method from the side on which it does not overshoot. */
function start(p: Interval, target: Interval, { center, density, tailFactor, order }: Distribution): Interval {
  const falls = p.near < 0.25;
  const logarithm = falls ? Math.log(p.near) : 0;
  const bits = START_BITS + Math.ceil(-logarithm / Math.LN2);
  return withPrecision(bits, () => {
    let x = falls ? (Math.log(tailFactor().near) - logarithm) / order : 0;
    let u = falls ? constant(Math.exp(x)) : target.middle.div(density(NOUGHT)).middle;
    for (let i = 0; i < MOST_STEPS; i++) {
      if (falls) {
        const tail = HALF.sub(center(u)).near;
        const step = ((Math.log(tail) - logarithm) * tail) / (density(u).near * u.near);
        x += step;
        u = constant(Math.exp(x));
        if (!(Math.abs(step) > CLOSE)) break;
      } else {
        const step = target.middle.sub(center(u)).div(density(u)).middle;
        u = u.add(step).middle;
        if (Math.abs(step.near) <= u.near * CLOSE) break;
      }
    }
    return u;
  });
}
