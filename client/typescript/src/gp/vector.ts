/**
 * Several queries answered together: noise scaled to one smooth bound of their joint slope.
 *
 * It is loaded for vectors only, and imports nothing, so that it is a separate file.
 */
import type { BitSource } from "../exact/bits.js";
import type { Interval } from "../exact/interval.js";
import type { Rational } from "../exact/rational.js";
import type { Smooth } from "../gen/geoveil/proto/v1/campaign_pb.js";
import type { Privacy } from "./mechanism.js";
import type { Tail } from "./noise.js";
import type { PrivatePoint, Query } from "./query.js";
import type { Scored } from "./smooth.js";
import type { SmoothVector, Tools } from "./together.js";

const CROSSED_SHARE = 0.3;
const OTHER_SHARE = 0.1;

export function smoothVector(
  tools: Tools,
  asked: readonly Query[],
  privacy: Privacy,
  declared: Smooth,
  stepExponent: number,
): SmoothVector {
  const { constant, HALF, isPaper, LazyUniform, NOUGHT, precision, privatePoint, quantile, QueryMechanism, releaseIntegers } = tools;
  for (const query of asked) tools.requireComparable(query, privacy);
  const kind = tools.boundKind(declared, privacy);
  const paper = isPaper(declared);
  const everybody = [asked.map((_, j) => j)];
  const { active, crossed } = paper ? { active: everybody, crossed: false } : together(tools, asked);
  const { beta, eta, tail } = calibrated(tools, asked.length, privacy, declared, paper, crossed);
  const sums = active.map((set) => set.reduce((sum, j) => sum + asked[j]!.profile.lipschitz, 0));
  const largest = Math.max(...sums) / eta.roundDown();
  for (const { profile } of asked) profile.noiseBound(NOUGHT, beta, kind); // public, and found before a value is looked at
  let known: { point: PrivatePoint; bits: number; size: Interval } | undefined;
  const size = (point: PrivatePoint): Interval => {
    if (known?.point !== point || known.bits !== precision()) {
      const bounds = asked.map((query) => query.profile.noiseBound(query.distance(point), beta, kind));
      const steepest = active
        .map((set) => set.reduce((sum, j) => sum.add(bounds[j]!), NOUGHT))
        .reduce((most, sum) => most.max(sum));
      known = { point, bits: precision(), size: steepest.div(constant(eta)) };
    }
    return known.size;
  };
  const answers = asked.map(
    (query) =>
      new QueryMechanism(
        query,
        stepExponent,
        largest * 2 ** 13,
        (s, u, point) => query.profile.value(s).add(size(point).mul(quantile(tail, u))),
        tail,
        (s, point) => query.profile.value(s).sub(HALF).abs().div(size(point)),
      ),
  );
  const release = (x: readonly number[], source: BitSource): bigint[] => {
    const uniforms = asked.map(() => new LazyUniform(source));
    const point = privatePoint(x, asked[0]!.dimension);
    return answers.flatMap(({ query, ideal }, j) =>
      releaseIntegers([uniforms[j]!], ([u]) => [ideal(query.distance(point), u!, point)], stepExponent),
    );
  };
  return { answers, release };
}

function calibrated(
  { chosenNoise, etaOf, exactRate, laplacePareto, Rational, shareOf, slope }: Tools,
  reports: number,
  privacy: Privacy,
  declared: Smooth,
  paper: boolean,
  crossed: boolean,
): { beta: Rational; eta: Rational; tail: Tail } {
  const { noise } = declared;
  const rate = exactRate(privacy);
  const share = shareOf(declared);
  const chosen = chosenNoise(noise);
  if (chosen) {
    const { beta, fraction } = slope(share ?? chosen.share, rate, privacy, reports);
    return { beta, eta: etaOf(chosen, crossed, Rational.from(fraction), paper, reports).mul(rate), tail: chosen.tail };
  }
  let fraction = (crossed ? CROSSED_SHARE : OTHER_SHARE) / reports;
  if (share) ({ fraction } = slope(share, rate, privacy, reports));
  const exact = Rational.from(fraction);
  const flat = crossed ? Math.min(exact.mul(Rational.of(BigInt(reports))).roundUp(), 1) : bestFlatness(reports * fraction);
  const eta = etaOf(scored(Rational.from(flat)), crossed, exact, paper, reports);
  return { beta: exact.mul(rate), eta: eta.mul(rate), tail: laplacePareto(flat) };
}

/** The φ of 0.01 to 0.49 with which e^{−|u|}, and then a power of 1 + 1/φ, has the least variance at mβ. */
function bestFlatness(spent: number): number {
  let [best, least] = [0.49, Infinity];
  for (let hundredth = 1; hundredth < 50; hundredth++) {
    const flat = hundredth / 100;
    const eta = 1 - spent / flat;
    if (eta <= 0) continue;
    const a = 1 / flat;
    const t = 1 + a;
    const decay = Math.exp(-t);
    const moment = 2 - decay * (2 + 2 * t + t * t) + (decay * t ** 3) / (a - 2);
    const variance = moment / (1 + decay / a) / eta ** 2;
    if (variance < least) [best, least] = [flat, variance];
  }
  return best;
}

/** What a calibration needs from that noise: 1/ψ is 1 up to its knee, then it rises. */
function scored(flat: Rational): Scored {
  const one = flat.div(flat);
  const cost = one.div(flat);
  return {
    name: "the best noise",
    scaleCost: cost,
    leastQuotient: (start, factor) => start.min(start.add(factor.mul(one.add(cost)))),
  };
}

/** The sets of queries whose largest sum bounds the slope, and whether f and B never change at the same place. */
function together(tools: Tools, asked: readonly Query[]): { active: number[][]; crossed: boolean } {
  const { ABOVE, Rational } = tools;
  const found = activeSets(tools, asked);
  const heaviest = found.filter((set) => !found.some((other) => other.length > set.length && within(set, other)));
  if (asked.some(({ profile }) => !profile.crossed)) return { active: heaviest, crossed: false };
  const weights = new Map<number[], Rational>();
  const weight = (set: number[]): Rational => {
    const known = weights.get(set) ?? set.reduce((sum, j) => sum.add(Rational.from(asked[j]!.profile.lipschitz)), Rational.of(0n));
    weights.set(set, known);
    return known;
  };
  const widths = (set: number[]): string =>
    set
      .map((j) => asked[j]!.profile.lengthScale)
      .sort((a, b) => a - b)
      .join();
  const lighter = (other: number[], set: number[]): boolean =>
    widths(other) === widths(set) || weight(other).mul(ABOVE).compare(weight(set)) <= 0;
  if (found.every((set) => heaviest.every((other) => within(set, other) || lighter(other, set)))) {
    return { active: heaviest, crossed: true };
  }
  const everyone = asked.map((_, j) => j);
  const most = heaviest.map(weight).reduce((a, b) => a.max(b));
  if (weight(everyone).compare(Rational.of(3n, 2n).mul(most)) <= 0) return { active: [everyone], crossed: true };
  return { active: heaviest, crossed: false };
}

function within(set: readonly number[], other: readonly number[]): boolean {
  return set.every((j) => other.includes(j));
}

/** All sets of queries that vary at the same place, almost everywhere. */
function activeSets({ Rational }: Tools, asked: readonly Query[]): number[][] {
  const places = asked.map(({ edges, profile }) => {
    const half = Rational.from(profile.lengthScale).div(Rational.of(2n));
    return edges?.map((at) => [Rational.from(at).sub(half), Rational.from(at).add(half)] as const);
  });
  const ends = places.flatMap((intervals) => intervals?.flat() ?? []).sort((a, b) => a.compare(b));
  if (!ends.length || places.includes(undefined)) return [asked.map((_, j) => j)];
  const found = new Map<string, number[]>();
  ends.slice(1).forEach((end, i) => {
    const twice = end.add(ends[i]!); // the middle between two ends
    const set: number[] = [];
    places.forEach((intervals, j) => {
      if (intervals!.some(([low, high]) => low.add(low).compare(twice) < 0 && twice.compare(high.add(high)) < 0)) set.push(j);
    });
    if (set.length) found.set(set.join(), set);
  });
  return [...found.values()];
}
