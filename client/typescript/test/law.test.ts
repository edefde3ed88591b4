/** Releases against the exact laws: α = 1e-6 each; GEOVEIL_RELEASES says how many. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Attribute, clampedTo } from "../src/campaign.js";
import { debiasedLaplace, lipschitzLaplace, type Mechanism, PlanarLaplace } from "../src/gp/mechanism.js";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Calibration, Growth, type Smooth, SmoothSchema } from "../src/gen/geoveil/proto/v1/campaign_pb.js";
import { threshold } from "../src/gp/query.js";
import { smooth } from "../src/gp/smooth.js";
import { pointOf } from "../src/values.js";
import { seeded } from "./files.js";

const N = Number(process.env.GEOVEIL_RELEASES ?? 4_000);
/** 1.95 = √(log(2/α)/2) rounded up where α = 1e-6: 2.69. */
const CRITICAL = Math.sqrt(Math.log(2 / 1e-6) / 2);

/** √n times the largest distance of the share of reports up to y from their law, where it is continuous. */
function distance(reports: readonly number[], law: (y: number) => number): number {
  const sorted = [...reports].sort((a, b) => a - b);
  let most = 0;
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (sorted[j] === sorted[i]) j++;
    most = Math.max(most, Math.abs(law(sorted[i]!) - j / sorted.length));
    i = j;
  }
  return most * Math.sqrt(sorted.length);
}

function drawn(mechanism: Mechanism, x: number[], exponent: number, seed: string, axis = 0): number[] {
  const source = seeded(seed);
  return Array.from({ length: N }, () => Number(mechanism.release(x, source)[axis]) * 2 ** exponent);
}

const declared = (init: MessageInitShape<typeof SmoothSchema>): Smooth =>
  create(SmoothSchema, { growth: Growth.EXPONENTIAL, calibration: Calibration.EXACT, ...init });
const laplace = (z: number): number => (z < 0 ? Math.exp(z) / 2 : 1 - Math.exp(-z) / 2);
const privacy = { epsilon: 1, per: 8 };

function compared(reports: number[], law: (y: number) => number, control: (y: number) => number): void {
  assert.ok(distance(reports, law) < CRITICAL, "the law is missed");
  assert.ok(distance(reports, control) > CRITICAL, "the control is not told apart");
}

test("Laplace noise for the steepest slope", () => {
  const [x, w] = [3, 16];
  const law = (scale: number) => (y: number) => laplace((y - (x / w + 0.5)) / (scale * (8 / w)));
  const made = lipschitzLaplace(threshold(0, w, "linear"), privacy, -40);
  compared(drawn(made, [x], -40, "lipschitz"), law(1), law(1.25));
});

test("noise before the function, undone", () => {
  const [x, w, b] = [3, 16, 8];
  const lift = 6 * (b / w) ** 2;
  const g = (t: number): number => t * t * (3 - 2 * t) - lift * (1 - 2 * t);
  // g rises on [0, 1]: what is at most y has t at most the root, or lies before the band.
  const law = (scale: number) => (y: number) => {
    let [low, high] = [0, 1];
    for (let i = 0; i < 60; i++) {
      const middle = (low + high) / 2;
      if (g(middle) <= y) low = middle;
      else high = middle;
    }
    const of = (v: number): number => laplace((v - x) / (b * scale));
    const inside = of((low - 0.5) * w) - of(-w / 2);
    return Math.max(inside, 0) + (y >= 0 ? of(-w / 2) : 0) + (y >= 1 ? 1 - of(w / 2) : 0);
  };
  const made = debiasedLaplace(threshold(0, w, "smoothstep"), privacy, -24);
  compared(drawn(made, [x], -24, "debiased"), law(1), law(1.25));
});

test("noise for the slope nearby, with a heavy tail", () => {
  const [x, w, beta] = [20, 16, 0.3];
  const size = (8 / w) * Math.exp((-beta / 8) * (x - w / 2));
  const a = 1 / beta;
  const decay = Math.exp(-(1 + a));
  const tail = (u: number): number => {
    const mass = 2 * (1 + decay / a);
    const beyond = u > 1 + a ? (decay * (1 + a)) / a / (u / (1 + a)) ** a : Math.exp(-u) - decay + (decay * (1 + a)) / a;
    return beyond / mass;
  };
  const law = (scale: number) => (y: number) => {
    const u = Math.abs(y - 1) / (size * scale);
    return y > 1 ? 1 - tail(u) : tail(u);
  };
  const made = smooth(threshold(0, w, "linear"), privacy, declared({ betaFraction: beta }), -40);
  compared(drawn(made, [x], -40, "smooth"), law(1), law(1.25));
});

test("noise on the point: the radius is a gamma variable, and the angle uniform", () => {
  const made = new PlanarLaplace(privacy, 2, -20);
  const source = seeded("planar");
  const points = Array.from({ length: N }, () => made.release([5, -7], source).map((k) => Number(k) * 2 ** -20));
  const radius = points.map(([x, y]) => Math.hypot(x! - 5, y! + 7));
  const angle = points.map(([x, y]) => Math.atan2(y! + 7, x! - 5));
  const gamma = (scale: number) => (r: number) => 1 - (1 + r / (8 * scale)) * Math.exp(-r / (8 * scale));
  compared(radius, gamma(1), gamma(1.25));
  compared(angle, (t) => (t + Math.PI) / (2 * Math.PI), (t) => ((t + Math.PI) / (2 * Math.PI)) ** 1.25);
});

test("what is no point of doubles up to 1e90 is refused and not shown, as in Python", () => {
  const line = threshold(100, 16, "smoothstep");
  const mechanisms: Mechanism[] = [debiasedLaplace(line, privacy, -20), lipschitzLaplace(line, privacy, -20), new PlanarLaplace(privacy, 1)];
  for (const mechanism of mechanisms) {
    for (const x of [[1.1e90], [-1.7e308], [Infinity], [NaN], [1, 2], [], new Array<number>(1)]) {
      assert.throws(() => mechanism.release(x, seeded("far")), { code: "private-value", message: /-1e\+90 to 1e\+90; it is not shown$/ });
    }
    for (const x of [1e90, -1e90]) assert.equal(mechanism.release([x], seeded("far")).length, 1);
  }
  const ratios = { attribute: { scale: { floor: 1000 }, valueUnit: "dollar" } as Attribute, dimension: 1 };
  assert.throws(() => pointOf(ratios, new Array<number>(1)), { code: "private-value" });
  const ends = [-4, 6] as const;
  for (const x of [[-Infinity], [NaN], [1, 2], []]) assert.throws(() => clampedTo(ends, x), { code: "private-value" });
  assert.deepEqual([[-1e91], [5], [1e91]].map((x) => clampedTo(ends, x)), [[-4], [5], [6]]);
  for (const x of [[1e91, 0], [0]]) assert.throws(() => new PlanarLaplace(privacy, 2).release(x, seeded("far")), { code: "private-value" });
});
