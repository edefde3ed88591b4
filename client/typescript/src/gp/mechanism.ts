/** Mechanisms that a campaign can declare: integers on a public grid for a private point. */
import { ParameterError, UnsupportedError } from "../errors.js";
import { type BitSource, LazyUniform } from "../exact/bits.js";
import { log, sqrt, turn } from "../exact/elementary.js";
import { constant, HALF, Interval, NOUGHT, ONE, piecewise, withPrecision } from "../exact/interval.js";
import { frexp, ONE as RATIONAL_ONE, Rational, scale } from "../exact/rational.js";
import { releaseIntegers } from "../exact/release.js";
import { laplace, quantile, type Tail } from "./noise.js";
import { type PrivatePoint, privatePoint, type Query } from "./query.js";

/** The most by which two values `per` apart can be told apart. */
export interface Privacy {
  readonly epsilon: number;
  readonly per: number;
  /** By how much the probability of any event may exceed that; undefined: 0. */
  readonly delta?: number;
  /** The largest distance at which it holds, with a delta; undefined: any. */
  readonly reach?: number;
}

export function exactRate({ epsilon, per }: Privacy): Rational {
  return Rational.from(epsilon).div(Rational.from(per));
}

/** The cost of several answers together, rounded up. */
export function repeated(privacy: Privacy, times: bigint): Privacy {
  const rate = exactRate(privacy).mul(Rational.of(times));
  const together = { epsilon: rate.mul(Rational.from(privacy.per)).roundUp(), per: privacy.per };
  if (!privacy.delta) return together;
  const delta = Rational.from(privacy.delta).mul(Rational.of(times)).roundUp();
  if (delta >= 1) throw new UnsupportedError(`the deltas add up to ${delta}`);
  return { ...together, delta, ...(privacy.reach !== undefined && { reach: privacy.reach }) };
}

export interface Mechanism {
  /** The integers for one point, its first bits drawn before the point is looked at. */
  release(x: readonly number[], source: BitSource): bigint[];
}

const MOST_RATIO = 1e8;
const FINEST_BITS = 61;
const TIE = 2 ** -20;
/** A factor that lifts a double above its rounding. */
export const ABOVE = Rational.of((1n << 50n) + 1n, 1n << 50n);

/** Refuse a noise scale out of all proportion to the query's resolution. */
export function requireComparable(query: Query, { epsilon, per }: Privacy): void {
  const unit = epsilon * query.profile.lengthScale;
  if (!(unit / MOST_RATIO <= per && per <= unit * MOST_RATIO)) {
    throw new ParameterError("privacy.per", per, `a distance in [${unit / MOST_RATIO}, ${unit * MOST_RATIO}]`);
  }
}

export function exponentBelow(size: number, bits: number): number {
  return frexp(size) - 1 - bits;
}

/** Refuse a grid that is too coarse or too fine, or has a level of the query between two points. */
export function requireGrid(stepExponent: number, spread: number, levels: readonly number[]): void {
  if (stepExponent > 0) throw new ParameterError("step", 2 ** stepExponent, "at most 1");
  const finest = exponentBelow(Math.max(1, spread), FINEST_BITS);
  if (stepExponent < finest) throw new ParameterError("step", 2 ** stepExponent, `at least 2^${finest}`);
  for (const level of levels) {
    const scaled = scale(level, -stepExponent);
    const share = scaled - Math.floor(scaled);
    if (Math.abs(share - 0.5) < TIE) throw new ParameterError("step", 2 ** stepExponent, "one of which no level is an odd half");
  }
}

/** Probabilities of a report about a soft step. */
export interface OwnSide {
  readonly inside: boolean;
  readonly right: number;
  readonly plain: number;
}

/** P[Z ≤ z] of standard Laplace noise. */
export function below(z: number): number {
  return z < 0 ? Math.exp(z) / 2 : 1 - Math.exp(-z) / 2;
}

/** P[Z > u], rounded down by at most 2^-41: by bisection, because noises are given by their quantiles. */
function survival(tail: Tail, u: Interval): number {
  let [low, high] = [0, 0.5];
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (withPrecision(80, () => u.below(tail(constant(middle))))) low = middle; // never where u is not known
    else high = middle;
  }
  return low;
}

/** A mechanism with one uniform number and one ideal output. */
export class QueryMechanism implements Mechanism {
  constructor(
    readonly query: Query,
    readonly stepExponent: number,
    spread: number,
    readonly ideal: (s: Interval, u: Interval, point: PrivatePoint) => Interval,
    private readonly noise: Tail,
    /** The number of noise scales that take a report to the other side of 1/2. */
    private readonly margin: (s: Interval, point: PrivatePoint) => Interval,
    /** The scale of noise added before the query; undefined: it is added after. */
    private readonly before?: number,
  ) {
    const { profile } = query;
    const levels = [...profile.limits, ...profile.plateaus.map(([, , level]) => level)];
    requireGrid(stepExponent, Math.max(spread, ...profile.bounds.map(Math.abs)), levels);
  }

  /** The side on which a point lies, and how often a report is on that side of 1/2, and exactly 0 or 1 there. */
  ownSide(x: readonly number[]): OwnSide {
    const point = privatePoint(x, this.query.dimension);
    const s = this.query.distance(point);
    const inside = s.near >= 0;
    const away = Math.abs(s.near) - this.query.profile.breakpoints[1];
    const plain = this.before === undefined ? 0 : below(away / this.before);
    return { inside, right: 1 - survival(this.noise, this.margin(s, point)), plain };
  }

  release(x: readonly number[], source: BitSource): bigint[] {
    const uniform = new LazyUniform(source);
    const point = privatePoint(x, this.query.dimension);
    return releaseIntegers([uniform], ([u]) => [this.ideal(this.query.distance(point), u!, point)], this.stepExponent);
  }
}

export function debiasedLaplace(query: Query, privacy: Privacy, stepExponent: number): Mechanism {
  requireComparable(query, privacy);
  const b = RATIONAL_ONE.div(exactRate(privacy));
  const range = query.profile.debiasedRange(b.toNumber());
  return new QueryMechanism(
    query,
    stepExponent,
    Math.max(...range.map(Math.abs)),
    (s, u) => query.profile.debiased(s.add(constant(b).mul(quantile(laplace, u))), b),
    laplace,
    (s) => s.abs().div(constant(b)),
    b.toNumber(),
  );
}

/** The scale of noise that is the same for everybody. */
function steepest({ profile }: Query, privacy: Privacy): Rational {
  return Rational.from(profile.lipschitz).mul(ABOVE).div(exactRate(privacy));
}

/** ε of an answer between any two points, however far apart; Infinity: there is none. */
export function largestEpsilon(query: Query, privacy: Privacy, sameNoise: boolean): number {
  const { span, profile } = query;
  const { reach } = privacy;
  const within = span && (reach === undefined || span.compare(Rational.from(reach)) <= 0);
  const clipped = within ? exactRate(privacy).mul(span).roundUp() : Infinity;
  if (!sameNoise) return clipped;
  const [low, high] = profile.bounds.map((x) => Rational.from(x)) as [Rational, Rational];
  return Math.min(clipped, high.sub(low).div(steepest(query, privacy)).roundUp());
}

export function lipschitzLaplace(query: Query, privacy: Privacy, stepExponent: number): Mechanism {
  requireComparable(query, privacy);
  const size = steepest(query, privacy);
  return new QueryMechanism(
    query,
    stepExponent,
    size.toNumber() * 2 ** 13,
    (s, u) => query.profile.value(s).add(constant(size).mul(quantile(laplace, u))),
    laplace,
    (s) => query.profile.value(s).sub(HALF).abs().div(constant(size)),
  );
}

/**
 * What a debiased mechanism reports for a number perturbed at its rate, on the grid of 2^grid: it draws
 * the rounding error, uniform over a step, again.
 */
export function answerFrom(
  point: bigint,
  grid: number,
  query: Query,
  privacy: Privacy,
  stepExponent: number,
  source: BitSource,
): bigint {
  const b = RATIONAL_ONE.div(exactRate(privacy));
  const ideal = ([u]: readonly Interval[]): Interval[] => {
    const z = constant(point).add(u!).sub(HALF).scaled(grid);
    return [query.profile.debiased(query.distance([z]), b)];
  };
  return releaseIntegers([new LazyUniform(source)], ideal, stepExponent)[0]!;
}

/** Uniform numbers for a direction, by the number of coordinates. */
export const FOR_DIRECTION = [0, 1, 1, 2];

/** A uniform direction, from the uniform numbers for its dimension. */
export function direction(u: readonly Interval[], dimension: number): Interval[] {
  const [first, second] = u as [Interval, Interval];
  if (dimension === 1) return [piecewise(first, [HALF], [() => ONE.neg(), () => ONE])];
  if (dimension === 2) return turn(first);
  const ring = sqrt(first.scaled(2).mul(ONE.sub(first)));
  return [...turn(second).map((part) => ring.mul(part)), first.scaled(1).sub(ONE)];
}

/** A vector of density ∝ e^{−|v|}, from the uniform numbers for its dimension. */
function noiseVector(u: readonly Interval[], dimension: number): Interval[] {
  const radius = u.slice(0, dimension).reduce((sum, share) => sum.sub(log(share)), NOUGHT);
  return direction(u.slice(dimension), dimension).map((part) => radius.mul(part));
}

const STEP_BITS = 20;
const MOST_EXPONENT = 200;

/**
 * The mechanism that perturbs a point; by default its grid is 2^-20 of the noise scale, rounded to a
 * power of two.
 */
export class PlanarLaplace implements Mechanism {
  readonly stepExponent: number;
  readonly scale: Rational;

  constructor(
    readonly privacy: Privacy,
    readonly dimension: number,
    stepExponent?: number,
  ) {
    this.scale = RATIONAL_ONE.div(exactRate(privacy));
    // A noise that no grid resolves.
    const finest = exponentBelow(1 / (privacy.epsilon / privacy.per), STEP_BITS);
    if (!Number.isFinite(finest)) throw new ParameterError("privacy", privacy.per, "a scale of noise that doubles hold");
    this.stepExponent = stepExponent ?? finest;
    if (Math.abs(this.stepExponent) > MOST_EXPONENT) {
      throw new ParameterError("step", `2^${this.stepExponent}`, "a power of two in [2^-200, 2^200]");
    }
  }

  release(x: readonly number[], source: BitSource): bigint[] {
    const many = this.dimension + FOR_DIRECTION[this.dimension]!;
    const uniforms = Array.from({ length: many }, () => new LazyUniform(source));
    const point = privatePoint(x, this.dimension);
    return releaseIntegers(
      uniforms,
      (u) => noiseVector(u, this.dimension).map((n, i) => point[i]!.add(constant(this.scale).mul(n))),
      this.stepExponent,
    );
  }
}
