import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Campaign } from "../src/campaign.js";
import { Client, type ClientOptions } from "../src/client.js";
import { openEnvelope } from "../src/envelope.js";
import { AnswerNotYet, GeoveilError, ParameterError } from "../src/errors.js";
import { type BitSource, systemSource } from "../src/exact/bits.js";
import { FileStorage } from "../src/node.js";
import { describeEpoch, type Epoch, type GeoPrivacy, type Limit, Policy } from "../src/policy.js";
import { whatIsSent } from "../src/questions.js";
import { movedOn, Readings } from "../src/readings.js";
import { IndexedDbStorage, type Journal, MemoryStorage, type Storage } from "../src/storage.js";
import { emptyFolder, vectors } from "./files.js";
import { incomes, publishing, replayed, type Sequence } from "./sequences.js";
import { bytesOf } from "./tuples.js";

const OPENS = Date.UTC(2026, 0, 1);
const DAY = 86_400_000;
const dollars = (epsilon: number): GeoPrivacy => ({ epsilon, per: 8000, unit: "dollar" });
const idOf = (epsilon: number): string => `at-${epsilon}`.replace(".", "_");
const asked = (epsilon: number, everyDays: number | null = null, extrapolated = false): Uint8Array =>
  incomes(idOf(epsilon), { rate: dollars(epsilon), nests: true, step_exponent: -26, every_us: everyDays && everyDays * DAY * 1000, extrapolated }, OPENS * 1000, 7 * DAY * 1000);

const locks = { request: (_: string, work: () => Promise<unknown>) => (queue = queue.then(work, work)) };
let queue: Promise<unknown> = Promise.resolve();
Object.defineProperty(globalThis, "navigator", { configurable: true, value: { locks } });

/** Lays epochs of 30 and of 365 days from the first contribution on: their bits have a length of their own. */
const source: BitSource = { bits: (count) => (count === 42 || count === 45 ? 0n : systemSource.bits(count)) };
const yearly: Epoch = { privacy: dollars(1), lengthMs: 365 * DAY };
function client(envelopes: Record<string, Uint8Array>, options: Partial<ClientOptions> = {}, limit: Partial<Limit> = {}): Client {
  const of = { campaign: dollars(10), lifetime: dollars(100), epoch: yearly, ...limit };
  return new Client({
    server: publishing(envelopes),
    policy: new Policy({ limits: { "household income": of } }),
    background: false,
    releaseFloorMs: 0,
    source,
    now: () => OPENS + DAY,
    ...options,
  });
}

async function kept(storage: Storage): Promise<{ readings: string[]; points: string[]; spent: number }> {
  const entries = await storage.exclusively((journal) => journal.entries());
  const readings = entries.flatMap(({ reading }) => (reading ? [reading.point.join()] : []));
  const points = entries.flatMap(({ campaignId, points }) => (points ?? []).map((p) => `${campaignId} ${p.point.join()}`));
  const [budget] = await client({}, { storage }).budgets();
  return { readings, points, spent: budget!.spent };
}

test("sequences of contributions over epochs go as the vectors say", async () => {
  const told = vectors<Sequence>("epochs.json", "epochs").filter(({ operations }) => operations);
  assert.ok(told.length >= 6);
  for (const sequence of told) await replayed(sequence);
  const storage = await FileStorage.open(emptyFolder());
  await replayed(told[0]!, storage);
  // Each word that is changed is noticed.
  const first = told.find(({ operations }) => operations.some(({ read }) => read))!;
  const at = first.operations.findIndex(({ read }) => read);
  for (const change of [{ read: false }, { begins_us: first.operations[at]!.begins_us! + 1e6 }, { spent: 7 }, { verdict: "refused" as const }]) {
    const operations = first.operations.map((one, i) => (i === at ? { ...one, ...change } : one));
    await assert.rejects(replayed({ ...first, operations }));
  }
});

const storages: Record<string, () => Promise<Storage[]>> = {
  memory: async () => {
    const one = new MemoryStorage();
    return Promise.resolve([one, one]);
  },
  "a file": async () => {
    const folder = emptyFolder();
    return [await FileStorage.open(folder), await FileStorage.open(folder)];
  },
  IndexedDB: async () => {
    const name = `epochs ${Math.random()}`;
    return [await IndexedDbStorage.open(name), await IndexedDbStorage.open(name)];
  },
};

for (const [name, open] of Object.entries(storages)) {
  test(`ten campaigns and their weeks, asked of two devices at once, share one reading: ${name}`, async () => {
    const both = await open();
    const rates = [1, 0.5, 0.25, 0.125, 0.75];
    const envelopes = Object.fromEntries(rates.map((epsilon) => [idOf(epsilon), asked(epsilon)]));
    for (const week of [0, 1]) {
      const now = (): number => OPENS + DAY * (1 + 7 * week);
      const devices = both.map((storage) => client(envelopes, { storage, now }));
      const receipts = await Promise.all(rates.flatMap((epsilon) => devices.map((d, i) => d.contribute(idOf(epsilon), 1000 * i))));
      assert.equal(new Set(receipts.map((one) => one.reportId)).size, rates.length);
      assert.equal(receipts.filter((one) => one.fresh).length, rates.length);
      assert.equal(new Set(receipts.map((one) => one.epoch!.getTime())).size, 1);
      assert.ok(receipts.every((one) => one.charges[0]!.epsilon === 1));
    }
    const { readings, points, spent } = await kept(both[0]!);
    assert.deepEqual([readings.length, points.length, spent], [1, rates.length, 1]);
    // Control: without an epoch each week of each costs its own.
    const fresh = new MemoryStorage();
    for (const epsilon of rates) await client(envelopes, { storage: fresh }, { epoch: undefined }).contribute(idOf(epsilon), 1);
    assert.equal((await kept(fresh)).spent, 2.625);
  });
}

test("a device that dies between draw and write keeps nothing, and after it everything", async () => {
  const storage = new MemoryStorage();
  const dying = (when: "before" | "after"): Storage => ({
    persistent: false,
    exclusively: (work) =>
      storage.exclusively((journal) => {
        const add = async (entry: Parameters<Journal["add"]>[0]): Promise<void> => {
          if (when === "after") await journal.add(entry);
          throw new Error("killed");
        };
        return work({ ...journal, add });
      }),
  });
  const envelopes = { "at-1": asked(1), "at-0_5": asked(0.5) };
  for (let i = 0; i < 5; i++) await assert.rejects(client(envelopes, { storage: dying("before") }).contribute("at-0_5", 1), /killed/);
  assert.deepEqual(await kept(storage), { readings: [], points: [], spent: 0 });
  await assert.rejects(client(envelopes, { storage: dying("after") }).contribute("at-0_5", 1), /killed/);
  const first = await kept(storage);
  assert.deepEqual([first.readings.length, first.points.length, first.spent], [1, 1, 1]);
  const { fresh } = await client(envelopes, { storage }).contribute("at-0_5", 2);
  assert.equal(fresh, false);
  await client(envelopes, { storage }).contribute("at-1", 3);
  const last = await kept(storage);
  assert.deepEqual([last.readings, last.points.length, last.spent], [first.readings, 2, 1]);
});

test("within an epoch no value is looked at, and none is kept", async () => {
  const folder = emptyFolder();
  const storage = await FileStorage.open(folder);
  const envelopes = { "at-1": asked(1), "at-0_5": asked(0.5) };
  const device = client(envelopes, { storage });
  const wrong = await device.contribute("at-1", Number.NaN).catch((error: GeoveilError) => error.code);
  assert.equal(wrong, "private-value");
  assert.deepEqual(await kept(storage), { readings: [], points: [], spent: 0 });
  const secret = 123_456.789;
  await device.contribute("at-1", secret);
  await device.contribute("at-0_5", Number.NaN);
  const files = await Promise.all((await readdir(folder)).map((file) => readFile(join(folder, file), "utf8")));
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(secret);
  for (const trace of ["123456", bytes.toString("hex")]) assert.ok(!files.join().includes(trace));
});

test("a campaign with readings of its own shares them with nobody, and charges each", async () => {
  const storage = new MemoryStorage();
  const envelopes = { "at-1": asked(1, 30), "at-0_5": asked(0.5, 30), "at-0_25": asked(0.25) };
  for (const day of [1, 8, 40]) {
    const device = client(envelopes, { storage, now: () => OPENS + day * DAY }, { epoch: undefined });
    for (const id of Object.keys(envelopes)) await device.contribute(id, 50_000);
  }
  const { readings, points, spent } = await kept(storage);
  assert.equal(readings.length, 4);
  assert.equal(points.length, 4);
  assert.equal(spent, 2 * 1 + 2 * 0.5 + 3 * 0.25);
});

test("an answer goes on from the reading drawn last that is as fine as the campaign asks, and as old", async () => {
  const storage = new MemoryStorage();
  const envelopes = { "at-0_75": asked(0.75, 30, true), "at-1": asked(1), "at-0_5": asked(0.5) };
  const on = (day: number, id: string, epsilon: number): Promise<unknown> =>
    client(envelopes, { storage, now: () => OPENS + day * DAY }, { epoch: { ...yearly, privacy: dollars(epsilon) } }).contribute(id, 50_000);
  await on(1, "at-0_75", 1);
  await assert.rejects(on(9, "at-0_75", 1), (error: Error) => error instanceof AnswerNotYet && error.startsUs === BigInt(OPENS + 366 * DAY) * 1000n);
  await on(366, "at-1", 1);
  await on(731, "at-0_5", 0.5);
  await on(1096 + 100, "at-1", 1);
  for (const day of [1200, 1400]) await on(day, "at-0_75", 1);
  const entries = await storage.exclusively((journal) => journal.entries());
  const [first, second, , last] = entries.map(({ reading }) => reading?.beginsUs);
  assert.deepEqual(entries[0]!.points!.map(({ beginsUs }) => beginsUs), [first]);
  assert.deepEqual(entries[4]!.points!.map(({ beginsUs }) => beginsUs), [last, second]);
  // On the last day of its epoch: the second reading is 830 days before the last, the first too old to be needed.
  assert.deepEqual(entries[5]!.points, []);
});

test("an app's epoch must be one, and campaigns above it are refused", async () => {
  const wrong: Partial<Limit>[] = [
    { epoch: { privacy: dollars(11), lengthMs: DAY } },
    { epoch: { privacy: dollars(1), lengthMs: 0 } },
    { epoch: { privacy: dollars(1), lengthMs: Number.NaN } },
    { epoch: { privacy: dollars(1), lengthMs: 36_526 * DAY } },
    { epoch: { privacy: { ...dollars(1), unit: "euro" }, lengthMs: DAY } },
    { epoch: { ...yearly, finest: dollars(2) } },
    { value: { kind: "point", dimension: 4 } },
  ];
  for (const limit of wrong) assert.throws(() => client({}, {}, limit), ParameterError, JSON.stringify(limit));
  const finest = client({ "at-1": asked(1), "at-0_5": asked(0.5) }, {}, { epoch: { ...yearly, finest: dollars(0.5) } });
  await assert.rejects(finest.contribute("at-1", 1), /privacy loss in an epoch/);
  assert.equal((await finest.contribute("at-0_5", 1)).charges[0]!.epsilon, 1);
  // Raised in the middle of an epoch: until its end the reading is too coarse.
  const storage = new MemoryStorage();
  const coarse = { epoch: { ...yearly, privacy: dollars(0.5) } };
  await client({ "at-0_5": asked(0.5) }, { storage }, coarse).contribute("at-0_5", 1);
  await assert.rejects(client({ "at-1": asked(1) }, { storage }).contribute("at-1", 1), /privacy loss in an epoch.*until/);
});

test("cohorts are told by when the epoch began, and nobody is asked", async () => {
  const told = vectors<{ name: string; envelope: string }>("epochs.json", "epochs").find((one) => one.envelope && one.name === "cohorts")!;
  const campaign = new Campaign((await openEnvelope(bytesOf(told.envelope))).campaign);
  assert.ok(campaign.cohorts === 7 && campaign.readings!.extrapolated);
  const policy = Policy.permitting({ campaign, demand: { queries: 2, work: 1000 } });
  const envelopes = { [campaign.id]: bytesOf(told.envelope) };
  const permits = (more: Partial<Limit>): Policy =>
    new Policy({ limits: { [campaign.attribute.name]: { campaign: dollars(1000), ...more } } });
  for (const more of [{ cohorts: 7 }, { cohorts: 14 }, { cohorts: 7, epoch: { privacy: dollars(1000), lengthMs: 60 * DAY } }]) {
    assert.equal(permits(more).check(campaign, undefined)[0]!.campaign.epsilon, 1000);
  }
  for (const more of [{}, { cohorts: 13 }, { cohorts: 7, epoch: { privacy: dollars(1000), lengthMs: 61 * DAY } }]) {
    assert.throws(() => permits(more).check(campaign, undefined), /cohort of a device/);
  }
  const epoch = { privacy: dollars(10), lengthMs: 60 * DAY, finest: dollars(5) };
  for (const more of [{ cohorts: 1 }, { cohorts: 17 }, { cohorts: 1.5 }, { cohorts: 7, epoch }]) {
    assert.throws(() => permits(more), ParameterError);
  }
  const now = (): number => campaign.opens.getTime() + 20 * DAY;
  const groups = new Set<number>();
  for (let i = 0; i < 60; i++) {
    const device = client(envelopes, { policy, now });
    const { answers, epoch } = await device.contribute(campaign.id, 50_000);
    const group = Math.floor(answers[0]!.queryIndex / campaign.columns);
    const share = (epoch!.getTime() / (60 * DAY)) % 1;
    assert.equal(group, Math.floor(share * 7));
    groups.add(group);
  }
  assert.equal(groups.size, 7);
});

test("what people are told is what Python says", () => {
  assert.equal(
    new Readings(BigInt(91 * DAY) * 1000n, true, 0).toString(),
    "Your value is read and perturbed once in each stretch of 91 days, when your device first answers in it; all reports" +
      " of the stretch are made from that, and continue the change between two readings, so that a report may tell of both. Your device draws at random when its stretches begin, so any" +
      " 91 days touch two of them.",
  );
  assert.ok(new Readings(60_000_000n, false, 0).toString().startsWith("Your value is read and perturbed once in each stretch of 0.000694444 days, "));
  assert.ok(describeEpoch({ ...yearly, lengthMs: 60_000 }).startsWith("read once in each stretch of 0.000694444 days, "));
  assert.equal(
    new Readings(BigInt(91 * DAY) * 1000n, true, 13).telling,
    "Your device also tells in which of 13 parts of 91 days its stretches begin. That stays the same, and distinguishes your" +
      " reports of all stretches from those of 12 in 13 other people.",
  );
  assert.equal(
    describeEpoch(yearly),
    "read once in each stretch of 365 days, when it is first asked for, at ε = 1 per 8000 dollar; any 365 days touch two" +
      " stretches, so that their readings cost at most ε = 2 per 8000 dollar (separately for each area of places, least value" +
      " of ratios, and number of coordinates). Answers without a reading cost their own ε",
  );
});

test("a page tells people of the app's readings where they answer, not of the campaign's", async () => {
  const policy = new Policy({ limits: { "household income": { campaign: dollars(10), epoch: yearly } } });
  const campaign = new Campaign((await openEnvelope(asked(0.5, 300))).campaign);
  const said = whatIsSent(campaign, [], policy.epochOf(campaign)).join(" ");
  assert.match(said, /any 365 days touch two stretches, so that their readings cost at most ε = 2 per 8000 dollar/);
  assert.doesNotMatch(said, /300 days/);
  const none = new Policy({ limits: { "household income": { campaign: dollars(10) } } });
  assert.match(whatIsSent(campaign, [], none.epochOf(campaign)).join(" "), /any 300 days touch two/);
});

test("answers are moved on in whole numbers, halves upwards, within 64 bits", () => {
  assert.equal(movedOn(10n, 4n, 1n, 2n), 13n);
  const expected = (y: number, was: number, age: number, gap: number): number => y + Math.floor((Math.min(Math.max(age, 0), gap) / gap) * (y - was) + 0.5);
  for (const y of [-3, 0, 5]) {
    for (const was of [-8, 1, 6]) {
      for (const age of [-1, 0, 1, 2, 3, 4, 9]) {
        assert.equal(movedOn(BigInt(y), BigInt(was), BigInt(age), 4n), BigInt(expected(y, was, age, 4)));
      }
    }
  }
  assert.equal(movedOn(2n ** 62n, -(2n ** 62n), 9n, 1n), 2n ** 63n - 1n);
});
