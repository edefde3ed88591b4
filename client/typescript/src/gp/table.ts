/** Profiles given as tables of values and slopes: piecewise cubics. */
import { ParameterError } from "../errors.js";
import { clip, constant, Interval, NOUGHT, ONE, piecewise } from "../exact/interval.js";
import { frexp, Rational } from "../exact/rational.js";
import { type Cells, ExponentialBound, largest, least, meeting, settled } from "./cells.js";
import { type BoundKind, type Level, MOST, noDebiasedForm, positive, type Profile, requireLocal } from "./profile.js";

const MOST_PIECES = 256;
const CLOSEST = 2 ** -30;
const FARTHEST = 1024;
const ROUNDING = 1e-14;
const TIGHT = 0.005;
const CELLS = 1024;
const FEW = 4;
const CORNER = 1e-6;

interface Piece {
  a: number;
  b: number;
  ya: number;
  yb: number;
  ma: number;
  mb: number;
}

interface Jet {
  value: number;
  slope: number;
  curvature: number;
}

function jet(u: number, { a, b, ya, yb, ma, mb }: Piece): Jet {
  const h = b - a;
  const t = (u - a) / h;
  const d = (yb - ya) / h;
  const start = ma - d;
  const end = mb - d;
  const bend = start + end;
  return {
    value: (1 - t) * ya + t * yb + h * t * (1 - t) * ((1 - t) * start - t * end),
    slope: d + start - t * (2 * (bend + start) - 3 * t * bend),
    curvature: (6 * t * bend - 2 * (bend + start)) / h,
  };
}

/** Value and curvature on a piece, enclosed. */
function enclosed(u: Interval, piece: Piece): { value: Interval; curvature: Interval } {
  const [a, b, ya, yb, ma, mb] = [piece.a, piece.b, piece.ya, piece.yb, piece.ma, piece.mb].map(constant) as [
    Interval,
    Interval,
    Interval,
    Interval,
    Interval,
    Interval,
  ];
  const h = b.sub(a);
  const t = u.sub(a).div(h);
  const rest = ONE.sub(t);
  const d = yb.sub(ya).div(h);
  const start = ma.sub(d);
  const end = mb.sub(d);
  const bend = start.add(end);
  const bow = h.mul(t).mul(rest).mul(rest.mul(start).sub(t.mul(end)));
  return {
    value: rest.mul(ya).add(t.mul(yb)).add(bow),
    curvature: constant(6n).mul(t).mul(bend).sub(bend.add(start).scaled(1)).div(h),
  };
}

function controls({ a, b, ya, yb, ma, mb }: Piece): [number, number, number] {
  return [ma, (3 * (yb - ya)) / (b - a) - ma - mb, mb];
}

function piecesOf(at: readonly number[], values: readonly number[], slopes: readonly number[]): Piece[] {
  return at.slice(1).map((b, i) => ({
    a: at[i]!,
    b,
    ya: values[i]!,
    yb: values[i + 1]!,
    ma: slopes[2 * i]!,
    mb: slopes[2 * i + 1]!,
  }));
}

function steepestOf(pieces: readonly Piece[]): number {
  return largest(pieces.flatMap((p) => controls(p).map(Math.abs)));
}

function hull(numbers: number[], margin: number): [number, number] {
  return [Math.min(...numbers) - margin, Math.max(...numbers) + margin];
}

function cellsOf(pieces: readonly Piece[], ray: boolean): Cells {
  const steepest = steepestOf(pieces);
  const edges: number[] = [];
  const owner: number[] = [];
  const most = Math.max(FEW, Math.floor(CELLS / pieces.length));
  pieces.forEach((piece, index) => {
    const found = controls(piece);
    const spread = Math.max(...found) - Math.min(...found);
    const parts = Math.min(Math.max(Math.ceil(spread / (TIGHT * steepest)), 1), most);
    const h = piece.b - piece.a;
    for (let step = 0; step < parts; step++) {
      edges.push(piece.a + h * (step / parts));
      owner.push(index);
    }
  });
  edges.push(pieces.at(-1)!.b);
  const value: [number[], number[]] = [[], []];
  const curvature: [number[], number[]] = [[], []];
  const slopes: number[] = [];
  owner.forEach((index, i) => {
    const piece = pieces[index]!;
    const { a, b, ya, yb, ma, mb } = piece;
    const h = b - a;
    const [first, middle, last] = controls(piece);
    const still = first === 0 && middle === 0 && last === 0;
    const size = Math.abs(yb - ya) / h + Math.abs(ma) + Math.abs(mb);
    const margin = still ? 0 : 64 * ROUNDING * size;
    const marginOfValue = margin * h + 64 * ROUNDING * (Math.abs(ya) + Math.abs(yb));
    const [low, high] = [edges[i]!, edges[i + 1]!];
    const j = jet(low, piece);
    const k = jet(Math.min(high, b), piece);
    const length = high - low;
    const slope = hull([j.slope, j.slope + (length * j.curvature) / 2, k.slope], margin);
    let found = hull(
      [j.value, j.value + (length * j.slope) / 3, k.value - (length * k.slope) / 3, k.value],
      marginOfValue,
    );
    const rising = ma >= 0 && middle > margin && mb >= 0;
    const falling = ma <= 0 && middle < -margin && mb <= 0;
    if (rising || falling || still) {
      const [from, to] = [Math.min(ya, yb), Math.max(ya, yb)];
      found = [Math.min(Math.max(found[0], from), to), Math.min(Math.max(found[1], from), to)];
    }
    const bent = hull([j.curvature, k.curvature], margin / h);
    value[0].push(found[0]);
    value[1].push(found[1]);
    curvature[0].push(bent[0]);
    curvature[1].push(bent[1]);
    slopes.push(Math.max(Math.abs(slope[0]), Math.abs(slope[1])));
  });
  const knots = [pieces[0]!.a, ...pieces.map((p) => p.b)];
  const corners = knots.filter(
    (_, i) => (i === 0 ? 0 : pieces[i - 1]!.mb) !== (i === pieces.length ? 0 : pieces[i]!.ma) && !(ray && i === 0),
  );
  return {
    edges,
    value,
    steepest: slopes,
    curvature,
    knots: knots.slice(1, -1),
    corners,
    limits: [pieces[0]!.ya, pieces.at(-1)!.yb],
  };
}

function requireSizes(at: number, values: number, slopes: number): void {
  if (at < 2 || at > MOST_PIECES + 1) throw new ParameterError("number of at", at, `2 to ${MOST_PIECES + 1}`);
  if (values !== at) throw new ParameterError("number of values", values, `${at}, for ${at} of at`);
  if (slopes !== 2 * (at - 1)) throw new ParameterError("number of slopes", slopes, `${2 * (at - 1)}, for ${at} of at`);
}

function requireApart(at: readonly number[]): void {
  const length = at.at(-1)! - at[0]!;
  if (!(length > 0) || !at.slice(1).every((b, i) => b - at[i]! >= CLOSEST * length)) {
    throw new ParameterError("at", "some", "increasing, each by 2^-30 of the whole or more");
  }
  if (largest(at.map(Math.abs)) > FARTHEST * length) {
    throw new ParameterError("at", "some", "within 1,024 times their length of 0");
  }
}

export class Table implements Profile {
  readonly at: readonly number[];
  readonly values: readonly number[];
  readonly slopes: readonly number[];
  /** A power of two, the unit of all computations. */
  readonly scale: number;
  readonly crossed = false;
  readonly #pieces: Piece[];
  readonly #cells: Cells;
  #bound: ExponentialBound | undefined;

  constructor(
    at: readonly number[],
    values: readonly number[],
    slopes: readonly number[],
    readonly ray = false,
  ) {
    for (const [name, numbers] of Object.entries({ at, values, slopes })) {
      if (!numbers.every((x) => Math.abs(x) <= MOST)) throw new ParameterError(name, "some", `numbers up to ${MOST}`);
    }
    requireSizes(at.length, values.length, slopes.length);
    requireApart(at);
    if (ray && at[0]! < 0 && at.at(-1)! > 0 && at.includes(0)) {
      const first = at.indexOf(0);
      [at, values, slopes] = [at.slice(first), values.slice(first), slopes.slice(2 * first)];
    }
    if (ray && at[0]! < 0) throw new ParameterError("at[0]", at[0], ">= 0, as a distance is never negative");
    if (ray && at[0]! > 0) {
      [at, values, slopes] = [[0, ...at], [values[0]!, ...values], [0, 0, ...slopes]];
      requireSizes(at.length, values.length, slopes.length);
      requireApart(at);
    }
    const steepest = steepestOf(piecesOf(at, values, slopes));
    if (steepest === 0) throw new ParameterError("values", "all the same", "numbers that differ");
    const range = largest(values) - least(values);
    const varied = positive("range of the values", range || steepest * (at.at(-1)! - at[0]!));
    const ratio = varied / positive("slope", steepest);
    const scale = 2 ** (frexp(ratio) - (2 ** (frexp(ratio) - 1) === ratio ? 1 : 0));
    [this.at, this.values, this.slopes, this.scale] = [at, values, slopes, scale];
    this.#pieces = piecesOf(
      at.map((x) => x / scale),
      values,
      slopes.map((m) => m * scale),
    );
    this.#cells = cellsOf(this.#pieces, ray);
  }

  onRay(): Profile {
    return this.ray ? this : new Table(this.at, this.values, this.slopes, true);
  }
  get lipschitz(): number {
    return largest(this.#cells.steepest) / this.scale;
  }
  get bounds(): [number, number] {
    const [low, high] = this.#cells.value;
    return [least(low), largest(high)];
  }
  get lengthScale(): number {
    const [low, high] = this.bounds;
    return this.scale * ((high - low) / largest(this.#cells.steepest));
  }
  get limits(): [number, number] {
    const [low, high] = this.#cells.limits;
    return this.ray ? [high, high] : [low, high];
  }
  get breakpoints(): [number, number] {
    const [low, high] = settled(this.#cells);
    return [(this.ray ? -high : low) * this.scale, high * this.scale];
  }
  get plateaus(): Level[] {
    const { edges, steepest } = this.#cells;
    const flat = [!this.ray, ...steepest.map((m) => m === 0), true];
    const ends = [-Infinity, ...edges, Infinity];
    const found: Level[] = [];
    for (let i = 0; i < flat.length; ) {
      if (!flat[i]) {
        i++;
        continue;
      }
      let j = i;
      while (j < flat.length && flat[j]) j++;
      const [low, high] = [ends[i]!, ends[j]!];
      const level = this.near((Number.isFinite(low) ? low : high) * this.scale);
      found.push([low * this.scale, high * this.scale, level]);
      if (this.ray) found.push([-high * this.scale, -low * this.scale, level]);
      i = j;
    }
    return found;
  }
  near(s: number): number {
    const [low, high] = this.#ends;
    const u = s / this.scale;
    return this.#near(this.ray ? Math.min(Math.abs(u), high) : Math.min(Math.max(u, low), high)).value;
  }
  value(s: Interval): Interval {
    return this.#at(this.#inside(s.div(constant(this.scale)))).value;
  }
  noiseBound(s: Interval, beta: Rational, kind: BoundKind): Interval {
    requireLocal(kind);
    const rate = beta.mul(Rational.from(this.scale)).roundDown();
    if (this.#bound?.beta !== rate) this.#bound = new ExponentialBound(this.#cells.edges, this.#cells.steepest, rate);
    const scale = constant(this.scale);
    return this.#bound.at((this.ray ? s.abs() : s).div(scale)).div(scale);
  }
  debiased(v: Interval, b: Rational): Interval {
    const scale = constant(this.scale);
    const u = v.div(scale);
    const c2 = constant(b).div(scale).square();
    if (!this.#odd) return this.#undone(u, c2);
    const twice = this.#at(NOUGHT).value.scaled(1);
    return piecewise(u, [NOUGHT], [(x) => twice.sub(this.#undone(x.neg(), c2)), (x) => this.#undone(x, c2)]);
  }
  debiasedRange(b: number): [number, number] {
    const { corners, value, curvature, limits } = this.#cells;
    const c2 = (b / this.scale) ** 2;
    if (corners.length) throw noDebiasedForm();
    const low = Math.min(least(value[0].map((x, i) => x - c2 * curvature[1][i]!)), ...limits);
    const high = Math.max(largest(value[1].map((x, i) => x - c2 * curvature[0][i]!)), ...limits);
    if (!this.#odd) return [low, high];
    const twice = 2 * this.#near(0).value;
    return [Math.min(low, twice - high), Math.max(high, twice - low)];
  }

  get #ends(): [number, number] {
    return [this.at[0]! / this.scale, this.at.at(-1)! / this.scale];
  }
  get #odd(): boolean {
    return this.ray && Math.abs(this.#pieces[0]!.ma) > CORNER * largest(this.#cells.steepest);
  }
  #near(u: number): Jet {
    const index = this.#pieces.findIndex((p) => u < p.b);
    return jet(u, this.#pieces[index < 0 ? this.#pieces.length - 1 : index]!);
  }
  /** φ − c²φ'' at u; on a ray, at |u|. */
  #undone(u: Interval, c2: Interval): Interval {
    const [low, high] = this.#ends;
    const ends = [this.ray ? -high : low, high].map(constant);
    const [first, last] = ends.map((end) => this.#at(this.#inside(end)).value) as [Interval, Interval];
    const inside = (x: Interval): Interval => {
      const { value, curvature } = this.#at(this.#inside(x));
      return value.sub(c2.mul(curvature));
    };
    return piecewise(u, ends, [() => first, inside, () => last]);
  }
  #inside(u: Interval): Interval {
    const [low, high] = this.#ends;
    return this.ray ? u.abs().min(constant(high)) : clip(u, constant(low), constant(high));
  }
  /** The union over all pieces that u meets between the ends. */
  #at(u: Interval): { value: Interval; curvature: Interval } {
    if (!u.known) return { value: u, curvature: u };
    const knots = [this.#pieces[0]!.a, ...this.#pieces.map((p) => p.b)];
    const met = meeting(u, knots).filter((i) => i > 0 && i < knots.length);
    // At the first or the last knot, only what lies beyond it.
    if (!met.length) met.push(u.below(constant(knots[1]!)) ? 1 : knots.length - 1);
    const found = met.map((i) => enclosed(u, this.#pieces[i - 1]!));
    return found.reduce((x, y) => ({
      value: x.value.union(y.value),
      curvature: x.curvature.union(y.curvature),
    }));
  }
}
