/** Standard noise as a function of a uniform number: the quantiles of symmetric densities. */
import { exp, expm1, log, log1p, power } from "../exact/elementary.js";
import { constant, HALF, type Interval, ONE } from "../exact/interval.js";
import { ONE as RATIONAL_ONE, Rational } from "../exact/rational.js";

/** The u ≥ 0 with P[Z > u] = p, for p in (0, 1/2]. */
export type Tail = (p: Interval) => Interval;

/** The z with P[Z ≤ z] = p. */
export function quantile(tail: Tail, p: Interval): Interval {
  return p.sub(HALF).sign().mul(tail(p.min(ONE.sub(p))));
}

/** Laplace of scale 1: −log 2p. */
export const laplace: Tail = (p) => log(p.scaled(1)).neg();

/** e^{−|u|} up to 1 + a, a = 1/β, then a power of the exponent −(1 + a). */
export function laplacePareto(beta: number): Tail {
  const shape = RATIONAL_ONE.div(Rational.from(beta));
  return (p) => {
    const a = constant(shape);
    const decay = exp(ONE.add(a).neg());
    const mass = ONE.add(decay.div(a)).scaled(1);
    const kneeTail = decay.mul(ONE.add(a)).div(a);
    const knee = kneeTail.div(mass);
    const core = log(mass.mul(p.max(knee)).sub(kneeTail).add(decay)).neg();
    return core.mul(power(knee.div(p).max(ONE), ONE.div(a)));
  };
}

/** (1 − β|u|)^{a−1} up to 1, then a power of 1 + β|u|, a = 1/β. */
export function powerLaw(beta: number): Tail {
  const shape = RATIONAL_ONE.div(Rational.from(beta));
  const flat = beta === 1;
  return (p) => {
    const a = constant(shape);
    const b = constant(beta);
    const density = flat ? ONE : exp(a.sub(ONE).mul(log1p(ONE.div(a).neg())));
    const mass = ONE.add(density.div(a).scaled(1)).scaled(1);
    const knee = density.mul(ONE.add(ONE.div(a))).div(mass);
    const coreKnee = density.mul(ONE.sub(ONE.div(a)));
    const core = mass.mul(p.max(knee).sub(knee)).add(coreKnee);
    const inner = flat ? ONE.sub(core) : expm1(log(core).div(a)).neg();
    const stretch = expm1(log(knee.div(p).max(ONE)).div(a));
    return inner.div(b).add(ONE.div(b).add(ONE).mul(stretch));
  };
}
