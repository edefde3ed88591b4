/**
 * Smooth bounds certified from cells of the line, in doubles that every device computes alike: all
 * operations below are those of IEEE 754, in this order.
 */
import { exp, log } from "../exact/elementary.js";
import { constant, Interval, NOUGHT, ONE, withPrecision } from "../exact/interval.js";
import { nextDown, nextUp, Rational } from "../exact/rational.js";

/** Enclosures on n cells between n + 1 edges, in units of a profile's own variable. */
export interface Cells {
  readonly edges: readonly number[];
  readonly value: readonly [readonly number[], readonly number[]];
  /** Upper bounds of |φ'|. */
  readonly steepest: readonly number[];
  readonly curvature: readonly [readonly number[], readonly number[]];
  readonly knots: readonly number[];
  readonly corners: readonly number[];
  readonly limits: readonly [number, number];
}

export function largest(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => Math.max(a, b), -Infinity);
}

export function least(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => Math.min(a, b), Infinity);
}

const SETTLED = 1e-9;

/** The ends beyond which φ practically equals its limits. */
export function settled(cells: Cells): [number, number] {
  const [low, high] = cells.value;
  const span = largest(high) - least(low);
  const moving = (limit: number, i: number): boolean =>
    Math.max(Math.abs(low[i]! - limit), Math.abs(high[i]! - limit)) > SETTLED * span;
  let first = 0;
  while (first < low.length - 1 && !moving(cells.limits[0], first)) first++;
  let last = low.length - 1;
  while (last > 0 && !moving(cells.limits[1], last)) last--;
  return [
    Math.min(cells.edges[first]!, ...cells.knots.slice(0, 1)),
    Math.max(cells.edges[last + 1]!, ...cells.knots.slice(-1)),
  ];
}

const LOG_BITS = 256;

/** The double after the one nearest to log x. */
function logUp(x: number): number {
  if (x === 0) return -Infinity;
  const [, high] = withPrecision(LOG_BITS, () => log(constant(x)).ends());
  return nextUp(high.toNumber());
}

/** The logarithms of cells, which are the same for every β. */
const LOGS = new WeakMap<readonly number[], readonly number[]>();

function less(value: number, fall: number): number {
  return value === -Infinity ? value : Math.min(nextUp(value - fall), value);
}

/**
 * B(u) = max_j M_j·e^{−β·dist(u, cell j)}, kept as logarithms: on cell i the largest of its own
 * and of what it is at the two edges, less β times the distance from them.
 */
export class ExponentialBound {
  readonly #inside: number[];
  readonly #node: number[];

  constructor(
    readonly edges: readonly number[],
    steepest: readonly number[],
    readonly beta: number,
  ) {
    let logs = LOGS.get(steepest);
    if (!logs) LOGS.set(steepest, (logs = steepest.map(logUp)));
    this.#inside = [-Infinity, ...logs, -Infinity];
    const node = edges.map((_, i) => Math.max(this.#inside[i]!, this.#inside[i + 1]!));
    const fall = steepest.map((_, i) => nextDown(beta * (edges[i + 1]! - edges[i]!) * (1 - 1e-15)));
    for (let i = 1; i < node.length; i++) node[i] = Math.max(node[i]!, less(node[i - 1]!, fall[i - 1]!));
    for (let i = node.length - 2; i >= 0; i--) node[i] = Math.max(node[i]!, less(node[i + 1]!, fall[i]!));
    this.#node = node;
  }

  at(u: Interval): Interval {
    if (!u.known) return u;
    const edges = this.edges;
    let result: Interval | undefined;
    for (const index of meeting(u, edges)) {
      const low = Math.max(index - 1, 0);
      const high = Math.min(index, edges.length - 1);
      const beta = constant(this.beta);
      const from = (i: number): Interval =>
        constant(this.#node[i]!).sub(beta.mul(u.sub(constant(edges[i]!)).abs()));
      let best = from(low).max(from(high));
      const inside = this.#inside[index]!;
      if (inside !== -Infinity) best = best.max(constant(inside));
      result = result ? result.union(best) : best;
    }
    return exp(result!);
  }
}

const RIVALS = 1e-9;

/** B(u) = max_j M_j/(1 + β·dist(u, cell j)). */
export class LinearBound {
  constructor(
    readonly edges: readonly number[],
    readonly steepest: readonly number[],
    readonly beta: number,
  ) {}

  at(u: Interval): Interval {
    if (!u.known) return u;
    const { edges, steepest, beta } = this;
    const [low, high] = u.ends().map((end) => end.toNumber()) as [number, number];
    const at = (low + high) / 2;
    const spread = high - low + Math.abs(at) * 2 ** -50;
    const terms = steepest.map((most, i) => most / (1 + beta * Math.max(edges[i]! - at, at - edges[i + 1]!, 0)));
    // All terms that may be the largest somewhere on the interval, rounding included.
    const enough = largest(terms) * (1 - RIVALS - 4 * beta * spread);
    let result: Interval | undefined;
    terms.forEach((term, i) => {
      if (term < enough) return;
      const away = constant(edges[i]!).sub(u).max(u.sub(constant(edges[i + 1]!))).max(NOUGHT);
      const value = constant(steepest[i]!).div(ONE.add(constant(beta).mul(away)));
      result = result ? result.max(value) : value;
    });
    return result!;
  }
}

/** The i with edges[i−1] < u < edges[i] for some number u of an interval, 0 and n + 1 beyond the ends. */
export function meeting(u: Interval, edges: readonly number[]): number[] {
  const [low, high] = u.ends();
  const first = place(low, edges);
  const found: number[] = [];
  for (let i = first; i <= edges.length; i++) {
    if (i > 0 && Rational.from(edges[i - 1]!).compare(high) > 0) break;
    found.push(i);
  }
  return found;
}

/** The number of edges below x. */
function place(x: Rational, edges: readonly number[]): number {
  const near = x.toNumber();
  let [low, high] = [0, edges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const edge = edges[middle]!;
    const below = edge < near || (edge === near && Rational.from(edge).compare(x) < 0);
    if (below) low = middle + 1;
    else high = middle;
  }
  return low;
}
