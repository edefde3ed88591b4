/** Queries: profiles of a signed distance. */
import { ParameterError, PrivateValueError } from "../errors.js";
import { norm, sqrt } from "../exact/elementary.js";
import { clip, constant, HALF, Interval, NOUGHT, ONE } from "../exact/interval.js";
import { Rational, ZERO } from "../exact/rational.js";
import { ExactPolygon, readRegion } from "./polygon.js";
import { Gaussian, LEAST, MOST, positive, type Profile, Ramp, Smoothstep } from "./profile.js";
import type { Table } from "./table.js";

/** Coordinates, each a double exactly. */
export type PrivatePoint = readonly Interval[];

/** Largest coordinate of a point. Squares of quotients of such numbers are still numbers. */
export const FARTHEST = 1e90;

/** Whether these are the coordinates of a point that mechanisms accept. */
export function isPoint(x: readonly unknown[], dimension: number): boolean {
  return x.length === dimension && [...x].every((c) => typeof c === "number" && Math.abs(c) <= FARTHEST);
}

/** A point, held exactly. */
export function privatePoint(x: readonly number[], dimension: number): PrivatePoint {
  if (!isPoint(x, dimension)) throw new PrivateValueError(`${dimension} number(s) from -${FARTHEST} to ${FARTHEST}`);
  return x.map((c) => Interval.exactly(c));
}

export interface Query {
  readonly dimension: number;
  readonly profile: Profile;
  distance(x: PrivatePoint): Interval;
  /** The values around which its bands lie, outside which it is constant; undefined: unknown. */
  readonly edges?: readonly number[];
  /** Whether no distance is below 0. */
  readonly ray?: boolean;
  /** An upper bound on distances; undefined: there is none. */
  readonly most?: Rational;
  /** The length of the range of distances; undefined: unbounded. */
  readonly span?: Rational;
}

/** The distances at which a cap clips, outside and inside, in noise scales. */
export interface Cap {
  readonly below: number;
  readonly above: number;
}

/** The query of clipped distances, answered at a rate. */
export function capped(query: Query, { below, above }: Cap, rate: Rational): Query {
  const { profile, ray, most } = query;
  const end = (side: string, scales: number, varies: number): Rational => {
    const found = Rational.from(positive(side, scales)).div(rate);
    if (found.compare(Rational.from(varies)) < 0) throw new ParameterError(side, scales, "up to where the query varies, or more");
    return found;
  };
  const low = end("cap.below", below, ray ? 0 : -profile.breakpoints[0]).neg();
  const high = end("cap.above", above, profile.breakpoints[1]);
  return {
    ...query,
    distance: (x) => clip(query.distance(x), constant(low), constant(high)),
    span: (most ? high.min(most) : high).sub(ray ? ZERO : low),
  };
}

export type ProfileName = "linear" | "smoothstep";

const STEPS: Record<ProfileName, (width: number) => Profile> = {
  linear: (w) => new Ramp(w),
  smoothstep: (w) => new Smoothstep(w),
};

function real(name: string, x: number): number {
  if (!Number.isFinite(x)) throw new ParameterError(name, x, "a finite number");
  return x;
}

function reals(name: string, numbers: readonly number[]): readonly number[] {
  numbers.forEach((x, i) => real(`${name}[${i}]`, x));
  return numbers;
}

export function threshold(at: number, width: number, profile: ProfileName): Query {
  real("at", at);
  return { dimension: 1, profile: STEPS[profile](width), distance: (x) => x[0]!.sub(constant(at)), edges: [at] };
}

export function range(low: number, high: number, width: number, profile: ProfileName): Query {
  real("low", low);
  real("high", high);
  if (!(high > low)) throw new ParameterError("high", high, `greater than low=${low}`);
  const step = STEPS[profile](width);
  if (width > high - low) throw new ParameterError("width", width, `at most ${high - low}`);
  return {
    dimension: 1,
    profile: step,
    distance: (x) => x[0]!.sub(constant(low)).min(constant(high).sub(x[0]!)),
    edges: [low, high],
    most: Rational.from(high).sub(Rational.from(low)).div(Rational.of(2n)),
  };
}

export function twoWayThreshold(first: number, second: number, width: number, profile: ProfileName): Query {
  reals("at", [first, second]);
  return {
    dimension: 2,
    profile: STEPS[profile](width),
    distance: (x) => {
      const radius = constant(width).mul(ONE.div(sqrt(constant(2n))).add(HALF));
      const u = x[0]!.sub(constant(first));
      const v = x[1]!.sub(constant(second));
      const corner = norm([radius.sub(u).max(NOUGHT), radius.sub(v).max(NOUGHT)]);
      return radius.sub(corner).add(u.min(v).sub(radius).max(NOUGHT));
    },
  };
}

function toCentre(x: PrivatePoint, centre: readonly number[]): Interval {
  const apart = centre.map((c, i) => x[i]!.sub(constant(c)));
  return apart.length === 1 ? apart[0]!.abs() : norm(apart);
}

export function disc(centre: readonly number[], radius: number, width: number, profile: ProfileName): Query {
  reals("center", centre);
  if (centre.length < 2) throw new ParameterError("center", centre, "at least two coordinates");
  positive("radius", radius);
  const step = STEPS[profile](width);
  if (width > 2 * radius) throw new ParameterError("width", width, `at most the diameter ${2 * radius}`);
  return {
    dimension: centre.length,
    profile: step,
    distance: (x) => constant(radius).sub(toCentre(x, centre)),
    most: Rational.from(radius),
  };
}

export function polygon(
  rings: readonly (readonly (readonly number[])[])[],
  width: number,
  profile: ProfileName,
): Query {
  const region = readRegion(rings);
  const step = STEPS[profile](width);
  const exact = new ExactPolygon(region);
  // A circle within a part fits into its bounding box.
  const length = (coordinates: number[]): Rational =>
    Rational.from(Math.max(...coordinates)).sub(Rational.from(Math.min(...coordinates)));
  const sides = region.map(([ring]) => length(ring!.map(([x]) => x)).min(length(ring!.map(([, y]) => y))));
  const most = sides.reduce((a, b) => a.max(b)).div(Rational.of(2n));
  return { dimension: 2, profile: step, distance: (x) => exact.distance(x[0]!, x[1]!), most };
}

export function gaussianKernel(centre: readonly number[], bandwidth: number): Query {
  const profile = new Gaussian(bandwidth);
  return { ...projected("center", centre, profile, (x) => toCentre(x, centre)), ray: true };
}

export function radial(centre: readonly number[], table: Table): Query {
  return { ...projected("center", centre, table.onRay(), (x) => toCentre(x, centre)), ray: true };
}

export function linear(direction: readonly number[], offset: number, table: Table): Query {
  const query = projected("direction", direction, table, (x) => {
    if (direction.length === 1) {
      const along = direction[0]! > 0 ? x[0]! : x[0]!.neg();
      return along.sub(constant(offset));
    }
    const weights = direction.map(constant);
    const sum = weights.reduce((total, w, i) => total.add(x[i]!.mul(w)), NOUGHT);
    return sum.div(norm(weights)).sub(constant(offset));
  });
  const longest = Math.max(...direction.map(Math.abs));
  if (!(longest >= LEAST && longest <= MOST)) {
    throw new ParameterError("direction", direction, "a vector that is not 0, below 1e+50");
  }
  real("offset", offset);
  return query;
}

function projected(
  name: string,
  numbers: readonly number[],
  profile: Profile,
  distance: (x: PrivatePoint) => Interval,
): Query {
  reals(name, numbers);
  if (!numbers.length) throw new ParameterError(name, numbers, "at least one number");
  return { dimension: numbers.length, profile, distance };
}
