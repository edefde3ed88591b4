/** Polygons: whether they are valid, and the signed distance to their boundary, exactly. */
import { ParameterError, UnsupportedError } from "../errors.js";
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

  /** Refuse rings that cross or touch themselves or each other, and those at the wrong place. */
  #requireValid(region: Region): void {
    const { rings } = this.#exact;
    const segments = rings.flatMap((ring, r) => ring.map((edge, i) => ({ edge, r, i, n: ring.length, box: boxOf(edge) })));
    segments.sort((s, t) => (s.box[0] < t.box[0] ? -1 : s.box[0] > t.box[0] ? 1 : 0));
    let touching = false;
    for (let p = 0; p < segments.length; p++) {
      const s = segments[p]!;
      for (let q = p + 1; q < segments.length; q++) {
        const t = segments[q]!;
        if (t.box[0] > s.box[1]) break;
        if (t.box[3] < s.box[2] || t.box[2] > s.box[3]) continue;
        const adjacent = s.r === t.r && (Math.abs(s.i - t.i) === 1 || Math.abs(s.i - t.i) === s.n - 1);
        const found = meet(s.edge, t.edge, adjacent);
        if (found === "cross") throw invalid();
        if (found === "touch") touching = true;
      }
    }
    if (touching) {
      throw new UnsupportedError("a polygon whose rings touch in a point is not decided by this client");
    }
    // No two rings meet: where they are is where one point of each is.
    let first = 0;
    const exteriors: number[] = [];
    const partOf: number[] = [];
    region.forEach((part, i) => {
      exteriors.push(first);
      part.forEach(() => partOf.push(i));
      first += part.length;
    });
    const within = (ring: number, other: number): boolean => contains(rings[other]!, rings[ring]![0]!.a);
    rings.forEach((_, ring) => {
      const part = partOf[ring]!;
      const exterior = exteriors[part]!;
      const hole = ring !== exterior;
      if (hole && !within(ring, exterior)) throw invalid();
      rings.forEach((_, other) => {
        if (other === ring) return;
        const samePart = partOf[other] === part;
        if (hole && samePart && other !== exterior && within(ring, other)) throw invalid();
      });
      if (!hole) {
        // A part may lie in a hole of another part, and not in its inside.
        exteriors.forEach((other, i) => {
          if (i === part || !within(ring, other)) return;
          const holes = rings.map((_, h) => h).filter((h) => partOf[h] === i && h !== other);
          if (!holes.some((h) => within(ring, h))) throw invalid();
        });
      }
    });
  }
}

function invalid(): ParameterError {
  return new ParameterError("region", "rings", "a valid polygon: rings that do not cross, holes inside, parts apart");
}

function boxOf({ a, v }: Edge): readonly [bigint, bigint, bigint, bigint] {
  const b: Whole = [a[0] + v[0], a[1] + v[1]];
  return [a[0] < b[0] ? a[0] : b[0], a[0] > b[0] ? a[0] : b[0], a[1] < b[1] ? a[1] : b[1], a[1] > b[1] ? a[1] : b[1]];
}

function cross(u: Whole, v: Whole): bigint {
  return u[0] * v[1] - u[1] * v[0];
}

function minus(p: Whole, q: Whole): Whole {
  return [p[0] - q[0], p[1] - q[1]];
}

function meet(s: Edge, t: Edge, adjacent: boolean): "apart" | "touch" | "cross" {
  const turns = (edge: Edge, p: Whole): bigint => cross(edge.v, minus(p, edge.a));
  const end = ({ a, v }: Edge): Whole => [a[0] + v[0], a[1] + v[1]];
  const [a, b, c, d] = [turns(s, t.a), turns(s, end(t)), turns(t, s.a), turns(t, end(s))];
  if (a === 0n && b === 0n) {
    // On one line: they share a stretch, a point, or nothing.
    const along = (p: Whole): bigint => s.v[0] * (p[0] - s.a[0]) + s.v[1] * (p[1] - s.a[1]);
    const [from, to] = [along(t.a), along(end(t))];
    const low = from < to ? from : to;
    const high = from > to ? from : to;
    if (high < 0n || low > s.length2) return "apart";
    if (high > 0n && low < s.length2) return "cross";
    return adjacent ? "apart" : "touch";
  }
  const opposite = (x: bigint, y: bigint): boolean => (x > 0n && y < 0n) || (x < 0n && y > 0n);
  if (opposite(a, b) && opposite(c, d)) return "cross";
  const apart = (a > 0n && b > 0n) || (a < 0n && b < 0n) || (c > 0n && d > 0n) || (c < 0n && d < 0n);
  if (apart) return "apart";
  return adjacent ? "apart" : "touch";
}

function contains(ring: readonly Edge[], p: Whole): boolean {
  let inside = false;
  for (const { a, v } of ring) {
    const dy = p[1] - a[1];
    const left = v[0] * dy - v[1] * (p[0] - a[0]);
    if (dy < 0n !== dy < v[1] && left > 0n === v[1] > 0n) inside = !inside;
  }
  return inside;
}
