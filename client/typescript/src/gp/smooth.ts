/** Noise scaled to a smooth bound: the declaration, β and η, and the mechanism. */
import { ParameterError, UnsupportedError } from "../errors.js";
import { log } from "../exact/elementary.js";
import { constant, HALF, type Interval, NOUGHT } from "../exact/interval.js";
import { ONE, Rational, ZERO } from "../exact/rational.js";
import { Calibration, Growth, type Smooth } from "../gen/geoveil/proto/v1/campaign_pb.js";
import { exactRate, type Mechanism, type Privacy, QueryMechanism, requireComparable } from "./mechanism.js";
import { laplace, quantile, type Tail } from "./noise.js";
import { type BoundKind, positive } from "./profile.js";
import type { Query } from "./query.js";
import { bestTail, generalizedCauchy, settledUp, type SmoothNoise, studentT } from "./smooth-noise.js";

/** What a calibration needs from a noise. */
export type Scored = Pick<SmoothNoise, "name" | "scaleCost" | "leastQuotient">;

const LEAST_ETA = Rational.of(1n, 10n ** 6n);
const LEAST_LAPLACE_ETA = Rational.of(1n, 10n ** 9n);

interface Calibrated {
  readonly beta: Rational;
  readonly eta: Rational;
  readonly tail: Tail;
}

export function smooth(query: Query, privacy: Privacy, declared: Smooth, stepExponent: number): Mechanism {
  requireComparable(query, privacy);
  const kind = boundKind(declared, privacy);
  const paper = isPaper(declared);
  const share = shareOf(declared);
  const { beta, eta, tail } = calibrated(query, privacy, declared, paper, share);
  const largest = query.profile.lipschitz / eta.roundDown();
  query.profile.noiseBound(NOUGHT, beta, kind); // what is public is found before a value is looked at
  const size = (s: Interval): Interval => query.profile.noiseBound(s, beta, kind).div(constant(eta));
  return new QueryMechanism(
    query,
    stepExponent,
    largest * 2 ** 13,
    (s, u) => query.profile.value(s).add(size(s).mul(quantile(tail, u))),
    tail,
    (s) => query.profile.value(s).sub(HALF).abs().div(size(s)),
  );
}

/** β as a fraction of the rate, if declared. */
export function shareOf({ betaFraction: given }: Smooth): Rational | undefined {
  if (given !== undefined && !(given > 0 && given < 1)) throw new ParameterError("beta_fraction", given, "a number in (0, 1)");
  return given === undefined ? undefined : Rational.from(given);
}

/** Whether campaigns that declare it have a delta. */
export function hasSlack(declared: Smooth): boolean {
  return declared.noise.case === "laplace";
}

export function isPaper({ calibration, noise }: Smooth): boolean {
  if (calibration !== Calibration.EXACT && calibration !== Calibration.PAPER) {
    throw new ParameterError("calibration", calibration, "one of 1, 2");
  }
  if (calibration === Calibration.PAPER && noise.case === undefined) {
    throw new ParameterError("calibration", calibration, "'exact' for the best noise");
  }
  return calibration === Calibration.PAPER;
}

export function boundKind(declared: Smooth, privacy: Privacy): BoundKind {
  const { growth } = declared;
  if (growth !== Growth.EXPONENTIAL && growth !== Growth.LINEAR) throw new ParameterError("growth", growth, "one of 1, 2");
  const linear = growth === Growth.LINEAR;
  const asked = declared.reach;
  if (asked !== undefined && !(asked >= 0)) throw new ParameterError("reach", asked, "a number >= 0 (infinity is permitted)");
  let reach = asked ?? 0;
  if (hasSlack(declared)) {
    if (!linear) throw new ParameterError("growth of laplace noise", growth, "2, linear");
    reach = privacy.reach ?? Infinity;
    if (asked !== undefined && asked !== reach) throw new ParameterError("reach", asked, `left out, or ${reach}, that of the guarantee`);
  } else if (asked === 0) {
    throw new UnsupportedError("reach is not in canonical form: 0 is left out");
  }
  if (reach !== 0 && reach !== Infinity) {
    throw new UnsupportedError(`only reach 0 and infinity have a closed form here, not ${reach}`);
  }
  return { reach, linear };
}

function calibrated(
  query: Query,
  privacy: Privacy,
  { noise }: Smooth,
  paper: boolean,
  share: Rational | undefined,
): Calibrated {
  const rate = exactRate(privacy);
  if (noise.case === "laplace") return laplaceCalibrated(privacy, paper, share);
  const { crossed } = query.profile;
  if (noise.case === undefined) {
    const { beta, fraction } = slope(share ?? Rational.from(crossed ? 0.3 : 0.15), rate, privacy);
    return { beta, eta: rate, tail: bestTail(crossed, fraction) };
  }
  const chosen = chosenNoise(noise)!;
  const { beta, fraction } = slope(share ?? chosen.share, rate, privacy);
  const eta = etaOf(chosen, crossed, Rational.from(fraction), paper);
  return { beta, eta: eta.mul(rate), tail: chosen.tail };
}

/** A noise from a paper; undefined: it is another. */
export function chosenNoise({ case: kind, value }: Smooth["noise"]): SmoothNoise | undefined {
  if (kind === "studentT") return studentT(value.nu);
  return kind === "generalizedCauchy" ? generalizedCauchy(value.gamma) : undefined;
}

/** β, and roughly which double it is as a fraction of the rate; several reports share the fraction. */
export function slope(share: Rational, rate: Rational, privacy: Privacy, reports = 1): { beta: Rational; fraction: number } {
  const asked = positive("beta", share.div(Rational.of(BigInt(reports))).mul(rate).roundDown());
  const most = privacy.epsilon / privacy.per / reports;
  if (asked > most) throw new ParameterError("beta", asked, `in (0, ${most}]`);
  const fraction = Math.min(Rational.from(asked).div(rate).toNumber(), 1);
  if (!(fraction >= 1e-50)) throw new ParameterError("beta", fraction, "at least 1e-50 of the rate");
  return { beta: Rational.from(fraction).mul(rate), fraction };
}

/** η as a fraction of the rate: the largest that keeps the guarantee, or the sum of two suprema. */
export function etaOf(noise: Scored, crossed: boolean, beta: Rational, paper: boolean, reports = 1): Rational {
  const most = noise.leastQuotient(ONE, ZERO);
  const count = Rational.of(BigInt(reports));
  const price = beta.mul(count).mul(noise.scaleCost);
  let eta = ZERO;
  if (price.compare(ONE) <= 0) {
    if (paper) eta = noise.leastQuotient(ONE.sub(price), ZERO);
    else if (crossed) eta = most;
    else {
      const others = count.sub(ONE).mul(noise.scaleCost);
      const rising = noise.leastQuotient(ONE.sub(beta.mul(others.sub(ONE))), beta.neg());
      eta = rising.min(noise.leastQuotient(ONE.sub(beta.mul(count)), beta));
    }
  }
  if (eta.compare(LEAST_ETA.mul(most)) <= 0) {
    throw new ParameterError("beta / rate", beta.toNumber(), `below ${ONE.div(noise.scaleCost).toNumber()} for ${noise.name}`);
  }
  return eta;
}

function laplaceCalibrated(privacy: Privacy, paper: boolean, share: Rational | undefined): Calibrated {
  const { delta } = privacy;
  if (!delta) throw new ParameterError("privacy.delta", delta ?? 0, "a number in (0, 1) for laplace noise");
  if (!paper) {
    throw new UnsupportedError("laplace noise has a closed form here only as in the paper");
  }
  const rate = exactRate(privacy);
  const cost = Rational.from(Math.max(1, settledUp(() => log(constant(delta)).neg())));
  const beta = Rational.from(positive("beta", (share ?? ONE.div(Rational.of(4n).mul(cost))).mul(rate).roundDown()));
  const eta = rate.sub(beta.mul(cost));
  if (eta.compare(rate.mul(LEAST_LAPLACE_ETA)) <= 0) {
    throw new ParameterError("beta", beta.toNumber(), `in (0, ${rate.div(cost).toNumber()})`);
  }
  return { beta, eta, tail: laplace };
}
