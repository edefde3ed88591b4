/** No schedule spends more in a window than its sentence says: what leaves in any stretch of time. */
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Client } from "../src/client.js";
import { GeoveilError } from "../src/errors.js";
import { type ReportResult, ReportResultSchema, ReportStatus } from "../src/gen/geoveil/proto/v1/report_pb.js";
import { exactRate } from "../src/gp/mechanism.js";
import { Rational, ZERO } from "../src/exact/rational.js";
import { FileStorage } from "../src/node.js";
import { describeEpoch, type GeoPrivacy, type Limit, Policy, type Window } from "../src/policy.js";
import { Readings } from "../src/readings.js";
import { type Entry, IndexedDbStorage, type Journal, MemoryStorage, type Storage } from "../src/storage.js";
import { emptyFolder } from "./files.js";
import { incomes, publishing } from "./sequences.js";

const DAY = 86_400_000;
const OPENS = Date.UTC(2026, 0, 1);
const dollars = (epsilon: number): GeoPrivacy => ({ epsilon, per: 8000, unit: "dollar" });

/** Numbers in [0, 1), the same for a seed: mulberry32. */
function uniform(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Telling {
  at: number;
  draw: string;
  privacy: GeoPrivacy;
}

/** One state, as a ledger sees it that goes by when reports were drawn: none waits. */
function byDraw(kept: Storage): Storage {
  const seen = (work: Parameters<Storage["exclusively"]>[0]) => (journal: Journal) =>
    work({
      ...journal,
      entries: async () => (await journal.entries()).map((e) => ({ ...e, status: "acknowledged", settledUs: e.drawnUs })),
    });
  return { persistent: false, exclusively: <T>(work: (journal: Journal) => Promise<T>) => kept.exclusively(seen(work)) as Promise<T> };
}

/** Live for a while; return the window, and all that left. */
async function lived(random: () => number, storage: Storage, plain: Storage): Promise<{ window: Window; told: Telling[]; refused: number }> {
  const choice = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const window = { limit: dollars(choice([0.5, 1, 1.5])), lengthMs: choice([3, 10, 30]) * DAY };
  const shared = random() < 0.7;
  const epoch = shared ? { privacy: dollars(0.5), lengthMs: choice([2, 8, 25]) * DAY } : undefined;
  const limit: Limit = { campaign: dollars(1e6), windows: [window], epoch };
  const everyUs = choice([5, 10, 30]) * DAY * 1000;
  const periodUs = choice([1, 3, 7]) * DAY * 1000;
  const envelopes: Record<string, Uint8Array> = {};
  const names = ["a", "b", "c"].slice(0, 1 + Math.floor(random() * 3));
  for (const name of names) {
    const kind = choice(["own", "question", "moved on"]);
    const asked = { rate: dollars(choice([0.25, 0.5])), nests: kind !== "own", step_exponent: -26 };
    envelopes[name] = incomes(name, { ...asked, every_us: kind === "moved on" ? everyUs : null, extrapolated: kind === "moved on" }, OPENS * 1000, periodUs);
  }
  let now = OPENS;
  const policy = new Policy({ limits: { "household income": limit } });
  const client = new Client({ server: publishing(envelopes), policy, storage, background: false, releaseFloorMs: 0, now: () => now });
  const told: Telling[] = [];
  let refused = 0;
  for (let i = 0; i < 24; i += 1) {
    now += choice([0.01, 0.5, 1, 2, 5, 11, 29]) * DAY;
    try {
      await client.contribute(choice(names), 50_000);
    } catch (error) {
      if (!(error instanceof GeoveilError)) throw error;
      assert.ok(["budget-exceeded", "answer-not-yet"].includes(error.code), error.message);
      refused += Number(error.code === "budget-exceeded");
    }
    await plain.exclusively(async (journal) => {
      for (const entry of (await journal.entries()).filter(({ status }) => status === "pending")) {
        if (random() < 0.4) continue; // no network
        now += DAY / 1000;
        told.push(...tellings(entry, shared).map((draw) => ({ at: now, draw, privacy: dollars(entry.charges[0]!.epsilon) })));
        // Else the answer is lost, and the report will leave again.
        if (random() < 0.6) await journal.settle({ ...entry, status: "acknowledged", settledUs: `${Math.floor(now * 1000)}` });
      }
    });
  }
  return { window, told, refused };
}

/** Of which draws a report tells: itself, or the readings that it was made from. */
function tellings({ campaignId, period, epochUs, beforeUs }: Entry, shared: boolean): string[] {
  if (epochUs === undefined) return [`${campaignId}/${period}`];
  return [epochUs, beforeUs].filter((began) => began !== undefined).map((began) => `${shared ? "" : campaignId} ${began}`);
}

/** Whether some stretch of time costs more than a window permits. */
function exceeded({ window, told }: { window: Window; told: Telling[] }): boolean {
  return told.some(({ at: start }) => {
    const draws = new Map(told.filter(({ at }) => start <= at && at < start + window.lengthMs).map((one) => [one.draw, one.privacy]));
    const rate = [...draws.values()].reduce((sum: Rational, privacy) => sum.add(exactRate(privacy)), ZERO);
    return rate.compare(exactRate(window.limit)) > 0;
  });
}

test("no schedule tells more in a window than it permits; counted by draws, some do", async () => {
  const random = uniform(1);
  let [refused, wrong] = [0, 0];
  for (let i = 0; i < 60; i += 1) {
    const storage = new MemoryStorage();
    const found = await lived(random, storage, storage);
    assert.ok(!exceeded(found), `schedule ${i}`);
    refused += found.refused;
  }
  assert.ok(refused > 50, "the limits were not tried");
  for (let i = 0; i < 20; i += 1) {
    const kept = new MemoryStorage();
    wrong += Number(exceeded(await lived(random, byDraw(kept), kept)));
  }
  assert.ok(wrong > 0, "the search finds nothing");
});

test("a client on a slow network sends nothing that another has sent, and a window has room for more", async () => {
  const envelopes = Object.fromEntries(
    ["a", "b", "c"].map((id) => [id, incomes(id, { rate: dollars(0.5), nests: false, step_exponent: -26, every_us: null, extrapolated: false }, OPENS * 1000, 7 * DAY * 1000)]),
  );
  const window = { limit: dollars(1), lengthMs: DAY / 24 };
  const policy = new Policy({ limits: { "household income": { campaign: dollars(1), windows: [window] } } });
  for (const control of [false, true]) {
    const kept = new MemoryStorage();
    // In the control a client sees the reports as they were when it looked first: all wait.
    const first = new Map<string, Entry>();
    const seen = (work: Parameters<Storage["exclusively"]>[0]) => (journal: Journal) =>
      work({
        ...journal,
        entries: async () => (await journal.entries()).map((e) => first.get(e.campaignId) ?? first.set(e.campaignId, e).get(e.campaignId)!),
      });
    const stale: Storage = { persistent: false, exclusively: <T>(work: (journal: Journal) => Promise<T>) => kept.exclusively(seen(work)) as Promise<T> };
    let now = OPENS + DAY;
    const told: Telling[] = [];
    let meanwhile: (() => Promise<void>) | undefined;
    const submit = async (draw: string): Promise<ReportResult> => {
      told.push({ at: now, draw, privacy: dollars(0.5) });
      const slow = meanwhile;
      meanwhile = undefined;
      await slow?.();
      return create(ReportResultSchema, { status: ReportStatus.ACCEPTED });
    };
    const device = (storage: Storage): Client =>
      new Client({ server: { ...publishing(envelopes), submit }, policy, storage, background: false, releaseFloorMs: 0, now: () => now });
    const [slow, quick] = [device(control ? stale : kept), device(kept)];
    for (const id of ["a", "b"]) await quick.contribute(id, 50_000);
    meanwhile = async () => {
      await quick.flush();
      now += 2 * window.lengthMs;
      await quick.contribute("c", 50_000);
      await quick.flush();
      now += window.lengthMs / 2;
    };
    const { pending } = await slow.flush();
    assert.equal(pending, 0);
    assert.equal(told.filter(({ draw }) => draw === "b").length, control ? 2 : 1);
    assert.equal(exceeded({ window: { ...window, limit: dollars(0.5) }, told: told.filter(({ at }) => at > OPENS + DAY) }), control);
  }
});

test("what another version kept is refused, and stays as it is", async () => {
  const opening = indexedDB.open("of-another-version", 1);
  await new Promise((resolve) => {
    opening.onupgradeneeded = () => opening.result.createObjectStore("reports");
    opening.onsuccess = resolve;
  });
  opening.result.close();
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { locks: {} } });
  await assert.rejects(IndexedDbStorage.open("of-another-version"), /can't be used/);
  const found = (await indexedDB.databases()).find(({ name }) => name === "of-another-version");
  assert.equal(found?.version, 1);

  const folder = emptyFolder();
  const line = '{"campaign":{"campaignId":"a","digest":"","envelope":""}}';
  const kept = (version: string): string => createHash("sha256").update(`${version}\n${line}`).digest("hex").slice(0, 32);
  await writeFile(join(folder, "journal.jsonl"), `${line} ${kept("4")}\n`);
  await FileStorage.open(folder);
  for (const version of ["", "3"]) {
    await writeFile(join(folder, "journal.jsonl"), `${line} ${kept(version)}\n`);
    await assert.rejects(FileStorage.open(folder), /another version/);
  }
});

/** How long "any ..." of a sentence is, in milliseconds, and the most that it says readings cost, in ε. */
function saidOf(sentence: string): { lengthMs: number; most: number } {
  const [, length] = /any (\S+) days touch two/.exec(sentence)!;
  const most = /cost at most ε = (\S+) per 8000/.exec(sentence)?.[1];
  return { lengthMs: Number(length) * DAY, most: Number(most) };
}

/** The most that readings of a stretch of time cost, in ε; a stretch is half open. */
function dearest(drawnMs: readonly number[], lengthMs: number, once: number): number {
  return once * Math.max(...drawnMs.map((start) => drawnMs.filter((at) => start <= at && at < start + lengthMs).length));
}

test("no schedule spends more on readings than people are told; told of one, or of a longer stretch, some do", async () => {
  const random = uniform(20_261_124);
  const [lengths, rates] = [[91, 364.9996, 29.99997, 0.5, 0.2083329], [0.123_456_49, 0.5, 1.000_000_4]];
  let [once, longer] = [0, 0];
  // Devices draw when their epochs begin: the search goes on until the longer stretch has shown once.
  for (let i = 0; i < 60 || (longer === 0 && i < 900); i += 1) {
    const own = i % 3 === 0;
    const lengthMs = Math.round(lengths[i % lengths.length]! * DAY);
    const rate = dollars(rates[i % rates.length]!);
    const epoch = { privacy: rate, lengthMs };
    const everyUs = own ? lengthMs * 1000 : null;
    const envelope = incomes("a", { rate, nests: true, step_exponent: -26, every_us: everyUs, extrapolated: false }, OPENS * 1000, 3600e6);
    const limit: Limit = { campaign: dollars(1e6), epoch: own ? undefined : epoch };
    const [storage, policy] = [new MemoryStorage(), new Policy({ limits: { "household income": limit } })];
    let now = OPENS;
    const client = new Client({ server: publishing({ a: envelope }), policy, storage, background: false, releaseFloorMs: 0, now: () => now });
    let began = (await client.contribute("a", 50_000)).epoch!.getTime();
    for (let j = 1; j < 14; j += 1) {
      // Anywhere, or at the two ends of a stretch: its last moment, and the first of the next but one.
      const at = OPENS + random() * 7 * lengthMs;
      const end = began + Math.ceil((at - began) / lengthMs) * lengthMs;
      now = random() < 0.1 ? at : end + (random() < 0.5 ? -30 : 2);
      began = (await client.contribute("a", 50_000)).epoch!.getTime();
    }
    const entries = await storage.exclusively((journal) => journal.entries());
    const drawn = entries.flatMap(({ reading, drawnUs }) => (reading ? [Number(drawnUs) / 1000] : []));
    const told = saidOf(own ? String(new Readings(BigInt(everyUs!), false, 0)) : describeEpoch(epoch));
    const most = own ? 2 * rate.epsilon : told.most;
    assert.ok(told.lengthMs <= lengthMs && told.lengthMs >= lengthMs * (1 - 1e-5), `schedule ${i}`);
    assert.ok(dearest(drawn, told.lengthMs, rate.epsilon) <= most, `schedule ${i}`);
    const [budget] = await client.budgets();
    assert.ok(Math.abs(budget!.spent - drawn.length * rate.epsilon) < 1e-9, `schedule ${i}`);
    once += Number(dearest(drawn, told.lengthMs, rate.epsilon) > rate.epsilon);
    longer += Number(dearest(drawn, Number((lengthMs / DAY).toPrecision(6)) * DAY, rate.epsilon) > most);
    client.close();
  }
  assert.ok(once > 20 && longer > 0, `the search finds nothing: ${once}, ${longer}`);
});
