/** What a campaign asks of a device, estimated from its bytes before they are interpreted. */
import { parse } from "./campaign.js";
import { blocksOf } from "./canonical.js";
import { ParameterError } from "./errors.js";
import { Allocation, CampaignSchema, Growth, type Query, type Smooth } from "./gen/geoveil/proto/v1/campaign_pb.js";

export interface Demand {
  /** The number of questions, or of a form's fields; 0 for a campaign that asks for points. */
  readonly queries: number;
  /** An upper bound on processor time, in microseconds, by the protocol's estimate. */
  readonly work: number;
}

const DRAWN: Partial<Record<string, number>> = {
  debiasedLaplace: 80,
  smooth: 80,
  lipschitzLaplace: 80,
  planarLaplace: 80,
};

const ASKED: Partial<Record<string, readonly [read: number, drawn: number]>> = {
  threshold: [60, 0],
  range: [60, 0],
  twoWayThreshold: [60, 0],
  disc: [60, 0],
  polygon: [310, 100],
  gaussianKernel: [60, 0],
  radial: [700, 1200],
  linear: [700, 1200],
};

/**
 * To read a field, besides 1 for every 2 bytes; to draw a point; to draw one of some options, and more
 * for each option.
 */
const [FIELD, POINT, OPTIONS, OPTION] = [300, 160, 60, 2];

export function demandOf(campaign: Uint8Array): Demand {
  const { mechanism, queries, allocation, fields } = parse(CampaignSchema, campaign, "campaign");
  if (fields.length) {
    const sizes = blocksOf(campaign, 16).map((block) => block.length);
    const each = fields.map(({ kind }, i) => {
      const options = kind.case && kind.case !== "point" ? kind.value.options.length : 0;
      return FIELD + Math.floor((sizes[i] ?? 0) / 2) + (options ? OPTIONS + OPTION * options : POINT);
    });
    return { queries: fields.length, work: each.reduce((sum, x) => sum + x, 0) };
  }
  const plain = DRAWN[mechanism?.kind.case ?? ""];
  if (!mechanism || plain === undefined) throw new ParameterError("mechanism", mechanism?.kind.case, "one that is known");
  const answer = plain + (mechanism.kind.case === "smooth" ? dearer(mechanism.kind.value) : 0);
  let read = 0;
  const sizes = blocksOf(campaign, 5).map((block) => block.length);
  const drawn = queries.map((query, i) => {
    const work = workOf(query);
    const size = sizes[i] ?? 0;
    read += work[0] + Math.floor(size / 2);
    return answer + (work[1] ? work[1] + Math.floor(size / 10) : 0);
  });
  let most = drawn.reduce((sum, x) => sum + x, 0);
  if (!drawn.length) most = mechanism.kind.case === "planarLaplace" ? answer * mechanism.kind.value.dimension : 0;
  else if (allocation === Allocation.PARTITION) most = Math.max(...drawn);
  read += Math.floor((blocksOf(campaign, 6)[0]?.length ?? 0) / 12);
  return { queries: queries.length, work: read + most };
}

/** The extra cost of noise without a closed quantile, and of bounds other than the local slope. */
function dearer({ noise, reach, growth }: Smooth): number {
  const inverted = noise.case === "studentT" || noise.case === "generalizedCauchy";
  return (inverted ? 300 : 0) + (reach !== undefined || growth === Growth.LINEAR ? 200 : 0);
}

function workOf({ kind }: Query): readonly [number, number] {
  const found = ASKED[kind.case ?? ""];
  if (!found) throw new ParameterError("kind", kind.case, "one of those that devices answer");
  return found;
}
