/** Profiles: functions φ of a signed distance, their slopes, smooth bounds and debiased forms. */
import { ParameterError, UnsupportedError } from "../errors.js";
import { exp, sqrt } from "../exact/elementary.js";
import { clip, constant, HALF, Interval, NOUGHT, ONE, piecewise } from "../exact/interval.js";
import { Rational } from "../exact/rational.js";
import { bellBound } from "./bell-chords.js";

export const LEAST = 1e-50;
export const MOST = 1e50;

/** The bound of the slope to which a mechanism scales its noise. */
export interface BoundKind {
  /** The length of chords up to which slopes count: 0, of the slope itself, or Infinity. */
  readonly reach: number;
  /** Whether it changes by a factor of at most 1 + βd; otherwise e^{βd}. */
  readonly linear: boolean;
}

/** Refuse a bound that has no closed form here. */
export function requireLocal(kind: BoundKind): void {
  if (kind.reach !== 0 || kind.linear) throw noSuchBound();
}

export function noSuchBound(): UnsupportedError {
  return new UnsupportedError("only steps and kernels have a closed form here, at reach 0 or infinity");
}

/** 1/g(t), t ≥ 0. */
function decay(t: Interval, linear: boolean): Interval {
  return linear ? ONE.div(ONE.add(t)) : exp(t.neg());
}

export type Level = readonly [low: number, high: number, value: number];

export interface Profile {
  /** Supremum of |φ'|, or a little above: the double that scales noise. */
  readonly lipschitz: number;
  readonly lengthScale: number;
  /** φ equals its limits, or nearly so, before the first and after the last. */
  readonly breakpoints: readonly [number, number];
  readonly limits: readonly [number, number];
  readonly bounds: readonly [number, number];
  readonly plateaus: readonly Level[];
  /** Whether φ is constant wherever its smooth bound is not: the straight ramp. */
  readonly crossed: boolean;
  /** For distances that are never negative. */
  onRay(): Profile;
  value(s: Interval): Interval;
  /** A bound of the slopes of chords that is smooth at a rate. */
  noiseBound(s: Interval, beta: Rational, kind: BoundKind): Interval;
  /** φ(v) − b²φ''(v). */
  debiased(v: Interval, b: Rational): Interval;
  debiasedRange(b: number): [number, number];
}

export function positive(name: string, value: number): number {
  if (!(value >= LEAST && value <= MOST)) {
    throw new ParameterError(name, value, `a finite number > 0, in [${LEAST}, ${MOST}]`);
  }
  return value;
}

/** Refuse ends of a range that are not finite or not in order; undefined is no end. */
export function requireEnds(name: string, { least, most }: { readonly least?: number | undefined; readonly most?: number | undefined }): void {
  const ends = [least, most].filter((x) => x !== undefined);
  if (!ends.every(Number.isFinite) || least! >= most!) throw new ParameterError(`${name}.least`, ends, "finite, and less than most");
}

/** A profile that rises from 0 to 1 over a width. */
export abstract class SoftStep implements Profile {
  readonly limits = [0, 1] as const;
  readonly crossed: boolean = false;
  abstract readonly lipschitz: number;

  constructor(readonly width: number) {
    positive("width", width);
  }
  get lengthScale(): number {
    return this.width;
  }
  get breakpoints(): [number, number] {
    return [-this.width / 2, this.width / 2];
  }
  get bounds(): readonly [number, number] {
    return [0, 1];
  }
  get plateaus(): Level[] {
    return [
      [-Infinity, -this.width / 2, 0],
      [this.width / 2, Infinity, 1],
    ];
  }
  onRay(): Profile {
    return this;
  }
  /** t = s/w + 1/2, within [0, 1]. */
  protected share(s: Interval): Interval {
    return clip(s.div(constant(this.width)).add(HALF), NOUGHT, ONE);
  }
  abstract value(s: Interval): Interval;
  abstract noiseBound(s: Interval, beta: Rational, kind: BoundKind): Interval;
  abstract debiased(v: Interval, b: Rational): Interval;
  abstract debiasedRange(b: number): [number, number];
}

export class Ramp extends SoftStep {
  override readonly crossed = true;
  get lipschitz(): number {
    return 1 / this.width;
  }
  value(s: Interval): Interval {
    return this.share(s);
  }
  noiseBound(s: Interval, beta: Rational, { reach, linear }: BoundKind): Interval {
    const z = s.abs();
    const width = constant(this.width);
    const away = z.sub(z.min(width.scaled(-1))).abs();
    const bound = ONE.div(width).mul(decay(constant(beta).mul(away), linear));
    return reach === 0 ? bound : bound.max(ONE.div(width.add(away)));
  }
  debiased(): Interval {
    throw noDebiasedForm();
  }
  debiasedRange(): [number, number] {
    throw noDebiasedForm();
  }
}

export class Smoothstep extends SoftStep {
  get lipschitz(): number {
    return 1.5 / this.width;
  }
  value(s: Interval): Interval {
    const t = this.share(s);
    return t.square().mul(constant(3n).sub(t.scaled(1)));
  }
  noiseBound(s: Interval, beta: Rational, { reach, linear }: BoundKind): Interval {
    const z = s.abs();
    const width = constant(this.width);
    const rate = constant(beta);
    const q = reach === 0 ? width.scaled(-1) : width;
    const bq2 = rate.mul(q).mul(q);
    const lead = ONE.add(rate.mul(z));
    const root = linear ? lead.square().sub(rate.mul(bq2)).max(NOUGHT) : ONE.add(rate.mul(bq2));
    const c = z.min(bq2.div(sqrt(root).add(linear ? lead : ONE)));
    const bound = this.#steepest(c, reach).mul(decay(rate.mul(z.sub(c).abs()), linear));
    return reach === 0 ? bound : bound.max(this.#steepest(z, reach));
  }
  /** The steepest chord from z ≥ 0: at infinite reach it touches the step elsewhere. */
  #steepest(z: Interval, reach: number): Interval {
    const width = constant(this.width);
    const y = z.div(width);
    const inside = y.min(HALF).square();
    if (reach === 0) return constant(6n).div(width).mul(constant(0.25).sub(inside));
    const lead = constant(5n).add(y.sub(HALF).max(NOUGHT).mul(constant(6n)));
    const v = constant(2n).div(lead.add(sqrt(lead.square().sub(constant(16n)))));
    const outside = constant(6n).mul(v).mul(ONE.sub(v)).div(width);
    return outside.add(constant(3n).div(width.scaled(1)).mul(constant(0.25).sub(inside)));
  }
  debiased(v: Interval, b: Rational): Interval {
    const width = constant(this.width);
    const lift = constant(b).div(width).square().mul(constant(6n));
    const inside = (x: Interval): Interval => {
      const t = x.div(width).add(HALF);
      return t.square().mul(constant(3n).sub(t.scaled(1))).sub(lift.mul(ONE.sub(t.scaled(1))));
    };
    const half = width.scaled(-1);
    return piecewise(v, [half.neg(), half], [() => NOUGHT, inside, () => ONE]);
  }
  debiasedRange(b: number): [number, number] {
    const lift = 6 * (b / this.width) ** 2;
    return [-lift, 1 + lift];
  }
}

export class Gaussian implements Profile {
  readonly limits = [0, 0] as const;
  readonly bounds = [0, 1] as const;
  readonly plateaus: Level[] = [];
  readonly crossed = false;
  constructor(readonly bandwidth: number) {
    positive("bandwidth", bandwidth);
  }
  get lipschitz(): number {
    return 0.6065306597126334 / this.bandwidth; // e^(−1/2), the nearest double
  }
  get lengthScale(): number {
    return this.bandwidth;
  }
  get breakpoints(): [number, number] {
    const faint = 3.7169221888498383 * this.bandwidth; // where it is 0.001
    return [-faint, faint];
  }
  onRay(): Profile {
    return this;
  }
  value(s: Interval): Interval {
    return exp(s.div(constant(this.bandwidth)).square().scaled(-1).neg());
  }
  noiseBound(s: Interval, beta: Rational, kind: BoundKind): Interval {
    if (kind.reach === Infinity) return this.#chords(s, beta, kind.linear);
    requireLocal(kind);
    const z = s.abs();
    const h = constant(this.bandwidth);
    const rate = constant(beta);
    const h2 = h.square();
    const bh2 = rate.mul(h2);
    const root = sqrt(bh2.square().add(h2.scaled(2)));
    const c = clip(z, h2.scaled(1).div(root.add(bh2)), root.add(bh2).scaled(-1));
    const u = c.div(h);
    const slope = u.mul(exp(u.square().scaled(-1).neg())).div(h);
    return slope.mul(exp(rate.mul(z.sub(c).abs()).neg()));
  }
  #bound: { readonly linear: boolean; readonly at: ReturnType<typeof bellBound> } | undefined;
  #chords(s: Interval, beta: Rational, linear: boolean): Interval {
    const rate = beta.mul(Rational.from(this.bandwidth)).roundDown();
    if (this.#bound?.linear !== linear || this.#bound.at.beta !== rate) this.#bound = { linear, at: bellBound(rate, linear) };
    const h = constant(this.bandwidth);
    return this.#bound.at.at(s.abs().div(h)).div(h);
  }
  debiased(v: Interval, b: Rational): Interval {
    const h = constant(this.bandwidth);
    const u2 = v.div(h).square();
    const c2 = constant(b).div(h).square();
    return exp(u2.scaled(-1).neg()).mul(ONE.add(c2.mul(ONE.sub(u2))));
  }
  debiasedRange(b: number): [number, number] {
    const c2 = (b / this.bandwidth) ** 2;
    return [-2 * c2 * Math.exp(-(3 + 1 / c2) / 2), 1 + c2];
  }
}

export function noDebiasedForm(): UnsupportedError {
  return new UnsupportedError("a slope that jumps has no bounded debiased form: use smoothstep");
}
