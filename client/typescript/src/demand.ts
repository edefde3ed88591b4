/** What a campaign asks of a device, told from its bytes before anything is made of them. */
import { parse } from "./campaign.js";
import { blocksOf } from "./canonical.js";
import { ParameterError } from "./errors.js";
import { Allocation, CampaignSchema, type Query } from "./gen/geoveil/proto/v1/campaign_pb.js";

export interface Demand {
  /** Questions; 0 of a campaign that asks for points. */
  readonly queries: number;
  /** Microseconds of a processor, at most, by the reckoning of the protocol. */
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

export function demandOf(campaign: Uint8Array): Demand {
  const { mechanism, queries, allocation } = parse(CampaignSchema, campaign, "campaign");
  const answer = DRAWN[mechanism?.kind.case ?? ""];
  if (!mechanism || answer === undefined) throw new ParameterError("mechanism", mechanism?.kind.case, "one that is known");
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

function workOf({ kind }: Query): readonly [number, number] {
  const found = ASKED[kind.case ?? ""];
  if (!found) throw new ParameterError("kind", kind.case, "one of those that devices answer");
  return found;
}
