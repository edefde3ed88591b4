/** Contributions over epochs, replayed: which reading answers each, what is spent, what is refused. */
import assert from "node:assert/strict";
import { create, toBinary } from "@bufbuild/protobuf";
import { Client } from "../src/client.js";
import { AnswerNotYet, GeoveilError } from "../src/errors.js";
import {
  Allocation,
  CampaignEnvelopeSchema,
  CampaignSchema,
  Profile,
} from "../src/gen/geoveil/proto/v1/campaign_pb.js";
import { BudgetExceeded } from "../src/ledger.js";
import { type GeoPrivacy, type Limit, Policy } from "../src/policy.js";
import { MemoryStorage, type Storage } from "../src/storage.js";
import type { Transport } from "../src/transport.js";
import { Tape } from "./files.js";

interface Pair {
  epsilon: number;
  per: number;
}

interface Asked {
  rate: Pair;
  nests: boolean;
  step_exponent: number;
  every_us: number | null;
  extrapolated: boolean;
}

export interface Sequence {
  name: string;
  limits: {
    campaign: Pair;
    lifetime: Pair;
    windows: (Pair & { length_us: number })[];
    epoch: (Pair & { length_us: number; finest: Pair | null }) | null;
  }[];
  campaigns: Record<string, Asked>;
  opens_us: number;
  period_us: number;
  operations: {
    at_us: number;
    campaign: string;
    limit: number;
    verdict: "kept" | "refused" | "not permitted" | "not yet";
    fresh?: boolean;
    read?: boolean;
    begins_us?: number | null;
    bits?: string;
    answers?: [number, string][];
    scope?: string;
    frees_us?: number | null;
    starts_us?: number;
    spent: number;
    /** Whether all that waits is counted then. */
    delivers: boolean;
  }[];
}

const seconds = (us: number): { seconds: bigint; nanos: number } => ({ seconds: BigInt(Math.floor(us / 1e6)), nanos: (us % 1e6) * 1000 });

/** The envelope of a recurring question about one income. */
export function incomes(campaignId: string, asked: Asked, opensUs: number, periodUs: number): Uint8Array {
  const campaign = create(CampaignSchema, {
    campaignId,
    title: "above",
    attribute: { name: "household income", unit: "dollar" },
    privacy: asked.rate,
    queries: [{ label: "above", kind: { case: "threshold", value: { at: 50_000, width: 40_000, profile: Profile.SMOOTHSTEP } } }],
    mechanism: { kind: { case: asked.nests ? "debiasedLaplace" : "lipschitzLaplace", value: {} } },
    allocation: Allocation.PARTITION,
    grid: { stepExponent: asked.step_exponent },
    opens: seconds(opensUs),
    closes: seconds(opensUs + 3_000 * 86_400e6),
    period: seconds(periodUs),
    ...(asked.every_us !== null && { readings: { every: seconds(asked.every_us), extrapolated: asked.extrapolated } }),
  });
  return toBinary(CampaignEnvelopeSchema, create(CampaignEnvelopeSchema, { campaign: toBinary(CampaignSchema, campaign) }));
}

/** Answers with campaigns, and counts nothing. */
export function publishing(envelopes: Record<string, Uint8Array>): Transport {
  return {
    campaign: (id) => Promise.resolve({ envelope: envelopes[id]!, closed: false }),
    browse: () => Promise.resolve([]),
    submit: () => Promise.reject(new Error("nothing is sent")),
  };
}

/** The limit that a sequence states. */
function limitOf({ campaign, lifetime, windows, epoch }: Sequence["limits"][number]): Limit {
  const dollars = (rate: Pair): GeoPrivacy => ({ epsilon: rate.epsilon, per: rate.per, unit: "dollar" });
  return {
    campaign: dollars(campaign),
    lifetime: dollars(lifetime),
    windows: windows.map((w) => ({ limit: dollars(w), lengthMs: w.length_us / 1000 })),
    epoch: epoch
      ? { privacy: dollars(epoch), lengthMs: epoch.length_us / 1000, finest: epoch.finest ? dollars(epoch.finest) : undefined }
      : undefined,
  };
}

const VERDICTS: Record<string, string> = { "budget-exceeded": "refused", "policy-refused": "not permitted", "answer-not-yet": "not yet" };

/** Live through a sequence; throws where something else comes of it. */
export async function replayed(sequence: Sequence, storage: Storage = new MemoryStorage()): Promise<void> {
  const entries = Object.entries(sequence.campaigns);
  const server = publishing(
    Object.fromEntries(entries.map(([id, asked]) => [id, incomes(id, asked, sequence.opens_us, sequence.period_us)])),
  );
  for (const [i, told] of sequence.operations.entries()) {
    const where = `${sequence.name}, ${i}`;
    const limit = limitOf(sequence.limits[told.limit]!);
    const source = new Tape(told.bits ?? "");
    const policy = new Policy({ limits: { "household income": limit } });
    const client = new Client({ server, policy, storage, source, background: false, releaseFloorMs: 0, now: () => told.at_us / 1000 });
    const before = await readings(storage);
    try {
      const receipt = await client.contribute(told.campaign, 50_000);
      const epoch = (await client.history()).find((one) => one.reportId === receipt.reportId)!.epoch;
      assert.equal("kept", told.verdict, where);
      assert.equal(receipt.fresh, told.fresh, where);
      assert.equal((await readings(storage)) > before, told.read, where);
      const answers = receipt.answers.map(({ queryIndex, value }) => [queryIndex, value.toString()]);
      if (receipt.fresh) assert.deepEqual(answers, told.answers, where);
      assert.equal(source.left, 0, where);
      assert.equal(epoch?.getTime(), told.begins_us === null ? undefined : Math.floor(told.begins_us! / 1000), where);
    } catch (error) {
      if (!(error instanceof GeoveilError)) throw error;
      assert.equal(VERDICTS[error.code], told.verdict, `${where}: ${error.message}`);
      if (error instanceof AnswerNotYet) assert.equal(error.startsUs, BigInt(told.starts_us!), where);
      if (error instanceof BudgetExceeded) {
        assert.equal(error.scope, told.scope!.replace(/ days,.*/, " days"), where);
        assert.equal(error.freesUs ?? null, told.frees_us == null ? null : BigInt(told.frees_us), where);
      }
    }
    assert.equal((await client.budgets()).find(({ scope }) => scope === "lifetime")!.spent, told.spent, where);
    if (!told.delivers) continue;
    await storage.exclusively(async (journal) => {
      for (const entry of await journal.entries()) {
        if (entry.status === "pending") await journal.settle({ ...entry, status: "acknowledged", settledUs: `${told.at_us}` });
      }
    });
  }
}

async function readings(storage: Storage): Promise<number> {
  return (await storage.exclusively((journal) => journal.entries())).filter(({ reading }) => reading).length;
}
