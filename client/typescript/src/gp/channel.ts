/** Channels: tables of probabilities, checked in integers before anything is drawn by them. */
import { ParameterError, UnsupportedError } from "../errors.js";
import { type BitSource, LazyUniform } from "../exact/bits.js";
import { clip, constant, Interval, NOUGHT, ONE, piecewise } from "../exact/interval.js";
import { Rational } from "../exact/rational.js";
import { releaseIntegers } from "../exact/release.js";
import { exactRate, type Mechanism, type Privacy, requireComparable, requireGrid } from "./mechanism.js";
import type { Profile } from "./profile.js";
import type { Query } from "./query.js";

const BITS = 60n;
const TOTAL = 1n << BITS;
const FARTHEST = 1e90;
const MOST_SEGMENTS = 16;
const MOST_ROWS = 256;
const MOST_OUTPUTS = 256;
const MOST_BIAS = 0.1;

interface Cell {
  row: number;
  start: Rational;
  width: Rational;
  first: boolean;
  last: boolean;
}

export interface ChannelTable {
  readonly edges: readonly number[];
  readonly cells: readonly number[];
  readonly absolute: boolean;
  readonly stepExponent: number;
  readonly outputs: readonly bigint[];
  readonly counts: readonly bigint[];
}

function requireSize(name: string, size: number, most: number): void {
  if (size < 1 || size > most) throw new ParameterError(name, size, `1 to ${most}`);
}

export class Channel {
  readonly cells: Cell[] = [];
  readonly rows: bigint[][] = [];
  readonly knots: number[];

  constructor(readonly table: ChannelTable) {
    const { edges, cells, outputs, counts, stepExponent } = table;
    requireSize("number of segments", cells.length, MOST_SEGMENTS);
    const rows = cells.reduce((sum, n) => sum + n, 0) + cells.length + 1;
    requireSize("number of rows", rows, MOST_ROWS);
    requireSize("number of outputs", outputs.length, MOST_OUTPUTS);
    if (edges.length !== cells.length + 1) throw new ParameterError("edges", edges.length, `${cells.length + 1} numbers`);
    if (!edges.every((x) => Math.abs(x) <= FARTHEST) || !edges.slice(1).every((b, i) => edges[i]! < b)) {
      throw new ParameterError("edges", edges, `increasing numbers, at most ${FARTHEST}`);
    }
    if (Math.min(...cells) < 1) throw new ParameterError("counts", cells, "integers >= 1");
    if (counts.length !== rows * outputs.length) {
      throw new ParameterError("number of counts", counts.length, `${rows} times ${outputs.length}`);
    }
    if (!outputs.slice(1).every((k, i) => outputs[i]! < k)) throw new ParameterError("outputs", outputs.length, "increasing");
    for (let i = 0; i < counts.length; i += outputs.length) {
      const row = counts.slice(i, i + outputs.length);
      if (row.some((n) => n <= 0n) || row.reduce((sum, n) => sum + n, 0n) !== TOTAL) {
        throw new ParameterError(`rows[${i / outputs.length}]`, "counts", "> 0 that add up to 2^60");
      }
      this.rows.push(row);
    }
    if (stepExponent < -200 || stepExponent > 0) {
      throw new ParameterError("step_exponent", stepExponent, "an integer in [-200, 0]");
    }
    if (table.absolute && edges[0] !== 0) throw new ParameterError("edges[0]", edges[0], "0 for a channel on |s|");
    let row = 0;
    cells.forEach((count, i) => {
      const start = Rational.from(edges[i]!);
      const width = Rational.from(edges[i + 1]!).sub(start).div(Rational.of(BigInt(count)));
      for (let k = 0; k < count; k++) {
        this.cells.push({
          row: row + k,
          start: start.add(width.mul(Rational.of(BigInt(k)))),
          width,
          first: k === 0,
          last: k === count - 1,
        });
      }
      row += count + 1;
    });
    this.knots = [...this.cells.map((c) => c.start.toNumber()), edges.at(-1)!];
    if (!this.knots.slice(1).every((b, i) => b > this.knots[i]!)) {
      throw new ParameterError("counts", cells, "so few that doubles tell the cells apart");
    }
  }

  /** Refuse the table unless |∂P/∂s| ≤ rate·P everywhere, for every output. */
  requirePrivate(rate: Rational): void {
    const { edges, cells } = this.table;
    const ratios: Fraction[] = [];
    cells.forEach((count, i) => {
      const e = rate.mul(Rational.from(edges[i + 1]!).sub(Rational.from(edges[i]!))).div(Rational.of(BigInt(count)));
      const [inner, end] = links(e, count === 1);
      ratios.push(end, ...new Array<Fraction>(count - 1).fill(inner), end);
    });
    for (const c of this.cells) {
      const e = rate.mul(c.width);
      if (!keeps(c.first, c.last, fraction(e), ratios[c.row]!, ratios[c.row + 1]!)) {
        throw new UnsupportedError("the grid is too coarse for the guarantee: use more cells");
      }
    }
    ratios.forEach(({ n, d }, j) => {
      const next = this.rows[j + 1]!;
      this.rows[j]!.forEach((a, i) => {
        if (a * d > next[i]! * n || next[i]! * d > a * n) {
          throw new ParameterError(`ratio of rows ${j} and ${j + 1}`, "more", `at most ${Number(n) / Number(d)}`);
        }
      });
    });
  }
}

interface Fraction {
  n: bigint;
  d: bigint;
}

function fraction(x: Rational): Fraction {
  return { n: x.n, d: x.d };
}

/** Exact arithmetic without reduction: few operations on short numbers. */
const plus = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.d + b.n * a.d, d: a.d * b.d });
const minus = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.d - b.n * a.d, d: a.d * b.d });
const times = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.n, d: a.d * b.d });
const half = (a: Fraction): Fraction => ({ n: a.n, d: 2n * a.d });
const twice = (a: Fraction): Fraction => ({ n: 2n * a.n, d: a.d });
const ONE_WHOLE: Fraction = { n: 1n, d: 1n };

function keeps(first: boolean, last: boolean, e: Fraction, left: Fraction, right: Fraction): boolean {
  return e.n <= 2n * e.d && risesWithin(first, last, e, left, right) && risesWithin(last, first, e, right, left);
}

function risesWithin(first: boolean, last: boolean, e: Fraction, left: Fraction, right: Fraction): boolean {
  const a: Fraction = { n: left.d, d: left.n };
  const b0 = first ? a : half(plus(a, ONE_WHOLE));
  const b1 = ONE_WHOLE;
  const b2 = last ? right : half(plus(ONE_WHOLE, right));
  const k0 = minus(times(e, b0), twice(minus(b1, b0)));
  const k1 = minus(times(e, b1), minus(b2, b0));
  const k2 = minus(times(e, b2), twice(minus(b2, b1)));
  if (k0.n < 0n || k2.n < 0n) return false;
  if (k1.n >= 0n) return true;
  return minus(times(k1, k1), times(k0, k2)).n <= 0n;
}

function keepsNear(first: boolean, last: boolean, e: number, left: number, right: number): boolean {
  return e <= 2 && risesNear(first, last, e, left, right) && risesNear(last, first, e, right, left);
}

function risesNear(first: boolean, last: boolean, e: number, left: number, right: number): boolean {
  const a = 1 / left;
  const b0 = first ? a : (a + 1) / 2;
  const b2 = last ? right : (1 + right) / 2;
  const [k0, k1, k2] = [e * b0 - 2 * (1 - b0), e - (b2 - b0), e * b2 - 2 * (b2 - 1)];
  return k0 >= 0 && k2 >= 0 && (k1 >= 0 || k1 * k1 <= k0 * k2);
}

const UNIT = 1n << 40n;

/** The ratio between inner rows, then that at the ends of a segment, for e = rate times the width of a cell. */
function links(e: Rational, single: boolean): [Fraction, Fraction] {
  const exactly = fraction(e);
  const near = e.toNumber();
  const inner = largest(
    (k) => keeps(false, false, exactly, { n: k, d: UNIT }, { n: k, d: UNIT }),
    (r) => keepsNear(false, false, near, r, r),
    e.mul(Rational.of(3n)),
  );
  const innerNear = Number(inner.n) / Number(inner.d);
  const end = largest(
    (k) => keeps(true, single, exactly, { n: k, d: UNIT }, single ? { n: k, d: UNIT } : inner),
    (r) => keepsNear(true, single, near, r, single ? r : innerNear),
    e,
  );
  return [inner, end];
}

/** The largest multiple of 2^−40, from 1 up to 1 + most, for which something holds, as for all smaller ones. */
function largest(holds: (k: bigint) => boolean, holdsNear: (r: number) => boolean, most: Rational): Fraction {
  const low = UNIT;
  const top = most.add(Rational.of(1n)).mul(Rational.of(UNIT));
  const high = (top.n + top.d - 1n) / top.d;
  const near = last(low, high, (k) => holdsNear(Number(k) / Number(UNIT)));
  for (const reach of [2n, 1n << 10n, high]) {
    const a = near - reach > low ? near - reach : low;
    const b = near + reach < high ? near + reach : high;
    if (reach === high || ((a === low || holds(a)) && (b === high || !holds(b)))) {
      return { n: last(a, b, holds), d: UNIT };
    }
  }
  return { n: low, d: UNIT };
}

function last(low: bigint, high: bigint, holds: (k: bigint) => boolean): bigint {
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (holds(middle)) low = middle;
    else high = middle;
  }
  return low;
}

export function channelMechanism(query: Query, privacy: Privacy, channel: Channel, stepExponent: number): Mechanism {
  requireComparable(query, privacy);
  const { table } = channel;
  const spread = Math.max(...table.outputs.map((k) => Math.abs(Number(k)) * 2 ** table.stepExponent));
  requireGrid(stepExponent, Math.max(spread, ...query.profile.bounds.map(Math.abs)), []);
  if (stepExponent > table.stepExponent) {
    throw new ParameterError("step", 2 ** stepExponent, `at most 2^${table.stepExponent}, as the channel has`);
  }
  channel.requirePrivate(exactRate(privacy));
  if (table.absolute && !query.profile.even) throw new ParameterError("channel", "absolute", "one on s");
  const bias = biasBound(query.profile, channel);
  if (!(bias <= MOST_BIAS)) throw new ParameterError("bias of the channel", bias, `at most ${MOST_BIAS} for this query`);
  const shift = BigInt(table.stepExponent - stepExponent);
  const outputs = table.outputs.map((k) => k << shift);
  const sums = channel.rows.map((row) => {
    let sum = 0n;
    return row.slice(0, -1).map((n) => (sum += n));
  });
  const low = table.edges[0]!;
  const high = table.edges.at(-1)!;

  function onCell(cell: Cell, u: Interval, s: Interval): Interval {
    const theta = clip(s.sub(constant(cell.start)).div(constant(cell.width)), NOUGHT, ONE);
    const rest = ONE.sub(theta);
    const left = rest.square().scaled(cell.first ? 0 : -1);
    const right = theta.square().scaled(cell.last ? 0 : -1);
    const middle = ONE.sub(left).sub(right);
    const [a, b, c] = [sums[cell.row]!, sums[cell.row + 1]!, sums[cell.row + 2]!];
    const scaled = u.scaled(Number(BITS));
    const edge = (i: number): Interval =>
      left.mul(constant(a[i]!)).add(middle.mul(constant(b[i]!))).add(right.mul(constant(c[i]!)));
    // The first output whose running sum exceeds U. Every sum is looked at, whatever the value.
    let first: number | undefined;
    let final = outputs.length - 1;
    for (let i = outputs.length - 2; i >= 0; i--) {
      const at = edge(i);
      if (scaled.below(at)) final = i;
      else if (!at.below(scaled)) first = i;
    }
    if (first === undefined || first > final) first = final;
    const from = constant(outputs[first]!);
    return first === final ? from : from.union(constant(outputs[final]!));
  }

  return {
    release(x: readonly number[], source: BitSource): bigint[] {
      const uniform = new LazyUniform(source);
      const point = x.map((c) => Interval.exactly(c));
      return releaseIntegers(
        [uniform],
        ([u]) => {
          const s = query.distance(point);
          const inside = clip(table.absolute ? s.abs() : s, constant(low), constant(high));
          const edges = channel.cells.slice(1).map((cell) => constant(cell.start));
          return [piecewise(inside, edges, channel.cells.map((cell) => (at: Interval) => onCell(cell, u!, at))).scaled(stepExponent)];
        },
        stepExponent,
      );
    },
  };
}

const SAMPLES = 64;
const OUTSIDE = 1 << 14;
const WIDE = 1e3;

/** A bound on |mean − φ| over all s, to the rounding of doubles. */
function biasBound(profile: Profile, channel: Channel): number {
  const { table, knots } = channel;
  const step = 2 ** table.stepExponent;
  const means = channel.rows.map((row) => {
    const sum = row.reduce((total, n, i) => total + n * table.outputs[i]!, 0n);
    return Rational.of(sum, TOTAL).toNumber() * step;
  });
  const bend = curvatureOf(profile);
  const { plateaus, lipschitz } = profile;
  let worst = 0;
  channel.cells.forEach((cell, index) => {
    const [low, high] = [knots[index]!, knots[index + 1]!];
    const width = high - low;
    const [a, b, c] = [means[cell.row]!, means[cell.row + 1]!, means[cell.row + 2]!];
    const bernstein = [cell.first ? a : (a + b) / 2, b, cell.last ? c : (b + c) / 2] as const;
    let error = 0;
    let [start, end] = [0, 0];
    for (let i = 0; i <= SAMPLES; i++) {
      const t = i / SAMPLES;
      const value = profile.near(low + t * width);
      if (i === 0) start = value;
      if (i === SAMPLES) end = value;
      const mean = (1 - t) ** 2 * bernstein[0] + 2 * t * (1 - t) * bernstein[1] + t * t * bernstein[2];
      error = Math.max(error, Math.abs(mean - value));
    }
    const rises = Math.max(Math.abs(bernstein[1] - bernstein[0]), Math.abs(bernstein[2] - bernstein[1]));
    const slope = lipschitz + (2 * rises) / width;
    const curved = bend + (2 * Math.abs(bernstein[2] - 2 * bernstein[1] + bernstein[0])) / width ** 2;
    const apart = width / SAMPLES;
    const sampled = error + Math.min((slope * apart) / 2, (curved * apart ** 2) / 8);
    const climb = lipschitz * width - Math.abs(end - start);
    const straight =
      Math.max(...bernstein.map((m, i) => Math.abs(m - (start + (i / 2) * (end - start))))) + Math.max(climb, 0);
    let flat = Infinity;
    for (const [from, to, level] of plateaus) {
      if (low >= from && high <= to) flat = Math.max(...bernstein.map((m) => Math.abs(m - level)));
    }
    worst = Math.max(worst, Math.min(sampled, straight, flat));
  });
  const beyond = (low: number, high: number, mean: number, limit: number): number => {
    const apart = (high - low) / OUTSIDE;
    let between = Math.min((lipschitz * apart) / 2, (bend * apart ** 2) / 8);
    for (const [from, to] of plateaus) if (from <= low && high <= to) between = 0;
    let error = Math.abs(limit - mean);
    const samples = apart === 0 ? 0 : OUTSIDE;
    for (let i = 0; i <= samples; i++) error = Math.max(error, Math.abs(profile.near(low + i * apart) - mean) + between);
    return error;
  };
  const [from, to] = [knots[0]!, knots.at(-1)!];
  worst = Math.max(worst, beyond(to, Math.max(profile.breakpoints[1], to), means.at(-1)!, profile.limits[1]));
  if (!table.absolute) {
    worst = Math.max(worst, beyond(Math.min(profile.breakpoints[0], from), from, means[0]!, profile.limits[0]));
  }
  return worst;
}

function curvatureOf(profile: Profile): number {
  const b = WIDE * profile.lengthScale;
  try {
    const [low, high] = profile.debiasedRange(b);
    return (Math.max(Math.abs(low), Math.abs(high)) + Math.max(...profile.bounds.map(Math.abs))) / b ** 2;
  } catch (error) {
    if (error instanceof UnsupportedError) return Infinity;
    throw error;
  }
}

