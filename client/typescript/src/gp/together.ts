/** Vectors: their code is loaded only for campaigns that have one. */
import { GeoveilError, ParameterError } from "../errors.js";
import { type BitSource, LazyUniform } from "../exact/bits.js";
import { constant, HALF, NOUGHT, precision } from "../exact/interval.js";
import { Rational } from "../exact/rational.js";
import { releaseIntegers } from "../exact/release.js";
import { Growth, type Smooth } from "../gen/geoveil/proto/v1/campaign_pb.js";
import { ABOVE, exactRate, type Privacy, QueryMechanism, requireComparable } from "./mechanism.js";
import { laplacePareto, quantile } from "./noise.js";
import { privatePoint, type Query } from "./query.js";
import { boundKind, chosenNoise, etaOf, hasSlack, isPaper, shareOf, slope } from "./smooth.js";

export interface SmoothVector {
  /** Each answer by itself. */
  readonly answers: readonly QueryMechanism[];
  /** The integers for one point, the first bits of all drawn before the point is looked at. */
  release(x: readonly number[], source: BitSource): bigint[];
}

const tools = {
  ABOVE,
  boundKind,
  chosenNoise,
  constant,
  etaOf,
  exactRate,
  HALF,
  isPaper,
  laplacePareto,
  LazyUniform,
  NOUGHT,
  precision,
  privatePoint,
  quantile,
  QueryMechanism,
  Rational,
  releaseIntegers,
  requireComparable,
  shareOf,
  slope,
};
export type Tools = typeof tools;

let code: typeof import("./vector.js") | undefined;

/** Load the code that answers several questions by one vector. */
export async function loadVectors(): Promise<void> {
  code ??= await import("./vector.js");
}

/** The mechanism that answers several questions by one vector; `declared` is undefined for other mechanisms. */
export function vectorOf(asked: readonly Query[], privacy: Privacy, declared: Smooth | undefined, stepExponent: number): SmoothVector {
  if (asked.length < 2 || asked.length > 100) throw new ParameterError("number of queries", asked.length, "2 to 100 in a vector");
  if (!declared || hasSlack(declared) || declared.growth === Growth.LINEAR) {
    throw new ParameterError("allocation", "vector", "another, but of smooth noise with exponential growth and no delta");
  }
  if (!code) throw new GeoveilError("unsupported", "await loadVectors() first");
  return code.smoothVector(tools, asked, privacy, declared, stepExponent);
}
