/** Nested noise: the point of a coarser guarantee, made from the point of a finer one. */
import { type BitSource, LazyUniform } from "../exact/bits.js";
import { log, sqrt, turn } from "../exact/elementary.js";
import { constant, HALF, type Interval, NOUGHT, ONE, piecewise } from "../exact/interval.js";
import { Rational } from "../exact/rational.js";
import { releaseIntegers, saturated } from "../exact/release.js";
import { direction, exactRate, type PlanarLaplace } from "./mechanism.js";

/** Uniform numbers for the added noise, by the number of coordinates. */
const FOR_REST = [0, 2, 5, 5];

/** 0 with probability `atom`, else an exponential number: both from one U. */
function beyond(u: Interval, atom: Interval): Interval {
  const share = ONE.sub(atom).div(ONE.sub(u)); // below 1, it may reach below 0: no logarithm of that
  return piecewise(share, [ONE], [() => NOUGHT, (x) => log(x).max(NOUGHT)]);
}

/** The added noise, in units of the coarser scale, for a ratio ρ = (finer scale/coarser scale)² below 1. */
function rest(u: readonly Interval[], share: Interval, dimension: number): Interval[] {
  const [first, second, third, fourth] = u as [Interval, Interval, Interval, Interval];
  if (dimension === 1) return direction([second], 1).map((sign) => beyond(first, share).mul(sign));
  let length: Interval;
  if (dimension === 2) {
    const [cosine] = turn(second.mul(HALF));
    const level = ONE.add(share).add(ONE.sub(share).mul(cosine!)).mul(HALF);
    const mixed = beyond(first, share).add(level.mul(beyond(third, share.div(level))));
    length = sqrt(mixed.mul(log(fourth)).neg()).scaled(1);
  } else {
    const moved = piecewise(first.max(second), [share], [() => NOUGHT, () => log(third).neg()]);
    length = beyond(first, share).add(beyond(second, share)).add(moved);
  }
  return direction(u.slice(dimension === 2 ? 4 : 3), dimension).map((part) => length.mul(part));
}

/** A point that the finer mechanism released, with the noise of the coarser one, whose rate is no larger. */
export function coarsen(point: readonly bigint[], finer: PlanarLaplace, coarser: PlanarLaplace, source: BitSource): bigint[] {
  const { dimension } = finer;
  const ratio = exactRate(coarser.privacy).div(exactRate(finer.privacy));
  const share = ratio.mul(ratio);
  const equal = share.compare(Rational.of(1n)) === 0;
  const uniforms = Array.from({ length: FOR_REST[dimension]! }, () => new LazyUniform(source));
  const moved = (u: readonly Interval[]): Interval[] => {
    const added = equal ? point.map(() => NOUGHT) : rest(u, constant(share), dimension);
    return added.map((e, i) => constant(point[i]!).scaled(finer.stepExponent).add(constant(coarser.scale).mul(e)));
  };
  // A finer grid than the point's would show where the noise is 0, and so the point itself.
  const exponent = Math.max(finer.stepExponent, coarser.stepExponent);
  const shift = BigInt(exponent - coarser.stepExponent);
  return releaseIntegers(uniforms, moved, exponent).map((k) => saturated(k << shift));
}
