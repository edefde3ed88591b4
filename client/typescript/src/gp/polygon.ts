/** Polygons: whether they are valid, and the signed distance to their boundary, exactly. */
import { ParameterError } from "../errors.js";
import { sqrt } from "../exact/elementary.js";
import { constant, type Interval } from "../exact/interval.js";
import { parts, Rational } from "../exact/rational.js";
import { MOST } from "./profile.js";

export type Point = readonly [number, number];
export type Ring = readonly Point[];
/** The exterior ring of each part, then its holes. */
export type Region = readonly (readonly Ring[])[];

type Whole = readonly [bigint, bigint];

/** Rings without repeated points; each has three distinct ones at least. */
export function readRegion(given: readonly (readonly (readonly number[])[])[]): Region {
  if (!given.length) throw new ParameterError("parts", 0, "at least one part");
  return given.map((part, i) => {
    if (!part.length) throw new ParameterError(`parts[${i}]`, 0, "an exterior ring, then holes");
    return part.map((numbers, j) => {
      const name = `parts[${i}].rings[${j}]`;
      if (numbers.length % 2) throw new ParameterError(name, numbers.length, "pairs x, y");
      if (!numbers.every((c) => Math.abs(c) <= MOST)) throw new ParameterError(name, "some", `numbers up to ${MOST}`);
      const points = Array.from({ length: numbers.length / 2 }, (_, k): Point => [numbers[2 * k]!, numbers[2 * k + 1]!]);
      const ring = points.filter((p, k) => {
        const next = points[(k + 1) % points.length]!;
        return p[0] !== next[0] || p[1] !== next[1];
      });
      if (new Set(ring.map(([x, y]) => `${x + 0} ${y + 0}`)).size < 3) {
        throw new ParameterError(name, points.length, "a ring of at least three distinct points");
      }
      return ring;
    });
  });
}

interface Edge {
  a: Whole;
  /** The vector to its end. */
  v: Whole;
  length2: bigint;
}

/** Everything in units of 2^unit. */
interface Exact {
  unit: number;
  rings: Edge[][];
}

function exact(region: Region): Exact {
  const rings = region.flat();
  let unit = 0;
  for (const [x, y] of rings.flat()) {
    for (const c of [x, y]) unit = Math.min(unit, c === 0 ? 0 : finest(c));
  }
  const whole = (c: number): bigint => {
    const { mantissa, exponent } = parts(c);
    const shift = exponent - unit;
    return shift >= 0 ? mantissa << BigInt(shift) : mantissa >> BigInt(-shift);
  };
  return {
    unit,
    rings: rings.map((ring) => {
      const points = ring.map(([x, y]): Whole => [whole(x), whole(y)]);
      return points.map((a, i) => {
        const b = points[(i + 1) % points.length]!;
        const v: Whole = [b[0] - a[0], b[1] - a[1]];
        return { a, v, length2: v[0] * v[0] + v[1] * v[1] };
      });
    }),
  };
}

/** The largest e such that a double is a multiple of 2^e. */
function finest(x: number): number {
  let { mantissa, exponent } = parts(x);
  while ((mantissa & 0xffn) === 0n) [mantissa, exponent] = [mantissa >> 8n, exponent + 8];
  while ((mantissa & 1n) === 0n) [mantissa, exponent] = [mantissa >> 1n, exponent + 1];
  return exponent;
}

export class ExactPolygon {
  readonly #exact: Exact;

  constructor(region: Region) {
    this.#exact = exact(region);
    this.#requireValid(region);
  }

  /** The signed distance, positive inside, of a point of exact coordinates. */
  distance(x: Interval, y: Interval): Interval {
    const { unit, rings } = this.#exact;
    const least = Math.min(unit, x.exponent, y.exponent);
    const px = x.low << BigInt(x.exponent - least);
    const py = y.low << BigInt(y.exponent - least);
    const shift = BigInt(unit - least);
    let inside = false;
    let nearest = -1n;
    let over = 1n;
    for (const ring of rings) {
      for (const { a, v, length2 } of ring) {
        const dx = px - (a[0] << shift);
        const dy = py - (a[1] << shift);
        const left = v[0] * dy - v[1] * dx;
        if (dy < 0n !== dy < v[1] << shift && left > 0n === v[1] > 0n) inside = !inside;
        const along = v[0] * dx + v[1] * dy;
        const beside = along > 0n && along < length2 << shift;
        const [square, divisor] = beside ? [left * left, length2] : [dx * dx + dy * dy, 1n];
        if (nearest < 0n || square * over < nearest * divisor) [nearest, over] = [square, divisor];
      }
    }
    const scale = 2 * least;
    const square = scale >= 0 ? Rational.of(nearest << BigInt(scale), over) : Rational.of(nearest, over << BigInt(-scale));
    const distance = sqrt(constant(square));
    return inside ? distance : distance.neg();
  }

  /**
   * Refuse an invalid region. Two rings may touch in points, as long as they do not cross there, share
   * no segment, and leave the inside of each part connected.
   */
  #requireValid(region: Region): void {
    const { rings } = this.#exact;
    const partOf = region.flatMap((part, i) => part.map(() => i));
    requireSimple(rings, touches(rings), partOf);
    const boxes = rings.map((ring) => ring.map(boxOf).reduce(around));
    const within = (ring: number, other: number): boolean =>
      isWithin(boxes[ring]!, boxes[other]!) && contains(rings[other]!, pointBeside(rings[ring]!, rings[other]!));
    const exteriors = region.map((_, i) => partOf.indexOf(i));
    rings.forEach((_, ring) => {
      const part = partOf[ring]!;
      const exterior = exteriors[part]!;
      if (ring !== exterior) {
        if (!within(ring, exterior)) throw invalid();
        const others = rings.map((_, i) => i).filter((i) => partOf[i] === part && i !== exterior && i !== ring);
        if (others.some((hole) => within(ring, hole))) throw invalid();
        return;
      }
      // A part may lie in a hole of another part, but not in its inside.
      exteriors.forEach((other, i) => {
        if (i === part || !within(ring, other)) return;
        const holes = rings.map((_, h) => h).filter((h) => partOf[h] === i && h !== other);
        if (!holes.some((h) => within(ring, h))) throw invalid();
      });
    });
  }
}

/** A point in which rings meet: for each ring, the vectors from it to both sides. */
interface Touch {
  readonly at: Whole;
  readonly ways: Map<number, readonly [Whole, Whole]>;
}

/** The points in which different rings touch; refuses rings that cross, or touch themselves. */
function touches(rings: readonly Edge[][]): readonly Touch[] {
  const segments = rings.flatMap((ring, r) => ring.map((edge, i) => ({ edge, r, i, n: ring.length, box: boxOf(edge) })));
  segments.sort((s, t) => (s.box[0] < t.box[0] ? -1 : s.box[0] > t.box[0] ? 1 : 0));
  const found = new Map<string, Touch>();
  const note = (r: number, i: number, at: Whole): void => {
    const key = `${at[0]} ${at[1]}`;
    const touch = found.get(key) ?? { at, ways: new Map<number, readonly [Whole, Whole]>() };
    found.set(key, touch);
    touch.ways.set(r, waysFrom(rings[r]!, i, at));
  };
  for (let p = 0; p < segments.length; p++) {
    const s = segments[p]!;
    for (let q = p + 1; q < segments.length; q++) {
      const t = segments[q]!;
      if (t.box[0] > s.box[1]) break;
      if (t.box[3] < s.box[2] || t.box[2] > s.box[3]) continue;
      const adjacent = s.r === t.r && (Math.abs(s.i - t.i) === 1 || Math.abs(s.i - t.i) === s.n - 1);
      const at = meet(s.edge, t.edge);
      if (at === "cross" || (at && s.r === t.r && !adjacent)) throw invalid();
      if (!at || s.r === t.r) continue;
      note(s.r, s.i, at);
      note(t.r, t.i, at);
    }
  }
  return [...found.values()];
}

/** The vectors from a point on a ring's edge to both sides along the ring. */
function waysFrom(ring: readonly Edge[], i: number, at: Whole): readonly [Whole, Whole] {
  const { a, v } = ring[i]!;
  const [back, on] = [minus(a, at), minus([a[0] + v[0], a[1] + v[1]], at)];
  if (isNought(back)) {
    const before = ring[(i + ring.length - 1) % ring.length]!.v;
    return [[-before[0], -before[1]], on];
  }
  return isNought(on) ? [back, ring[(i + 1) % ring.length]!.v] : [back, on];
}

/** Refuse rings that cross where they touch, or that divide the inside of a part. */
function requireSimple(rings: readonly Edge[][], met: readonly Touch[], partOf: readonly number[]): void {
  const piece = rings.map((_, r) => r);
  const find = (r: number): number => (piece[r] === r ? r : find(piece[r]!));
  for (const { ways } of met) {
    const passing = [...ways];
    passing.forEach(([r, [from, to]], i) => {
      for (const [, [back, on]] of passing.slice(0, i)) {
        if (turnsBetween(from, to, back) !== turnsBetween(from, to, on)) throw invalid();
      }
      // Rings of a part that already touch at another point together enclose a piece.
      const first = passing.find(([other]) => partOf[other] === partOf[r])![0];
      if (first === r) return;
      if (find(first) === find(r)) throw invalid();
      piece[find(r)] = find(first);
    });
  }
}

function isNought(v: Whole): boolean {
  return v[0] === 0n && v[1] === 0n;
}

/** Whether a vector lies between two others, counterclockwise. */
function turnsBetween(from: Whole, to: Whole, v: Whole): boolean {
  const [fromTo, fromV, vTo] = [cross(from, to), cross(from, v), cross(v, to)];
  const straightOn = fromTo === 0n && from[0] * to[0] + from[1] * to[1] < 0n;
  if (fromTo > 0n) return fromV > 0n && vTo > 0n;
  return straightOn ? fromV > 0n : !(fromV <= 0n && vTo <= 0n);
}

/** A point of one ring that is not on another, in the unit of its coordinates times `times`. */
function pointBeside(ring: readonly Edge[], other: readonly Edge[]): Beside {
  for (let times = 1n; ; times++) {
    for (const { a, v } of ring) {
      for (let share = times === 1n ? 0n : 1n; share < times; share++) {
        const p: Whole = [a[0] * times + v[0] * share, a[1] * times + v[1] * share];
        if (!other.some((edge) => isOn(edge, p, times))) return { p, times };
      }
    }
  }
}

interface Beside {
  readonly p: Whole;
  readonly times: bigint;
}

function isOn({ a, v, length2 }: Edge, p: Whole, times: bigint): boolean {
  const d = minus(p, [a[0] * times, a[1] * times]);
  const along = v[0] * d[0] + v[1] * d[1];
  return cross(v, d) === 0n && along >= 0n && along <= length2 * times;
}

function invalid(): ParameterError {
  return new ParameterError("region", "rings", "a valid polygon: its rings do not cross");
}

/** The least and the greatest x, then y. */
type Box = readonly [bigint, bigint, bigint, bigint];

function boxOf({ a, v }: Edge): Box {
  const b: Whole = [a[0] + v[0], a[1] + v[1]];
  return [a[0] < b[0] ? a[0] : b[0], a[0] > b[0] ? a[0] : b[0], a[1] < b[1] ? a[1] : b[1], a[1] > b[1] ? a[1] : b[1]];
}

function around(p: Box, q: Box): Box {
  return [p[0] < q[0] ? p[0] : q[0], p[1] > q[1] ? p[1] : q[1], p[2] < q[2] ? p[2] : q[2], p[3] > q[3] ? p[3] : q[3]];
}

function isWithin(p: Box, q: Box): boolean {
  return p[0] >= q[0] && p[1] <= q[1] && p[2] >= q[2] && p[3] <= q[3];
}

function cross(u: Whole, v: Whole): bigint {
  return u[0] * v[1] - u[1] * v[0];
}

function minus(p: Whole, q: Whole): Whole {
  return [p[0] - q[0], p[1] - q[1]];
}

/** The one point in which two edges meet without crossing: an end of one of them. */
function meet(s: Edge, t: Edge): Whole | "cross" | undefined {
  const turns = (edge: Edge, p: Whole): bigint => cross(edge.v, minus(p, edge.a));
  const end = ({ a, v }: Edge): Whole => [a[0] + v[0], a[1] + v[1]];
  const [sEnd, tEnd] = [end(s), end(t)];
  const [a, b, c, d] = [turns(s, t.a), turns(s, tEnd), turns(t, s.a), turns(t, sEnd)];
  if (a === 0n && b === 0n) {
    // On one line: they share a segment, a point, or nothing.
    const along = (p: Whole): bigint => s.v[0] * (p[0] - s.a[0]) + s.v[1] * (p[1] - s.a[1]);
    const [from, to] = [along(t.a), along(tEnd)];
    const [low, high] = from < to ? [from, to] : [to, from];
    if (high < 0n || low > s.length2) return undefined;
    return high > 0n && low < s.length2 ? "cross" : low === s.length2 ? sEnd : s.a;
  }
  const opposite = (x: bigint, y: bigint): boolean => (x > 0n && y < 0n) || (x < 0n && y > 0n);
  if (opposite(a, b) && opposite(c, d)) return "cross";
  const apart = (a > 0n && b > 0n) || (a < 0n && b < 0n) || (c > 0n && d > 0n) || (c < 0n && d < 0n);
  if (apart) return undefined;
  if (a === 0n) return t.a;
  if (b === 0n) return tEnd;
  return c === 0n ? s.a : sEnd;
}

function contains(ring: readonly Edge[], { p, times }: Beside): boolean {
  let inside = false;
  for (const { a, v } of ring) {
    const dy = p[1] - a[1] * times;
    const left = v[0] * dy - v[1] * (p[0] - a[0] * times);
    if (dy < 0n !== dy < v[1] * times && left > 0n === v[1] > 0n) inside = !inside;
  }
  return inside;
}
