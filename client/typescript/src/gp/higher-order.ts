/** Soft steps of order 4 and 6: φ = 1/2 + v·P(v²), v = 2s/w. */
import { clip, constant, HALF, Interval, NOUGHT, ONE, piecewise } from "../exact/interval.js";
import { Rational } from "../exact/rational.js";
import { type Cells, ExponentialBound, largest, least } from "./cells.js";
import { type Profile, SoftStep } from "./profile.js";

const CELLS = 1024;
const ROUNDING = 1e-14;

type Polynomial = readonly number[];

function derivative(p: Polynomial, times = 1): Polynomial {
  for (; times > 0; times--) p = p.slice(1).map((c, i) => (i + 1) * c);
  return p;
}

function evaluate(p: Polynomial, x: number): number {
  return p.reduceRight((sum, c) => c + sum * x, 0);
}

function size(p: Polynomial): number {
  return p.reduce((sum, c) => sum + Math.abs(c), 0);
}

const ENDS = Array.from({ length: CELLS + 1 }, (_, i) => -1 + (i * 2) / CELLS);

/** Bounds of a polynomial on each cell of [−1, 1]. */
function bounds(p: Polynomial): [number[], number[]] {
  const share = 1 / (2 * CELLS ** 2);
  const curvature = derivative(p, 2);
  const bent = share * size(derivative(p, 4));
  const slack = share * (largest(ENDS.map((x) => Math.abs(evaluate(curvature, x)))) + bent) + ROUNDING * size(p);
  const at = ENDS.map((x) => evaluate(p, x));
  const pairs = at.slice(1).map((after, i) => [Math.min(after, at[i]!) - slack, Math.max(after, at[i]!) + slack]);
  return [pairs.map((p) => p[0]!), pairs.map((p) => p[1]!)];
}

/** What is the same for all steps of one order. */
class Shape {
  #cells: Cells | undefined;
  constructor(
    readonly coefficients: readonly number[],
    readonly divisor: number,
  ) {}
  get step(): Polynomial {
    return [0.5, ...this.coefficients.flatMap((c, i) => (i ? [0, c / this.divisor] : [c / this.divisor]))];
  }
  get cells(): Cells {
    if (!this.#cells) {
      const steepest = (2 * this.coefficients[0]!) / this.divisor;
      const [low, high] = bounds(derivative(this.step));
      const within = (x: number): number => Math.min(Math.max(2 * x, -steepest), steepest);
      const [bent, most] = bounds(derivative(this.step, 2));
      this.#cells = {
        edges: ENDS.map((x) => x / 2),
        value: bounds(this.step),
        steepest: low.map((x, i) => Math.max(Math.abs(within(x)), Math.abs(within(high[i]!)))),
        curvature: [bent.map((x) => 4 * x), most.map((x) => 4 * x)],
        knots: [],
        corners: [],
        limits: [0, 1],
      };
    }
    return this.#cells;
  }
}

const FOURTH = new Shape([105, -175, 147, -45], 64);
const SIXTH = new Shape([4725, -14700, 23814, -17820, 5005], 2048);

class HigherOrderStep extends SoftStep {
  constructor(
    width: number,
    readonly shape: Shape,
  ) {
    super(width);
  }
  get lipschitz(): number {
    return largest(this.shape.cells.steepest) / this.width;
  }
  override get lengthScale(): number {
    return (this.width * this.shape.divisor) / (2 * this.shape.coefficients[0]!);
  }
  override get bounds(): readonly [number, number] {
    const [low, high] = this.shape.cells.value;
    return [least(low), largest(high)];
  }
  value(s: Interval): Interval {
    const v = clip(s.div(constant(this.width)), HALF.neg(), HALF).scaled(1);
    return this.#polynomial(v, () => NOUGHT);
  }
  near(s: number): number {
    return evaluate(this.shape.step, 2 * Math.min(Math.max(s / this.width, -0.5), 0.5));
  }
  noiseBound(s: Interval, beta: Rational): Interval {
    const { edges, steepest } = this.shape.cells;
    const rate = beta.mul(Rational.from(this.width)).roundDown();
    this.#bound = this.#bound?.beta === rate ? this.#bound : new ExponentialBound(edges, steepest, rate);
    const width = constant(this.width);
    return this.#bound.at(s.div(width)).div(width);
  }
  #bound: ExponentialBound | undefined;

  debiased(v: Interval, b: Rational): Interval {
    const half = constant(this.width).scaled(-1);
    const lift = constant(b).div(half).square();
    const { coefficients } = this.shape;
    const lifted = (i: number): Interval =>
      i + 1 < coefficients.length ? lift.mul(constant(BigInt(coefficients[i + 1]! * (2 * i + 3) * (2 * i + 2)))) : NOUGHT;
    const inside = (x: Interval): Interval => this.#polynomial(x.div(half), lifted);
    return piecewise(v, [half.neg(), half], [() => NOUGHT, inside, () => ONE]);
  }
  debiasedRange(b: number): [number, number] {
    const { step } = this.shape;
    const bent = derivative(step, 2);
    const share = (2 * b / this.width) ** 2;
    const [low, high] = bounds(step.map((c, i) => c - share * (bent[i] ?? 0)));
    return [Math.min(least(low), 0), Math.max(largest(high), 1)];
  }

  /** 1/2 + t·Σ tⁱ(coefficient − less)/divisor. */
  #polynomial(t: Interval, less: (i: number) => Interval): Interval {
    const square = t.square();
    const { coefficients, divisor } = this.shape;
    let sum = NOUGHT;
    for (let i = coefficients.length - 1; i >= 0; i--) {
      sum = sum.mul(square).add(constant(BigInt(coefficients[i]!)).sub(less(i)));
    }
    return HALF.add(t.mul(sum).div(constant(BigInt(divisor))));
  }
}

export function fourthOrderStep(width: number): Profile {
  return new HigherOrderStep(width, FOURTH);
}

export function sixthOrderStep(width: number): Profile {
  return new HigherOrderStep(width, SIXTH);
}
